"""Series: the calls of a plan that are not voted on (agree="first"), as the calls of MPI's persistent collectives are not.

Its first call was voted on, and bound what its messages are like. The later ones have a tag of their own, so MPI itself brings
the messages of a call to that call. The stream from one rank to another ends with a header that says that the sender has
failed: its receivers then fail in this call, and tell theirs in the next. In every PERIOD-th call all vote whether any has
failed, so all hear of it, and no rank is more than PERIOD calls ahead of another. docs/protocol.md has the rules.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from .channel import Channel, Request
from .progress import under_way
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
    broken: str | None
    lock: threading.Lock
    unvoted: int
    settling: dict[Any, None]

    @property
    def radix(self) -> int:
        """Of votes by messages."""

    def break_off(self, why: str) -> None:
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
        The lowest rank that has failed, as far as this one has heard: no call begins any more.
    receiving : object
        The call that receives; those begun after it wait, for a stream may end in it.
    ended : set of int
        Sources that send no more.
    """

    def __init__(self, group: Members, tag: int, targets: Sequence[int], sources: Sequence[int]) -> None:
        self.group, self.tag = group, tag
        self.targets, self.sources = tuple(targets), tuple(sources)
        self.calls = self.votes = 0
        self.culprit: int | None = None
        self.receiving: object = None
        self.ended: set[int] = set()
        self._vote: LogSteps | None = None
        self._all_know = self._has_settled = False

    def begin(self) -> int:
        """The number of a call that begins."""
        self.calls += 1
        self.group.unvoted += 1
        return self.calls

    def receive(self, call: object, number: int) -> None:
        """It is the turn of that call to receive; in some all vote as well."""
        self.receiving = call
        if number % PERIOD == 0:
            self.cast()

    def cast(self) -> None:
        """Vote on whether any rank has failed, unless all know that one has."""
        if self._all_know:
            return
        self._vote = LogSteps(self.group.channel, self.group.radix, 1, longest=0)
        self._vote.largest[0] = 0 if self.culprit is None else self.group.size - self.culprit
        self._vote.start(tag=self.tag + 1)
        self.votes += 1

    def counted(self) -> bool:
        """Whether what was cast is counted."""
        vote = self._vote
        if vote is not None and vote.advance():
            self._vote, worst = None, int(vote.largest[0])
            if worst:
                self._all_know = True
                self.hear(self.group.size - worst)
        return self._vote is None

    def hear(self, culprit: int) -> None:
        """A rank has failed."""
        self.culprit = culprit if self.culprit is None else min(culprit, self.culprit)

    def end(self) -> None:
        """End it, as a rank has failed, this one if no other. Nobody waits for what that takes."""
        if not self._has_settled:
            self._has_settled = True
            self.hear(self.group.rank if self.culprit is None else self.culprit)
            settling = Settling(self)
            self.group.settling[settling] = under_way()[settling] = None


class Settling:
    """The end of a series on this rank: it tells its targets, votes, and receives what is left.

    It goes on whenever this rank waits for anything. When all ranks have come so far, nothing is on its way.
    """

    def __init__(self, series: Series) -> None:
        self._series = series
        assert series.culprit is not None
        self._header = np.zeros(HEADER, np.uint8)
        self._header[8:].view(np.int64)[0] = series.culprit
        send = series.group.channel.send
        self._sends: list[Request] = [send(self._header, peer, series.tag) for peer in series.targets]
        self._coming: tuple[int, Any, Request] | None = None
        self._has_voted = False

    def advance(self, block: bool = False) -> bool:
        """Go on; True when this rank owes nothing, and is owed nothing. It never raises."""
        group = self._series.group
        if not group.lock.acquire(False):
            return False
        try:
            if group.broken is None and not self._go_on():
                return False
        except BaseException as caught:
            group.break_off(f"{type(caught).__name__}: {caught}")
        finally:
            group.lock.release()
        group.settling.pop(self, None)
        return True

    def _go_on(self) -> bool:
        series = self._series
        if series.receiving is not None:  # its receives and its vote come first
            return False
        if not self._has_voted:
            self._has_voted = True
            series.cast()
            series.group.unvoted += PERIOD * series.votes - series.calls  # in the end the same on all ranks
        self._sends = [request for request in self._sends if not request.Test()]
        return self._has_drained() and series.counted() and not self._sends

    def _has_drained(self) -> bool:
        """Receive, and forget, what comes until all sources have ended."""
        series = self._series
        for peer in series.sources:
            while peer not in series.ended:
                if self._coming is None:
                    found = series.group.channel.probe(peer, series.tag)
                    if found is None:
                        return False
                    data = np.empty(found.nbytes, np.uint8)
                    self._coming = peer, data, found.receive(data)
                if not self._coming[2].Test():
                    return False
                if culprit_of(self._coming[1].data) is not None:
                    series.ended.add(peer)
                self._coming = None
        return True
