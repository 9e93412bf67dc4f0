"""The least time of few transfers of any durations, by branch and bound.

Transfers are begun in the order of time. Of those that have not begun, each can begin when both of its ports are free; one
that would begin when another could already have ended is not begun next (active schedules: Giffler & Thompson, 1960). A branch
is left where a port could not do the rest in less than the best time known.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .dense_order import Transfers

__all__ = ["MOST", "searched_through"]

Floats = NDArray[np.float64]
MOST = 30  # transfers beyond which a search comes to nothing
EVERY = 256  # nodes between two looks at the clock
TINY = 1e-9


def searched_through(transfers: Transfers, known: float, deadline: float) -> tuple[Floats | None, bool]:
    """Begins of transfers that take less time than is known, if that was found; whether none takes less. Not collective.

    Parameters
    ----------
    transfers : Transfers
        What is to go, `MOST` at the most.
    known : float
        A time in which it can.
    deadline : float
        When to stop, on the clock of `time.monotonic`.
    """
    if transfers.number > MOST:
        return None, False
    search = _Search(transfers, known, deadline)
    complete = search.run()
    return search.best, complete


class _Search:
    """Depth first, without recursion in depth beyond the number of transfers."""

    def __init__(self, transfers: Transfers, known: float, deadline: float) -> None:
        sources = int(transfers.source.max(initial=-1)) + 1
        ends = (transfers.source, transfers.target + sources)
        self.ends: list[tuple[int, int]] = list(zip(*(end.tolist() for end in ends), strict=True))
        self.duration: list[float] = transfers.duration.tolist()
        ports = 1 + max((max(pair) for pair in self.ends), default=-1)
        self.free_at = [0.0] * ports
        self.left = np.bincount(np.concatenate(ends), np.tile(transfers.duration, 2), ports).tolist()
        self.start = [0.0] * transfers.number
        self.waiting = set(range(transfers.number))
        self.known, self.deadline, self.nodes = known, deadline, 0
        self.bound = transfers.bound
        self.best: Floats | None = None

    def run(self) -> bool:
        """Whether all was searched through. Not collective."""
        try:
            self._go_on(0.0, -1)
        except TimeoutError:
            return False
        return True

    def _go_on(self, now: float, last: int) -> None:
        """All ways of beginning what is left, from a time on; at that time, what has a higher number than the last."""
        self.nodes += 1
        if self.nodes % EVERY == 0 and time.monotonic() > self.deadline:
            raise TimeoutError
        if not self.waiting:
            self.known = max(begin + lasting for begin, lasting in zip(self.start, self.duration, strict=True))
            self.best = np.array(self.start)
            return
        for begin, number in list(self._next(now, last)):
            if self.known <= self.bound * (1 + TINY):
                return
            self._begin(number, begin, now)

    def _next(self, now: float, last: int) -> Iterator[tuple[float, int]]:
        """What can begin next, and when: the longest of what its ports have left first."""
        earliest = {k: max(now, *(self.free_at[port] for port in self.ends[k])) for k in self.waiting}
        ended = min(begin + self.duration[k] for k, begin in earliest.items())
        able = [(begin, k) for k, begin in earliest.items() if begin < ended and (begin > now or k > last)]
        yield from sorted(able, key=lambda pair: (pair[0], -max(self.left[port] for port in self.ends[pair[1]])))

    def _begin(self, number: int, begin: float, now: float) -> None:
        before = [self.free_at[port] for port in self.ends[number]]
        lasting = self.duration[number]
        for port in self.ends[number]:
            self.free_at[port] = begin + lasting
            self.left[port] -= lasting
        self.waiting.remove(number)
        self.start[number] = begin
        ports = zip(self.free_at, self.left, strict=True)
        latest = max((max(free, begin) + left for free, left in ports if left > TINY), default=0.0)
        if max(latest, begin + lasting) < self.known * (1 - TINY):
            self._go_on(begin, number)
        self.waiting.add(number)
        for port, free in zip(self.ends[number], before, strict=True):
            self.free_at[port] = free
            self.left[port] += lasting
