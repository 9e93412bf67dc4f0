"""Nonblocking: receives are posted at once, pieces are packed and sent as slots of staging memory become free, and
unpacked as they come (Walker & Otto, Fig 5, with a limit on memory).

Sender and receiver go through their pieces in the same global order, each with at least one slot, so the first piece
that is not yet through can always move: a full window never deadlocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from .buffers import Packed, slots
from .exchange import Exchange, Progress, Run
from .message import Message, Piece
from .repeat import SMALL, Repeat

__all__ = ["Nonblocking"]


class Direction(NamedTuple):
    """Pieces of one direction, the slots they go through, and the bytes of a slot."""

    pieces: list[Piece]
    slots: int
    nbytes: int


class Nonblocking(Exchange):
    """All messages at once, as far as the memory limit allows (Walker & Otto, Fig 5).

    Attributes
    ----------
    piece : int
        Bytes of a piece: small enough to stay in cache between packing and unpacking.
    window : int
        Pieces being sent.
    ahead : int
        Receives posted.
    """

    name: ClassVar[str] = "nonblocking"
    piece: int = 512 * 1024
    window: int = 16
    ahead: ClassVar[int] = 16

    def directions(self, item: int) -> tuple[Direction, Direction]:
        """Slots for receiving and for sending elements of `item` bytes. Not collective."""
        if item not in self._made:
            windows = (self.receives, self.ahead), (self.sends, self.window)
            self._made[item] = tuple(self._direction(messages, window, item) for messages, window in windows)
        made: tuple[Direction, Direction] = self._made[item]
        return made

    def _direction(self, messages: Sequence[Message], window: int, item: int) -> Direction:
        share = self.memory_limit // 2
        pieces, nbytes = self.buffers.cut(messages, item, min(self.piece, share))
        return Direction(pieces, min(len(pieces), window, max(1, share // max(nbytes, 1))), nbytes)

    def staging_bytes(self, item: int) -> int:
        """Staging memory of one run with elements of `item` bytes. Not collective."""
        return sum(one.slots * one.nbytes for one in self.directions(item))

    def repeat(self, run: Run, tag: int) -> Repeat | None:
        """Runs with such arrays, kept ready, where no rank has much to send or to receive. Not collective."""
        most = 2 * self.extents.messages * self.extents.elements * run.item
        if not isinstance(self.buffers, Packed) or most > min(SMALL, self.memory_limit):
            return None
        return Repeat(self.sends, self.receives, self.copies, run, tag)

    def begin(self, run: Run) -> Progress:
        """Pack and send what fits, post receives. Collective over the participants."""
        return _Pipeline(self, run)


class _Pipeline(Progress):
    def __init__(self, exchange: Nonblocking, run: Run) -> None:
        from mpi4py import MPI

        super().__init__(exchange, run)
        incoming, outgoing = exchange.directions(run.item)
        self._receiving = incoming.slots
        self._slots = slots(run.staging, [incoming.nbytes] * incoming.slots + [outgoing.nbytes] * outgoing.slots)
        self._requests: list[MPI.Request] = [MPI.REQUEST_NULL] * len(self._slots)
        self._piece: list[Piece | None] = [None] * len(self._slots)
        self._waiting = (iter(incoming.pieces), iter(outgoing.pieces))
        self._left = len(incoming.pieces) + len(outgoing.pieces)
        # Sends first: requests to send then reach the peer ahead of the permissions that let its own data flow. Behind that
        # data on one connection they would wait for all of it, and the two directions would come one after the other.
        for number in (*range(self._receiving, len(self._slots)), *range(self._receiving)):
            self._refill(number)

    def _refill(self, number: int) -> None:
        """Put the next piece of the slot's direction into it, if there is one."""
        receiving = number < self._receiving
        piece = next(self._waiting[0 if receiving else 1], None)
        self._piece[number] = piece
        if piece is None:
            return
        run, slot, peer = self.run, self._slots[number], piece.message.peer
        if receiving:
            request = run.comm.Irecv(self.buffers.incoming(run, piece, slot), peer, run.tag)
        else:
            request = run.comm.Isend(self.buffers.outgoing(run, piece, slot), peer, run.tag)
        self._requests[number] = request

    def advance(self, block: bool) -> bool:
        """Unpack what came, send what now fits, and copy locally in between. Not collective."""
        while self._left:
            number = self.next_finished(self._requests, block)
            if number is None:
                return False
            piece = self._piece[number]
            assert piece is not None
            if number < self._receiving:
                self.buffers.arrived(self.run, piece, self._slots[number])
            self._left -= 1
            self._refill(number)
        return self.copy_all()
