"""From two descriptors to the messages of one rank: what it sends, receives and copies, in closed form per dimension.

The work is proportional to the rank's own index runs in one period and to the peers it has.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._copy import Box, Runs, Trapezoid
from .blockcyclic import BlockCyclic
from .descriptor import Descriptor
from .exchanges import Message
from .intersections.by_process import by_process
from .operation import Edge
from .orders import Coords, Order

__all__ = ["Messages", "messages_of"]


class Messages(NamedTuple):
    """What one rank sends, receives, and copies from its own A to its own B."""

    sends: list[Message]
    receives: list[Message]
    copies: list[Message]


@dataclass(frozen=True)
class _Shared:
    """What a process shares with one process coordinate of the other axis, along one dimension."""

    remote: int
    own: NDArray[np.int64]
    other: NDArray[np.int64]
    length: NDArray[np.int64]
    period_own: int
    period_other: int
    total: int
    axis: BlockCyclic
    process: int

    @functools.cached_property
    def first(self) -> int:
        """Global index of the first element."""
        return self.axis.global_index(self.process, int(self.own[0]))

    @functools.cached_property
    def indices(self) -> NDArray[np.int64]:
        """Global indices of all elements, ascending."""
        elements = int(self.length.sum())
        one = np.repeat(self.own - self._dense(), self.length) + np.arange(elements)
        periods = self.period_own * np.arange(-(-self.total // elements))
        return self.axis.global_index(self.process, (periods[:, None] + one).ravel()[: self.total])

    @functools.cached_property
    def packed(self) -> Runs:
        """From the own local array to a dense buffer."""
        return Runs(self.own, self._dense(), self.length, self.period_own, int(self.length.sum()), self.total)

    @functools.cached_property
    def unpacked(self) -> Runs:
        """From a dense buffer to the own local array."""
        return Runs(self._dense(), self.own, self.length, int(self.length.sum()), self.period_own, self.total)

    @functools.cached_property
    def copied(self) -> Runs:
        """From the own local array to the other one."""
        return Runs(self.own, self.other, self.length, self.period_own, self.period_other, self.total)

    def _dense(self) -> NDArray[np.int64]:
        return np.cumsum(self.length) - self.length


DENSE = {"packed": "target", "unpacked": "source", "copied": ""}


def messages_of(
    a: Descriptor, b: Descriptor, me: int, number: dict[int, int], order: Order, part: Edge | None = None
) -> Messages:
    """The messages of rank `me`, sorted by the keys of `order`. Not collective.

    Parameters
    ----------
    a, b : Descriptor
        Layouts before and after, on one communicator.
    me : int
        This rank in that communicator.
    number : dict
        Rank in the participants' communicator for each rank of theirs.
    order : Order
        The schedule's order.
    part : (bool, int), optional
        Of a matrix, only elements (i, j) of j - i at least (True) or at most (False) that number.
    """
    places_a, places_b = a.placement, b.placement
    sends: list[Message] = []
    receives: list[Message] = []
    copies: list[Message] = []
    if a.coords is not None:
        for to, dims in _peers(a, b, a.coords):
            rank = int(places_b[to])
            if rank == me:
                box = _box(dims, "copied", part)
                if box.size:
                    copies.append(Message(number[rank], box, (), 0, box.size))
            else:
                sends += _messages(order, a.coords, to, number[rank], dims, _box(dims, "packed", part))
    if b.coords is not None:
        for come_from, dims in _peers(b, a, b.coords):
            rank = int(places_a[come_from])
            if rank != me:
                receives += _messages(order, come_from, b.coords, number[rank], dims, _box(dims, "unpacked", part))
    return Messages(*(sorted(some, key=lambda message: message.key) for some in (sends, receives, copies)))


def _messages(
    order: Order,
    sender: Coords,
    receiver: Coords,
    peer: int,
    dims: tuple[_Shared, ...],
    box: Box,
) -> Iterator[Message]:
    """What two processes owe each other: one message, or one for each step in which the schedule has the pair."""
    shares = order.shares(sender, receiver, tuple(one.first for one in dims))
    weight, done, first = sum(one.weight for one in shares), 0, 0
    for share in sorted(shares):
        done += share.weight
        last = box.size * done // weight
        if last > first:
            yield Message(peer, box, share.key, first, last)
        first = last


def _box(dims: tuple[_Shared, ...], kind: str, part: Edge | None) -> Box:
    """What two processes share, as runs of that kind; nothing is an empty box."""
    runs = [getattr(one, kind) for one in dims]
    if part is None:
        return Box(runs)
    rows, columns = (one.indices for one in dims)
    return Trapezoid(runs, rows, columns, *part, DENSE[kind])


def _peers(
    own: Descriptor, other: Descriptor, coords: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[_Shared, ...]]]:
    """Coordinates of each process of `other` that shares anything with the one at `coords`, and what they share."""
    axes = [list(_shared(x, y, p)) for x, y, p in zip(own.distributions, other.distributions, coords, strict=True)]
    for dims in itertools.product(*axes):
        yield tuple(one.remote for one in dims), dims


def _shared(own: BlockCyclic, other: BlockCyclic, p: int) -> Iterator[_Shared]:
    for one in by_process(own, other, p):
        yield _Shared(*one, axis=own, process=p)
