"""The order of the messages between two layouts, by the name of a schedule.

Each rank computes an order given by a formula. Other schedules are searched for by one rank, which broadcasts the steps: a
search under a time limit need not end alike on two machines.

The product of one-port schedules of the dimensions is a one-port schedule of the whole; its number of steps is the product of
their numbers. This is the fewest if the busiest processes of all dimensions are senders, or all receivers; otherwise it may be
P times too many (slabs of columns to slabs of rows). So `stepwise` and `greedy` schedule the whole graph if there is time.
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

# Schedules given by formulas: whether they are one-port.
BY_FORMULA = {"walker-otto": True, "classes": True, "phases": False, "random-phases": False}
# Pairs of processes up to which `optimal` schedules the whole graph instead of each dimension.
WITHOUT_DIMENSIONS = 64 * 64
# These schedule the whole graph if it has at most MOST_MESSAGES, in about SECONDS; else each dimension if the product has fewer
# steps than a ring; else the order is a ring.
FEWEST, MOST_MESSAGES, SECONDS, OTHERWISE = ("stepwise", "greedy"), 2**16, 0.05, "ring"
# Pairs of processes times steps up to which `greedy` schedules the whole graph; beyond that `stepwise` does.
GREEDY = 2**15
# Pairs of processes along a dimension up to which messages are counted without a formula (COUNTED), and up to which a table is
# made (TABLED); processes along a dimension up to which its schedule is searched for (ALONG).
COUNTED, TABLED, ALONG = 2**12, 2**18, 256
GOLDEN = (5**0.5 - 1) / 2


class Load(NamedTuple):
    """The number of messages between two layouts, and whether a schedule can be searched for; equal on all ranks.

    Attributes
    ----------
    messages : int
        Messages between processes; an upper bound if counting them would take long.
    processes : int
        Number of senders or of receivers, whichever is less.
    whole : bool
        Whether there is time to search the whole graph for the fewest steps.
    searchable : bool
        Whether `whole`, or the product of the dimensions' schedules has fewer steps than a ring.
    """

    messages: int = 1
    processes: int = 1
    whole: bool = True
    searchable: bool = True


class SearchedSteps(NamedTuple):
    """A schedule that one rank has searched for, to be sent to all ranks.

    Attributes
    ----------
    name : str
        Name of the schedule; may differ from the requested one.
    parts : list
        Steps of each dimension, or of the whole; of a whole graph also as the step number of each message.
    """

    name: str
    parts: list[list[Ints] | Ints]


def process_shapes(a: LayoutLike, b: LayoutLike) -> tuple[Coords, Coords]:
    """Number of processes of both layouts along each dimension; in all if a rank may have several places."""
    if a.is_product and b.is_product:
        return a.places.shape, b.places.shape
    return (max(1, len(a.ranks)),), (max(1, len(b.ranks)),)


def process_coords(a: LayoutLike, b: LayoutLike, rank: int | None) -> tuple[Coords | None, Coords | None]:
    """Coordinates of a rank in process sets of these shapes; None outside, and on paper.

    For descriptors `rank` is not used: they have the coordinates of their own rank.
    """
    if a.is_product and b.is_product:
        return next(iter(a.own_places), None), next(iter(b.own_places), None)
    before, after = ((layout.ranks.index(rank),) if rank in layout.ranks else None for layout in (a, b))
    return before, after


def load_between(a: LayoutLike, b: LayoutLike) -> Load:
    """Count the messages between two layouts."""
    return _load(LayoutMessages(a, b), a, b)


def _load(messages: LayoutMessages, a: LayoutLike, b: LayoutLike) -> Load:
    axes = messages.axes
    pairs = 1
    for axis, x, y in zip(axes, a.distributions, b.distributions, strict=True):
        bound = min(axis.P * axis.Q, max(0, x.number_of_blocks + y.number_of_blocks - 1))
        pairs *= axis.pairs if _is_countable(axis) else bound
    processes, has_tables = min(len(a.ranks), len(b.ranks)), all(axis.P * axis.Q <= TABLED for axis in axes)
    if not messages.is_product:
        pairs *= b.copies
        if a.copies == b.copies == 1:
            pairs = min(pairs, len(a.ranks) * len(b.ranks))
        else:
            has_tables = a.places.size * b.places.size <= TABLED
        whole = has_tables and pairs <= MOST_MESSAGES
        return Load(pairs, processes, whole, whole)
    if all(map(_is_countable, axes)):
        own = messages.own_receivers
        senders = np.flatnonzero(own >= 0)
        coords = np.unravel_index(senders, a.placement.shape), np.unravel_index(own[senders], b.placement.shape)
        pairs -= int(np.all([axis.shares(p, q) for axis, p, q in zip(axes, *coords, strict=True)], axis=0).sum())
    along = max(max(axis.P, axis.Q) for axis in axes)
    whole = has_tables and pairs <= MOST_MESSAGES
    short = along <= ALONG and all(map(_is_countable, axes))
    rounds = max(a.placement.size, b.placement.size)
    return Load(pairs, processes, whole, whole or (short and math.prod(max(axis.degrees) for axis in axes) < rounds))


def fewest_steps(a: LayoutLike, b: LayoutLike) -> int | None:
    """The most messages of a process, below which no one-port schedule's steps can be; None if that takes long to count."""
    messages = LayoutMessages(a, b)
    return max(messages.whole.degrees) if _load(messages, a, b).whole else None


def is_one_port(name: str) -> bool:
    """Whether no process sends or receives twice in a step of the schedule.

    Raises
    ------
    ScheduleError
        The name is unknown.
    """
    if name not in NAMES:
        raise unknown("schedule", name, (*NAMES, "auto"))
    return ORDERS[name].one_port if name in ORDERS else BY_FORMULA.get(name, True)


def is_by_formula(name: str) -> bool:
    """Whether a formula gives the order, so that each rank computes it without a search."""
    return name in ORDERS or name in BY_FORMULA


def order_for(
    name: str, a: LayoutLike, b: LayoutLike, steps: SearchedSteps | None = None, rank: int | None = None
) -> Order:
    """The order of the messages from A to B.

    Parameters
    ----------
    name : str
        The schedule.
    a, b : Descriptor or Tiles
        Layouts before and after.
    rank : int, optional
        This rank; the order is used for its messages only.
    steps : SearchedSteps, optional
        Result of `search_steps` on one rank.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts; on all ranks.
    """
    shapes = process_shapes(a, b)
    if name in ORDERS:
        return ORDERS[name](*shapes)
    parts = schedules_for(name, a, b) if steps is None else _schedules_of(name, a, b, steps)
    return Scheduled(*shapes, parts, *process_coords(a, b, rank)) if parts else ORDERS[OTHERWISE](*shapes)


def search_steps(name: str, a: LayoutLike, b: LayoutLike) -> SearchedSteps:
    """The steps of a schedule that no formula gives.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts.
    """
    parts = schedules_for(name, a, b)
    return SearchedSteps(parts[0].name if parts else OTHERWISE, [_pack_steps(part) for part in parts])


def schedules_for(name: str, a: LayoutLike, b: LayoutLike) -> list[Schedule]:
    """Schedules that make an order: one for each dimension, or one for the whole graph.

    An empty list stands for a ring: the search would take too long.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts.
    """
    messages = LayoutMessages(a, b)
    graphs = _graphs(name, messages, a, b)
    if name not in FEWEST:
        return [build(name, graph) for graph in graphs]
    if sum(graph.P * graph.Q > 1 for graph in graphs) > 1:
        load = _load(messages, a, b)
        if load.whole:
            graphs = [messages.whole]
            name = name if graphs[0].P * graphs[0].Q * max(graphs[0].degrees) <= GREEDY else "stepwise"
        elif not load.searchable:
            return []
    return [_build_fewest(name, graph, SECONDS / len(graphs)) for graph in graphs]


def _build_fewest(name: str, graph: MessageGraph, seconds: float) -> Schedule:
    """A schedule of a graph; `stepwise` is built message by message if there is a table: faster than importing SciPy."""
    from .matchings import in_levels

    if name == "stepwise" and (isinstance(graph, WholeGraph) or graph.P * graph.Q <= TABLED):
        part = in_levels(graph, time.monotonic() + seconds)
    else:
        part = build(name, graph)
    return ListedSchedule(name, graph, _shuffle(part.steps))


def _shuffle(steps: list[Ints]) -> list[Ints]:
    """The steps in another order.

    Consecutive steps of a search are alike. No process waits for a step to end, so processes that are a step apart would send
    to the same receivers.
    """
    return [steps[i] for i in np.argsort(np.arange(len(steps)) * GOLDEN % 1)[::-1].tolist()]


def _pack_steps(part: Schedule) -> list[Ints] | Ints:
    """The steps of a schedule; of a whole graph the step number of each message, which are fewer bytes to send."""
    graph, steps = part.grid, part.steps
    if not isinstance(graph, WholeGraph):
        return steps
    number = np.repeat(np.arange(len(steps)), [len(step) for step in steps])
    rows = np.concatenate([np.zeros((0, 3), np.int64), *steps])
    return number[np.argsort(rows[:, 0] * graph.Q + rows[:, 1])].astype(np.min_scalar_type(len(steps)))


def _schedules_of(name: str, a: LayoutLike, b: LayoutLike, steps: SearchedSteps) -> list[Schedule]:
    """The schedules of steps from `search_steps`."""
    messages = LayoutMessages(a, b)
    graphs = _graphs(name, messages, a, b)
    if any(isinstance(part, np.ndarray) for part in steps.parts) and not isinstance(graphs[0], WholeGraph):
        graphs = [messages.whole]
    pairs = zip(graphs, steps.parts, strict=True) if steps.parts else ()
    return [ListedSchedule(steps.name, graph, _unpack_steps(graph, part)) for graph, part in pairs]


def _unpack_steps(graph: MessageGraph, part: list[Ints] | Ints) -> list[Ints]:
    if isinstance(part, list):
        return part
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part))[:-1]
    return np.split(np.column_stack(graph.messages)[order], ends) if len(part) else []


def _graphs(name: str, messages: LayoutMessages, a: LayoutLike, b: LayoutLike) -> list[MessageGraph]:
    """The graphs to schedule: one for each dimension, or the whole graph."""
    if name in BY_FORMULA and a.copies * b.copies > 1:
        raise ScheduleError(
            f"schedule = {name!r} is for layouts without replicas, but {a!r} -> {b!r} has replicas: which one sends does "
            "not depend on block sizes alone; use stepwise for the fewest steps or optimal for the least cost"
        )
    if name == "optimal" and messages.is_product and a.placement.size * b.placement.size <= WITHOUT_DIMENSIONS:
        return [messages.whole]
    return messages.parts


def _is_countable(axis: MessageGraph) -> bool:
    """Whether messages along a dimension can be counted fast."""
    return isinstance(axis, CommunicationGrid) and (axis.has_slice or axis.P * axis.Q <= COUNTED)
