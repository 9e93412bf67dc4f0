"""Synchronized: one receive at a time, whoever it comes from; send, wait for the receive, next step (Walker & Otto,
Fig 4). Any order will do, also one in which several send to one process at a time, and then it shows what that costs.

What came is known by its source: messages of one process come in order, so it is the next one from there. A matched
probe finds it. A receive posted for any source may wait for ever: MPICH 5.0.2 loses messages to it where some sources
share its memory and others do not, as on several nodes or between two jobs.

Nobody waits for ever. A process with anything left to receive takes what comes from any source, so whatever is sent
also arrives. Before its next message a process waits for a number of receives:

- Where all send as many messages as they receive, as in the paper, a process has received i before it sends its i-th
  (from 0). If all were to wait, each would have received fewer than it sent, and yet all that was sent has arrived.
- Elsewhere that may hang: A and B send to C first and to each other next, and C sends nothing. There a process waits
  for as many messages as it is to receive in earlier steps. Take the first message in the global order (step, sender,
  receiver) that is not through: its sender has received all of those, so it can go.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict
from typing import ClassVar

from .buffers import slots
from .exchange import Exchange, Progress, Run
from .message import Piece

__all__ = ["Synchronized"]

MOST = 2**30  # bytes in one MPI message: counts are 32-bit in MPI 3


class Synchronized(Exchange):
    """One receive from any source, one message sent, and a wait, step after step (Walker & Otto, Fig 4)."""

    name: ClassVar[str] = "synchronized"

    def pieces(self, item: int) -> tuple[list[Piece], list[Piece], int, int]:
        """Pieces to send and to receive, and the bytes of the largest of either. Not collective."""
        if item not in self._made:
            most = min(self.memory_limit // 2, MOST)
            sends, send_bytes = self.buffers.cut(self.sends, item, most)
            receives, receive_bytes = self.buffers.cut(self.receives, item, most)
            self._made[item] = (sends, receives, send_bytes, receive_bytes)
        made: tuple[list[Piece], list[Piece], int, int] = self._made[item]
        return made

    def awaited(self) -> list[int]:
        """Messages to be received before each message is sent. Not collective."""
        if not self.extents.unbalanced:
            return list(range(len(self.sends)))
        steps = [one.key for one in self.receives]
        return [bisect_left(steps, one.key) for one in self.sends]

    def staging_bytes(self, item: int) -> int:
        """Staging memory of one run with elements of `item` bytes. Not collective."""
        return sum(self.pieces(item)[2:])

    def begin(self, run: Run) -> Progress:
        """Start the first step. Collective over the participants."""
        return _Steps(self, run)


RECEIVE, SEND = 0, 1


class _Steps(Progress):
    def __init__(self, exchange: Synchronized, run: Run) -> None:
        from mpi4py import MPI

        super().__init__(exchange, run)
        sends, receives, *sizes = exchange.pieces(run.item)
        self._out, self._in = slots(run.staging, sizes)
        self._sends = sends[::-1]
        self._awaited = dict(zip(map(id, exchange.sends), exchange.awaited(), strict=True))
        by_source: dict[int, list[Piece]] = defaultdict(list)
        for piece in receives:
            by_source[piece.message.peer].append(piece)
        self._from = {source: iter(pieces) for source, pieces in by_source.items()}
        self._unread = len(receives)
        self._received = 0  # messages, of any process
        self._coming: Piece | None = None
        self._status = MPI.Status()
        self._requests: list[MPI.Request] = [MPI.REQUEST_NULL, MPI.REQUEST_NULL]
        self._send()

    def _probe(self) -> None:
        """Receive what has come, from anybody."""
        from mpi4py import MPI

        run = self.run
        if self._coming is not None or not self._unread:
            return
        found = run.comm.Improbe(MPI.ANY_SOURCE, run.tag, self._status)
        if found is not None:
            self._coming = next(self._from[self._status.source])
            self._requests[RECEIVE] = found.Irecv(self.buffers.incoming(run, self._coming, self._in))

    def _arrived(self) -> None:
        """Bring what came to where it belongs."""
        piece, self._coming = self._coming, None
        assert piece is not None
        self.buffers.arrived(self.run, piece, self._in)
        self._unread -= 1
        self._received += piece.last == piece.message.last

    def _send(self) -> None:
        """Send the next piece, if the one before is through and its message's turn has come."""
        if not self._sends or self._requests[SEND] or self._received < self._awaited[id(self._sends[-1].message)]:
            return
        piece, run = self._sends.pop(), self.run
        ready = self.buffers.outgoing(run, piece, self._out)
        self._requests[SEND] = run.comm.Isend(ready, piece.message.peer, run.tag)

    def advance(self, block: bool) -> bool:
        """Unpack what came, send what may go, and copy locally in between. Not collective."""
        from mpi4py import MPI

        while self._unread or self._sends or self._requests[SEND]:
            self._probe()
            number, done = MPI.Request.Testany(self._requests)
            if not done or number == MPI.UNDEFINED:
                copied = self.copy_piece()
                if not block:
                    return False
                if not copied:
                    os.sched_yield()
                continue
            if number == RECEIVE:
                self._arrived()
            self._send()
        return self.copy_all()
