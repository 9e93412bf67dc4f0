"""On several hosts. Arguments: `seen`, what each rank sees of its host, a line of JSON; or a host that goes in the middle of an
exchange, `killed` (its rank is) or `cut` (its link is down), and a file that is made just before.

The others have nothing of ours that could make them wait for longer than MPI does.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
MIDDLE = 0.05  # seconds after which a third of a second's exchange is in full swing


def seen() -> None:
    together = WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    queue = subprocess.run(["tc", "qdisc", "show", "dev", "eth0"], check=True, capture_output=True, text=True)
    found = {
        "rank": RANK,
        "host": platform.node(),
        "processor": MPI.Get_processor_name(),
        "ranks": together.Get_size(),
        "queue": queue.stdout,
        "devices": sorted(line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]),
    }
    together.Free()
    print(json.dumps(found) + "\n", end="", flush=True)


def trouble(what: str, started: Path) -> None:
    n = 512 * SIZE // 2
    a = psr.Descriptor((n, n), (8, 8), psr.ProcessGrid((SIZE, 1), WORLD))
    b = psr.Descriptor((n, n), (8, 8), psr.ProcessGrid((1, SIZE), WORLD))
    plan, local, out = psr.redistribute(a, b), a.zeros(np.float64), b.zeros(np.float64)
    plan(local, out)
    WORLD.Barrier()
    transfer = plan.start(local, out)
    if RANK == SIZE - 1:
        until = time.monotonic() + MIDDLE
        while time.monotonic() < until:
            assert not transfer.test(), "the exchange is over before its middle"
        started.touch()
        if what == "cut":
            subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    transfer.wait()
    plan(local, out)
    print(f"rank {RANK}: no error\n", end="", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "seen":
        seen()
    else:
        trouble(sys.argv[1], Path(sys.argv[2]))
