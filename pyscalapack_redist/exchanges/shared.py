"""Shared: ranks of one node pass chunks through a ring in memory that they share; messages to other nodes go by MPI.

Packing, unpacking and the local copy take turns in one compiled loop (`_traffic.Traffic`), chunks small enough to stay in
cache in between: main memory sees each byte read once and written once.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, ClassVar, TypedDict

from .._bundle import Bundle
from .._copy import Box
from .._traffic import Traffic
from ..node import Node
from .exchange import Exchange, Progress, Run
from .message import Message, dense_strides
from .windowed import Windowed

__all__ = ["BothWays", "Shared"]

KINDS_KEPT = 8  # traffics kept, one for each element size, strides and order of dimensions
STREAM_FROM = 64 * 2**20  # bytes that a node's ranks write from which on the cache is not for the target
WOVEN_FROM = 2**20  # the same for messages that share columns: from which on they go together
SHORTEST = 64  # bytes of such messages' runs, in the mean: shorter ones take longer to tell apart than to move
SLOTS = 4


class Shared(Exchange):
    """A ring in shared memory on each node, `windowed` between them.

    A pair goes whole, at the place of its first message in the schedule.
    """

    name: ClassVar[str] = "shared"
    in_turn: ClassVar[bool] = True
    understands: ClassVar[tuple[str, ...]] = ("packed",)

    def __init__(
        self,
        sends: Sequence[Message],
        receives: Sequence[Message],
        copies: Sequence[Message],
        memory_limit: int,
        buffers: str = "packed",
        node: Node | None = None,
    ) -> None:
        super().__init__(sends, receives, copies, memory_limit, buffers, node)
        self._node = node
        here = {} if node is None or node.ring is None else node.number
        self._here = [_pairs(some, here) for some in (self.sends, self.receives)]
        self._away = [[one for one in some if one.peer not in here] for some in (self.sends, self.receives)]
        self._limit = self.memory_limit // 2 if any(self._away) else self.memory_limit
        self._tuned: tuple[int, int] | None = None
        self._traffics: OrderedDict[Any, Traffic] = OrderedDict()

    @functools.cached_property
    def between(self) -> Windowed:
        """What goes by MPI."""
        sends, receives = self._away
        limit = self.memory_limit - self._limit if any(self._away) else self.memory_limit
        made = Windowed(sends, receives, [] if self.by_ring else self.copies, limit, self.buffers.name)
        if self._tuned is not None:
            made.tune(*self._tuned)
        return made

    def tune(self, piece: int, window: int) -> None:
        """Send at most so many pieces at a time, of so many bytes, between nodes; before the first run. Not collective."""
        self._tuned = (piece, window)

    @property
    def by_ring(self) -> bool:
        """Whether anything of this rank goes through the ring, its local copy included. Not collective."""
        return self._node is not None and self._node.ring is not None

    @property
    def by_mpi(self) -> bool:
        """Whether anything of this rank goes through MPI. Not collective."""
        return any(self._away) or not self.by_ring

    def staging_bytes(self, item: int) -> int:
        """Shared and private staging memory of one run with elements of `item` bytes. Not collective."""
        private = self.private_bytes(item)
        sends = self._here[0]
        if not sends or self._node is None or self._node.ring is None:
            return private
        wanted = sum(box.size for _, box in sends) * item
        return private + max(len(sends) * item, min(self._limit, self._node.ring.area, wanted))

    def private_bytes(self, item: int) -> int:
        """The part of it that each run takes for itself. Not collective."""
        return self.between.staging_bytes(item) if self.by_mpi else 0

    def traffic(self, run: Run) -> Traffic:
        """What goes through the ring, for arrays of this kind. Not collective."""
        assert self._node is not None
        assert self._node.ring is not None
        kind = (run.source.strides, run.target.strides, run.item, run.order, run.blend and run.blend.key)
        if kind not in self._traffics:
            while len(self._traffics) >= KINDS_KEPT:
                self._traffics.popitem(last=False)
            written = sum(box.size for box in (*(box for _, box in self._here[1]), *(one.box for one in self.copies)))
            sends, receives = (
                [(peer, bundle(run, box, dense)) for peer, box in some]
                for some, dense in zip(self._here, ("target", "source"), strict=True)
            )
            self._traffics[kind] = Traffic(
                self._node.ring,
                sends,
                receives,
                [bundle(run, one.box, "") for one in self.copies],
                limit=self._limit,
                most_slots=SLOTS,
                **ways(written * run.item * self._node.ring.size),
            )
        self._traffics.move_to_end(kind)
        return self._traffics[kind]

    def compiled(self, run: Run) -> Traffic | None:
        """What goes through the ring, if that is all that goes anywhere. Not collective."""
        whole = self._node is not None and self._node.whole
        return self.traffic(run) if whole else None

    def begin(self, run: Run) -> Progress:
        """Start both ways. Collective over the participants, as far as they have messages for one another."""
        return BothWays(self, run)


def _pairs(messages: Sequence[Message], here: dict[int, int]) -> list[tuple[int, Box]]:
    """Ring rank and box of each pair on this node, once."""
    return list({here[one.peer]: (here[one.peer], one.box) for one in reversed(messages) if one.peer in here}.values())[
        ::-1
    ]


class Ways(TypedDict):
    """How bytes are written; see `Traffic`."""

    stream: bool
    shortest: int


def ways(written: int) -> Ways:
    """For arrays of so many bytes on a node. Not collective."""
    return {"stream": written >= STREAM_FROM, "shortest": SHORTEST if written >= WOVEN_FROM else -1}


def bundle(run: Run, box: Box, dense: str) -> Bundle:
    """A box alone, of the arrays of a run. Not collective."""
    buffer = dense_strides(box.shape(), run.order, run.item)
    source, target = (
        buffer if dense == side else one.strides for side, one in (("source", run.source), ("target", run.target))
    )
    return Bundle([(0, box, source, target, run.order, run.item, None if dense == "target" else run.blend)], dense)


class BothWays(Progress):
    """A transfer through the ring and by MPI at once."""

    def __init__(self, exchange: Shared, run: Run) -> None:
        super().__init__(exchange, run)
        self._copies = []
        self._node = exchange._node
        self._traffic = exchange.traffic(run) if exchange.by_ring else None
        if self._traffic is not None:
            self._traffic.begin(run.origins, run.mark, run.spent is not None)
        self._between = exchange.between.begin(run) if exchange.by_mpi else None

    def advance(self, block: bool) -> bool:
        """Go on with both ways. Not collective."""
        while True:
            if self._traffic is not None and self._traffic.advance(block and self._between is None):
                if self.run.spent is not None:
                    for part, seconds in zip(("packed", "copied", "unpacked"), self._traffic.spent(), strict=True):
                        self.run.spent[part] += seconds
                self._traffic = None
            if self._between is not None and self._between.advance(block and self._traffic is None):
                self._between = None
            if self._traffic is None and self._between is None:
                return True
            if not block:
                return False
            if self._traffic is not None and self._node is not None:
                self._node.look_around()
