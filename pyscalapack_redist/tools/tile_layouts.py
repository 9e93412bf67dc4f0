"""Layouts of tiles as the command line writes them: PROCESSES:tiles=ROWSxCOLUMNS[@SEED][+FIRST], or tiles=FILE.json.

Drawn with `random()` alone, whose sequence Python keeps from version to version: everybody has the same tiles.
"""

from __future__ import annotations

import collections
import functools
import json
import math
import random
import re
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..comm.mpi import MPI
from ..errors import DescriptorError
from ..layout.tiles import Tiles
from .layouts import TILES, Layout
from .text import counted

__all__ = ["ABOUT_TILES", "TileLayout"]

NOTATION = "PROCESSES:tiles=ROWSxCOLUMNS[@SEED][+FIRST], as in 3:tiles=5x7@2, or tiles=FILE.json"
DRAWN = re.compile(
    r"(?P<processes>[0-9]{1,18}):tiles=(?P<rows>[0-9]{1,18})x(?P<columns>[0-9]{1,18})(@(?P<seed>[0-9]{1,18}))?"
    r"(\+(?P<first>[0-9]{1,18}))?"
)
MOST_TILES = 10**6
ENTRIES = "row_edges", "column_edges", "owners"
ABOUT_TILES = (
    "Or tiles of a matrix, each on any process: 3:tiles=5x7@2 is 5 x 7 tiles on 3 processes, edges and owners drawn with the "
    "seed 2 (0 without one), and +FIRST may follow; tiles=FILE.json has those of a file, as "
    '{"row_edges": [0, 300, 500], "column_edges": [0, 100, 400], "owners": [[0, 2], [1, 0]]}.'
)


class _Cut(NamedTuple):
    """Where rows and columns of tiles begin, with the matrix's size at the end, and the rank of each tile."""

    row_edges: list[int]
    column_edges: list[int]
    owners: list[list[int]]


@dataclass(frozen=True)
class TileLayout(Layout):
    """A matrix cut into tiles, each on any process, which has a local array for each of its own. Not collective.

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

    @staticmethod
    def means(text: str) -> bool:
        """Whether a text is meant as a layout of tiles."""
        return TILES in text

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
        found = DRAWN.fullmatch(text)
        if found is None:
            raise DescriptorError(f"layout {text!r}: of tiles it must be {NOTATION}, without sub-array and order")
        processes, rows, columns, seed, first = (int(found[name] or 0) for name in DRAWN.groupindex)
        if not processes or not 0 < rows * columns <= MOST_TILES:
            raise DescriptorError(
                f"layout {text!r} must have at least 1 process, and from 1 to {MOST_TILES} tiles: it must be {NOTATION}"
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
        """Why an array of this shape cannot be moved from or to this layout; None where it can."""
        if len(shape) != 2:
            return f"the layout {self} is of tiles of a matrix, and the shape {shape} has {counted(len(shape), 'dimension')}"
        edges = self._cut(shape)[:2]
        if shape != (edges[0][-1], edges[1][-1]):
            return f"the layout {self} cuts a matrix of {edges[0][-1]} x {edges[1][-1]}: the shape {shape} must be that"
        return None

    def largest_part(self, shape: tuple[int, ...]) -> int:
        """The most elements that one process has."""
        held: collections.Counter[int] = collections.Counter()
        rows, columns = (np.diff(edges).tolist() for edges in self._cut(shape)[:2])
        for size, owners in zip(rows, self._cut(shape).owners, strict=True):
            for width, owner in zip(columns, owners, strict=True):
                held[owner] += size * width
        return max(held.values(), default=0)

    def indices(self, shape: tuple[int, ...], rank: int) -> list[list[NDArray[np.int64]]]:
        """Of each tile of a rank, row by row: the global indices of its rows, and of its columns."""
        rows, columns, owners = self._cut(shape)
        return [
            [np.arange(*rows[i : i + 2]), np.arange(*columns[j : j + 2])]
            for i, along in enumerate(owners)
            for j, owner in enumerate(along)
            if owner == rank
        ]

    def descriptor(self, shape: tuple[int, ...], comm: MPI.Intracomm | None) -> Any:
        """The Tiles of a matrix of this shape. Raises DescriptorError where the communicator has too few ranks."""
        return Tiles(*self._cut(shape), comm)

    def __str__(self) -> str:
        if self.path:
            return f"{TILES}{self.path}"
        seed, first = (f"{sign}{n}" if n else "" for sign, n in (("@", self.seed), ("+", self.first)))
        return f"{self.grid[0]}:{TILES}{self.tiles[0]}x{self.tiles[1]}{seed}{first}"

    def _cut(self, shape: tuple[int, ...]) -> _Cut:
        return self._of_file if self.path else _drawn(self, shape)

    @functools.cached_property
    def _of_file(self) -> _Cut:
        """What the file has, once it has been read; it goes with the layout to other ranks."""
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
        return _Cut(tiles.row_edges.tolist(), tiles.column_edges.tolist(), tiles.owners.tolist())


@functools.lru_cache(maxsize=4)
def _drawn(layout: TileLayout, shape: tuple[int, int]) -> _Cut:
    rng = random.Random(layout.seed)
    rows, columns = (
        [0, *sorted(int(rng.random() * (n + 1)) for _ in range(count - 1)), n]
        for n, count in zip(shape, layout.tiles, strict=True)
    )
    owners = [[layout.first + int(rng.random() * layout.size) for _ in range(layout.tiles[1])] for _ in rows[1:]]
    return _Cut(rows, columns, owners)
