"""Schedules by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import ScheduleError, unknown
from .formulas import caterpillar, classes, natural, random_order, ring
from .least_cost import optimal
from .matchings import greedy, stepwise
from .message_graph import MessageGraph
from .open_shop import open_shop
from .preemptive import preemptive
from .schedule import Schedule
from .walker_otto import phases, random_phases, schedule_walker_otto

__all__ = ["NAMES", "build", "check_name"]

BUILDERS: dict[str, Callable[..., Schedule]] = {
    "natural": natural,
    "random": random_order,
    "caterpillar": caterpillar,
    "ring": ring,
    "phases": phases,
    "random-phases": random_phases,
    "walker-otto": schedule_walker_otto,
    "classes": classes,
    "stepwise": stepwise,
    "greedy": greedy,
    "optimal": optimal,
    "preemptive": preemptive,
    "open-shop": open_shop,
}
NAMES = tuple(BUILDERS)
"""The schedules that `build` makes, by name."""


def check_name(name: object) -> None:
    """Raise a ScheduleError for what is not in `NAMES`. Not collective."""
    if name == "auto":
        raise ScheduleError(
            f"schedule = 'auto' leaves the choice to redistribute, which knows the machine: name one of {', '.join(NAMES)}"
        )
    if name not in BUILDERS:
        raise unknown("schedule", name, NAMES)


def build(name: str, grid: MessageGraph, **options: Any) -> Schedule:
    """The schedule of an algorithm, by name. Not collective.

    Parameters
    ----------
    name : str
        A name in `NAMES`.
    grid : MessageGraph
        A CommunicationGrid, a LengthMatrix, or what `whole` makes.
    **options
        Of the algorithm: seed for random and random-phases; objective and time_limit for optimal; time_limit for stepwise;
        startup and time_limit for preemptive; startup, time_limit and hosts for open-shop.

    Raises
    ------
    ScheduleError
        The name or an option is unknown, or the algorithm does not apply to this grid.
    """
    check_name(name)
    if not isinstance(grid, MessageGraph):
        raise ScheduleError(f"grid = {grid!r} must be a CommunicationGrid, a LengthMatrix, or what whole() makes")
    known = [option for option in inspect.signature(BUILDERS[name]).parameters if option != "grid"]
    for option in options:
        if option not in known:
            raise ScheduleError(
                f"{option} = {options[option]!r}: schedule = {name!r} has no option of that name; it has "
                f"{' and '.join(known) or 'none'}"
            )
    return BUILDERS[name](grid, **options)
