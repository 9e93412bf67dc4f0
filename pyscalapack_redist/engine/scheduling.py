"""The order of the messages between two descriptors, by the name of a schedule.

What a formula tells, each rank works out for itself. Schedules that are searched for are found by one rank and told to the
others: a search under a time limit need not end alike on two machines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .. import schedules
from ..errors import ScheduleError, unknown
from ..layout.tiles import Tiles
from ..schedules import MessageGraph, Schedule
from ..schedules.orders import ORDERS, Coords, Order, Scheduled
from ..schedules.replicated_graph import ReplicatedGraph
from ..schedules.schedule import ListedSchedule
from .layouts import Layout, has_tiles, process_coords, process_shapes
from .tile_graph import graph_of_tiles

__all__ = ["by_formula", "is_one_port", "order_for", "reading", "schedules_for", "searched", "sides"]

Steps = list[list[NDArray[np.int64]]]

# whether they are one-port
BY_FORMULA = {"walker-otto": True, "classes": True, "phases": False, "random-phases": False}
# Pairs of processes up to which these look at the whole of two process sets.
WITHOUT_DIMENSIONS = {"optimal": 64 * 64, "preemptive": 64 * 64, "open-shop": 4096 * 4096}


def is_one_port(name: str) -> bool:
    """Whether no process sends or receives twice in a step of the schedule. Not collective.

    Raises
    ------
    ScheduleError
        The name is unknown.
    """
    if name not in schedules.NAMES:
        raise unknown("schedule", name, (*schedules.NAMES, "auto"))
    return ORDERS[name].one_port if name in ORDERS else BY_FORMULA.get(name, True)


def by_formula(name: str) -> bool:
    """Whether each rank works the order out for itself, so that nothing is `searched` for. Not collective."""
    return name in ORDERS or name in BY_FORMULA


def order_for(name: str, a: Layout, b: Layout, steps: Steps | None = None) -> Order:
    """The order of the messages from A to B. Not collective.

    Parameters
    ----------
    name : str
        The schedule.
    a, b : Descriptor or Tiles
        Layouts before and after.
    steps : list, optional
        What `searched` has found, on one rank for all.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts; on all ranks.
    """
    shapes = process_shapes(a, b)
    if name in ORDERS:
        return ORDERS[name](*shapes)
    graphs = _graphs(name, a, b)
    if steps is None:
        parts: list[Schedule] = [schedules.build(name, graph) for graph in graphs]
    else:
        parts = [ListedSchedule(name, graph, listed) for graph, listed in zip(graphs, steps, strict=True)]
    return Scheduled(*shapes, parts, *process_coords(a, b))


def searched(name: str, a: Layout, b: Layout) -> Steps:
    """The steps of a schedule that no formula gives, in each dimension. Not collective.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts.
    """
    return [schedules.build(name, graph).steps for graph in _graphs(name, a, b)]


def _graphs(name: str, a: Layout, b: Layout) -> list[MessageGraph]:
    """Who owes whom: in each dimension; in the whole of both sets for some on not too many processes, and with copies."""
    if has_tiles(a, b):
        return [graph_of_tiles(a, b)]
    graph = reading(a, b)
    if graph is not None:
        if name in BY_FORMULA:
            raise ScheduleError(
                f"schedule = {name!r} is for layouts without copies, and {a!r} -> {b!r} has some: which copy sends is no "
                "matter of block sizes alone; use stepwise for the fewest steps or optimal for the least cost"
            )
        return [graph]
    grids: list[MessageGraph] = [schedules.between(x, y) for x, y in zip(a.distributions, b.distributions, strict=True)]
    places_a, places_b = a.placement.ravel(), b.placement.ravel()
    if len(places_a) * len(places_b) <= WITHOUT_DIMENSIONS.get(name, 0):
        return [schedules.whole(grids, same=places_a[:, None] == places_b)]
    return grids


def reading(a: Layout, b: Layout) -> ReplicatedGraph | None:
    """Who reads from which copy; None where neither layout has copies. Not collective."""
    if isinstance(a, Tiles) or isinstance(b, Tiles) or a.copies == b.copies == 1:
        return None
    axes = [schedules.between(x, y) for x, y in zip(a.distributions, b.distributions, strict=True)]
    return ReplicatedGraph(axes, a.places, b.places)


def sides(a: Layout, b: Layout) -> tuple[Coords, Coords]:
    """Processes before and after that a schedule looks at together: those along each dimension, or all. Not collective."""
    if isinstance(a, Tiles) or isinstance(b, Tiles) or a.copies == b.copies == 1:
        return process_shapes(a, b)
    return (a.grid.size,), (b.grid.size,)


def schedules_for(name: str, a: Layout, b: Layout) -> list[Schedule]:
    """What such an order is made of: a schedule for each dimension, or one for all. Not collective.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts.
    """
    return [schedules.build(name, graph) for graph in _graphs(name, a, b)]
