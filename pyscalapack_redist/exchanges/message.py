"""Messages, and the pieces in which they go where memory is limited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .._copy import Box

__all__ = ["Message", "Piece", "dense_strides", "pieces_of"]


class Message(NamedTuple):
    """What one process owes another in one step: all of it, in most schedules.

    Attributes
    ----------
    peer : int
        Rank of the other process in the participants' communicator.
    box : Box
        All elements that the two share: from the local array to a dense buffer in a message to send, the other way in
        one to receive, between local arrays in a copy.
    key : tuple of int
        Place in the schedule; the same for sender and receiver.
    first, last : int
        The part of the box's elements that goes in this step.
    """

    peer: int
    box: Box
    key: tuple[int, ...]
    first: int
    last: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.last - self.first


class Piece(NamedTuple):
    """Elements `first` to `last` of a message, and their bytes; `number` counts the pieces of the message."""

    message: Message
    first: int
    last: int
    nbytes: int
    number: int


def pieces_of(messages: Iterable[Message], item: int, most_bytes: int) -> list[Piece]:
    """Messages, in their order, cut into pieces of at most `most_bytes` (but at least an element)."""
    step = max(1, most_bytes // item)
    return [
        Piece(one, first, min(first + step, one.last), (min(first + step, one.last) - first) * item, number)
        for one in messages
        for number, first in enumerate(range(one.first, one.last, step))
    ]


def dense_strides(shape: Sequence[int], order: Sequence[int], item: int) -> list[int]:
    """Strides in bytes of a dense buffer whose dimensions run in the given order, the fastest first."""
    strides = [0] * len(shape)
    for k in order:
        strides[k] = item
        item *= shape[k]
    return strides
