"""Random pairs of layouts: uplo= and diag= of redistribute against ScaLAPACK's own p?trmr2d, for its five types.

Arguments: number of cases, seed.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
from against_pxgemr2d import DTYPES, RANK, WORLD, local_of, numbered
from oracle import random_layout, random_size

import pyscalapack_redist as psr

KINDS = list(itertools.product("UL", "NU", DTYPES))


def check_case(rng: np.random.Generator, number: int, context: int) -> None:
    size = random_size(rng)
    a, b = (random_layout(rng, size, WORLD.Get_size(), irregular=False) for _ in range(2))
    uplo, diag, dtype = KINDS[number % len(KINDS)]
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
    psr.scalapack.pxtrmr2d(local_a, desc_a, theirs, desc_b, uplo=uplo, diag=diag, context=context)
    psr.redistribute(desc_a, desc_b, dtype=dtype, uplo=uplo, diag=diag)(local_a, ours)
    if theirs is not None and ours is not None:
        assert ours.tobytes() == theirs.tobytes(), f"{a} -> {b}, {dtype.__name__}, uplo {uplo}, diag {diag}"
    for grid in grids:
        grid.close()


def main() -> None:
    cases, seed = int(sys.argv[1]), int(sys.argv[2])
    if RANK == 0:
        print(f"{cases} cases, seed {seed}", flush=True)
    with psr.ProcessGrid((1, WORLD.Get_size()), WORLD) as grid:
        context = grid.make_context()
        for case in range(cases):
            check_case(np.random.default_rng([seed, case]), case, context)
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
