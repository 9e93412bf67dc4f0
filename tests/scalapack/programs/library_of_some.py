"""ScaLAPACK is missing on one rank, or it has too little memory for its BLAS: an error on all, and all can go on."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import pytest
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
LACKS_IT = WORLD.rank == WORLD.size - 1
KIND, WORDS = (MemoryError, "address space") if sys.argv[1:] == ["memory"] else (None, r"/no/where\.so")
if LACKS_IT and KIND is None:
    os.environ["PYSCALAPACK_REDIST_LIBRARY"] = "/no/where.so"

import pyscalapack_redist as psr  # noqa: E402 - the library is looked for once


def main() -> None:
    a = psr.eye(1000, WORLD)
    if LACKS_IT and KIND is MemoryError:  # enough for the files of the library alone
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + 110 * 2**20, -1))
    for call in (psr.linalg.inv, psr.linalg.cholesky):  # of an order at which rates are measured by a trial
        with pytest.raises((KIND or psr.LibraryError) if LACKS_IT else psr.CollectiveError, match=WORDS):
            call(a)
    assert a.sum() == 1000
    print("OK\n", end="", flush=True)


if __name__ == "__main__":
    main()
