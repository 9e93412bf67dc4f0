"""Shared: ranks of one node pass chunks through a ring in memory that they share; messages to other nodes go by MPI.

Packing, unpacking and the local copy take turns in one compiled loop (`_kernels.transport.Traffic`), chunks small enough to
stay in cache in between: main memory sees each byte read once and written once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import ClassVar, cast

from .._kernels.bundle import Bundle
from .._kernels.ring import Ring
from .._kernels.transport import Traffic
from ..comm.node import Node
from .exchange import Exchange, Options, Progress, prepare, stores_for
from .message import ByteMessage, Run
from .pipeline import Windowed

INTERLEAVED_FROM = (
    2**20
)  # bytes that the ranks of a node write, from which on messages that share columns are interleaved
SHORTEST = 40  # bytes of such messages' runs, in the mean: shorter ones take longer to tell apart than to move
SLOTS = 4

Pairs = list[tuple[int, Bundle]]


class Shared(Exchange):
    """A ring in shared memory on each node, `windowed` between them.

    A pair goes whole, at the place of its first message in the schedule. Elements too large for a rank's share of its area go
    by MPI.
    """

    name: ClassVar[str] = "shared"
    in_turn: ClassVar[bool] = True
    supported_buffers: ClassVar[tuple[str, ...]] = ("packed",)

    def __init__(
        self,
        sends: Sequence[ByteMessage],
        receives: Sequence[ByteMessage],
        copies: Bundle,
        options: Options,
        node: Node | None = None,
    ) -> None:
        super().__init__(sends, receives, copies, options, node)
        self.ring = None if node is None else node.ring
        if self.ring is not None and not _fits(self.ring, options.item):
            self.ring = None
        here = {} if node is None or self.ring is None else node.number
        sent, received = _parted(self.sends, here), _parted(self.receives, here)
        self._here, self._away = (sent[0], received[0]), (sent[1], received[1])
        by_mpi = any(self._away)
        self.by_mpi = by_mpi or self.ring is None  # whether this rank uses MPI
        self._limit = options.memory_limit // 2 if by_mpi else options.memory_limit
        self._least = _least(self._here[0])

    @functools.cached_property
    def between(self) -> Windowed:
        """What goes by MPI."""
        sends, receives = self._away
        copies = Bundle([], "") if self.ring is not None else self.copies
        limit = self.options.memory_limit
        options = self.options._replace(memory_limit=limit - self._limit if any(self._away) else limit)
        return Windowed(sends, receives, copies, options, self.node)

    @property
    def sends_early(self) -> bool:
        """Whether messages between nodes go before the vote is known. Not collective."""
        return self.by_mpi and self.between.sends_early

    @property
    def staging_bytes(self) -> int:
        """Shared and private staging memory of one run. Not collective."""
        if self.ring is None or not self._here[0]:
            return self.private_bytes
        wanted = sum(bundle.size for _, bundle in self._here[0])
        return self.private_bytes + max(self._least, min(self._limit, self.ring.area, wanted))

    @property
    def private_bytes(self) -> int:
        """The part of it that each run takes for itself. Not collective."""
        return self.between.staging_bytes if self.by_mpi else 0

    @functools.cached_property
    def traffic(self) -> Traffic | None:
        """What goes through the ring, where there is one."""
        if self.ring is None:
            return None
        limit = max(self._limit, self._least)  # as `staging_bytes` counts it
        return _traffic(self.ring, self._here[0], self._here[1], self.copies, limit)

    @classmethod
    def make_traffic(
        cls, sends: Pairs, receives: Pairs, copies: Bundle, item: int, limit: int, node: Node
    ) -> Traffic | None:
        """All of a run, where it goes through the ring: what `compiled` gives, before there is an exchange. Not collective.

        Parameters
        ----------
        sends, receives : list of (int, Bundle)
            For each other rank of the group, in the order of the messages, what goes to it or comes from it.
        copies, node
            As for an exchange.
        item, limit : int
            Bytes of an element, and the memory limit.
        """
        prepare()
        ring, here = node.ring if node.whole else None, node.number
        if ring is None or not _fits(ring, item) or _least(sends) > limit:
            return None
        outgoing = [(here[peer], bundle) for peer, bundle in sends]
        incoming = [(here[peer], bundle) for peer, bundle in receives]
        return _traffic(ring, outgoing, incoming, copies, limit)

    def compiled(self) -> Traffic | None:
        """What goes through the ring, if that is all that goes anywhere. Not collective."""
        return self.traffic if self.node is not None and self.node.whole else None

    def begin(self, run: Run) -> RingAndMPI:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""
        return RingAndMPI(self, run)


def _parted(
    messages: Sequence[ByteMessage], here: dict[int, int]
) -> tuple[list[tuple[int, Bundle]], list[ByteMessage]]:
    """Ring rank and bundle of each pair on this node, once; and the messages of other nodes."""
    pairs: dict[int, Bundle] = {}
    away = []
    for message in messages:
        place = here.get(message.peer)
        if place is None:
            away.append(message)
        else:
            pairs.setdefault(place, message.bundle)
    return list(pairs.items()), away


def _fits(ring: Ring, item: int) -> bool:
    """Whether the area of a rank has room for an element for each other rank."""
    return item <= ring.area // max(1, ring.size - 1)


def _least(sends: Pairs) -> int:
    """Bytes of the area for an element of each message."""
    return len(sends) * max([bundle.largest_element for _, bundle in sends]) if sends else 0


def _traffic(ring: Ring, sends: Pairs, receives: Pairs, copies: Bundle, limit: int) -> Traffic:
    stores = stores_for([bundle for _, bundle in receives], copies, ring.size)
    return Traffic(
        ring,
        sends,
        receives,
        [copies] if copies.size else [],
        limit=limit,
        most_slots=SLOTS,
        stores=stores,
        shortest=SHORTEST if stores.nbytes * ring.size >= INTERLEAVED_FROM else -1,
    )


class RingAndMPI(Progress):
    """A run through the ring and by MPI at once."""

    def __init__(self, exchange: Shared, run: Run, begun: Traffic | None = None) -> None:
        super().__init__(exchange, run)
        self._traffic = exchange.traffic
        self._begun = begun  # a compiled call has packed for it already
        self._between = None
        if exchange.by_mpi:
            between = dataclasses.replace(run, other_order=lambda: cast(Shared, run.other_order()).between)
            self._between = exchange.between.begin(between)

    def send_early(self) -> None:
        """Send what may go before the vote is known. Not collective."""
        if self._between is not None:
            self._between.send_early()

    def withdraw(self) -> tuple[int, ...]:
        """The vote was not good: the ranks to which something has been sent. Not collective."""
        if self._begun is not None:
            self._begun.take_back_all()
            self._begun = None
        return () if self._between is None else self._between.withdraw()

    def is_sent(self) -> bool:
        """Whether MPI has done with what was sent before the vote, which was not good. Not collective."""
        return self._between is None or self._between.is_sent()

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start both ways. Not collective."""
        assert isinstance(exchange, Shared)
        self._traffic = exchange.traffic
        if self._traffic is not None:
            if mark or self._begun not in (None, self._traffic):
                self.withdraw()
            if self._begun is None:
                self._traffic.begin(self.run.origins, mark, self.run.spent is not None)
        if self._between is not None:
            self._between.start(exchange.between, mark)

    def advance(self, block: bool) -> bool:
        """Go on with both ways. Not collective."""
        if self._traffic is not None and self._traffic.advance(block and self._between is None):
            if self.run.spent is not None:
                for part, seconds in zip(("packed", "copied", "unpacked"), self._traffic.spent(), strict=True):
                    self.run.spent[part] += seconds
            self._traffic = None
        if self._between is not None and self._between.advance(block and self._traffic is None):
            self._between = None
        return self._traffic is None and self._between is None
