"""From two layouts to the messages of one rank: what it sends, receives and copies, in closed form per dimension.

The work is proportional to the rank's own index runs in one period and to the peers it has; with copies, to the receivers of
the part that it holds a copy of, and along each dimension to those of its senders (`schedules/layout_graphs.py`).

All that two ranks share is one message. Where a rank may have several places, it has a box for each place of A and each of
B, in the order of these, which both ranks know.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.boxes import Box, Trapezoid
from .._kernels.by_process import Shared
from .._kernels.products import products, runs_of_all
from ..exchanges import Boxes, Message
from ..intersections.runs import SuperblockSlot, by_process, in_slot
from ..layout.axis import Axis
from ..layout.tiles import Layout
from ..schedules.layout_graphs import ReplicatedGraph, choose_replicas
from ..schedules.orders import Coords, Order
from .operation import Edge


class RankMessages(NamedTuple):
    """What one rank sends, receives, and copies from its own A to its own B."""

    sends: list[Message]
    receives: list[Message]
    copies: list[Message]


DENSE = {"packed": "target", "unpacked": "source", "copied": ""}
Arrays = tuple[tuple[int, int], ...]
NONE = -1


class _Piece(NamedTuple):
    """What a place of A and a place of B share; `arrays` is the number of their pair of local arrays."""

    rank: int
    a: Coords
    b: Coords
    first: Coords
    dims: tuple[Shared, ...]
    box: Box
    arrays: int


def messages_of(
    a: Layout,
    b: Layout,
    me: int,
    number: Mapping[int, int] | range,
    order: Order,
    part: Edge | None = None,
    by_slot: bool = False,
) -> tuple[RankMessages, Arrays]:
    """The messages of rank `me`, sorted by the keys of `order`. Not collective.

    Parameters
    ----------
    a, b : Descriptor or Tiles
        Layouts before and after, on one communicator.
    me : int
        This rank in that communicator.
    number : dict or range
        Rank in the participants' communicator for each rank of theirs.
    order : Order
        The schedule's order.
    part : (bool, int), optional
        Of a matrix, only elements (i, j) of j - i at least (True) or at most (False) that number.
    by_slot : bool
        Whether a pair that comes in several steps of a schedule by superblocks has a box for each, which a derived datatype
        can describe; else one box, of which as many elements go in each step.

    Returns
    -------
    RankMessages
        Where a rank may have several places, the boxes refer to pairs of local arrays by number.
    tuple of (int, int)
        For each such pair the numbers of its arrays, those of B behind those of A; -1 where only the other one counts.
    """
    single = a.is_product and b.is_product
    reads = choose_replicas(a, b)
    messages = RankMessages([], [], [])
    pairs: dict[tuple[int, int], int] = {}
    here = {} if single else {place: len(a.local_shapes) + j for j, place in enumerate(b.own_places)}

    def add(
        sending: bool, rank: int, before: Coords, after: Coords, first: Coords, dims: Any, box: Box | Boxes
    ) -> None:
        """A message of all that this rank and another share."""
        if rank == me:
            messages.copies.append(Message(number[rank], box, (), 0, box.size))
            return
        own, other, place = (a, b, before) if sending else (b, a, after)
        parts = _Parts(own, other, dims, "packed" if sending else "unpacked", part, place) if by_slot else None
        if not single:  # processes as the order knows them
            ends = (me, rank) if sending else (rank, me)
            before, after = (a.ranks.index(ends[0]),), (b.ranks.index(ends[1]),)
        some = messages.sends if sending else messages.receives
        some += messages_between(order, before, after, number[rank], first, box, parts)

    for sending in (True, False):
        own, other, kind = (a, b, "packed") if sending else (b, a, "unpacked")
        places = other.places
        along: dict[tuple[int, int], list[Shared]] = {}
        by_rank: dict[int, list[_Piece]] = {}
        for k, place in enumerate(own.own_places):
            for there, first, dims in _meeting(own, other, place, sending, reads, None if single else along):
                rank = int(places[there])
                if rank == me and not sending:
                    continue
                box = box_of(dims, kind if rank != me else "copied", part, own, place)
                if not box.size:
                    continue
                before, after = (place, there) if sending else (there, place)
                if single:
                    add(sending, rank, before, after, first, dims, box)
                    continue
                pair = (k, here[there] if rank == me else NONE) if sending else (NONE, len(a.local_shapes) + k)
                piece = _Piece(rank, before, after, first, dims, box, pairs.setdefault(pair, len(pairs)))
                by_rank.setdefault(rank, []).append(piece)
        for pieces in by_rank.values():
            pieces.sort(key=lambda piece: (piece.a, piece.b))
            boxes = tuple((piece.arrays, piece.box) for piece in pieces)
            add(sending, *pieces[0][:5], Boxes(boxes, sum(piece.box.size for piece in pieces)))
    for some in messages:
        if len(some) > 1:
            some.sort(key=by_key)
    return messages, tuple(pairs)


def _meeting(
    own: Layout,
    other: Layout,
    place: Coords,
    sending: bool,
    reads: ReplicatedGraph | None,
    known: dict[tuple[int, int], list[Shared]] | None,
) -> list[tuple[Coords, Coords, tuple[Shared, ...]]]:
    """Places that share something with an own one: where, global indices of the first element, and what.

    `known` keeps what is shared along a dimension, where several places have a row in common.
    """
    if known is None:
        found: list[Any] = products(list(map(by_process, own.distributions, other.distributions, place)))
    else:
        dims = []
        for d, (x, y, p) in enumerate(zip(own.distributions, other.distributions, place, strict=False)):
            if (d, p) not in known:
                known[d, p] = by_process(x, y, p)
            dims.append(known[d, p])
        found = products(dims)
    if reads is None:
        return found
    chosen = reads.served_by(place) if sending else reads.read_by(place)
    return [(there, first, dims) for remote, first, dims in found for there in chosen.get(remote, ())]


by_key = operator.attrgetter("key")


class _Parts(NamedTuple):
    """Parts of what this rank, in layout `own`, shares with another: those that go in a step."""

    own: Layout
    other: Layout
    dims: tuple[Shared, ...]
    kind: str
    edge: Edge | None
    place: Coords

    def box(self, slots: Sequence[SuperblockSlot | None]) -> Box:
        """What is in these slots, one for each dimension; None is all."""
        own, place = self.own, self.place
        axes = zip(own.distributions, self.other.distributions, self.dims, place, slots, strict=False)
        dims = tuple(whole if slot is None else in_slot(a, b, whole, p, slot) for a, b, whole, p, slot in axes)
        return box_of(dims, self.kind, self.edge, own, place)


def messages_between(
    order: Order,
    sender: Coords,
    receiver: Coords,
    peer: int,
    first: Coords,
    box: Box | Boxes,
    parts: _Parts | None = None,
) -> list[Message]:
    """What two processes owe each other: one message, or one for each step in which the schedule has the pair.

    `first` has the global indices of the first element, of which there is one at least.
    """
    key = order.key(sender, receiver, first)
    if key is not None:
        return [Message(peer, box, key, 0, box.size)]
    shares = order.shares(sender, receiver, first)
    if len(shares) == 1:
        return [Message(peer, box, shares[0].key, 0, box.size)]
    if parts is not None and shares[0].slots:
        boxes = [(share.key, parts.box(share.slots)) for share in shares]
        return [Message(peer, some, key, 0, some.size) for key, some in boxes if some.size]
    found = []
    weight, done, begin = sum(share.weight for share in shares), 0, 0
    for share in sorted(shares):
        done += share.weight
        end = box.size * done // weight
        if end > begin:
            found.append(Message(peer, box, share.key, begin, end))
        begin = end
    return found


def box_of(dims: tuple[Shared, ...], kind: str, part: Edge | None, own: Layout, place: Coords) -> Box:
    """What two processes share, as runs of that kind; nothing is an empty box. This rank's side is `place` of `own`."""
    runs = runs_of_all(dims, kind)
    if part is None:
        return Box(runs)
    rows, columns = map(_indices, dims, own.distributions, place)
    return Trapezoid(runs, rows, columns, *part, DENSE[kind])


def _indices(shared: Shared, axis: Axis, p: int) -> NDArray[np.int64]:
    """Global indices of all elements that process `p` of an axis shares, ascending."""
    starts, length = shared.start_a, shared.length
    elements = int(length.sum())
    inside = np.repeat(starts - np.cumsum(length) + length, length) + np.arange(elements)
    periods = shared.period_a * np.arange(-(-shared.total // elements))
    found: NDArray[np.int64] = axis.global_index(p, (periods[:, None] + inside).ravel()[: shared.total])
    return found
