"""Schedules of messages that may be cut into pieces: their steps, and a bound of their time.

This is open shop with preemption (Gonzalez & Sahni, 1976): more steps, each of which costs a start-up, for less time.
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
from .folding import Amalgam, amalgamated
from .least_cost import optimal
from .message_graph import Ints, MessageGraph
from .schedule import EQUALS_BOUND, ListedSchedule, excess

Flags = NDArray[np.bool_]
TINY = 1e-9
UNCUT = 0.25  # of the time: for the schedule of whole messages
WEIGHTS = (1.0, 3.0, 0.0)  # towards processes with many messages
TOTALS = 32  # that are tried between the least and that of whole messages
DURATIONS, MORE_DURATIONS = 24, 256  # that a step is chosen from, in a small table and in a large one
EVERY_DURATION = 2**12  # entries of a small table


class PreemptiveSchedule(ListedSchedule):
    """A schedule of messages that may be cut, with what is known of its time. Not collective.

    Attributes
    ----------
    startup : float
        What each step costs beside its duration, in the unit of lengths.
    time_bound : float
        What no schedule's time is below.
    """

    def __init__(self, grid: MessageGraph, steps: list[Ints], startup: float, time_bound: float) -> None:
        super().__init__("preemptive", grid, steps)
        self.startup, self.time_bound = startup, time_bound

    @property
    def time(self) -> float:
        """Sum over steps of start-up and duration. Not collective."""
        return self.startup * self.number_of_steps + self.total_cost

    @property
    def lower_bound(self) -> int:
        """What the busiest process sends or receives. Not collective."""
        return self.grid.volume_bound

    @property
    def certificate(self) -> str:
        """One of "equals the lower bound", "best found, within x %". Not collective."""
        if self.time <= self.time_bound * (1 + TINY):
            return EQUALS_BOUND
        return f"best found, within {excess(self.time, self.time_bound)} %"


def preemptive(grid: MessageGraph, startup: float = 0.0, time_limit: float = 1.0) -> PreemptiveSchedule:
    """The schedule of least time that is found where messages may be cut. Not collective.

    Its time is the sum over steps of `startup` and the longest piece. With no start-up cost it is what the busiest process
    sends or receives, which is the least possible (Gonzalez & Sahni, 1976), in the fewest steps that are found. Lengths are
    cut at whole elements.

    With start-up costs the least time is NP-hard (Gopal & Wong, 1985; Crescenzi, Deng & Papadimitriou, 2001: K-preemptive
    bipartite scheduling, as in Cohen, Jeannot, Padoy & Wagner, 2006). Totals of durations are given, from the least to that
    of whole messages; steps as few as can be found keep to each, and the best of the totals is taken.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    startup : float
        Cost of a step, in the unit of the lengths: latency times bandwidth, in elements. With a grid of one slice it is
        that divided by the number of slices.
    time_limit : float
        Seconds for the search; a schedule of the least sum of durations is made even if it takes longer.

    Raises
    ------
    ScheduleError
        An option is not one of these, or there are more than 10^8 messages.
    """
    price = _number("startup", startup, "the cost of a step in the unit of lengths, at least 0", 0)
    search = _PieceSearch(grid, time_limit, (price, 1.0) if price else "cost")
    bound = search.bounds.time(price)
    totals = search.totals() if price else [search.bounds.volume]
    candidates = [search.whole, *search.cut(totals, price)]
    best = min(candidates, key=lambda candidate: candidate.value(price))
    return PreemptiveSchedule(grid, search.unfolded(best), price, bound)


def preemptive_pareto(grid: MessageGraph, time_limit: float = 1.0) -> list[PreemptiveSchedule]:
    """Schedules of cut messages of which none has both fewer steps and less cost than another. Not collective.

    This is the front of start-ups against time: the last costs what the busiest process sends or receives, the least
    possible; from each to the next more steps buy a lower cost. Each has its certificate: how far its cost may be above the
    least of all schedules with no more steps.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    time_limit : float
        Seconds for the search; the last schedule is made even if it takes longer.

    Raises
    ------
    ScheduleError
        `time_limit` is not a number above 0, or there are more than 10^8 messages.
    """
    search = _PieceSearch(grid, time_limit, "cost")
    candidates = [search.whole, search.uncut("steps"), *search.cut(search.totals(), 0.0)]
    chosen: list[_CandidateSchedule] = []
    for found in sorted(candidates, key=lambda found: (found.number, found.cost)):
        if not chosen or found.cost < chosen[-1].cost:
            chosen.append(found)
    return [PreemptiveSchedule(grid, search.unfolded(found), 0.0, search.bounds.cost(found.number)) for found in chosen]


class _CandidateSchedule(NamedTuple):
    """A schedule that was found, of whole messages or of pieces."""

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
        self.graph: Amalgam = amalgamated(grid)
        self.lengths = folded_lengths(grid, self.graph)

    def uncut(self, objective: str | tuple[float, float]) -> _CandidateSchedule:
        """Whole messages."""
        schedule = optimal(self.grid, objective, UNCUT * self.seconds)
        return _CandidateSchedule(schedule.number_of_steps, schedule.total_cost, schedule.steps, [])

    def totals(self) -> list[int]:
        """Sums of durations from the least to that of whole messages, first those that are far apart."""
        least, span = self.bounds.volume, self.whole.cost - self.bounds.volume
        return list(dict.fromkeys(least + int(span * _reversed_bits(k)) for k in range(TOTALS)))

    def cut(self, totals: list[int], startup: float) -> Iterator[_CandidateSchedule]:
        """Schedules whose durations sum up to no more than these; the first of them however long it takes."""
        best = self.whole.value(startup)[0]
        for number, (weight, total) in enumerate(itertools.product(WEIGHTS, totals)):
            late = self.deadline if number else math.inf
            if startup and startup * self.bounds.steps(total) + total >= best:
                continue
            if not startup and self.whole.value(startup) == (total, self.bounds.fewest):
                continue
            pieces = pieces_within(self.lengths, total, self.bounds.fewest, weight, late)
            if pieces is None:
                return
            cost = sum(int(piece.amounts.max()) for piece in pieces)
            found = _CandidateSchedule(len(pieces), cost, None, pieces)
            best = min(best, found.value(startup)[0])
            yield found

    def unfolded(self, found: _CandidateSchedule) -> list[Ints]:
        """Steps of the whole graph."""
        return unfolded_steps(self.graph, found.pieces) if found.whole is None else found.whole


def _reversed_bits(number: int) -> float:
    """Fractions 0, 1/2, 1/4, 3/4, 1/8, ... (van der Corput)."""
    answer, place = 0.0, 0.5
    while number:
        answer += place * (number & 1)
        number, place = number >> 1, place / 2
    return answer


def _number(name: str, value: object, meaning: str, least: float) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number < math.inf:
        raise ScheduleError(f"{name} = {value!r} must be a number: {meaning}")
    return number


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

    Where the steps that are left may take B in all, a process that still sends or receives S has a slack of B - S: it may
    be idle for so long. A step of duration d is a matching in which each process is idle for no longer than its slack. By
    Birkhoff's theorem there is one for some d as long as no slack is below 0, so every message is sent within B. The same
    is asked of the number of steps that are left and the number of messages of each process; that is not always possible,
    and then a step more is allowed. Of the steps that qualify the longest is taken, as bottleneck matchings do in Cohen,
    Jeannot, Padoy & Wagner, 2006.

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


SAMPLES = 64  # numbers of steps for which the bound is worked out


class SplitBounds:
    """Bounds of one graph: no schedule is below them whose messages may be cut, each step with a start-up cost. Not collective.

    A process with g messages that takes part in k steps cuts at most k - g of them, and each that it does not cut needs a
    step of its own of at least its length. So the i-th longest step is at least as long as the (i + k - g)-th longest
    message of any process; no sum of steps is less than the amount that a process sends or receives; and no number of steps
    is less than the maximum degree.

    Parameters
    ----------
    grid : MessageGraph
        Whose messages are scheduled.
    """

    def __init__(self, grid: MessageGraph) -> None:
        self.volume, self.fewest = grid.volume_bound, grid.step_bound
        rows, columns = grid.rows(grid.distinct_senders()), grid.columns(grid.distinct_receivers()).T
        self._sides = [np.unique(-np.sort(-side, axis=1), axis=0) for side in (rows, columns)]
        self._degrees = [np.count_nonzero(side, axis=1) for side in self._sides]

    def cost(self, steps: int) -> int:
        """The least sum of durations of so many steps, or fewer. Not collective."""
        durations = np.zeros(steps, dtype=np.int64)
        for side, degrees in zip(self._sides, self._degrees, strict=True):
            longest = _without_longest(side, steps - degrees)[:, :steps].max(axis=0, initial=0)
            durations[: len(longest)] = np.maximum(durations[: len(longest)], longest)
        return max(self.volume, int(durations.sum()))

    def steps(self, cost: int) -> int:
        """The fewest steps whose durations may sum up to `cost`. Not collective."""
        numbers = range(self.fewest, 2 * self.fewest + 1)
        return numbers[bisect.bisect_left(numbers, True, key=lambda number: self.cost(number) <= cost)]

    def time(self, startup: float) -> float:
        """The least sum of the steps' start-ups and durations. Not collective."""
        most = self.steps(self.volume)
        if startup == 0 or most == self.fewest:
            return startup * self.fewest + self.volume
        starts: Ints = np.unique(np.linspace(self.fewest, most, SAMPLES).astype(np.int64))
        ends = [*(int(start) - 1 for start in starts[1:]), most]
        return min(startup * int(start) + self.cost(end) for start, end in zip(starts, ends, strict=True))


def _without_longest(lengths: Ints, count: Ints) -> Ints:
    """Each row without that many of its first entries."""
    places = np.arange(lengths.shape[1]) + count[:, None]
    inside = places < lengths.shape[1]
    answer: Ints = np.where(inside, np.take_along_axis(lengths, np.where(inside, places, 0), axis=1), 0)
    return answer
