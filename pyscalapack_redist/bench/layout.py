"""Layouts as the command line writes them: PRxPC:MBxNB[@RSRC,CSRC][+FIRST], with any number of dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..descriptor import Descriptor
from ..errors import DescriptorError
from ..grid import ProcessGrid

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Layout"]

NOTATION = "PRxPC:MBxNB[@RSRC,CSRC][+FIRST], as in 2x4:64x64 or 4x2:32x32@1,0+8"


@dataclass(frozen=True)
class Layout:
    """A grid of processes and how an array is dealt out over it. Not collective.

    Attributes
    ----------
    grid, block, source : tuple of int
        Processes, block size and process coordinate of the first block, along each dimension.
    first : int
        Rank of the grid's first process; the others follow row by row.
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    source: tuple[int, ...]
    first: int = 0

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Read the notation.

        Raises
        ------
        DescriptorError
            Quotes the part that is wrong and says what it must be.
        """
        rest, plus, first = text.partition("+")
        rest, at, source = rest.partition("@")
        grid, colon, block = rest.partition(":")
        if not colon:
            raise DescriptorError(f"layout {text!r} has no block size: it must be {NOTATION}")
        processes = _numbers(text, "grid", grid, "x", 1)
        blocks = _numbers(text, "block size", block, "x", 1)
        sources = _numbers(text, "source process", source, ",", 0) if at else (0,) * len(processes)
        for name, part, values in (("block size", block, blocks), ("source process", source, sources)):
            if len(values) != len(processes):
                raise DescriptorError(
                    f"layout {text!r}: the {name} {part!r} must have one number for each dimension of the grid {grid!r}"
                )
        for coordinate, size in zip(sources, processes, strict=True):
            if coordinate >= size:
                raise DescriptorError(
                    f"layout {text!r}: the source process {source!r} is outside the grid {grid!r}: {coordinate} must be "
                    f"below {size}"
                )
        start = _numbers(text, "first rank", first, None, 0)[0] if plus else 0
        return cls(processes, blocks, sources, start)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.grid)

    @property
    def size(self) -> int:
        """Number of processes."""
        return math.prod(self.grid)

    @property
    def end(self) -> int:
        """One more than the last rank."""
        return self.first + self.size

    def largest_part(self, shape: tuple[int, ...]) -> int:
        """The most elements of an array of this shape that one process can have, its last blocks taken as full."""
        dims = zip(shape, self.block, self.grid, strict=True)
        return math.prod(min(n, -(-n // (block * processes)) * block) for n, block, processes in dims)

    def coords(self, rank: int) -> tuple[int, ...] | None:
        """Where a rank stands in the grid; None outside it."""
        place = rank - self.first
        if not 0 <= place < self.size:
            return None
        found: list[int] = []
        for size in reversed(self.grid):
            place, coordinate = divmod(place, size)
            found.append(coordinate)
        return tuple(reversed(found))

    def descriptor(self, shape: tuple[int, ...], comm: MPI.Intracomm | None) -> Descriptor:
        """The Descriptor of an array of this layout.

        Raises
        ------
        DescriptorError
            The communicator has too few ranks.
        """
        places = self.first + np.arange(self.size).reshape(self.grid)
        return Descriptor(shape, self.block, ProcessGrid(self.grid, comm, ranks=places), source=self.source)

    def __str__(self) -> str:
        source = "@" + ",".join(map(str, self.source)) if any(self.source) else ""
        first = f"+{self.first}" if self.first else ""
        return f"{'x'.join(map(str, self.grid))}:{'x'.join(map(str, self.block))}{source}{first}"


def _numbers(text: str, name: str, part: str, separator: str | None, least: int) -> tuple[int, ...]:
    """Whole numbers of at least `least`, joined by the separator; a single one for None."""
    pieces = part.split(separator) if separator else [part]
    if all(piece.isdecimal() and int(piece) >= least for piece in pieces):
        return tuple(map(int, pieces))
    many = f"whole numbers of at least {least} joined by {separator!r}"
    raise DescriptorError(
        f"layout {text!r}: the {name} {part!r} must be "
        + (f"{many}, one for each dimension" if separator else f"a whole number of at least {least}")
        + f". The notation is {NOTATION}"
    )
