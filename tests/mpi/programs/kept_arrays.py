"""What a transfer keeps after it has ended, with the garbage collector off: no array of the user's, however it has ended.

A cycle through the frames of an error would keep them until the collector runs.
"""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.engine.transfer import Transfer

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
A, B = (psr.Descriptor((40, 30), 3, psr.ProcessGrid(shape, WORLD)) for shape in ((SIZE, 1), (1, SIZE)))


def freed(use: Callable[[Any, Any], object]) -> None:
    """The arrays of a use are freed with the last reference of the program's."""
    a, out = A.zeros(np.float64), B.zeros(np.float64)
    kept = [weakref.ref(a), weakref.ref(out)]
    use(a, out)
    del a, out
    assert [ref() is None for ref in kept] == [True, True], use


def moved(plan: Any) -> None:
    freed(lambda a, out: plan(a, out))
    freed(lambda a, out: plan.start(a, out).wait())


def refused(plan: Any) -> None:
    """By an error in the arrays of one rank; the program may ask twice."""

    def call(a: Any, out: Any) -> None:
        with pytest.raises(psr.RedistributionError):
            plan(a, out[:, :1] if RANK == 0 else out)

    def start(a: Any, out: Any) -> None:
        transfer = plan.start(a.astype(np.float32)[:, :1] if RANK == SIZE - 1 else a, out)
        for _ in range(2):
            with pytest.raises(psr.RedistributionError):
                transfer.wait()

    freed(call)
    if plan.bounds.terms is None:  # else that was its last call
        freed(start)


def interrupted(plan: Any) -> None:
    """As it is waited for; it goes on with the next call."""

    def interrupt(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def use(a: Any, out: Any) -> None:
        transfer = plan.start(a, out)
        if RANK == 0:
            with pytest.raises(KeyboardInterrupt), mock.patch.object(Transfer, "poll", interrupt):
                transfer.wait()
        transfer.wait()

    signal.signal(signal.SIGINT, signal.default_int_handler)
    freed(use)


def main() -> None:
    for options in ({}, {"exchange": "nonblocking"}, {"agree": "first"}, {"via": "lcm"}):
        plan = psr.redistribute(A, B, dtype=np.float64, **options)  # type: ignore[arg-type]
        gc.collect()
        gc.disable()
        for case in (moved, moved, interrupted, refused):
            case(plan)
            WORLD.Barrier()
        gc.enable()
    if RANK == 0:
        print("OK")


if __name__ == "__main__":
    main()
