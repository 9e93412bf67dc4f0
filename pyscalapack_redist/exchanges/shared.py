"""The exchange `shared`: chunks through a ring in shared memory within a node, MPI between nodes.

One compiled loop (`_kernels.transport.Traffic`) alternates packing, unpacking and the local copy. Chunks stay in cache in
between, so main memory sees each byte read once and written once.
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
from .exchange import Exchange, ExchangeOptions, Progress, prepare, stores_for
from .message import ByteMessage, Run
from .pipeline import Windowed

INTERLEAVED_FROM = 2**20  # bytes that the ranks of a node write; with fewer, messages are not interleaved
SHORTEST = 40  # mean bytes of a run; messages of shorter runs are not interleaved
SLOTS = 4

Pairs = list[tuple[int, Bundle]]


class Shared(Exchange):
    """A ring in shared memory within each node, `windowed` between nodes.

    All messages for a peer go together, at the place of the first in the schedule. Elements too large for the ring go by MPI.
    """

    name: ClassVar[str] = "shared"
    in_turn: ClassVar[bool] = True
    supported_buffers: ClassVar[tuple[str, ...]] = ("packed",)

    def __init__(
        self,
        sends: Sequence[ByteMessage],
        receives: Sequence[ByteMessage],
        copies: Bundle,
        options: ExchangeOptions,
        node: Node | None = None,
    ) -> None:
        super().__init__(sends, receives, copies, options, node)
        self.ring = None if node is None else node.ring
        if self.ring is not None and not _fits(self.ring, options.item):
            self.ring = None
        number = {} if node is None or self.ring is None else node.number
        sends_on_node, sends_between = _split(self.sends, number)
        receives_on_node, receives_between = _split(self.receives, number)
        self._on_node, self._between_nodes = (sends_on_node, receives_on_node), (sends_between, receives_between)
        by_mpi = any(self._between_nodes)
        self.by_mpi = by_mpi or self.ring is None  # whether this rank uses MPI
        self._limit = options.memory_limit // 2 if by_mpi else options.memory_limit
        self._least = _least(self._on_node[0])

    @functools.cached_property
    def between(self) -> Exchange:
        """The exchange of messages by MPI."""
        sends, receives = self._between_nodes
        copies = Bundle([], "") if self.ring is not None else self.copies
        limit = self.options.memory_limit
        options = self.options._replace(memory_limit=limit - self._limit if any(self._between_nodes) else limit)
        return Windowed(sends, receives, copies, options, self.node)

    @property
    def sends_early(self) -> bool:
        """Whether messages between nodes are sent before the vote is counted."""
        return self.by_mpi and self.between.sends_early

    @property
    def staging_bytes(self) -> int:
        """Bytes of staging buffers of one run, shared and private."""
        between = self.between.staging_bytes if self.by_mpi else 0
        if self.ring is None or not self._on_node[0]:
            return between
        nbytes = sum(bundle.size for _, bundle in self._on_node[0])
        return between + max(self._least, min(self._limit, self.ring.area, nbytes))

    @property
    def private_bytes(self) -> int:
        """Bytes of staging buffers that are private to a run."""
        return self.between.private_bytes if self.by_mpi else 0

    @functools.cached_property
    def traffic(self) -> Traffic | None:
        """The traffic through the ring, or None without a ring."""
        if self.ring is None:
            return None
        limit = max(self._limit, self._least)  # as in `staging_bytes`
        return _traffic(self.ring, self._on_node[0], self._on_node[1], self.copies, limit)

    @classmethod
    def make_traffic(
        cls, sends: Pairs, receives: Pairs, copies: Bundle, item: int, limit: int, node: Node
    ) -> Traffic | None:
        """Make the traffic of `compiled` without an exchange; None unless everything goes through the ring.

        Parameters
        ----------
        sends, receives : list of (int, Bundle)
            For each peer, in the order of messages, its rank in the group and the bundle.
        copies, node
            As for an exchange.
        item, limit : int
            Bytes of an element, and the memory limit.
        """
        prepare()
        ring, number = node.ring if node.whole else None, node.number
        if ring is None or not _fits(ring, item) or _least(sends) > limit:
            return None
        outgoing = [(number[peer], bundle) for peer, bundle in sends]
        incoming = [(number[peer], bundle) for peer, bundle in receives]
        return _traffic(ring, outgoing, incoming, copies, limit)

    def compiled(self) -> Traffic | None:
        """The traffic through the ring, if the ring holds all ranks of the group."""
        return self.traffic if self.node is not None and self.node.whole else None

    def begin(self, run: Run) -> RingAndMPI:
        """Prepare a run with all its memory; nothing moves yet."""
        return RingAndMPI(self, run)


def _split(
    messages: Sequence[ByteMessage], number: dict[int, int]
) -> tuple[list[tuple[int, Bundle]], list[ByteMessage]]:
    """The rank in the ring and the bundle of each peer on this node; and the messages of other nodes."""
    pairs: dict[int, Bundle] = {}
    between_nodes = []
    for message in messages:
        ring_rank = number.get(message.peer)
        if ring_rank is None:
            between_nodes.append(message)
        else:
            pairs.setdefault(ring_rank, message.bundle)
    return list(pairs.items()), between_nodes


def _fits(ring: Ring, item: int) -> bool:
    """Whether a rank's area has room for an element for each other rank."""
    return item <= ring.area // max(1, ring.size - 1)


def _least(sends: Pairs) -> int:
    """Bytes of one element of each message."""
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
    """A run through the ring and by MPI together."""

    def __init__(self, exchange: Shared, run: Run, begun: Traffic | None = None) -> None:
        super().__init__(exchange, run)
        self._traffic = exchange.traffic
        self._begun = begun  # the traffic in which a compiled call has packed already
        self._between = self._by_mpi = None  # the second one also when it is complete
        if exchange.by_mpi:
            between = dataclasses.replace(run, other_order=lambda: cast(Shared, run.other_order()).between)
            self._between = self._by_mpi = exchange.between.begin(between)

    def renew(self) -> None:
        """Prepare the next run, after the last is complete."""
        super().renew()
        self._between = self._by_mpi
        if self._between is not None:
            run, own = self._between.run, self.run
            run.tag, run.origins, run.addresses, run.spent = own.tag, own.origins, own.addresses, own.spent
            self._between.renew()

    def send_early(self) -> None:
        """Send the messages that need not wait for the vote."""
        if self._between is not None:
            self._between.send_early()

    def withdraw(self) -> tuple[int, ...]:
        """Withdraw after a failed vote; return the ranks to which messages were sent."""
        if self._begun is not None:
            self._begun.withdraw()
            self._begun = None
        return () if self._between is None else self._between.withdraw()

    def is_sent(self) -> bool:
        """Whether the sends before a failed vote are complete."""
        return self._between is None or self._between.is_sent()

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start both."""
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
        """Make progress on both."""
        if self._traffic is not None and self._traffic.advance(block and self._between is None):
            if self.run.spent is not None:
                for part, seconds in zip(("packed", "copied", "unpacked"), self._traffic.spent(), strict=True):
                    self.run.spent[part] += seconds
            self._traffic = None
        if self._between is not None and self._between.advance(block and self._traffic is None):
            self._between = None
        return self._traffic is None and self._between is None
