"""One rank comes late to a call: those that wait say so on standard error, once, and then all goes on."""

from __future__ import annotations

import sys
import time

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr


def main() -> None:
    comm = MPI.COMM_WORLD
    n, late = comm.Get_size(), int(sys.argv[1])
    a = psr.Descriptor((40, 30), (4, 4), psr.ProcessGrid((n, 1), comm))
    b = psr.Descriptor((40, 30), (9, 5), psr.ProcessGrid((1, n), comm))
    plan = psr.redistribute(a, b)
    local, wanted = a.from_function(lambda i, j: 100.0 * i + j), b.from_function(lambda i, j: 100.0 * i + j)
    for k in range(3):
        if k == 2 and comm.Get_rank() == late:
            time.sleep(4)
        assert np.array_equal(plan(local), wanted)
    if comm.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
