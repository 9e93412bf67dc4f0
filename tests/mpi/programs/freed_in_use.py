"""Communicators freed while a rank is interrupted, while transfers are in flight there, or while others wait for another.

All are freed in the end: no private communicator is kept.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist.comm import groups, waiting

N = 600
WORLD = MPI.COMM_WORLD


class Moves:
    """A plan on a communicator of its own, many of whose messages wait for a slot of staging memory."""

    def __init__(self) -> None:
        self.comm = WORLD.Dup()
        size = self.comm.Get_size()
        a = psr.Descriptor((N, N), (-(-N // size), N), psr.ProcessGrid((size, 1), self.comm))
        b = psr.Descriptor((N, N), (N, -(-N // size)), psr.ProcessGrid((1, size), self.comm))
        self.plan = psr.redistribute(a, b, memory_limit=2**16)
        self.local, self.wanted = (desc.from_function(lambda i, j: 1000.0 * i + j) for desc in (a, b))
        self.call()

    def call(self) -> None:
        self.check(self.plan(self.local))

    def check(self, found: NDArray[np.float64] | None) -> None:
        assert found is not None
        assert np.array_equal(found, self.wanted)


def interrupted(number: int) -> None:
    """Rank 0, while the others come late: what was called raises the interrupt, after all is freed."""
    moves = Moves()
    WORLD.Barrier()
    if WORLD.Get_rank() != 0:
        time.sleep(0.6)
        moves.comm.Free()
        return
    signal.signal(number, signal.default_int_handler)
    threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
    try:
        moves.comm.Free()
    except KeyboardInterrupt:
        assert moves.comm == MPI.COMM_NULL
    else:
        raise AssertionError("no interrupt came out")


def in_flight() -> None:
    """What was started on a communicator ends when it is freed, if not before."""
    moves = Moves()
    transfer = moves.plan.start(moves.local)
    if WORLD.Get_rank() == 0:
        moves.check(transfer.wait())
    moves.comm.Free()
    moves.check(transfer.wait())


def while_others_wait() -> None:
    """Rank 0 frees one before it waits for what it has started on another; the others do it the other way round."""
    freed, moves = Moves(), Moves()
    if WORLD.Get_rank() == 0:
        transfer = moves.plan.start(moves.local)
        freed.comm.Free()
        moves.check(transfer.wait())
    else:
        moves.call()
        freed.comm.Free()
    moves.comm.Free()


def main() -> None:
    waiting.SETTLE_SECONDS = 1000.0
    interrupted(signal.SIGALRM)
    interrupted(signal.SIGINT)
    in_flight()
    while_others_wait()
    assert not groups._never_freed
    if WORLD.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
