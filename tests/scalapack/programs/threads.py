"""Threads of a process that call ScaLAPACK, each on a communicator of its own. Argument: rounds.

While one is in it, others are refused on all ranks, and those of one process wait; contexts are made when it has ended.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from linalg_cases import RANK, SIZE, WORLD
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist import linalg, scalapack
from pyscalapack_redist.blacs.contexts import one_thread

ORDER, BLOCK = 96, 16
REMEDY = "let one thread after the other call linalg and scalapack, on all ranks in the same order"
VALUES = 2 + np.arange(ORDER) / ORDER


def matrix_on(comm: MPI.Intracomm) -> psr.DistributedArray:
    """A diagonal matrix, with its grid's context."""
    grid = psr.ProcessGrid((1, comm.Get_size()), comm)
    grid.make_context()
    desc = psr.Descriptor((ORDER, ORDER), BLOCK, grid)
    return psr.DistributedArray(
        desc, np.asfortranarray(desc.from_function(lambda i, j: np.where(i == j, VALUES[i], 0)))
    )


def one_is_inside(all_of_us: psr.DistributedArray, alone: psr.DistributedArray) -> None:
    """A thread of the last rank's process is in the library."""
    last, entered, may_leave, order = RANK == SIZE - 1, threading.Event(), threading.Event(), []

    def stay() -> None:
        with one_thread(wait=True):
            entered.set()
            may_leave.wait()
            order.append("left")

    def then(work: Callable[[], Any]) -> Any:
        result = work()
        order.append("done")
        return result

    others = psr.ProcessGrid((SIZE, 1), WORLD)
    with ThreadPoolExecutor() as threads:
        if last:
            threads.submit(stay)
            entered.wait()
        calls: list[Callable[[], Any]] = [
            lambda: linalg.solve(all_of_us, all_of_us),
            lambda: scalapack.pxgetrf(all_of_us, comm=WORLD),
            lambda: scalapack.pxgetrf(all_of_us),
        ]
        for call in calls if SIZE > 1 else ():
            with pytest.raises(psr.LibraryError if last else psr.CollectiveError) as caught:
                call()
            assert REMEDY in str(caught.value)
            assert last or f"rank {SIZE - 1} could not take part: LibraryError" in str(caught.value)
        later = [
            threads.submit(then, lambda: scalapack.pxsyevd(alone.copy()).values),
            threads.submit(then, lambda: scalapack.pxsyev(alone.copy())),
            threads.submit(then, others.make_context),
        ]
        may_leave.set()
        assert all(np.allclose(waiting.result(), VALUES) for waiting in later[:2])
        later[2].result()
    assert order == ["left"] * last + ["done"] * 3
    others.close()
    assert np.allclose(linalg.eigh(all_of_us, eigvals_only=True), VALUES)


def together(arrays: list[psr.DistributedArray], rounds: int) -> None:
    """Each thread calls as often as it can: what is not refused is right."""

    def refusals(a: psr.DistributedArray) -> list[str]:
        texts = []
        for _ in range(rounds):
            try:
                assert np.isclose(linalg.slogdet(a)[1], np.log(VALUES).sum())
                assert np.allclose(linalg.eigh(a, eigvals_only=True), VALUES)
            except (psr.LibraryError, psr.CollectiveError) as error:
                texts.append(str(error))
        return texts

    with ThreadPoolExecutor(len(arrays)) as threads:
        texts = [text for some in threads.map(refusals, arrays) for text in some]
    assert all(REMEDY in text for text in texts), texts
    assert SIZE > 1 or not texts


def main(rounds: int) -> None:
    comms = [WORLD.Dup() for _ in range(3)]
    arrays = [matrix_on(comm) for comm in comms]
    alone = matrix_on(MPI.COMM_SELF)
    for a in (*arrays, alone):
        linalg.eigh(a, eigvals_only=True)  # makes communicators, which threads must not make at a time
        linalg.slogdet(a)
    one_is_inside(arrays[0], alone)
    together(arrays, rounds)
    for a in (*arrays, alone):
        a.desc.grid.close()
    for comm in comms:
        comm.Free()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
