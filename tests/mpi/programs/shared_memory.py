"""Which memory the ranks of a node share, and what happens where they may not. Every rank runs all of it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import node


def refused(size: int) -> tuple[int, str, bool]:
    raise OSError("not permitted here")


def elsewhere(size: int) -> tuple[int, str, bool]:
    """A file that the others take for another one, as where processes do not see one another."""
    descriptor, _, named = memory_file(size)
    return descriptor, f"/proc/self/fd/{os.open('/dev/zero', os.O_RDWR)}", named


memory_file, shm_file = node._memory_file, node._shm_file


def value(i: Any, j: Any) -> Any:
    return 100.0 * i + j


def redistributes(comm: MPI.Intracomm, says: str) -> None:
    """A new communicator, so that memory is asked for again."""
    n = comm.Get_size()
    duplicate = comm.Dup()
    a = psr.Descriptor((90, 70), (4, 4), psr.ProcessGrid((n, 1), duplicate))
    b = psr.Descriptor((90, 70), (9, 5), psr.ProcessGrid((1, n), duplicate))
    plan = psr.redistribute(a, b, exchange="shared")
    for _ in range(2):
        assert np.array_equal(plan(a.from_function(value)), b.from_function(value))
    assert says in str(plan.report()), plan.report()
    duplicate.Free()


def main() -> None:
    comm = MPI.COMM_WORLD
    first = comm.Get_rank() == 0
    redistributes(comm, "(memfd)")
    if first:
        node._memory_file = refused  # type: ignore[assignment]
    redistributes(comm, "(/dev/shm)")
    if first:
        node._shm_file = refused  # type: ignore[assignment]
    redistributes(comm, "no shared memory: not permitted here; not permitted here, so by MPI")
    node._memory_file, node._shm_file = memory_file, shm_file
    if first:
        node._memory_file = elsewhere
    redistributes(comm, "(/dev/shm)")
    if first:
        assert not [name for name in os.listdir("/dev/shm") if name.startswith("pyscalapack_redist")]
        print("OK", flush=True)


if __name__ == "__main__":
    main()
