"""Messages cut into pieces so that their steps take a given total time: open shop with preemption (Gonzalez & Sahni, 1976).

Where the steps that are left may take B in all, a process that still sends or receives S has a slack of B - S: it may be idle
for so long. A step of duration d is a matching in which each process is idle for no longer than its slack. By Birkhoff's
theorem there is one for some d as long as no slack is below 0, so every message is sent within B. The same is asked of the
number of steps that are left and the number of messages of each process; that is not always possible, and then a step more
is allowed. Of the steps that qualify the longest is taken, as bottleneck matchings do in Cohen, Jeannot, Padoy & Wagner, 2006.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .amalgam import Amalgam
from .message_graph import Ints, MessageGraph

__all__ = ["Pieces", "folded_lengths", "pieces_within", "unfolded_steps"]

DURATIONS, MORE_DURATIONS = 24, 256  # that a step is chosen from, in a small table and in a large one
EVERY_DURATION = 2**12  # entries of a small table
Flags = NDArray[np.bool_]


class Pieces(NamedTuple):
    """What goes in one step: places in the table of lengths, and how much of each.

    Attributes
    ----------
    places : ndarray
        Rows sender, receiver, turn.
    amounts : ndarray
        One for each row.
    """

    places: Ints
    amounts: Ints


def folded_lengths(grid: MessageGraph, graph: Amalgam) -> Ints:
    """Lengths from folded senders to folded receivers, one for each turn that a receiver is ahead. Not collective."""
    answer: Ints = grid.rows(graph.senders[:, 0])[:, graph.receivers]
    return answer


def unfolded_steps(graph: Amalgam, found: list[Pieces]) -> list[Ints]:
    """Rows sender, receiver, length of each step of the whole graph. Not collective."""
    turn = np.arange(graph.turns)
    steps = []
    for places, amounts in found:
        other = (places[:, 2:] + graph.slope * turn) % graph.turns
        receivers = np.take_along_axis(graph.receivers[places[:, 1]], other, axis=1)
        length = np.broadcast_to(amounts[:, None], other.shape)
        steps.append(np.stack([graph.senders[places[:, 0]], receivers, length], axis=2).reshape(-1, 3))
    return steps


def pieces_within(
    lengths: Ints, cost: int, steps: int, towards_degree: float = 1.0, deadline: float = math.inf
) -> list[Pieces] | None:
    """Pieces of all messages in steps that take no longer than `cost` together. Not collective.

    Parameters
    ----------
    lengths : ndarray
        As from `folded_lengths`.
    cost : int
        Sum of the steps' durations, at least what any process sends or receives.
    steps : int
        Number of steps that is aimed at; more are taken where it is too small.
    towards_degree : float
        How much finishing messages of the processes that have most of them counts, against the amount that is sent.
    deadline : float
        When to give up, on the clock of `time.monotonic`.

    Returns
    -------
    list of Pieces or None
        The steps; None if time was up before.
    """
    return _Split(lengths, cost, steps, towards_degree).run(deadline)


class _Step(NamedTuple):
    """A matching, and which of it are messages that end."""

    duration: int
    senders: Ints
    receivers: Ints
    left: Ints


class _Split:
    """What is left of each message, of the time and of the steps."""

    def __init__(self, lengths: Ints, cost: int, steps: int, towards_degree: float) -> None:
        self.left = lengths.copy()
        self.cost, self.steps, self.towards_degree = cost, steps, towards_degree
        self.before = cost

    def run(self, deadline: float) -> list[Pieces] | None:
        found: list[Pieces] = []
        while self.left.any():
            if time.monotonic() > deadline:
                return None
            found.append(self._take(self._next_step()))
        return found

    def _next_step(self) -> _Step:
        """The longest step that leaves time and number of steps enough for the rest; of time alone if there is none."""
        left = self.left
        self.longest: Ints = left.max(axis=2)
        self.idle = [self.cost - left.sum(axis=axes) for axes in ((1, 2), (0, 2))]
        self.degrees = [np.count_nonzero(left, axis=axes) for axes in ((1, 2), (0, 2))]
        self.slack = np.minimum(self.idle[0][:, None], self.idle[1][None])
        self.steps = max(self.steps, *(int(degrees.max()) for degrees in self.degrees))
        known = np.concatenate([left[left > 0], *(idle[idle > 0] for idle in self.idle)])
        durations = np.unique(known[known <= self.longest.max()])
        search = self._longest if left.size <= EVERY_DURATION else self._longest_nearby
        while True:
            step = search(durations)
            if step is not None:
                return step
            self.steps += 1

    def _longest(self, durations: Ints) -> _Step | None:
        """Of some durations, the longest that qualifies."""
        for duration in _spread(durations, DURATIONS)[::-1]:
            step = self._matching(int(duration))
            if step is not None:
                return step
        return None

    def _longest_nearby(self, durations: Ints) -> _Step | None:
        """From the duration of the step before on, upwards as long as they qualify, else down to the first that does."""
        some = _spread(durations, MORE_DURATIONS)
        place = max(0, int(np.searchsorted(some, self.before, side="right")) - 1)
        best, stride = self._matching(int(some[place])), 1
        upwards = best is not None
        while (best is not None) == upwards and place != (len(some) - 1 if upwards else 0):
            place = min(len(some) - 1, place + stride) if upwards else max(0, place - stride)
            stride *= 2
            step = self._matching(int(some[place]))
            if upwards and step is None:
                return best
            best = step
        return best

    def _matching(self, duration: int) -> _Step | None:
        """A step of that duration; None if there is none after which time and steps suffice."""
        from scipy.optimize import linear_sum_assignment

        spare = [self.steps - degrees for degrees in self.degrees]
        must = [(idle < duration) | (extra == 0) for idle, extra in zip(self.idle, spare, strict=True)]
        ending: Ints = np.where(self.left <= duration, self.left, 0).max(axis=2)
        ends = (ending > 0) & (ending >= duration - self.slack)
        may_cut = (spare[0] > 0)[:, None] & (spare[1] > 0)
        allowed = ends | ((self.longest >= duration) & may_cut)
        if not (allowed.any(axis=1)[must[0]].all() and allowed.any(axis=0)[must[1]].all()):
            return None
        left = np.where(ends, ending, self.longest)
        weight = self._weight(duration, left, ends, allowed, must)
        senders, receivers = linear_sum_assignment(weight, maximize=True)
        chosen = allowed[senders, receivers]
        senders, receivers = senders[chosen], receivers[chosen]
        for needed, present in zip(must, (senders, receivers), strict=True):
            if np.count_nonzero(needed[present]) < np.count_nonzero(needed):
                return None
        return _Step(duration, senders, receivers, left[senders, receivers])

    def _weight(self, duration: int, left: Ints, ends: Flags, allowed: Flags, must: list[Flags]) -> NDArray[np.float64]:
        """Processes that must take part count more than all else; then amounts, and messages that end."""
        most = [max(1, int(degrees.max())) for degrees in self.degrees]
        busy = (self.degrees[0] / most[0])[:, None] + (self.degrees[1] / most[1])
        unit = float(duration)
        weight = np.minimum(left, duration) + unit * ends * (1 + self.towards_degree / 2 * busy)
        bonus = 4 * unit * (2 + self.towards_degree) * (min(ends.shape) + 1)
        weight = weight + bonus * (must[0][:, None].astype(np.float64) + must[1])
        return np.where(allowed, weight, 0.0)

    def _take(self, step: _Step) -> Pieces:
        """Make the step as long as that ends more messages, and take it away."""
        duration = min(self._longest_idle(step), int(step.left.max()))
        duration = max(duration, step.duration)
        amounts = np.minimum(step.left, duration)
        turns = (self.left[step.senders, step.receivers] == step.left[:, None]).argmax(axis=1)
        self.left[step.senders, step.receivers, turns] -= amounts
        self.before = duration
        self.cost -= int(amounts.max())
        self.steps -= 1
        return Pieces(np.stack([step.senders, step.receivers, turns], axis=1), amounts)

    def _longest_idle(self, step: _Step) -> int:
        """How long the step may be for all processes to have time enough for the rest."""
        most = int((step.left + self.slack[step.senders, step.receivers]).min())
        for idle, present in zip(self.idle, (step.senders, step.receivers), strict=True):
            absent = np.ones(len(idle), dtype=bool)
            absent[present] = False
            most = min(most, int(idle[absent].min(initial=most)))
        return most


def _spread(values: Ints, most: int) -> Ints:
    """At most so many of them, the first and the last among them."""
    if len(values) <= most:
        return values
    return values[np.linspace(0, len(values) - 1, most).astype(np.int64)]
