"""From two descriptors to the messages of one rank: what it sends, receives and copies, in closed form per dimension.

The work is proportional to the rank's own index runs in one period and to the peers it has; with copies, to the receivers of
the part that it holds a copy of, and along each dimension to those of its senders (`schedules/layout_graphs.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.boxes import Box, Trapezoid
from .._kernels.products import products, runs_of_all
from ..exchanges import Boxes, Message
from ..intersections.runs import Shared, Slot, by_process, in_slot
from ..layout.axis import Axis
from ..layout.descriptor import Descriptor
from ..schedules.orders import Coords, Order
from .layouts import Layout
from .operation import Edge
from .scheduling import reading

__all__ = ["Messages", "box_of", "by_key", "messages_between", "messages_of"]


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
