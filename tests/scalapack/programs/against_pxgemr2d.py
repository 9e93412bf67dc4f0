"""Random pairs of layouts: redistribute against ScaLAPACK's own p?gemr2d, byte by byte, for its five types.

Arguments: number of cases, seed. Descriptors are passed as objects or as nine integers.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import Layout, random_layout, random_size

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
DTYPES = (np.float32, np.float64, np.complex64, np.complex128, np.int32)


def given(desc: psr.Descriptor, form: int) -> Any:
    """A descriptor as an object, as an array of nine integers, or as nothing on ranks outside its grid."""
    if form == 0:
        return desc
    whole = np.asarray(desc)
    if form == 2 and desc.coords is None:
        return None
    return whole if form == 1 else whole.astype(np.int64).tolist()


def numbered(shape: tuple[int, ...], dtype: Any, salt: int) -> NDArray[Any]:
    return np.random.default_rng(salt).integers(-(2**20), 2**20, shape).astype(dtype)


def local_of(layout: Layout, desc: psr.Descriptor, whole: NDArray[Any]) -> NDArray[Any] | None:
    """The local array with its leading dimension, in Fortran order."""
    mine = layout.local(whole, RANK)
    if mine is None:
        return None
    local = np.asfortranarray(np.full((desc.lld, mine.shape[1]), -7, whole.dtype))
    local[: mine.shape[0]] = mine
    return local


def check_case(rng: np.random.Generator, context: int) -> None:
    size = random_size(rng)
    a, b = (random_layout(rng, size, WORLD.Get_size(), irregular=False) for _ in range(2))
    dtype = DTYPES[rng.integers(len(DTYPES))]
    salt = int(rng.integers(2**31))
    whole_a, whole_b = numbered(a.shape, dtype, salt), numbered(b.shape, dtype, salt + 1)
    grids = [psr.ProcessGrid(grid.ranks.shape, WORLD, ranks=grid.ranks) for grid in (a, b)]
    for grid in grids:
        grid.make_context()
    desc_a, desc_b = (
        psr.Descriptor(layout.shape, layout.block, grid, source=layout.source)[layout.window()]
        for layout, grid in zip((a, b), grids, strict=True)
    )
    local_a, theirs, ours = (
        local_of(*operand) for operand in ((a, desc_a, whole_a), (b, desc_b, whole_b), (b, desc_b, whole_b))
    )
    psr.scalapack.pxgemr2d(local_a, desc_a, theirs, desc_b, context)
    whole = a.size == a.shape and b.size == b.shape
    form_a, form_b = (int(rng.integers(4)) if whole else 0 for _ in range(2))
    plan = psr.redistribute(given(desc_a, form_a), given(desc_b, form_b), comm=WORLD)
    plan(local_a, ours)
    what = f"{a} -> {b}, {dtype.__name__}, forms {form_a} {form_b}"
    if theirs is not None and ours is not None:
        assert ours.tobytes() == theirs.tobytes(), what
    for grid in grids:
        grid.close()


def main() -> None:
    cases, seed = int(sys.argv[1]), int(sys.argv[2])
    if RANK == 0:
        print(f"{cases} cases, seed {seed}", flush=True)
    with psr.ProcessGrid((1, WORLD.Get_size()), WORLD) as grid:
        context = grid.make_context()
        for case in range(cases):
            check_case(np.random.default_rng([seed, case]), context)
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
