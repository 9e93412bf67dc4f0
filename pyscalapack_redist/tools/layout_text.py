"""Layouts as the command line writes them: those of `layout.notation`, those of tiles, and examples of both for the help.

Tiles are PROCESSES:tiles=ROWSxCOLUMNS[@SEED][+FIRST], or tiles=FILE.json. They are drawn with `random()` alone, whose
sequence Python keeps from version to version: everybody has the same.
"""

from __future__ import annotations

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
from ..layout.notation import TILES, LayoutText
from ..layout.tiles import Tiles
from .text import count_text

NOTATION_TILES = "PROCESSES:tiles=ROWSxCOLUMNS[@SEED][+FIRST], as in 3:tiles=5x7@2, or tiles=FILE.json"
DRAWN = re.compile(
    r"(?P<processes>[0-9]{1,18}):tiles=(?P<rows>[0-9]{1,18})x(?P<columns>[0-9]{1,18})(@(?P<seed>[0-9]{1,18}))?"
    r"(\+(?P<first>[0-9]{1,18}))?"
)
MOST_TILES = 10**6
ENTRIES = "row_edges", "column_edges", "owners"

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
