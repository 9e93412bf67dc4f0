"""Schedules of least cost, with certificates: `optimal`, and `pareto`, the Pareto front of steps and cost.

Desprez et al. leave both as open questions (section 6, conclusion).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..errors import ScheduleError
from .checks import checked_messages, checked_seconds, checked_table
from .communication_grid import CommunicationGrid
from .folding import FoldedGraph, fold, fold_slice, slices, unfold_parts
from .formulas import ring
from .levels import (
    TINY,
    Grouped,
    Levels,
    Limit,
    Reals,
    Solution,
    messages_nearby,
    preferred_levels,
    residues,
    subset_of,
)
from .matchings import FEW, Attempt, SortedMessages, Targets, greedy_parts, stepwise_parts
from .message_graph import Ints, MessageGraph
from .schedule import EQUALS_BOUND, ListedSchedule, excess

MOST_HEURISTIC = 200  # types up to which stepwise and greedy are tried
LARGEST_EXACT = 8_000  # counts up to which a program is solved with whole numbers
SMALLEST_PARTS = 2_000  # counts up to which a graph is not divided into parts
LARGEST_PART = 20_000  # messages up to which the program of a part is solved
MOST_MESSAGES = 10_000_000  # messages up to which they are put into levels one by one
MOST_TWICE = 200_000  # messages up to which there is a second attempt before any program
MOST_PREFERRED = 600_000  # messages up to which attempts use the preferred levels of a program
FIRST_PART = 80  # messages of the first part
SHARE = 0.7  # of the time left, for one program
FIRST_SHARE, LARGE_SHARE = 0.2, 0.8  # of the time left, for the first program of a slice, and for all its programs
FIRST_ATTEMPT = 0.1  # of the time left, for an attempt that may show that no program is needed
SKETCH = 0.17  # of the time left, for the first attempt with many messages
GROUPED = 0.4  # of the time left, for the program of grouped processes of a short array
SEEDS = 3
MANY = 100_000  # messages above which a quick attempt comes first
SMALL = 300  # counts up to which a program is solved for fewer steps


@dataclass(frozen=True)
class Aim:
    """The objective: the least alpha NS + beta TC, with a limit on the number of steps.

    Attributes
    ----------
    alpha, beta : float
        Weights of the number of steps and of the total cost.
    most_steps : int or None
        Limit on the number of steps.
    then_steps : bool
        Whether to prefer fewer steps among schedules of the least value.
    """

    alpha: float
    beta: float
    most_steps: int | None = None
    then_steps: bool = False

    def value(self, steps: int, cost: int) -> float:
        """The value of the objective; infinite for too many steps."""
        if self.most_steps is not None and steps > self.most_steps:
            return np.inf
        return self.alpha * steps + self.beta * cost

    def weights(self, costs: Ints) -> Reals:
        """The objective's weight of a step of each cost."""
        return np.asarray(self.alpha + self.beta * costs, dtype=np.float64)

    def limits(self, costs: Ints) -> list[Limit]:
        """The limit on the number of steps, as a constraint."""
        return [] if self.most_steps is None else [Limit(np.ones(len(costs)), 0, self.most_steps)]


class Search:
    """A search for the schedule of least cost: the best schedule so far, and a lower bound.

    A graph of whole slices is folded, and its program solved: with real counts first, with whole counts if those are not whole.
    Messages of other graphs are put into levels one by one. Small programs give a bound and the steps of each cost to try:
    first of grouped processes, then of the messages that did not fit.

    Parameters
    ----------
    grid : MessageGraph
        The messages.
    folded : FoldedGraph or None
        The folded graph, for whole slices.
    aim : Aim
        The objective.
    deadline : float
        When to stop, on the clock of `time.monotonic`.

    Attributes
    ----------
    value, bound : float
        The objective's value of the best schedule, and a lower bound of it.
    """

    def __init__(self, grid: MessageGraph, folded: FoldedGraph | None, aim: Aim, deadline: float) -> None:
        self.grid, self.folded, self.aim, self.deadline = grid, folded, aim, deadline
        self.value: float = np.inf
        self.number_of_steps = 0
        self.list_steps: Callable[[], list[Ints]] = list
        self.bound = self.first_bound

    @property
    def first_bound(self) -> float:
        """The lower bound from the graph's `step_bound` and `cost_bound`."""
        return self.aim.alpha * self.grid.step_bound + self.aim.beta * self.grid.cost_bound

    def run(self) -> list[Ints]:
        """Search, and return the steps of the best schedule."""
        if not self.grid.step_bound:
            self.value = 0
        elif self.folded is not None:
            self._of_slice(self.folded)
            if not np.isfinite(self.value):
                self._by_message()
        else:
            self._by_message()
        if not np.isfinite(self.value):
            self._keep_steps(ring(self.grid).steps)
        return self.list_steps()

    @property
    def _open(self) -> bool:
        """Whether the best schedule is above the bound, and time is left."""
        return self.value - self.bound > TINY and time.monotonic() < self.deadline

    @property
    def _has_spare_steps(self) -> bool:
        """Whether there may be a schedule of the same value with fewer steps."""
        return self.aim.then_steps and np.isfinite(self.value) and self.number_of_steps > self.grid.step_bound

    @cached_property
    def _messages(self) -> SortedMessages:
        return SortedMessages(self.grid)

    def _until(self, share: float = SHARE) -> float:
        """The deadline for a share of the time left."""
        now = time.monotonic()
        return now + max(0.0, share * (self.deadline - now))

    def _keep(self, number: int, cost: int, list_steps: Callable[[], list[Ints]]) -> None:
        """Keep a schedule if it is the best so far."""
        value = self.aim.value(number, cost)
        if (value, number) < (self.value, self.number_of_steps):
            self.value, self.number_of_steps, self.list_steps = value, number, list_steps

    def _keep_steps(self, steps: list[Ints]) -> None:
        steps = [step for step in steps if len(step)]
        self._keep(len(steps), sum(int(step[:, 2].max()) for step in steps), lambda: steps)

    def _raise_bound(self, bound: float) -> None:
        self.bound = max(self.bound, min(bound, self.value))

    # Folded graphs: counts of types.

    def _of_slice(self, graph: FoldedGraph) -> None:
        """Search the folded graph of whole slices."""
        levels = Levels(graph, self._until(LARGE_SHARE))
        if not levels.too_large:
            least = np.array([np.count_nonzero(self.grid.profile == cost) for cost in levels.costs], dtype=np.int64)
            if not self._take(levels, Levels(graph, self._until(FIRST_SHARE)).fitting(least)):
                self._programs(levels)
        if not np.isfinite(self.value) and graph.types <= MOST_HEURISTIC:
            self._try_heuristics(graph)

    def _attempt_unfolded(self, costs: Ints, steps: Ints) -> None:
        """Attempts, message by message, for the steps of a program's solution."""
        if not isinstance(self.grid, CommunicationGrid) or self.grid.P * self.grid.Q > MOST_MESSAGES:
            return
        group = residues(self.grid, self._messages)
        shares = Levels(group, self._until(), costs).shares(steps)
        self._attempts(Targets(costs, steps), None if shares is None else preferred_levels(group, shares))

    def _take(self, levels: Levels, solution: Solution) -> bool:
        """Keep a solution if it is the best so far; False if it has no whole counts."""
        if solution.steps is None or solution.counts is None:
            return False
        number, cost = int(solution.steps.sum()), int(solution.steps @ levels.costs)
        graph, counts = levels.graph, solution.counts
        assert isinstance(graph, FoldedGraph)
        self._keep(number, cost, partial(unfold_parts, graph, counts))
        return True

    def _programs(self, levels: Levels) -> None:
        weights, limits = self.aim.weights(levels.costs), self.aim.limits(levels.costs)
        real = levels.least(weights, limits)
        self._raise_bound(real.bound)
        if not self._take(levels, real) and real.steps is not None:
            self._take(levels, levels.fitting(real.steps))
            if self._open and self.folded is not None:
                self._attempt_unfolded(levels.costs, real.steps)
        for finer in self._finer(levels):
            if self.value - self.bound <= TINY:
                break
            whole = finer.least(weights, limits, whole=True)
            self._take(finer, whole)
            if finer.turns == 1:
                self._raise_bound(whole.bound)
        if self._has_spare_steps:
            self._fewer_steps(levels)

    def _finer(self, levels: Levels) -> Iterator[Levels]:
        """The program of the graph folded as much as possible, then less and less."""
        yield levels
        if isinstance(self.grid, CommunicationGrid) and self.folded is not None:
            for turns in range(levels.turns - 1, 0, -1):
                if levels.turns % turns == 0:
                    finer = Levels(fold_slice(self.grid, turns), levels.deadline)
                    if finer.too_large:
                        return
                    yield finer

    def _fewer_steps(self, levels: Levels) -> None:
        costs = levels.costs.astype(float)
        fewer = levels.least(np.ones(len(costs)), [Limit(costs, 0, self.value)])
        if fewer.steps is not None and fewer.counts is None:
            fewer = levels.fitting(fewer.steps)
        self._take(levels, fewer)

    def _try_heuristics(self, graph: FoldedGraph) -> None:
        for parts in (stepwise_parts(graph), greedy_parts(graph)):
            assert parts is not None
            self._keep(*_measure(graph, parts), partial(unfold_parts, graph, parts))

    # Graphs that do not fold: message by message.

    def _by_message(self) -> None:
        """Put messages into levels one by one, for steps from small programs."""
        if self.grid.P * self.grid.Q > MOST_MESSAGES:
            return
        messages = self._messages
        costs = np.unique(messages.length)[::-1]
        profile = np.array([np.count_nonzero(self.grid.profile == cost) for cost in costs], dtype=np.int64)
        targets = Targets(costs, profile)
        counts = len(messages.length) * len(costs)
        steps = None
        if isinstance(self.grid, CommunicationGrid) and not self._short:
            # For several slices the program of grouped processes is faster and better than attempts that raise costs.
            attempt = messages.attempt(targets, self._until(FIRST_ATTEMPT), firm=True)
            if not len(attempt.raised):
                self._keep_attempt(attempt)
            else:
                self._attempt_quickly(targets, self._until(SKETCH))
                steps = self._attempt_grouped(messages, costs, profile)
        if self._open and steps is None:
            attempt = self._attempt(targets) if len(messages.length) > MOST_TWICE else self._attempts(targets, seeds=0)
            if self._open and isinstance(self.grid, CommunicationGrid):
                self._attempt_grouped(messages, costs, profile)
        if self._open and counts > SMALLEST_PARTS:
            self._parts(messages, costs, profile, attempt)
        if self._open and counts <= 2 * LARGEST_EXACT:
            self._exact()
        elif self._has_spare_steps and counts <= SMALL:
            self._fewer_steps(Levels(fold(self.grid), self._until(FIRST_SHARE)))

    def _keep_attempt(self, attempt: Attempt) -> None:
        self._keep(attempt.steps, attempt.cost, partial(self._messages.list_steps, attempt))

    @property
    def _short(self) -> bool:
        """Whether the array is so much shorter than a slice that grouping of processes helps little."""
        grid = self.grid
        return isinstance(grid, CommunicationGrid) and 4 * (grid.n or 0) < grid.slice_length

    def _attempt(self, targets: Targets, preferred: Ints | None = None, seed: int | None = None) -> Attempt:
        """Attempt some targets, and keep the schedule; if it has too many steps, attempt fewer and costlier ones."""
        attempt = self._messages.within(self.aim.most_steps, targets, self.deadline, preferred, seed)
        self._keep_attempt(attempt)
        return attempt

    def _attempt_quickly(self, targets: Targets, deadline: float) -> None:
        """With many messages, attempt some targets quickly: there may be no time for a thorough attempt."""
        if len(self._messages.length) > MANY:
            self._keep_attempt(self._messages.attempt(targets, deadline, tries=FEW))

    def _attempts(self, targets: Targets, preferred: Ints | None = None, seeds: int = SEEDS) -> Attempt:
        """The best of several attempts: by first fit, with `preferred` levels, and with the cheapest ones."""
        best = self._attempt(targets)
        cheapest = self._messages.cheapest(targets)
        for seed in (None, *range(seeds)):
            for levels in (preferred, cheapest):
                if levels is not None and self._open and len(best.raised):
                    best = min(best, self._attempt(targets, levels, seed), key=lambda attempt: attempt.cost)
        return best

    def _least(self, group: Grouped, costs: Ints, profile: Ints, deadline: float) -> Solution:
        """Solve the program of a relaxation, with the constraints that follow from the graph's profile."""
        levels = Levels(group, deadline, costs)
        levels_used = np.flatnonzero(profile)
        if levels.too_many(len(levels_used) + 1):
            return Solution(None, None, -np.inf)
        weights, limits = self.aim.weights(costs), self.aim.limits(costs)
        for k in levels_used:
            weights_up_to_k = (np.arange(len(costs)) <= k).astype(float)
            limits.append(Limit(weights_up_to_k, float(profile[: k + 1].sum()), np.inf))
        solution = levels.least(weights, limits)
        self._raise_bound(solution.bound)
        return solution

    def _attempt_grouped(self, messages: SortedMessages, costs: Ints, profile: Ints) -> Ints | None:
        """Solve the program of processes grouped as in a slice, and attempt its steps."""
        assert isinstance(self.grid, CommunicationGrid)
        group = residues(self.grid, messages)
        solution = self._least(group, costs, profile, self._until(GROUPED if self._short else SHARE))
        if solution.steps is not None and solution.shares is not None:
            targets = Targets(costs, solution.steps)
            self._attempt_quickly(targets, self.deadline)
            if len(messages.length) > MOST_PREFERRED:
                self._attempt(targets)
            else:
                self._attempts(targets, preferred_levels(group, solution.shares))
        return solution.steps

    def _exact(self) -> None:
        levels = Levels(fold(self.grid), self.deadline)
        if levels.graph.types * len(levels.costs) <= LARGEST_EXACT:
            self._programs(levels)

    def _parts(self, messages: SortedMessages, costs: Ints, profile: Ints, attempt: Attempt) -> None:
        """Solve programs of more and more messages around the first one without room, and attempt their steps."""
        chosen, size = np.zeros(0, dtype=np.int64), FIRST_PART
        while self._open and len(attempt.raised):
            first = attempt.raised[:1]
            if np.isin(first, chosen).all():
                size *= 2
            size_before = len(chosen)
            chosen = np.union1d(chosen, messages_nearby(messages, first, size))
            if len(chosen) == size_before:
                if size_before == len(messages.length) or size > LARGEST_PART:
                    return
                continue
            solution = self._least(subset_of(messages, chosen), costs, profile, self.deadline)
            if solution.steps is None:
                return
            attempt = self._attempts(Targets(costs, solution.steps))


def _measure(graph: FoldedGraph, parts: Ints) -> tuple[int, int]:
    """Number of steps and cost of a folded schedule."""
    sizes = np.concatenate([graph.sender_sizes, graph.receiver_sizes])
    ends = np.concatenate([graph.sender_group, graph.receiver_group + len(graph.sender_sizes)])
    degrees = np.zeros((len(sizes), parts.shape[1]), dtype=np.int64)
    np.add.at(degrees, ends, np.concatenate([parts, parts]))
    steps = (-(-degrees // sizes[:, None])).max(axis=0, initial=0)
    longest = np.where(parts > 0, graph.length[:, None], 0).max(axis=0, initial=0)
    return int(steps.sum()), int(steps @ longest)


PROVED = "proved by integer program"
LIFTING = 2.5e-7  # seconds to list a message
SPARE = 0.9  # of the time: solvers stop late


class OptimalSchedule(ListedSchedule):
    """A schedule of least cost, with a certificate."""

    def __init__(self, grid: MessageGraph, steps: list[Ints], aim: Aim, bound: float) -> None:
        super().__init__("optimal", grid, steps)
        value = aim.value(self.number_of_steps, self.total_cost)
        # Differences of integers are exact even if the integers have no exact floating-point value.
        if value - (aim.alpha * grid.step_bound + aim.beta * grid.cost_bound) <= TINY:
            self._certificate = EQUALS_BOUND
        elif value - bound <= TINY:
            self._certificate = PROVED
        else:
            self._certificate = f"best found, within {excess(value, bound)} %"

    @property
    def certificate(self) -> str:
        """One of "equals the lower bound", "proved by integer program", "best found, within x %"."""
        return self._certificate


def optimal(
    grid: MessageGraph, objective: str | tuple[float, float] = "cost", time_limit: float = 1.0
) -> OptimalSchedule:
    """The schedule of least cost within a time limit, with a certificate (Desprez, section 6).

    The lower bound is `cost_bound`, or that of the integer program (`Levels`) with real counts; a schedule that meets the bound
    is optimal. If counts are not whole, the program is solved with whole counts, folded less and less, until a bound meets the
    cost or time is up.

    Parameters
    ----------
    grid : MessageGraph
        The messages.
    objective : str or tuple
        "cost": least total cost, then few steps. "steps": fewest steps, then least total cost. (alpha, beta): least
        alpha NS + beta TC (the affine model of section 4.3.1).
    time_limit : float
        Seconds. If the proof takes longer, the best schedule so far is returned; its certificate says so.

    Raises
    ------
    ScheduleError
        An option is invalid, or there are more than 10^8 messages.
    """
    return search_for(grid, aim_of(objective, grid), time_limit)


def aim_of(objective: Any, grid: MessageGraph) -> Aim:
    """The aim for an objective as users write it."""
    if objective == "cost":
        return Aim(0, 1, then_steps=True)
    if objective == "steps":
        return Aim(0, 1, most_steps=grid.step_bound)
    try:
        alpha, beta = (float(weight) for weight in objective)
        valid = 0 <= alpha < np.inf and 0 <= beta < np.inf and alpha + beta > 0
    except (TypeError, ValueError):
        valid = False
    if isinstance(objective, str) or not valid:
        raise ScheduleError(
            f"objective = {objective!r} must be 'cost', 'steps', or a pair (alpha, beta) of numbers of at least 0, not both 0, "
            "for the least alpha NS + beta TC"
        )
    return Aim(alpha, beta)


def search_for(grid: MessageGraph, aim: Aim, time_limit: float = 1.0) -> OptimalSchedule:
    """Search for the best schedule for an aim within a time limit."""
    seconds = checked_seconds(time_limit)
    start = time.monotonic()
    folded = fold(grid) if isinstance(grid, CommunicationGrid) and slices(grid) else None
    if folded is None:
        checked_table(grid.P, grid.Q)
        messages = int(np.count_nonzero(grid.lengths))
    else:
        messages = int(folded.count.sum()) * folded.turns
        checked_messages(messages)
    search = Search(grid, folded, aim, start + max(seconds / 2, SPARE * seconds - LIFTING * messages))
    steps = search.run()
    return OptimalSchedule(grid, steps, aim, search.bound)


def pareto(grid: MessageGraph, time_limit: float = 1.0) -> list[OptimalSchedule]:
    """The Pareto front of steps and cost (Desprez, section 6). Not collective.

    The first schedule has the fewest steps, the last the least cost; each next one has more steps and a lower cost. The
    certificate of each is for the least cost with at most as many steps.

    Parameters
    ----------
    grid : MessageGraph
        The messages.
    time_limit : float
        Seconds for each number of steps.

    Raises
    ------
    ScheduleError
        There are more than 10^8 messages.
    """
    cheapest = search_for(grid, Aim(0, 1, then_steps=True), time_limit)
    front: list[OptimalSchedule] = []
    for steps in range(grid.step_bound, cheapest.number_of_steps):
        schedule = search_for(grid, Aim(0, 1, most_steps=steps), time_limit)
        if schedule.total_cost <= cheapest.total_cost:
            return [*front, schedule]
        if not front or schedule.total_cost < front[-1].total_cost:
            front.append(schedule)
        if schedule.certificate == EQUALS_BOUND:
            return front
    return [*front, cheapest]
