"""Routines of linalg on one process by LAPACK: which process, with how many threads and rounds, and what happens to errors."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.linalg.lapack  # noqa: F401 - its BLAS is there from the beginning
from linalg_cases import LAST, RANK, ROWS, SIZE, SQUARE, WORLD, put, random, slabs, whole_of
from mpi4py import MPI
from threadpoolctl import threadpool_info

import pyscalapack_redist as psr
from pyscalapack_redist import linalg
from pyscalapack_redist.comm import free_memory, groups
from pyscalapack_redist.comm.groups import group_of
from pyscalapack_redist.linalg import attempt, check, cores, eigenproblems, operands, place, rates, systems
from pyscalapack_redist.linalg.call import WrongResultError
from pyscalapack_redist.scalapack.table import LibraryCall

N = 40
MATRIX = random((N, N), "d")
SPD = MATRIX @ MATRIX.T + N * np.eye(N)
SIDES = random((N, 3), "d")
Call = Callable[[Any, Any], Any]
CALLS: dict[str, Call] = {
    "solve": lambda a, b: linalg.solve(a, b),
    "cholesky": lambda a, b: linalg.cholesky(a),
    "qr": lambda a, b: linalg.qr(a),
    "eigh": lambda a, b: linalg.eigh(a),
    "svd": lambda a, b: linalg.svd(a),
    "lstsq": lambda a, b: linalg.lstsq(a, b),
}
# The first vote, the transfers of operands and of results with their votes, the answer of the process, and the last vote
TICKETS = {"solve": 6, "cholesky": 5, "qr": 6, "eigh": 5, "svd": 6, "lstsq": 6}
LIMIT, WORK = 0.2, 0.6  # seconds
MOST_CALLS = 2000  # of functions of `linalg` and `layout` in a call, on the process that computes


def tickets() -> int:
    """Those that the groups of this communicator have drawn."""
    return sum(group.tickets.drawn for group in groups._groups_of(WORLD).values())


def rounds_and_python_calls() -> None:
    """A call that is like an earlier one takes few rounds: its plans are kept."""
    a, b = put(SPD, slabs((N, N))), put(SIDES, slabs((N, 3)))
    for name, call in CALLS.items():
        for _ in range(2):
            call(a, b)
        before = tickets()
        call(a, b)
        drawn = tickets() - before
        assert drawn == (TICKETS[name] if SIZE > 1 else 3), f"{name}: {drawn} tickets"
        counts: Counter[str] = Counter()

        def count(frame: FrameType, event: str, _: object, counts: Counter[str] = counts) -> None:
            folder = os.path.basename(os.path.dirname(frame.f_code.co_filename))
            if event == "call" and folder in ("linalg", "layout"):
                counts[frame.f_code.co_filename] += 1

        sys.setprofile(count)
        try:
            call(a, b)
        finally:
            sys.setprofile(None)
        assert counts.total() < MOST_CALLS, f"{name}: {counts}"


def which_process() -> None:
    """That of the operand, if one has all of it; else the first one of its grid."""
    computed: list[int] = []
    original = systems.pxgetrf

    def noted(*arguments: Any) -> Any:
        computed.append(RANK)
        return original(*arguments)

    last_two = psr.ProcessGrid((SIZE - SIZE // 2, 1), WORLD, ranks=[[rank] for rank in range(SIZE // 2, SIZE)])
    layouts = {
        psr.Descriptor((N, N), 7, LAST): SIZE - 1,
        psr.Descriptor((N, N), None, last_two): SIZE // 2,
        psr.Descriptor((N, N), 5, SQUARE, axes=(1, None)): 0,
        psr.Descriptor((N + 3, N + 2), 3, SQUARE)[1 : N + 1, 2 : N + 2]: 0,
    }
    for desc, rank in layouts.items():
        a, b = put(MATRIX, desc), put(SIDES, slabs((N, 3)))
        with mock.patch.object(systems, "pxgetrf", noted):
            x = linalg.solve(a, b)
        assert np.allclose(whole_of(x), np.linalg.solve(MATRIX, SIDES))
        assert WORLD.allreduce(computed, MPI.SUM) == [rank], desc
        computed.clear()
        with psr.timings() as phases:
            linalg.solve(a, b, layout=psr.Descriptor((N, N), 4, SQUARE))
        assert SIZE == 1 or "lapack" not in [phase.name for phase in phases]


def arrays_in_irregular_blocks() -> None:
    """More than 256 rows, as from_local(), zeros(), eye() and load() lay them out: on one process blocks are of no use."""
    n = 260
    whole = np.tri(n) / n + np.eye(n)
    definite, sides = whole @ whole.T, np.ones((n, 2))
    irregular = psr.Descriptor((n, n), (psr.Blocks([n - 9, 9], [0, 0]), None), LAST)
    a, b = psr.from_local(definite, MPI.COMM_SELF), psr.from_local(sides, MPI.COMM_SELF)
    c, d = put(definite, irregular), put(sides, slabs((n, 2)))
    for name, call in {**CALLS, "lu": lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b), "matmul": linalg.matmul}.items():
        for pair in ((a, b), (c, d)):
            result = call(*pair)
            assert name not in ("solve", "lu") or np.allclose(definite @ result.gather(None), sides), name
    assert np.isclose(linalg.slogdet(psr.eye(n, MPI.COMM_SELF))[1], 0)


def state_of_threads() -> dict[int, tuple[int, set[int]]]:
    """Scheduler class and affinity of each thread of this process."""
    return {task: (os.sched_getscheduler(task), os.sched_getaffinity(task)) for task in map(int, os.listdir("/proc/self/task"))}


def threads() -> None:
    """The process has a thread for each core that it may use; none gets another scheduler class or affinity."""
    before, usual = threadpool_info(), (os.sched_getscheduler(0), os.sched_getaffinity(0))
    inside: list[int] = []
    original = systems.pxpotrf

    def looking(*arguments: Any) -> Any:
        of_scipy = [pool["num_threads"] for pool in threadpool_info() if "scipy.libs" in pool["filepath"]]
        numbers = of_scipy or [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        inside.append(min(numbers, default=len(usual[1])))
        assert {*map(repr, state_of_threads().values())} == {repr(usual)}
        return original(*arguments)

    n = 128  # for which one process is chosen on every machine
    large = put(np.eye(n), slabs((n, n)))
    with mock.patch.object(systems, "pxpotrf", looking), mock.patch.multiple(attempt, LONG=n, THREADED=n):
        linalg.cholesky(large)
    assert [number for some in WORLD.allgather(inside) for number in some] == [len(usual[1])]
    assert {*map(repr, state_of_threads().values())} == {repr(usual)}
    assert threadpool_info() == before
    with pytest.raises(ZeroDivisionError), cores.blas_on_all_cores():
        raise ZeroDivisionError
    assert threadpool_info() == before


def errors() -> None:
    """An error of the process alone is one on all ranks, and so is one of LAPACK."""
    a, b = put(MATRIX, slabs((N, N))), put(SIDES, slabs((N, 3)))
    with pytest.raises(np.linalg.LinAlgError, match=r"dgetrf: .*singular"):
        linalg.solve(put(np.zeros((N, N)), slabs((N, N))), b)
    for error in (MemoryError("no memory"), KeyboardInterrupt("pressed"), SystemExit(3)):

        def failing(*_: Any, error: BaseException = error) -> Any:
            raise error

        with (
            mock.patch.object(systems, "pxgetrf", failing),
            pytest.raises(type(error) if RANK == 0 else psr.CollectiveError) as caught,
        ):
            linalg.solve(a, b)
        assert RANK == 0 or f"rank 0 could not take part: {type(error).__name__}" in str(caught.value)
        assert np.allclose(whole_of(linalg.solve(a, b)), np.linalg.solve(MATRIX, SIDES))


def refused() -> None:
    """What one process has computed, and its check has refused, all ranks compute in another way, if they are more than one."""
    matrix = MATRIX + MATRIX.T
    original = check.Check.require

    def refusing(verify: check.Check, *arguments: Any) -> None:
        if not verify._place.is_refused:
            raise WrongResultError("some of it")
        original(verify, *arguments)

    with (
        mock.patch.object(check.Check, "require", refusing),
        mock.patch.object(eigenproblems, "PART_ON_ONE", 0),
        warnings.catch_warnings(record=True, action="always") as warned,
    ):
        values, vectors = linalg.eigh(put(matrix, slabs((N, N))), subset_by_index=(0, 3))
    assert np.allclose(matrix @ whole_of(vectors), whole_of(vectors) * values)
    assert np.allclose(values, np.linalg.eigvalsh(matrix)[:4])
    assert ["some of it" in str(each.message) for each in warned] == [True]


def warnings_of_another_process() -> None:
    """What the process that computes has to warn of is a warning on all ranks, once, whichever process that is."""
    n = 60  # near Wilkinson's matrix: its last column nearly doubles in each step
    matrix = np.eye(n) - 0.9 * np.tril(np.ones((n, n)), -1)
    matrix[:, -1:] = 1 + random((n, 1), "d")
    for worker in {0, SIZE - 1}:
        one = psr.Descriptor((n, n), n, psr.ProcessGrid((1, 1), WORLD, ranks=[[worker]]))
        with warnings.catch_warnings(record=True, action="always") as warned:
            factors = linalg.lu_factor(put(matrix, one), layout=one)
            linalg.lu_solve(factors, put(np.ones((n, 1)), slabs((n, 1))), layout=one)
        texts = [str(each.message) for each in warned]
        assert len(texts) in (1, 2), (worker, texts)
        assert "elements grow by a factor of " in texts[0], texts


def empty_ranks() -> None:
    """A rank without elements, or with zeros alone, says nothing of the scale of subnormal ones."""
    matrix = np.zeros((N, N))
    matrix[: N // 2, : N // 2] = SPD[: N // 2, : N // 2].round()
    expected = np.linalg.norm(matrix, 2)
    for size in (1e-300, np.finfo("d").smallest_subnormal):
        for desc in (psr.Descriptor((N, N), N, slabs((N, N)).grid), slabs((N, N))):
            with warnings.catch_warnings(action="error"):
                assert np.isclose(linalg.svdvals(put(matrix * size, desc))[0] / size, expected, 1e-2)


def limited(seconds: float) -> psr.DistributedArray:
    """A matrix on a new communicator, whose ranks wait so long."""
    comm = WORLD.Dup()
    desc = psr.Descriptor((N, N), 5, psr.ProcessGrid((SIZE, 1), comm))
    a = psr.DistributedArray(desc, desc.from_function(lambda i, j: SPD[i, j]))
    linalg.cholesky(a)
    group_of(comm)._waiting._limit = group_of(comm)._waiting._timeout = seconds
    return a


def longer_than_the_limit() -> None:
    """A process that works is not missing: the others wait for its result, and those outside a grid for ScaLAPACK's."""
    worker, reports = SIZE - 1, io.StringIO()
    original, fortran = systems.pxpotrf, LibraryCall._fortran
    a = limited(LIMIT)

    def slow(*arguments: Any) -> Any:
        time.sleep(WORK if worker == RANK else 0)
        return original(*arguments)

    def slow_on_the_grid(call: LibraryCall) -> Callable[[], Any]:
        routine = fortran(call)
        return lambda: (time.sleep(WORK), routine())[1]

    ways = [(psr.ProcessGrid((1, 1), a.desc.comm, ranks=[[worker]]), mock.patch.object(systems, "pxpotrf", slow))]
    if SIZE > 2:
        some = psr.ProcessGrid((2, 1), a.desc.comm)
        ways.append((some, mock.patch.object(LibraryCall, "_fortran", slow_on_the_grid)))
    for grid, patch in ways:
        with patch, contextlib.redirect_stderr(reports):
            factor = linalg.cholesky(a, layout=psr.Descriptor((N, N), 8, grid), check=False)
        assert np.allclose(np.tril(psr.gather(factor, None)), np.linalg.cholesky(SPD))
    assert reports.getvalue() == ""
    a.desc.comm.Free()


def left_by_a_rank() -> None:
    """A rank that is interrupted as it waits for the result, and calls no more, is one that the others wait for too long."""
    left, a = SIZE - 1, limited(LIMIT)
    signal.signal(signal.SIGALRM, signal.default_int_handler)

    def until_it_has_left(*_: Any) -> Any:
        WORLD.recv(source=left)

    with mock.patch.object(systems, "pxpotrf", until_it_has_left):
        if left == RANK:
            signal.setitimer(signal.ITIMER_REAL, LIMIT)
            with pytest.raises(KeyboardInterrupt):
                linalg.cholesky(a)
            WORLD.send(None, 0)
        else:
            with pytest.raises(TimeoutError, match="PYSCALAPACK_REDIST_TIMEOUT"), contextlib.redirect_stderr(io.StringIO()):
                linalg.cholesky(a)
    WORLD.Barrier()
    a.desc.comm.Free()


def room() -> None:
    """What does not fit into a quarter of the least free memory is computed on the grid."""
    n = 300
    matrix = 2 * np.eye(n) + np.eye(n, k=1) / 2 + np.eye(n, k=-1) / 2
    a = put(matrix, slabs((n, n)))
    free = 0 if RANK == SIZE - 1 else 2**40
    with (
        mock.patch.object(free_memory, "NEGLIGIBLE", 0),
        mock.patch.object(operands, "free_memory", return_value=free),
        psr.timings() as phases,
    ):
        factor = linalg.cholesky(a)
    assert np.allclose(whole_of(factor), np.linalg.cholesky(matrix))
    names = {phase.name for phase in phases} & {"lapack", "pdpotrf"}
    assert set().union(*WORLD.allgather(names)) == ({"pdpotrf"} if SIZE > 1 else {"lapack"})


def trials() -> None:
    """Beyond a small size rates are measured once for a communicator, and are equal on all ranks."""
    comm = WORLD.Dup()
    grid = psr.ProcessGrid((SIZE, 1), comm)
    with mock.patch.multiple(rates, SMALLER=24, LARGER=48), mock.patch.object(place, "SURE", 0):
        for routine in (linalg.cholesky, linalg.qr, linalg.cholesky):
            desc = psr.Descriptor((N, N), None, grid)
            with psr.timings() as phases:
                routine(psr.DistributedArray(desc, desc.from_function(lambda i, j: SPD[i, j])))
            names = [phase.name for phase in phases]
            assert (SIZE > 1) >= ("trial" in names)
    from pyscalapack_redist.linalg.cache import cache_of

    known = cache_of(group_of(comm))._rates or {}
    assert all(each == known for each in comm.allgather(known))
    assert set(known) == ({"cholesky", "qr"} if SIZE > 1 else set(known))
    comm.Free()


def main() -> None:
    rounds_and_python_calls()
    which_process()
    arrays_in_irregular_blocks()
    threads()
    errors()
    refused()
    warnings_of_another_process()
    longer_than_the_limit()
    if SIZE > 1:
        left_by_a_rank()
    room()
    trials()
    empty_ranks()
    assert ROWS.size == SIZE
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
