"""Folding of large message graphs into small ones, and back: equivalent processes become one.

A schedule of the folded graph is a table: the number of messages of each type in each part. A part is a number of steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from .._kernels.colouring import colour_edges, occurrences
from .checks import checked_messages
from .communication_grid import CommunicationGrid
from .message_graph import Ints, MessageGraph


class Types(Protocol):
    """Groups of senders and of receivers, and the number of messages of each type between them; see `FoldedGraph`."""

    @property
    def sender_sizes(self) -> Ints:
        """Number of processes of each group of senders."""

    @property
    def receiver_sizes(self) -> Ints:
        """Number of processes of each group of receivers."""

    @property
    def sender_group(self) -> Ints:
        """Group of senders of each type."""

    @property
    def receiver_group(self) -> Ints:
        """Group of receivers of each type."""

    @property
    def length(self) -> Ints:
        """Message length of each type."""

    @property
    def count(self) -> Ints:
        """Edges of each type."""

    @property
    def types(self) -> int:
        """Number of types."""


@dataclass(frozen=True, eq=False)
class FoldedGraph:
    """A folded graph: groups of senders and of receivers, and the types of messages between them.

    A graph is folded twice:

    - Rotations ("turns"). The grid of a slice stays the same if all senders and receivers are renumbered cyclically by certain
      amounts, and no process keeps its number (the classes of Desprez, Proposition 1, are the orbits). An edge of the folded
      graph is `turns` messages between different processes, so a step of the folded graph is a step of the whole graph.
    - Copies. Senders with the same lengths to all receivers are copies in one group; receivers likewise. Between a group of u
      and a group of v processes each type has u v `copies` edges. Any division of the edges that respects the groups' sizes
      can be distributed evenly over the copies (see `unfold_parts`), so counts suffice.

    Attributes
    ----------
    senders, receivers : ndarray
        Processes of each folded process, one for each turn; copies of one group are adjacent.
    sender_sizes, receiver_sizes : ndarray
        Number of copies of each group.
    sender_group, receiver_group, length : ndarray
        Groups and length of each type of message.
    shifts : list of ndarray
        For each type and each parallel edge, the receiver's turn minus the sender's.
    slope : int
        Turns of a receiver for one turn of the sender.
    """

    senders: Ints
    receivers: Ints
    sender_sizes: Ints
    receiver_sizes: Ints
    sender_group: Ints
    receiver_group: Ints
    length: Ints
    shifts: list[Ints]
    slope: int

    @property
    def turns(self) -> int:
        """Messages for each edge of the folded graph."""
        return int(self.senders.shape[1])

    @cached_property
    def copies(self) -> Ints:
        """Parallel edges of each type between two folded processes."""
        return np.array([len(shift) for shift in self.shifts], dtype=np.int64)

    @cached_property
    def count(self) -> Ints:
        """Edges of each type."""
        count: Ints = self.copies * self.sender_sizes[self.sender_group] * self.receiver_sizes[self.receiver_group]
        return count

    @property
    def types(self) -> int:
        """Number of types."""
        return len(self.length)

    def unfold(self, sender: Ints, receiver: Ints, kind: Ints, parallel: Ints) -> Ints:
        """Rows sender, receiver, length of the messages of some edges, edge by edge.

        Parameters
        ----------
        sender, receiver, kind, parallel : ndarray
            Folded processes, type, and number among the type's parallel edges, of each edge.
        """
        starts = np.cumsum(self.copies) - self.copies
        shift = np.concatenate([*self.shifts, np.zeros(0, np.int64)])[starts[kind] + parallel]
        turn = np.arange(self.turns)
        receiver_turn = (shift[:, None] + self.slope * turn) % self.turns
        messages = [self.senders[sender], np.take_along_axis(self.receivers[receiver], receiver_turn, axis=1)]
        length = np.broadcast_to(self.length[kind][:, None], receiver_turn.shape)
        return np.stack([*messages, length], axis=2).reshape(-1, 3)


def fold(graph: MessageGraph) -> FoldedGraph:
    """Fold a graph."""
    if isinstance(graph, CommunicationGrid) and slices(graph):
        return fold_slice(graph, slice_turns(graph))
    return _fold_equal_lengths(graph)


def slices(grid: CommunicationGrid) -> int:
    """Number of slices of an array; 1 for a grid without an array; 0 if the array ends within a slice."""
    if grid.n is None:
        return 1
    return 0 if grid.n % grid.slice_length else grid.n // grid.slice_length


def slice_turns(grid: CommunicationGrid) -> int:
    """The most turns by which the grid of a slice folds: g / gcd(s, g) / gcd(r, g)."""
    r, s, g = grid.reduced
    return g // math.gcd(s, g) // math.gcd(r, g)


def fold_slice(grid: CommunicationGrid, turns: int) -> FoldedGraph:
    """Fold the grid of whole slices by `turns`, a divisor of `slice_turns`.

    Sender p is i + g1 (turn + h a): group i of g1 = gcd(s, g), turn of h = g / g1 / g2, copy a. Receivers likewise.
    """
    r, s, g = grid.reduced
    g1, g2, h = math.gcd(s, g), math.gcd(r, g), slice_turns(grid)
    stride = h // turns  # turn between the processes of one folded process
    u, v = grid.P // (g1 * h), grid.Q // (g2 * h)
    senders = _number_processes(g1, stride, turns, u)
    receivers = _number_processes(g2, stride, turns, v)
    # Pairs of turn alpha of a sender and turn beta of a receiver are in one class if sigma beta - rho alpha is constant.
    slope = pow(s // g1, -1, h) * (r // g2) % h
    # Groups are (i, alpha mod stride); a receiver's turn is beta = beta mod stride + stride * shift, a sender's likewise.
    first = CommunicationGrid(grid.P, grid.Q, grid.r, grid.s, None, grid.offset, grid.receiver_offset).rows(
        senders.reshape(g1 * stride, u, turns)[:, 0, 0]
    )
    table = slices(grid) * first[:, receivers.reshape(g2 * stride, v, turns)[:, 0, :]]
    return _group_types(senders, receivers, np.full(g1 * stride, u), np.full(g2 * stride, v), table, slope % turns)


def _number_processes(groups: int, stride: int, turns: int, copies: int) -> Ints:
    """Processes in the order group, turn mod stride, copy; one column for each turn."""
    i, offset, copy, turn = np.ix_(np.arange(groups), np.arange(stride), np.arange(copies), np.arange(turns))
    numbers: Ints = i + groups * ((offset + stride * turn) + stride * turns * copy)
    return numbers.reshape(-1, turns)


def _fold_equal_lengths(graph: MessageGraph) -> FoldedGraph:
    """Fold processes of equal lengths."""
    ones = np.ones(graph.P, dtype=np.int64), np.ones(graph.Q, dtype=np.int64)
    return _group_types(np.arange(graph.P)[:, None], np.arange(graph.Q)[:, None], *ones, graph.lengths[:, :, None], 0)


def _group_types(senders: Ints, receivers: Ints, us: Ints, vs: Ints, table: Ints, slope: int) -> FoldedGraph:
    """A folded graph from a table of lengths: group of senders (in turn 0), group of receivers, turn of the receiver.

    Groups with the same lengths are merged.
    """
    table, senders, us = _merge_equal(table, senders, us)
    columns, receivers, vs = _merge_equal(table.swapaxes(0, 1), receivers, vs)
    table = columns.swapaxes(0, 1)
    i, j, shift = np.nonzero(table)
    length = table[i, j, shift]
    order = np.lexsort((shift, length, j, i))
    keys = np.stack([i, j, length], axis=1)[order]
    new = np.ones(len(keys), dtype=bool)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    shifts = np.split(shift[order], np.flatnonzero(new)[1:]) if len(keys) else []
    kinds = keys[new]
    return FoldedGraph(senders, receivers, us, vs, kinds[:, 0], kinds[:, 1], kinds[:, 2], shifts, slope)


def _merge_equal(table: Ints, members: Ints, sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """The table without repeated rows, members sorted by their rows, and sizes of the larger groups."""
    flat = np.ascontiguousarray(table).reshape(len(table), -1)
    first, group = np.unique(flat, axis=0, return_index=True, return_inverse=True)[1:]
    group = group.reshape(-1)
    order = np.argsort(np.repeat(group, sizes), kind="stable")
    return table[first], members[order], np.bincount(group, weights=sizes).astype(np.int64)


DENSE = 64  # entries for each edge up to which a table is faster than sorting


def unfold_parts(graph: FoldedGraph, parts: Ints) -> list[Ints]:
    """Steps of the whole graph from a schedule of the folded graph, part by part, within each the costliest first.

    A part is a number of steps. If each group has at most (copies) x (steps) messages in each part, the messages can be
    distributed so that no process has more than (steps) of them: edges between types and parts are coloured, and a colour is
    a copy (theorem on amalgamations; Hilton, 1984; by Koenig's theorem). The messages of a part are then coloured with as many
    steps as their maximum degree (Koenig; Desprez, Theorem 1).

    Parameters
    ----------
    graph : FoldedGraph
        The folded graph.
    parts : ndarray
        For each type (row) and part (column), the number of edges; rows sum to `graph.count`.

    Raises
    ------
    ScheduleError
        There are more than 10^8 messages.
    """
    checked_messages(int(graph.count.sum()) * graph.turns)
    kind, part = _expand_edges(parts)
    sender = _assign_copies(graph.sender_group[kind], kind, part, graph.sender_sizes)
    receiver = _assign_copies(graph.receiver_group[kind], sender * graph.types + kind, part, graph.receiver_sizes)
    parallel = _count_before((sender * len(graph.receivers) + receiver) * graph.types + kind)
    steps: list[Ints] = []
    order = _sort_order(part)
    ends = np.searchsorted(part[order], np.arange(parts.shape[1]), side="right")
    for edges in np.split(order, ends[:-1]):
        colour = edge_colours(sender[edges], receiver[edges])
        by_colour = _sort_order(colour)
        edges, colour = edges[by_colour], colour[by_colour]
        messages = graph.unfold(sender[edges], receiver[edges], kind[edges], parallel[edges])
        part_steps = (
            np.split(messages, graph.turns * np.flatnonzero(np.diff(colour)) + graph.turns) if len(edges) else []
        )
        steps += sorted(part_steps, key=lambda step: -int(step[:, 2].max()))
    return steps


def edge_colours(left: Ints, right: Ints, colours: int | None = None) -> Ints:
    """Colours of edges: as many as the maximum degree, or `colours` if that is more."""
    if not len(left):
        return np.zeros(0, dtype=np.int64)
    left, lefts = _renumber(left)
    right, rights = _renumber(right)
    degree = max(int(np.bincount(left).max()), int(np.bincount(right).max()))
    return colour_edges(left, right, lefts, rights, max(degree, colours or 0))


def _expand_edges(parts: Ints) -> tuple[Ints, Ints]:
    """Type and part of every edge."""
    kind, part = np.nonzero(parts)
    counts = parts[kind, part]
    return np.repeat(kind, counts), np.repeat(part, counts)


def _assign_copies(group: Ints, vertex: Ints, part: Ints, sizes: Ints) -> Ints:
    """The copy of its group for each edge, evenly over `vertex` and, within the group, over the parts."""
    first = np.cumsum(sizes) - sizes
    copy = np.zeros(len(group), dtype=np.int64)
    size = sizes[group]
    for copies in np.unique(sizes):
        if copies == 1:
            continue
        edges = np.flatnonzero(size == copies)
        # Each vertex has at most `copies` edges, so a colour, which is a copy, occurs at most once at it.
        left = _split_vertices(vertex[edges], int(copies))
        right = _split_vertices(group[edges] * (int(part.max(initial=0)) + 1) + part[edges], int(copies))
        copy[edges] = edge_colours(left, right, int(copies))
    return first[group] + copy


def _split_vertices(vertex: Ints, most: int) -> Ints:
    """Split vertices so that each has at most `most` edges, and renumber them."""
    vertex, vertices = _renumber(vertex)
    pieces = -(-np.bincount(vertex, minlength=vertices) // most)
    first = np.cumsum(pieces) - pieces
    numbers: Ints = first[vertex] + occurrences(vertex, vertices) // most
    return numbers


def _count_before(key: Ints) -> Ints:
    """How many equal keys come before each."""
    return occurrences(*_renumber(key))


def _renumber(vertex: Ints) -> tuple[Ints, int]:
    """Vertices numbered from 0 without gaps, and their number."""
    if len(vertex) and int(vertex.max()) < DENSE * len(vertex):
        used = np.bincount(vertex) > 0
        return (np.cumsum(used) - 1)[vertex], int(np.count_nonzero(used))
    names, numbers = np.unique(vertex, return_inverse=True)
    return np.ascontiguousarray(numbers.reshape(-1), dtype=np.int64), len(names)


def _sort_order(key: Ints) -> Ints:
    """Positions that sort small numbers, stably."""
    return np.argsort(key.astype(np.uint16) if len(key) and int(key.max()) < 2**16 else key, kind="stable")
