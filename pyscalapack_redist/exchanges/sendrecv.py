"""Sendrecv: in each step a process sends to one and receives from one, and goes on when both are done (Walker & Otto,
Fig 10). A step whose message exceeds the staging memory goes in several pieces; derived datatypes need none.

Pieces go by (step, number of the piece), on both sides, so the first one that is not yet through can always move.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from .buffers import slots
from .exchange import Exchange, Progress, Run
from .message import Piece

__all__ = ["SendReceive"]

Steps = tuple[list[tuple[Piece | None, Piece | None]], int, int]


class SendReceive(Exchange):
    """One message each way and a wait, step after step (Walker & Otto, Fig 10). Needs a one-port schedule."""

    name: ClassVar[str] = "sendrecv"
    needs_one_port: ClassVar[bool] = True

    @functools.cached_property
    def steps(self) -> Steps:
        """Pieces to send and to receive in each step, and the bytes of the largest of either. Not collective."""
        most = self.largest_piece(self.options)
        sends, send_bytes = self.buffers.cut(self.sends, most)
        receives, receive_bytes = self.buffers.cut(self.receives, most)
        steps: dict[tuple[tuple[int, ...], int], list[Piece | None]] = {}
        for side, pieces in enumerate((sends, receives)):
            for piece in pieces:
                steps.setdefault((piece.message.key, piece.number), [None, None])[side] = piece
        return [(steps[key][0], steps[key][1]) for key in sorted(steps)], send_bytes, receive_bytes

    @property
    def staging_bytes(self) -> int:
        """Staging memory of one run. Not collective."""
        return sum(self.steps[1:])

    def begin(self, run: Run) -> Progress:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""
        return _LockStep(self, run)


class _LockStep(Progress):
    def __init__(self, exchange: SendReceive, run: Run) -> None:
        super().__init__(exchange, run)
        self._out, self._in = slots(run.staging, exchange.steps[1:])
        self._requests: list[Any] = []
        self._received: Piece | None = None
        self._more = False

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start the first step. Not collective."""
        assert isinstance(exchange, SendReceive)
        self._copies = exchange.copies
        self._steps = iter(exchange.steps[0])
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
            self._requests.append(self.channel.send(ready, sent.message.peer, run.tag))
        if received is not None:
            ready = buffers.incoming(run, received, self._in)
            self._requests.append(self.channel.receive(ready, received.message.peer, run.tag))
        self._received = received
        return True

    def advance(self, block: bool) -> bool:
        """Finish the step, go on to the next; local copies come last. Not collective."""
        while self._more:
            self._requests = [request for request in self._requests if not request.Test()]
            if self._requests:
                return False
            if self._received is not None:
                self.buffers.arrived(self.run, self._received, self._in)
            self._more = self._next_step()
        return self.copy_all()
