"""The methods that are compared, and the names that the command line gives them."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...exchanges import EXCHANGES
from ...orders import ORDERS
from .collectives import AllToAll, Broadcast
from .gather_scatter import GatherScatter
from .gemr2d import Gemr2d
from .memcpy import Memcpy
from .method import Method, Prepared
from .ours import Ours

__all__ = ["DEFAULT_METHODS", "Method", "Prepared", "named_methods", "read_method"]

DEFAULT_METHODS = ("auto", "pxgemr2d", "caterpillar/sendrecv", "memcpy")
OTHERS: tuple[Callable[[], Method], ...] = (Gemr2d, Memcpy, GatherScatter, Broadcast, AllToAll)
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
    schedule, slash, exchange = name.partition("/")
    if slash:
        _check_one_of("schedule", schedule, ("auto", *ORDERS))
        _check_one_of("exchange", exchange, ("auto", *EXCHANGES))
        return Ours(name, schedule, exchange)
    raise ValueError(
        f"unknown method {name!r}: there are auto, SCHEDULE/EXCHANGE (as caterpillar/sendrecv), pxgemr2d, "
        "pxgemr2d=PATH[:PREFIX], gather-scatter, memcpy, bcast and alltoall"
    )


def named_methods(*names: str) -> tuple[Method, ...]:
    """The methods of a suite; an unknown schedule or exchange is told when it is to run. Not collective."""
    return tuple(Ours(name, *name.split("/", 1)) if "/" in name else read_method(name) for name in names)


def _check_one_of(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"unknown {what} {name!r} of a method SCHEDULE/EXCHANGE: there are {', '.join(known)}")
