"""A message graph with processes that are alike put together, so that large graphs are scheduled as small ones.

Two foldings, after which a schedule is told by how many messages of each type go where:

- Turns. A slice's grid does not change when all senders and receivers turn together by certain amounts, without a process
  that stays where it is (the classes of Desprez, Proposition 1, are the orbits). An edge of the folded graph stands for
  `turns` messages between different processes, so a step of the folded graph is a step of the whole one.
- Copies. Then senders with the same lengths to all receivers are copies of one group, and so are receivers. Between a group
  of u and one of v each type has u v `copies` edges. Any division of them that the groups' capacities allow can be shared
  out evenly among the copies (see `lifting`), so counting is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from .communication_grid import CommunicationGrid
from .message_graph import Ints, MessageGraph

__all__ = ["Amalgam", "Types", "amalgamated"]


class Types(Protocol):
    """Groups of senders and of receivers, and how many messages of each type go between them; see `Amalgam`."""

    @property
    def sender_sizes(self) -> Ints:
        """Number of copies of each group."""

    @property
    def receiver_sizes(self) -> Ints:
        """Number of copies of each group."""

    @property
    def sender_group(self) -> Ints:
        """Of each type."""

    @property
    def receiver_group(self) -> Ints:
        """Of each type."""

    @property
    def length(self) -> Ints:
        """Of each type."""

    @property
    def count(self) -> Ints:
        """Edges of each type."""

    @property
    def types(self) -> int:
        """Number of types."""


@dataclass(frozen=True, eq=False)
class Amalgam:
    """Groups of senders and of receivers, and the types of messages between them.

    Attributes
    ----------
    senders, receivers : ndarray
        For each folded process its processes, one for each turn; copies of one group are adjacent.
    sender_sizes, receiver_sizes : ndarray
        Number of copies of each group.
    sender_group, receiver_group, length : ndarray
        Of each type of message.
    shifts : list of ndarray
        For each type, by how much the receiver's turn is ahead of the sender's, once for each parallel edge.
    slope : int
        Turns of a receiver for one of the sender.
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
        answer: Ints = self.copies * self.sender_sizes[self.sender_group] * self.receiver_sizes[self.receiver_group]
        return answer

    @property
    def types(self) -> int:
        """Number of types."""
        return len(self.length)

    def unfolded(self, sender: Ints, receiver: Ints, kind: Ints, parallel: Ints) -> Ints:
        """Rows sender, receiver, length of the messages for which edges stand, edge by edge. Not collective.

        Parameters
        ----------
        sender, receiver, kind, parallel : ndarray
            Folded processes, type, and which of the parallel edges of the type, of each edge.
        """
        starts = np.cumsum(self.copies) - self.copies
        shift = np.concatenate([*self.shifts, np.zeros(0, np.int64)])[starts[kind] + parallel]
        turn = np.arange(self.turns)
        other = (shift[:, None] + self.slope * turn) % self.turns
        messages = [self.senders[sender], np.take_along_axis(self.receivers[receiver], other, axis=1)]
        length = np.broadcast_to(self.length[kind][:, None], other.shape)
        return np.stack([*messages, length], axis=2).reshape(-1, 3)


def amalgamated(graph: MessageGraph) -> Amalgam:
    """The graph with processes that are alike put together. Not collective."""
    if isinstance(graph, CommunicationGrid) and slices(graph):
        return folded_slice(graph, folded_slice_turns(graph))
    return _by_equal_lengths(graph)


def slices(grid: CommunicationGrid) -> int:
    """Number of slices that an array is, 1 where it is given by its slice; 0 if it ends within one. Not collective."""
    if grid.n is None:
        return 1
    return 0 if grid.n % grid.slice_length else grid.n // grid.slice_length


def folded_slice_turns(grid: CommunicationGrid) -> int:
    """The most turns by which a slice's grid folds: g / gcd(s, g) / gcd(r, g). Not collective."""
    r, s, g = grid.reduced
    return g // math.gcd(s, g) // math.gcd(r, g)


def folded_slice(grid: CommunicationGrid, turns: int) -> Amalgam:
    """The grid of whole slices folded by a divisor of the most turns possible. Not collective.

    Sender p is i + g1 (turn + h a): group i of g1 = gcd(s, g), turn of h = g / g1 / g2, copy a. Receivers alike.
    """
    r, s, g = grid.reduced
    g1, g2, h = math.gcd(s, g), math.gcd(r, g), folded_slice_turns(grid)
    stride = h // turns  # by so much turn the processes of one folded one
    u, v = grid.P // (g1 * h), grid.Q // (g2 * h)
    senders = _numbered(g1, stride, turns, u)
    receivers = _numbered(g2, stride, turns, v)
    # Turn alpha of a sender meets turn beta of a receiver in the same class where sigma beta - rho alpha stays the same.
    slope = pow(s // g1, -1, h) * (r // g2) % h
    # Groups are (i, alpha mod stride); a receiver's turn is beta = beta mod stride + stride * shift, a sender's alike.
    first = CommunicationGrid(grid.P, grid.Q, grid.r, grid.s, None, grid.offset, grid.receiver_offset).rows(
        senders.reshape(g1 * stride, u, turns)[:, 0, 0]
    )
    table = slices(grid) * first[:, receivers.reshape(g2 * stride, v, turns)[:, 0, :]]
    return _typed(senders, receivers, np.full(g1 * stride, u), np.full(g2 * stride, v), table, slope % turns)


def _numbered(groups: int, stride: int, turns: int, copies: int) -> Ints:
    """Processes in the order group, place among the turns that are apart, copy; one column for each turn."""
    i, place, copy, turn = np.ix_(np.arange(groups), np.arange(stride), np.arange(copies), np.arange(turns))
    numbers: Ints = i + groups * ((place + stride * turn) + stride * turns * copy)
    return numbers.reshape(-1, turns)


def _by_equal_lengths(graph: MessageGraph) -> Amalgam:
    ones = np.ones(graph.P, dtype=np.int64), np.ones(graph.Q, dtype=np.int64)
    return _typed(np.arange(graph.P)[:, None], np.arange(graph.Q)[:, None], *ones, graph.lengths[:, :, None], 0)


def _typed(senders: Ints, receivers: Ints, us: Ints, vs: Ints, table: Ints, slope: int) -> Amalgam:
    """Types from a table of lengths: group of senders (in turn 0), group of receivers, turn of the receiver.

    Groups with the same lengths are made one.
    """
    table, senders, us = _merged(table, senders, us)
    across, receivers, vs = _merged(table.swapaxes(0, 1), receivers, vs)
    table = across.swapaxes(0, 1)
    i, j, shift = np.nonzero(table)
    length = table[i, j, shift]
    order = np.lexsort((shift, length, j, i))
    keys = np.stack([i, j, length], axis=1)[order]
    new = np.ones(len(keys), dtype=bool)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    shifts = np.split(shift[order], np.flatnonzero(new)[1:]) if len(keys) else []
    kinds = keys[new]
    return Amalgam(senders, receivers, us, vs, kinds[:, 0], kinds[:, 1], kinds[:, 2], shifts, slope)


def _merged(table: Ints, members: Ints, sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """The table without repeated rows, members sorted by their rows, and sizes of the larger groups."""
    flat = np.ascontiguousarray(table).reshape(len(table), -1)
    first, group = np.unique(flat, axis=0, return_index=True, return_inverse=True)[1:]
    group = group.reshape(-1)
    order = np.argsort(np.repeat(group, sizes), kind="stable")
    return table[first], members[order], np.bincount(group, weights=sizes).astype(np.int64)
