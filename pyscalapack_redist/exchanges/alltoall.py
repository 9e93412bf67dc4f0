"""Alltoallv and alltoallw: MPI's own collectives over all participants, with which Walker & Otto compare (section 3.3).

With packed buffers a round's pieces stand one behind another in staging memory, in as many rounds as the memory limit
takes. Alltoallw with derived datatypes moves everything at once between the users' arrays. Which message goes when is
MPI's affair, so schedules have no meaning here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ..comm.mpi import MPI
from .buffers import Slot, Specification, memory_at, slots
from .exchange import Exchange, Progress, Run
from .message import Piece
from .rounds import InRounds, Round

__all__ = ["Alltoallv", "Alltoallw"]

NOTHING = np.zeros(2, np.uint8)  # Open MPI takes equal addresses of what is sent and received for MPI_IN_PLACE
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


class _Rounds(Progress):
    def __init__(self, exchange: Alltoallv, run: Run) -> None:
        super().__init__(exchange, run)
        self._comm = run.comm
        self._call = exchange.call
        self._request: Any = None

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start the first round. Collective over the group."""
        assert isinstance(exchange, Alltoallv)
        self._copies = exchange.copies
        self._rounds = iter(exchange.rounds)
        self._next(next(self._rounds, None))

    def _next(self, following: Round | None) -> None:
        """Pack and start the next round, if there is one."""
        self._request = None
        if following is None:
            return
        sends, receives = following
        self._receives = receives
        places = slots(self.run.staging, [piece.nbytes for piece in (*receives, *sends)])
        self._in = places[: len(receives)]
        sent = self._side(False, sends, places[len(receives) :], self.buffers.outgoing)
        self._request = self._call(self._comm, sent, self._side(True, receives, self._in, self.buffers.incoming))

    def _side(
        self, target: bool, pieces: Sequence[Piece], places: Sequence[Slot], fill: Callable[..., Specification]
    ) -> Side:
        """Buffer, counts and displacements, and types for all processes: of bytes, or whole datatypes."""
        run, size = self.run, self._comm.size
        start = self.buffers.origin(run, target, places[0]) if pieces else NOTHING.ctypes.data + target
        counts, displacements, types = [0] * size, [0] * size, [self.buffers.byte] * size
        for piece, slot in zip(pieces, places, strict=True):
            peer = piece.message.peer
            _, counts[peer], types[peer] = fill(run, piece, slot)
            displacements[peer] = slot.address - places[0].address
        return memory_at(start), (counts, displacements), types

    def advance(self, block: bool) -> bool:
        """Unpack a round that is through, start the next, and copy locally in between. Not collective."""
        while self._request is not None:
            if not self._request.Test():
                if not self.copy_piece():
                    return False
                continue
            for piece, slot in zip(self._receives, self._in, strict=True):
                self.buffers.arrived(self.run, piece, slot)
            self._next(next(self._rounds, None))
        return self.copy_all()
