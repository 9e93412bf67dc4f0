"""What every exchange is: messages turned into a transfer that can be advanced until it is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from .message import Message, Piece, dense_strides, pieces_of

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["COPY_PIECE", "Exchange", "LocalArray", "Progress", "Run"]

COPY_PIECE = 512 * 1024  # bytes of a local copy between two looks at the messages


class LocalArray(NamedTuple):
    """A local array as the kernels see it: address of element (0, 0, ...) and strides in bytes."""

    address: int
    strides: tuple[int, ...]


@dataclass
class Run:
    """One use of a plan: arrays, bytes of an element, order of dimensions in messages, tag and staging memory."""

    comm: MPI.Intracomm
    tag: int
    source: LocalArray
    target: LocalArray
    item: int
    order: tuple[int, ...]
    staging: np.ndarray


class Exchange(ABC):
    """The messages of one rank, and a way of moving them.

    Parameters
    ----------
    sends, receives, copies : sequence of Message
        What this rank sends, receives, and copies from its own A to its own B.
    memory_limit : int
        Most bytes of staging memory on this rank.
    """

    name: ClassVar[str]
    needs_one_port: ClassVar[bool] = False

    def __init__(
        self, sends: Sequence[Message], receives: Sequence[Message], copies: Sequence[Message], memory_limit: int
    ) -> None:
        self.sends, self.receives, self.copies = tuple(sends), tuple(receives), tuple(copies)
        self.memory_limit = memory_limit
        self._made: dict[int, Any] = {}

    @abstractmethod
    def staging_bytes(self, item: int) -> int:
        """Staging memory of one run with elements of `item` bytes. Not collective."""

    @abstractmethod
    def begin(self, run: Run) -> Progress:
        """Start moving. Collective over the participants, as far as they have messages for one another."""

    def _cut(self, messages: Sequence[Message], item: int, most: int) -> tuple[list[Piece], int]:
        """Pieces of at most `most` bytes, and the bytes of the largest."""
        pieces = pieces_of(messages, item, most)
        return pieces, max((one.nbytes for one in pieces), default=0)


class Progress(ABC):
    """A transfer under way. The local copies are done here, between the messages."""

    def __init__(self, exchange: Exchange, run: Run) -> None:
        self.run = run
        self._copies = pieces_of(exchange.copies, run.item, COPY_PIECE)[::-1]

    @abstractmethod
    def advance(self, block: bool) -> bool:
        """Do what can be done now, or all of it if `block`; True when the transfer is complete."""

    def copy_piece(self) -> bool:
        """Copy one piece from the local A to the local B; False when none is left."""
        if not self._copies:
            return False
        piece, run = self._copies.pop(), self.run
        piece.message.box.move(*run.source, *run.target, run.item, run.order, piece.first, piece.last)
        return True

    def pack(self, piece: Piece, address: int) -> None:
        """Gather a piece out of the local A into staging memory at `address`."""
        run, box = self.run, piece.message.box
        dense = dense_strides(box.shape(), run.order, run.item)
        box.move(*run.source, address - piece.first * run.item, dense, run.item, run.order, piece.first, piece.last)

    def unpack(self, piece: Piece, address: int) -> None:
        """Scatter a piece from staging memory at `address` into the local B."""
        run, box = self.run, piece.message.box
        dense = dense_strides(box.shape(), run.order, run.item)
        box.move(address - piece.first * run.item, dense, *run.target, run.item, run.order, piece.first, piece.last)
