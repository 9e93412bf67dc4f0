"""Series: the calls of a plan without a vote (agree="first"), like calls of MPI's persistent collectives.

The first call votes and fixes the lengths of all messages. Later calls share a tag of their own, so MPI matches the messages
of each call. A rank that fails sends a header that says so in place of its next messages: its receivers fail in that call, and
notify their receivers in the next. In every PERIOD-th call all ranks vote on whether a rank has failed, and count that vote
before the next one. So all ranks learn of a failure within 2 PERIOD calls, and no rank is further ahead of another.
docs/protocol.md has the rules.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from .._kernels.ring import Tickets
from . import progress
from .channel import Channel, Request
from .log_steps import LogSteps

PERIOD = 16  # calls from one vote to the next
# Bytes before the elements of a message: the first is their order or FAILED, the last eight are the failed rank.
HEADER = 16
FAILED = 0  # the sender has failed and sends no more messages


def culprit_of(message: Any) -> int | None:
    """The failed rank that a message names, or None."""
    return None if message[0] != FAILED else int.from_bytes(message[8:HEADER], "little")


class Members(Protocol):
    """The attributes of `Group` that this module needs."""

    channel: Channel
    rank: int
    size: int
    names: tuple[str, ...]
    abort_reason: str | None
    lock: threading.RLock
    settling: dict[Any, None]

    @property
    def radix(self) -> int:
        """The radix of votes by messages."""

    def abort(self, reason: str) -> None:
        """Record that these ranks cannot redistribute any more."""


class Series:
    """The calls of one plan after the first, on this rank. All ranks of a group make it together.

    Parameters
    ----------
    group : Members
        The ranks.
    tag : int
        The tag of its messages; its votes have the next tag.
    targets, sources : sequence of int
        Ranks that this one sends to, and ranks that it receives from.

    Attributes
    ----------
    tickets : Tickets
        How many calls this rank has begun.
    votes : int
        How many votes it has cast.
    culprit : int or None
        The failed rank, once this one knows of it: no call begins any more.
    received : int
        How many calls have received all messages. They receive one after another, because a series may end in any call.
    is_receiving : bool
        Whether the next call is receiving.
    ended : set of int
        Sources that send no more. Without any, calls that have begun end well.
    """

    def __init__(self, group: Members, tag: int, targets: Sequence[int], sources: Sequence[int]) -> None:
        self.group, self.tag = group, tag
        self.targets, self.sources = tuple(targets), tuple(sources)
        self.tickets, self.votes = Tickets(), 0
        self.culprit: int | None = None
        self.received, self.is_receiving = 0, False
        self.ended: set[int] = set()
        self._steps: LogSteps | None = None
        self._is_open = False
        self._all_know = False

    @property
    def calls(self) -> int:
        """How many calls this rank has begun."""
        return self.tickets.drawn

    def begin(self) -> int:
        """Begin a call and return its number."""
        self.tickets.drawn += 1
        return self.tickets.drawn

    def end_call(self, number: int) -> bool:
        """End a call that has received all, with a vote if one is due; False until the vote before is counted."""
        if number == PERIOD * (self.votes + 1):
            if not self.count_vote():
                return False
            self.cast_vote()
        self.received, self.is_receiving = number, False
        return True

    def cast_vote(self) -> None:
        """Vote on whether a rank has failed, unless all ranks know that one has."""
        if self._all_know:
            return
        if self._steps is None:
            self._steps = LogSteps(self.group.channel, self.group.radix, 1, longest=0)
        self._steps.largest[0] = 0 if self.culprit is None else self.group.size - self.culprit
        self._steps.start(tag=self.tag + 1)
        self.votes, self._is_open = self.votes + 1, True

    def count_vote(self) -> bool:
        """Count the open vote as far as possible; True if none is open any more."""
        steps = self._steps
        if self._is_open and steps is not None and steps.advance():
            self._is_open, worst = False, int(steps.largest[0])
            if worst:
                self._all_know = True
                self.end(self.group.size - worst)
        return not self._is_open

    def end(self, culprit: int) -> None:
        """End the series on this rank because rank `culprit` has failed. No rank waits for that."""
        if self.culprit is None:
            self.culprit = culprit
            settling = Settling(self)
            self.group.settling[settling] = progress.tasks_in_flight()[settling] = None


class Settling:
    """The end of a series on this rank: it notifies its targets, votes, and receives the remaining messages.

    It is a `Task` of the thread that ends the series, so it makes progress whenever that waits for anything, and completes at
    the latest when the communicator is freed. When all ranks have completed it, no message of the series is in flight.
    """

    def __init__(self, series: Series) -> None:
        self._series = series
        self.began = time.monotonic()
        assert series.culprit is not None
        self._header = np.zeros(HEADER, np.uint8)
        self._header[8:].view(np.int64)[0] = series.culprit
        send = series.group.channel.send
        self._sends: list[Request] = [send(self._header, peer, series.tag) for peer in series.targets]
        self._receives: dict[int, tuple[Any, Request]] = {}
        self._has_voted = False

    def advance(self, block: bool = False) -> bool:
        """Make progress; True when all sends, receives and votes of this rank are complete. Never raises."""
        group = self._series.group
        if self in group.settling and group.lock.acquire(False):
            try:
                if group.abort_reason is not None or self._try_to_end():
                    group.settling.pop(self, None)
            except BaseException as caught:
                group.abort(f"{type(caught).__name__}: {caught}")
            finally:
                group.lock.release()
        return self not in group.settling

    def _try_to_end(self) -> bool:
        series = self._series
        if series.is_receiving or (not series.ended and series.received < series.calls):  # these receive first
            return False
        self._sends = [request for request in self._sends if not request.Test()]
        is_drained, is_counted = self._drain(), series.count_vote()
        if is_counted and not self._has_voted:
            self._has_voted = True
            series.cast_vote()
            is_counted = series.count_vote()
        return is_drained and is_counted and not self._sends

    def _drain(self) -> bool:
        """Receive and discard messages; True when all sources have ended."""
        ended = self._series.ended
        for peer in self._series.sources:
            while peer not in ended and self._has_received(peer):
                if culprit_of(self._receives.pop(peer)[0].data) is not None:
                    ended.add(peer)
        return ended.issuperset(self._series.sources)

    def _has_received(self, peer: int) -> bool:
        """Make progress on a message of a rank; True when it is complete."""
        if peer not in self._receives:
            message = self._series.group.channel.probe(peer, self._series.tag)
            if message is None:
                return False
            data = np.empty(message.nbytes, np.uint8)
            self._receives[peer] = data, message.receive(data)
        return self._receives[peer][1].Test()
