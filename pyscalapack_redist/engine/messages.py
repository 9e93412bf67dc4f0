"""The messages of one rank, for descriptors and for tiles.

From two descriptors to the messages of one rank: what it sends, receives and copies, in closed form per dimension.

The work is proportional to the rank's own index runs in one period and to the peers it has; with copies, to the receivers of
the part that it holds a copy of, and along each dimension to those of its senders (`schedules/layout_graphs.py`).

The messages of one rank where a layout is of tiles, so that a rank may have several local arrays.

All that two ranks share is one message. It has a box for each tile and for each place of the other layout, in the order of
the places of A and then of those of B, which both ranks know.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.boxes import Box, Trapezoid
from .._kernels.products import products, runs_of_all
from ..exchanges import Boxes, Message
from ..intersections.runs import Shared, Slot, by_process, in_slot
from ..layout.axis import Axis
from ..layout.descriptor import Descriptor
from ..layout.tiles import Tiles
from ..schedules.orders import Coords, Order
from .layouts import Layout, local_shapes
from .operation import Edge
from .order import reading

__all__ = [
    "Arrays",
    "Messages",
    "box_of",
    "by_key",
    "messages_between",
    "messages_of",
    "messages_of_tiles",
    "own_places",
]


class Messages(NamedTuple):
    """What one rank sends, receives, and copies from its own A to its own B."""

    sends: list[Message]
    receives: list[Message]
    copies: list[Message]


DENSE = {"packed": "target", "unpacked": "source", "copied": ""}


def messages_of(
    a: Descriptor,
    b: Descriptor,
    me: int,
    number: Mapping[int, int] | range,
    order: Order,
    part: Edge | None = None,
    by_slot: bool = False,
) -> Messages:
    """The messages of rank `me`, sorted by the keys of `order`. Not collective.

    Parameters
    ----------
    a, b : Descriptor
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
    """
    sends: list[Message] = []
    receives: list[Message] = []
    copies: list[Message] = []
    graph = reading(a, b)
    axes_a, axes_b = a.distributions, b.distributions
    here, place, coords, to = a.places, a.place, a.coords, b.places
    if coords is not None and place is not None:
        served = None if graph is None else graph.served_by(place)
        for remote, first, dims in products(list(map(by_process, axes_a, axes_b, coords))):
            for receiver in (remote,) if served is None else served.get(remote, ()):
                rank = int(to[receiver])
                box = box_of(dims, "copied" if rank == me else "packed", part, a, coords)
                if not box.size:
                    continue
                if rank == me:
                    copies.append(Message(number[rank], box, (), 0, box.size))
                else:
                    parts = _Parts(a, b, dims, "packed", part) if by_slot else None
                    sends += messages_between(order, place, receiver, number[rank], first, box, parts)
    place, coords = b.place, b.coords
    if coords is not None and place is not None:
        read = None if graph is None else graph.read_by(place)
        for remote, first, dims in products(list(map(by_process, axes_b, axes_a, coords))):
            sender = remote if read is None else read[remote]
            rank = int(here[sender])
            if rank == me:
                continue
            box = box_of(dims, "unpacked", part, b, coords)
            if box.size:
                parts = _Parts(b, a, dims, "unpacked", part) if by_slot else None
                receives += messages_between(order, sender, place, number[rank], first, box, parts)
    for some in sends, receives, copies:
        if len(some) > 1:
            some.sort(key=by_key)
    return Messages(sends, receives, copies)


by_key = operator.attrgetter("key")


class _Parts(NamedTuple):
    """Parts of what this rank, in layout `own`, shares with another: those that go in a step."""

    own: Descriptor
    other: Descriptor
    dims: tuple[Shared, ...]
    kind: str
    edge: Edge | None

    def box(self, slots: Sequence[Slot | None]) -> Box:
        """What is in these slots, one for each dimension; None is all."""
        own, coords = self.own, self.own.coords or ()
        axes = zip(own.distributions, self.other.distributions, self.dims, coords, slots, strict=True)
        dims = tuple(whole if slot is None else in_slot(a, b, whole, p, slot) for a, b, whole, p, slot in axes)
        return box_of(dims, self.kind, self.edge, own, coords)


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


def box_of(dims: tuple[Shared, ...], kind: str, part: Edge | None, own: Layout, coords: Coords) -> Box:
    """What two processes share, as runs of that kind; nothing is an empty box. This rank's side is `coords` of `own`."""
    runs = runs_of_all(dims, kind)
    if part is None:
        return Box(runs)
    rows, columns = map(_indices, dims, own.distributions, coords)
    return Trapezoid(runs, rows, columns, *part, DENSE[kind])


def _indices(shared: Shared, axis: Axis, p: int) -> NDArray[np.int64]:
    """Global indices of all elements that process `p` of an axis shares, ascending."""
    starts, length = shared.start_a, shared.length
    elements = int(length.sum())
    inside = np.repeat(starts - np.cumsum(length) + length, length) + np.arange(elements)
    periods = shared.period_a * np.arange(-(-shared.total // elements))
    found: NDArray[np.int64] = axis.global_index(p, (periods[:, None] + inside).ravel()[: shared.total])
    return found


Arrays = tuple[tuple[int, int], ...]
Place = tuple[int, int]
NONE = -1


class _Piece(NamedTuple):
    """What a place of A and a place of B share."""

    a: Coords
    b: Coords
    dims: tuple[Shared, ...]
    arrays: int
    box: Box


def own_places(layout: Layout) -> list[Place]:
    """The places of this rank, one for each local array, in the order of the arrays. Not collective."""
    if isinstance(layout, Tiles):
        return [(i, j) for i, j in layout.own.tolist()]
    return [] if layout.coords is None else [(layout.coords[0], layout.coords[1])]


def messages_of_tiles(
    a: Layout, b: Layout, me: int, number: dict[int, int], order: Order, part: Edge | None = None
) -> tuple[Messages, Arrays]:
    """The messages of rank `me`, parameters as in `messages_of`. Not collective.

    Returns
    -------
    Messages
        Boxes refer to pairs of arrays by number.
    tuple of (int, int)
        For each pair, the numbers of its arrays, those of B behind those of A; -1 where only the other one counts.
    """
    pairs: dict[tuple[int, int], int] = {}
    behind = len(local_shapes(a))

    def arrays(k: int, j: int) -> int:
        return pairs.setdefault((k, j), len(pairs))

    in_a, in_b = ({rank: (p,) for p, rank in enumerate(layout.ranks)} for layout in (a, b))
    here = {place: behind + j for j, place in enumerate(own_places(b))}
    sent: dict[int, list[_Piece]] = {}
    received: dict[int, list[_Piece]] = {}
    for k, mine, to, rank, dims in _shared(a, b):
        kind, pair = ("copied", arrays(k, here[to])) if rank == me else ("packed", arrays(k, NONE))
        box = box_of(dims, kind, part, a, mine)
        sent.setdefault(rank, []).append(_Piece(mine, to, dims, pair, box))
    for k, mine, come_from, rank, dims in _shared(b, a):
        if rank != me:
            box = box_of(dims, "unpacked", part, b, mine)
            received.setdefault(rank, []).append(_Piece(come_from, mine, dims, arrays(NONE, behind + k), box))
    messages = Messages([], [], [])
    for rank, pieces in sent.items():
        first, boxes = _joined(pieces)
        if rank == me and boxes.size:
            messages.copies.append(Message(number[rank], boxes, (), 0, boxes.size))
        elif boxes.size:
            messages.sends.extend(messages_between(order, in_a[me], in_b[rank], number[rank], first, boxes))
    for rank, pieces in received.items():
        first, boxes = _joined(pieces)
        if boxes.size:
            messages.receives.extend(messages_between(order, in_a[rank], in_b[me], number[rank], first, boxes))
    for some in messages:
        some.sort(key=by_key)
    return messages, tuple(pairs)


def _shared(own: Layout, other: Layout) -> Iterator[tuple[int, Place, Place, int, tuple[Shared, ...]]]:
    """Local array, place and place there, rank there and what both share, for each own place and all that it meets."""
    places = other.placement
    axes = zip(own.distributions, other.distributions, strict=True)
    rows, columns = (_by_place(x, y) for x, y in axes)
    for k, mine in enumerate(own_places(own)):
        for row, column in itertools.product(rows(mine[0]), columns(mine[1])):
            there = row.remote, column.remote
            yield k, mine, there, int(places[there]), (row, column)


def _by_place(x: Axis, y: Axis) -> Callable[[int], Sequence[Shared]]:
    """What a place of one axis shares with those of another, found once for each."""
    return functools.cache(functools.partial(by_process, x, y))


def _joined(pieces: list[_Piece]) -> tuple[Coords, Boxes]:
    """The pieces of a message as one, and the global indices of the first one's first element."""
    pieces.sort(key=lambda piece: (piece.a, piece.b))
    parts = tuple((piece.arrays, piece.box) for piece in pieces if piece.box.size)
    return tuple([shared.first for shared in pieces[0].dims]), Boxes(parts, sum(box.size for _, box in parts))
