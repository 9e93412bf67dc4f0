"""Layouts as the command line writes them: PRxPC:MBxNB[@RSRC,CSRC][+FIRST], in any number of dimensions.

A block size may be the word balanced: one block for each process, of sizes that differ by one at most. Alone it is for all
dimensions. It may also be the sizes of all blocks, joined by commas, SIZE for the next process or SIZEpPROCESS each. A
number of the grid that ends in c is of replicas: along that dimension of the grid all processes hold the same elements.

For the sides of a redistribution, /MxN@IA,JA may follow (a sub-array, at IA, JA of a whole array of M x N), and /C
(local arrays are in C order). There a layout may also be of tiles: PROCESSES:tiles=ROWSxCOLUMNS[@SEED][+FIRST], or
tiles=FILE.json. Tiles are drawn with `random()` alone, whose sequence Python keeps from version to version: everybody has
the same.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..comm.mpi import MPI
from ..errors import DescriptorError
from ..layout.axis import LARGEST, Blocks
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from ..layout.tiles import Tiles
from .text import count_text

NOTATION = "PRxPC:MBxNB[@RSRC,CSRC][+FIRST], as in 2x4:64x64 or 4x2:32x32@1,0+8"
NOTATION_OF_COPIES = "one number for each dimension of the array as well, as in 2x2x3c:64x64 for three replicas"
IRREGULAR = re.compile(r"\d+(p\d+)?(,\d+(p\d+)?)+|\d+p\d+")
BALANCED = "balanced"
COPIES, OWNER = "c", "p"
TILES = "tiles="
NOTATION_TILES = "PROCESSES:tiles=ROWSxCOLUMNS[@SEED][+FIRST], as in 3:tiles=5x7@2, or tiles=FILE.json"
DRAWN = re.compile(
    r"(?P<processes>[0-9]{1,18}):tiles=(?P<rows>[0-9]{1,18})x(?P<columns>[0-9]{1,18})(@(?P<seed>[0-9]{1,18}))?"
    r"(\+(?P<first>[0-9]{1,18}))?"
)
MOST_TILES = 10**6
ENTRIES = "row_edges", "column_edges", "owners"
ENDINGS = "/MxN@IA,JA for a sub-array at IA, JA of a whole array of M x N, /C for local arrays in C order"

# Examples for the help of the command line: what is written, and what it is.
EXAMPLES = (
    ("2x4:64x64", "a grid of 2 x 4 processes, blocks of 64 x 64; other numbers of dimensions alike"),
    ("4x2:32x32@1,0+8", "the first block on process (1, 0), the grid's first process is rank 8"),
    ("4x1:balanced", "one block for each process, in sizes that differ by one at most; also 4x2:balancedx32"),
    ("2x2:9p1,4p0,7p1x8", "blocks of 9, 4 and 7 rows on processes 1, 0 and 1; without p one for each process in turn"),
)
EXAMPLES_OF_COPIES = (("2x2x3c:64x64", "three replicas (c) of 2x2:64x64, on 12 processes"),)
EXAMPLES_OF_PARTS = (
    ("2x2:8x8/90x70@5,3/C", "a sub-array, at row 5 and column 3 of a whole array of 90 x 70; local arrays in C order"),
)
EXAMPLES_OF_TILES = (
    ("3:tiles=5x7@2", "5 x 7 tiles of a matrix on 3 processes, edges and owners drawn with the seed 2"),
    (
        "tiles=FILE.json",
        'tiles of a file: {"row_edges": [0, 300, 500], "column_edges": [0, 400], "owners": [[0], [1]]}',
    ),
)


def examples(*groups: Sequence[tuple[str, str]]) -> str:
    """Examples of layouts as lines of a help text."""
    rows = [row for group in groups for row in group]
    width = max(len(layout) for layout, _ in rows)
    return "\n".join(["examples of a LAYOUT:", *(f"  {layout:<{width}}  {meaning}" for layout, meaning in rows)])


def read_side(text: str) -> LayoutText:
    """The layout of one side of a redistribution, in the notation of layouts with all endings or of tiles.

    Raises DescriptorError, which quotes the part that is wrong and says what it must be.
    """
    return TileLayout.parse_operand(text) if TILES in text else LayoutText.parse_operand(text)


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
                f"layout {text!r} is of tiles, which only bench takes: here it must be {NOTATION}. "
                "pyscalapack_redist.Tiles(...).owner(i, j) says who owns what, and the report() of a plan what moves"
            )
        rest, plus, first = text.partition("+")
        rest, at, source = rest.partition("@")
        grid, colon, block = rest.partition(":")
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


# -- tiles


class _TileGrid(NamedTuple):
    """Where rows and columns of tiles begin, with the matrix's size at the end, and the rank of each tile."""

    row_edges: list[int]
    column_edges: list[int]
    owners: list[list[int]]


@dataclass(frozen=True)
class TileLayout(LayoutText):
    """A matrix cut into tiles, each on any process, which has a local array for each of its own.

    Attributes
    ----------
    tiles : tuple of int
        Rows and columns of tiles that are drawn.
    seed : int
        What edges and owners are drawn with.
    path : str
        File that has them instead; it is read when they are first needed. Empty where they are drawn.
    """

    tiled: ClassVar[bool] = True
    tiles: tuple[int, int] = (0, 0)
    seed: int = 0
    path: str = ""

    @classmethod
    def parse_operand(cls, text: str) -> TileLayout:
        """Read the notation; a file is not opened.

        Raises
        ------
        DescriptorError
            Quotes the text and says what it must be.
        """
        path = text.removeprefix(TILES)
        if path != text and path.endswith(".json"):
            return cls((), (), (), path=path)
        match = DRAWN.fullmatch(text)
        if match is None:
            raise DescriptorError(f"layout {text!r}: of tiles it must be {NOTATION_TILES}, without sub-array and order")
        processes, rows, columns, seed, first = (int(match[name] or 0) for name in DRAWN.groupindex)
        if not processes or not 0 < rows * columns <= MOST_TILES:
            raise DescriptorError(
                f"layout {text!r} must have at least 1 process, and from 1 to {MOST_TILES} tiles: it must be {NOTATION_TILES}"
            )
        return cls((processes,), (), (), first, tiles=(rows, columns), seed=seed)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return 2

    @property
    def end(self) -> int:
        """One more than the last rank."""
        return max(map(max, self._of_file.owners), default=0) + 1 if self.path else self.first + self.size

    def misfit(self, shape: tuple[int, ...]) -> str | None:
        """Why an array of this shape cannot have this layout; None if it can."""
        if len(shape) != 2:
            return f"the layout {self} is of tiles of a matrix, and the shape {shape} has {count_text(len(shape), 'dimension')}"
        edges = self.cut(shape)[:2]
        if shape != (edges[0][-1], edges[1][-1]):
            return f"the layout {self} cuts a matrix of {edges[0][-1]} x {edges[1][-1]}: the shape {shape} must be that"
        return None

    def largest_part(self, shape: tuple[int, ...]) -> int:
        """The most elements that one process has."""
        rows, columns, owners = self.cut(shape)
        sizes, held = np.outer(np.diff(rows), np.diff(columns)), np.zeros(self.end, np.int64)
        np.add.at(held, np.reshape(owners, sizes.shape).astype(np.int64), sizes)
        return int(held.max(initial=0))

    def descriptor(self, shape: tuple[int, ...], comm: MPI.Intracomm | None) -> Any:
        """The Tiles of a matrix of this shape. Raises DescriptorError where the communicator has too few ranks."""
        return Tiles(*self.cut(shape), comm)

    def __str__(self) -> str:
        if self.path:
            return f"{TILES}{self.path}"
        seed, first = (f"{sign}{n}" if n else "" for sign, n in (("@", self.seed), ("+", self.first)))
        return f"{self.grid[0]}:{TILES}{self.tiles[0]}x{self.tiles[1]}{seed}{first}"

    def cut(self, shape: tuple[int, ...]) -> _TileGrid:
        """Where rows and columns of tiles begin, and the rank of each."""
        return self._of_file if self.path else _drawn(self, shape)

    @functools.cached_property
    def _of_file(self) -> _TileGrid:
        """The contents of the file, read once; pickled with the layout for other ranks."""
        expected = f"a JSON object with the entries {', '.join(ENTRIES)}, and no others"
        try:
            with open(self.path) as file:
                read = json.load(file)
            if not isinstance(read, dict) or sorted(read) != sorted(ENTRIES):
                raise ValueError(f"it has {sorted(read) if isinstance(read, dict) else type(read).__name__}")
            tiles = Tiles(*(read[name] for name in ENTRIES))
        except DescriptorError as error:
            raise DescriptorError(f"layout {str(self)!r}: in the file {error}") from None
        except (OSError, ValueError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise DescriptorError(f"layout {str(self)!r}: the file must be {expected}: {why}") from None
        if math.prod(tiles.owners.shape) > MOST_TILES:
            raise DescriptorError(f"layout {str(self)!r}: the file must have {MOST_TILES} tiles at most")
        return _TileGrid(tiles.row_edges.tolist(), tiles.column_edges.tolist(), tiles.owners.tolist())


@functools.lru_cache(maxsize=4)
def _drawn(layout: TileLayout, shape: tuple[int, int]) -> _TileGrid:
    rng = random.Random(layout.seed)
    rows, columns = (
        [0, *sorted(int(rng.random() * (n + 1)) for _ in range(count - 1)), n]
        for n, count in zip(shape, layout.tiles, strict=True)
    )
    owners = [[layout.first + int(rng.random() * layout.size) for _ in range(layout.tiles[1])] for _ in rows[1:]]
    return _TileGrid(rows, columns, owners)
