"""Sendrecv: in each step a process sends to one and receives from one, and goes on when both are done (Walker & Otto,
Fig 10). A step whose message exceeds the staging memory goes in several pieces.
"""

from __future__ import annotations

from typing import ClassVar

from .exchange import Exchange, Progress, Run
from .message import Piece

__all__ = ["SendReceive"]

MOST = 2**30  # bytes in one MPI message: counts are 32-bit in MPI 3


class SendReceive(Exchange):
    """One message each way and a wait, step after step (Walker & Otto, Fig 10). Needs a one-port schedule."""

    name: ClassVar[str] = "sendrecv"
    needs_one_port: ClassVar[bool] = True

    def steps(self, item: int) -> tuple[list[tuple[Piece | None, Piece | None]], int, int]:
        """Pieces to send and to receive in each step, and the bytes of the largest of either. Not collective."""
        if item not in self._made:
            most = min(self.memory_limit // 2, MOST)
            sends, send_bytes = self._cut(self.sends, item, most)
            receives, receive_bytes = self._cut(self.receives, item, most)
            steps: dict[tuple[tuple[int, ...], int], list[Piece | None]] = {}
            for side, pieces in enumerate((sends, receives)):
                for piece in pieces:
                    steps.setdefault((piece.message.key, piece.number), [None, None])[side] = piece
            in_order = [(steps[key][0], steps[key][1]) for key in sorted(steps)]
            self._made[item] = (in_order, send_bytes, receive_bytes)
        made: tuple[list[tuple[Piece | None, Piece | None]], int, int] = self._made[item]
        return made

    def staging_bytes(self, item: int) -> int:
        """Staging memory of one run with elements of `item` bytes. Not collective."""
        return sum(self.steps(item)[1:])

    def begin(self, run: Run) -> Progress:
        """Start the first step. Collective over the participants."""
        return _LockStep(self, run)


class _LockStep(Progress):
    def __init__(self, exchange: SendReceive, run: Run) -> None:
        from mpi4py import MPI

        super().__init__(exchange, run)
        steps, send_bytes, _ = exchange.steps(run.item)
        self._steps = iter(steps)
        self._bytes = MPI.BYTE
        self._out = memoryview(run.staging)[:send_bytes]  # type: ignore[arg-type]
        self._in = memoryview(run.staging)[send_bytes:]  # type: ignore[arg-type]
        self._out_address = run.staging.ctypes.data
        self._in_address = self._out_address + send_bytes
        self._requests: list[MPI.Request] = []
        self._received: Piece | None = None
        self._more = self._next_step()

    def _next_step(self) -> bool:
        step = next(self._steps, None)
        if step is None:
            return False
        sent, received = step
        run = self.run
        self._requests = []
        if received is not None:
            self._requests.append(
                run.comm.Irecv((self._in, received.nbytes, self._bytes), received.message.peer, run.tag)
            )
        if sent is not None:
            self.pack(sent, self._out_address)
            self._requests.append(run.comm.Isend((self._out, sent.nbytes, self._bytes), sent.message.peer, run.tag))
        self._received = received
        return True

    def advance(self, block: bool) -> bool:
        """Finish the step, go on to the next; local copies come last. Not collective."""
        from mpi4py import MPI

        while self._more:
            if block:
                MPI.Request.Waitall(self._requests)
            elif not MPI.Request.Testall(self._requests):
                return False
            if self._received is not None:
                self.unpack(self._received, self._in_address)
            self._more = self._next_step()
        while self.copy_piece():
            pass
        return True
