"""The exchange `node-packed`: one message from node to node, for small messages of nodes with several ranks.

The ranks of a node pack into memory that they share (`_kernels.packing`). One of them sends to another node all that its ranks
send there, and receives all that comes from there; each other node has another such rank, as far as there are enough.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Generator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import Bundle
from .._kernels.packing import DONE, PACKED
from ..comm.node import AREA, Node
from .exchange import Exchange, ExchangeOptions, Progress
from .message import ByteMessage, Run
from .shared import Shared

FEWEST = 8  # messages of a rank to other nodes from which on it is faster


class NodePacked(Shared):
    """As `shared` within each node; between nodes one message for all that the ranks of a node send to those of another.

    Where that is more than `comm.node.PACKED_AREA` bytes a rank, or a node has no shared memory, `windowed` as in `shared`.
    """

    name: ClassVar[str] = "node-packed"

    def __init__(
        self,
        sends: Sequence[ByteMessage],
        receives: Sequence[ByteMessage],
        copies: Bundle,
        options: ExchangeOptions,
        node: Node | None = None,
    ) -> None:
        super().__init__(sends, receives, copies, options, node)
        self._packing = node.packing if node is not None and self.fits(options, node) else None
        if self._packing is not None:  # a rank without messages of its own sends those of others
            self.by_mpi, self._limit = True, options.memory_limit // 2

    @staticmethod
    def fits(options: ExchangeOptions, node: Node) -> bool:
        """Whether all that goes between nodes fits into the memory for it, and elements into all rings. Equal on all ranks."""
        packing, sizes, nbytes = node.packing, node.places.sizes, options.extents.between * options.item
        if packing is None or not 0 < nbytes <= min(packing.area * min(sizes), options.memory_limit // 6):
            return False
        return options.item * (max(sizes) - 1) <= AREA

    @classmethod
    def is_faster(cls, options: ExchangeOptions, node: Node) -> bool:
        """Whether it is faster than a message for each pair of ranks. Equal on all ranks."""
        sizes, extents = node.places.sizes, options.extents
        carried = math.ceil((len(sizes) - 1) / min(sizes))  # messages that a rank sends for its node
        return cls.fits(options, node) and extents.away >= max(FEWEST, 4 * carried)

    @functools.cached_property
    def between(self) -> Exchange:
        """The exchange of messages between nodes."""
        if self._packing is None:
            return super().between
        sends, receives = self._between_nodes
        copies = Bundle([], "") if self.ring is not None else self.copies
        assert self.node is not None
        return PackedMessages(sends, receives, copies, self.options, self.node)


class PackedMessages(Exchange):
    """What goes between nodes, in one message from node to node. See docs/protocol.md for the order of its steps.

    Attributes
    ----------
    packing : Packing
        The memory of the node.
    outgoing : list of (int, Bundle)
        What this rank packs, and where in its area.
    incoming : dict
        By node, what comes for this rank from there: the place of each sender, and the bundle.
    lengths : pair of int64 arrays
        The bytes to each place and from it.
    carried : list of (int, int)
        The nodes with which this rank exchanges messages for its own one, and the rank there that does.
    """

    name: ClassVar[str] = NodePacked.name
    in_turn: ClassVar[bool] = True

    def __init__(
        self,
        sends: Sequence[ByteMessage],
        receives: Sequence[ByteMessage],
        copies: Bundle,
        options: ExchangeOptions,
        node: Node,
    ) -> None:
        super().__init__(sends, receives, copies, options, node)
        assert node.packing is not None
        self.packing, places, rank = node.packing, node.places, node.rank
        sent, received = (
            {int(places.of[message.peer]): message.bundle for message in messages} for messages in (self.sends, self.receives)
        )
        self.lengths = np.zeros((2, len(places.of)), np.int64)
        for lengths, bundles in zip(self.lengths, (sent, received), strict=True):
            for place, bundle in bundles.items():
                lengths[place] = bundle.size
        ends = np.cumsum(self.lengths[0])
        self.outgoing = [(int(ends[place]) - bundle.size, bundle) for place, bundle in sent.items()]
        self.incoming: dict[int, list[tuple[int, Bundle]]] = {}
        for place, bundle in received.items():
            if bundle.size:
                self.incoming.setdefault(places.node_of(place), []).append((place, bundle))
        own = places.node_of(int(places.of[rank]))
        others = (other for other in range(len(places.sizes)) if other != own)
        self.carried = [(other, places.carrier(other, own)) for other in others if places.carrier(own, other) == rank]

    @property
    def staging_bytes(self) -> int:
        """Bytes of shared memory of one run, a rank's share: what it packs, twice, and what comes."""
        return int(2 * self.lengths[0].sum() + self.lengths[1].sum())

    @property
    def private_bytes(self) -> int:
        """No bytes of staging buffers are private to a run."""
        return 0

    def begin(self, run: Run) -> Progress:
        """Prepare a run with all its memory; nothing moves yet."""
        return PackedRun(self, run)


class PackedRun(Progress):
    """A run between nodes. Runs go one after another, so all ranks number them alike.

    A rank waits for ranks of its node, which have begun this run or will, and for the messages of ranks that wait for no more
    than that.
    """

    def __init__(self, exchange: PackedMessages, run: Run) -> None:
        super().__init__(exchange, run)
        self._memory = memoryview(exchange.packing.memory)
        self._requests: list[Any] = []
        self._story: Generator[None, bool, None] | None = None

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Pack, as soon as that may be."""
        assert isinstance(exchange, PackedMessages)
        self._copies, self._requests = exchange.copies, []
        self._story = self._moves(exchange)
        next(self._story)

    def advance(self, block: bool) -> bool:
        """Go on to the next wait, with `block` waiting a little there; True when the run is complete."""
        if self._story is not None:
            try:
                self._story.send(block)
            except StopIteration:
                self._story = None
        return self._story is None

    def _moves(self, exchange: PackedMessages) -> Generator[None, bool, None]:
        packing, run, channel, incoming = exchange.packing, self.run, self.channel, dict(exchange.incoming)
        packing.runs += 1
        number, block = packing.runs, (yield)

        # Others of the node may still read what this rank has packed before.
        while not packing.all_marked(DONE, number - 1, block):
            block = yield
        start = time.perf_counter()
        packing.write_lengths(*exchange.lengths)
        for offset, bundle in exchange.outgoing:
            bundle.move(run.origins, packing.address + offset, 0, bundle.size)
        run.add_time("packed", start)
        packing.mark(PACKED, number)
        while not packing.all_marked(PACKED, number, block):
            if not self.copy_piece():
                block = yield

        # What this rank carries for its node; sends first, as in `Windowed`.
        for node, peer in exchange.carried:
            if slot := self._slot(packing.gather(node)):
                self._requests.append(channel.send(slot, peer, run.tag))
        sends, nodes = len(self._requests), []
        for node, peer in exchange.carried:
            if slot := self._slot(packing.incoming(node)):
                self._requests.append(channel.receive(slot, peer, run.tag))
                nodes.append(node)

        # What comes for this rank.
        addresses = np.empty(len(exchange.lengths[0]), np.int64)
        packing.locate(addresses)
        left = len(self._requests)
        while left or incoming:
            has_moved = False
            if left and (done := channel.first_done(self._requests)) is not None:
                left, has_moved = left - 1, True
                if done >= sends:
                    packing.mark_arrived(nodes[done - sends], number)
            for node in tuple(incoming):
                if packing.has_arrived(node, number, block and not left):
                    self._unpack(incoming.pop(node), addresses)
                    has_moved = True
            if not has_moved and not self.copy_piece():
                block = yield
        packing.mark(DONE, number)
        self.copy_all()

    def _slot(self, place: tuple[int, int]) -> memoryview | None:
        """A part of the memory, from its offset and bytes; None if it is empty."""
        offset, nbytes = place
        return self._memory[offset : offset + nbytes] if nbytes else None

    def _unpack(self, bundles: list[tuple[int, Bundle]], addresses: NDArray[np.int64]) -> None:
        """Unpack what has come from a node."""
        start = time.perf_counter()
        for place, bundle in bundles:
            bundle.move(self.run.origins, int(addresses[place]), 0, bundle.size)
        self.run.add_time("unpacked", start)
