"""The methods that are compared, and the names that the command line gives them."""

from __future__ import annotations

import re

from ....exchanges import BUFFERS, EXCHANGES
from ....schedules import NAMES
from .gemr2d import gemr2d
from .method import Method, Planned, Prepared, planned
from .others import OTHERS

__all__ = ["DEFAULT_METHODS", "Method", "Planned", "Prepared", "named_methods", "read_method"]

DEFAULT_METHODS = ("auto", "pxgemr2d", "caterpillar/sendrecv", "memcpy")
OTHER_LIBRARY = re.compile(r"pxgemr2d(=(?P<path>.+?)(:(?P<prefix>\w+))?)?")


def read_method(name: str) -> Method:
    """The method of that name. Not collective.

    Raises
    ------
    ValueError
        There is none; lists those that there are.
    """
    if name in OTHERS:
        return OTHERS[name]
    library = OTHER_LIBRARY.fullmatch(name)
    if library:
        return gemr2d(name, library["path"], library["prefix"] or "")
    parts = name.split("/")
    if len(parts) in (2, 3):
        known = (("auto", *NAMES), ("auto", *EXCHANGES), tuple(BUFFERS))
        for what, part, names in zip(("schedule", "exchange", "buffers"), parts, known, strict=False):
            if part not in names:
                raise ValueError(
                    f"unknown {what} {part!r} of a method SCHEDULE/EXCHANGE[/BUFFERS]: there are {', '.join(names)}"
                )
    elif name != "auto":
        raise ValueError(
            f"unknown method {name!r}: there are auto, SCHEDULE/EXCHANGE[/BUFFERS] (as caterpillar/sendrecv), pxgemr2d, "
            "pxgemr2d=PATH[:PREFIX], gather-scatter, mpi-waitall, mpi-alltoallv, memcpy, bcast and alltoall"
        )
    return planned(name)


def named_methods(*names: str) -> tuple[Method, ...]:
    """The methods of a suite; an unknown schedule or exchange is told when it is to run. Not collective."""
    return tuple(planned(name) if "/" in name else read_method(name) for name in names)
