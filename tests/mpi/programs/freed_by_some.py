"""A communicator that rank 1 frees when rank 0 waits for it no more: rank 0 keeps its private one, and the next works."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import groups, waiting
from pyscalapack_redist.comm.channel import Request

settle = waiting.Waiting.settle


def settled_and_said(self: waiting.Waiting, barrier: Callable[[], Request]) -> bool:
    met = settle(self, barrier)
    MPI.COMM_WORLD.send(met, 1)
    return met


def main() -> None:
    os.environ["PYSCALAPACK_REDIST_NODES"] = "0,1"
    rank = MPI.COMM_WORLD.Get_rank()
    for turn in range(3):
        comm = MPI.COMM_WORLD.Dup()
        a = psr.Descriptor((40, 30), (4, 4), psr.ProcessGrid((2, 1), comm))
        b = psr.Descriptor((40, 30), (9, 5), psr.ProcessGrid((1, 2), comm))
        local, wanted = a.from_function(lambda i, j: 100.0 * i + j), b.from_function(lambda i, j: 100.0 * i + j)
        assert np.array_equal(psr.redistribute(a, b)(local), wanted)
        late = turn == 1
        waiting.SETTLE_SECONDS = 0.5 if late else 60.0
        waiting.Waiting.settle = settled_and_said if late and rank == 0 else settle  # type: ignore[method-assign]
        if late and rank == 1:
            assert not MPI.COMM_WORLD.recv(source=0)
        comm.Free()
        if rank == 0:
            assert len(groups._never_freed) == (turn > 0), (turn, groups._never_freed)
    if rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
