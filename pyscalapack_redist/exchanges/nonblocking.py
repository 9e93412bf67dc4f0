"""Nonblocking: receives are posted ahead, pieces are packed and sent as slots of staging memory become free, and
unpacked as they come (Walker & Otto, Fig 5, with a limit on memory).

Sender and receiver go through their pieces in the same global order, each with at least one slot, so the first piece
that is not yet through can always move: a full window never deadlocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from .exchange import Exchange, Progress, Run
from .message import Message, Piece

__all__ = ["Nonblocking"]

PIECE = 512 * 1024  # bytes; small enough to stay in cache between packing and unpacking
WINDOW = 16  # pieces in flight in one direction


class Direction(NamedTuple):
    """Pieces of one direction, the slots they go through, and the bytes of a slot."""

    pieces: list[Piece]
    slots: int
    nbytes: int


class Nonblocking(Exchange):
    """All messages at once, as far as the memory limit allows (Walker & Otto, Fig 5)."""

    name: ClassVar[str] = "nonblocking"

    def directions(self, item: int) -> tuple[Direction, Direction]:
        """Slots for receiving and for sending elements of `item` bytes. Not collective."""
        if item not in self._made:
            self._made[item] = tuple(self._direction(messages, item) for messages in (self.receives, self.sends))
        made: tuple[Direction, Direction] = self._made[item]
        return made

    def _direction(self, messages: Sequence[Message], item: int) -> Direction:
        share = self.memory_limit // 2
        pieces, nbytes = self._cut(messages, item, min(PIECE, share))
        return Direction(pieces, min(len(pieces), WINDOW, max(1, share // max(nbytes, 1))), nbytes)

    def staging_bytes(self, item: int) -> int:
        """Staging memory of one run with elements of `item` bytes. Not collective."""
        return sum(one.slots * one.nbytes for one in self.directions(item))

    def begin(self, run: Run) -> Progress:
        """Post receives, pack and send what fits. Collective over the participants."""
        return _Pipeline(self, run)


class _Pipeline(Progress):
    def __init__(self, exchange: Nonblocking, run: Run) -> None:
        from mpi4py import MPI

        super().__init__(exchange, run)
        incoming, outgoing = exchange.directions(run.item)
        self._receiving = incoming.slots
        slots = incoming.slots + outgoing.slots
        self._requests: list[MPI.Request] = [MPI.REQUEST_NULL] * slots
        self._piece: list[Piece | None] = [None] * slots
        self._waiting = (iter(incoming.pieces), iter(outgoing.pieces))
        self._left = len(incoming.pieces) + len(outgoing.pieces)
        self._bytes = MPI.BYTE
        self._addresses: list[int] = []
        self._memory: list[memoryview] = []
        memory, at, base = memoryview(run.staging), 0, run.staging.ctypes.data  # type: ignore[arg-type]
        for one in (incoming, outgoing):
            for _ in range(one.slots):
                self._memory.append(memory[at : at + one.nbytes])
                self._addresses.append(base + at)
                at += one.nbytes
        for slot in range(slots):
            self._refill(slot)

    def _refill(self, slot: int) -> None:
        """Put the next piece of the slot's direction into it, if there is one."""
        receiving = slot < self._receiving
        piece = next(self._waiting[0 if receiving else 1], None)
        self._piece[slot] = piece
        if piece is None:
            return
        run, message = self.run, piece.message
        if receiving:
            request = run.comm.Irecv((self._memory[slot], piece.nbytes, self._bytes), message.peer, run.tag)
        else:
            self.pack(piece, self._addresses[slot])
            request = run.comm.Isend((self._memory[slot], piece.nbytes, self._bytes), message.peer, run.tag)
        self._requests[slot] = request

    def advance(self, block: bool) -> bool:
        """Unpack what came, send what now fits, and copy locally in between. Not collective."""
        from mpi4py import MPI

        while self._left:
            if block and not self._copies:
                slot = MPI.Request.Waitany(self._requests)
            else:
                slot, done = MPI.Request.Testany(self._requests)
                if not done:
                    if self.copy_piece() and block:
                        continue
                    return False
            piece = self._piece[slot]
            assert piece is not None
            if slot < self._receiving:
                self.unpack(piece, self._addresses[slot])
            self._left -= 1
            self._refill(slot)
        while self.copy_piece():
            pass
        return True
