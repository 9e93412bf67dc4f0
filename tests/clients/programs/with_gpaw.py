"""GPAW's BLACS matrices: redistribute on the nine integers of its own descriptors agrees with its Redistributor."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from conversions import blocks_of, check_conversions, check_linalg, check_refused
from gpaw.blacs import BlacsGrid, Redistributor
from gpaw.mpi import world
from launch import SEED
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()


def grids() -> list[Any]:
    """Of all ranks, of some, of some in another order, and of a communicator that has not all."""
    rows = 2 if SIZE > 1 else 1
    # GPAW's communicators know their parents; a rank outside has None.
    last = world.new_communicator(np.arange(SIZE // 2, SIZE))
    return [
        BlacsGrid(world, SIZE, 1),
        BlacsGrid(world, SIZE // rows, rows, order="C"),
        BlacsGrid(world, 1, 1),
        BlacsGrid(last, 1, SIZE - SIZE // 2),
    ]


def drawn(rng: np.random.Generator, grid: Any, rows: int, columns: int) -> Any:
    """A descriptor of GPAW with blocks and source drawn at random."""
    blocks = [int(rng.integers(1, n + 3)) for n in (rows, columns)]
    return grid.new_descriptor(rows, columns, *blocks, int(rng.integers(grid.nprow)), int(rng.integers(grid.npcol)))


def content(desc: psr.Descriptor, theirs: Any, dtype: Any, factor: float) -> Any:
    """An array of GPAW's with another number in each place."""
    array = theirs.zeros(dtype=dtype)
    if theirs.blacsgrid.is_active():
        imaginary = 2j if dtype is complex else 0
        array[...] = desc.from_function(lambda i, j: factor * (1 + 100.0 * i + j + imaginary), dtype)
    return array


def check(rng: np.random.Generator, here: Any, there: Any, dtype: Any, uplo: str) -> None:
    """A part of a matrix, or a triangle of that, into a part of another; then all of it, by the nine integers alone."""
    rows, columns = (int(n) for n in rng.integers(1, 20, 2))
    starts = rng.integers(0, 9, 4).tolist()
    ia, ja, ib, jb = starts
    source = drawn(rng, here, ia + rows + 2, ja + columns + 1)
    target = drawn(rng, there, ib + rows, jb + columns + 3)
    # The layout of arrays as GPAW shows them; to ScaLAPACK they are transposed.
    whole_a, whole_b = (psr.Descriptor.from_array(theirs.asarray(), WORLD).T for theirs in (source, target))
    a, theirs = content(whole_a, source, dtype, 1), content(whole_b, target, dtype, -1)
    ours = theirs.copy()
    Redistributor(world, source, target).redistribute(a, theirs, rows, columns, *starts, uplo=uplo)
    desc_a, desc_b = whole_a[ia : ia + rows, ja : ja + columns], whole_b[ib : ib + rows, jb : jb + columns]
    psr.redistribute(desc_a, desc_b, uplo=None if uplo == "G" else uplo)(a, ours)
    assert np.array_equal(ours, theirs), (source, target, rows, columns, starts, uplo)
    other = drawn(rng, here, *target.gshape)
    found = other.zeros(dtype=dtype)
    psr.redistribute(target.asarray(), other.asarray(), comm=WORLD)(theirs.T, found.T)
    assert np.array_equal(found, Redistributor(world, target, other).redistribute(theirs)), (target, other)


def indices_of(pair: Any) -> list[Any]:
    """Of a local array, by ScaLAPACK's formula; none on a rank outside."""
    layout, grid = pair[0], pair[0].blacsgrid
    if not grid.is_active():
        return [[], []]
    first_and_coords = ((layout.rsrc, grid.myrow, grid.nprow), (layout.csrc, grid.mycol, grid.npcol))
    return [
        [i for i in range(n) if (i // block + source) % processes == own]
        for n, block, (source, own, processes) in zip(layout.gshape, layout.bshape, first_and_coords, strict=True)
    ]


def check_adapter(grid: Any, dtype: Any) -> None:
    layout = grid.new_descriptor(9, 7, 2, 3, grid.nprow - 1, 0)
    check_conversions((layout, layout.zeros(dtype=dtype)), lambda pair: pair[1], indices_of, dtype)
    array = psr.as_distributed((layout, layout.zeros(dtype=dtype) if grid.is_active() else None))
    assert array.shape == (9, 7)
    other = psr.redistribute(array, like=(layout, None), op="T")[0]
    assert (other.gshape, other.bshape, other.rsrc, other.csrc) == ((7, 9), (2, 3), layout.rsrc, 0)


def check_wrong(grid: Any) -> None:
    layout = grid.new_descriptor(9, 7, 2, 2)
    array = layout.zeros()
    check_refused(lambda: psr.as_distributed((layout, array[1:] if RANK == 0 else array)), "local has shape")
    check_refused(lambda: psr.as_distributed(layout), "without elements")
    vector = psr.Descriptor((9,), 2, psr.ProcessGrid((SIZE,), WORLD))
    b = psr.DistributedArray.from_function(vector, lambda i: 1.0 + i)
    check_refused(lambda: psr.redistribute(b, like=(layout, array)), "(9,)")
    square = grid.new_descriptor(9, 9, 2, 2)
    twice = psr.redistribute(
        psr.DistributedArray.from_function(blocks_of((9, 9), WORLD), lambda i, j: 2.0 * (i == j)),
        like=(square, square.zeros()),
    )
    check_refused(lambda: psr.linalg.solve(twice, b), "give like=")
    solved = psr.linalg.solve(twice, b, like=b)
    assert np.allclose(solved.local, b.local / 2, rtol=1e-14)


if __name__ == "__main__":
    rng = np.random.default_rng([SEED, SIZE])  # the same on all ranks
    available = grids()
    check_adapter(available[1], float)
    check_wrong(available[1])
    square = available[1].new_descriptor(9, 9, 2, 2)
    check_linalg((square, square.zeros()))
    if sys.argv[1:] != ["adapter"]:
        for grid in available:
            for dtype in (float, complex):
                check_adapter(grid, dtype)
        for _ in range(2):
            for here, at in zip(available, rng.permutation(len(available)), strict=True):
                for dtype in (float, complex):
                    check(rng, here, available[at], dtype, str(rng.choice(list("GUL"))))
    if RANK == 0:
        sys.stdout.write("OK\n")
