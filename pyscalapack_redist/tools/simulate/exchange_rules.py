"""From messages to pieces, and the rule by which each exchange comes to them. The exchanges themselves say how many bytes a
piece has and how many pieces are in flight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...engine.scheduling import is_one_port
from ...errors import unknown
from ...exchanges import Cutting, Extents, Options, check_combination, exchange_class
from ...exchanges.exchange import MEMORY_LIMIT
from ...exchanges.nonblocking import Nonblocking
from ...exchanges.synchronized import awaited
from .flow import Pieces
from .rules import AnySource, Ints, Rule, Spread, Stages, Window
from .traffic import Messages

__all__ = ["EXCHANGES", "Sizes", "Work", "check_method", "work_of"]

EXCHANGES = ("sendrecv", "synchronized", "windowed", "nonblocking", "alltoallv", "alltoallw")
RECEIVE_FIRST = ("synchronized",)  # a permission may go out before the own request: see `Machine.turns_after`


@dataclass(frozen=True)
class Sizes:
    """What the user asks for in place of the engine's own sizes, for `windowed`.

    Attributes
    ----------
    window : int or None
        Pieces in flight each way.
    piece : int or None
        Bytes of a piece.
    receives : int or None
        Receives posted, of messages one after another; with one of them, and a window of 1, a process has one port each way.
    spread : bool
        Whether the pieces in flight are few of each of many messages, where `receives` is not given.
    """

    window: int | None = None
    piece: int | None = None
    receives: int | None = None
    spread: bool = False


@dataclass(frozen=True)
class Work:
    """What a method lets through, and by which rule.

    Attributes
    ----------
    pieces : Pieces
        In the global order.
    stage : ndarray or None
        Of each piece, where a process has at most one to send and one to receive in a stage and waits for both.
    turns : bool
        Whether two processes' messages to each other may have to take turns.
    """

    pieces: Pieces
    stage: Ints | None
    turns: bool
    _exchange: str
    _window: int
    _posted_receives: int
    _order: Ints
    _message: Ints  # of each piece
    _each: int | None  # pieces of a message under way; None where message comes after message

    def rule(self) -> Rule:
        """A fresh rule: it is used up by a simulation. Not collective."""
        sender, receiver = self.pieces.sender, self.pieces.receiver
        if self._exchange == "synchronized":
            return AnySource(sender, receiver, _awaited(sender, receiver, self._order))
        if self._each:
            return Spread(sender, receiver, self._message, self._window, self._each)
        if self._window:
            return Window(sender, receiver, self._window, self._posted_receives)
        return Stages(sender, receiver, self._order)


def check_method(schedule: str, exchange: str) -> None:
    """Refuse what cannot be simulated; the schedule "auto" goes with every exchange. Not collective.

    Raises
    ------
    ScheduleError
        Says why, and what to use instead.
    """
    if exchange not in EXCHANGES:
        raise unknown("exchange", exchange, EXCHANGES)
    if schedule != "auto":
        check_combination(schedule, is_one_port(schedule), exchange, "packed")


def work_of(exchange: str, messages: Messages, item: int, sizes: Sizes) -> Work:
    """The pieces of an exchange, and its rule. Not collective.

    Parameters
    ----------
    exchange : str
        A name in `EXCHANGES`.
    messages : Messages
        What is to go.
    item : int
        Bytes of an element.
    sizes : Sizes
        Of pieces and windows.

    Raises
    ------
    ScheduleError
        The exchange is not one that is simulated.
    """
    if exchange not in EXCHANGES:
        raise unknown("exchange", exchange, EXCHANGES)
    cls = exchange_class(exchange)
    longest = int(messages.size.max(initial=1))
    extents = Extents(_most_messages(messages), longest)
    cutting = Cutting(sizes.piece, sizes.window, sizes.spread and not sizes.receives)
    options = Options(MEMORY_LIMIT, extents=extents, item=item, cutting=cutting)
    step = np.full(messages.count, max(1, cls.largest_piece(options) // item))
    if exchange == "synchronized":  # its processes count messages, which therefore go whole here
        step[:] = longest
    window = posted_receives = 0
    each = None
    if issubclass(cls, Nonblocking):
        lengths, place = np.unique(messages.size, return_inverse=True)
        of_length = [max(1, cls.piece_bytes(options, length * item) // item) for length in lengths.tolist()]
        step = np.array(of_length, np.int64)[place]
        posted_receives, window = cls.in_flight(options, min(int(step.max(initial=1)), longest) * item)
        each = cls.for_a_peer(options)
        if exchange == "windowed" and sizes.receives:
            posted_receives = sizes.receives
    count = -(-messages.size // step)
    which = np.repeat(np.arange(messages.count), count)
    number = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    size = np.minimum(messages.size[which] - number * step[which], step[which])
    pieces = Pieces(messages.sender[which], messages.receiver[which], size.astype(np.float64) * item)
    turns = exchange in RECEIVE_FIRST
    if exchange.startswith("alltoall"):
        return Work(pieces, None, turns, exchange, 0, 0, number, which, None)
    if exchange == "sendrecv":
        stage = messages.step[which] * (1 + int(number.max(initial=0))) + number
        return Work(pieces, stage, turns, exchange, 0, 0, stage, which, None)
    return Work(pieces, None, turns, exchange, window, posted_receives, messages.step[which], which, each)


def _most_messages(messages: Messages) -> int:
    """The most that one rank sends or receives."""
    return max(int(np.bincount(side).max(initial=0)) for side in (messages.sender, messages.receiver))


def _awaited(sender: Ints, receiver: Ints, step: Ints) -> Ints:
    """What the sender of each message has received before."""
    ranks = 1 + int(max(sender.max(initial=0), receiver.max(initial=0)))
    sends, receives = (
        np.split(np.argsort(side, kind="stable"), np.cumsum(np.bincount(side, minlength=ranks))[:-1])
        for side in (sender, receiver)
    )
    unbalanced = any(len(sent) != len(received) for sent, received in zip(sends, receives, strict=True))
    found = np.empty(len(sender), np.int64)
    for sent, received in zip(sends, receives, strict=True):
        found[sent] = awaited(step[sent].tolist(), step[received].tolist(), unbalanced)
    return found
