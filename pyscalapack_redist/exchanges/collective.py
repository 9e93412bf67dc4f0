"""Exchanges in rounds of all ranks of the group: ready, alltoallv, alltoallw and bruck."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import address_of
from ..comm.links import Links
from ..comm.log_steps import LONGEST, LogSteps, Rows, work_of
from ..comm.mpi import MPI
from ..comm.series import HEADER
from .exchange import Exchange, ExchangeOptions, Progress, Round, RoundExchange
from .message import Datatypes, Piece, Run, Slot, Specification, cut_slots, memory_at

NOTHING = np.zeros(2, np.uint8)  # two addresses: Open MPI treats equal send and receive buffers as MPI_IN_PLACE
Counts = tuple[tuple[list[int], list[int]], list["MPI.Datatype"]]
Side = tuple[Any, tuple[list[int], list[int]], list["MPI.Datatype"]]


class Ready(RoundExchange):
    """All receives, a barrier, and ready-mode sends (Walker & Otto, section 2.2.1, on Fig 5).

    A send in ready mode requires that its receive is posted. If the staging buffer does not hold all messages they go in
    rounds, each with a barrier. A round waits for its own receives and sends alone, all posted after its barrier: it always
    ends.
    """

    name: ClassVar[str] = "ready"

    def begin(self, run: Run) -> Progress:
        """Prepare a run with all its memory; nothing moves yet."""
        return _ReadyRounds(self, run)


class _ReadyRounds(Progress):
    def __init__(self, exchange: Ready, run: Run) -> None:
        super().__init__(exchange, run)
        self._comm = run.comm
        self._sends: list[Piece] = []
        self._receives: list[Piece] = []
        self._requests: list[Any] = []
        self._outgoing: list[Specification] = []
        self._barrier: Any = None
        self._left = 0

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Post the receives of the first round and enter its barrier. Collective over the group."""
        assert isinstance(exchange, Ready)
        self._copies = exchange.copies
        self._rounds = iter(exchange.rounds)
        self._start_round(next(self._rounds, None))

    def _start_round(self, pieces: Round | None) -> None:
        """Post the receives of the next round and enter its barrier."""
        if pieces is None:
            return
        run = self.run
        self._sends, self._receives = pieces
        self._slots = cut_slots(run.staging, [piece.nbytes for piece in (*self._receives, *self._sends)])
        self._requests = [
            self.channel.receive(self.buffers.incoming(run, piece, slot), piece.message.peer, run.tag)
            for piece, slot in zip(self._receives, self._slots, strict=False)
        ]
        self._left = len(self._receives) + len(self._sends)
        self._barrier = self._comm.Ibarrier()
        self._outgoing = [
            self.buffers.outgoing(run, piece, slot)
            for piece, slot in zip(self._sends, self._slots[len(self._receives) :], strict=True)
        ]

    def _send(self) -> None:
        """Send in ready mode, after the barrier."""
        run = self.run
        self._barrier = None
        comm = run.channel.comm  # type: ignore[attr-defined]
        self._requests += [
            comm.Irsend(buffer, piece.message.peer, run.tag)
            for buffer, piece in zip(self._outgoing, self._sends, strict=True)
        ]

    def advance(self, block: bool) -> bool:
        """Pass the barrier, send, unpack arrived pieces, and copy locally in between."""
        while self._barrier is not None or self._left:
            if self._barrier is not None:
                if not self._barrier.Test():
                    if not self.copy_piece():
                        return False
                    continue
                self._send()
            while self._left:
                number = self.channel.first_done(self._requests)
                if number is None:
                    if not self.copy_piece():
                        return False
                    continue
                if number < len(self._receives):
                    self.buffers.arrived(self.run, self._receives[number], self._slots[number])
                self._left -= 1
            self._start_round(next(self._rounds, None))
        return self.copy_all()


class Alltoallv(RoundExchange):
    """MPI_Ialltoallv of packed bytes, a collective with which Walker & Otto compare (section 3.3).

    The pieces of a round are contiguous in the staging buffer; the memory limit determines the number of rounds. MPI chooses
    the order of messages, so it follows no schedule.
    """

    name: ClassVar[str] = "alltoallv"
    scheduled: ClassVar[bool] = False
    supported_buffers: ClassVar[tuple[str, ...]] = ("packed",)

    def begin(self, run: Run) -> Progress:
        """Prepare a run with all its memory; nothing moves yet."""
        return _CollectiveRounds(self, run)

    def call(self, comm: MPI.Intracomm, send: Side, receive: Side) -> MPI.Request:
        """Start a round. Collective over the group."""
        byte = self.buffers.byte
        return comm.Ialltoallv((*send[:2], byte), (*receive[:2], byte))


class Alltoallw(Alltoallv):
    """MPI_Ialltoallw of packed bytes, or with a derived datatype for each peer (Walker & Otto, section 3.3).

    With datatypes it moves all messages in one round between the users' arrays.
    """

    name: ClassVar[str] = "alltoallw"
    supported_buffers: ClassVar[tuple[str, ...]] = ("packed", "datatypes")

    def call(self, comm: MPI.Intracomm, send: Side, receive: Side) -> MPI.Request:
        """Start a round. Collective over the group."""
        return comm.Ialltoallw(send, receive)


class _PreparedRound(NamedTuple):
    """One round without the addresses of arrays: pieces with their slots, and counts and types for all processes."""

    sends: list[tuple[Piece, Slot]]
    receives: list[tuple[Piece, Slot]]
    send_counts: Counts
    receive_counts: Counts


class _CollectiveRounds(Progress):
    def __init__(self, exchange: Alltoallv, run: Run) -> None:
        super().__init__(exchange, run)
        self._comm, self._call = run.comm, exchange.call
        self._request: Any = None
        self._prepared: list[_PreparedRound] = []
        self._prepared_for: Exchange | None = None
        self._packs = not isinstance(self.buffers, Datatypes)

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start the first round. Collective over the group."""
        assert isinstance(exchange, Alltoallv)
        self._copies = exchange.copies
        if self._prepared_for is not exchange:
            self._prepared_for, self._prepared = exchange, [self._prepare(*pieces) for pieces in exchange.rounds]
        self._rounds = iter(self._prepared)
        self._start_round()

    def _prepare(self, sends: list[Piece], receives: list[Piece]) -> _PreparedRound:
        slots = cut_slots(self.run.staging, [piece.nbytes for piece in (*receives, *sends)])
        incoming = list(zip(receives, slots, strict=False))
        outgoing = list(zip(sends, slots[len(receives) :], strict=True))
        return _PreparedRound(outgoing, incoming, self._count(False, outgoing), self._count(True, incoming))

    def _count(self, target: bool, pieces: list[tuple[Piece, Slot]]) -> Counts:
        """Counts, displacements and types for all processes, of bytes or of derived datatypes."""
        size, buffers = self._comm.size, self.buffers
        counts, displacements, types = [0] * size, [0] * size, [buffers.byte] * size
        for piece, slot in pieces:
            peer = piece.message.peer
            if isinstance(buffers, Datatypes):
                counts[peer], types[peer] = 1, buffers.datatype(piece.message, target)
            else:
                counts[peer], displacements[peer] = piece.nbytes, slot.address - pieces[0][1].address
        return (counts, displacements), types

    def _start_round(self) -> None:
        """Pack and start the next round, if any."""
        self._request = None
        self._round = following = next(self._rounds, None)
        if following is None:
            return
        if self._packs:
            for piece, slot in following.sends:
                self.buffers.outgoing(self.run, piece, slot)
        outgoing, incoming = self._memory(False, following.sends), self._memory(True, following.receives)
        self._request = self._call(
            self._comm, (outgoing, *following.send_counts), (incoming, *following.receive_counts)
        )

    def _memory(self, target: bool, pieces: list[tuple[Piece, Slot]]) -> Any:
        """The memory from which a side counts displacements."""
        start = self.buffers.origin(self.run, target, pieces[0][1]) if pieces else NOTHING.ctypes.data + target
        return memory_at(start)

    def advance(self, block: bool) -> bool:
        """Unpack complete rounds, start the next, and copy locally in between."""
        while self._round is not None:
            if not self._request.Test():
                if not self.copy_piece():
                    return False
                continue
            if self._packs:
                for piece, slot in self._round.receives:
                    self.buffers.arrived(self.run, piece, slot)
            self._start_round()
        return self.copy_all()


# Seconds of a message without its bytes: 15 took 1.9 ms on 16 hosts that shared two cores.
PEER_SECONDS = 1.5e-4
MOST_BLOCKS = 64 * 1024  # most bytes of all blocks that a rank sends


class Bruck(RoundExchange):
    """All-to-all in log2 P steps (Bruck et al., 1997), with the vote if messages are small.

    Messages go through other ranks (`comm.log_steps`): a rank sends log2 P messages instead of one to each peer,
    and every byte up to log2 P times. This is faster if the latency of a message exceeds the time of its bytes. If one round
    holds all messages they go with the vote, without messages of their own.

    Otherwise they go in rounds after the vote, with all ranks in each. The receives of a round are posted when it begins. A
    step waits for the messages of the step before alone, so the first incomplete step can always make progress.
    """

    name: ClassVar[str] = "bruck"
    scheduled: ClassVar[bool] = False
    collective: ClassVar[bool] = False
    in_turn: ClassVar[bool] = False
    supported_buffers: ClassVar[tuple[str, ...]] = ("packed",)

    @staticmethod
    def is_faster(options: ExchangeOptions, links: Links) -> bool:
        """Whether it is faster than messages to each peer, beside the vote; the same on all ranks."""
        extents, work = options.extents, work_of(options.ranks, options.radix)
        message = extents.elements * options.item
        block = message + HEADER
        if extents.partial or work.longest * block > LONGEST or work.blocks * block > MOST_BLOCKS:
            return False
        if work.steps == 1:
            return extents.messages > 0
        start = max(PEER_SECONDS, links.latency)
        return work.blocks * block / links.rate < extents.messages * (start + message / links.rate)

    @classmethod
    def largest_piece(cls, options: ExchangeOptions) -> int:
        """Most bytes of a piece, so that memory holds a block of each rank and all messages."""
        return max(0, options.memory_limit // _count_blocks(options) - 2 * HEADER)

    @functools.cached_property
    def block(self) -> int:
        """Bytes of a block: a header with the order of elements, and a piece. Equal on all ranks."""
        options = self.options
        length = max(1, min(options.extents.elements, self.largest_piece(options) // options.item))
        return -(-length * options.item // 8) * 8 + HEADER

    @functools.cached_property
    def goes_with_vote(self) -> bool:
        """Whether all messages go with the vote. Equal on all ranks."""
        return (
            self.options.with_vote
            and len(self.rounds) == 1
            and work_of(self.options.ranks, self.options.radix).longest * self.block <= LONGEST
        )

    @property
    def between_nodes(self) -> tuple[int, int]:
        """Bytes of all blocks of the ranks of a node, and the steps of all rounds after the vote."""
        options, node_size = self.options, 1 if self.node is None else self.node.size
        work, rounds = work_of(options.ranks, options.radix), len(self.rounds)
        return rounds * node_size * work.blocks * self.block, 0 if self.goes_with_vote else rounds * work.steps

    @property
    def staging_bytes(self) -> int:
        """Bytes of staging buffers of one run."""
        return _count_blocks(self.options) * self.block

    @property
    def private_bytes(self) -> int:
        """Bytes of staging buffers that are private to a run: all but those of messages."""
        return self.options.ranks * self.block

    def begin(self, run: Run) -> Progress:
        """Prepare a run with all its memory; nothing moves yet."""
        return BruckRounds(self, run)


def _count_blocks(options: ExchangeOptions) -> int:
    """The number of blocks in a rank's memory: one for each rank, and those of all messages."""
    work = work_of(options.ranks, options.radix)
    return options.ranks + work.blocks + work.messages * work.longest


class BruckRounds(Progress):
    """A run of `bruck`: rounds of blocks after the vote, or all blocks with the vote."""

    def __init__(self, exchange: Bruck, run: Run) -> None:
        super().__init__(exchange, run)
        self._prepare(exchange, run.staging)
        self._round: Round | None = None  # in flight, after the vote

    def _prepare(self, exchange: Bruck, staging: NDArray[np.uint8]) -> None:
        """Take the memory for blocks of an exchange."""
        size, block, options = self.channel.size, exchange.block, exchange.options
        self._exchange, self._rows = exchange, staging[: size * block].reshape(size, block)
        self._address = address_of(staging)
        self._steps: LogSteps | None = None
        if not exchange.goes_with_vote:
            self._steps = LogSteps(self.channel, options.radix, 0, work_of(size, options.radix).longest * block)

    def pack_for_vote(self) -> Rows | None:
        """Pack all messages if they go with the vote."""
        return None if self._steps is not None else self._pack(self._exchange.rounds[0][0])

    def _pack(self, pieces: Sequence[Piece]) -> Rows:
        start, channel = time.perf_counter(), self.channel
        lengths = [0] * channel.size
        self._rows.fill(0)  # blocks are sent in full; no stale bytes behind a shorter piece
        for piece in pieces:
            row = (piece.message.peer - channel.rank) % channel.size
            lengths[row] = HEADER + piece.nbytes
            self._rows[row, 0] = self._exchange.options.order
            piece.message.bundle.move(self.run.origins, self._address_of(row), piece.first, piece.last)
        self.run.add_time("packed", start)
        return Rows(self._rows, lengths)

    def _address_of(self, row: int) -> int:
        """The address of the elements in a row."""
        return int(self._address + row * self._exchange.block + HEADER)

    def _unpack(self, number: int, pieces: Sequence[Piece]) -> None:
        """Unpack the pieces of a round, each in the order of elements in which it was packed."""
        start, channel, order = time.perf_counter(), self.channel, self._exchange.options.order
        for k, piece in enumerate(pieces):
            row = (channel.rank - piece.message.peer) % channel.size
            packed = self._rows[row, 0]
            if packed != order:
                other = self.run.other_order()
                if not isinstance(other, Bruck) or packed != other.options.order:
                    raise RuntimeError(f"order {packed} of a message from rank {piece.message.peer} of the group")
                piece = other.rounds[number][1][k]
            piece.message.bundle.move(self.run.origins, self._address_of(row), piece.first, piece.last)
        self.run.add_time("unpacked", start)

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Unpack the messages that came with the vote, or start the first round."""
        assert isinstance(exchange, Bruck)
        if exchange.goes_with_vote:
            if self._exchange.goes_with_vote:  # otherwise it knew no dtype at the vote, and has no elements
                self._unpack(0, self._exchange.rounds[0][1])
            return
        if self._steps is None or self._exchange.block != exchange.block:
            self._prepare(exchange, np.empty(exchange.private_bytes, np.uint8))
        self._exchange, self._copies = exchange, exchange.copies
        self._rounds, self._number = iter(exchange.rounds), -1
        self._start_round()

    def _start_round(self) -> None:
        """Pack and start the next round, if any."""
        self._round = following = next(self._rounds, None)
        if following is not None:
            assert self._steps is not None
            self._number += 1
            self._steps.start(self._pack(following[0]), self.run.tag)

    def advance(self, block: bool) -> bool:
        """Complete the rounds, and copy locally in between."""
        while self._round is not None:
            assert self._steps is not None
            if not self._steps.advance():
                if not self.copy_piece():
                    return False
                continue
            self._unpack(self._number, self._round[1])
            self._start_round()
        return self.copy_all()
