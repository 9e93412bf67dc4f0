"""ScaLAPACK is missing on one rank: its error there, a CollectiveError on the others, and all can go on."""

from __future__ import annotations

import os

import pytest
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
LACKS_IT = WORLD.rank == WORLD.size - 1
if LACKS_IT:
    os.environ["PYSCALAPACK_REDIST_LIBRARY"] = "/no/where.so"

import pyscalapack_redist as psr  # noqa: E402 - the library is looked for once


def main() -> None:
    a = psr.eye(1000, WORLD)
    for call in (psr.linalg.inv, psr.linalg.cholesky):  # of an order at which rates are measured by a trial
        with pytest.raises(psr.LibraryError if LACKS_IT else psr.CollectiveError, match=r"/no/where\.so"):
            call(a)
    assert a.sum() == 1000
    print("OK\n", end="", flush=True)


if __name__ == "__main__":
    main()
