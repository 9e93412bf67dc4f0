"""Schedules of least cost, with certificates: `optimal`, and `pareto`, the front of steps against cost.

Desprez et al. leave both as open questions (section 6, their conclusion).
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
from .folding import Amalgam, amalgamated, folded_slice, lifted, slices
from .formulas import ring
from .levels import TINY, Grouped, Levels, Limit, Reals, Solution, around, part, residues, wishes
from .matchings import FEW, Attempt, SortedMessages, Targets, greedy_parts, stepwise_parts
from .message_graph import Ints, MessageGraph
from .schedule import EQUALS_BOUND, ListedSchedule, excess

MOST_HEURISTIC = 200  # types for which stepwise and greedy are tried where each process is a group
LARGEST_EXACT = 8_000  # counts of a program that is solved with whole numbers
SMALLEST_PARTS = 2_000  # counts of one that is solved at once
LARGEST_PART = 20_000  # messages of a part whose program is solved
MOST_MESSAGES = 10_000_000  # that are put into levels one by one
MOST_TWICE = 200_000  # that are tried a second time before any program
MOST_WISHED = 600_000  # that are put where a program wishes
FIRST_PART = 80  # messages of the first part of a graph whose program is solved
SHARE = 0.7  # of the time that is left, for one program: what follows needs some too
FIRST_SHARE, LARGE_SHARE = 0.2, 0.8  # of the time for what comes first of a slice, and for all its programs
FIRST_ATTEMPT = 0.1  # of the time for an attempt that may show that no program is needed
SKETCH = 0.17  # of the time that is left, for the first attempt with many messages
GROUPED = 0.4  # of the time that is left, for the program of processes put together, in short arrays
SEEDS = 3
MANY = 100_000  # messages: of so many or fewer, short arrays are refined before processes are put together
SMALL = 300  # counts of a program that is solved at once


@dataclass(frozen=True)
class Aim:
    """What is to be least: alpha NS + beta TC, with at most some number of steps.

    Attributes
    ----------
    alpha, beta : float
        Weights of the number of steps and of the total cost.
    most_steps : int or None
        Limit on the number of steps.
    then_steps : bool
        Whether the fewest steps are sought among schedules of the least value.
    """

    alpha: float
    beta: float
    most_steps: int | None = None
    then_steps: bool = False

    def value(self, steps: int, cost: int) -> float:
        """What is to be least; infinite if there are too many steps. Not collective."""
        if self.most_steps is not None and steps > self.most_steps:
            return np.inf
        return self.alpha * steps + self.beta * cost

    def weights(self, costs: Ints) -> Reals:
        """Of a step of each cost. Not collective."""
        return np.asarray(self.alpha + self.beta * costs, dtype=np.float64)

    def limits(self, costs: Ints) -> list[Limit]:
        """On the steps of each cost. Not collective."""
        return [] if self.most_steps is None else [Limit(np.ones(len(costs)), 0, self.most_steps)]


class Search:
    """The best so far, and the bound. Not collective.

    A slice is folded and its program solved, with whole counts where real ones do not come out whole. A graph that does not
    fold, above all that of an array that ends within a slice, is put into levels message by message. Small programs give a
    bound and the numbers of steps of each cost to try: of processes put together, then of the messages for which no room
    was found.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    folded : Amalgam or None
        The graph folded, where it is one of whole slices.
    aim : Aim
        What is to be least.
    deadline : float
        When to stop, on the clock of `time.monotonic`.

    Attributes
    ----------
    value, bound : float
        What the best schedule has, and what none can be below.
    """

    def __init__(self, grid: MessageGraph, folded: Amalgam | None, aim: Aim, deadline: float) -> None:
        self.grid, self.folded, self.aim, self.deadline = grid, folded, aim, deadline
        self.value: float = np.inf
        self.steps_then = 0
        self.found: Callable[[], list[Ints]] = list
        self.bound = self.first_bound

    @property
    def first_bound(self) -> float:
        """The bound of the level sets. Not collective."""
        return self.aim.alpha * self.grid.step_bound + self.aim.beta * self.grid.cost_bound

    def run(self) -> list[Ints]:
        """The steps of the best schedule. Not collective."""
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
        return self.found()

    @property
    def _open(self) -> bool:
        return self.value - self.bound > TINY and time.monotonic() < self.deadline

    @property
    def _has_spare_steps(self) -> bool:
        """Whether as good a schedule with fewer steps is worth looking for."""
        return self.aim.then_steps and np.isfinite(self.value) and self.steps_then > self.grid.step_bound

    @cached_property
    def _messages(self) -> SortedMessages:
        return SortedMessages(self.grid)

    def _until(self, share: float = SHARE) -> float:
        now = time.monotonic()
        return now + max(0.0, share * (self.deadline - now))

    def _keep(self, number: int, cost: int, found: Callable[[], list[Ints]]) -> None:
        """If it is the best so far."""
        value = self.aim.value(number, cost)
        if (value, number) < (self.value, self.steps_then):
            self.value, self.steps_then, self.found = value, number, found

    def _keep_steps(self, steps: list[Ints]) -> None:
        steps = [step for step in steps if len(step)]
        self._keep(len(steps), sum(int(step[:, 2].max()) for step in steps), lambda: steps)

    def _raise_bound(self, bound: float) -> None:
        self.bound = max(self.bound, min(bound, self.value))

    # Folded graphs: counts of types.

    def _of_slice(self, graph: Amalgam) -> None:
        levels = Levels(graph, self._until(LARGE_SHARE))
        if not levels.too_large:
            least = np.array([np.count_nonzero(self.grid.profile == cost) for cost in levels.costs], dtype=np.int64)
            if not self._take(levels, Levels(graph, self._until(FIRST_SHARE)).fitting(least)):
                self._programs(levels)
        if not np.isfinite(self.value) and graph.types <= MOST_HEURISTIC:
            self._heuristics(graph)

    def _unfolded(self, costs: Ints, steps: Ints) -> None:
        """What a program says of a slice, tried message by message."""
        if not isinstance(self.grid, CommunicationGrid) or self.grid.P * self.grid.Q > MOST_MESSAGES:
            return
        group = residues(self.grid, self._messages)
        shares = Levels(group, self._until(), costs).shares(steps)
        self._attempts(Targets(costs, steps), None if shares is None else wishes(group, shares))

    def _take(self, levels: Levels, solution: Solution) -> bool:
        """Keep a solution if it is the best so far."""
        if solution.steps is None or solution.counts is None:
            return False
        number, cost = int(solution.steps.sum()), int(solution.steps @ levels.costs)
        graph, counts = levels.graph, solution.counts
        assert isinstance(graph, Amalgam)
        self._keep(number, cost, partial(lifted, graph, counts))
        return True

    def _programs(self, levels: Levels) -> None:
        weights, limits = self.aim.weights(levels.costs), self.aim.limits(levels.costs)
        real = levels.least(weights, limits)
        self._raise_bound(real.bound)
        if not self._take(levels, real) and real.steps is not None:
            self._take(levels, levels.fitting(real.steps))
            if self._open and self.folded is not None:
                self._unfolded(levels.costs, real.steps)
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
        """The program folded as much as can be, then less and less."""
        yield levels
        if isinstance(self.grid, CommunicationGrid) and self.folded is not None:
            for turns in range(levels.turns - 1, 0, -1):
                if levels.turns % turns == 0:
                    finer = Levels(folded_slice(self.grid, turns), levels.deadline)
                    if finer.too_large:
                        return
                    yield finer

    def _fewer_steps(self, levels: Levels) -> None:
        costs = levels.costs.astype(float)
        fewer = levels.least(np.ones(len(costs)), [Limit(costs, 0, self.value)])
        if fewer.steps is not None and fewer.counts is None:
            fewer = levels.fitting(fewer.steps)
        self._take(levels, fewer)

    def _heuristics(self, graph: Amalgam) -> None:
        for parts in (stepwise_parts(graph), greedy_parts(graph)):
            assert parts is not None
            self._keep(*_measured(graph, parts), partial(lifted, graph, parts))

    # Graphs that do not fold: message by message.

    def _by_message(self) -> None:
        """Levels of the messages one by one, for steps that small programs tell."""
        if self.grid.P * self.grid.Q > MOST_MESSAGES:
            return
        messages = self._messages
        costs = np.unique(messages.length)[::-1]
        profile = np.array([np.count_nonzero(self.grid.profile == cost) for cost in costs], dtype=np.int64)
        targets = Targets(costs, profile)
        counts = len(messages.length) * len(costs)
        steps = None
        if isinstance(self.grid, CommunicationGrid) and not self._short:
            # Of several slices the program of few types tells more, and sooner, than attempts that end in costlier steps.
            found = messages.attempt(targets, self._until(FIRST_ATTEMPT), firm=True)
            if not len(found.raised):
                self._keep_attempt(found)
            else:
                self._sketched(targets, self._until(SKETCH))
                steps = self._grouped(messages, costs, profile)
        if self._open and steps is None:
            found = self._attempt(targets) if len(messages.length) > MOST_TWICE else self._attempts(targets, seeds=0)
            if self._open and isinstance(self.grid, CommunicationGrid):
                self._grouped(messages, costs, profile)
        if self._open and counts > SMALLEST_PARTS:
            self._parts(messages, costs, profile, found)
        if self._open and counts <= 2 * LARGEST_EXACT:
            self._exact()
        elif self._has_spare_steps and counts <= SMALL:
            self._fewer_steps(Levels(amalgamated(self.grid), self._until(FIRST_SHARE)))

    def _keep_attempt(self, found: Attempt) -> None:
        self._keep(found.steps, found.cost, partial(self._messages.listed, found))

    @property
    def _short(self) -> bool:
        """Whether the array is so short that processes do not resemble each other as in a slice."""
        grid = self.grid
        return isinstance(grid, CommunicationGrid) and 4 * (grid.n or 0) < grid.slice_length

    def _attempt(self, targets: Targets, wish: Ints | None = None, seed: int | None = None) -> Attempt:
        """Keep what comes of some targets; where that has too many steps, of fewer and costlier ones."""
        found = self._messages.within(self.aim.most_steps, targets, self.deadline, wish, seed)
        self._keep_attempt(found)
        return found

    def _sketched(self, targets: Targets, deadline: float) -> None:
        """Of many messages, what comes of some targets soon: all of the time may not do for a thorough attempt."""
        if len(self._messages.length) > MANY:
            self._keep_attempt(self._messages.attempt(targets, deadline, tries=FEW))

    def _attempts(self, targets: Targets, wish: Ints | None = None, seeds: int = SEEDS) -> Attempt:
        """The best of several attempts: by first fit, with the wish, and with wishes for the cheapest levels."""
        best = self._attempt(targets)
        cheapest = self._messages.cheapest(targets)
        for seed in (None, *range(seeds)):
            for wanted in (wish, cheapest):
                if wanted is not None and self._open and len(best.raised):
                    best = min(best, self._attempt(targets, wanted, seed), key=lambda attempt: attempt.cost)
        return best

    def _least(self, group: Grouped, costs: Ints, profile: Ints, deadline: float) -> Solution:
        """The program of a relaxation, with what the level sets tell of the whole."""
        levels = Levels(group, deadline, costs)
        told = np.flatnonzero(profile)
        if levels.too_many(len(told) + 1):
            return Solution(None, None, -np.inf)
        weights, limits = self.aim.weights(costs), self.aim.limits(costs)
        for k in told:
            among = (np.arange(len(costs)) <= k).astype(float)
            limits.append(Limit(among, float(profile[: k + 1].sum()), np.inf))
        solution = levels.least(weights, limits)
        self._raise_bound(solution.bound)
        return solution

    def _grouped(self, messages: SortedMessages, costs: Ints, profile: Ints) -> Ints | None:
        """Processes put together as in a slice."""
        assert isinstance(self.grid, CommunicationGrid)
        group = residues(self.grid, messages)
        solution = self._least(group, costs, profile, self._until(GROUPED if self._short else SHARE))
        if solution.steps is not None and solution.shares is not None:
            targets = Targets(costs, solution.steps)
            self._sketched(targets, self.deadline)
            if len(messages.length) > MOST_WISHED:
                self._attempt(targets)
            else:
                self._attempts(targets, wishes(group, solution.shares))
        return solution.steps

    def _exact(self) -> None:
        levels = Levels(amalgamated(self.grid), self.deadline)
        if levels.graph.types * len(levels.costs) <= LARGEST_EXACT:
            self._programs(levels)

    def _parts(self, messages: SortedMessages, costs: Ints, profile: Ints, found: Attempt) -> None:
        """The program of the messages around the first for which there was no room, of more and more of them."""
        chosen, size = np.zeros(0, dtype=np.int64), FIRST_PART
        while self._open and len(found.raised):
            first = found.raised[:1]
            if np.isin(first, chosen).all():
                size *= 2
            before = len(chosen)
            chosen = np.union1d(chosen, around(messages, first, size))
            if len(chosen) == before:
                if before == len(messages.length) or size > LARGEST_PART:
                    return
                continue
            solution = self._least(part(messages, chosen), costs, profile, self.deadline)
            if solution.steps is None:
                return
            found = self._attempts(Targets(costs, solution.steps))


def _measured(graph: Amalgam, parts: Ints) -> tuple[int, int]:
    """Steps and cost of runs of equal steps."""
    sizes = np.concatenate([graph.sender_sizes, graph.receiver_sizes])
    ends = np.concatenate([graph.sender_group, graph.receiver_group + len(graph.sender_sizes)])
    degrees = np.zeros((len(sizes), parts.shape[1]), dtype=np.int64)
    np.add.at(degrees, ends, np.concatenate([parts, parts]))
    times = (-(-degrees // sizes[:, None])).max(axis=0, initial=0)
    longest = np.where(parts > 0, graph.length[:, None], 0).max(axis=0, initial=0)
    return int(times.sum()), int(times @ longest)


PROVED = "proved by integer program"
LIFTING = 2.5e-7  # seconds for each message
SPARE = 0.9  # solvers notice late that their time is up


class OptimalSchedule(ListedSchedule):
    """A schedule with what is known of its cost. Not collective."""

    def __init__(self, grid: MessageGraph, steps: list[Ints], aim: Aim, bound: float) -> None:
        super().__init__("optimal", grid, steps)
        value = aim.value(self.number_of_steps, self.total_cost)
        # Differences of whole numbers are exact, also where the numbers themselves have no exact floating-point value.
        if value - (aim.alpha * grid.step_bound + aim.beta * grid.cost_bound) <= TINY:
            self._certificate = EQUALS_BOUND
        elif value - bound <= TINY:
            self._certificate = PROVED
        else:
            self._certificate = f"best found, within {excess(value, bound)} %"

    @property
    def certificate(self) -> str:
        """One of "equals the lower bound", "proved by integer program", "best found, within x %". Not collective."""
        return self._certificate


def optimal(
    grid: MessageGraph, objective: str | tuple[float, float] = "cost", time_limit: float = 1.0
) -> OptimalSchedule:
    """The schedule of least cost that is found in a time, and whether it is proved (Desprez, section 6). Not collective.

    The bound is that of the level sets, or that of the integer program (`Levels`) with real counts, which holds for the
    whole graph; a schedule that meets it is proved. Where counts do not come out whole the program is solved with whole
    ones, folded less and less, until a bound of the whole meets the cost or time is up.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    objective : str or tuple
        "cost": least total cost, then the fewest steps that are found. "steps": fewest steps, then least total cost.
        (alpha, beta): least alpha NS + beta TC (the affine model of section 4.3.1).
    time_limit : float
        Seconds. Where the proof takes longer, the best found so far is returned, and its certificate says so.

    Raises
    ------
    ScheduleError
        An option is not one of these, or there are more than 10^8 messages.
    """
    return sought(grid, aim_of(objective, grid), time_limit)


def aim_of(objective: Any, grid: MessageGraph) -> Aim:
    """The aim for an objective as users write it. Not collective."""
    if objective == "cost":
        return Aim(0, 1, then_steps=True)
    if objective == "steps":
        return Aim(0, 1, most_steps=grid.step_bound)
    try:
        alpha, beta = (float(weight) for weight in objective)
        fine = 0 <= alpha < np.inf and 0 <= beta < np.inf and alpha + beta > 0
    except (TypeError, ValueError):
        fine = False
    if isinstance(objective, str) or not fine:
        raise ScheduleError(
            f"objective = {objective!r} must be 'cost', 'steps', or a pair (alpha, beta) of numbers of at least 0, not both 0, "
            "for the least alpha NS + beta TC"
        )
    return Aim(alpha, beta)


def sought(grid: MessageGraph, aim: Aim, time_limit: float = 1.0) -> OptimalSchedule:
    """The best schedule for an aim that is found in a time. Not collective."""
    seconds = checked_seconds(time_limit)
    start = time.monotonic()
    folded = amalgamated(grid) if isinstance(grid, CommunicationGrid) and slices(grid) else None
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
    """Schedules of which none has both fewer steps and less cost than another (Desprez, section 6). Not collective.

    The first has the fewest steps possible, the last the least cost; from each to the next a greater number of steps buys a
    lower cost. Each has its certificate: that its cost is the least for no more steps than it has.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    time_limit : float
        Seconds for each number of steps.

    Raises
    ------
    ScheduleError
        There are more than 10^8 messages.
    """
    cheapest = sought(grid, Aim(0, 1, then_steps=True), time_limit)
    front: list[OptimalSchedule] = []
    for steps in range(grid.step_bound, cheapest.number_of_steps):
        schedule = sought(grid, Aim(0, 1, most_steps=steps), time_limit)
        if schedule.total_cost <= cheapest.total_cost:
            return [*front, schedule]
        if not front or schedule.total_cost < front[-1].total_cost:
            front.append(schedule)
        if schedule.certificate == EQUALS_BOUND:
            return front
    return [*front, cheapest]
