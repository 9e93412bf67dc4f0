"""The order of the messages between two layouts, by the name of a schedule.

What a formula tells, each rank works out for itself. Schedules that are searched for are found by one rank and told to the
others: a search under a time limit need not end alike on two machines.

One-port schedules of the dimensions make one of the whole, of as many steps as theirs multiplied. That is as short as the
whole needs where the dimensions' busiest processes are all on one side, and up to P times too long where they are not (slabs
of columns to slabs of rows). So `stepwise` and `greedy` look at the whole graph, as far as there is time.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ScheduleError, unknown
from .catalogue import NAMES, build
from .communication_grid import CommunicationGrid
from .layout_graphs import LayoutLike, LayoutMessages
from .message_graph import MessageGraph, WholeGraph
from .orders import ORDERS, Coords, Order, Scheduled
from .schedule import ListedSchedule, Schedule

Ints = NDArray[np.int64]

# whether they are one-port
BY_FORMULA = {"walker-otto": True, "classes": True, "phases": False, "random-phases": False}
# Pairs of processes up to which these look at the whole of two process sets.
WITHOUT_DIMENSIONS = {"optimal": 64 * 64, "preemptive": 64 * 64, "open-shop": 4096 * 4096}
# These look at the whole if it has so few messages, for about so many seconds at most; else at the dimensions if their product
# has fewer steps than a ring, and else the order is a ring.
FEWEST, MOST_MESSAGES, SECONDS, OTHERWISE = ("stepwise", "greedy"), 2**16, 0.05, "ring"
# Pairs of processes times steps up to which `greedy` looks at the whole; beyond, `stepwise` is in its place.
GREEDY = 2**15
# Pairs of processes along a dimension that are counted where no formula does; of which there is a table; and processes along
# one whose own schedule is searched for.
COUNTED, TABLED, ALONG = 2**12, 2**18, 256
GOLDEN = (5**0.5 - 1) / 2


class Load(NamedTuple):
    """What there is to order between two layouts; equal on all ranks.

    Attributes
    ----------
    messages : int
        Between processes; where counting them would take long, as many as there can be.
    processes : int
        That send, or that receive, whichever are fewer.
    whole, searchable : bool
        Whether there is time to search the whole for the fewest steps; whether there is, or the product has fewer than a ring.
    """

    messages: int = 1
    processes: int = 1
    whole: bool = True
    searchable: bool = True


class SearchedSteps(NamedTuple):
    """The steps that one rank has found, for all.

    Attributes
    ----------
    name : str
        Of the schedule, which may be another than was asked for.
    parts : list
        Of each dimension, or of the whole: the steps; or, of a whole graph, the step of each of its messages.
    """

    name: str
    parts: list[list[Ints] | Ints]


def process_shapes(a: LayoutLike, b: LayoutLike) -> tuple[Coords, Coords]:
    """Processes of both along each dimension; in all, where a rank may have several places. Not collective."""
    if a.is_product and b.is_product:
        return a.places.shape, b.places.shape
    return (max(1, len(a.ranks)),), (max(1, len(b.ranks)),)


def process_coords(a: LayoutLike, b: LayoutLike, rank: int | None) -> tuple[Coords | None, Coords | None]:
    """A rank's coordinates in process sets of these shapes; None outside, and on paper. Not collective.

    Where a layout is a product, of the rank that both layouts are seen by.
    """
    if a.is_product and b.is_product:
        return next(iter(a.own_places), None), next(iter(b.own_places), None)
    before, after = ((layout.ranks.index(rank),) if rank in layout.ranks else None for layout in (a, b))
    return before, after


def load_between(a: LayoutLike, b: LayoutLike) -> Load:
    """What there is to order. Not collective."""
    return _load(LayoutMessages(a, b), a, b)


def _load(owed: LayoutMessages, a: LayoutLike, b: LayoutLike) -> Load:
    axes = owed.axes
    pairs = 1
    for axis, x, y in zip(axes, a.distributions, b.distributions, strict=True):
        bound = min(axis.P * axis.Q, max(0, x.number_of_blocks + y.number_of_blocks - 1))
        pairs *= axis.pairs if _counted(axis) else bound
    processes, few = min(len(a.ranks), len(b.ranks)), all(axis.P * axis.Q <= TABLED for axis in axes)
    if not owed.is_product:
        pairs *= b.copies
        if a.copies == b.copies == 1:
            pairs = min(pairs, len(a.ranks) * len(b.ranks))
        else:
            few = a.places.size * b.places.size <= TABLED
        whole = few and pairs <= MOST_MESSAGES
        return Load(pairs, processes, whole, whole)
    if all(map(_counted, axes)):
        own = owed.own_receivers
        kept = np.flatnonzero(own >= 0)
        coords = np.unravel_index(kept, a.placement.shape), np.unravel_index(own[kept], b.placement.shape)
        pairs -= int(np.all([axis.shares(p, q) for axis, p, q in zip(axes, *coords, strict=True)], axis=0).sum())
    along = max(max(axis.P, axis.Q) for axis in axes)
    whole = few and pairs <= MOST_MESSAGES
    short = along <= ALONG and all(map(_counted, axes))
    rounds = max(a.placement.size, b.placement.size)
    return Load(pairs, processes, whole, whole or (short and math.prod(max(axis.degrees) for axis in axes) < rounds))


def fewest_steps(a: LayoutLike, b: LayoutLike) -> int | None:
    """The most messages of a process, so that no one-port schedule has fewer steps; None where that takes long to find."""
    owed = LayoutMessages(a, b)
    return max(owed.whole.degrees) if _load(owed, a, b).whole else None


def is_one_port(name: str) -> bool:
    """Whether no process sends or receives twice in a step of the schedule. Not collective.

    Raises
    ------
    ScheduleError
        The name is unknown.
    """
    if name not in NAMES:
        raise unknown("schedule", name, (*NAMES, "auto"))
    return ORDERS[name].one_port if name in ORDERS else BY_FORMULA.get(name, True)


def by_formula(name: str) -> bool:
    """Whether each rank works the order out for itself, so that nothing is `searched` for. Not collective."""
    return name in ORDERS or name in BY_FORMULA


def order_for(
    name: str, a: LayoutLike, b: LayoutLike, steps: SearchedSteps | None = None, rank: int | None = None
) -> Order:
    """The order of the messages from A to B. Not collective.

    Parameters
    ----------
    name : str
        The schedule.
    a, b : Descriptor or Tiles
        Layouts before and after.
    rank : int, optional
        This rank, whose messages it is asked for.
    steps : SearchedSteps, optional
        What `searched` has found, on one rank for all.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts; on all ranks.
    """
    shapes = process_shapes(a, b)
    if name in ORDERS:
        return ORDERS[name](*shapes)
    parts = schedules_for(name, a, b) if steps is None else _listed(name, a, b, steps)
    return Scheduled(*shapes, parts, *process_coords(a, b, rank)) if parts else ORDERS[OTHERWISE](*shapes)


def searched(name: str, a: LayoutLike, b: LayoutLike) -> SearchedSteps:
    """The steps of a schedule that no formula gives. Not collective.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts.
    """
    parts = schedules_for(name, a, b)
    return SearchedSteps(parts[0].name if parts else OTHERWISE, [_packed(part) for part in parts])


def schedules_for(name: str, a: LayoutLike, b: LayoutLike) -> list[Schedule]:
    """What such an order is made of: a schedule for each dimension, or one for all. Not collective.

    Without any the order is a ring, in place of a schedule that would take too long to find.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts.
    """
    owed = LayoutMessages(a, b)
    graphs = _graphs(name, owed, a, b)
    if name not in FEWEST:
        return [build(name, graph) for graph in graphs]
    if sum(graph.P * graph.Q > 1 for graph in graphs) > 1:
        load = _load(owed, a, b)
        if load.whole:
            graphs = [owed.whole]
            name = name if graphs[0].P * graphs[0].Q * max(graphs[0].degrees) <= GREEDY else "stepwise"
        elif not load.searchable:
            return []
    return [_fewest(name, graph, SECONDS / len(graphs)) for graph in graphs]


def _fewest(name: str, graph: MessageGraph, seconds: float) -> Schedule:
    """The schedule of a graph; `stepwise` message by message, where there is a table, which takes less time than to import
    SciPy."""
    from .matchings import in_levels

    if name == "stepwise" and (isinstance(graph, WholeGraph) or graph.P * graph.Q <= TABLED):
        part = in_levels(graph, time.monotonic() + seconds)
    else:
        part = build(name, graph)
    return ListedSchedule(name, graph, _mixed(part.steps))


def _mixed(steps: list[Ints]) -> list[Ints]:
    """The same in another order. Steps found one after another are alike, and processes that are not in step with one another,
    since nobody waits for a step to end, meet at the same receivers if they follow one another."""
    return [steps[i] for i in np.argsort(np.arange(len(steps)) * GOLDEN % 1)[::-1].tolist()]


def _packed(part: Schedule) -> list[Ints] | Ints:
    """A schedule's steps, or the step of each message of a whole graph, which is less to tell."""
    graph, steps = part.grid, part.steps
    if not isinstance(graph, WholeGraph) or sum(map(len, steps)) != graph.pairs:
        return steps
    number = np.repeat(np.arange(len(steps)), [len(step) for step in steps])
    rows = np.concatenate([np.zeros((0, 3), np.int64), *steps])
    return number[np.argsort(rows[:, 0] * graph.Q + rows[:, 1])].astype(np.min_scalar_type(len(steps)))


def _listed(name: str, a: LayoutLike, b: LayoutLike, steps: SearchedSteps) -> list[Schedule]:
    """The schedules of which `searched` has told the steps."""
    owed = LayoutMessages(a, b)
    graphs = _graphs(name, owed, a, b)
    if any(isinstance(part, np.ndarray) for part in steps.parts) and not isinstance(graphs[0], WholeGraph):
        graphs = [owed.whole]
    pairs = zip(graphs, steps.parts, strict=True) if steps.parts else ()
    return [ListedSchedule(steps.name, graph, _unpacked(graph, part)) for graph, part in pairs]


def _unpacked(graph: MessageGraph, part: list[Ints] | Ints) -> list[Ints]:
    if isinstance(part, list):
        return part
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part))[:-1]
    return np.split(np.column_stack(graph.messages)[order], ends) if len(part) else []


def _graphs(name: str, owed: LayoutMessages, a: LayoutLike, b: LayoutLike) -> list[MessageGraph]:
    """Who owes whom: in each dimension; in the whole of both sets for some on not too many processes, and with copies."""
    if name in BY_FORMULA and a.copies * b.copies > 1:
        raise ScheduleError(
            f"schedule = {name!r} is for layouts without copies, and {a!r} -> {b!r} has some: which copy sends is no "
            "matter of block sizes alone; use stepwise for the fewest steps or optimal for the least cost"
        )
    if owed.is_product and a.placement.size * b.placement.size <= WITHOUT_DIMENSIONS.get(name, 0):
        return [owed.whole]
    return owed.parts


def _counted(axis: MessageGraph) -> bool:
    """Whether messages along a dimension are counted in no time."""
    return isinstance(axis, CommunicationGrid) and (axis.has_slice or axis.P * axis.Q <= COUNTED)
