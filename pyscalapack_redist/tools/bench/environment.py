"""Where the benchmark runs: versions, libraries, nodes, cores."""

from __future__ import annotations

import datetime
import os
import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import __version__, blacs
from ...errors import LibraryError
from ..info import mpi_path, mpi_version
from .clock import Clock
from .flag import flag_round_trip_ns

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["environment", "nodes_of"]


def environment(comm: MPI.Intracomm, nodes: list[int], clock: Clock, plans: str) -> dict[str, Any]:
    """All that a reader of the figures must know of the machine and the software. Collective over `comm`.

    Parameters
    ----------
    nodes : list of int
        Node of each rank.
    clock : Clock
        Of `comm`.
    plans : str
        When plans are made, in words.
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
        "time": clock.meaning,
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
