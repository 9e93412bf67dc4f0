"""A rank is killed in the middle of an exchange through shared memory: the others see it and raise, and can end by themselves.

Argument: "call", "transfer" or "batch". The launcher must not kill the others.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from launch import limit
from mpi4py import MPI

import pyscalapack_redist as psr


def main() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # MPICH's launcher tells the others so; unasked, it ends them
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    n = 600
    a = psr.Descriptor((n, n), (8, 8), psr.ProcessGrid((size, 1), comm))
    b = psr.Descriptor((n, n), (8, 8), psr.ProcessGrid((1, size), comm))
    plan: Any = psr.redistribute(a, b, exchange="shared", memory_limit=2**16)
    local: Any = a.zeros(np.float64)
    out: Any = b.zeros(np.float64)
    if sys.argv[1] == "batch":
        plan, local, out = psr.batch(plan, plan, memory_limit=2**16), [local, local], [out, b.zeros(np.float64)]
    for _ in range(3):
        plan(local, out)
    comm.Barrier()
    if rank == size - 1:
        plan.start(local, out).test()  # it votes, and sends a little
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        if sys.argv[1] != "transfer":
            plan(local, out)
        else:
            plan.start(local, out).wait()
    except psr.CollectiveError as error:
        text = str(error)
    else:
        text = "no error"
    seconds = time.monotonic() - began
    try:
        plan(local, out)
    except psr.CollectiveError as error:
        again = str(error)
    left = [path.name for path in Path("/dev/shm").glob("pyscalapack_redist*")]
    # In one piece: the launcher may put another rank's words between a line and its end.
    print(
        f"rank {rank}: {'in time' if seconds < limit(10.0) else seconds}: {text} | {again} | {left}\n",
        end="",
        flush=True,
    )
    os._exit(0)  # finalizing would wait for the dead


if __name__ == "__main__":
    main()
