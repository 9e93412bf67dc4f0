"""Sendrecv: in each step a process sends to one and receives from one, and goes on when both are done (Walker & Otto,
Fig 10). A step whose message exceeds the staging memory goes in several pieces; derived datatypes need none.

Pieces go by (step, number of the piece), on both sides, so the first one that is not yet through can always move.
"""

from __future__ import annotations

from typing import ClassVar

from ..patience import until
from .buffers import slots
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
            sends, send_bytes = self.buffers.cut(self.sends, item, most)
            receives, receive_bytes = self.buffers.cut(self.receives, item, most)
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
        steps, *sizes = exchange.steps(run.item)
        self._steps = iter(steps)
        self._out, self._in = slots(run.staging, sizes)
        self._requests: list[MPI.Request] = []
        self._received: Piece | None = None
        self._more = self._next_step()

    def _next_step(self) -> bool:
        step = next(self._steps, None)
        if step is None:
            return False
        sent, received = step
        run, buffers = self.run, self.buffers
        self._requests = []
        # The send first, for the reason given in `nonblocking`: else opposite messages of a step come one after the other.
        if sent is not None:
            ready = buffers.outgoing(run, sent, self._out)
            self._requests.append(run.comm.Isend(ready, sent.message.peer, run.tag))
        if received is not None:
            ready = buffers.incoming(run, received, self._in)
            self._requests.append(run.comm.Irecv(ready, received.message.peer, run.tag))
        self._received = received
        return True

    def advance(self, block: bool) -> bool:
        """Finish the step, go on to the next; local copies come last. Not collective."""
        from mpi4py import MPI

        while self._more:
            if block:
                until(lambda: MPI.Request.Testall(self._requests))
            elif not MPI.Request.Testall(self._requests):
                return False
            if self._received is not None:
                self.buffers.arrived(self.run, self._received, self._in)
            self._more = self._next_step()
        return self.copy_all()
