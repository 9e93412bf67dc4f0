"""The time of one round of a method over all ranks.

Ranks of one node share a clock, so there it is the time from the first rank's start to the last rank's end: where ranks
take turns on a core, a rank's own time means nothing. Clocks of different nodes cannot be compared; there it is the
longest of the ranks' own times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...comm.progress import until

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Clock"]

SETTLE = 0.01  # seconds between methods: links empty, and ranks that share cores have had their turns


class Clock:
    """Times what all ranks of a communicator do together.

    Parameters
    ----------
    comm : MPI.Intracomm
        The ranks.
    one_node : bool
        Whether they all share a clock.
    """

    def __init__(self, comm: MPI.Intracomm, one_node: bool) -> None:
        self._comm = comm
        self._one_node = one_node
        self._mine = np.zeros(2, np.int64)
        self._all = np.zeros(2, np.int64)
        self.meaning = (
            "after a barrier, from the first rank's start to the last rank's end"
            if one_node
            else "after a barrier, the longest of the ranks' own times (nodes share no clock)"
        )

    def seconds(self, run: Callable[[], None], calls: int) -> float:
        """Time of one call, the mean of `calls` in a row. Collective."""
        from mpi4py import MPI

        comm, mine, best = self._comm, self._mine, self._all
        if self._one_node:
            comm.Barrier()
        else:
            time.sleep(SETTLE)
            until(comm.Ibarrier().Test)
        start = time.monotonic_ns()
        for _ in range(calls):
            run()
        end = time.monotonic_ns()
        mine[:] = (end, -start) if self._one_node else (end - start, 0)
        if self._one_node:
            comm.Allreduce(mine, best, MPI.MAX)
        else:  # hosts may share cores unknown to MPI, whose wait would take them from those still at work
            until(comm.Iallreduce(mine, best, MPI.MAX).Test)
        return float(best.sum()) / calls / 1e9
