"""One plan with many factors in turn, so that some calls are compiled ones and some not; and with others on another rank.

Arguments: number of calls, seed.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
FACTORS = (
    *((1, beta) for beta in (0, 1, -1.0, 2)),
    (0, 3),
    (0, 0),
    (-2, 0),
    (np.float64(3), np.float32(0.5)),
    (0.5, 4),
    (3, -3),
)
OTHERS = (5, 7)


def part(array: NDArray[Any], desc: psr.Descriptor) -> NDArray[Any]:
    """What this rank has of a whole array."""
    return desc.from_function(lambda i, j: array[i, j], array.dtype)


def check_plan(desc_a: psr.Descriptor, desc_b: psr.Descriptor, op: str, calls: int, seed: int) -> None:
    """All calls of one plan; every rank draws the same."""
    rng = np.random.default_rng(seed)
    dtypes = [np.dtype(char) for char in "fdFD"]
    plan = psr.redistribute(desc_a, desc_b, op=op)
    for call in range(calls):
        dtype = dtypes[rng.integers(len(dtypes)) if rng.random() < 0.1 else 1]
        whole_a, whole_b = (rng.integers(-8, 8, desc.shape).astype(dtype) for desc in (desc_a, desc_b))
        a, b = part(whole_a, desc_a), part(whole_b, desc_b)
        alpha, beta = FACTORS[rng.integers(len(FACTORS))]
        moved = whole_a if op == "N" else whole_a.T
        if rng.random() < 0.05:  # on one rank others
            differs = rng.integers(WORLD.size) == WORLD.rank
            if WORLD.size == 1:
                continue
            with pytest.raises(psr.CollectiveError, match="alpha = 5"):
                plan(a, b, alpha=OTHERS[0] if differs else alpha, beta=OTHERS[1] if differs else beta)
            expected = whole_b
        else:
            if rng.random() < 0.8:
                result = plan(a, b, alpha=alpha, beta=beta)
            else:
                result = plan.start(a, b, alpha=alpha, beta=beta).wait()
            assert result is b
            expected = alpha * moved + beta * whole_b
        wanted = part(expected.astype(dtype), desc_b)  # exact, as all are small
        what = f"call {call}: {desc_a} -> {desc_b}, {op}, {dtype}, alpha = {alpha}, beta = {beta}"
        assert np.array_equal(b, wanted), what
        assert len(plan._remembered) <= 8


def check_in_place(desc: psr.Descriptor, calls: int, seed: int) -> None:
    """A multiple of itself, in turn with sums of two arrays."""
    rng = np.random.default_rng(seed)
    plan = psr.redistribute(desc, desc)
    for _ in range(calls):
        whole = rng.integers(-8, 8, desc.shape).astype(float)
        a, b = part(whole, desc), part(whole, desc)
        alpha, beta = FACTORS[rng.integers(len(FACTORS))]
        out = a if rng.random() < 0.5 else b
        assert plan(a, out, alpha=alpha, beta=beta) is out
        wanted = part((alpha + beta) * whole, desc)
        assert np.array_equal(out, wanted)


def main() -> None:
    """Several pairs of layouts, of few elements and of more."""
    calls, seed = map(int, sys.argv[1:])
    size = WORLD.size
    column, row = psr.ProcessGrid((size, 1), WORLD), psr.ProcessGrid((1, size), WORLD)
    for number, (n, block) in enumerate(((5, 1), (37, 8), (150, 64))):
        shape = (n, n + 3)
        a, same, b = (
            psr.Descriptor(shape, block, column),
            psr.Descriptor(shape, block, column),
            psr.Descriptor(shape, block + 1, row),
        )
        turned = psr.Descriptor(shape[::-1], block, row)
        for desc_b, op in ((same, "N"), (b, "N"), (turned, "T")):
            check_plan(a, desc_b, op, calls, seed + number)
        check_in_place(a, calls, seed + number)
    if WORLD.rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
