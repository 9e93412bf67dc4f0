"""When a process comes to a piece that it sends or receives: the exchanges' rules, as far as time goes.

Pieces are numbered in the order in which each process has them, steps in ascending order. `start` and `completed` give the
pieces that their senders and that their receivers come to: at first, and once some pieces are through.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Posts = tuple[Ints, Ints]
NOTHING: Ints = np.zeros(0, np.int64)


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
        keys, places = np.unique(np.concatenate([sender, receiver]) * stages + np.tile(stage, 2), return_inverse=True)
        changes = np.diff(keys // stages) != 0
        self._places = places.reshape(2, -1)  # of each piece, among the stages of all ranks
        self._left = np.bincount(places, minlength=len(keys))
        self._last = np.append(changes, True)
        self._first = np.flatnonzero(np.append(True, changes)[: len(keys)])
        self._pieces = [
            np.split(np.argsort(side, kind="stable"), np.cumsum(np.bincount(side, minlength=len(keys)))[:-1])
            for side in self._places
        ]

    def start(self) -> Posts:
        return self._of(self._first)

    def completed(self, some: Ints) -> Posts:
        touched = self._places[:, some].ravel()
        np.subtract.at(self._left, touched, 1)
        through = np.unique(touched[self._left[touched] == 0])
        return self._of(through[~self._last[through]] + 1)

    def _of(self, places: Ints) -> Posts:
        sends, receives = (np.concatenate([NOTHING, *(side[place] for place in places)]) for side in self._pieces)
        return sends, receives


class AnySource:
    """One piece sent after another, each after its sender has received so many; one receive is open, for anybody
    (`synchronized`)."""

    def __init__(self, sender: Ints, receiver: Ints, awaited: Ints) -> None:
        self._sender, self._receiver, self._awaited = sender.tolist(), receiver.tolist(), awaited.tolist()
        self._queues: dict[int, deque[int]] = {}
        for piece, rank in enumerate(self._sender):
            self._queues.setdefault(rank, deque()).append(piece)
        self._received = Counter[int]()
        self._sending, self._receiving = set[int](), set[int]()
        self._asking: list[int] = []  # pieces that are sent and not yet received

    def start(self) -> Posts:
        return self._next(sorted(self._queues))

    def completed(self, some: Ints) -> Posts:
        ranks = set()
        for piece in some.tolist():
            source, target = self._sender[piece], self._receiver[piece]
            self._sending.discard(source)
            self._receiving.discard(target)
            self._received[target] += 1
            ranks |= {source, target}
        return self._next(sorted(ranks))

    def _next(self, ranks: list[int]) -> Posts:
        sends, receives, waiting = [], [], []
        for rank in ranks:
            queue = self._queues.get(rank)
            if queue and rank not in self._sending and self._received[rank] >= self._awaited[queue[0]]:
                sends.append(queue.popleft())
                self._sending.add(rank)
        for piece in (*self._asking, *sends):
            free = self._receiver[piece] not in self._receiving
            (receives if free else waiting).append(piece)
            self._receiving.add(self._receiver[piece])
        self._asking = waiting
        return np.array(sends, np.int64), np.array(receives, np.int64)


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
