"""Chunks so large that they are written past the cache in turn with others, while every call is checked. Argument: calls."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
N = 1210


def value(i: Any, j: Any) -> Any:
    return (1001 * i + j) % 30011


def ways(plan: psr.Redistribution) -> list[bool | None]:
    """How the other ranks of the node write chunks for this one."""
    assert plan._group is not None
    assert plan._group.node is not None
    ring = plan._group.node.ring
    assert ring is not None
    return [way for rank, way in enumerate(ring.past_the_cache()) if rank != ring.rank]


def main() -> None:
    calls, size = int(sys.argv[1]), WORLD.size
    rows, columns = psr.ProcessGrid((size, 1), WORLD), psr.ProcessGrid((1, size), WORLD)
    for block, dtype, op in (
        (64, "f8", "N"),
        (8, "f4", "N"),
        (7, "f8", "N"),
        (31, "D", "N"),
        (1, "f8", "N"),
        (40, "f8", "T"),
    ):
        a, b = psr.Descriptor((N, N), block, rows), psr.Descriptor((N, N), (block + 5, block), columns)
        plan = psr.redistribute(a, b, exchange="shared", op=op)
        before = a.from_function(value, dtype)
        wanted = b.from_function(value if op == "N" else lambda i, j: value(j, i), dtype)
        for _ in range(calls):
            out = np.zeros_like(wanted)
            assert np.array_equal(plan(before, out), wanted), f"blocks of {block}, {dtype}, {op}"
            assert np.array_equal(plan(before, out, alpha=2, beta=-1), wanted), (
                f"blocks of {block}, {dtype}, {op}: a sum"
            )
    assert None not in ways(plan), f"nothing was tried: {ways(plan)}"
    if WORLD.rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
