"""How the bytes of a redistribution move. Exchanges see messages and a communicator, never a Descriptor."""

from __future__ import annotations

import difflib

from ..errors import ScheduleError
from .exchange import Exchange, LocalArray, Progress
from .message import Message
from .nonblocking import Nonblocking
from .sendrecv import SendReceive

__all__ = ["EXCHANGES", "Exchange", "LocalArray", "Message", "Progress", "exchange_class"]

EXCHANGES: dict[str, type[Exchange]] = {one.name: one for one in (Nonblocking, SendReceive)}


def exchange_class(name: str) -> type[Exchange]:
    """The exchange of that name. Not collective.

    Raises
    ------
    ScheduleError
        The name is unknown.
    """
    if name not in EXCHANGES:
        near = difflib.get_close_matches(str(name), EXCHANGES, n=len(EXCHANGES), cutoff=0.0)
        raise ScheduleError(f"exchange = {name!r} is unknown; there are {', '.join(near)}, and auto")
    return EXCHANGES[name]
