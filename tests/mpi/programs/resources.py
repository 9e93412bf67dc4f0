"""Redistributions, plans, batches and communicators leave memory, communicators, datatypes, files and arrays where they were.

Arguments: calls, plans, communicators.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from memory import growth
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm.groups import group_of
from pyscalapack_redist.exchanges import BUFFERS, EXCHANGES
from pyscalapack_redist.exchanges import message as buffers
from pyscalapack_redist.exchanges.message import box_type

KINDS: list[dict[str, Any]] = [
    {"exchange": x, "buffers": b} for x in EXCHANGES for b in BUFFERS if b in EXCHANGES[x].supported_buffers
]
OTHERS: list[dict[str, Any]] = [{"schedule": "stepwise"}, {"via": "lcm"}, {"uplo": "U", "fill": "zero"}]
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


def pair(comm: MPI.Intracomm = WORLD, block: int = 2) -> tuple[psr.Descriptor, psr.Descriptor]:
    rows, columns = psr.ProcessGrid((comm.size, 1), comm), psr.ProcessGrid((1, comm.size), comm)
    return psr.Descriptor(SHAPE, (block, 3), rows), psr.Descriptor(SHAPE, (2, block), columns)


def wide(desc: psr.Descriptor, more: int, dtype: Any = float) -> Any:
    """An array with longer strides by so many elements."""
    rows, columns = desc.local_shape
    return np.zeros((rows, columns + more), dtype)[:, :columns]


def calls(times: int) -> None:
    a, b = pair()
    for k in next_numbers(times):
        psr.redistribute(a, b, **KINDS[k % len(KINDS)])(a.zeros())


def strides(times: int) -> None:
    """Datatypes for ever other element sizes and strides."""
    a, b = pair()
    plan = psr.redistribute(a, b, buffers="datatypes")
    for k in next_numbers(times):
        plan(wide(a, k % 1000, f"V{1 + k % 7}"))


def factors(times: int) -> None:
    a, b = pair()
    plan, source, out = psr.redistribute(a, b), a.zeros(), b.zeros()
    for k in next_numbers(times):
        plan(source, out, alpha=k, beta=k % 3)


def in_flight(times: int) -> None:
    a, b = pair()
    plan, source = psr.redistribute(a, b), a.zeros()
    for _ in range(times):
        first, second = plan.start(source), plan.start(source)
        second.wait()
        first.wait()


def batches(times: int) -> None:
    """Made anew, with arrays of ever other kinds; and calls that fail, of a batch and of a plan."""
    a, b = pair()
    plan = psr.redistribute(a, b)
    kept = psr.batch(plan, plan)
    for k in next_numbers(times):
        source = wide(a, k % 20, f"V{1 + k % 7}")
        kept([source, source])
        exchange = ("shared", "nonblocking")[k % 2]
        psr.batch(plan, plan, plan, exchange=exchange, memory_limit=2**20 + k)([source] * 3)
        with pytest.raises(psr.ArrayError):
            kept([source, np.zeros((1, 1))])
        with pytest.raises(psr.ArrayError):
            plan(np.zeros((1, 1)))


def plans(times: int) -> None:
    for k in next_numbers(times):
        a, b = pair(block=1 + k % 200)
        psr.redistribute(a, b, **KINDS[k % len(KINDS)], memory_limit=2**20 + k)(a.zeros())


def communicators(times: int) -> None:
    for _ in range(times):
        part = WORLD.Split(WORLD.rank % 2, WORLD.rank)
        a, b = pair(part)
        psr.redistribute(a, b)(a.zeros())
        part.Free()


def arrays_and_plans_go_at_once() -> None:
    """Nothing holds an array after the wait, nor a plan that is kept no more, not even until the garbage collector runs."""
    a, b = pair()
    gc.collect()
    gc.disable()
    for options in (*KINDS, *OTHERS):
        plan = psr.redistribute(a, b, **options)
        for more in range(3):  # the last ones are of kinds that the plan has seen
            source, out = wide(a, more % 2), b.zeros()
            result = plan.start(source).wait() if more else plan(source)
            plan(source, out)
            if options.get("buffers") != "datatypes":
                plan(source, out, alpha=2, beta=1)
            held = [weakref.ref(array) for array in (source.base, result, out)]
            del source, result, out
            assert not any(array() is not None for array in held), f"{options}: an array is held after the wait"
        last = weakref.ref(plan)
        del plan
        group_of(WORLD).plans.clear()
        assert last() is None, f"{options}: the plan is held"
    gc.enable()


def sets_of_ranks_share_files() -> None:
    """Each communicator is another set."""

    def used() -> tuple[psr.Redistribution, MPI.Intracomm]:
        comm = WORLD.Dup()
        a, b = pair(comm)
        plan = psr.redistribute(a, b)
        plan(a.zeros())
        return plan, comm

    kept = [used()]
    before = files()
    kept += [used() for _ in range(20)]
    assert files() <= before + 2, f"{files() - before} files are open for 20 sets of ranks"
    for _, comm in kept:
        comm.Free()


def main() -> None:
    gc.freeze()  # modules stay, and take time to look at
    arrays_and_plans_go_at_once()
    sets_of_ranks_share_files()
    buffers.box_type = watched
    some: tuple[Callable[[int], None], ...] = (calls, plans, communicators)
    amounts = dict(zip(some, map(int, sys.argv[1:]), strict=True))
    amounts[strides] = amounts[factors] = max(1, amounts[calls] // 5)
    amounts[in_flight] = amounts[batches] = max(1, amounts[calls] // 20)
    for work, times in amounts.items():
        work(max(times // 4, min(times, 1000)))  # warm up: pools of MPI and of Python fill
        next_communicator()
        before = (next_communicator(), files(), datatypes())
        grown = WORLD.allreduce(growth(work, times), MPI.MAX)
        after = (next_communicator(), files(), datatypes())
        if WORLD.rank == 0:
            print(f"{work.__name__}: {times} times, memory grew by {grown} bytes", flush=True)
        assert grown < 2**20, f"{work.__name__}: memory grew by {grown} bytes"
        # MPICH hands out the last few again in any order
        assert abs(after[0] - before[0]) < 20, f"{work.__name__}: communicators are left: {before[0]} -> {after[0]}"
        assert after[1] == before[1], f"{work.__name__}: files are left open: {before[1]} -> {after[1]}"
        assert after[2] < before[2] + 100, f"{work.__name__}: datatypes are left: {before[2]} -> {after[2]}"
    if WORLD.rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
