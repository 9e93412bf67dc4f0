"""Communicators freed while a transfer is in flight there, or by one rank when the other waits no more; the next ones work."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import groups, waiting

WORLD = MPI.COMM_WORLD


class Moves:
    """A plan on a communicator of its own, many of whose messages wait for a slot of staging memory."""

    def __init__(self, n: int = 600) -> None:
        self.comm = WORLD.Dup()
        grids = psr.ProcessGrid((WORLD.size, 1), self.comm), psr.ProcessGrid((1, WORLD.size), self.comm)
        self.a, self.b = (psr.Descriptor((n, n), 8, grid) for grid in grids)
        self.plan: Any = psr.redistribute(self.a, self.b, memory_limit=2**16)
        self.source, self.wanted = (desc.from_function(lambda i, j: 1000.0 * i + j) for desc in (self.a, self.b))
        self.check(self.plan(self.source))

    def check(self, found: Any) -> None:
        assert np.array_equal(found, self.wanted)


def in_flight() -> None:
    """What was started on a communicator ends when it is freed, if not before."""
    moves = Moves()
    transfer = moves.plan.start(moves.source)
    if WORLD.rank == 0:
        moves.check(transfer.wait())
    moves.comm.Free()
    moves.check(transfer.wait())
    assert not groups._never_freed


def by_one_rank_late() -> None:
    """Rank 0 waits no more: it keeps its private communicator."""
    moves = Moves(40)
    if WORLD.rank == 0:
        moves.comm.Free()
        WORLD.Barrier()
        assert len(groups._never_freed) == 1
    else:
        WORLD.Barrier()
        moves.comm.Free()


def main() -> None:
    with mock.patch.object(waiting, "SETTLE_SECONDS", 1000.0):
        in_flight()
    with mock.patch.object(waiting, "SETTLE_SECONDS", 0.02):
        by_one_rank_late()
    with mock.patch.object(waiting, "SETTLE_SECONDS", 1000.0):
        Moves(40).comm.Free()
    assert len(groups._never_freed) == (WORLD.rank == 0)
    groups._never_freed.clear()
    if WORLD.rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
