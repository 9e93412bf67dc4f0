"""What the oracle knows of a layout, as the package takes it, and local arrays for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from oracle import AnyLayout, Layout, TileLayout, balanced

import pyscalapack_redist as psr


def block_sizes(layout: Layout) -> list[Any]:
    """Block sizes for a Descriptor; irregular ones that are numpy.array_split's, by their name."""
    dims = zip(layout.shape, layout.block, layout.processes, strict=True)
    return [
        block if isinstance(block, int) else "balanced" if block == balanced(n, p) else psr.Blocks(*block)
        for n, block, p in dims
    ]


def grid_of(layout: Layout, comm: Any) -> psr.ProcessGrid:
    """The grid of a layout, with dimensions of its own where there are some."""
    ranks = layout.ranks if layout.grid_ranks is None else layout.grid_ranks
    return psr.ProcessGrid(ranks.shape, comm, ranks=ranks)


def descriptor(layout: Layout, comm: Any, grid: Any = grid_of) -> psr.Descriptor:
    """The Descriptor of a layout, over its grid, as `grid` makes it of a layout and a communicator."""
    axes = layout.axes if layout.grid_axes is None else layout.grid_axes
    grid = grid(layout, comm)
    arguments = layout.shape, block_sizes(layout), grid
    whole = psr.Descriptor(*arguments, source=layout.source, axes=axes)
    if layout.extra:
        whole = psr.Descriptor(*arguments, source=layout.source, axes=axes, lld=whole.lld + layout.extra)
    assert np.array_equal(whole.places.ravel(), layout.ranks.ravel())
    return whole if layout.size == layout.shape else whole[layout.window()]


def made_for(layout: AnyLayout, comm: Any, rank: int | None, grid: Any = grid_of) -> psr.Descriptor | psr.Tiles:
    """The layout as the package takes it, on a rank of a communicator."""
    if isinstance(layout, Layout):
        return descriptor(layout, comm, grid)
    if not layout.stored:
        return psr.Tiles.from_edges(layout.edges, layout.owners, comm)
    (rows, columns), (offsets, leading) = layout.edges, _storage(layout, rank)
    return psr.Tiles(rows, columns, layout.owners, comm, offsets=offsets, leading_dimensions=leading)


def _storage(layout: TileLayout, rank: int | None) -> tuple[list[int], list[int]]:
    """Where the tiles of a rank lie in its array: in a random order, with gaps, and other leading dimensions."""
    shapes = [(len(i), len(j)) for i, j in layout.pieces(rank)]
    own = np.random.default_rng(0 if rank is None else rank)
    leading = [max(1, m) + int(own.integers(3)) for m, _ in shapes]
    offsets, place = [0] * len(shapes), 3
    for k in own.permutation(len(shapes)):
        offsets[k] = place
        place += leading[k] * shapes[k][1] + 2
    return offsets, leading


class Local(NamedTuple):
    """A local array as a plan takes it, and a view of each piece (see `Layout.pieces`)."""

    given: Any
    views: list[NDArray[Any]]


def local_array(layout: AnyLayout, rank: int | None, dtype: np.dtype[Any], own: np.random.Generator | None) -> Local:
    """Memory for what a rank holds, of any strides that `own` draws, in Fortran order without; None outside the grid."""
    shapes = [tuple(map(len, piece)) for piece in layout.pieces(rank)]
    if isinstance(layout, Layout):
        if not shapes:
            return Local(None, [])
        (shape,) = shapes
        if layout.extra and 0 not in shape and own is not None and own.random() < 0.5:  # (LLD, columns)
            given = np.zeros((shape[0] + layout.extra, *shape[1:]), dtype, order="F")
            return Local(given, [given[: shape[0]]])
        given = placed(own, shape, dtype)
        return Local(given, [given])
    if not layout.stored:
        tiles = [placed(own, shape, dtype) for shape in shapes]
        return Local(tiles, tiles)
    offsets, leading = _storage(layout, rank)
    flat = np.zeros(5 + sum(offsets) + sum(n * step for (_, n), step in zip(shapes, leading, strict=True)), dtype)
    return Local(flat, views_of(layout, rank, flat))


def fill(local: Local, layout: AnyLayout, rank: int | None, whole: NDArray[Any]) -> None:
    """Write what a rank holds of an array of the whole shape into its local array."""
    for view, piece in zip(local.views, layout.pieces(rank), strict=True):
        view[...] = whole[np.ix_(*piece)]


def views_of(layout: AnyLayout, rank: int | None, result: Any) -> list[NDArray[Any]]:
    """The pieces in what a plan has returned."""
    if isinstance(layout, Layout):
        return [] if result is None else [result[: len(piece[0])] for piece in layout.pieces(rank)]
    if not layout.pieces(rank):
        return []
    if not layout.stored:
        return list(result)
    item = result.dtype.itemsize
    return [
        as_strided(result[first:], (len(i), len(j)), (item, step * item))
        if i.size and j.size
        else np.empty((i.size, j.size), result.dtype)
        for (i, j), first, step in zip(layout.pieces(rank), *_storage(layout, rank), strict=True)
    ]


def placed(own: np.random.Generator | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of the shape in Fortran or C order, in another order of dimensions, with gaps, or reversed."""
    kind = 3 if own is None else own.integers(5)
    if kind == 0:
        return np.zeros(shape, dtype)
    if kind == 1:
        return np.zeros(tuple(2 * n + 1 for n in shape), dtype)[tuple(slice(1, 2 * n + 1, 2) for n in shape)]
    if kind == 2:
        return np.zeros(shape, dtype)[tuple(slice(None, None, -1) for _ in shape)]
    if kind == 4 and own is not None:
        order = own.permutation(len(shape))
        return np.zeros([shape[k] for k in order], dtype).transpose(np.argsort(order))
    return np.zeros(shape, dtype, order="F")
