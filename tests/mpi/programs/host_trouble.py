"""A host goes in the middle of an exchange between hosts. Arguments: "killed" (its rank is) or "cut" (its link is down), and
a file that is made just before.

The others have nothing of ours that could make them wait for longer than MPI does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr

MIDDLE = 0.05  # seconds after which a third of a second's exchange is in full swing


def main() -> None:
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    n = 512 * size // 2
    a = psr.Descriptor((n, n), (8, 8), psr.ProcessGrid((size, 1), comm))
    b = psr.Descriptor((n, n), (8, 8), psr.ProcessGrid((1, size), comm))
    plan = psr.redistribute(a, b)
    local, out = a.zeros(np.float64), b.zeros(np.float64)
    plan(local, out)
    comm.Barrier()
    transfer = plan.start(local, out)
    if rank == size - 1:
        until = time.monotonic() + MIDDLE
        while time.monotonic() < until:
            assert not transfer.test(), "the exchange is over before its middle"
        Path(sys.argv[2]).touch()
        if sys.argv[1] == "cut":
            subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        transfer.wait()
        plan(local, out)
    except Exception as error:
        seconds = time.monotonic() - began
        print(f"rank {rank}: after {seconds:.1f} s {type(error).__name__}: {error}\n", end="", flush=True)
        raise
    print(f"rank {rank}: no error\n", end="", flush=True)


if __name__ == "__main__":
    main()
