"""The messages of one rank between two layouts: sends, receives and local copies, in closed form for each dimension.

The work is proportional to the rank's index runs in one period and to its peers. With replicas it is also proportional to the
receivers of the elements of which the rank has a replica, and in each dimension to the receivers of its senders
(`schedules/layout_graphs.py`).

Two ranks exchange one message. If a rank may have several places, the message has a box for each place of A and each of B, in
an order that both ranks know.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.boxes import Box, Trapezoid
from .._kernels.by_process import SharedRuns
from .._kernels.products import products, runs_of_all
from ..exchanges import Boxes, Message
from ..intersections.runs import SuperblockSlot, by_process, in_slot
from ..layout.axis import Axis
from ..layout.tiles import Layout
from ..schedules.layout_graphs import ReplicatedGraph, choose_replicas
from ..schedules.orders import Coords, Order
from .operation import Edge
from .panels import Panel, cut


class RankMessages(NamedTuple):
    """The messages that one rank sends and receives, and its copies from its own A to its own B."""

    sends: list[Message]
    receives: list[Message]
    copies: list[Message]


DENSE = {"packed": "target", "unpacked": "source", "copied": ""}
Arrays = tuple[tuple[int, int], ...]
NONE = -1


class _PlacePair(NamedTuple):
    """The elements that a place of A and a place of B share; `arrays` is the number of their pair of local arrays."""

    rank: int
    a: Coords
    b: Coords
    first: Coords
    dims: tuple[SharedRuns, ...]
    box: Box
    arrays: int


def messages_of(
    a: Layout,
    b: Layout,
    me: int,
    number: Mapping[int, int] | range,
    order: Order,
    edge: Edge | None = None,
    by_slot: bool = False,
    panel: Panel | None = None,
) -> tuple[RankMessages, Arrays]:
    """Return the messages of rank `me`, sorted by the keys of `order`.

    Parameters
    ----------
    a, b : Descriptor or Tiles
        Layouts before and after, on one communicator.
    me : int
        This rank in that communicator.
    number : dict or range
        Rank in the group for each rank of the communicator that takes part.
    order : Order
        Order of the messages.
    edge : (bool, int), optional
        Edge of a trapezoid: only elements (i, j) with j - i at least (True) or at most (False) that number.
    by_slot : bool
        Whether two ranks with several steps in a schedule of superblocks have a box for each step, which a derived datatype
        can describe; else they have one box, cut into steps by number of elements.
    panel : Panel, optional
        Only the elements of this panel of A.

    Returns
    -------
    RankMessages
        If a rank may have several places, the boxes refer to pairs of local arrays by number.
    tuple of (int, int)
        For each such pair the numbers of its arrays, first A's, then B's; -1 for an array that is not used.
    """
    single = a.is_product and b.is_product
    reads = choose_replicas(a, b)
    messages = RankMessages([], [], [])
    pairs: dict[tuple[int, int], int] = {}
    own_targets = {} if single else {place: len(a.local_shapes) + j for j, place in enumerate(b.own_places)}

    def add(
        sending: bool, rank: int, before: Coords, after: Coords, first: Coords, dims: Any, box: Box | Boxes
    ) -> None:
        """Add the message between this rank and another."""
        if rank == me:
            messages.copies.append(Message(number[rank], box, (), 0, box.size))
            return
        own, other, place = (a, b, before) if sending else (b, a, after)
        step_boxes = _StepBoxes(own, other, dims, "packed" if sending else "unpacked", edge, place) if by_slot else None
        if not single:  # the order numbers processes
            ends = (me, rank) if sending else (rank, me)
            before, after = (a.ranks.index(ends[0]),), (b.ranks.index(ends[1]),)
        side = messages.sends if sending else messages.receives
        side += messages_between(order, before, after, number[rank], first, box, step_boxes)

    for sending in (True, False):
        own, other, kind = (a, b, "packed") if sending else (b, a, "unpacked")
        places = other.places
        along: dict[tuple[int, int], list[SharedRuns]] = {}
        by_rank: dict[int, list[_PlacePair]] = {}
        for k, place in enumerate(own.own_places):
            for remote, first, dims in _shared_with(own, other, place, sending, reads, None if single else along):
                rank = int(places[remote])
                if rank == me and not sending:
                    continue
                part = None
                if panel is not None:
                    d, of_a = panel.dimension, place if sending else remote
                    part = d, *panel.positions(dims[d], a.distributions[d], of_a[d], sending)
                box = box_of(dims, kind if rank != me else "copied", edge, own, place, part)
                if not box.size:
                    continue
                before, after = (place, remote) if sending else (remote, place)
                if single:
                    add(sending, rank, before, after, first, dims, box)
                    continue
                pair = (k, own_targets[remote] if rank == me else NONE) if sending else (NONE, len(a.local_shapes) + k)
                place_pair = _PlacePair(rank, before, after, first, dims, box, pairs.setdefault(pair, len(pairs)))
                by_rank.setdefault(rank, []).append(place_pair)
        for place_pairs in by_rank.values():
            place_pairs.sort(key=lambda pair: (pair.a, pair.b))
            boxes = tuple((pair.arrays, pair.box) for pair in place_pairs)
            add(sending, *place_pairs[0][:5], Boxes(boxes, sum(pair.box.size for pair in place_pairs)))
    for side in messages:
        if len(side) > 1:
            side.sort(key=_key_of)
    return messages, tuple(pairs)


def _shared_with(
    own: Layout,
    other: Layout,
    place: Coords,
    sending: bool,
    reads: ReplicatedGraph | None,
    cached: dict[tuple[int, int], list[SharedRuns]] | None,
) -> list[tuple[Coords, Coords, tuple[SharedRuns, ...]]]:
    """List the places that share elements with an own place: coordinates, global indices of the first element, index runs.

    `cached` holds the index runs of each dimension, since several places may have a row or column in common.
    """
    if cached is None:
        shared: list[Any] = products(list(map(by_process, own.distributions, other.distributions, place)))
    else:
        dims = []
        for d, (x, y, p) in enumerate(zip(own.distributions, other.distributions, place, strict=False)):
            if (d, p) not in cached:
                cached[d, p] = by_process(x, y, p)
            dims.append(cached[d, p])
        shared = products(dims)
    if reads is None:
        return shared
    replicas = reads.served_by(place) if sending else reads.read_by(place)
    return [(peer_place, first, dims) for remote, first, dims in shared for peer_place in replicas.get(remote, ())]


_key_of = operator.attrgetter("key")


class _StepBoxes(NamedTuple):
    """Cuts the elements that this rank, in layout `own`, shares with another into the boxes of single steps."""

    own: Layout
    other: Layout
    dims: tuple[SharedRuns, ...]
    kind: str
    edge: Edge | None
    place: Coords

    def box(self, slots: Sequence[SuperblockSlot | None]) -> Box:
        """Return the box of these slots, one for each dimension; None for a whole dimension."""
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
    step_boxes: _StepBoxes | None = None,
) -> list[Message]:
    """Return the message from one process to another, or one message for each step that the schedule has for the two.

    `first` has the global indices of the first element.
    """
    key = order.key(sender, receiver, first)
    if key is not None:
        return [Message(peer, box, key, 0, box.size)]
    shares = order.shares(sender, receiver, first)
    if len(shares) == 1:
        return [Message(peer, box, shares[0].key, 0, box.size)]
    if step_boxes is not None and shares[0].slots:
        boxes = [(share.key, step_boxes.box(share.slots)) for share in shares]
        return [Message(peer, step_box, key, 0, step_box.size) for key, step_box in boxes if step_box.size]
    messages = []
    total, weight, begin = sum(share.weight for share in shares), 0, 0
    for share in sorted(shares):
        weight += share.weight
        end = box.size * weight // total
        if end > begin:
            messages.append(Message(peer, box, share.key, begin, end))
        begin = end
    return messages


def box_of(
    dims: tuple[SharedRuns, ...],
    kind: str,
    edge: Edge | None,
    own: Layout,
    place: Coords,
    part: tuple[int, int, int] | None = None,
) -> Box:
    """Return the box of the elements that two processes share, perhaps empty. This rank's side is `place` of `own`.

    With `part`, a dimension and two positions in it, it is the box of these elements and those between.
    """
    runs = runs_of_all(dims, kind)
    if part is not None:
        d, first, last = part
        runs[d] = cut(runs[d], first, last, kind)
    if edge is None:
        return Box(runs)
    indices = [*map(_indices, dims, own.distributions, place)]
    if part is not None:
        indices[d] = indices[d][first:last]
    rows, columns = indices
    return Trapezoid(runs, rows, columns, *edge, DENSE[kind])


def _indices(shared: SharedRuns, axis: Axis, p: int) -> NDArray[np.int64]:
    """Global indices of the elements that process `p` of an axis shares, ascending."""
    starts, length = shared.start_a, shared.length
    elements = int(length.sum())
    offsets = np.repeat(starts - np.cumsum(length) + length, length) + np.arange(elements)
    periods = shared.period_a * np.arange(-(-shared.total // elements))
    indices: NDArray[np.int64] = axis.global_index(p, (periods[:, None] + offsets).ravel()[: shared.total])
    return indices
