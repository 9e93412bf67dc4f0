"""Bruck: messages travel through other ranks, in log2 P messages of each rank (`comm/log_steps.py`).

Where starting a message costs more than its bytes: each rank sends log2 P messages in place of one for each peer, and every
byte up to log2 P times. Messages so small that one round has them all travel with the vote, and cost no message of their own.
Others go in rounds after it. All ranks take part in each. The receives of a round are posted when it begins, and a step
waits for the messages of the step before alone, the first one for nothing: the earliest step that is not through can go on.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import address_of
from ..comm.links import Links
from ..comm.log_steps import LONGEST, LogSteps, Rows, work_of
from .exchange import Exchange, Options, Progress, Run
from .message import Piece
from .nonblocking import HEADER
from .rounds import InRounds, Round

__all__ = ["Blocks", "Bruck"]

# That a message of its own for a peer takes, beside its bytes: 1.9 ms for 15 of them on 16 hosts that shared two cores.
PEER_SECONDS = 1.5e-4
MOST_BLOCKS = 64 * 1024  # bytes of all blocks that a rank sends, beyond which they go as messages of their own


class Bruck(InRounds):
    """All to all in log2 P steps (Bruck et al., 1997), with the vote where the messages are small."""

    name: ClassVar[str] = "bruck"
    scheduled: ClassVar[bool] = False
    collective: ClassVar[bool] = False
    in_turn: ClassVar[bool] = False
    understands: ClassVar[tuple[str, ...]] = ("packed",)

    @staticmethod
    def pays(options: Options, links: Links) -> bool:
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
    def travels_with_vote(self) -> bool:
        """Whether all goes with the vote. Equal on all ranks."""
        return (
            self.options.travels
            and len(self.rounds) == 1
            and work_of(self.options.ranks, self.options.radix).longest * self.block <= LONGEST
        )

    @property
    def between_nodes(self) -> tuple[int, int]:
        """All blocks of the ranks of a node, those that stay there included, and the steps of all rounds after the vote."""
        options, ranks_here = self.options, 1 if self.node is None else self.node.size
        work, rounds = work_of(options.ranks, options.radix), len(self.rounds)
        return rounds * ranks_here * work.blocks * self.block, 0 if self.travels_with_vote else rounds * work.steps

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
        return Blocks(self, run)


def _blocks_held(options: Options) -> int:
    """Blocks in the memory of a rank: one for each, and those of all messages that it sends and receives."""
    work = work_of(options.ranks, options.radix)
    return options.ranks + work.blocks + work.messages * work.longest


class Blocks(Progress):
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
        if not exchange.travels_with_vote:
            self._steps = LogSteps(self.channel, options.radix, 0, work_of(size, options.radix).longest * block)

    def with_vote(self) -> Rows | None:
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
        self.run.note("packed", start)
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
                other = self.run.turned()
                if not isinstance(other, Bruck) or packed != other.options.order:
                    raise RuntimeError(f"order {packed} of a message from rank {piece.message.peer} of the group")
                piece = other.rounds[number][1][k]
            piece.message.bundle.move(self.run.origins, self._at(row), piece.first, piece.last)
        self.run.note("unpacked", start)

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Unpack what came with the vote, or start the first round. Not collective."""
        assert isinstance(exchange, Bruck)
        if exchange.travels_with_vote:
            if self._exchange.travels_with_vote:  # else this rank knew no dtype when it voted, and has no elements
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
