"""Schedules of messages that may be cut into pieces, and a lower bound of their time.

This is open shop with preemption (Gonzalez & Sahni, 1976): more steps, each with a start-up cost, for less time.
"""

from __future__ import annotations

import bisect
import itertools
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ScheduleError
from .folding import FoldedGraph, fold
from .least_cost import optimal
from .message_graph import Ints, MessageGraph
from .schedule import EQUALS_BOUND, ListedSchedule, excess

Flags = NDArray[np.bool_]
TINY = 1e-9
UNCUT = 0.25  # share of the time for the schedule of whole messages
WEIGHTS = (1.0, 3.0, 0.0)  # preference for processes with many messages
TOTALS = 32  # totals tried, from the least to that of whole messages
DURATIONS, MORE_DURATIONS = 24, 256  # durations tried for a step, in a small table and in a large one
EVERY_DURATION = 2**12  # entries of a small table


class PreemptiveSchedule(ListedSchedule):
    """A schedule of messages that may be cut, with its time and a lower bound. Not collective.

    Attributes
    ----------
    startup : float
        Start-up cost of a step, in the unit of lengths.
    time_bound : float
        Lower bound of the time of any schedule.
    """

    def __init__(self, grid: MessageGraph, steps: list[Ints], startup: float, time_bound: float) -> None:
        super().__init__("preemptive", grid, steps)
        self.startup, self.time_bound = startup, time_bound

    @property
    def time(self) -> float:
        """Sum over steps of start-up and duration."""
        return self.startup * self.number_of_steps + self.total_cost

    @property
    def lower_bound(self) -> int:
        """The most that a process sends or receives."""
        return self.grid.volume_bound

    @property
    def certificate(self) -> str:
        """One of "equals the lower bound", "best found, within x %"."""
        if self.time <= self.time_bound * (1 + TINY):
            return EQUALS_BOUND
        return f"best found, within {excess(self.time, self.time_bound)} %"


def preemptive(grid: MessageGraph, startup: float = 0.0, time_limit: float = 1.0) -> PreemptiveSchedule:
    """Search for the schedule of least time if messages may be cut.

    The time is the sum over steps of `startup` and the longest piece. Without start-up cost it is the most that a process sends
    or receives, which is the least possible (Gonzalez & Sahni, 1976), in few steps. Messages are cut between elements.

    With start-up costs the least time is NP-hard (Gopal & Wong, 1985; Crescenzi, Deng & Papadimitriou, 2001: K-preemptive
    bipartite scheduling, as in Cohen, Jeannot, Padoy & Wagner, 2006). For several totals of durations, from the least to that
    of whole messages, the search looks for few steps within the total; the best schedule of all is returned.

    Parameters
    ----------
    grid : MessageGraph
        The messages.
    startup : float
        Start-up cost of a step, in the unit of lengths: latency times bandwidth, in elements. For a grid of one slice, divide
        it by the number of slices.
    time_limit : float
        Seconds for the search; there is a schedule of the least sum of durations even if it takes longer.

    Raises
    ------
    ScheduleError
        An option is invalid, or there are more than 10^8 messages.
    """
    cost_of_step = _number("startup", startup, "the start-up cost of a step in the unit of lengths, at least 0", 0)
    search = _PieceSearch(grid, time_limit, (cost_of_step, 1.0) if cost_of_step else "cost")
    bound = search.bounds.time(cost_of_step)
    totals = search.totals() if cost_of_step else [search.bounds.volume]
    candidates = [search.whole, *search.cut(totals, cost_of_step)]
    best = min(candidates, key=lambda candidate: candidate.value(cost_of_step))
    return PreemptiveSchedule(grid, search.unfold(best), cost_of_step, bound)


def preemptive_pareto(grid: MessageGraph, time_limit: float = 1.0) -> list[PreemptiveSchedule]:
    """The Pareto front of steps and cost if messages may be cut. Not collective.

    Each next schedule has more steps and a lower cost; the last costs the most that a process sends or receives, the least
    possible. The certificate of each says how far its cost may be above the least for at most as many steps.

    Parameters
    ----------
    grid : MessageGraph
        The messages.
    time_limit : float
        Seconds for the search; the last schedule is computed even if it takes longer.

    Raises
    ------
    ScheduleError
        `time_limit` is not a number above 0, or there are more than 10^8 messages.
    """
    search = _PieceSearch(grid, time_limit, "cost")
    candidates = [search.whole, search.uncut("steps"), *search.cut(search.totals(), 0.0)]
    front: list[_CandidateSchedule] = []
    for candidate in sorted(candidates, key=lambda schedule: (schedule.number, schedule.cost)):
        if not front or candidate.cost < front[-1].cost:
            front.append(candidate)
    return [
        PreemptiveSchedule(grid, search.unfold(schedule), 0.0, search.bounds.cost(schedule.number))
        for schedule in front
    ]


class _CandidateSchedule(NamedTuple):
    """A schedule of whole messages or of pieces, with its number of steps and its cost."""

    number: int
    cost: int
    whole: list[Ints] | None
    pieces: list[Pieces]

    def value(self, startup: float) -> tuple[float, int]:
        return startup * self.number + self.cost, self.number


class _PieceSearch:
    """Schedules of one graph, until time is up."""

    def __init__(self, grid: MessageGraph, time_limit: float, objective: str | tuple[float, float]) -> None:
        self.seconds = _number("time_limit", time_limit, "seconds, more than 0", TINY)
        start = time.monotonic()
        self.deadline = start + self.seconds
        self.grid = grid
        self.whole = self.uncut(objective)
        self.bounds = SplitBounds(grid)
        self.graph: FoldedGraph = fold(grid)
        self.lengths = folded_lengths(grid, self.graph)

    def uncut(self, objective: str | tuple[float, float]) -> _CandidateSchedule:
        """The schedule of whole messages."""
        schedule = optimal(self.grid, objective, UNCUT * self.seconds)
        return _CandidateSchedule(schedule.number_of_steps, schedule.total_cost, schedule.steps, [])

    def totals(self) -> list[int]:
        """Sums of durations from the least to that of whole messages, coarsely spaced values first."""
        least, span = self.bounds.volume, self.whole.cost - self.bounds.volume
        return list(dict.fromkeys(least + int(span * _reverse_bits(k)) for k in range(TOTALS)))

    def cut(self, totals: list[int], startup: float) -> Iterator[_CandidateSchedule]:
        """Schedules with durations within each total; the first one is computed even after the deadline."""
        best = self.whole.value(startup)[0]
        for number, (weight, total) in enumerate(itertools.product(WEIGHTS, totals)):
            deadline = self.deadline if number else math.inf
            if startup and startup * self.bounds.steps(total) + total >= best:
                continue
            if not startup and self.whole.value(startup) == (total, self.bounds.fewest):
                continue
            pieces = pieces_within(self.lengths, total, self.bounds.fewest, weight, deadline)
            if pieces is None:
                return
            cost = sum(int(piece.amounts.max()) for piece in pieces)
            candidate = _CandidateSchedule(len(pieces), cost, None, pieces)
            best = min(best, candidate.value(startup)[0])
            yield candidate

    def unfold(self, candidate: _CandidateSchedule) -> list[Ints]:
        """Steps of the whole graph."""
        return unfold_steps(self.graph, candidate.pieces) if candidate.whole is None else candidate.whole


def _reverse_bits(number: int) -> float:
    """Fractions 0, 1/2, 1/4, 3/4, 1/8, ... (van der Corput)."""
    fraction, weight = 0.0, 0.5
    while number:
        fraction += weight * (number & 1)
        number, weight = number >> 1, weight / 2
    return fraction


def _number(name: str, value: object, meaning: str, least: float) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number < math.inf:
        raise ScheduleError(f"{name} = {value!r} must be a number: {meaning}")
    return number


class Pieces(NamedTuple):
    """The pieces of one step.

    Attributes
    ----------
    indices : ndarray
        Rows sender, receiver, turn: indices into the table of lengths.
    amounts : ndarray
        Elements of each piece.
    """

    indices: Ints
    amounts: Ints


def folded_lengths(grid: MessageGraph, graph: FoldedGraph) -> Ints:
    """Lengths from folded senders to folded receivers, for each difference of their turns."""
    lengths: Ints = grid.rows(graph.senders[:, 0])[:, graph.receivers]
    return lengths


def unfold_steps(graph: FoldedGraph, folded_steps: list[Pieces]) -> list[Ints]:
    """Rows sender, receiver, length of each step of the whole graph."""
    turn = np.arange(graph.turns)
    steps = []
    for indices, amounts in folded_steps:
        receiver_turn = (indices[:, 2:] + graph.slope * turn) % graph.turns
        receivers = np.take_along_axis(graph.receivers[indices[:, 1]], receiver_turn, axis=1)
        length = np.broadcast_to(amounts[:, None], receiver_turn.shape)
        steps.append(np.stack([graph.senders[indices[:, 0]], receivers, length], axis=2).reshape(-1, 3))
    return steps


def pieces_within(
    lengths: Ints, cost: int, steps: int, towards_degree: float = 1.0, deadline: float = math.inf
) -> list[Pieces] | None:
    """Cut all messages into pieces, in steps with durations of at most `cost` in all.

    Let the remaining steps take at most B in all. A process that has S left to send or receive may be idle for its slack B - S.
    A step of duration d is a matching in which each process is idle for at most its slack. By Birkhoff's theorem there is such
    a step for some d while no slack is negative, so all messages are sent within B. The same condition holds for the remaining
    number of steps and the number of messages of each process; if it cannot be met, one more step is allowed. Of the possible
    steps the longest is used, as by bottleneck matchings in Cohen, Jeannot, Padoy & Wagner, 2006.

    Parameters
    ----------
    lengths : ndarray
        As from `folded_lengths`.
    cost : int
        Limit of the sum of durations, at least the most that a process sends or receives.
    steps : int
        Wanted number of steps; more are used if necessary.
    towards_degree : float
        Weight of completing messages of processes with many messages, relative to the amount sent.
    deadline : float
        When to give up, on the clock of `time.monotonic`.

    Returns
    -------
    list of Pieces or None
        The steps; None if the deadline passed.
    """
    return _Split(lengths, cost, steps, towards_degree).run(deadline)


class _Step(NamedTuple):
    """A matching: senders, their receivers, and what is left of each message before the step."""

    duration: int
    senders: Ints
    receivers: Ints
    left: Ints


class _Split:
    """The computation of `pieces_within`: what is left of each message, of the time and of the steps."""

    def __init__(self, lengths: Ints, cost: int, steps: int, towards_degree: float) -> None:
        self.left = lengths.copy()
        self.cost, self.steps, self.towards_degree = cost, steps, towards_degree
        self.before = cost

    def run(self, deadline: float) -> list[Pieces] | None:
        steps: list[Pieces] = []
        while self.left.any():
            if time.monotonic() > deadline:
                return None
            steps.append(self._take(self._next_step()))
        return steps

    def _next_step(self) -> _Step:
        """The longest step after which time and number of steps suffice for the rest; allows more steps if there is none."""
        left = self.left
        self.longest: Ints = left.max(axis=2)
        self.idle = [self.cost - left.sum(axis=axes) for axes in ((1, 2), (0, 2))]
        self.degrees = [np.count_nonzero(left, axis=axes) for axes in ((1, 2), (0, 2))]
        self.slack = np.minimum(self.idle[0][:, None], self.idle[1][None])
        self.steps = max(self.steps, *(int(degrees.max()) for degrees in self.degrees))
        possible = np.concatenate([left[left > 0], *(idle[idle > 0] for idle in self.idle)])
        durations = np.unique(possible[possible <= self.longest.max()])
        find = self._longest if left.size <= EVERY_DURATION else self._longest_nearby
        while True:
            step = find(durations)
            if step is not None:
                return step
            self.steps += 1

    def _longest(self, durations: Ints) -> _Step | None:
        """The step of the longest possible duration, of some durations."""
        for duration in _select_spread(durations, DURATIONS)[::-1]:
            step = self._matching(int(duration))
            if step is not None:
                return step
        return None

    def _longest_nearby(self, durations: Ints) -> _Step | None:
        """A step near the previous duration: the longest possible going up, or the first possible one going down."""
        candidates = _select_spread(durations, MORE_DURATIONS)
        position = max(0, int(np.searchsorted(candidates, self.before, side="right")) - 1)
        best, stride = self._matching(int(candidates[position])), 1
        upwards = best is not None
        while (best is not None) == upwards and position != (len(candidates) - 1 if upwards else 0):
            position = min(len(candidates) - 1, position + stride) if upwards else max(0, position - stride)
            stride *= 2
            step = self._matching(int(candidates[position]))
            if upwards and step is None:
                return best
            best = step
        return best

    def _matching(self, duration: int) -> _Step | None:
        """A step of that duration after which time and steps suffice; None if there is none."""
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
        present = allowed[senders, receivers]
        senders, receivers = senders[present], receivers[present]
        for needed, present in zip(must, (senders, receivers), strict=True):
            if np.count_nonzero(needed[present]) < np.count_nonzero(needed):
                return None
        return _Step(duration, senders, receivers, left[senders, receivers])

    def _weight(self, duration: int, left: Ints, ends: Flags, allowed: Flags, must: list[Flags]) -> NDArray[np.float64]:
        """Weights for the matching: processes that must take part first, then amounts and completed messages."""
        most = [max(1, int(degrees.max())) for degrees in self.degrees]
        busy = (self.degrees[0] / most[0])[:, None] + (self.degrees[1] / most[1])
        unit = float(duration)
        weight = np.minimum(left, duration) + unit * ends * (1 + self.towards_degree / 2 * busy)
        bonus = 4 * unit * (2 + self.towards_degree) * (min(ends.shape) + 1)
        weight = weight + bonus * (must[0][:, None].astype(np.float64) + must[1])
        return np.where(allowed, weight, 0.0)

    def _take(self, step: _Step) -> Pieces:
        """Lengthen the step while that completes more messages, and subtract it from what is left."""
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
        """The longest duration after which all processes have time for the rest."""
        most = int((step.left + self.slack[step.senders, step.receivers]).min())
        for idle, present in zip(self.idle, (step.senders, step.receivers), strict=True):
            absent = np.ones(len(idle), dtype=bool)
            absent[present] = False
            most = min(most, int(idle[absent].min(initial=most)))
        return most


def _select_spread(values: Ints, most: int) -> Ints:
    """At most `most` of the values, including the first and the last."""
    if len(values) <= most:
        return values
    return values[np.linspace(0, len(values) - 1, most).astype(np.int64)]


SAMPLES = 64  # numbers of steps for which the bound is computed


class SplitBounds:
    """Lower bounds of schedules of one graph whose messages may be cut.

    A process with g messages in k steps cuts at most k - g of them; each other message needs a step of at least its length. So
    the i-th longest step is at least as long as the (i + k - g)-th longest message of any process. The sum of durations is at
    least what a process sends or receives, and the number of steps is at least the maximum degree.

    Parameters
    ----------
    grid : MessageGraph
        The messages.
    """

    def __init__(self, grid: MessageGraph) -> None:
        self.volume, self.fewest = grid.volume_bound, grid.step_bound
        rows, columns = grid.rows(grid.distinct_senders()), grid.columns(grid.distinct_receivers()).T
        self._sides = [np.unique(-np.sort(-side, axis=1), axis=0) for side in (rows, columns)]
        self._degrees = [np.count_nonzero(side, axis=1) for side in self._sides]

    def cost(self, steps: int) -> int:
        """The least sum of durations of at most `steps` steps."""
        durations = np.zeros(steps, dtype=np.int64)
        for side, degrees in zip(self._sides, self._degrees, strict=True):
            longest = _drop_longest(side, steps - degrees)[:, :steps].max(axis=0, initial=0)
            durations[: len(longest)] = np.maximum(durations[: len(longest)], longest)
        return max(self.volume, int(durations.sum()))

    def steps(self, cost: int) -> int:
        """The fewest steps whose durations may sum to `cost`."""
        numbers = range(self.fewest, 2 * self.fewest + 1)
        return numbers[bisect.bisect_left(numbers, True, key=lambda number: self.cost(number) <= cost)]

    def time(self, startup: float) -> float:
        """The least sum of start-ups and durations."""
        most = self.steps(self.volume)
        if startup == 0 or most == self.fewest:
            return startup * self.fewest + self.volume
        starts: Ints = np.unique(np.linspace(self.fewest, most, SAMPLES).astype(np.int64))
        ends = [*(int(start) - 1 for start in starts[1:]), most]
        return min(startup * int(start) + self.cost(end) for start, end in zip(starts, ends, strict=True))


def _drop_longest(lengths: Ints, count: Ints) -> Ints:
    """Each row without the first `count` entries."""
    columns = np.arange(lengths.shape[1]) + count[:, None]
    inside = columns < lengths.shape[1]
    shifted: Ints = np.where(inside, np.take_along_axis(lengths, np.where(inside, columns, 0), axis=1), 0)
    return shifted
