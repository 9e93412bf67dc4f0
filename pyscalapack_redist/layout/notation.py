"""Layouts as texts, PRxPC:MBxNB[@RSRC,CSRC][+FIRST] in any number of dimensions, which a shape and a communicator complete.

A block size may be the word balanced: one block for each process, of sizes that differ by one at most. Alone it is for all
dimensions. It may also be the sizes of all blocks, joined by commas, SIZE for the next process or SIZEpPROCESS each. A
number of the grid that ends in c is of replicas: along that dimension of the grid all processes hold the same elements.

Functions that take a layout also take the words rows and columns. For the sides of a redistribution on the command line,
/MxN@IA,JA may follow (a sub-array, at IA, JA of a whole array of M x N), and /C (local arrays are in C order).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..comm.mpi import MPI
from ..errors import DescriptorError, shown
from .axis import LARGEST, Blocks
from .descriptor import Descriptor
from .dimensions import BALANCED
from .grid import ProcessGrid

NOTATION = "PRxPC:MBxNB[@RSRC,CSRC][+FIRST], as in 2x4:64x64 or 4x2:32x32@1,0+8"
NOTATION_OF_COPIES = "one number for each dimension of the array as well, as in 2x2x3c:64x64 for three replicas"
SLABS = {"rows": 0, "columns": -1}  # the words for whole slabs, and the dimension that is distributed
SLABS_OF_FOUR = {"rows": "4x1:balanced", "columns": "1x4:balanced"}
GRAMMAR = f"'rows', 'columns', or {NOTATION}, a block size also as 'balanced', as in '4x1:balanced'"
IRREGULAR = re.compile(r"\d+(p\d+)?(,\d+(p\d+)?)+|\d+p\d+")
COPIES, OWNER = "c", "p"
TILES = "tiles="
ENDINGS = "/MxN@IA,JA for a sub-array at IA, JA of a whole array of M x N, /C for local arrays in C order"


def check_layout_text(name: str, text: object) -> None:
    """Check a layout as a text, whatever the shape. Not collective; raises as `layout_from_text`."""
    if not isinstance(text, str) or (text not in SLABS and ":" not in text):
        raise DescriptorError(f"{name} = {shown(text)} must be {GRAMMAR}")
    if text in SLABS:
        return
    try:
        LayoutText.parse(text)
    except DescriptorError as error:
        why = str(error).replace(f"layout {text!r}", f"{name} = {text!r}", 1)
        raise DescriptorError(why if NOTATION in why else f"{why}. It must be {GRAMMAR}") from None


def layout_from_text(name: str, text: Any, shape: Sequence[int], comm: MPI.Intracomm | None) -> Descriptor:
    """The layout of a whole array by a text, on the first ranks of a communicator. Not collective.

    Raises
    ------
    DescriptorError
        The argument `name` is no such text, or does not fit the shape or the number of ranks; the text says what it must be.
    """
    check_layout_text(name, text)
    if text in SLABS:
        processes = 1 if comm is None else comm.Get_size()
        along = SLABS[text] % len(shape)
        return Descriptor(shape, BALANCED, ProcessGrid([processes if k == along else 1 for k in range(len(shape))], comm))
    layout = LayoutText.parse(text)
    if misfit := layout.misfit(tuple(shape)):
        raise DescriptorError(f"{name} = {text!r}: {misfit}")
    if comm is not None and layout.end > comm.Get_size():
        raise DescriptorError(
            f"{name} = {text!r} is on ranks {layout.first} to {layout.end - 1}, but the communicator has {comm.Get_size()} "
            "ranks: start more, or choose a smaller grid"
        )
    return layout.descriptor(tuple(shape), comm)


@dataclass(frozen=True)
class LayoutText:
    """A grid of processes and the distribution of an array over it.

    Attributes
    ----------
    grid, source : tuple of int
        Processes, and process coordinate of the first block, along each dimension of the array.
    block : tuple of int, "balanced" or Blocks
        Block size along each dimension.
    first : int
        Rank of the grid's first process; the others follow row by row.
    whole, offset : tuple of int
        Of a sub-array: the whole array's shape, and where in it the sub-array starts, from 0. Empty where the array is
        whole.
    order : {"F", "C"}
        Memory order of the local arrays.
    copied : tuple of (int, int)
        Dimensions of the process grid along which the processes hold replicas, ascending: number of the dimension, and
        processes along it.
    tiled : bool
        Whether a process has a list of local arrays, one for each of its tiles.
    """

    tiled: ClassVar[bool] = False
    grid: tuple[int, ...]
    block: tuple[Any, ...]
    source: tuple[int, ...]
    first: int = 0
    whole: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()
    order: str = "F"
    copied: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse_operand(cls, text: str) -> LayoutText:
        """Read the notation with all its endings: that of one side of a redistribution.

        Raises
        ------
        DescriptorError
            Quotes the part that is wrong and says what it must be.
        """
        start, *endings = [text] if TILES in text else text.split("/")
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
    def parse(cls, text: str) -> LayoutText:
        """Read the notation without endings: the layout of a whole array. Raises as `parse_operand`."""
        if TILES in text:
            raise DescriptorError(
                f"layout {text!r} is of tiles, which only pyscalapack-redist bench takes: here it must be {NOTATION}. "
                "pyscalapack_redist.Tiles(...).owner(i, j) says who owns what, and the report() of a plan what moves"
            )
        rest, plus, first = text.partition("+")
        rest, at, source = rest.partition("@")
        grid, colon, block = rest.partition(":")
        if text in SLABS:
            raise DescriptorError(f"layout {text!r} does not say of how many ranks: {text} of 4 are {SLABS_OF_FOUR[text]}")
        if not colon:
            raise DescriptorError(f"layout {text!r} has no block size: it must be {NOTATION}")
        marked = [part for part in grid.split("x") if part.endswith(COPIES)]
        plain = "x".join(part for part in grid.split("x") if part not in marked)
        if marked and not plain:
            raise DescriptorError(f"layout {text!r}: the grid {grid!r} has replicas only: {NOTATION_OF_COPIES}")
        processes = _numbers(text, "grid", plain, "x", 1)
        copies = iter(
            _numbers(text, "number of replicas", "x".join(marked).replace(COPIES, ""), "x", 1) if marked else ()
        )
        copied = tuple((k, next(copies)) for k, part in enumerate(grid.split("x")) if part.endswith(COPIES))
        expected = grid, len(processes)
        every = "x".join([block] * len(processes)) if block == BALANCED else block
        blocks = _block_sizes(text, every, processes, expected)
        sources = _numbers(text, "source process", source, ",", 0, expected) if at else (0,) * len(processes)
        for coordinate, size, cut in zip(sources, processes, blocks, strict=True):
            if coordinate and not isinstance(cut, int):
                kind = "balanced" if cut == BALANCED else "irregular"
                raise DescriptorError(
                    f"layout {text!r}: the source process {source!r} must be 0 along a dimension of {kind} blocks"
                )
            if coordinate >= size:
                raise DescriptorError(
                    f"layout {text!r}: the source process {source!r} is outside the grid {grid!r}: {coordinate} must be "
                    f"below {size}"
                )
        number = _numbers(text, "first rank", first, None, 0)[0] if plus else 0
        return cls(processes, blocks, sources, number, copied=copied)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.grid)

    @property
    def size(self) -> int:
        """Number of processes, those that hold replicas included."""
        return math.prod(self.process_grid)

    @property
    def process_grid(self) -> tuple[int, ...]:
        """Processes along each dimension of the process grid, those of replicas included."""
        sizes = list(self.grid)
        for k, processes in self.copied:
            sizes.insert(k, processes)
        return tuple(sizes)

    @property
    def axes(self) -> tuple[int, ...]:
        """Dimension of the process grid over which each dimension of the array is spread."""
        places = dict(self.copied)
        return tuple(k for k in range(len(self.process_grid)) if k not in places)

    @property
    def end(self) -> int:
        """One more than the last rank."""
        return self.first + self.size

    def whole_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the whole array, of which `shape` is moved."""
        return self.whole or shape

    def misfit(self, shape: tuple[int, ...]) -> str | None:
        """Why an array of this shape cannot have this layout; None if it can."""
        if self.ndim != len(shape):
            dims = f"{self.ndim} dimensions and the shape {shape} has {len(shape)}"
            return f"the layout {self} has {dims}: they must have as many"
        for k, (n, block) in enumerate(zip(self.whole_shape(shape), self.block, strict=True)):
            if isinstance(block, Blocks) and block.total != n:
                return f"the layout {self} has blocks of {block.total} elements along dimension {k}, which has {n}"
        ends = [o + n for o, n in zip(self.offset, shape, strict=False)]
        if any(end > n for end, n in zip(ends, self.whole, strict=False)):
            return f"the layout {self} has no room for a sub-array of the shape {shape}: it would end at {tuple(ends)}"
        return None

    def largest_part(self, shape: tuple[int, ...]) -> int:
        """The most elements of the whole array that one process has."""
        dims = Descriptor(self.whole_shape(shape), self.block, ProcessGrid(self.grid)).distributions
        return math.prod(max(map(axis.local_size, range(axis.processes))) for axis in dims)

    def coords(self, rank: int) -> tuple[int, ...] | None:
        """Process coordinates of a rank along each dimension of the array; None outside the grid."""
        number = rank - self.first
        if not 0 <= number < self.size:
            return None
        coords = np.unravel_index(number, self.process_grid)
        return tuple(int(coords[k]) for k in self.axes)

    def descriptor(self, shape: tuple[int, ...], comm: MPI.Intracomm | None) -> Descriptor:
        """The Descriptor of an array of this layout and shape, or of the sub-array.

        Raises
        ------
        DescriptorError
            The communicator has too few ranks.
        """
        ranks = self.first + np.arange(self.size).reshape(self.process_grid)
        grid = ProcessGrid(self.process_grid, comm, ranks=ranks)
        whole = Descriptor(self.whole_shape(shape), self.block, grid, source=self.source, axes=self.axes)
        return whole[tuple(slice(o, o + n) for o, n in zip(self.offset, shape, strict=True))] if self.whole else whole

    def __str__(self) -> str:
        source = "@" + _joined(self.source, ",") if any(self.source) else ""
        first = f"+{self.first}" if self.first else ""
        part = f"/{_joined(self.whole, 'x')}@{_joined(self.offset, ',')}" if self.whole else ""
        order = "/C" if self.order == "C" else ""
        block = BALANCED if set(self.block) == {BALANCED} else _joined(tuple(map(_block_text, self.block)), "x")
        copied = dict(self.copied)
        grid = "x".join(f"{n}{COPIES if k in copied else ''}" for k, n in enumerate(self.process_grid))
        return f"{grid}:{block}{source}{first}{part}{order}"


def _joined(numbers: tuple[Any, ...], separator: str) -> str:
    return separator.join(map(str, numbers))


def _block_text(block: Any) -> str:
    """A block size, balanced, or the sizes of all blocks with their processes."""
    if not isinstance(block, Blocks):
        return str(block)
    return ",".join(f"{n}{OWNER}{p}" for n, p in zip(block.sizes.tolist(), block.owners.tolist(), strict=True))


def _block_sizes(text: str, part: str, processes: tuple[int, ...], expected: tuple[str, int]) -> tuple[Any, ...]:
    """The block size of each dimension; `expected` as for `_numbers`."""
    sizes = _numbers(text, "block size", part, "x", 1, expected, words=True)
    return tuple(
        _blocks(text, size, count) if isinstance(size, str) and size != BALANCED else size
        for size, count in zip(sizes, processes, strict=True)
    )


def _blocks(text: str, piece: str, processes: int) -> Blocks:
    sizes, owners = [], []
    for k, entry in enumerate(piece.split(",")):
        size, _, owner = entry.partition(OWNER)
        sizes.append(int(size))
        owners.append(int(owner) if owner else k)
    if max(owners) >= processes:
        raise DescriptorError(
            f"layout {text!r}: the blocks {piece!r} are also of process {max(owners)} along a dimension of {processes}: give a "
            "size for each process at most, or SIZEpPROCESS with processes from 0 on, as 9p2,4p0"
        )
    if sum(sizes) > LARGEST:
        raise DescriptorError(f"layout {text!r}: the blocks {piece!r} must be of 2**62 elements in all, at most")
    return Blocks(sizes, owners)


def _numbers(
    text: str,
    name: str,
    part: str,
    separator: str | None,
    least: int,
    expected: tuple[str, int] | None = None,
    words: bool = False,
) -> tuple[Any, ...]:
    """Whole numbers joined by the separator, a single one for None; `expected` is the grid's text and how many.

    With `words` a number may also be balanced or the sizes of all blocks, which stay text.
    """
    pieces = part.split(separator) if separator else [part]
    is_text = [words and (piece == BALANCED or bool(IRREGULAR.fullmatch(piece))) for piece in pieces]
    if not all(
        some or (piece.isdecimal() and int(piece) >= least) for some, piece in zip(is_text, pieces, strict=True)
    ):
        many = f"whole numbers of at least {least} joined by {separator!r}, one for each dimension"
        kind = many if separator else f"a whole number of at least {least}"
        if words:
            kind += f", {BALANCED}, or the sizes of all blocks, as 9,4,7 or 9p2,4p0,7p2"
        raise DescriptorError(f"layout {text!r}: the {name} {part!r} must be {kind}. The notation is {NOTATION}")
    for some, piece in zip(is_text, pieces, strict=True):
        if not some and int(piece) > LARGEST:
            raise DescriptorError(
                f"layout {text!r}: the {name} {part!r} has {piece}, which must be at most 2**62, this package's largest index"
            )
    if expected and len(pieces) != expected[1]:
        of = f"{expected[0]!r} but those of replicas, which end in c" if COPIES in expected[0] else repr(expected[0])
        raise DescriptorError(
            f"layout {text!r}: the {name} {part!r} must have one number for each dimension of the grid {of}"
        )
    return tuple(piece if some else int(piece) for some, piece in zip(is_text, pieces, strict=True))
