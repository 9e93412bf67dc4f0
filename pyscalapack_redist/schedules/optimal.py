"""Least total cost, with a certificate: the question that Desprez et al. leave open in their conclusion.

The bound is that of the level sets, or that of the integer program of `levels` with real counts, which holds for the whole
graph; a schedule that meets it is proved. Where counts do not come out whole the program is solved with whole ones, folded
less and less, until a bound of the whole meets the cost or time is up.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ScheduleError
from .amalgam import Amalgam, amalgamated, folded_slice, slices
from .caterpillar import ring
from .checks import checked_messages
from .communication_grid import CommunicationGrid
from .greedy import greedy_parts
from .levels import TINY, Levels, Limit, Reals, Solution
from .lifting import lifted
from .message_graph import Ints, MessageGraph
from .schedule import EQUALS_BOUND, ListedSchedule, excess
from .stepwise import stepwise_parts

__all__ = ["Aim", "OptimalSchedule", "aim_of", "optimal", "sought"]

PROVED = "proved by integer program"
LIFTING = 5e-7  # seconds for each message
SPARE = 0.85  # solvers notice late that their time is up
MOST_HEURISTIC = 20_000  # types for which stepwise and greedy are tried where each process is a group


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


class OptimalSchedule(ListedSchedule):
    """A schedule with what is known of its cost. Not collective."""

    def __init__(self, grid: MessageGraph, steps: list[Ints], certificate: str) -> None:
        super().__init__("optimal", grid, steps)
        self._certificate = certificate

    @property
    def certificate(self) -> str:
        """One of "equals the lower bound", "proved by integer program", "best found, within x %". Not collective."""
        return self._certificate


def optimal(
    grid: MessageGraph, objective: str | tuple[float, float] = "cost", time_limit: float = 1.0
) -> OptimalSchedule:
    """The schedule of least cost that is found in a time, and whether it is proved (Desprez, section 6). Not collective.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    objective : str or tuple
        "cost": least total cost, then fewest steps. "steps": fewest steps, then least total cost. (alpha, beta): least
        alpha NS + beta TC (the affine model of section 4.3.1).
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
    try:
        seconds = operator.index(time_limit) if isinstance(time_limit, int) else float(time_limit)
        fine = seconds > 0
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise ScheduleError(f"time_limit = {time_limit!r} must be a number of seconds of more than 0")
    start = time.monotonic()
    graph = amalgamated(grid)
    messages = int(graph.count.sum()) * graph.turns
    checked_messages(messages)
    lifting = LIFTING * messages
    return _Search(grid, graph, aim, start + max(seconds / 2, SPARE * seconds - lifting)).run()


class _Search:
    """The best so far, and the bound."""

    def __init__(self, grid: MessageGraph, graph: Amalgam, aim: Aim, deadline: float) -> None:
        self.grid, self.graph, self.aim, self.deadline = grid, graph, aim, deadline
        self.value: float = np.inf
        self.steps_then = 0
        self.found: tuple[Amalgam, Ints] | list[Ints] = []
        self.bound = self._first_bound()

    def run(self) -> OptimalSchedule:
        if self.graph.types:
            levels = Levels(self.graph, self.deadline)
            least = np.array([np.count_nonzero(self.grid.profile == cost) for cost in levels.costs], dtype=np.int64)
            if not levels.too_large and not self._take(levels, levels.fitting(least)):
                self._programs(levels)
            if self.value > self.bound + TINY and not (np.isfinite(self.value) and time.monotonic() > self.deadline):
                self._heuristics()
        else:
            self.value = 0
        steps = self.found if isinstance(self.found, list) else lifted(*self.found)
        return OptimalSchedule(self.grid, steps, self._certificate())

    def _first_bound(self) -> float:
        return self.aim.alpha * self.grid.step_bound + self.aim.beta * self.grid.cost_bound

    def _take(self, levels: Levels, solution: Solution) -> bool:
        """Keep a solution if it is the best so far."""
        if solution.steps is None or solution.counts is None:
            return False
        number, cost = int(solution.steps.sum()), int(solution.steps @ levels.costs)
        self._keep(number, cost, (levels.graph, solution.counts))
        return True

    def _keep(self, number: int, cost: int, found: tuple[Amalgam, Ints] | list[Ints]) -> None:
        value = self.aim.value(number, cost)
        if (value, number) < (self.value, self.steps_then):
            self.value, self.steps_then, self.found = value, number, found

    def _programs(self, levels: Levels) -> None:
        weights, limits = self.aim.weights(levels.costs), self.aim.limits(levels.costs)
        real = levels.least(weights, limits)
        self.bound = max(self.bound, min(real.bound, self.value))
        if not self._take(levels, real) and real.steps is not None:
            self._take(levels, levels.fitting(real.steps))
        for finer in self._finer(levels):
            if self.value <= self.bound + TINY:
                break
            whole = finer.least(weights, limits, whole=True)
            self._take(finer, whole)
            if finer.graph.turns == 1:
                self.bound = max(self.bound, min(whole.bound, self.value))
        if self.aim.then_steps and np.isfinite(self.value) and self.steps_then > self.grid.step_bound:
            self._fewer_steps(levels)

    def _finer(self, levels: Levels) -> Iterator[Levels]:
        """The program folded as much as can be, then less and less."""
        yield levels
        if isinstance(self.grid, CommunicationGrid) and slices(self.grid):
            for turns in range(self.graph.turns - 1, 0, -1):
                if self.graph.turns % turns == 0:
                    finer = Levels(folded_slice(self.grid, turns), self.deadline)
                    if finer.too_large:
                        return
                    yield finer

    def _fewer_steps(self, levels: Levels) -> None:
        costs = levels.costs.astype(float)
        fewer = levels.least(np.ones(len(costs)), [Limit(costs, 0, self.value)])
        if fewer.steps is not None and fewer.counts is None:
            fewer = levels.fitting(fewer.steps)
        self._take(levels, fewer)

    def _heuristics(self) -> None:
        if self.graph.types <= MOST_HEURISTIC or (self.graph.sender_sizes > 1).any():
            for parts in (stepwise_parts(self.graph), greedy_parts(self.graph)):
                number, cost = _measured(self.graph, parts)
                self._keep(number, cost, (self.graph, parts))
        if isinstance(self.grid, CommunicationGrid) and self.grid.n is not None:
            self._of_slice(self.grid)
        if not np.isfinite(self.value):
            self._keep_steps(ring(self.grid).steps)

    def _of_slice(self, grid: CommunicationGrid) -> None:
        """The steps that are best for a slice, with the lengths of the array."""
        slice_grid = CommunicationGrid(grid.P, grid.Q, grid.r, grid.s, None, grid.offset, grid.receiver_offset)
        graph = amalgamated(slice_grid)
        pattern = _Search(slice_grid, graph, self.aim, max(self.deadline, time.monotonic() + 0.2)).run()
        steps = [np.column_stack([step[:, :2], grid.lengths[step[:, 0], step[:, 1]]]) for step in pattern.steps]
        self._keep_steps([step[step[:, 2] > 0] for step in steps])

    def _keep_steps(self, steps: list[Ints]) -> None:
        steps = [step for step in steps if len(step)]
        self._keep(len(steps), sum(int(step[:, 2].max()) for step in steps), steps)

    def _certificate(self) -> str:
        if self.value <= self._first_bound() + TINY:
            return EQUALS_BOUND
        if self.value <= self.bound + TINY:
            return PROVED
        return f"best found, within {excess(self.value, self.bound)} %"


def _measured(graph: Amalgam, parts: Ints) -> tuple[int, int]:
    """Steps and cost of runs of equal steps."""
    sizes = np.concatenate([graph.sender_sizes, graph.receiver_sizes])
    ends = np.concatenate([graph.sender_group, graph.receiver_group + len(graph.sender_sizes)])
    degrees = np.zeros((len(sizes), parts.shape[1]), dtype=np.int64)
    np.add.at(degrees, ends, np.concatenate([parts, parts]))
    times = (-(-degrees // sizes[:, None])).max(axis=0, initial=0)
    longest = np.where(parts > 0, graph.length[:, None], 0).max(axis=0, initial=0)
    return int(times.sum()), int(times @ longest)
