"""Series: the calls of a plan that are not voted on (agree="first"), as the calls of MPI's persistent collectives are not.

Its first call was voted on, and bound what its messages are like. The later ones have a tag of their own, so MPI itself brings
the messages of a call to that call. The stream from one rank to another ends with a header that says that the sender has
failed: its receivers then fail in this call, and tell theirs in the next. In every PERIOD-th call all vote whether any has
failed, and go on; before the next vote this one is counted. So all hear of a failure within 2 PERIOD calls, and no rank is
further ahead of another. docs/protocol.md has the rules.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from .channel import Channel, Request
from .vote import LogSteps

PERIOD = 16  # calls from one vote to the next
HEADER = (
    16  # bytes before the elements of a message: the first one is their order, or FAILED; the last eight who has failed
)
FAILED = 0  # the sender has failed, and sends no more


def culprit_of(message: Any) -> int | None:
    """The rank that has failed, if the message says so."""
    return None if message[0] != FAILED else int.from_bytes(message[8:HEADER], "little")


class Members(Protocol):
    """The ranks of a series, as `Group` has them."""

    channel: Channel
    rank: int
    size: int
    names: tuple[str, ...]
    abort_reason: str | None
    lock: threading.Lock
    unvoted: int
    settling: dict[Any, None]

    @property
    def radix(self) -> int:
        """Of votes by messages."""

    def abort(self, why: str) -> None:
        """Note that these ranks cannot redistribute any more."""


class Series:
    """The calls of one plan after the first, on this rank. Not collective; all ranks of a group make it together.

    Parameters
    ----------
    group : Members
        The ranks.
    tag : int
        Of its messages; that of its votes is the next one.
    targets, sources : sequence of int
        The ranks that get messages of this one, and those that send it some.

    Attributes
    ----------
    calls, votes : int
        How many this rank has begun, and cast.
    culprit : int or None
        The first rank of which this one has heard that it has failed: no call begins any more.
    received : int
        How many calls have received all. They do so one after another, for a stream may end in any of them.
    is_receiving : bool
        Whether the next one does.
    ended : set of int
        Sources that send no more.
    """

    def __init__(self, group: Members, tag: int, targets: Sequence[int], sources: Sequence[int]) -> None:
        self.group, self.tag = group, tag
        self.targets, self.sources = tuple(targets), tuple(sources)
        self.calls = self.votes = 0
        self.culprit: int | None = None
        self.received, self.is_receiving = 0, False
        self.ended: set[int] = set()
        self._steps: LogSteps | None = None
        self._is_open = False
        self._all_know = False

    def begin(self) -> int:
        """The number of a call that begins."""
        self.calls += 1
        self.group.unvoted += 1
        return self.calls

    def ends(self, number: int) -> bool:
        """Whether a call that has received all ends: it votes, if that is due, once the vote before is counted."""
        if number == PERIOD * (self.votes + 1):
            if not self.counted():
                return False
            self.cast_vote()
        self.received, self.is_receiving = number, False
        return True

    def cast_vote(self) -> None:
        """Vote on whether any rank has failed, unless all know that one has."""
        if self._all_know:
            return
        if self._steps is None:
            self._steps = LogSteps(self.group.channel, self.group.radix, 1, longest=0)
        self._steps.largest[0] = 0 if self.culprit is None else self.group.size - self.culprit
        self._steps.start(tag=self.tag + 1)
        self.votes, self._is_open = self.votes + 1, True

    def counted(self) -> bool:
        """Whether what was cast is counted."""
        steps = self._steps
        if self._is_open and steps is not None and steps.advance():
            self._is_open, worst = False, int(steps.largest[0])
            if worst:
                self._all_know = True
                self.end(self.group.size - worst)
        return not self._is_open

    def end(self, culprit: int) -> None:
        """That rank has failed, so end this one's part. Nobody waits for what that takes."""
        if self.culprit is None:
            self.culprit = culprit
            self.group.settling[Settling(self)] = None


class Settling:
    """The end of a series on this rank: it tells its targets, votes, and receives what is left.

    It goes on while this rank waits for anything of the group, and at the latest when the communicator is freed: all series
    end then. When all ranks have come so far, nothing is on its way.
    """

    def __init__(self, series: Series) -> None:
        self._series = series
        assert series.culprit is not None
        self._header = np.zeros(HEADER, np.uint8)
        self._header[8:].view(np.int64)[0] = series.culprit
        send = series.group.channel.send
        self._sends: list[Request] = [send(self._header, peer, series.tag) for peer in series.targets]
        self._coming: dict[int, tuple[Any, Request]] = {}
        self._has_voted = False

    def advance(self) -> None:
        """Go on, until this rank owes nothing and is owed nothing."""
        group = self._series.group
        if not group.lock.acquire(False):
            return
        try:
            if group.abort_reason is not None or self._go_on():
                group.settling.pop(self, None)
        except BaseException as caught:
            group.abort(f"{type(caught).__name__}: {caught}")
        finally:
            group.lock.release()

    def _go_on(self) -> bool:
        series = self._series
        if series.is_receiving:  # what that call receives comes first
            return False
        self._sends = [request for request in self._sends if not request.Test()]
        drained, counted = self._has_drained(), series.counted()
        if counted and not self._has_voted:
            self._has_voted = True
            series.cast_vote()
            series.group.unvoted += PERIOD * series.votes - series.calls  # in the end the same on all ranks
            counted = series.counted()
        return drained and counted and not self._sends

    def _has_drained(self) -> bool:
        """Receive, and forget, what comes until all sources have ended."""
        ended = self._series.ended
        for peer in self._series.sources:
            while peer not in ended and self._has_received(peer):
                if culprit_of(self._coming.pop(peer)[0].data) is not None:
                    ended.add(peer)
        return ended.issuperset(self._series.sources)

    def _has_received(self, peer: int) -> bool:
        """Whether a message of that rank has come whole."""
        if peer not in self._coming:
            found = self._series.group.channel.probe(peer, self._series.tag)
            if found is None:
                return False
            data = np.empty(found.nbytes, np.uint8)
            self._coming[peer] = data, found.receive(data)
        return self._coming[peer][1].Test()
