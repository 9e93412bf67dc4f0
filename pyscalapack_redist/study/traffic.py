"""Messages and elements between all ranks, counted without a communicator.

Lengths and numbers of messages are products over the dimensions, so a table for each dimension is enough. For a trapezoid and
for replicas they are counted message by message.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.messages import messages_of
from ..engine.operation import Edge
from ..engine.plan import Plan
from ..engine.stages import Move, Stage
from ..errors import ScheduleError
from ..layout.tiles import Layout
from ..schedules.layout_graphs import LayoutMessages
from ..schedules.layout_orders import process_shapes
from ..schedules.orders import Natural

Ints = NDArray[np.int64]
MOST_PAIRS = 2**24  # entries of one dimension's table: 128 MB
MOST_IN_TABLE = 2**22  # of ranks, in pairs
MOST_ELEMENTS = 2**63 - 1
MOST_MESSAGES = 2**16  # pairs of ranks, if messages are counted one by one


class TrafficByRank(NamedTuple):
    """Messages and elements of each rank, without messages of ranks to themselves.

    Attributes
    ----------
    ranks : ndarray
        The ranks of the layouts, ascending.
    sends, receives : ndarray
        Messages to and from other ranks, for each of `ranks`.
    sent, received, copied : ndarray
        Elements that go to other ranks, come from others, and stay.
    """

    ranks: Ints
    sends: Ints
    receives: Ints
    sent: Ints
    received: Ints
    copied: Ints


def count_traffic(plan: Plan, stages: Sequence[Stage]) -> TrafficByRank:
    """Count messages and elements between the ranks of a plan in some stages. A stage has one message for a pair of ranks.

    Raises
    ------
    ScheduleError
        There are too many pairs of ranks, or more elements than 64 bits can count.
    """
    ranks = functools.reduce(
        _union, [desc.places.ravel() for move in plan.moves for desc in (move.op_layout, move.desc_b)]
    )
    totals = TrafficByRank(ranks, *np.zeros((5, len(ranks)), np.int64))
    for stage in stages:
        traffic = _count_in_moves(stage.moves)
        at = np.searchsorted(ranks, traffic.ranks)
        for total, count in zip(totals[1:], traffic[1:], strict=True):
            total[at] += count
    return totals


def _count_in_moves(moves: Sequence[Move]) -> TrafficByRank:
    a, b = moves[0].op_layout, moves[0].desc_b
    if math.prod(a.shape) * max(a.copies, b.copies) > MOST_ELEMENTS:
        raise ScheduleError(
            f"an array of {' x '.join(map(str, a.shape))} has more than 2^63 elements, which 64 bits cannot count: take a "
            "smaller one of the same proportions"
        )
    owed = LayoutMessages(a, b)
    if len(moves) == 1 and moves[0].edge is None and owed.is_product:
        return _count_in_products(a.placement, b.placement, _lengths(owed))
    ranks, table = traffic_table(moves)
    copied = table.diagonal().copy()
    np.fill_diagonal(table, 0)
    sends, receives = (np.count_nonzero(table, axis=side) for side in (1, 0))
    return TrafficByRank(ranks, sends, receives, table.sum(axis=1), table.sum(axis=0), copied)


def _count_in_products(before: Ints, after: Ints, lengths: Sequence[Ints]) -> TrafficByRank:
    """Count from a table for each dimension, without a table of all pairs of ranks."""
    ranks = _union(before.ravel(), after.ravel())
    at = [np.searchsorted(ranks, places.ravel()) for places in (before, after)]
    numbers = np.full((2, len(ranks)), -1)
    for side in range(2):
        numbers[side, at[side]] = np.arange(len(at[side]))
    both = np.flatnonzero((numbers >= 0).all(axis=0))
    coords = (np.unravel_index(numbers[side, both], places.shape) for side, places in enumerate((before, after)))
    copied = np.zeros(len(ranks), np.int64)
    copied[both] = np.prod([table[p, q] for table, p, q in zip(lengths, *coords, strict=True)], axis=0, dtype=np.int64)
    figures = []
    for side in range(2):
        counts, sums = np.zeros((2, len(ranks)), np.int64)
        counts[at[side]] = _of_each([np.count_nonzero(table, axis=1 - side) for table in lengths])
        sums[at[side]] = _of_each([table.sum(axis=1 - side) for table in lengths])
        figures.append((counts - (copied > 0), sums - copied))
    (sends, sent), (receives, received) = figures
    return TrafficByRank(ranks, sends, receives, sent, received, copied)


def between_ranks(a: Layout, b: Layout, edge: Edge | None = None) -> tuple[Ints, Ints]:
    """Elements from each rank to each.

    Parameters
    ----------
    a, b : Descriptor or Tiles
        Layouts before and after, of one array.
    edge : (bool, int), optional
        Of a matrix, only elements (i, j) of j - i at least (True) or at most (False) that number.

    Returns
    -------
    ndarray
        The ranks of both layouts, ascending.
    ndarray
        A row for each as sender, a column for each as receiver.

    Raises
    ------
    ScheduleError
        There are too many pairs of ranks for a table.
    """
    owed = LayoutMessages(a, b)
    products = edge is None and owed.is_product
    ranks_a, ranks_b = (desc.places.ravel() if products else np.array(desc.ranks, np.int64) for desc in (a, b))
    ranks = _union(ranks_a, ranks_b)
    most = MOST_IN_TABLE if products else MOST_MESSAGES
    if max(len(ranks) ** 2 if products else 0, len(ranks_a) * len(ranks_b)) > most:
        raise ScheduleError(
            f"{len(ranks_a):,} ranks before and {len(ranks_b):,} after are too many for a table of all pairs"
            f"{'' if products else ' of a triangle (uplo) or of replicas'}, which may have {most:,}: messages_of(rank) has "
            "those of a rank"
        )
    table = np.zeros((len(ranks), len(ranks)), np.int64)
    if products:
        at = np.ix_(np.searchsorted(ranks, ranks_a), np.searchsorted(ranks, ranks_b))
        table[at] = functools.reduce(np.kron, _lengths(owed))
        return ranks, table
    order, number = Natural(*process_shapes(a, b)), range(int(ranks.max(initial=-1)) + 1)
    row_of = {rank: k for k, rank in enumerate(ranks.tolist())}
    for rank in ranks_a.tolist():
        messages, _ = messages_of(a._for_rank(rank), b._for_rank(rank), rank, number, order, edge)
        for message in (*messages.sends, *messages.copies):
            table[row_of[rank], row_of[message.peer]] = message.size
    return ranks, table


def traffic_table(moves: Sequence[Move]) -> tuple[Ints, Ints]:
    """The ranks of some moves, and the elements from each to each in all of them.

    Raises
    ------
    ScheduleError
        There are too many ranks for a table.
    """
    tables = [between_ranks(move.op_layout, move.desc_b, move.edge) for move in moves]
    ranks = functools.reduce(_union, [move_ranks for move_ranks, _ in tables])
    total = np.zeros((len(ranks), len(ranks)), np.int64)
    for move_ranks, table in tables:
        at = np.searchsorted(ranks, move_ranks)
        total[np.ix_(at, at)] += table
    return ranks, total


def _union(a: Ints, b: Ints) -> Ints:
    """The sorted union; sorting is many times as fast as `numpy.union1d` here."""
    both: Ints = np.sort(np.concatenate([a, b]))
    first = np.ones(len(both), bool)
    first[1:] = both[1:] != both[:-1]
    return both[first]


def _of_each(dims: Sequence[Ints]) -> Ints:
    """Products of the dimensions' figures, one for each process in the order of coordinates."""
    return functools.reduce(np.multiply.outer, dims).ravel()


def _lengths(owed: LayoutMessages) -> list[Ints]:
    """A table for each dimension: elements that the processes of both layouts share."""
    for axis in owed.axes:
        if axis.P * axis.Q > MOST_PAIRS:
            side = math.isqrt(MOST_PAIRS)
            raise ScheduleError(
                f"left out: {axis.P:,} x {axis.Q:,} pairs along a dimension; the most is {MOST_PAIRS:,}, as of {side:,} x "
                f"{side:,} processes"
            )
    return [np.asarray(axis.lengths, np.int64) for axis in owed.axes]
