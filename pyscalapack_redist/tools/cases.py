"""Arrays and their layouts as the command line writes them: PRxPC:MBxNB[@RSRC,CSRC][+FIRST], in any number of dimensions.

A block size may be the word balanced: one block for each process, of sizes that differ by one at most. Alone it is for all
dimensions.

Where arrays are moved, /MxN@IA,JA may follow (what is moved is a sub-array, at IA, JA of a whole array of M x N), and /C
(local arrays are in C order).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..comm.mpi import MPI
from ..errors import DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .text import counted

__all__ = ["BALANCED", "Case", "Layout", "read_dtype"]

NOTATION = "PRxPC:MBxNB[@RSRC,CSRC][+FIRST], as in 2x4:64x64 or 4x2:32x32@1,0+8"
BALANCED = "balanced"
ENDINGS = "/MxN@IA,JA for a sub-array at IA, JA of a whole array of M x N, /C for local arrays in C order"


@dataclass(frozen=True)
class Layout:
    """A grid of processes and how an array is dealt out over it. Not collective.

    Attributes
    ----------
    grid, source : tuple of int
        Processes, and process coordinate of the first block, along each dimension.
    block : tuple of int or "balanced"
        Block size along each dimension.
    first : int
        Rank of the grid's first process; the others follow row by row.
    whole, offset : tuple of int
        Of a sub-array: the whole array's shape, and where in it the sub-array starts, from 0. Empty where the array is
        whole.
    order : {"F", "C"}
        Memory order of the local arrays.
    """

    grid: tuple[int, ...]
    block: tuple[Any, ...]
    source: tuple[int, ...]
    first: int = 0
    whole: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()
    order: str = "F"

    @classmethod
    def parse_operand(cls, text: str) -> Layout:
        """Read the notation with all its endings: that of one side of a redistribution.

        Raises
        ------
        DescriptorError
            Quotes the part that is wrong and says what it must be.
        """
        start, *endings = text.split("/")
        layout = cls.parse(start)
        order = endings.pop() if endings[-1:] in (["C"], ["F"]) else "F"
        if not endings:
            return dataclasses.replace(layout, order=order)
        if len(endings) > 1 or "@" not in endings[0]:
            raise DescriptorError(f"layout {text!r} ends in {'/'.join(endings)!r}: there are {ENDINGS}, in this order")
        shape, _, corner = endings[0].partition("@")
        whole = _numbers(text, "whole shape", shape, "x", 0, (start, layout.ndim))
        offset = _numbers(text, "sub-array's start", corner, ",", 0, (start, layout.ndim))
        return dataclasses.replace(layout, whole=whole, offset=offset, order=order)

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Read the notation without endings: the layout of a whole array. Raises as `parse_operand`."""
        rest, plus, first = text.partition("+")
        rest, at, source = rest.partition("@")
        grid, colon, block = rest.partition(":")
        if not colon:
            raise DescriptorError(f"layout {text!r} has no block size: it must be {NOTATION}")
        processes = _numbers(text, "grid", grid, "x", 1)
        expected = grid, len(processes)
        every = "x".join([block] * len(processes)) if block == BALANCED else block
        blocks = _numbers(text, "block size", every, "x", 1, expected, BALANCED)
        sources = _numbers(text, "source process", source, ",", 0, expected) if at else (0,) * len(processes)
        for coordinate, size, cut in zip(sources, processes, blocks, strict=True):
            if coordinate and cut == BALANCED:
                raise DescriptorError(
                    f"layout {text!r}: the source process {source!r} must be 0 along a dimension of balanced blocks"
                )
            if coordinate >= size:
                raise DescriptorError(
                    f"layout {text!r}: the source process {source!r} is outside the grid {grid!r}: {coordinate} must be "
                    f"below {size}"
                )
        return cls(processes, blocks, sources, _numbers(text, "first rank", first, None, 0)[0] if plus else 0)

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

    def whole_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the whole array, where `shape` of it is moved."""
        return self.whole or shape

    def misfit(self, shape: tuple[int, ...]) -> str | None:
        """Why an array of this shape cannot be moved from or to this layout; None where it can."""
        if self.ndim != len(shape):
            dims = f"{self.ndim} dimensions and the shape {shape} has {len(shape)}"
            return f"the layout {self} has {dims}: they must have as many"
        ends = [o + n for o, n in zip(self.offset, shape, strict=False)]
        if any(end > n for end, n in zip(ends, self.whole, strict=False)):
            return f"the layout {self} has no room for a sub-array of the shape {shape}: it would end at {tuple(ends)}"
        return None

    def largest_part(self, shape: tuple[int, ...]) -> int:
        """The most elements of the whole array that one process can have, its last blocks taken as full."""
        dims = zip(self.whole_shape(shape), self.block, self.grid, strict=True)
        return math.prod(
            -(-n // processes) if block == BALANCED else min(n, -(-n // (block * processes)) * block)
            for n, block, processes in dims
        )

    def coords(self, rank: int) -> tuple[int, ...] | None:
        """Where a rank stands in the grid; None outside it."""
        place = rank - self.first
        return tuple(map(int, np.unravel_index(place, self.grid))) if 0 <= place < self.size else None

    def descriptor(self, shape: tuple[int, ...], comm: MPI.Intracomm | None) -> Descriptor:
        """The Descriptor of an array of this layout and shape; a sub-array's where it is one.

        Raises
        ------
        DescriptorError
            The communicator has too few ranks.
        """
        places = self.first + np.arange(self.size).reshape(self.grid)
        grid = ProcessGrid(self.grid, comm, ranks=places)
        whole = Descriptor(self.whole_shape(shape), self.block, grid, source=self.source)
        return whole[tuple(slice(o, o + n) for o, n in zip(self.offset, shape, strict=True))] if self.whole else whole

    def __str__(self) -> str:
        source = "@" + _joined(self.source, ",") if any(self.source) else ""
        first = f"+{self.first}" if self.first else ""
        part = f"/{_joined(self.whole, 'x')}@{_joined(self.offset, ',')}" if self.whole else ""
        order = "/C" if self.order == "C" else ""
        block = BALANCED if set(self.block) == {BALANCED} else _joined(self.block, "x")
        return f"{_joined(self.grid, 'x')}:{block}{source}{first}{part}{order}"


def _joined(numbers: tuple[Any, ...], separator: str) -> str:
    return separator.join(map(str, numbers))


def _numbers(
    text: str,
    name: str,
    part: str,
    separator: str | None,
    least: int,
    expected: tuple[str, int] | None = None,
    word: str | None = None,
) -> tuple[Any, ...]:
    """Whole numbers joined by the separator, a single one for None; `expected` is the grid's text and how many.

    A number may be the word.
    """
    pieces = part.split(separator) if separator else [part]
    if not all(piece == word or (piece.isdecimal() and int(piece) >= least) for piece in pieces):
        many = f"whole numbers of at least {least} joined by {separator!r}, one for each dimension"
        kind = many if separator else f"a whole number of at least {least}"
        raise DescriptorError(f"layout {text!r}: the {name} {part!r} must be {kind}. The notation is {NOTATION}")
    if expected and len(pieces) != expected[1]:
        raise DescriptorError(
            f"layout {text!r}: the {name} {part!r} must have one number for each dimension of the grid {expected[0]!r}"
        )
    return tuple(piece if piece == word else int(piece) for piece in pieces)


@dataclass(frozen=True)
class Case:
    """An array of a global shape and dtype that goes from one layout to another.

    Raises DescriptorError where the layouts are not of the array's number of dimensions, or a sub-array does not fit.
    """

    shape: tuple[int, ...]
    before: Layout
    after: Layout
    dtype: np.dtype[np.generic] = np.dtype(np.float64)  # noqa: RUF009 (a dtype is immutable)

    def __post_init__(self) -> None:
        for layout in (self.before, self.after):
            misfit = layout.misfit(self.shape)
            if misfit is not None:
                raise DescriptorError(misfit)

    @classmethod
    def read(cls, shape: tuple[int, ...], before: str, after: str, dtype: np.dtype[np.generic] | str = "f8") -> Case:
        """The case with its layouts in the notation of the command line. Not collective."""
        return cls(shape, Layout.parse_operand(before), Layout.parse_operand(after), np.dtype(dtype))

    @property
    def ranks(self) -> int:
        """Ranks that it needs."""
        return max(self.before.end, self.after.end)

    @property
    def elements(self) -> int:
        """Elements that are moved."""
        return math.prod(self.shape)

    @property
    def local_elements(self) -> int:
        """Elements of a local array, about the most of all processes and of both layouts."""
        return max(self.before.largest_part(self.shape), self.after.largest_part(self.shape))

    @property
    def array(self) -> str:
        """Shape and dtype in words."""
        return f"{' x '.join(map(str, self.shape))} {str(self.dtype).lstrip('|')}"

    def __str__(self) -> str:
        return f"{self.array}, {self.before} -> {self.after}, {counted(self.ranks, 'rank')}"


def read_dtype(text: str) -> np.dtype[np.generic]:
    """The dtype of that name, if an array of it can be redistributed and checked byte by byte. Not collective.

    Raises
    ------
    ValueError
        There is none, or its elements are Python objects or of no size.
    """
    try:
        dtype = np.dtype(text)
    except TypeError as error:
        raise ValueError(f"{text!r} is not a NumPy dtype ({error}): give float64, complex64, int8, V24, ...") from None
    if dtype.hasobject or not dtype.itemsize or dtype.names or dtype.subdtype:
        raise ValueError(
            f"elements of {text!r} are Python objects, of no size, or records: give float64, complex64, int8, ..., or, for "
            "records of 24 bytes, V24"
        )
    return dtype
