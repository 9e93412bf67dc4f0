"""Exchanges in rounds, in which all ranks of the group take part: ready, alltoallv, alltoallw and bruck."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import address_of
from ..comm.links import Links
from ..comm.mpi import MPI
from ..comm.series import HEADER
from ..comm.vote import LONGEST, LogSteps, Rows, work_of
from .exchange import Exchange, Options, Progress, Round, RoundExchange
from .message import Datatypes, Piece, Run, Slot, Specification, cut_slots, memory_at

NOTHING = np.zeros(2, np.uint8)  # Open MPI takes equal addresses of what is sent and received for MPI_IN_PLACE
Counts = tuple[tuple[list[int], list[int]], list["MPI.Datatype"]]
Side = tuple[Any, tuple[list[int], list[int]], list["MPI.Datatype"]]


class Ready(RoundExchange):
    """All receives, a barrier, and ready-mode sends (Walker & Otto, section 2.2.1, on Fig 5).

    A send in ready mode need not ask whether a receive is posted for it. Where staging memory does not hold all messages they
    go in rounds, each with its barrier. A round waits for nothing but its own receives and sends, all of which are posted once
    its barrier is through: it always ends.
    """

    name: ClassVar[str] = "ready"

    def begin(self, run: Run) -> Progress:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""
        return _ReadyRounds(self, run)


class _ReadyRounds(Progress):
    def __init__(self, exchange: Ready, run: Run) -> None:
        super().__init__(exchange, run)
        self._comm = run.comm
        self._sends: list[Piece] = []
        self._receives: list[Piece] = []
        self._requests: list[Any] = []
        self._ready: list[Specification] = []
        self._barrier: Any = None
        self._left = 0

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Post the receives of the first round and enter its barrier. Collective over the group."""
        assert isinstance(exchange, Ready)
        self._copies = exchange.copies
        self._rounds = iter(exchange.rounds)
        self._next(next(self._rounds, None))

    def _next(self, following: Round | None) -> None:
        """Post the receives of the next round and enter its barrier."""
        if following is None:
            return
        run = self.run
        self._sends, self._receives = following
        self._slots = cut_slots(run.staging, [piece.nbytes for piece in (*self._receives, *self._sends)])
        self._requests = [
            self.channel.receive(self.buffers.incoming(run, piece, slot), piece.message.peer, run.tag)
            for piece, slot in zip(self._receives, self._slots, strict=False)
        ]
        self._left = len(self._receives) + len(self._sends)
        self._barrier = self._comm.Ibarrier()
        self._ready = [
            self.buffers.outgoing(run, piece, slot)
            for piece, slot in zip(self._sends, self._slots[len(self._receives) :], strict=True)
        ]

    def _send(self) -> None:
        """Every process has posted its receives of this round."""
        run = self.run
        self._barrier = None
        comm = run.channel.comm  # type: ignore[attr-defined]
        self._requests += [
            comm.Irsend(ready, piece.message.peer, run.tag)
            for ready, piece in zip(self._ready, self._sends, strict=True)
        ]

    def advance(self, block: bool) -> bool:
        """Pass the barrier, send, unpack what came, and copy locally in between. Not collective."""
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
            self._next(next(self._rounds, None))
        return self.copy_all()


class Alltoallv(RoundExchange):
    """MPI_Ialltoallv of packed bytes: one of MPI's collectives with which Walker & Otto compare (section 3.3).

    The pieces of a round stand one behind another in staging memory, in as many rounds as the memory limit takes. MPI decides
    which message goes when, so schedules have no meaning here.
    """

    name: ClassVar[str] = "alltoallv"
    scheduled: ClassVar[bool] = False
    supported_buffers: ClassVar[tuple[str, ...]] = ("packed",)

    def begin(self, run: Run) -> Progress:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""
        return _CollectiveRounds(self, run)

    def call(self, comm: MPI.Intracomm, sent: Side, received: Side) -> MPI.Request:
        """One round. Collective over the group."""
        byte = self.buffers.byte
        return comm.Ialltoallv((*sent[:2], byte), (*received[:2], byte))


class Alltoallw(Alltoallv):
    """MPI_Ialltoallw of packed bytes, or with a derived datatype for each peer (Walker & Otto, section 3.3).

    With datatypes it moves everything at once between the users' arrays.
    """

    name: ClassVar[str] = "alltoallw"
    supported_buffers: ClassVar[tuple[str, ...]] = ("packed", "datatypes")

    def call(self, comm: MPI.Intracomm, sent: Side, received: Side) -> MPI.Request:
        """One round. Collective over the group."""
        return comm.Ialltoallw(sent, received)


class _Prepared(NamedTuple):
    """One round, but for the addresses of arrays: pieces with their staging memory, and what a side says of all processes."""

    sends: list[tuple[Piece, Slot]]
    receives: list[tuple[Piece, Slot]]
    sent: Counts
    received: Counts


class _CollectiveRounds(Progress):
    def __init__(self, exchange: Alltoallv, run: Run) -> None:
        super().__init__(exchange, run)
        self._comm, self._call = run.comm, exchange.call
        self._request: Any = None
        self._prepared: list[_Prepared] = []
        self._of: Exchange | None = None  # what these are the rounds of
        self._packs = not isinstance(self.buffers, Datatypes)

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start the first round. Collective over the group."""
        assert isinstance(exchange, Alltoallv)
        self._copies = exchange.copies
        if self._of is not exchange:
            self._of, self._prepared = exchange, [self._prepare(*pieces) for pieces in exchange.rounds]
        self._rounds = iter(self._prepared)
        self._next()

    def _prepare(self, sends: list[Piece], receives: list[Piece]) -> _Prepared:
        places = cut_slots(self.run.staging, [piece.nbytes for piece in (*receives, *sends)])
        into = list(zip(receives, places, strict=False))
        out = list(zip(sends, places[len(receives) :], strict=True))
        return _Prepared(out, into, self._side(False, out), self._side(True, into))

    def _side(self, target: bool, pieces: list[tuple[Piece, Slot]]) -> Counts:
        """Counts and displacements, and types for all processes: of bytes, or whole datatypes."""
        size, buffers = self._comm.size, self.buffers
        counts, displacements, types = [0] * size, [0] * size, [buffers.byte] * size
        for piece, slot in pieces:
            peer = piece.message.peer
            if isinstance(buffers, Datatypes):
                counts[peer], types[peer] = 1, buffers.datatype(piece.message, target)
            else:
                counts[peer], displacements[peer] = piece.nbytes, slot.address - pieces[0][1].address
        return (counts, displacements), types

    def _next(self) -> None:
        """Pack and start the next round, if there is one."""
        self._request = None
        self._round = following = next(self._rounds, None)
        if following is None:
            return
        if self._packs:
            for piece, slot in following.sends:
                self.buffers.outgoing(self.run, piece, slot)
        out, into = self._memory(False, following.sends), self._memory(True, following.receives)
        self._request = self._call(self._comm, (out, *following.sent), (into, *following.received))

    def _memory(self, target: bool, pieces: list[tuple[Piece, Slot]]) -> Any:
        """From where a side counts."""
        start = self.buffers.origin(self.run, target, pieces[0][1]) if pieces else NOTHING.ctypes.data + target
        return memory_at(start)

    def advance(self, block: bool) -> bool:
        """Unpack a round that is through, start the next, and copy locally in between. Not collective."""
        while self._round is not None:
            if not self._request.Test():
                if not self.copy_piece():
                    return False
                continue
            if self._packs:
                for piece, slot in self._round.receives:
                    self.buffers.arrived(self.run, piece, slot)
            self._next()
        return self.copy_all()


# That a message of its own for a peer takes, beside its bytes: 1.9 ms for 15 of them on 16 hosts that shared two cores.
PEER_SECONDS = 1.5e-4
MOST_BLOCKS = 64 * 1024  # bytes of all blocks that a rank sends, beyond which they go as messages of their own


class Bruck(RoundExchange):
    """All to all in log2 P steps (Bruck et al., 1997), with the vote where the messages are small.

    Messages travel through other ranks (`LogSteps` in `comm/vote.py`): each rank sends log2 P messages in place of one for each
    peer, and every byte up to log2 P times. This pays where starting a message costs more than its bytes. Messages so small
    that one round has them all travel with the vote, and cost no message of their own.

    Others go in rounds after the vote, and all ranks take part in each. The receives of a round are posted when it begins.
    A step waits for the messages of the step before alone, the first one for nothing: so the earliest step that is not
    through can go on.
    """

    name: ClassVar[str] = "bruck"
    scheduled: ClassVar[bool] = False
    collective: ClassVar[bool] = False
    in_turn: ClassVar[bool] = False
    supported_buffers: ClassVar[tuple[str, ...]] = ("packed",)

    @staticmethod
    def is_faster(options: Options, links: Links) -> bool:
        """Whether it is faster than a message for each peer, beside the vote. Not collective: the same on all ranks."""
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
    def largest_piece(cls, options: Options) -> int:
        """Most bytes of a piece, so that there is room for a block of each rank and for messages. Not collective."""
        return max(0, options.memory_limit // _blocks_held(options) - 2 * HEADER)

    @functools.cached_property
    def block(self) -> int:
        """Bytes of a block: a piece, and the order of its elements. Equal on all ranks."""
        options = self.options
        length = max(1, min(options.extents.elements, self.largest_piece(options) // options.item))
        return -(-length * options.item // 8) * 8 + HEADER

    @functools.cached_property
    def goes_with_vote(self) -> bool:
        """Whether all goes with the vote. Equal on all ranks."""
        return (
            self.options.with_vote
            and len(self.rounds) == 1
            and work_of(self.options.ranks, self.options.radix).longest * self.block <= LONGEST
        )

    @property
    def between_nodes(self) -> tuple[int, int]:
        """All blocks of the ranks of a node, those that stay there included, and the steps of all rounds after the vote."""
        options, ranks_here = self.options, 1 if self.node is None else self.node.size
        work, rounds = work_of(options.ranks, options.radix), len(self.rounds)
        return rounds * ranks_here * work.blocks * self.block, 0 if self.goes_with_vote else rounds * work.steps

    @property
    def staging_bytes(self) -> int:
        """Staging memory of one run. Not collective."""
        return _blocks_held(self.options) * self.block

    @property
    def private_bytes(self) -> int:
        """The part of it that each run takes for itself: all but the messages. Not collective."""
        return self.options.ranks * self.block

    def begin(self, run: Run) -> Progress:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""
        return BruckRounds(self, run)


def _blocks_held(options: Options) -> int:
    """BruckRounds in the memory of a rank: one for each, and those of all messages that it sends and receives."""
    work = work_of(options.ranks, options.radix)
    return options.ranks + work.blocks + work.messages * work.longest


class BruckRounds(Progress):
    """Rounds of blocks, or all blocks at once."""

    def __init__(self, exchange: Bruck, run: Run) -> None:
        super().__init__(exchange, run)
        self._prepare(exchange, run.staging)
        self._round: Round | None = None  # under way, after the vote

    def _prepare(self, exchange: Bruck, staging: NDArray[np.uint8]) -> None:
        """Take the memory for such blocks."""
        size, block, options = self.channel.size, exchange.block, exchange.options
        self._exchange, self._rows = exchange, staging[: size * block].reshape(size, block)
        self._address = address_of(staging)
        self._steps: LogSteps | None = None
        if not exchange.goes_with_vote:
            self._steps = LogSteps(self.channel, options.radix, 0, work_of(size, options.radix).longest * block)

    def pack_for_vote(self) -> Rows | None:
        """Pack all, where it goes with the vote. Not collective."""
        return None if self._steps is not None else self._pack(self._exchange.rounds[0][0])

    def _pack(self, pieces: Sequence[Piece]) -> Rows:
        start, channel = time.perf_counter(), self.channel
        lengths = [0] * channel.size
        self._rows.fill(0)  # blocks go whole, and what a shorter one leaves is nobody's business
        for piece in pieces:
            row = (piece.message.peer - channel.rank) % channel.size
            lengths[row] = HEADER + piece.nbytes
            self._rows[row, 0] = self._exchange.options.order
            piece.message.bundle.move(self.run.origins, self._at(row), piece.first, piece.last)
        self.run.add_time("packed", start)
        return Rows(self._rows, lengths)

    def _at(self, row: int) -> int:
        """The address of the elements in a row."""
        return int(self._address + row * self._exchange.block + HEADER)

    def _unpack(self, number: int, pieces: Sequence[Piece]) -> None:
        """The pieces of a round, each in the order in which it was packed."""
        start, channel, order = time.perf_counter(), self.channel, self._exchange.options.order
        for k, piece in enumerate(pieces):
            row = (channel.rank - piece.message.peer) % channel.size
            packed = self._rows[row, 0]
            if packed != order:
                other = self.run.other_order()
                if not isinstance(other, Bruck) or packed != other.options.order:
                    raise RuntimeError(f"order {packed} of a message from rank {piece.message.peer} of the group")
                piece = other.rounds[number][1][k]
            piece.message.bundle.move(self.run.origins, self._at(row), piece.first, piece.last)
        self.run.add_time("unpacked", start)

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Unpack what came with the vote, or start the first round. Not collective."""
        assert isinstance(exchange, Bruck)
        if exchange.goes_with_vote:
            if self._exchange.goes_with_vote:  # else this rank knew no dtype when it voted, and has no elements
                self._unpack(0, self._exchange.rounds[0][1])
            return
        if self._steps is None or self._exchange.block != exchange.block:
            self._prepare(exchange, np.empty(exchange.private_bytes, np.uint8))
        self._exchange, self._copies = exchange, exchange.copies
        self._rounds, self._number = iter(exchange.rounds), -1
        self._next()

    def _next(self) -> None:
        """Pack and start the next round, if there is one."""
        self._round = following = next(self._rounds, None)
        if following is not None:
            assert self._steps is not None
            self._number += 1
            self._steps.start(self._pack(following[0]), self.run.tag)

    def advance(self, block: bool) -> bool:
        """Round after round, and copy locally in between. Not collective."""
        while self._round is not None:
            assert self._steps is not None
            if not self._steps.advance():
                if not self.copy_piece():
                    return False
                continue
            self._unpack(self._number, self._round[1])
            self._next()
        return self.copy_all()
