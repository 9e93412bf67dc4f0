"""One rank comes late to a call: those that wait say so on standard error, once, and then all goes on.

The first argument has the seconds that each rank comes late to a call, with "first" to the plan; with "few" only the lowest two
ranks ask all others. With "search" rank 0 comes to a plan with the others, and takes long to find its schedule.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import waiting
from pyscalapack_redist.engine import redistribute


def main() -> None:
    comm = MPI.COMM_WORLD
    if sys.argv[1] == "search":
        search_slowly()
        return
    n, late = comm.Get_size(), [float(seconds) for seconds in sys.argv[1].split(",")][comm.Get_rank()]
    if "few" in sys.argv:
        waiting.WATCHERS = 2
    if "first" in sys.argv:
        time.sleep(late)
        late = 0
    a = psr.Descriptor((40, 30), (4, 4), psr.ProcessGrid((n, 1), comm))
    b = psr.Descriptor((40, 30), (9, 5), psr.ProcessGrid((1, n), comm))
    plan = psr.redistribute(a, b)
    local, wanted = a.from_function(lambda i, j: 100.0 * i + j), b.from_function(lambda i, j: 100.0 * i + j)
    for k in range(3):
        if k == 2:
            time.sleep(late)
        assert np.array_equal(plan(local), wanted)
    if comm.Get_rank() == 0:
        print("OK", flush=True)


def search_slowly() -> None:
    comm = MPI.COMM_WORLD
    n, searched = comm.Get_size(), redistribute.searched

    def slow(*arguments: Any) -> Any:
        time.sleep(3)
        return searched(*arguments)

    redistribute.searched = slow
    a = psr.Descriptor((40, 30), (4, 4), psr.ProcessGrid((n, 1), comm))
    b = psr.Descriptor((40, 30), (9, 5), psr.ProcessGrid((1, n), comm))
    assert psr.redistribute(a, b, schedule="stepwise").schedule.name == "stepwise"
    if comm.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
