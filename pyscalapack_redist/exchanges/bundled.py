"""Bundled: all that several plans send to a rank as one message of bytes, for arrays of known kinds.

On a node bundles go through the ring, between nodes by MPI as `nonblocking` sends its pieces. What is packed and unpacked
are bundles of boxes (`_bundle.Bundle`) instead of one box; everything else is as in `shared` and `nonblocking`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from .._bundle import Bundle
from .._copy import Box, Runs
from .._traffic import Traffic
from ..node import Node
from .buffers import Packed, Slot, Specification
from .exchange import COPY_PIECE, Progress, Run
from .message import Message, Piece
from .shared import SLOTS, BothWays, Shared, ways

__all__ = ["Bundled"]


class Bundled(Shared):
    """Bundles between this rank and others, through the ring where there is one, else by MPI. Made for one kind of arrays.

    Parameters
    ----------
    rank, size : int
        Which of how many participants this is.
    sends, receives : mapping of int to Bundle
        By the rank of the other process.
    copies : Bundle
        From this rank's arrays to its arrays.
    memory_limit : int
        Most bytes of staging memory on this rank.
    node : Node or None
        The ranks of this node; None to send everything by MPI.
    """

    name: ClassVar[str] = "bundled"

    def __init__(
        self,
        rank: int,
        size: int,
        sends: Mapping[int, Bundle],
        receives: Mapping[int, Bundle],
        copies: Bundle,
        memory_limit: int,
        node: Node | None,
    ) -> None:
        # Each rank sends to the next one first, then to the one after that: the key is the distance.
        out = [_message(peer, one, (peer - rank) % size) for peer, one in sends.items()]
        into = [_message(peer, one, (rank - peer) % size) for peer, one in receives.items()]
        super().__init__(out, into, [], memory_limit, "packed", node)
        bundles = {**{id(one): sends[one.peer] for one in out}, **{id(one): receives[one.peer] for one in into}}
        self.between.buffers = _Bundles(bundles)
        self.bundles = copies, tuple(bundles.values())
        number = {} if node is None or node.ring is None else node.number
        self._by_peer = [
            [(number[one.peer], bundles[id(one)]) for one in some if one.peer in number]
            for some in (self.sends, self.receives)
        ]
        self._largest = max((one.largest_element for one in bundles.values()), default=0)
        self._traffic: Traffic | None = None

    def staging_bytes(self, item: int = 1) -> int:
        """Shared and private staging memory of one run; `item` is 1, for messages are bytes here. Not collective."""
        least = len(self._by_peer[0]) * self._largest
        return max(super().staging_bytes(1), self.private_bytes(1) + least)

    def traffic(self, run: Run) -> Traffic:
        """What goes through the ring. Not collective."""
        assert self._node is not None
        assert self._node.ring is not None
        if self._traffic is None:
            copies = self.bundles[0]
            written = copies.size + sum(one.size for _, one in self._by_peer[1])
            self._traffic = Traffic(
                self._node.ring,
                self._by_peer[0],
                self._by_peer[1],
                [copies],
                limit=self._limit,
                most_slots=SLOTS,
                **ways(written * self._node.ring.size),
            )
        return self._traffic

    def begin(self, run: Run) -> Progress:
        """Start both ways. Collective over the participants, as far as they have messages for one another."""
        return BothWays(self, run) if self.by_ring else _ByMPI(self, run)


def _message(peer: int, bundle: Bundle, key: int) -> Message:
    """A message of as many bytes as the bundle has."""
    start, size = np.zeros(1, np.int64), bundle.size
    row = Runs(start, start, np.array([size]), size, size, size)
    return Message(peer, Box([row]), (key,), 0, size)


class _Bundles(Packed):
    """Staging memory that bundles are gathered into and scattered out of.

    Parameters
    ----------
    bundles : mapping of int to Bundle
        By the `id` of the message that stands for it.
    """

    def __init__(self, bundles: Mapping[int, Bundle]) -> None:
        self._bundles = bundles

    def cut(self, messages: Sequence[Message], item: int, most: int) -> tuple[list[Piece], int]:
        """Pieces of at most `most` bytes, but at least an element, that end between elements. Not collective."""
        pieces = []
        for one in messages:
            first = number = 0
            while first < one.last:
                last = self._bundles[id(one)].end_of_piece(first, most)
                pieces.append(Piece(one, first, last, last - first, number))
                first, number = last, number + 1
        return pieces, max((one.nbytes for one in pieces), default=0)

    def outgoing(self, run: Run, piece: Piece, slot: Slot) -> Specification:
        """Gather a piece out of the local arrays. Not collective."""
        self._bundles[id(piece.message)].move(run.origins, slot.address, piece.first, piece.last)
        return slot.memory, piece.nbytes, self.byte

    def arrived(self, run: Run, piece: Piece, slot: Slot) -> None:
        """Scatter a piece into the local arrays. Not collective."""
        self._bundles[id(piece.message)].move(run.origins, slot.address, piece.first, piece.last)


class _ByMPI(BothWays):
    """A rank without a ring: what stays on it is copied between two looks at the messages."""

    def __init__(self, exchange: Bundled, run: Run) -> None:
        super().__init__(exchange, run)
        self._staying, self._copied = exchange.bundles[0], 0

    def advance(self, block: bool) -> bool:
        """Go on. Not collective."""
        while self._copied < self._staying.size:
            last = self._staying.end_of_piece(self._copied, COPY_PIECE)
            self._staying.move(self.run.origins, 0, self._copied, last)
            self._copied = last
            done = super().advance(False)
            if not block:
                return done and self._copied == self._staying.size
        return super().advance(block)
