"""Alltoallv and alltoallw: MPI's own collectives over all participants, with which Walker & Otto compare (section 3.3).

With packed buffers a round's pieces stand one behind another in staging memory, in as many rounds as the memory limit
takes. Alltoallw with derived datatypes moves everything at once between the users' arrays. Which message goes when is
MPI's affair, so schedules have no meaning here.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..comm.mpi import MPI
from .buffers import Datatypes, Slot, memory_at, slots
from .exchange import Exchange, Progress, Run
from .message import Piece
from .rounds import InRounds

__all__ = ["Alltoallv", "Alltoallw"]

NOTHING = np.zeros(2, np.uint8)  # Open MPI takes equal addresses of what is sent and received for MPI_IN_PLACE
Counts = tuple[tuple[list[int], list[int]], list["MPI.Datatype"]]
Side = tuple[Any, tuple[list[int], list[int]], list["MPI.Datatype"]]


class Alltoallv(InRounds):
    """MPI_Ialltoallv of packed bytes."""

    name: ClassVar[str] = "alltoallv"
    scheduled: ClassVar[bool] = False
    understands: ClassVar[tuple[str, ...]] = ("packed",)

    def begin(self, run: Run) -> Progress:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""
        return _Rounds(self, run)

    def call(self, comm: MPI.Intracomm, sent: Side, received: Side) -> MPI.Request:
        """One round. Collective over the group."""
        byte = self.buffers.byte
        return comm.Ialltoallv((*sent[:2], byte), (*received[:2], byte))


class Alltoallw(Alltoallv):
    """MPI_Ialltoallw: with a derived datatype for each peer, or of packed bytes."""

    name: ClassVar[str] = "alltoallw"
    understands: ClassVar[tuple[str, ...]] = ("packed", "datatypes")

    def call(self, comm: MPI.Intracomm, sent: Side, received: Side) -> MPI.Request:
        """One round. Collective over the group."""
        return comm.Ialltoallw(sent, received)


class _Prepared(NamedTuple):
    """One round, but for the addresses of arrays: pieces with their staging memory, and what a side says of all processes."""

    sends: list[tuple[Piece, Slot]]
    receives: list[tuple[Piece, Slot]]
    sent: Counts
    received: Counts


class _Rounds(Progress):
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
        places = slots(self.run.staging, [piece.nbytes for piece in (*receives, *sends)])
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
