"""Exchanges: ways of moving the bytes of messages. They see messages and a communicator, never a Descriptor."""

from __future__ import annotations

from ..errors import ScheduleError, unknown
from .collective import Alltoallv, Alltoallw, Bruck, Ready
from .exchange import Cutting, Exchange, ExchangeOptions, Extents, Progress
from .message import BUFFERS, Boxes, ByteMessage, Form, Message, Run
from .node_packed import NodePacked
from .pipeline import Nonblocking, SendReceive, Synchronized, Windowed
from .shared import Shared

__all__ = [
    "BUFFERS",
    "EXCHANGES",
    "Boxes",
    "ByteMessage",
    "Cutting",
    "Exchange",
    "ExchangeOptions",
    "Extents",
    "Form",
    "Message",
    "Progress",
    "Run",
    "check_combination",
    "exchange_class",
]

EXCHANGES: dict[str, type[Exchange]] = {
    exchange.name: exchange
    for exchange in (
        *(Synchronized, Nonblocking, Ready, SendReceive, Windowed, Bruck, Alltoallv, Alltoallw, Shared, NodePacked),
    )
}


def exchange_class(name: str) -> type[Exchange]:
    """The exchange class of a name.

    Raises
    ------
    ScheduleError
        The name is unknown.
    """
    if name not in EXCHANGES:
        raise unknown("exchange", name, (*EXCHANGES, "auto"))
    return EXCHANGES[name]


def check_combination(schedule: str, one_port: bool, exchange: str, buffers: str) -> None:
    """Check that a schedule, an exchange and buffers fit together.

    Parameters
    ----------
    schedule, exchange, buffers : str
        The user's options; "auto" fits everything.
    one_port : bool
        Whether the schedule is one-port.

    Raises
    ------
    ScheduleError
        They do not; the text names alternatives.
    """
    if buffers not in BUFFERS:
        raise unknown("buffers", buffers, BUFFERS)
    if exchange == "auto":
        return
    chosen = exchange_class(exchange)
    if buffers not in chosen.supported_buffers and issubclass(chosen, Shared):
        raise ScheduleError(
            f"exchange = {exchange!r} moves bytes without MPI, so buffers = {buffers!r} is not possible: use buffers='packed'"
        )
    if buffers not in chosen.supported_buffers:
        raise ScheduleError(
            f"exchange = {exchange!r} takes one datatype for all processes, so buffers = {buffers!r} is not possible: use "
            "exchange='alltoallw', which takes one for each"
        )
    if schedule == "auto":
        return
    if not chosen.scheduled and schedule != "natural":
        raise ScheduleError(
            f"exchange = {exchange!r} leaves it to MPI which message goes when, so schedule = {schedule!r} would mean nothing: "
            "leave the schedule away, or use exchange='windowed', which keeps to it"
        )
    if chosen.needs_one_port and not one_port:
        raise ScheduleError(
            f"exchange = {exchange!r} pairs one send with one receive in each step, but in the schedule {schedule!r} several "
            "may send to one process at once: use a one-port schedule such as 'caterpillar', or exchange='nonblocking'"
        )
