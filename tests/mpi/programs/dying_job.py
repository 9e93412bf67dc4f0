"""Two jobs, one of which is killed: the other sees it, and its ranks end by themselves.

Arguments: "accept" or "connect", a file, an exchange.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr


def test_until_done(transfer: Any) -> None:
    while not transfer.test():
        time.sleep(0.001)


def main() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # MPICH's launcher sends it when another rank has died
    comm, (role, path, exchange) = MPI.COMM_WORLD, sys.argv[1:]
    other = (psr.accept if role == "accept" else psr.connect)(path, comm, timeout=10)
    desc = psr.Descriptor((300, 300), 8, psr.ProcessGrid((comm.size, 1), comm))
    pair = (desc, None) if role == "accept" else (None, desc)
    plan = psr.redistribute(*pair, comm=other, exchange=exchange)
    arrays = (np.zeros(desc.local_shape), None) if role == "accept" else (None, desc.zeros())
    for _ in range(2):
        plan(*arrays)
    if role == "accept":
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    transfer = plan.start(*arrays)
    with pytest.raises(psr.CollectiveError):
        test_until_done(transfer)
    print("OK\n", end="", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
