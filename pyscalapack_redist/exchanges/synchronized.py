"""Synchronized: one receive at a time, whoever it comes from; send, wait for the receive, next step (Walker & Otto,
Fig 4). Any order will do, also one in which several send to one process at a time, and then it shows what that costs.

What came is known by its source: messages of one process come in order, so it is the next one from there. Matched probes
of the sources that are left find it, in turn. A receive posted for any source may wait for ever: MPICH 5.0.2 loses messages
to it where some sources share its memory and others do not, as on several nodes or between two jobs.

Nobody waits for ever. A process with anything left to receive takes what comes from any source, so whatever is sent
also arrives. Before its next message a process waits for a number of receives:

- Where all send as many messages as they receive, as in the paper, a process has received i before it sends its i-th
  (from 0). If all were to wait, each would have received fewer than it sent, and yet all that was sent has arrived.
- Elsewhere that may hang: A and B send to C first and to each other next, and C sends nothing. There a process waits
  for as many messages as it is to receive in earlier steps. Take the first message in the global order (step, sender,
  receiver) that is not through: its sender has received all of those, so it can go.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from .buffers import slots
from .exchange import Exchange, Progress, Run
from .message import Piece

__all__ = ["Synchronized", "awaited"]

RECEIVE, SEND = 0, 1
Key = TypeVar("Key", int, tuple[int, ...])


def awaited(sends: Sequence[Key], receives: Sequence[Key], unbalanced: bool) -> list[int]:
    """Messages that a process receives before it sends each of its own. Not collective.

    Parameters
    ----------
    sends, receives : sequence of int, or of tuple of int
        The messages' places in the schedule, in ascending order.
    unbalanced : bool
        Whether any process sends more messages than it receives, or fewer.
    """
    return [bisect_left(receives, key) for key in sends] if unbalanced else list(range(len(sends)))


class Synchronized(Exchange):
    """One receive from any source, one message sent, and a wait, step after step (Walker & Otto, Fig 4)."""

    name: ClassVar[str] = "synchronized"

    @functools.cached_property
    def pieces(self) -> tuple[list[Piece], list[Piece], int, int]:
        """Pieces to send and to receive, and the bytes of the largest of either. Not collective."""
        most = self.largest_piece(self.options)
        sends, send_bytes = self.buffers.cut(self.sends, most)
        receives, receive_bytes = self.buffers.cut(self.receives, most)
        return sends, receives, send_bytes, receive_bytes

    @property
    def staging_bytes(self) -> int:
        """Staging memory of one run. Not collective."""
        return sum(self.pieces[2:])

    def begin(self, run: Run) -> Progress:
        """A run, with all the memory that it needs; nothing moves yet. Not collective."""
        return _Steps(self, run)


class _Steps(Progress):
    def __init__(self, exchange: Synchronized, run: Run) -> None:
        super().__init__(exchange, run)
        self._out, self._in = slots(run.staging, exchange.pieces[2:])
        self._received = 0  # messages, of any process
        self._coming: list[Piece] = []  # at most one
        self._requests: list[Any] = [run.channel.nothing, run.channel.nothing]
        self._sending = False

    def start(self, exchange: Exchange, mark: int = 0) -> None:
        """Start the first step. Not collective."""
        assert isinstance(exchange, Synchronized)
        sends, receives, *_ = exchange.pieces
        self._copies, self._received = exchange.copies, 0
        self._sends = sends[::-1]
        sent, received = ([message.key for message in some] for some in (exchange.sends, exchange.receives))
        counts = awaited(sent, received, bool(exchange.options.extents.unbalanced))
        self._awaited = dict(zip(map(id, exchange.sends), counts, strict=True))
        self._from: dict[int, deque[Piece]] = {}
        for piece in receives:
            self._from.setdefault(piece.message.peer, deque()).append(piece)
        self._send()

    def _probe(self) -> None:
        """Receive what has come, from anybody."""
        if self._coming:
            return
        for source in tuple(self._from):
            found = self.channel.probe(source, self.run.tag)
            pieces = self._from.pop(source)
            if found is not None:
                piece = pieces.popleft()
                self._coming.append(piece)
                self._requests[RECEIVE] = found.receive(self.buffers.incoming(self.run, piece, self._in))
            if pieces:
                self._from[source] = pieces  # behind the others
            if found is not None:
                return

    def _arrived(self) -> None:
        """Bring what came to where it belongs."""
        piece = self._coming.pop()
        self.buffers.arrived(self.run, piece, self._in)
        self._received += piece.last == piece.message.last

    def _send(self) -> None:
        """Send the next piece, if the one before is through and its message's turn has come."""
        if not self._sends or self._sending or self._received < self._awaited[id(self._sends[-1].message)]:
            return
        piece, run = self._sends.pop(), self.run
        ready = self.buffers.outgoing(run, piece, self._out)
        self._requests[SEND] = self.channel.send(ready, piece.message.peer, run.tag)
        self._sending = True

    def advance(self, block: bool) -> bool:
        """Unpack what came, send what may go, and copy locally in between. Not collective."""
        while self._from or self._coming or self._sends or self._sending:
            self._probe()
            number = self.channel.first_done(self._requests)
            if number is None:
                if not self.copy_piece():
                    return False
                continue
            if number == RECEIVE:
                self._arrived()
            else:
                self._sending = False
            self._send()
        return self.copy_all()
