"""Least total cost, with a certificate: the question that Desprez et al. leave open in their conclusion.

The bound is that of the level sets, or that of the integer program of `levels` with real counts, which holds for the whole
graph; a schedule that meets it is proved. Where counts do not come out whole the program is solved with whole ones, folded
less and less, until a bound of the whole meets the cost or time is up.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..errors import ScheduleError
from .amalgam import amalgamated, slices
from .checks import checked_messages, checked_seconds, checked_table
from .communication_grid import CommunicationGrid
from .levels import TINY
from .message_graph import Ints, MessageGraph
from .schedule import EQUALS_BOUND, ListedSchedule, excess
from .search import Aim, Search

__all__ = ["OptimalSchedule", "aim_of", "optimal", "sought"]

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
