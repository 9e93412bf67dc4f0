"""The methods that are compared, and the names that the command line gives them."""

from __future__ import annotations

import re
from collections.abc import Callable

from ....exchanges import BUFFERS, EXCHANGES
from ....schedules import NAMES
from .collectives import AllToAll, Broadcast
from .gather_scatter import GatherScatter
from .gemr2d import Gemr2d
from .memcpy import Memcpy
from .method import Method, Prepared
from .ours import Ours
from .plain_mpi import PlainAlltoallv, PlainWaitall

__all__ = ["DEFAULT_METHODS", "Method", "Prepared", "named_methods", "read_method"]

DEFAULT_METHODS = ("auto", "pxgemr2d", "caterpillar/sendrecv", "memcpy")
OTHERS: tuple[Callable[[], Method], ...] = (
    Gemr2d,
    Memcpy,
    GatherScatter,
    PlainWaitall,
    PlainAlltoallv,
    Broadcast,
    AllToAll,
)
OTHER_LIBRARY = re.compile(r"pxgemr2d=(?P<path>.+?)(?::(?P<prefix>\w+))?")


def read_method(name: str) -> Method:
    """The method of that name. Not collective.

    Raises
    ------
    ValueError
        There is none; lists those that there are.
    """
    if name == "auto":
        return Ours(name, "auto", "auto")
    for method in OTHERS:
        if name == method().name:
            return method()
    library = OTHER_LIBRARY.fullmatch(name)
    if library:
        return Gemr2d(library["path"], library["prefix"] or "")
    parts = name.split("/")
    if len(parts) in (2, 3):
        known = (("auto", *NAMES), ("auto", *EXCHANGES), tuple(BUFFERS))
        for what, part, names in zip(("schedule", "exchange", "buffers"), parts, known, strict=False):
            _check_one_of(what, part, names)
        return _ours(name)
    raise ValueError(
        f"unknown method {name!r}: there are auto, SCHEDULE/EXCHANGE[/BUFFERS] (as caterpillar/sendrecv), pxgemr2d, "
        "pxgemr2d=PATH[:PREFIX], gather-scatter, mpi-waitall, mpi-alltoallv, memcpy, bcast and alltoall"
    )


def named_methods(*names: str) -> tuple[Method, ...]:
    """The methods of a suite; an unknown schedule or exchange is told when it is to run. Not collective."""
    return tuple(_ours(name) if "/" in name else read_method(name) for name in names)


def _ours(name: str) -> Ours:
    schedule, exchange, buffers = (*name.split("/"), "packed")[:3]
    return Ours(name, schedule, exchange, buffers)


def _check_one_of(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(
            f"unknown {what} {name!r} of a method SCHEDULE/EXCHANGE[/BUFFERS]: there are {', '.join(known)}"
        )
