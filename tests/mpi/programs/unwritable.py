"""A rank is late, and the one that reports it cannot write on standard error: the call goes on. Two ranks."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import waiting

WORLD = MPI.COMM_WORLD
RANK = WORLD.rank
TAG = 5


def use(plan: Any) -> None:
    a, wanted = (desc.from_function(lambda i, j: 100.0 * i + j) for desc in (plan.desc_a, plan.desc_b))
    assert np.array_equal(plan(a), wanted)


def full() -> TextIO:
    return open("/dev/full", "w")


def closed() -> TextIO:
    number = os.dup(2)
    stream = open(number, "w")  # noqa: SIM115 (it cannot be closed)
    os.close(number)
    return stream


def late(stream: TextIO | None) -> None:
    """Rank 1 comes when rank 0 has tried to report it."""
    report = waiting._report

    def report_and_tell(*words: Any) -> None:
        report(*words)
        WORLD.send(None, 1, TAG)

    comm = WORLD.Dup()
    grids = psr.ProcessGrid((2, 1), comm), psr.ProcessGrid((1, 2), comm)
    plan: Any = psr.redistribute(psr.Descriptor((40, 30), 4, grids[0]), psr.Descriptor((40, 30), 9, grids[1]))
    use(plan)
    plan.plan.group._waiting._timeout = 0.1
    WORLD.Barrier()
    if RANK == 1:
        WORLD.recv(source=0, tag=TAG)
        use(plan)
    else:
        kept, sys.stderr, waiting._report = sys.stderr, stream, report_and_tell  # type: ignore[assignment]
        try:
            use(plan)
        finally:
            sys.stderr, waiting._report = kept, report
    plan.plan.group._waiting._timeout = 0
    use(plan)
    comm.Free()


def main() -> None:
    for stream in (full(), closed(), None):
        late(stream)
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
