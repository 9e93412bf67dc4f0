"""The last rank is killed in the middle of an exchange, or before it: the others see it and raise, and can end by themselves.

Argument: how the others wait, "call", "wait", "batch" or "test". The launcher must not kill the others.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import limit
from mpi4py import MPI

import pyscalapack_redist as psr


def use(plan: Any, local: Any, way: str) -> None:
    transfer = None if way == "call" else plan.start(local)
    while way == "test" and not transfer.test():
        time.sleep(0.001)
    plan(local) if transfer is None else transfer.wait()


def main() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # MPICH's launcher tells the others so; unasked, it ends them
    comm, way, n = MPI.COMM_WORLD, sys.argv[1], 3000  # more than a test moves
    a, b = (psr.Descriptor((n, n), 8, psr.ProcessGrid(shape, comm)) for shape in ((comm.size, 1), (1, comm.size)))
    plan: Any = psr.redistribute(a, b, exchange="shared", memory_limit=2**16)
    local: Any = a.zeros(np.float64)
    if way == "batch":
        plan, local = psr.batch(plan, plan, memory_limit=2**16), [local, local]
    for _ in range(3):
        plan(local)
    comm.Barrier()
    if comm.rank == comm.size - 1:
        if way != "wait":
            plan.start(local).test()  # it votes, and sends a little
        time.sleep(0.05)  # what MPI has to tell the others of a barrier is told
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)  # else both might move all before the rank dies
    began = time.monotonic()
    with pytest.raises(psr.CollectiveError) as first:
        use(plan, local, way)
    assert time.monotonic() - began < limit(10.0)
    assert f"rank {comm.size - 1} has died" in str(first.value) or comm.size > 2, first.value
    assert "its pending data are lost" in str(first.value)
    with pytest.raises(psr.CollectiveError, match="cannot redistribute any more"):
        plan(local)
    assert not list(Path("/dev/shm").glob("pyscalapack_redist*"))
    print(
        "OK\n", end="", flush=True
    )  # in one piece: the launcher may put another rank's words between a line and its end
    os._exit(0)  # finalizing would wait for the dead


if __name__ == "__main__":
    main()
