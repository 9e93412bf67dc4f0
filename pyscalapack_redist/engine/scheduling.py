"""The order of the messages between two descriptors, by the name of a schedule.

What a formula tells, each rank works out for itself. Schedules that are searched for are found by one rank and told to the
others: a search under a time limit need not end alike on two machines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .. import schedules
from ..errors import unknown
from ..layout.descriptor import Descriptor
from ..schedules import MessageGraph, Schedule
from ..schedules.orders import ORDERS, Order, Scheduled
from ..schedules.schedule import ListedSchedule

__all__ = ["by_formula", "is_one_port", "order_for", "schedules_for", "searched"]

Steps = list[list[NDArray[np.int64]]]

BY_FORMULA = ("walker-otto", "classes")
WHOLE = 64 * 64  # pairs of processes up to which "optimal" looks at the whole of two process sets


def is_one_port(name: str) -> bool:
    """Whether no process sends or receives twice in a step of the schedule. Not collective.

    Raises
    ------
    ScheduleError
        The name is unknown.
    """
    if name not in schedules.NAMES:
        raise unknown("schedule", name, (*schedules.NAMES, "auto"))
    return name not in ORDERS or ORDERS[name].one_port


def by_formula(name: str) -> bool:
    """Whether each rank works the order out for itself, so that nothing is `searched` for. Not collective."""
    return name in ORDERS or name in BY_FORMULA


def order_for(name: str, a: Descriptor, b: Descriptor, steps: Steps | None = None) -> Order:
    """The order of the messages from A to B. Not collective.

    Parameters
    ----------
    name : str
        The schedule.
    a, b : Descriptor
        Layouts before and after.
    steps : list, optional
        What `searched` has found, on one rank for all.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts; on all ranks.
    """
    shapes = a.placement.shape, b.placement.shape
    if name in ORDERS:
        return ORDERS[name](*shapes)
    graphs = _graphs(name, a, b)
    if steps is None:
        parts: list[Schedule] = [schedules.build(name, graph) for graph in graphs]
    else:
        parts = [ListedSchedule(name, graph, listed) for graph, listed in zip(graphs, steps, strict=True)]
    return Scheduled(*shapes, parts, a.coords, b.coords)


def searched(name: str, a: Descriptor, b: Descriptor) -> Steps:
    """The steps of a schedule that no formula gives, in each dimension. Not collective.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts.
    """
    return [schedules.build(name, graph).steps for graph in _graphs(name, a, b)]


def _graphs(name: str, a: Descriptor, b: Descriptor) -> list[MessageGraph]:
    """Who owes whom: in each dimension; for "optimal" on not too many processes, in the whole of both sets."""
    grids: list[MessageGraph] = [schedules.between(x, y) for x, y in zip(a.distributions, b.distributions, strict=True)]
    places_a, places_b = a.placement.ravel(), b.placement.ravel()
    if name == "optimal" and len(places_a) * len(places_b) <= WHOLE:
        return [schedules.whole(grids, same=places_a[:, None] == places_b)]
    return grids


def schedules_for(name: str, a: Descriptor, b: Descriptor) -> list[Schedule]:
    """What such an order is made of: a schedule for each dimension, or one for all. Not collective.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts.
    """
    return [schedules.build(name, graph) for graph in _graphs(name, a, b)]
