"""A communicator that rank 1 frees long after rank 0, which keeps its private one then; another is made, and works."""

from __future__ import annotations

import os
import time

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import groups, waiting


def main() -> None:
    waiting.SETTLE_SECONDS = 0.5
    os.environ["PYSCALAPACK_REDIST_NODES"] = "0,1"
    rank = MPI.COMM_WORLD.Get_rank()
    for turn in range(3):
        comm = MPI.COMM_WORLD.Dup()
        a = psr.Descriptor((40, 30), (4, 4), psr.ProcessGrid((2, 1), comm))
        b = psr.Descriptor((40, 30), (9, 5), psr.ProcessGrid((1, 2), comm))
        local, wanted = a.from_function(lambda i, j: 100.0 * i + j), b.from_function(lambda i, j: 100.0 * i + j)
        assert np.array_equal(psr.redistribute(a, b)(local), wanted)
        if rank == 1 and turn == 1:
            time.sleep(2.0)
        comm.Free()
        if rank == 0:
            assert len(groups._never_freed) == (turn > 0), (turn, groups._never_freed)
    if rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
