"""Communicators made and freed in turn: in the last call on each, a rank comes late, and the others ask who is missing.

Their nodes change, so that other ranks send the first messages on the next.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import waiting


def main() -> None:
    waiting.ANSWER_SECONDS = 0.1
    n, rank = MPI.COMM_WORLD.Get_size(), MPI.COMM_WORLD.Get_rank()
    for turn in range(int(sys.argv[1])):
        os.environ["PYSCALAPACK_REDIST_NODES"] = "0,1,2" if turn % 2 else "0,0,1"
        comm = MPI.COMM_WORLD.Dup()
        a = psr.Descriptor((40, 30), (4, 4), psr.ProcessGrid((n, 1), comm))
        b = psr.Descriptor((40, 30), (9, 5), psr.ProcessGrid((1, n), comm))
        plan = psr.redistribute(a, b)
        local, wanted = a.from_function(lambda i, j: 100.0 * i + j), b.from_function(lambda i, j: 100.0 * i + j)
        for call in range(3):
            if call == 2 and rank == 0:
                time.sleep(0.3)
            assert np.array_equal(plan(local), wanted)
        comm.Free()
    if rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
