"""Ranks without elements take part in calls whose dtype changes: sizes of elements decide how messages are cut and go.

Arguments: exchanges of a plan, and of a batch, with commas. Four ranks.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

COMM = MPI.COMM_WORLD
SIZES = ("f8", "f8", "S3000", "S3000", "f8", "i8", "f4", "S100", "f8")


def numbered(desc: psr.Descriptor, dtype: str) -> NDArray[Any] | None:
    """Each element tells its place; None where this rank has nothing."""
    return desc.from_function(lambda i, j: (1000 * i + j).astype(dtype), dtype) if desc.coords is not None else None


def is_right(found: Any, desc: psr.Descriptor, dtype: str) -> bool:
    """Whether these are the elements of `numbered`."""
    wanted = numbered(desc, dtype)
    return wanted is None or (found.dtype == wanted.dtype and np.array_equal(found, wanted))


def a_rank_without_elements(exchange: str) -> None:
    """Rank 0 has nothing of A and of B, and knows the dtype of no call; of a layout in between it has elements of its own."""
    some = list(range(1, COMM.size))
    a = psr.Descriptor((40, 30), (2, 3), psr.ProcessGrid((len(some), 1), COMM, ranks=[[rank] for rank in some]))
    b = psr.Descriptor((40, 30), (3, 2), psr.ProcessGrid((1, len(some)), COMM, ranks=[some]))
    between = psr.Descriptor((40, 30), (40, 5), psr.ProcessGrid((1, COMM.size), COMM))
    for via in (None, [between]):
        plan = psr.redistribute(a, b, comm=COMM, via=via, exchange=exchange)
        for k, dtype in enumerate(SIZES):
            assert is_right(plan(numbered(a, dtype)), b, dtype), (exchange, via, k, dtype)


def a_pair_of_other_ranks(exchange: str) -> None:
    """Ranks in the middle have nothing of the second pair of a batch; they have to move the first."""
    ends = [0, COMM.size - 1]
    all_rows, all_columns = (psr.ProcessGrid(shape, COMM) for shape in ((COMM.size, 1), (1, COMM.size)))
    rows = psr.ProcessGrid((2, 1), COMM, ranks=[[rank] for rank in ends])
    columns = psr.ProcessGrid((1, 2), COMM, ranks=[ends])
    first = psr.Descriptor((32, 32), 2, all_rows), psr.Descriptor((32, 32), 3, all_columns)
    second = psr.Descriptor((64, 64), (2, 64), rows), psr.Descriptor((64, 64), (64, 3), columns)
    both = psr.batch(*[psr.redistribute(*pair, comm=COMM) for pair in (first, second)], exchange=exchange)
    for k, dtype in enumerate(SIZES):
        found = both([numbered(first[0], "f8"), numbered(second[0], dtype)])
        assert is_right(found[0], first[1], "f8"), (exchange, k, dtype)
        assert is_right(found[1], second[1], dtype), (exchange, k, dtype)


def main() -> None:
    for exchange in sys.argv[1].split(","):
        a_rank_without_elements(exchange)
    for exchange in sys.argv[2].split(","):
        a_pair_of_other_ranks(exchange)
    COMM.Barrier()
    if COMM.rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
