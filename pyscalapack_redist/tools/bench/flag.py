"""How near two ranks' cores are: the round trip of a flag in memory that they share.

Ratios to memcpy depend on it, so the benchmark prints it beside them: some 100 ns where the cores share a cache, several
times that where they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._kernels.flag import answer, round_trips

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["flag_round_trip_ns"]

BATCHES, TRIPS_PER_BATCH = 1000, 5
SECONDS = 2.0
BYTES = 4096


def flag_round_trip_ns(comm: MPI.Intracomm, nodes: list[int]) -> float | None:
    """Median round trip between ranks 0 and 1 in nanoseconds. Collective over `comm`.

    None where there is one rank, the two are on different nodes, or MPI gives them no shared memory.

    Parameters
    ----------
    nodes : list of int
        Node of each rank.
    """
    from mpi4py import MPI

    if comm.Get_size() < 2 or nodes[0] != nodes[1]:
        return None
    rank = comm.Get_rank()
    pair: MPI.Intracomm = comm.Split(0 if rank < 2 else MPI.UNDEFINED, rank)  # type: ignore[assignment]
    found = None
    if pair != MPI.COMM_NULL:
        found = _between(pair)
        pair.Free()
    agreed: float | None = comm.bcast(found, root=0)
    return agreed


def _between(pair: MPI.Intracomm) -> float | None:
    from mpi4py import MPI

    rank = pair.Get_rank()
    try:
        window = MPI.Win.Allocate_shared(BYTES if rank == 0 else 0, comm=pair)
    except MPI.Exception:
        return None
    memory, _ = window.Shared_query(0)
    flags = np.frombuffer(memory, np.int64)  # type: ignore[call-overload]
    if rank == 0:
        flags[:] = 0
    pair.Barrier()
    if rank == 0:
        times = round_trips(flags, BATCHES, TRIPS_PER_BATCH, SECONDS)
    else:
        answer(flags, BATCHES * TRIPS_PER_BATCH, SECONDS)
        times = np.empty(0)
    pair.Barrier()
    del flags, memory
    window.Free()
    return round(float(np.median(times)), 1) if times.size else None
