"""Orders in which no port idles while a transfer could go through it: list scheduling for the open shop.

When ports become free, each begins a transfer with a free port, if it has one: that with the port which has most left to do.
The last port to end is idle only while all the others of its transfers are busy, so the time is below twice what the busiest
port takes (Racsmany; Barany & Fiala, 1982). Random changes of the priorities give other such orders to choose from.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .message_graph import Ints

__all__ = ["Transfers", "dense_starts"]

Floats = NDArray[np.float64]


class Transfers(NamedTuple):
    """What goes between ports.

    Attributes
    ----------
    source, target : ndarray of int
        Numbers of the ports out and of the ports in.
    duration : ndarray of float
        More than 0.
    """

    source: Ints
    target: Ints
    duration: Floats

    @property
    def number(self) -> int:
        """Their number."""
        return len(self.duration)

    @property
    def bound(self) -> float:
        """What the busiest port takes."""
        return max(float(np.bincount(side, self.duration).max(initial=0.0)) for side in (self.source, self.target))


class Priority(NamedTuple):
    """What decides which transfer a free port begins.

    Attributes
    ----------
    longest : float
        How much the duration of a transfer counts, beside all that its other port has left to do.
    noise : float
        How much chance counts, in longest durations.
    """

    longest: float = 0.0
    noise: float = 0.0


def dense_starts(transfers: Transfers, priority: Priority, rng: np.random.Generator) -> Floats:
    """When each transfer begins. Not collective.

    Parameters
    ----------
    transfers : Transfers
        What is to go.
    priority : Priority
        Who goes first.
    rng : numpy.random.Generator
        Chance.
    """
    return _Dense(transfers, priority, rng).run() if transfers.number else np.zeros(0)


class _Dense:
    """Ports are numbered the sources first."""

    def __init__(self, transfers: Transfers, priority: Priority, rng: np.random.Generator) -> None:
        sources = int(transfers.source.max()) + 1
        self.duration, self.rng = transfers.duration, rng
        self.ends = np.stack([transfers.source, transfers.target + sources])
        ports = int(self.ends.max()) + 1
        self.left: Floats = np.bincount(self.ends.ravel(), np.tile(self.duration, 2), ports).astype(np.float64)
        self.free, self.unsent = np.ones(ports, bool), np.ones(transfers.number, bool)
        self.noise = priority.noise * float(self.duration.max())
        self.bonus: Floats = priority.longest * self.duration
        if self.noise:
            self.bonus = self.bonus + self.noise * rng.random(transfers.number)
        self.of_port: list[Ints] = []
        self.other: list[Ints] = []  # ports at the other ends of these
        for side in (0, 1):
            order = np.argsort(self.ends[side], kind="stable")
            first, last = (0, sources) if side == 0 else (sources, ports)
            cuts = np.searchsorted(self.ends[side][order], np.arange(first + 1, last))
            self.of_port += np.split(order, cuts)
            self.other += np.split(self.ends[1 - side][order], cuts)

    def run(self) -> Floats:
        start = np.zeros(len(self.duration))
        under_way: list[tuple[float, int]] = []
        ports: Ints = np.flatnonzero(self.left > 0)
        now, waiting = 0.0, len(start)
        while True:
            for port in ports[np.argsort(-self._urgency(ports), kind="stable")].tolist():
                chosen = self._choice(port) if self.free[port] else -1
                if chosen >= 0:
                    start[chosen] = now
                    waiting -= 1
                    heapq.heappush(under_way, (now + float(self.duration[chosen]), chosen))
            if not waiting:
                return start
            now, number = heapq.heappop(under_way)
            ended = [number]
            while under_way and under_way[0][0] <= now:
                ended.append(heapq.heappop(under_way)[1])
            ports = np.ravel(self.ends[:, ended])
            self.free[ports] = True

    def _urgency(self, ports: Ints) -> Floats:
        left: Floats = self.left[ports]
        return left + self.noise * self.rng.random(len(ports)) if self.noise else left

    def _choice(self, port: int) -> int:
        """The transfer that a free port begins, -1 for none."""
        mine, other = self.of_port[port], self.other[port]
        able = np.flatnonzero(self.unsent[mine] & self.free[other])
        if not len(able):
            return -1
        mine = mine[able]
        chosen = int(mine[(self.left[other[able]] + self.bonus[mine]).argmax()])
        ends = self.ends[:, chosen]
        self.free[ends] = self.unsent[chosen] = False
        self.left[ends] -= self.duration[chosen]
        return chosen
