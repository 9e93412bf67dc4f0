"""A number of threads that is none, on one rank: every rank raises, and goes on once it is right."""

from __future__ import annotations

import os

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.exchanges.threads import VARIABLE


def main() -> None:
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    a = psr.Descriptor((20, 20), 3, psr.ProcessGrid((size, 1), comm))
    b = psr.Descriptor((20, 20), 4, psr.ProcessGrid((1, size), comm))
    local = a.from_function(lambda i, j: 20.0 * i + j, np.float64)
    os.environ[VARIABLE] = "all" if rank == size - 1 else "2"
    expected = psr.RedistributionError if rank == size - 1 else psr.CollectiveError
    plan = psr.redistribute(a, b)
    used = [(plan, local)]
    if size > 1:  # the last rank holds nothing
        few = psr.Descriptor((20, 20), 3, psr.ProcessGrid((size - 1, 1), comm))
        for exchange in "auto", "bruck":
            used.append(
                (psr.redistribute(few, few.T, comm=comm, exchange=exchange), few.zeros() if few.coords else None)
            )
    for some, array in used:
        for _ in range(2):
            with pytest.raises(expected, match=f"{VARIABLE}='all' must be the number of threads"):
                some(array)
    os.environ[VARIABLE] = "2"
    wanted = b.from_function(lambda i, j: 20.0 * i + j, np.float64)
    assert np.array_equal(plan(local), wanted)
    if rank == 0:
        print("OK")


if __name__ == "__main__":
    main()
