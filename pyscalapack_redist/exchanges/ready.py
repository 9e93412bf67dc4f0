"""Ready: receives are posted, a barrier, then sends in ready mode, which need not ask whether anybody waits for them
(Walker & Otto, section 2.2.1, on Fig 5).

Where staging memory does not hold all messages they go in rounds, each with its barrier. A round waits for nothing but
the receives and sends of that round, all of which are posted after its barrier: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..patience import until
from .buffers import slots
from .exchange import Progress, Run
from .message import Piece
from .rounds import InRounds

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Ready"]


class Ready(InRounds):
    """All receives, a barrier, and ready-mode sends (Walker & Otto, section 2.2.1)."""

    name: ClassVar[str] = "ready"

    def begin(self, run: Run) -> Progress:
        """Post the receives of the first round and enter its barrier. Collective over the participants."""
        return _Rounds(self, run)


class _Rounds(Progress):
    def __init__(self, exchange: Ready, run: Run) -> None:
        super().__init__(exchange, run)
        self._rounds = iter(exchange.rounds(run.item))
        self._sends: list[Piece] = []
        self._receives: list[Piece] = []
        self._requests: list[MPI.Request] = []
        self._barrier: MPI.Request | None = None
        self._left = 0
        self._more = self._next_round()

    def _next_round(self) -> bool:
        """Post the receives of the next round and enter its barrier; False where there is none."""
        following = next(self._rounds, None)
        if following is None:
            return False
        run = self.run
        self._sends, self._receives = following
        self._slots = slots(run.staging, [piece.nbytes for piece in (*self._receives, *self._sends)])
        self._requests = [
            run.comm.Irecv(self.buffers.incoming(run, piece, slot), piece.message.peer, run.tag)
            for piece, slot in zip(self._receives, self._slots, strict=False)
        ]
        self._left = len(self._receives) + len(self._sends)
        assert run.collectives is not None
        self._barrier = run.collectives.Ibarrier()
        self._ready = [
            self.buffers.outgoing(run, piece, slot)
            for piece, slot in zip(self._sends, self._slots[len(self._receives) :], strict=True)
        ]
        return True

    def _send(self) -> None:
        """Every process has posted its receives of this round."""
        run = self.run
        self._barrier = None
        self._requests += [
            run.comm.Irsend(ready, piece.message.peer, run.tag)
            for ready, piece in zip(self._ready, self._sends, strict=True)
        ]

    def advance(self, block: bool) -> bool:
        """Pass the barrier, send, unpack what came, and copy locally in between. Not collective."""
        while self._more:
            if self._barrier is not None:
                if block and not self._copies:
                    until(self._barrier.Test)
                elif not self._barrier.Test():
                    if self.copy_piece() and block:
                        continue
                    return False
                self._send()
            while self._left:
                number = self.next_finished(self._requests, block)
                if number is None:
                    return False
                if number < len(self._receives):
                    self.buffers.arrived(self.run, self._receives[number], self._slots[number])
                self._left -= 1
            self._more = self._next_round()
        return self.copy_all()
