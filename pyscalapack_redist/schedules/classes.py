"""Scheduling class by class, where the blocks' sizes allow it (Desprez, Propositions 3 and 4).

The printed conditions are on r and s without their common divisor.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import ScheduleError
from .communication_grid import CommunicationGrid
from .message_graph import Ints, MessageGraph
from .schedule import PairSchedule, Schedule

__all__ = ["classes"]


def classes(grid: MessageGraph) -> Schedule:
    """All messages of one class in max(P, Q) / gcd(P, Q) full steps, then the next (Propositions 3, 4). Not collective.

    For one slice, number of steps and total cost are the least possible.

    Raises
    ------
    ScheduleError
        Not gcd(r / d, Q) = gcd(s / d, P) = 1, d = gcd(r, s), or not the grid of one dimension.
    """
    if not isinstance(grid, CommunicationGrid):
        raise ScheduleError("schedule = 'classes' needs a CommunicationGrid of one dimension; use stepwise or optimal")
    _check_conditions(grid)
    r, s, g = grid.reduced
    rounds = max(grid.P, grid.Q) // g
    lengths = grid.vol(np.arange(g) * (grid.g // g) + grid.shift)
    used = np.flatnonzero(lengths)
    used = used[np.argsort(-lengths[used], kind="stable")]
    place = np.full(g, -1, dtype=np.int64)
    place[used] = np.arange(len(used))

    def step_of(p: Ints, q: Ints) -> Ints:
        z = (q * (s % g) - p * (r % g)) % g
        steps: Ints = place[z] * rounds + (p // g + q // g) % rounds
        return steps

    return PairSchedule("classes", grid, step_of, lambda: len(used) * rounds)


def _check_conditions(grid: CommunicationGrid) -> None:
    d = math.gcd(grid.r, grid.s)
    instead = "use stepwise for the fewest steps or optimal for the least cost"
    for block, name, processes, count in ((grid.r, "r", "Q", grid.Q), (grid.s, "s", "P", grid.P)):
        common = math.gcd(block // d, count)
        if common != 1:
            raise ScheduleError(
                f"schedule = 'classes' needs gcd({name} / d, {processes}) = 1 with d = gcd(r, s) = {d} (Desprez, "
                f"Proposition 3), but gcd({block // d}, {count}) = {common} for {grid!r}; {instead}"
            )
