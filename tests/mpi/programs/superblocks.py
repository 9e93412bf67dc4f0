"""Walker & Otto's K phases where a pair of processes has several: one block of each superblock in each, as in their Fig 3.

Arguments: number of random cases, seed.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr

COMM = MPI.COMM_WORLD
SIZE = COMM.Get_size()
EXCHANGES = ("sendrecv", "synchronized", "nonblocking", "ready", "windowed")


def numbers(desc: psr.Descriptor) -> Any:
    """The local array of one whose elements are numbered, from 1 on."""
    if desc.ndim == 1:
        return desc.from_function(lambda i: i + 1.0)
    columns = desc.shape[1]
    return desc.from_function(lambda i, j: i * columns + j + 1.0)


def vectors(n: int, r: int, s: int, places: tuple[int, ...] | None = None) -> tuple[psr.Descriptor, psr.Descriptor]:
    grid = psr.ProcessGrid((SIZE,), COMM, ranks=places)
    return psr.Descriptor((n,), (r,), grid), psr.Descriptor((n,), (s,), grid)


def check(a: psr.Descriptor, b: psr.Descriptor, what: str, **options: Any) -> psr.Redistribution:
    plan = psr.redistribute(a, b, **options)
    found = plan(numbers(a))
    assert found is not None
    assert np.array_equal(found, numbers(b)), (what, a, b, options)
    return plan


def paper(K: int) -> None:
    """Whole superblocks of blocks of 4, as in section 3, both ways."""
    small, large = vectors(4 * SIZE * K * 5, 4, 4 * K)
    for a, b in ((small, large), (large, small)):
        for exchange in EXCHANGES:
            plan = check(a, b, "whole superblocks", schedule="walker-otto", exchange=exchange, buffers="datatypes")
            assert plan.report().extra_bytes == 0
            own = sum(q == COMM.Get_rank() for q in psr.schedules.walker_otto(SIZE, K).q[:, COMM.Get_rank()])
            for side in ("send", "receive"):
                assert len(plan.messages[side]) == K - own, "a block of each superblock in each of K phases"
        for exchange in ("nonblocking", "synchronized"):
            for buffers in ("packed", "datatypes"):
                check(a, b, "Eq 2", schedule="phases", exchange=exchange, buffers=buffers)


def general() -> None:
    """r1 -> r2 by the least common multiple or the greatest common divisor, each leg with its schedule (section 4)."""
    for n, via, exchange in itertools.product((96, 101, 10, 5, 1), ("lcm", "gcd"), ("auto", "sendrecv")):
        for r, s in ((4, 6), (6, 4), (3, 4), (10, 4), (2, 8)):
            a, b = vectors(n, r, s)
            check(a, b, "general", via=via, schedule="walker-otto", exchange=exchange)
    a, b = vectors(7, 2**40, 2**40 - 1)
    check(a, b, "a multiple beyond all integers", via="lcm")


def at_random(rng: np.random.Generator) -> None:
    """Arrays that begin and end anywhere, of two dimensions too, on ranks in any order."""
    places = tuple(rng.permutation(SIZE).tolist())
    r, K, n = int(rng.integers(1, 5)), int(rng.integers(1, 4 * SIZE)), int(rng.integers(0, 400))
    options: dict[str, Any] = {
        "schedule": ("walker-otto", "phases")[rng.integers(2)],
        "exchange": ("nonblocking", "synchronized", "windowed")[rng.integers(3)],
        "buffers": ("packed", "datatypes")[int(rng.random() < 0.8)],
    }
    first = int(rng.integers(0, 60))
    ends = vectors(n + first + 7, r, K * r, places)
    before, after = ends if rng.random() < 0.5 else ends[::-1]
    out = after.zeros()
    window = slice(first, first + n)
    psr.redistribute(before[window], after[window], **options)(numbers(before), out)
    values = numbers(after)
    inside = (values > first) & (values <= first + n)
    assert np.array_equal(out, np.where(inside, values, 0.0)), (before, after, window, options)

    shape = (n, int(rng.integers(1, 30)))
    grid = psr.ProcessGrid((SIZE, 1), COMM, ranks=np.reshape(places, (SIZE, 1)))
    check(*(psr.Descriptor(shape, (block, 3), grid) for block in (r, K * r)), "matrix", **options)


def main() -> None:
    cases, seed = int(sys.argv[1]), int(sys.argv[2])
    for K in (2, SIZE, SIZE + 1, 7, 20):
        paper(K)
    general()
    for case in range(cases):
        at_random(np.random.default_rng([seed, case]))
    if COMM.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
