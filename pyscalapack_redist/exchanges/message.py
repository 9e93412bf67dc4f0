"""Messages, as planned in elements and as sent in bytes, and the pieces in which they go where memory is limited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .._kernels.boxes import Box
from .._kernels.bundle import Bundle

# Bytes in one message, or in one round of a collective: counts and displacements are 32-bit in MPI 3.
LARGEST_COUNT = 2**30

__all__ = ["Boxes", "ByteMessage", "Form", "Message", "Piece", "pieces_of"]


class Boxes(NamedTuple):
    """Boxes of several local arrays, one behind another, as one.

    Attributes
    ----------
    parts : tuple of (int, Box)
        Each box, and the number of its arrays among those of its move (`Move.arrays`).
    size : int
        Number of elements.
    """

    parts: tuple[tuple[int, Box], ...]
    size: int


class Message(NamedTuple):
    """What one process owes another in one step: all of it, in most schedules.

    Attributes
    ----------
    peer : int
        Rank of the other process in the group.
    box : Box or Boxes
        All elements that the two share: from the local array to a dense buffer in a message to send, the other way in
        one to receive, between local arrays in a copy.
    key : tuple of int
        Place in the schedule; the same for sender and receiver.
    first, last : int
        The part of the box's elements that goes in this step.
    """

    peer: int
    box: Box | Boxes
    key: tuple[int, ...]
    first: int
    last: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.last - self.first


class Form(NamedTuple):
    """The elements of a message in the user's array, for a derived datatype."""

    box: Box
    strides: tuple[int, ...]
    item: int
    order: tuple[int, ...]


class ByteMessage(NamedTuple):
    """A message for arrays of one kind.

    Attributes
    ----------
    peer : int
        Rank of the other process in the group.
    key : tuple of int
        Place in the schedule; the same for sender and receiver.
    bundle : Bundle
        All that the two processes share, numbered by bytes.
    first, last : int
        The part of the bundle's bytes that goes in this step.
    form : Form or None
        The same elements as one box, where they are of one array.
    """

    peer: int
    key: tuple[int, ...]
    bundle: Bundle
    first: int
    last: int
    form: Form | None

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.last - self.first


class Piece(NamedTuple):
    """Bytes `first` to `last` of a message's bundle, and the staging memory for them; `number` counts the message's pieces."""

    message: ByteMessage
    first: int
    last: int
    nbytes: int
    number: int


def pieces_of(messages: Iterable[ByteMessage], most: int) -> list[Piece]:
    """Messages, in their order, cut between elements into pieces of at most `most` bytes (but at least an element)."""
    made = []
    for message in messages:
        first, number = message.first, 0
        while first < message.last:
            last = min(message.bundle.end_of_piece(first, most), message.last)
            made.append(Piece(message, first, last, last - first, number))
            first, number = last, number + 1
    return made
