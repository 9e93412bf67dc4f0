"""Who owes whom how much between two layouts: along a dimension, with copies, and where ranks have several places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import ScheduleError
from ..intersections.runs import Families, families_of
from ..layout.axis import Axis, BlockCyclic
from .communication_grid import CommunicationGrid
from .message_graph import Ints, LengthMatrix, MessageGraph, WholeGraph


def between(a: Axis, b: Axis) -> CommunicationGrid | IrregularGraph:
    """The messages between two distributions of one finite array. Not collective.

    Parameters
    ----------
    a, b : BlockCyclic, or the distribution of a dimension of irregular blocks
        Before and after; senders and receivers are numbered by their coordinates.

    Returns
    -------
    MessageGraph
        A CommunicationGrid where both are block-cyclic.

    Raises
    ------
    ScheduleError
        The two have different numbers of elements.
    """
    if isinstance(a, BlockCyclic) and isinstance(b, BlockCyclic):
        return CommunicationGrid.between(a, b)
    if a.n != b.n:
        raise ScheduleError(f"a.n = {a.n} and b.n = {b.n} must be equal: they distribute the same elements")
    return IrregularGraph(a, b)


class IrregularGraph(MessageGraph):
    """Messages between two axes of which one has irregular blocks. Not collective.

    Nothing repeats, so there are no slices and no classes; what one process sends or receives is found without the others.
    """

    def __init__(self, a: Axis, b: Axis) -> None:
        self.a, self.b = a, b
        self.n, self.P, self.Q = a.n, a.processes, b.processes

    def rows(self, senders: Ints) -> Ints:
        """Lengths of the messages of some senders to every receiver. Not collective."""
        return _table((_lengths(families_of(self.a, self.b, p)) for p in np.asarray(senders).tolist()), self.Q)

    def columns(self, receivers: Ints) -> Ints:
        """Lengths of the messages from every sender to some receivers. Not collective."""
        return _table((_lengths(families_of(self.b, self.a, q)) for q in np.asarray(receivers).tolist()), self.P).T

    def sent_by(self, p: int) -> tuple[Ints, Ints]:
        """Receivers of the messages of sender `p`, ascending, and their lengths. Not collective."""
        return _lengths(families_of(self.a, self.b, p))

    def received_by(self, q: int) -> tuple[Ints, Ints]:
        """Senders of the messages to receiver `q`, ascending, and their lengths. Not collective."""
        return _lengths(families_of(self.b, self.a, q))

    def first_elements(self, senders: Ints) -> Ints:
        """Index of the first element of each message of some senders; the largest int64 where none. Not collective."""
        most = np.iinfo(np.int64).max
        return _table((_first(families_of(self.a, self.b, p)) for p in np.asarray(senders).tolist()), self.Q, most)


def _table(rows: Iterable[tuple[Ints, Ints]], columns: int, nothing: int = 0) -> Ints:
    """One row for each list of columns and values."""
    made = []
    for places, values in rows:
        row = np.full(columns, nothing, np.int64)
        row[places] = values
        made.append(row)
    return np.array(made, np.int64).reshape(-1, columns)


def _lengths(found: Families) -> tuple[Ints, Ints]:
    """Processes and how many elements they share."""
    starts = _starts(found)
    lengths = found.length * found.runs
    return found.remote[starts], np.add.reduceat(lengths, starts) if len(starts) else lengths


def _first(found: Families) -> tuple[Ints, Ints]:
    """Processes and the first element they share."""
    starts = _starts(found)
    return found.remote[starts], found.first[starts]


def _starts(found: Families) -> Ints:
    """Where another process begins."""
    return np.flatnonzero(np.diff(found.remote, prepend=-1))


Place = tuple[int, ...]
Mask = NDArray[np.bool_]


class _Served(NamedTuple):
    """Who could read from a process: receivers along each dimension, then copies; and who does."""

    peers: list[Ints]
    lengths: Ints
    reads: Mask
    own: Mask


class ReplicatedGraph(MessageGraph):
    """Messages between two layouts of which at least one has copies. Not collective.

    Senders and receivers are numbered by their place in the tables of ranks, row by row, copies fastest. What a rank keeps
    is no message.

    Parameters
    ----------
    axes : sequence of MessageGraph
        What the process coordinates share along each dimension.
    before, after : ndarray of int64
        Rank at each process coordinate, and of each copy along a last dimension if there are several.
    """

    def __init__(self, axes: Sequence[MessageGraph], before: Ints, after: Ints) -> None:
        self.axes = tuple(axes)
        self._shapes = before.shape, after.shape
        self._before = before.reshape([*(axis.P for axis in axes), -1])
        self._after = after.reshape([*(axis.Q for axis in axes), -1])
        self.P, self.Q = before.size, after.size

    def served_by(self, sender: Place) -> dict[Place, list[Place]]:
        """Receivers that read from a process, itself if it keeps something, by their coordinates. Not collective."""
        served = self._served(sender)
        found: dict[Place, list[Place]] = {}
        for index in np.argwhere(served.reads | served.own).tolist():
            coords = tuple([int(some[i]) for some, i in zip(served.peers, index[:-1], strict=True)])
            found.setdefault(coords, []).append(self._place(coords, index[-1], 1))
        return found

    def read_by(self, receiver: Place) -> dict[Place, list[Place]]:
        """The process from which a receiver reads, itself if it can, by the coordinates of what it needs. Not collective."""
        parts, copies, _ = self._read(receiver)
        rows = zip(parts.tolist(), copies.tolist(), strict=True)
        return {tuple(part): [self._place(tuple(part), copy, 0)] for part, copy in rows}

    def rows(self, senders: Ints) -> Ints:
        """Lengths of the messages of some senders to every receiver. Not collective."""
        made = np.zeros((len(senders), *self._after.shape), np.int64)
        for row, place in zip(made, zip(*np.unravel_index(senders, self._shapes[0]), strict=True), strict=True):
            served = self._served(place)
            row[np.ix_(*served.peers, np.arange(row.shape[-1]))] = served.lengths[..., None] * served.reads
        return made.reshape(len(senders), -1)

    def columns(self, receivers: Ints) -> Ints:
        """Lengths of the messages from every sender to some receivers. Not collective."""
        made = np.zeros((len(receivers), *self._before.shape), np.int64)
        for column, place in zip(made, zip(*np.unravel_index(receivers, self._shapes[1]), strict=True), strict=True):
            parts, copies, lengths = self._read(place)
            column[(*parts.T, copies)] = lengths
            column[self._before == self._after[self._split(place)]] = 0
        table: Ints = made.reshape(len(receivers), -1).T
        return table

    # -- the sender's side

    def _served(self, sender: Place) -> _Served:
        *first, copy = self._split(sender)
        coords = tuple(first)
        found = [axis.sent_by(int(p)) for axis, p in zip(self.axes, coords, strict=True)]
        peers = [receivers for receivers, _ in found]
        lengths: Ints = reduce(np.multiply.outer, [some for _, some in found])
        ranks = self._after[np.ix_(*peers, np.arange(self._after.shape[-1]))]
        holders = self._before[coords]
        lacking = ~np.isin(ranks, holders)
        turn = (np.cumsum(lacking).reshape(lacking.shape) - 1) % len(holders)
        return _Served(peers, lengths, lacking & (turn == copy), ranks == holders[copy])

    # -- the receiver's side

    def _read(self, receiver: Place) -> tuple[Ints, Ints, Ints]:
        """Parts of which a receiver needs something, by coordinates; the copy that it reads of each; and how much."""
        place = self._split(receiver)
        found = [axis.received_by(int(q)) for axis, q in zip(self.axes, place[:-1], strict=True)]
        index = np.indices([len(senders) for senders, _ in found]).reshape(len(found), -1)
        parts = np.stack([senders[i] for (senders, _), i in zip(found, index, strict=True)], axis=1)
        lengths = np.prod([some[i] for (_, some), i in zip(found, index, strict=True)], axis=0, dtype=np.int64)
        shares = [axis.rows(senders) > 0 for axis, (senders, _) in zip(self.axes, found, strict=True)]
        order = [np.cumsum(some, axis=1) for some in shares]  # one more than the place among the receivers

        def number(places: Sequence[Ints]) -> Ints:
            """Of receivers at such places, one row for each part."""
            made: Ints = np.zeros_like(places[0])
            for some, i, q in zip(order, index, places, strict=False):
                made = made * some[i, -1][:, None] + some[i[:, None], q] - 1
            made = made * self._after.shape[-1] + places[-1]
            return made

        mine = number([np.full((len(parts), 1), c) for c in place])
        holders = self._before[tuple(parts.T)]
        known = self._number_after[np.minimum(holders, len(self._number_after) - 1)]
        there = np.unravel_index(np.maximum(known, 0), self._after.shape)
        needs = reduce(
            np.logical_and, [some[i[:, None], q] for some, i, q in zip(shares, index, there, strict=False)], known >= 0
        )
        before = np.count_nonzero(needs & (number(there) < mine), axis=1)
        own = holders == self._after[place]
        copies = np.where(own.any(axis=1), own.argmax(axis=1), (mine[:, 0] - before) % holders.shape[1])
        return parts, copies, lengths

    @cached_property
    def _number_after(self) -> Ints:
        """Number of each rank among the receivers; -1 for ranks outside, the last entry among them."""
        numbers = np.full(int(self._after.max()) + 2, -1, np.int64)
        numbers[self._after.ravel()] = np.arange(self._after.size)
        return numbers

    # -- places

    def _split(self, place: Place) -> Place:
        """Process coordinates and number of the copy."""
        return place if len(place) > len(self.axes) else (*place, 0)

    def _place(self, coords: Place, copy: int, side: int) -> Place:
        """The index into a table of ranks as it was given."""
        return (*coords, copy) if len(self._shapes[side]) > len(coords) else coords

    def __repr__(self) -> str:
        before, after = (" x ".join(map(str, shape)) for shape in self._shapes)
        return f"ReplicatedGraph({before} -> {after} processes, copies last)"


class LayoutLike(Protocol):
    """A layout as the places along its axes, each of a rank, or of several that hold copies."""

    @property
    def distributions(self) -> Sequence[Axis]:
        """The axes."""

    @property
    def places(self) -> Ints:
        """Rank of each place; of each copy along a last dimension, if there are several."""

    @property
    def placement(self) -> Ints:
        """Rank of each place; of copies, the first."""

    @property
    def own_places(self) -> Sequence[Place]:
        """The places of this rank."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks."""

    @property
    def copies(self) -> int:
        """How many ranks hold each element."""

    @property
    def is_product(self) -> bool:
        """Whether a rank has one place at most."""


def choose_replicas(a: LayoutLike, b: LayoutLike) -> ReplicatedGraph | None:
    """Who reads from which copy; None where neither layout has copies. Not collective."""
    return None if a.copies == b.copies == 1 else ReplicatedGraph(LayoutMessages(a, b).axes, a.places, b.places)


class LayoutMessages:
    """Who owes whom how much between two layouts of one array. Not collective.

    Attributes
    ----------
    axes : list of MessageGraph
        What the places share along each dimension.
    is_product : bool
        Whether messages are the products of those of the dimensions: neither layout has copies, nor a rank several places.
    """

    def __init__(self, a: LayoutLike, b: LayoutLike) -> None:
        self._a, self._b = a, b
        self.axes = [between(x, y) for x, y in zip(a.distributions, b.distributions, strict=True)]
        self.is_product = a.is_product and b.is_product and a.copies == b.copies == 1

    @property
    def parts(self) -> list[MessageGraph]:
        """One graph for each dimension, where messages are products; else that of the whole."""
        return [*self.axes] if self.is_product else [self.whole]

    @cached_property
    def whole(self) -> MessageGraph:
        """All messages, but for those of a rank to itself.

        Processes are numbered as the places are; where a rank may have several, as its rank is among the layout's.
        """
        a, b = self._a, self._b
        if not (a.is_product and b.is_product):
            return LengthMatrix(self._between_ranks())
        if max(a.copies, b.copies) > 1:
            return ReplicatedGraph(self.axes, a.places, b.places)
        return WholeGraph(tuple(self.axes), self.own_receivers)

    @cached_property
    def own_receivers(self) -> Ints:
        """For each sender, row by row, the receiver that is the same rank; -1 for none. Not collective."""
        senders, receivers = self._a.placement.ravel(), self._b.placement.ravel()
        order = np.argsort(receivers)
        at = order[np.minimum(np.searchsorted(receivers[order], senders), len(receivers) - 1)]
        return np.where(receivers[at] == senders, at, -1)

    def _between_ranks(self) -> Ints:
        """Elements from each rank of A to each of B, both ascending. The work is that of all places of A times those of B."""
        senders, receivers = self._a.ranks, self._b.ranks
        lengths = np.zeros((max(1, len(senders)), max(1, len(receivers))), np.int64)
        rows, columns = (axis.lengths for axis in self.axes)
        p, q = np.searchsorted(senders, self._a.placement), np.searchsorted(receivers, self._b.placement)
        for i, j in np.ndindex(*q.shape):
            # what all places of A share with this one of B
            np.add.at(lengths, (p, q[i, j]), rows[:, i, None] * columns[:, j])
        for k, rank in enumerate(senders):
            if rank in receivers:
                lengths[k, receivers.index(rank)] = 0
        return lengths
