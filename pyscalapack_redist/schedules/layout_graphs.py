"""The messages between two layouts: along a dimension, with replicas, and of ranks that hold several tiles."""

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
    """Messages between two axes, at least one of them with irregular blocks.

    Nothing repeats, so there are no slices and no classes. The messages of one process are computed without the others'.
    """

    def __init__(self, a: Axis, b: Axis) -> None:
        self.a, self.b = a, b
        self.n, self.P, self.Q = a.n, a.processes, b.processes

    def rows(self, senders: Ints) -> Ints:
        """Lengths of the messages of some senders to every receiver."""
        return _table((_lengths(families_of(self.a, self.b, p)) for p in np.asarray(senders).tolist()), self.Q)

    def columns(self, receivers: Ints) -> Ints:
        """Lengths of the messages from every sender to some receivers."""
        return _table((_lengths(families_of(self.b, self.a, q)) for q in np.asarray(receivers).tolist()), self.P).T

    def sent_by(self, p: int) -> tuple[Ints, Ints]:
        """Receivers of the messages of sender `p`, ascending, and their lengths."""
        return _lengths(families_of(self.a, self.b, p))

    def received_by(self, q: int) -> tuple[Ints, Ints]:
        """Senders of the messages to receiver `q`, ascending, and their lengths."""
        return _lengths(families_of(self.b, self.a, q))

    def first_elements(self, senders: Ints) -> Ints:
        """Index of the first element of each message of some senders; the largest int64 for none."""
        largest = np.iinfo(np.int64).max
        return _table((_first(families_of(self.a, self.b, p)) for p in np.asarray(senders).tolist()), self.Q, largest)


def _table(rows: Iterable[tuple[Ints, Ints]], columns: int, absent: int = 0) -> Ints:
    """A table with one row for each pair of column numbers and values; `absent` everywhere else."""
    table = []
    for peers, values in rows:
        row = np.full(columns, absent, np.int64)
        row[peers] = values
        table.append(row)
    return np.array(table, np.int64).reshape(-1, columns)


def _lengths(families: Families) -> tuple[Ints, Ints]:
    """Processes of b, and the number of elements shared with each."""
    starts = _starts(families)
    lengths = families.length * families.runs
    return families.remote[starts], np.add.reduceat(lengths, starts) if len(starts) else lengths


def _first(families: Families) -> tuple[Ints, Ints]:
    """Processes of b, and the first element shared with each."""
    starts = _starts(families)
    return families.remote[starts], families.first[starts]


def _starts(families: Families) -> Ints:
    """Positions of the first family of each process."""
    return np.flatnonzero(np.diff(families.remote, prepend=-1))


Place = tuple[int, ...]
Mask = NDArray[np.bool_]


class _Receivers(NamedTuple):
    """Receivers that share elements with a sender.

    Attributes
    ----------
    peers : list of ndarray
        Their coordinates along each dimension.
    lengths : ndarray
        Elements shared with each combination of coordinates.
    reads, own : ndarray of bool
        For each combination and each replica: whether it reads from the sender, and whether it is the sender's own rank.
    """

    peers: list[Ints]
    lengths: Ints
    reads: Mask
    own: Mask


class ReplicatedGraph(MessageGraph):
    """Messages between two layouts, at least one of them with replicas.

    Senders and receivers are numbered by their position in the tables of ranks, row by row, replicas fastest. Elements that
    stay on a rank are no message.

    Parameters
    ----------
    axes : sequence of MessageGraph
        Messages between the process coordinates along each dimension.
    before, after : ndarray of int64
        Rank at each process coordinate; with replicas, a last dimension numbers them.
    """

    def __init__(self, axes: Sequence[MessageGraph], before: Ints, after: Ints) -> None:
        self.axes = tuple(axes)
        self._shapes = before.shape, after.shape
        self._before = before.reshape([*(axis.P for axis in axes), -1])
        self._after = after.reshape([*(axis.Q for axis in axes), -1])
        self.P, self.Q = before.size, after.size

    def served_by(self, sender: Place) -> dict[Place, list[Place]]:
        """Receivers that read from a sender, by their coordinates; itself if elements stay on it."""
        receivers = self._receivers(sender)
        result: dict[Place, list[Place]] = {}
        for index in np.argwhere(receivers.reads | receivers.own).tolist():
            coords = tuple([int(coordinates[i]) for coordinates, i in zip(receivers.peers, index[:-1], strict=True)])
            result.setdefault(coords, []).append(self._place(coords, index[-1], 1))
        return result

    def read_by(self, receiver: Place) -> dict[Place, list[Place]]:
        """The sender from which a receiver reads each part, by the part's coordinates; itself if it holds the part."""
        parts, replicas, _ = self._read(receiver)
        rows = zip(parts.tolist(), replicas.tolist(), strict=True)
        return {tuple(part): [self._place(tuple(part), replica, 0)] for part, replica in rows}

    def rows(self, senders: Ints) -> Ints:
        """Lengths of the messages of some senders to every receiver."""
        table = np.zeros((len(senders), *self._after.shape), np.int64)
        for row, place in zip(table, zip(*np.unravel_index(senders, self._shapes[0]), strict=True), strict=True):
            receivers = self._receivers(place)
            row[np.ix_(*receivers.peers, np.arange(row.shape[-1]))] = receivers.lengths[..., None] * receivers.reads
        return table.reshape(len(senders), -1)

    def columns(self, receivers: Ints) -> Ints:
        """Lengths of the messages from every sender to some receivers."""
        columns = np.zeros((len(receivers), *self._before.shape), np.int64)
        for column, place in zip(columns, zip(*np.unravel_index(receivers, self._shapes[1]), strict=True), strict=True):
            parts, replicas, lengths = self._read(place)
            column[(*parts.T, replicas)] = lengths
            column[self._before == self._after[self._split(place)]] = 0
        table: Ints = columns.reshape(len(receivers), -1).T
        return table

    # -- the sender's side

    def _receivers(self, sender: Place) -> _Receivers:
        """The receivers of a sender."""
        *leading, replica = self._split(sender)
        coords = tuple(leading)
        shared = [axis.sent_by(int(p)) for axis, p in zip(self.axes, coords, strict=True)]
        peers = [receivers for receivers, _ in shared]
        lengths: Ints = reduce(np.multiply.outer, [elements for _, elements in shared])
        ranks = self._after[np.ix_(*peers, np.arange(self._after.shape[-1]))]
        holders = self._before[coords]
        lacking = ~np.isin(ranks, holders)
        return _Receivers(
            peers, lengths, lacking & (self._servers(ranks, lacking) == replica), ranks == holders[replica]
        )

    def _servers(self, ranks: Ints, lacking: Mask) -> Ints:
        """The replica that each receiver reads: those that hold none are dealt to the replicas in turn."""
        servers: Ints = (np.cumsum(lacking).reshape(lacking.shape) - 1) % self._before.shape[-1]
        return servers

    # -- the receiver's side

    def _read(self, receiver: Place) -> tuple[Ints, Ints, Ints]:
        """Coordinates of the parts that a receiver needs, the replica that it reads of each, and the elements."""
        place = self._split(receiver)
        shared = [axis.received_by(int(q)) for axis, q in zip(self.axes, place[:-1], strict=True)]
        index = np.indices([len(senders) for senders, _ in shared]).reshape(len(shared), -1)
        parts = np.stack([senders[i] for (senders, _), i in zip(shared, index, strict=True)], axis=1)
        lengths = np.prod([elements[i] for (_, elements), i in zip(shared, index, strict=True)], axis=0, dtype=np.int64)
        shares = [axis.rows(senders) > 0 for axis, (senders, _) in zip(self.axes, shared, strict=True)]
        positions = [np.cumsum(table, axis=1) for table in shares]  # one more than the position among the receivers

        def number(places: Sequence[Ints]) -> Ints:
            """Numbers of the receivers at these coordinates among those of a part, one row for each part."""
            numbers: Ints = np.zeros_like(places[0])
            for table, i, q in zip(positions, index, places, strict=False):
                numbers = numbers * table[i, -1][:, None] + table[i[:, None], q] - 1
            numbers = numbers * self._after.shape[-1] + places[-1]
            return numbers

        own_number = number([np.full((len(parts), 1), c) for c in place])
        holders = self._before[tuple(parts.T)]
        numbers = self._number_after[np.minimum(holders, len(self._number_after) - 1)]
        coords = np.unravel_index(np.maximum(numbers, 0), self._after.shape)
        reads = reduce(
            np.logical_and,
            [table[i[:, None], q] for table, i, q in zip(shares, index, coords, strict=False)],
            numbers >= 0,
        )
        before = np.count_nonzero(reads & (number(coords) < own_number), axis=1)
        holds = holders == self._after[place]
        replicas = np.where(holds.any(axis=1), holds.argmax(axis=1), (own_number[:, 0] - before) % holders.shape[1])
        return parts, replicas, lengths

    @cached_property
    def _number_after(self) -> Ints:
        """Number of each rank among the receivers; -1 for other ranks. The last entry is -1."""
        numbers = np.full(int(self._after.max()) + 2, -1, np.int64)
        numbers[self._after.ravel()] = np.arange(self._after.size)
        return numbers

    # -- places

    def _split(self, place: Place) -> Place:
        """Process coordinates and number of the replica."""
        return place if len(place) > len(self.axes) else (*place, 0)

    def _place(self, coords: Place, replica: int, side: int) -> Place:
        """Index into the table of ranks before (`side` 0) or after (1)."""
        return (*coords, replica) if len(self._shapes[side]) > len(coords) else coords

    def __repr__(self) -> str:
        before, after = (" x ".join(map(str, shape)) for shape in self._shapes)
        return f"ReplicatedGraph({before} -> {after} processes, replicas last)"


class TiledReplicas(ReplicatedGraph):
    """Messages between a layout with replicas and one whose ranks may have several places.

    A rank that holds no replica of a part reads the one of its number modulo the number of replicas.
    """

    def _servers(self, ranks: Ints, lacking: Mask) -> Ints:
        servers: Ints = ranks % self._before.shape[-1]
        return servers

    def _read(self, receiver: Place) -> tuple[Ints, Ints, Ints]:
        place = self._split(receiver)
        shared = [axis.received_by(int(q)) for axis, q in zip(self.axes, place[:-1], strict=True)]
        senders, elements = [senders for senders, _ in shared], [elements for _, elements in shared]
        parts = np.stack(np.meshgrid(*senders, indexing="ij"), axis=-1).reshape(-1, len(senders))
        rank = self._after[place]
        holds = self._before[tuple(parts.T)] == rank
        replicas = np.where(holds.any(axis=1), holds.argmax(axis=1), rank % self._before.shape[-1])
        return parts, replicas, reduce(np.multiply.outer, elements).ravel()


class LayoutLike(Protocol):
    """The part of `Descriptor` and `Tiles` that schedules use: axes, and the rank at each place along them.

    A place is an index into `places`: process coordinates, then the number of the replica if there are several.
    """

    @property
    def distributions(self) -> Sequence[Axis]:
        """The axes."""

    @property
    def places(self) -> Ints:
        """Rank of each place; with replicas, a last dimension numbers them."""

    @property
    def placement(self) -> Ints:
        """Rank of each place; of replicas, the first."""

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
        """Whether a rank has at most one place."""


def choose_replicas(a: LayoutLike, b: LayoutLike) -> ReplicatedGraph | None:
    """The replica that each receiver reads; None if neither layout has replicas, or there are no tiles."""
    if a.copies == b.copies == 1 or not a.places.size * b.places.size:
        return None
    graph = ReplicatedGraph if a.is_product and b.is_product else TiledReplicas
    return graph(LayoutMessages(a, b).axes, a.places, b.places)


class LayoutMessages:
    """The messages between two layouts of one array.

    Attributes
    ----------
    axes : list of MessageGraph
        Messages along each dimension.
    is_product : bool
        Whether messages are products of those along the dimensions: no replicas, and at most one place for each rank.
    """

    def __init__(self, a: LayoutLike, b: LayoutLike) -> None:
        self._a, self._b = a, b
        self.axes = [between(x, y) for x, y in zip(a.distributions, b.distributions, strict=True)]
        self.is_product = a.is_product and b.is_product and a.copies == b.copies == 1

    @property
    def parts(self) -> list[MessageGraph]:
        """One graph for each dimension if messages are products; else the whole graph."""
        return [*self.axes] if self.is_product else [self.whole]

    @cached_property
    def whole(self) -> MessageGraph:
        """All messages, without those of a rank to itself.

        Processes are numbered as the places are, or as the layout's ranks are if a rank may have several places.
        """
        a, b = self._a, self._b
        if not (a.is_product and b.is_product):
            return LengthMatrix(self._between_ranks())
        if max(a.copies, b.copies) > 1:
            return ReplicatedGraph(self.axes, a.places, b.places)
        return WholeGraph(tuple(self.axes), self.own_receivers)

    @cached_property
    def own_receivers(self) -> Ints:
        """For each sender, row by row, the receiver that is the same rank; -1 for none."""
        senders, receivers = self._a.placement.ravel(), self._b.placement.ravel()
        order = np.argsort(receivers)
        positions = order[np.minimum(np.searchsorted(receivers[order], senders), len(receivers) - 1)]
        return np.where(receivers[positions] == senders, positions, -1)

    def _between_ranks(self) -> Ints:
        """Elements from each rank of A to each rank of B, both ascending. The work is the product of their places."""
        a, b = self._a, self._b
        lengths = np.zeros((max(1, len(a.ranks)), max(1, len(b.ranks))), np.int64)
        tables = [axis.lengths for axis in self.axes]
        before = a.places.reshape(-1, a.copies)
        senders, receivers = np.searchsorted(a.ranks, before), np.searchsorted(b.ranks, b.places)
        for place in np.ndindex(*b.places.shape) if a.places.size else ():
            # elements that all places of A share with this place of B; a rank reads the replica of `TiledReplicas`
            shared = reduce(np.multiply.outer, [table[:, i] for table, i in zip(tables, place, strict=False)])
            rank = int(b.places[place])
            moved = np.where((before == rank).any(axis=1), 0, shared.ravel())
            np.add.at(lengths[:, receivers[place]], senders[:, rank % a.copies], moved)
        return lengths
