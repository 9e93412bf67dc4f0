"""The front of steps against cost: where one more step buys a cheaper schedule (the open question of Desprez, section 6)."""

from __future__ import annotations

from .message_graph import MessageGraph
from .optimal import OptimalSchedule, sought
from .schedule import EQUALS_BOUND
from .search import Aim

__all__ = ["pareto"]


def pareto(grid: MessageGraph, time_limit: float = 1.0) -> list[OptimalSchedule]:
    """Schedules of which none has both fewer steps and less cost than another. Not collective.

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
