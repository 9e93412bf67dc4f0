"""Ready: receives are posted, a barrier, then sends in ready mode, which need not ask whether anybody waits for them
(Walker & Otto, section 2.2.1, on Fig 5).

Where staging memory does not hold all messages they go in rounds, each with its barrier. A round waits for nothing but
the receives and sends of that round, all of which are posted after its barrier: it always ends.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .buffers import Specification, slots
from .exchange import Exchange, Progress, Run
from .message import Piece
from .rounds import InRounds, Round

__all__ = ["Ready"]


class Ready(InRounds):
    """All receives, a barrier, and ready-mode sends (Walker & Otto, section 2.2.1)."""

    name: ClassVar[str] = "ready"

    def begin(self, run: Run) -> Progress:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""
        return _Rounds(self, run)


class _Rounds(Progress):
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
        self._slots = slots(run.staging, [piece.nbytes for piece in (*self._receives, *self._sends)])
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
