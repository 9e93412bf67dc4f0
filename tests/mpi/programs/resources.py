"""10,000 redistributions and 1,000 plans leave memory, communicators, datatypes and files where they were.

Arguments: calls, plans, communicators.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from memory import growth
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.exchanges import BUFFERS, EXCHANGES, buffers
from pyscalapack_redist.exchanges.datatypes import box_type

KINDS = [{"exchange": x, "buffers": b} for x in EXCHANGES for b in BUFFERS if b in EXCHANGES[x].understands]
MADE: list[MPI.Datatype] = []
WORLD = MPI.COMM_WORLD
SHAPE = (24, 18)
NUMBERS = itertools.count()


def next_numbers(times: int) -> Iterator[int]:
    """Ever others, so that what is kept for each grows, however often the work is done."""
    return itertools.islice(NUMBERS, times)


def next_communicator() -> int:
    """The handle that the next communicator gets: it grows if communicators are left behind."""
    probe = WORLD.Dup()
    handle = probe.py2f()
    probe.Free()
    return handle


def datatypes() -> int:
    """Datatypes of messages that have not been freed."""
    gc.collect()
    MADE[:] = [datatype for datatype in MADE if datatype != MPI.DATATYPE_NULL]
    return len(MADE)


def watched(*args: Any) -> MPI.Datatype:
    MADE.append(box_type(*args))
    return MADE[-1]


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


def pair(comm: MPI.Intracomm, block: int) -> tuple[psr.Descriptor, psr.Descriptor]:
    n = comm.Get_size()
    rows, columns = psr.ProcessGrid((n, 1), comm), psr.ProcessGrid((1, n), comm)
    return psr.Descriptor(SHAPE, (block, 3), rows), psr.Descriptor(SHAPE, (2, block), columns)


def calls(times: int) -> None:
    desc_a, desc_b = pair(WORLD, 2)
    a = desc_a.from_function(lambda i, j: 100.0 * i + j)
    for k in next_numbers(times):
        psr.redistribute(desc_a, desc_b, **KINDS[k % len(KINDS)])(a)


def strides(times: int) -> None:
    """Datatypes for ever other element sizes and strides."""
    desc_a, desc_b = pair(WORLD, 2)
    plan = psr.redistribute(desc_a, desc_b, buffers="datatypes")
    for k in next_numbers(times):
        a = np.zeros((desc_a.local_shape[0], desc_a.local_shape[1] + k % 1000), f"V{1 + k % 7}")
        plan(a[:, : desc_a.local_shape[1]])


def factors(times: int) -> None:
    """Ever other alpha and beta."""
    desc_a, desc_b = pair(WORLD, 2)
    plan, a, out = psr.redistribute(desc_a, desc_b), desc_a.zeros(), desc_b.zeros()
    for k in next_numbers(times):
        plan(a, out, alpha=k, beta=k % 3)


def in_flight(times: int) -> None:
    desc_a, desc_b = pair(WORLD, 2)
    plan, a = psr.redistribute(desc_a, desc_b), desc_a.zeros()
    for _ in range(times):
        first, second = plan.start(a), plan.start(a)
        second.wait()
        first.wait()


def batches(times: int) -> None:
    """Batches made anew, with arrays of ever other kinds, and some in which a call fails."""
    desc_a, desc_b = pair(WORLD, 2)
    plan = psr.redistribute(desc_a, desc_b)
    kept = psr.batch(plan, plan)
    for k in next_numbers(times):
        a = np.zeros((desc_a.local_shape[0], desc_a.local_shape[1] + k % 20), f"V{1 + k % 7}")[
            :, : desc_a.local_shape[1]
        ]
        kept([a, a])
        exchange = ("shared", "nonblocking")[k % 2]
        psr.batch(plan, plan, plan, exchange=exchange, memory_limit=2**20 + k)([a, a, a])
        try:
            kept([a, np.zeros((1, 1))])
        except psr.ArrayError:
            continue
        raise AssertionError("a wrong array was taken")


def plans(times: int) -> None:
    for k in next_numbers(times):
        desc_a, desc_b = pair(WORLD, 1 + k % 200)
        a = desc_a.zeros()
        psr.redistribute(desc_a, desc_b, **KINDS[k % len(KINDS)], memory_limit=2**20 + k)(a)


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


def arrays_go_at_once() -> None:
    """Nothing holds an array after the wait, not even until the garbage collector runs."""
    desc_a, desc_b = pair(WORLD, 2)
    gc.collect()
    gc.disable()
    for options in KINDS:
        plan = psr.redistribute(desc_a, desc_b, **options)
        for wide in range(3):  # the last ones are of kinds that the plan has seen
            a = np.zeros((desc_a.local_shape[0], desc_a.local_shape[1] + wide % 2))
            source = a[:, : desc_a.local_shape[1]]
            result = plan.start(source).wait() if wide else plan(source)
            out = desc_b.zeros()
            plan(source, out)
            del source
            held = [weakref.ref(a), weakref.ref(result), weakref.ref(out)]
            del a, result, out
            assert not any(array() is not None for array in held), f"{options}: an array is held after the wait"
    gc.enable()


def main() -> None:
    arrays_go_at_once()
    buffers.box_type = watched
    amounts = dict(zip((calls, plans, communicators), map(int, sys.argv[1:]), strict=True))
    amounts[strides] = amounts[factors] = max(1, amounts[calls] // 5)
    amounts[in_flight] = amounts[failures] = amounts[batches] = max(1, amounts[calls] // 20)
    for work, times in amounts.items():
        work(max(times // 4, min(times, 1000)))  # warm up: pools of MPI and of Python fill
        next_communicator()
        before = (next_communicator(), files(), datatypes())
        grown = WORLD.allreduce(growth(work, times), MPI.MAX)
        after = (next_communicator(), files(), datatypes())
        if WORLD.Get_rank() == 0:
            print(f"{work.__name__}: {times} times, memory grew by {grown} bytes", flush=True)
        assert grown < 2**20, f"{work.__name__}: memory grew by {grown} bytes"
        # MPICH hands out the last few again in any order
        assert abs(after[0] - before[0]) < 20, (
            f"{work.__name__}: communicators were left behind: {before[0]} -> {after[0]}"
        )
        assert after[1] == before[1], f"{work.__name__}: files were left open: {before[1]} -> {after[1]}"
        assert after[2] < before[2] + 100, f"{work.__name__}: datatypes were left behind: {before[2]} -> {after[2]}"
    if WORLD.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
