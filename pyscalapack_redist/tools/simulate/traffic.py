"""What goes between the ranks of a redistribution, and in which step: all ranks' messages, from the engine's own orders.

Lengths come from the communication grids, steps from the orders by which the engine's ranks sort (`orders`, `scheduling`);
what a rank owes itself is a copy and no message.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...engine.scheduling import order_for, schedules_for
from ...errors import ScheduleError
from ...layout.descriptor import Descriptor
from ...schedules import ListedSchedule, MessageGraph, between
from ...schedules.orders import ORDERS, Coords, Order, Scheduled, Share
from ..cases import Case
from .rules import Ints

__all__ = ["MOST_MESSAGES", "Messages", "messages_of", "volumes"]

MOST_MESSAGES = 5 * 10**6


@dataclass(frozen=True)
class Messages:
    """Messages between ranks, in the global order of the engine: by step, sender and receiver.

    Attributes
    ----------
    sender, receiver : ndarray of int64
        Ranks.
    size : ndarray of int64
        Elements.
    step : ndarray of int64
        Place of its key among those of all messages.
    """

    sender: Ints
    receiver: Ints
    size: Ints
    step: Ints

    @property
    def count(self) -> int:
        """Their number."""
        return len(self.sender)


class _Row(NamedTuple):
    """What one process coordinate of an axis sends: to whom, how much, and the first element of each."""

    peers: list[int]
    lengths: list[int]
    first: list[int]


def messages_of(case: Case, schedule: str) -> Messages:
    """All messages of a redistribution. Not collective.

    Parameters
    ----------
    case : Case
        Array and layouts.
    schedule : str
        The name of a schedule.

    Raises
    ------
    ScheduleError
        The schedule does not apply, or there are too many messages.
    """
    a, b = (layout.descriptor(case.shape, None) for layout in (case.before, case.after))
    axes = [between(x, y) for x, y in zip(a.distributions, b.distributions, strict=True)]
    rows = [functools.cache(_row_reader(axis, schedule == "natural")) for axis in axes]
    count = _count(rows, a)
    if count > MOST_MESSAGES:
        raise ScheduleError(
            f"{case}: {count:,} messages; at most {MOST_MESSAGES:,} are simulated: take larger blocks, fewer processes or more "
            "grid dimensions"
        )
    order_of = _orders(schedule, a, b)
    found: list[tuple[int, ...]] = []
    keys: list[tuple[int, ...]] = []
    places = b.placement
    for sender in np.ndindex(*a.placement.shape):
        rank = int(a.placement[sender])
        order = order_of(sender)
        for receiver, size, first in _owed([row(p) for row, p in zip(rows, sender, strict=True)]):
            peer = int(places[receiver])
            if peer == rank:
                continue
            for share, part in _parts(order.shares(sender, receiver, first), size):
                found.append((rank, peer, part))
                keys.append(share.key)
    return _sorted(found, keys)


def volumes(messages: Messages, slots: int, hosts: int) -> tuple[Ints, Ints]:
    """Elements that each host sends to others, and receives from others. Not collective."""
    source, target = messages.sender // slots, messages.receiver // slots
    away = source != target
    out, into = (
        np.bincount(side[away], messages.size[away], minlength=hosts).astype(np.int64) for side in (source, target)
    )
    return out, into


class _Indexed(ListedSchedule):
    """A listed schedule that finds what one process sends without going through all of it: here everyone asks."""

    def __init__(self, schedule: ListedSchedule) -> None:
        super().__init__(schedule.name, schedule.grid, schedule.steps, one_port=schedule.one_port)
        entries = self._entries()
        self._by_sender = entries[np.argsort(entries[:, 1], kind="stable")]
        self._ends = np.searchsorted(self._by_sender[:, 1], np.arange(self.grid.P + 1))

    def of_sender(self, p: int) -> Ints:
        """Rows step, receiver, length of what `p` sends, in ascending order of steps. Not collective."""
        rows: Ints = self._by_sender[self._ends[p] : self._ends[p + 1]][:, [0, 2, 3]]
        return rows


def _row_reader(axis: MessageGraph, with_first: bool) -> Callable[[int], _Row]:
    def read(p: int) -> _Row:
        peers, lengths = axis.sent_by(p)
        first = axis.first_elements(np.array([p]))[0, peers] if with_first else np.zeros_like(peers)
        return _Row(peers.tolist(), lengths.tolist(), first.tolist())

    return read


def _count(rows: Sequence[Callable[[int], _Row]], a: Descriptor) -> int:
    """Messages, those of ranks to themselves included."""
    return math.prod(
        sum(len(row(p).peers) for p in range(processes)) for row, processes in zip(rows, a.placement.shape, strict=True)
    )


def _orders(name: str, a: Descriptor, b: Descriptor) -> Callable[[Coords], Order]:
    """The order as each sender makes it for itself."""
    shapes = a.placement.shape, b.placement.shape
    parts = [
        _Indexed(schedule) if isinstance(schedule, ListedSchedule) else schedule
        for schedule in ([] if name in ORDERS else schedules_for(name, a, b))
    ]
    if not parts:
        order = order_for(name, a, b)
        return lambda _: order
    return lambda sender: Scheduled(*shapes, parts, sender, None)


def _owed(rows: list[_Row]) -> Iterator[tuple[Coords, int, Coords]]:
    """Receivers of one sender, elements, and the first one's global index."""
    for dims in itertools.product(*(zip(*row, strict=True) for row in rows)):
        peers, lengths, first = zip(*dims, strict=True)
        yield peers, math.prod(lengths), first


def _parts(shares: list[Share], size: int) -> Iterator[tuple[Share, int]]:
    """Elements of each share, as the engine cuts a message by the shares' weights."""
    if len(shares) == 1:
        yield shares[0], size
        return
    weight, done, first = sum(share.weight for share in shares), 0, 0
    for share in sorted(shares):
        done += share.weight
        last = size * done // weight
        if last > first:
            yield share, last - first
        first = last


def _sorted(found: list[tuple[int, ...]], keys: list[tuple[int, ...]]) -> Messages:
    if not found:
        nothing = np.zeros(0, np.int64)
        return Messages(nothing, nothing, nothing, nothing)
    table, key = np.array(found, np.int64), np.array(keys, np.int64)
    order = np.lexsort((table[:, 1], table[:, 0], *key.T[::-1]))
    table, key = table[order], key[order]
    step = np.concatenate([[0], np.cumsum((key[1:] != key[:-1]).any(axis=1))])
    return Messages(table[:, 0], table[:, 1], table[:, 2], step)
