"""Where the benchmark runs: versions, libraries, nodes, cores, and how near to each other two ranks' cores are."""

from __future__ import annotations

import datetime
import os
import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import __version__, blacs
from ..._kernels.flag import answer, round_trips
from ...errors import LibraryError
from ..info import mpi_path, mpi_version

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["environment", "flag_round_trip_ns", "nodes_of"]

BATCHES, TRIPS_PER_BATCH, SECONDS = 1000, 5, 2.0  # of round trips of a flag
PAGE = 4096


def environment(comm: MPI.Intracomm, nodes: list[int], time: str, plans: str) -> dict[str, Any]:
    """All that a reader of the figures must know of the machine and the software. Collective over `comm`.

    `nodes` has the node of each rank; `time` and `plans` say what is timed, and when plans are made.
    """
    import mpi4py

    hosts = comm.allgather(platform.node())
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "pyscalapack_redist": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mpi4py": mpi4py.__version__,
        "mpi": mpi_version(),
        "mpi_path": mpi_path(),
        "scalapack": _scalapack(),
        "machine": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count() or 1,
        "ranks": comm.Get_size(),
        "hosts": len(set(hosts)),
        "node_of_rank": nodes,
        "flag_round_trip_ns": flag_round_trip_ns(comm, nodes),
        "time": time,
        "plans": plans,
    }


def nodes_of(comm: MPI.Intracomm) -> list[int]:
    """Number of the node that each rank is on, counted in the order of ranks. Collective."""
    from mpi4py import MPI

    node = comm.Split_type(MPI.COMM_TYPE_SHARED, comm.Get_rank())
    first = comm.allgather(node.bcast(comm.Get_rank(), root=0))
    node.Free()
    number = {rank: k for k, rank in enumerate(dict.fromkeys(first))}
    return [number[rank] for rank in first]


def processor() -> str | None:
    try:
        with open("/proc/cpuinfo") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), None)
    except OSError:
        return None


def _scalapack() -> dict[str, str] | None:
    try:
        library = blacs.load()
    except LibraryError:
        return None
    return {"path": library.path, "vendor": library.vendor}


def flag_round_trip_ns(comm: MPI.Intracomm, nodes: list[int]) -> float | None:
    """Median round trip of a flag in memory that ranks 0 and 1 share, in nanoseconds. Collective over `comm`.

    Ratios to memcpy depend on it: it is some 100 ns where the cores share a cache, several times that where they do not.
    None where there is one rank, the two are on different nodes, or MPI gives them no shared memory.
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
        window = MPI.Win.Allocate_shared(PAGE if rank == 0 else 0, comm=pair)
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
