"""Windowed: messages in the schedule's order, a few in flight each way, and no lock step.

The schedule of Walker & Otto or of Desprez et al. says who comes first, but nobody waits for a step to end: a process
goes on with its next message as soon as one of the few is through. Order and proof are those of `nonblocking`.
"""

from __future__ import annotations

from typing import ClassVar

from .nonblocking import Nonblocking

__all__ = ["Windowed"]


class Windowed(Nonblocking):
    """The schedule's order without its steps: a window of a few messages."""

    name: ClassVar[str] = "windowed"
    piece = 2**20
    window = 4
    ahead: ClassVar[int] = 32

    def tune(self, piece: int, window: int) -> None:
        """Send at most so many pieces at a time, of so many bytes; before the first run. Not collective."""
        self.piece, self.window = piece, window
