"""When a process comes to a piece that it sends or receives: the exchanges' rules, as far as time goes.

Pieces are numbered in the order in which each process has them, steps in ascending order. `start` and `completed` give the
pieces that their senders and that their receivers come to: at first, and once some pieces are through.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["AnySource", "Ints", "Rule", "Stages", "Window"]

Ints = NDArray[np.int64]
Posts = tuple[Ints, Ints]


class Rule(Protocol):
    """Which pieces senders and receivers come to."""

    def start(self) -> Posts: ...

    def completed(self, some: Ints) -> Posts: ...


class Window:
    """So many pieces in flight each way, and the next when one is through (`nonblocking`, `windowed`).

    With `each`, at most so many of one `message`, whose pieces are one behind the other; messages in their order.
    """

    def __init__(
        self,
        sender: Ints,
        receiver: Ints,
        window: int,
        posted_receives: int | None = None,
        message: Ints | None = None,
        each: int | None = None,
    ) -> None:
        message = np.arange(len(sender)) if each is None or message is None else message
        first = np.flatnonzero(np.append(True, np.diff(message) != 0)[: len(message)])
        ends = np.append(first, len(message))[1:]
        windows = (window, posted_receives or window)
        self._sides = [
            _Slots(ranks, first, ends, slots, each or slots)
            for ranks, slots in zip((sender, receiver), windows, strict=True)
        ]

    def start(self) -> Posts:
        sends, receives = (side.start() for side in self._sides)
        return sends, receives

    def completed(self, some: Ints) -> Posts:
        sends, receives = (side.after(some) for side in self._sides)
        return sends, receives


class Stages:
    """Lock step: all of the next stage when all of the last one is through, both ways (`sendrecv`)."""

    def __init__(self, sender: Ints, receiver: Ints, stage: Ints) -> None:
        stages = 1 + int(stage.max(initial=0))
        ranks, both = np.concatenate([sender, receiver]), np.concatenate([stage, stage])
        keys, place = np.unique(ranks * stages + both, return_inverse=True)
        changes = np.diff(keys // stages) != 0
        self._places = place.reshape(2, -1).astype(np.int64)
        self._left = np.bincount(place, minlength=len(keys))
        self._last = np.append(changes, True)
        self._first = np.flatnonzero(np.append(True, changes)[: len(keys)])
        self._queues = tuple(_Queue(side) for side in self._places)

    def start(self) -> Posts:
        return self._of(self._first)

    def completed(self, some: Ints) -> Posts:
        touched = self._places[:, some].ravel()
        np.subtract.at(self._left, touched, 1)
        through = np.unique(touched[self._left[touched] == 0])
        return self._of(through[~self._last[through]] + 1)

    def _of(self, places: Ints) -> Posts:
        sends, receives = (queue.all_of(places) for queue in self._queues)
        return sends, receives


class AnySource:
    """One piece sent after another, each after its sender has received so many; one receive is open, for anybody
    (`synchronized`)."""

    def __init__(self, sender: Ints, receiver: Ints, awaited: Ints) -> None:
        ranks = 1 + int(max(sender.max(initial=0), receiver.max(initial=0)))
        self._sender, self._receiver, self._awaited = sender, receiver, awaited
        self._queue = _Queue(sender, ranks)
        self._sending, self._receiving = np.zeros(ranks, bool), np.zeros(ranks, bool)
        self._received = np.zeros(ranks, np.int64)
        self._asking = np.zeros(0, np.int64)  # sent to a process whose receive is taken

    def start(self) -> Posts:
        return self._next(np.unique(self._sender))

    def completed(self, some: Ints) -> Posts:
        self._sending[self._sender[some]] = False
        self._receiving[self._receiver[some]] = False
        np.add.at(self._received, self._receiver[some], 1)
        return self._next(np.unique(np.concatenate([self._sender[some], self._receiver[some]])))

    def _next(self, ranks: Ints) -> Posts:
        head = self._queue.heads(ranks)
        able = (head >= 0) & ~self._sending[ranks]
        able[able] = self._received[ranks[able]] >= self._awaited[head[able]]
        sends = self._queue.take(ranks[able])
        self._sending[ranks[able]] = True
        self._asking = np.concatenate([self._asking, sends])
        free = np.flatnonzero(~self._receiving[self._receiver[self._asking]])
        _, at = np.unique(self._receiver[self._asking[free]], return_index=True)
        receives = self._asking[free[at]]
        self._asking = np.delete(self._asking, free[at])
        self._receiving[self._receiver[receives]] = True
        return sends, receives


class _Slots:
    """Pieces of messages by rank, with so many slots for each, of which `each` go through one message after another."""

    def __init__(self, ranks: Ints, first: Ints, ends: Ints, slots: int, each: int) -> None:
        self._ranges = list(zip(first.tolist(), ends.tolist(), strict=True))
        self._waiting: dict[int, deque[int]] = {}
        for number, rank in enumerate(ranks[first].tolist()):
            self._waiting.setdefault(rank, deque()).append(number)
        self._next = {rank: [(0, 0)] * -(-slots // each) for rank in self._waiting}  # the next piece, and the end
        self._queue = np.zeros(len(ranks), np.int64)  # of each piece that has been taken
        self._rank, self._slots, self._each = ranks, slots, each

    def start(self) -> Ints:
        return self._pieces((rank, slot // self._each) for rank in self._next for slot in range(self._slots))

    def after(self, some: Ints) -> Ints:
        return self._pieces(zip(self._rank[some].tolist(), self._queue[some].tolist(), strict=True))

    def _pieces(self, queues: Iterable[tuple[int, int]]) -> Ints:
        """The next piece of each queue, where there is one."""
        found = []
        for rank, queue in queues:
            piece, end = self._next[rank][queue]
            if piece == end:
                if not self._waiting[rank]:
                    continue
                piece, end = self._ranges[self._waiting[rank].popleft()]
            self._next[rank][queue] = piece + 1, end
            self._queue[piece] = queue
            found.append(piece)
        return np.array(found, np.int64)


class _Queue:
    """Pieces by owner, in their order."""

    def __init__(self, owner: Ints, owners: int = 0) -> None:
        self._pieces = np.argsort(owner, kind="stable")
        counts = np.bincount(owner, minlength=max(owners, 1 + int(owner.max(initial=-1))))
        self._end = np.cumsum(counts)
        self._next = self._end - counts

    def take(self, owners: Ints) -> Ints:
        """One for each time that an owner is named."""
        return self._take_next(*np.unique(owners, return_counts=True))

    def all_of(self, owners: Ints) -> Ints:
        """All of some owners."""
        some = owners[owners < len(self._end)]
        return self._take_next(some, self._end[some] - self._next[some])

    def heads(self, owners: Ints) -> Ints:
        """The next of each owner; -1 where there is none."""
        some = np.minimum(self._next[owners], max(0, len(self._pieces) - 1))
        return np.where(self._next[owners] < self._end[owners], self._pieces[some], -1)

    def _take_next(self, owners: Ints, count: Ints) -> Ints:
        count = np.minimum(count, self._end[owners] - self._next[owners])
        first = self._next[owners]
        self._next[owners] += count
        inside = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        pieces: Ints = self._pieces[np.repeat(first, count) + inside]
        return pieces
