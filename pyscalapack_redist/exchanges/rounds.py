"""Exchanges in rounds, of which all processes make the same number: what collective calls need.

In each round every message gives a piece of the same length, or what is left of it. The length is such that the process
with most messages has room for a piece of each; it and the number of rounds follow from numbers that all ranks know.
"""

from __future__ import annotations

import functools
from typing import ClassVar

from .exchange import Exchange, Options
from .message import Piece

__all__ = ["InRounds", "Round"]

Round = tuple[list[Piece], list[Piece]]


class InRounds(Exchange):
    """Pieces to send and to receive, round after round."""

    collective: ClassVar[bool] = True
    in_turn: ClassVar[bool] = True

    @classmethod
    def largest_piece(cls, options: Options) -> int:
        """Most bytes of a piece, so that a round has room for one of each message. Not collective: the same on all ranks."""
        return super().largest_piece(options) // max(1, options.extents.messages)

    @functools.cached_property
    def rounds(self) -> list[Round]:
        """Pieces to send and to receive in each round. Equal in number on all ranks."""
        options = self.options
        extents, item = options.extents, options.item
        length = max(1, self.largest_piece(options) // item)
        if self.buffers.name == "datatypes":
            length = max(1, extents.elements)
        made: list[Round] = [([], []) for _ in range(-(-extents.elements // length))]
        for side, messages in enumerate((self.sends, self.receives)):
            for piece in self.buffers.cut(messages, length * item)[0]:
                made[piece.number][side].append(piece)
        return made

    @property
    def staging_bytes(self) -> int:
        """Staging memory of one run: that of the first round. Not collective."""
        return sum(piece.nbytes for some in self.rounds[:1] for pieces in some for piece in pieces)
