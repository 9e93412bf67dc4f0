"""The oracle: who holds which elements of an array, and what a redistribution must write. Shares no code with the package."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Irregular = tuple[tuple[int, ...], tuple[int, ...]]
"""Sizes of blocks, and the process of each."""

Indices = tuple[NDArray[np.int64], ...]
"""Global indices along each dimension."""


def deal(n: int, block: int | Irregular, processes: int, source: int = 0) -> list[list[int]]:
    """Global indices that each process holds, in local order."""
    held: list[list[int]] = [[] for _ in range(processes)]
    if not isinstance(block, int):
        start = 0
        for size, owner in zip(*block, strict=True):
            held[owner].extend(range(start, start + size))
            start += size
        assert start == n
        return held
    turn = source
    for start in range(0, n, block):
        held[turn].extend(range(start, min(start + block, n)))
        turn = (turn + 1) % processes
    return held


@dataclass
class Layout:
    """A whole array of `shape` over a grid, and the window of it that is redistributed.

    Attributes
    ----------
    ranks : ndarray
        The process at each coordinate, and of each copy along a last dimension, if there is one more than the array has.
    grid_ranks, grid_axes
        The same processes in a grid with dimensions of its own, and its dimension for each of the array's.
    extra : int
        Rows by which leading dimensions exceed what is needed.
    """

    shape: tuple[int, ...]
    block: tuple[int | Irregular, ...]
    ranks: NDArray[np.int64]
    source: tuple[int, ...]
    start: tuple[int, ...]
    size: tuple[int, ...]
    grid_ranks: NDArray[np.int64] | None = None
    grid_axes: tuple[int | None, ...] | None = None
    extra: int = 0

    @functools.cached_property
    def held(self) -> list[list[list[int]]]:
        """Global indices of each process along each dimension."""
        return [
            deal(n, b, p, s) for n, b, p, s in zip(self.shape, self.block, self.processes, self.source, strict=True)
        ]

    @property
    def processes(self) -> tuple[int, ...]:
        """Processes along each dimension of the array."""
        return self.ranks.shape[: len(self.shape)]

    @property
    def copies(self) -> int:
        """How many ranks hold each element."""
        return self.ranks.size // int(np.prod(self.processes))

    @property
    def axes(self) -> tuple[int, ...]:
        """Dimension of `ranks` for each dimension of the array."""
        return tuple(range(len(self.shape)))

    def coords(self, rank: int | None) -> tuple[int, ...] | None:
        """Where a rank stands along the dimensions of the array."""
        for place in np.ndindex(*self.ranks.shape):
            if self.ranks[place] == rank:
                return place[: len(self.shape)]
        return None

    def window(self) -> tuple[slice, ...]:
        """The part that is redistributed."""
        return tuple(slice(o, o + n) for o, n in zip(self.start, self.size, strict=True))

    def pieces(self, rank: int | None) -> list[Indices]:
        """Of each local array of a rank, the global indices along each dimension."""
        coords = self.coords(rank)
        if coords is None:
            return []
        return [tuple(np.array(h[p], dtype=np.int64) for h, p in zip(self.held, coords, strict=True))]

    def local(self, whole: NDArray[Any], rank: int) -> NDArray[Any] | None:
        """What `rank` holds of an array of the whole shape; None outside the grid."""
        pieces = self.pieces(rank)
        return whole[np.ix_(*pieces[0])] if pieces else None


@dataclass
class TileLayout:
    """An array cut into tiles, each of which is a local array of its owner; `stored`: one behind another in one array."""

    edges: tuple[NDArray[np.int64], ...]
    owners: NDArray[np.int64]
    stored: bool

    def __post_init__(self) -> None:
        self.shape = self.size = tuple(int(some[-1]) for some in self.edges)
        self.start, self.ranks, self.copies = (0,) * len(self.edges), self.owners, 1

    def window(self) -> tuple[slice, ...]:
        """The part that is redistributed: all."""
        return tuple(slice(0, n) for n in self.shape)

    def pieces(self, rank: int | None) -> list[Indices]:
        """Of each local array of a rank, the global indices along each dimension."""
        return [
            tuple(np.arange(*some[i : i + 2]) for some, i in zip(self.edges, place, strict=True))
            for place in np.ndindex(*self.owners.shape)
            if self.owners[place] == rank
        ]


AnyLayout = Layout | TileLayout


def holds(layout: AnyLayout, rank: int | None) -> bool:
    """Whether a rank holds any element of the whole array."""
    return any(all(len(some) for some in piece) for piece in layout.pieces(rank))


def same_bytes(x: NDArray[Any], y: NDArray[Any]) -> bool:
    """Whether two arrays have the same bytes, whatever their strides."""
    return np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()


def same_numbers(x: NDArray[Any], y: NDArray[Any]) -> bool:
    """Whether two arrays have equal elements: 0 and -0 are, and so are two that are no numbers."""
    return np.array_equal(x, y, equal_nan=True)


def trapezoid(shape: tuple[int, int], uplo: str, diag: str = "N") -> NDArray[np.bool_]:
    """Where the trapezoid of an m x n matrix is: its last diagonal ends in the corner (of the longer side)."""
    m, n = shape
    if uplo == "U":
        return np.triu(np.ones(shape, bool), (diag == "U") - max(m - n, 0))
    return np.tril(np.ones(shape, bool), max(n - m, 0) - (diag == "U"))


def moved_elements(
    part: NDArray[Any], op: str, uplo: str | None, diag: str, fill: str | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """op(S) of a part S of A, and which of its elements are written into B."""
    part = part.conj() if op in "CR" and part.dtype.kind == "c" else part
    kept = np.ones(part.shape, bool) if uplo is None else trapezoid(part.shape, uplo, diag)  # type: ignore[arg-type]
    if op in "TC":
        part, kept = part.T, kept.T
    if fill == "zero":
        return np.where(kept, part, np.zeros((), part.dtype)), np.ones(kept.shape, bool)
    if fill is None:
        return part, kept
    mirror = part.T.conj() if fill == "hermitian" and part.dtype.kind == "c" else part.T
    above = np.triu(np.ones(kept.shape, bool), 1)
    off = above if kept[above].all() else above.T
    return np.where(off.T, mirror, part), kept | off.T


def written(
    before: NDArray[Any], window: tuple[slice, ...], part: NDArray[Any], alpha: complex, beta: complex, **how: Any
) -> NDArray[Any]:
    """All of B afterwards: alpha * op(S) + beta * B in its window, of the elements that move; `how` as `moved_elements`."""
    after = before.copy()
    values, kept = moved_elements(part, **how)
    inside = after[window]
    if (alpha, beta) != (1, 0):  # what is multiplied by 0 is not read
        values = (alpha * values if alpha != 0 else 0) + (beta * inside if beta != 0 else 0) + np.zeros_like(inside)
    inside[kept] = values[kept]
    return after


def balanced(n: int, processes: int) -> Irregular:
    """A block for each process, of sizes that differ by one at most."""
    return tuple(len(part) for part in np.array_split(np.arange(n), processes)), tuple(range(processes))


def random_irregular(rng: np.random.Generator, n: int, processes: int) -> Irregular:
    """Blocks of any sizes, empty ones among them, in any order: few or many, one for each process, or balanced."""
    kind = rng.random()
    if kind < 0.2:
        return balanced(n, processes)
    blocks = processes if kind < 0.4 else int(rng.integers(1, 1 + int(rng.choice((3, 12, 60)))))
    sizes = np.diff(np.sort(rng.integers(0, n + 1, blocks - 1)), prepend=0, append=n)
    owners = rng.permutation(processes) if kind < 0.4 else rng.integers(0, processes, blocks)
    return tuple(sizes.tolist()), tuple(owners.tolist())


def random_layout(
    rng: np.random.Generator,
    size: tuple[int, ...],
    ranks: int,
    sub_arrays: bool = True,
    margin: int = 9,
    irregular: bool = True,
    copies: bool = False,
) -> Layout:
    """A layout whose window is of the given size, on some of `ranks` ranks in any places, less than `margin` in any edge.

    Half of the layouts have irregular blocks along some dimensions, unless they may not, and with `copies` half of them may
    be replicated.
    """
    dims = len(size)
    replicated = copies and rng.random() < 0.5
    grid = [1] * (dims + replicated)
    for _ in range(8):
        trial = list(grid)
        trial[rng.integers(len(grid))] = int(rng.integers(1, ranks + 1))
        if math.prod(trial) <= ranks:
            grid = trial
    places = rng.permutation(ranks)[: int(np.prod(grid))].reshape(grid)
    if rng.random() < 0.4:
        places = np.arange(int(np.prod(grid))).reshape(grid)
    sub = sub_arrays and rng.random() < 0.4
    start = tuple(int(rng.integers(0, margin)) if sub else 0 for _ in size)
    shape = tuple(n + o + (int(rng.integers(0, margin)) if sub else 0) for n, o in zip(size, start, strict=True))
    kinds = (1, 2, 3, 4, 5, 7, 8, 16, 30, 1000)
    irregular = irregular and rng.random() < 0.5
    block = tuple(
        random_irregular(rng, n, p)
        if irregular and rng.random() < 0.6
        else int(rng.choice(kinds))
        if rng.random() < 0.8
        else max(1, -(-n // p))
        for n, p in zip(shape, grid, strict=False)
    )
    source = tuple(int(rng.integers(0, p)) if isinstance(cut, int) else 0 for p, cut in zip(grid, block, strict=False))
    return Layout(shape, block, places, source, start, size)


def random_tiles(rng: np.random.Generator, size: tuple[int, ...], ranks: int) -> TileLayout:
    """Edges with and without empty tiles; owners any ranks, a few of them, or one."""
    dims = len(size)
    cuts = int(rng.choice((1, 2, 5, 9)[: max(2, 6 - dims)]))
    edges = [np.sort(np.r_[0, rng.integers(0, n + 1, int(rng.integers(cuts))), n]) for n in size]
    if math.prod(size) < 400 and rng.random() < 0.1:
        edges = [np.arange(n + 1) for n in size]  # tiles of single elements
    some = rng.permutation(ranks)[: int(rng.integers(1, ranks + 1))]
    owners = rng.choice(some, [len(edge) - 1 for edge in edges])
    return TileLayout(tuple(edges), owners, dims == 2 and bool(rng.random() < 0.4))


def random_axes(rng: np.random.Generator, layout: Layout) -> tuple[NDArray[np.int64], tuple[int | None, ...]]:
    """A grid of other dimensions than the array's for the same places: its ranks, and its dimension for each array's.

    Copies are along a dimension that no array dimension has, or along two of them, not always the last ones.
    """
    dims = len(layout.shape)
    ranks = layout.ranks
    if ranks.ndim > dims:
        copies = ranks.shape[-1]
        outer = int(rng.choice([n for n in range(1, copies + 1) if copies % n == 0]))
        ranks = ranks.reshape(*ranks.shape[:-1], outer, copies // outer)
    chosen = [k for k in range(dims) if ranks.shape[k] > 1 or rng.random() < 0.3] or [0]
    chosen += range(dims, ranks.ndim)
    order = _ascending([int(k) for k in rng.permutation(chosen)], dims)
    rest = [k for k in range(dims) if k not in order]
    turned = ranks.transpose(order + rest).reshape([ranks.shape[k] for k in order])
    return turned, tuple(order.index(k) if k in order else None for k in range(dims))


def _ascending(order: list[int], dims: int) -> list[int]:
    """The same order with the dimensions of copies, those from `dims` on, among themselves in theirs."""
    copies = iter(sorted(k for k in order if k >= dims))
    return [next(copies) if k >= dims else k for k in order]


def random_shape(rng: np.random.Generator, dims: int, most: int = 6000) -> tuple[int, ...]:
    """Sizes of 1 to 6 dimensions, mostly of up to `most` elements in all; a few many times larger, a few of none."""
    kind, shape = rng.random(), [1] * dims
    if kind > 0.98:
        most *= 40
    for k in rng.permutation(dims):
        room = most // int(np.prod(shape))
        shape[k] = int(rng.integers(1, 1 + max(1, min(room, int(rng.choice((3, 8, 20, 60)))))))
    if kind < 0.04:
        shape[int(rng.integers(dims))] = 0
    return tuple(shape)


def random_size(rng: np.random.Generator) -> tuple[int, int]:
    """Rows and columns: mostly small, sometimes none, a single row, long, or so large that messages must be awaited."""
    kind = rng.random()
    if kind > 0.98:
        return (int(rng.integers(200, 500)), int(rng.integers(200, 500)))
    if kind < 0.05:
        return (0, int(rng.integers(0, 9)))
    if kind < 0.15:
        return (1, int(rng.integers(1, 200)))
    if kind < 0.25:
        return (int(rng.integers(1, 300)), int(rng.integers(1, 4)))
    return (int(rng.integers(1, 60)), int(rng.integers(1, 60)))
