"""Arrays of dask, by their chunks: each rank computes its own, redistributes them, and gets them back."""

from __future__ import annotations

import sys
from typing import Any

import dask.array as da
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
# What dask's own rechunking makes of the shapes, and chunks by hand.
CASES: list[tuple[tuple[int, ...], Any, str]] = [
    ((70, 50), ((30, 5, 20, 15), 20), "d"),
    ((70, 50), "auto", "f"),
    ((9, 100), (1, 7), "D"),
    ((1, 33), (1, 10), "i8"),
    ((40, 30), ((40,), (0, 13, 0, 17)), "F"),
    ((17, 8, 11), (5, 8, (4, 1, 6)), "u2"),
]


def grids(ndim: int) -> list[psr.ProcessGrid]:
    """Of all ranks along the first dimension; of two rows of them, where there are, and possibly a rank outside."""
    flat = psr.ProcessGrid((SIZE,) + (1,) * (ndim - 1), WORLD)
    two = psr.ProcessGrid((2, SIZE // 2) + (1,) * (ndim - 2), WORLD) if SIZE > 1 else flat
    return [flat, two]


def indices(chunks: Any, owners: list[NDArray[np.int64]], coords: tuple[int, ...]) -> list[NDArray[np.int64]]:
    """The indices of a process's chunks in each dimension, chunk by chunk."""
    return [
        np.flatnonzero(np.repeat(owner, sizes) == coord)
        for sizes, owner, coord in zip(chunks, owners, coords, strict=True)
    ]


def check(whole: NDArray[Any], chunks: Any, grid: psr.ProcessGrid, owners: list[NDArray[np.int64]]) -> None:
    """Chunks of these owners: computed once in all, moved to blocks and back."""
    computed: list[Any] = []

    def note(block: NDArray[Any], block_info: Any = None) -> NDArray[Any]:
        computed.append(tuple(block_info[0]["chunk-location"]))
        return block

    x = da.from_array(whole, chunks=chunks)
    noted = x.map_blocks(note, dtype=x.dtype, meta=np.empty((0,) * x.ndim, x.dtype))
    desc = psr.Descriptor(x.shape, [psr.Blocks(*both) for both in zip(x.chunks, owners, strict=True)], grid)
    a = None if grid.coords is None else desc.empty(x.dtype)
    if a is not None and a.size:  # dask would compute a chunk also to take nothing from it
        part = noted
        for dimension in range(x.ndim):
            part = da.take(part, desc.global_indices(dimension), axis=dimension)
        a = part.compute(scheduler="synchronous")
        assert a.shape == desc.local_shape
    if a is not None:
        assert np.array_equal(a, whole[np.ix_(*indices(x.chunks, owners, desc.coords))])
    everywhere = [place for places in WORLD.allgather(computed) for place in places]
    filled = [place for place in np.ndindex(*x.numblocks) if all(x.chunks[k][at] for k, at in enumerate(place))]
    assert sorted(place for place in everywhere if place in set(filled)) == filled, "each chunk once, on one rank"

    blocks = psr.Descriptor(x.shape, 4, psr.ProcessGrid(grid.shape, WORLD, order="column"))
    moved = psr.redistribute(desc, blocks, dtype=x.dtype)(a)
    if blocks.coords is not None:
        part = np.ix_(*(blocks.global_indices(dimension) for dimension in range(x.ndim)))
        assert np.array_equal(moved, whole[part])
    back = psr.redistribute(blocks, desc, dtype=x.dtype)(moved)
    assert a is None or np.array_equal(back, a)


def main() -> None:
    rng = np.random.default_rng(11)
    for shape, chunks, dtype in CASES:
        whole = np.arange(np.prod(shape)).reshape(shape).astype(dtype) * np.dtype(dtype).type(
            1 + 2j if dtype in "DF" else 1
        )
        counts = da.empty(shape, chunks=chunks, dtype=dtype).numblocks
        for grid in grids(len(shape)):
            both = list(zip(counts, grid.shape, strict=True))
            check(whole, chunks, grid, [np.arange(count) % size for count, size in both])
            check(whole, chunks, grid, [rng.integers(0, size, count) for count, size in both])
            check(whole, chunks, grid, [np.full(count, size - 1) for count, size in both])
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
