"""Schedules by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from ..errors import ScheduleError, unknown
from .message_graph import MessageGraph
from .schedule import Schedule

# Module and function of each schedule; modules are imported when needed.
BUILDERS = {
    "natural": ("formulas", "natural"),
    "random": ("formulas", "random_order"),
    "caterpillar": ("formulas", "caterpillar"),
    "ring": ("formulas", "ring"),
    "phases": ("walker_otto", "phases"),
    "random-phases": ("walker_otto", "random_phases"),
    "walker-otto": ("walker_otto", "schedule_walker_otto"),
    "classes": ("formulas", "classes"),
    "stepwise": ("matchings", "stepwise"),
    "greedy": ("matchings", "greedy"),
    "optimal": ("least_cost", "optimal"),
}
NAMES = tuple(BUILDERS)
"""The schedules that `build` makes, by name."""


def check_name(name: object) -> None:
    """Raise a ScheduleError for a name that is not in `NAMES`."""
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
        A CommunicationGrid, a LengthMatrix, or the result of `whole`.
    **options
        Options of the algorithm: seed for random and random-phases; objective and time_limit for optimal; time_limit for
        stepwise.

    Raises
    ------
    ScheduleError
        The name or an option is unknown, or the algorithm does not apply to this grid.
    """
    check_name(name)
    if not isinstance(grid, MessageGraph):
        raise ScheduleError(f"grid = {grid!r} must be a CommunicationGrid, a LengthMatrix, or the result of whole()")
    module, function = BUILDERS[name]
    builder: Callable[..., Schedule] = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    options_of_builder = [option for option in inspect.signature(builder).parameters if option != "grid"]
    for option in options:
        if option not in options_of_builder:
            raise ScheduleError(
                f"{option} = {options[option]!r}: schedule = {name!r} has no option of that name; it has "
                f"{' and '.join(options_of_builder) or 'none'}"
            )
    return builder(grid, **options)
