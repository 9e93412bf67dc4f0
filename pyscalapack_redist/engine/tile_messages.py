"""The messages of one rank where a layout is of tiles, so that a rank may have several local arrays.

All that two ranks share is one message. It has a box for each tile and for each place of the other layout, in the order of
the places of A and then of those of B, which both ranks know.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .._kernels.boxes import Box
from ..exchanges import Boxes, Message
from ..intersections.runs import Shared, by_process
from ..layout.axis import Axis
from ..layout.tiles import Tiles
from ..schedules.orders import Coords, Order
from .layouts import Layout, local_shapes
from .operation import Edge
from .planner import Messages, box_of, by_key, messages_between

__all__ = ["Arrays", "messages_of_tiles", "own_places"]

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
