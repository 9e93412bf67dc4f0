"""10,000 redistributions and 1,000 plans leave memory, communicators and files where they were.

Arguments: calls, plans, communicators.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
SHAPE = (24, 18)


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def next_communicator() -> int:
    """The handle that the next communicator gets: it grows if communicators are left behind."""
    probe = WORLD.Dup()
    handle = probe.py2f()
    probe.Free()
    return handle


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


def pair(comm: MPI.Intracomm, block: int) -> tuple[psr.Descriptor, psr.Descriptor]:
    n = comm.Get_size()
    rows, columns = psr.ProcessGrid((n, 1), comm), psr.ProcessGrid((1, n), comm)
    return psr.Descriptor(SHAPE, (block, 3), rows), psr.Descriptor(SHAPE, (2, block), columns)


def calls(times: int) -> None:
    desc_a, desc_b = pair(WORLD, 2)
    a = desc_a.from_function(lambda i, j: 100.0 * i + j)
    for _ in range(times):
        psr.redistribute(desc_a, desc_b)(a)


def in_flight(times: int) -> None:
    desc_a, desc_b = pair(WORLD, 2)
    plan, a = psr.redistribute(desc_a, desc_b), desc_a.zeros()
    for _ in range(times):
        one, two = plan.start(a), plan.start(a)
        two.wait()
        one.wait()


def plans(times: int) -> None:
    for k in range(times):
        desc_a, desc_b = pair(WORLD, 1 + k % 200)
        a = desc_a.zeros()
        psr.redistribute(desc_a, desc_b, memory_limit=2**20 + k)(a)


def failures(times: int) -> None:
    desc_a, desc_b = pair(WORLD, 2)
    for _ in range(times):
        try:
            psr.redistribute(desc_a, desc_b)(np.zeros((1, 1)))
        except psr.ArrayError:
            continue
        raise AssertionError("a wrong array was taken")


def communicators(times: int) -> None:
    for _ in range(times):
        part = WORLD.Split(WORLD.Get_rank() % 2, WORLD.Get_rank())
        desc_a, desc_b = pair(part, 2)
        result = psr.redistribute(desc_a, desc_b)(desc_a.from_function(lambda i, j: i + j))
        assert result is not None
        assert np.array_equal(result, desc_b.from_function(lambda i, j: i + j))
        part.Free()


def main() -> None:
    amounts = dict(zip((calls, plans, communicators), map(int, sys.argv[1:]), strict=True))
    amounts[in_flight] = amounts[failures] = max(1, amounts[calls] // 20)
    for work, times in amounts.items():
        work(max(times // 4, min(times, 250)))  # warm up: pools of MPI and of Python fill
        next_communicator()
        before = (resident(), next_communicator(), files())
        work(times)
        after = (resident(), next_communicator(), files())
        grown = WORLD.allreduce(after[0] - before[0], MPI.MAX)
        if WORLD.Get_rank() == 0:
            print(f"{work.__name__}: {times} times, memory grew by {grown} bytes", flush=True)
        assert grown < 2**20, f"{work.__name__}: memory grew by {grown} bytes"
        # MPICH hands out the last few again in any order
        assert abs(after[1] - before[1]) < 20, f"{work.__name__}: communicators were left behind: {before[1]} -> {after[1]}"
        assert after[2] == before[2], f"{work.__name__}: files were left open: {before[2]} -> {after[2]}"
    if WORLD.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
