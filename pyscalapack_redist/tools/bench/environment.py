"""Where the benchmark runs: versions, libraries, cores and how near they are to each other, hosts and the links' limit.

The links' limit is the bytes that the busiest host must send or receive, over its link's rate. Links are taken as equal and
as full duplex, and the network between them as without limits, so no way of redistributing can be faster, unless something
holds bytes back from the link's accounting: a burst that a shaped link lets through, say.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import __version__, blacs
from ..._kernels.flag import answer, round_trips
from ...comm.groups import group_of
from ...comm.mpi import MPI
from ...engine.tile_graph import graph_of_tiles
from ...engine.traffic import between_ranks
from ...errors import LibraryError
from ...exchanges.threads import wanted
from ..cases import Case
from ..info import mpi_path, mpi_version

__all__ = ["Limit", "between_hosts", "environment", "flag_round_trip_ns", "limit_of", "links_of", "nodes_of"]

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
        "threads": wanted(),
        "hosts": len(set(hosts)),
        "node_of_rank": nodes,
        "flag_round_trip_ns": flag_round_trip_ns(comm, nodes),
        "time": time,
        "plans": plans,
    }


def nodes_of(comm: MPI.Intracomm) -> list[int]:
    """Number of the node that each rank is on, counted in the order of ranks. Collective."""
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
    if comm.Get_size() < 2 or nodes[0] != nodes[1]:
        return None
    rank = comm.Get_rank()
    pair: MPI.Intracomm = comm.Split(0 if rank < 2 else MPI.UNDEFINED, rank)  # type: ignore[assignment]
    found = None
    if pair != MPI.COMM_NULL:
        with contextlib.suppress(MPI.Exception):
            found = _between(pair, MPI.Win.Allocate_shared(PAGE if rank == 0 else 0, comm=pair))
        pair.Free()
    agreed: float | None = comm.bcast(found, root=0)
    return agreed


def _between(pair: MPI.Intracomm, window: MPI.Win) -> float | None:
    memory, _ = window.Shared_query(0)
    flags = np.frombuffer(memory, np.int64)  # type: ignore[call-overload]
    times = np.empty(0)
    if pair.Get_rank() == 0:
        flags[:] = 0
    pair.Barrier()
    if pair.Get_rank() == 0:
        times = round_trips(flags, BATCHES, TRIPS_PER_BATCH, SECONDS)
    else:
        answer(flags, BATCHES * TRIPS_PER_BATCH, SECONDS)
    pair.Barrier()
    del flags, memory
    window.Free()
    return round(float(np.median(times)), 1) if times.size else None


# -- links between hosts


class Limit(NamedTuple):
    """What the links allow at best: bytes that the busiest host must send or receive, over a link's bytes per second."""

    nbytes: int
    rate: float

    @property
    def seconds(self) -> float:
        """The shortest time that the links allow."""
        return self.nbytes / self.rate


def between_hosts(case: Case, hosts: Sequence[int]) -> NDArray[np.int64]:
    """Bytes that each host owes each other host, by the host of each rank; zeros on the diagonal. Not collective."""
    before, after = (side.descriptor(case.shape, None) for side in (case.before, case.after))
    if case.tiled:
        ranks, elements = [before.ranks, after.ranks], graph_of_tiles(before, after).lengths
    else:
        all_ranks, elements = between_ranks(before, after)
        ranks = [tuple(all_ranks.tolist())] * 2
    owed = np.zeros((max(hosts) + 1,) * 2, np.int64)
    np.add.at(owed, np.ix_(*(np.asarray(hosts)[list(some)] for some in ranks)), elements)
    np.fill_diagonal(owed, 0)
    return owed * case.dtype.itemsize


def limit_of(case: Case, environment: dict[str, Any]) -> Limit | None:
    """The limit in one case; None where `links_of` found no rate or nothing goes between hosts. Not collective."""
    rate, hosts = environment.get("link_rate"), environment.get("host_of_rank")
    if rate is None or hosts is None:
        return None
    owed = between_hosts(case, hosts)
    busiest = max(int(owed.sum(axis=side).max()) for side in range(2))
    return Limit(busiest, rate) if busiest else None


def links_of(comm: MPI.Intracomm, rate: float | None) -> dict[str, Any]:
    """Entries of the environment: the host of each rank, the rate of a host's link and where that is from. Collective.

    Without a rate it is what the engine measured. Raises RedistributionError where what the environment says of nodes or
    links is wrong, on this rank or on another.
    """
    group = group_of(comm)
    leaders = group.make_node().leaders.tolist()
    number = {leader: k for k, leader in enumerate(dict.fromkeys(leaders))}
    links = group.links
    found = (rate, "as given") if rate is not None else (None, None) if links is None else (links.rate, links.origin)
    return {
        "host_of_rank": [number[leader] for leader in leaders],
        **dict(zip(("link_rate", "link_rate_origin"), found, strict=True)),
    }
