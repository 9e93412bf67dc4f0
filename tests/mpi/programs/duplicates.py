"""Descriptors on duplicates of a communicator: on the one asked for, so that each can be used apart from the others."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
SHAPE = (37, 29)


def value(i: Any, j: Any) -> Any:
    return 1000.0 * i + j


def layouts(comm: MPI.Intracomm) -> tuple[psr.Descriptor, psr.Descriptor]:
    rows, columns = psr.ProcessGrid((comm.size, 1), comm), psr.ProcessGrid((1, comm.size), comm)
    return psr.Descriptor(SHAPE, (4, 4), rows), psr.Descriptor(SHAPE, (3, 5), columns)


def on_the_given_communicator(comm: MPI.Intracomm) -> None:
    desc, _ = layouts(WORLD)
    assert desc.on(WORLD) is desc
    assert desc.grid.on(WORLD) is desc.grid
    for view in (desc, desc[3:20, 1:], desc.T):
        moved = view.on(comm)
        assert moved.grid.comm is comm
        assert moved.T.grid.comm is comm
        assert view.grid.comm is WORLD
        assert moved.parent is None or moved.parent.grid is moved.grid
        assert moved == view
        assert moved.grid == view.grid
        assert hash(moved) == hash(view)
        assert (moved.coords, moved.local_shape, moved.lld) == (view.coords, view.local_shape, view.lld)
        assert moved.on(WORLD) == view
        assert moved.on(WORLD).grid.comm is WORLD


def on_that_of_the_plan(comm: MPI.Intracomm) -> None:
    """Both ends and the legs between are on one communicator: the one given, else the first descriptor's."""
    (a, b), (_, c) = layouts(WORLD), layouts(comm)
    local = a.from_function(value)
    for before, after, chosen, expected in (
        (a, b, comm, comm),
        (a, b, None, WORLD),
        (a, c, None, WORLD),
        (c, a, None, comm),
        (a.on(comm), b.on(comm), None, comm),
    ):
        for via in (None, "lcm"):
            plan = psr.redistribute(before, after, comm=chosen, via=via)
            for leg in (plan, *getattr(plan, "legs", [])):
                assert leg.desc_a.grid.comm is expected
                assert leg.desc_b.grid.comm is expected
            result = plan(local if before == a else b.from_function(value))
            assert result is not None
            assert np.array_equal(result, after.from_function(value))
    assert psr.redistribute(a, b, comm=comm) is psr.redistribute(a.on(comm), b.on(comm))
    assert psr.redistribute(a, b, comm=comm) is not psr.redistribute(a, b)


def in_two_threads(times: int) -> None:
    """Each with a duplicate of its own: they make and use plans at the same time, more often in one than in the other."""
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        return
    duplicates, errors = [WORLD.Dup(), WORLD.Dup()], []
    a, b = layouts(WORLD)

    def work(k: int) -> None:
        try:
            mine = duplicates[k]
            for number in range(times * (k + 1)):
                before, after = (a.on(mine), b.on(mine)) if number % 2 else (b.on(mine), a.on(mine))
                plan = psr.redistribute(before, after, exchange="windowed" if number % 3 else "shared")
                result = plan((number + k) * before.from_function(value))
                assert result is not None
                assert np.array_equal(result, (number + k) * after.from_function(value))
        except BaseException as caught:
            errors.append(caught)
            raise

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    for duplicate in duplicates:
        duplicate.Free()


def main() -> None:
    comm = WORLD.Dup()
    on_the_given_communicator(comm)
    on_that_of_the_plan(comm)
    comm.Free()
    in_two_threads(20)
    WORLD.Barrier()
    if WORLD.rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
