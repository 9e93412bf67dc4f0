"""The order of the messages between two descriptors, by the name of a schedule.

What a formula tells, each rank works out for itself. Schedules that are searched for are found by one rank and told to the
others: a search under a time limit need not end alike on two machines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import schedules
from .agreement import Participants
from .descriptor import Descriptor
from .orders import ORDERS, Order, Scheduled
from .schedules import CommunicationGrid, MessageGraph, Schedule
from .schedules.checks import unknown
from .schedules.schedule import ListedSchedule

__all__ = ["by_formula", "is_one_port", "order_for", "schedules_for"]

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
    """Whether each rank works the order out for itself, so that `order_for` sends nothing. Not collective."""
    return name in ORDERS or name in BY_FORMULA


def order_for(name: str, a: Descriptor, b: Descriptor, everyone: Participants) -> Order:
    """The order of the messages from A to B. Collective over the participants.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts; on all ranks.
    """
    shapes = a.placement.shape, b.placement.shape
    if name in ORDERS:
        return ORDERS[name](*shapes)
    graphs = _graphs(name, a, b)
    if name in BY_FORMULA:
        parts: list[Schedule] = [schedules.build(name, graph) for graph in graphs]
    else:
        steps = everyone.comm.bcast(_searched(name, graphs) if everyone.rank == 0 else None)
        if isinstance(steps, Exception):
            raise steps
        parts = [ListedSchedule(name, graph, one) for graph, one in zip(graphs, steps, strict=True)]
    return Scheduled(*shapes, parts, a.coords, b.coords)


def _graphs(name: str, a: Descriptor, b: Descriptor) -> list[MessageGraph]:
    """Who owes whom: in each dimension; for "optimal" on not too many processes, in the whole of both sets."""
    grids: list[MessageGraph] = [
        CommunicationGrid.between(x, y) for x, y in zip(a.distributions, b.distributions, strict=True)
    ]
    places_a, places_b = a.placement.ravel(), b.placement.ravel()
    if name == "optimal" and len(places_a) * len(places_b) <= WHOLE:
        return [schedules.whole(grids, same=places_a[:, None] == places_b)]
    return grids


def _searched(name: str, graphs: list[MessageGraph]) -> list[list[NDArray[np.int64]]] | Exception:
    try:
        return [schedules.build(name, graph).steps for graph in graphs]
    except Exception as error:
        return error


def schedules_for(name: str, a: Descriptor, b: Descriptor) -> list[Schedule]:
    """What such an order is made of: a schedule for each dimension, or one for all. Not collective.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts.
    """
    return [schedules.build(name, graph) for graph in _graphs(name, a, b)]
