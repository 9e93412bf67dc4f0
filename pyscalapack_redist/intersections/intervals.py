"""The blocks that one process holds within the first elements of an axis: what every algorithm here walks over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..layout.blockcyclic import BlockCyclic

__all__ = ["Intervals", "intervals_of"]


class Intervals(NamedTuple):
    """Intervals start + j * stride <= i < start + j * stride + block, 0 <= j < count, cut to 0 <= i < window.

    Attributes
    ----------
    start : int
        First element of the first block; negative where the axis begins inside that block.
    local : int
        Where that element lies in the local array.
    number, block, stride : int
        How many blocks there are, elements in one, and elements from one to the next.
    window : int
        Elements of the axis that are looked at.
    """

    start: int
    local: int
    number: int
    block: int
    stride: int
    window: int

    def cut(self) -> Iterator[tuple[int, int, int]]:
        """Begin and end of each interval, and the distance from an element of it to its place in the local array."""
        start, shift = self.start, self.local - self.start
        for _ in range(self.number):
            end = start + self.block
            yield start if start > 0 else 0, end if end < self.window else self.window, shift
            start += self.stride
            shift += self.block - self.stride


def intervals_of(axis: BlockCyclic, p: int, window: int) -> Intervals:
    """The blocks of process `p` of an axis among its first `window` elements. Not collective."""
    block, processes, offset = axis.block, axis.processes, axis.offset
    stride = block * processes
    first = offset // block
    first += (p - axis.source - first) % processes
    start = first * block - offset
    number = -((start - window) // stride) if window and start < window else 0
    return Intervals(start, first // processes * block, number, block, stride, window)
