"""Run methods on cases: interleaved round by round, timed together, and every result verified; and say where.

The question: how long does each method take, on the same arrays and under the same load of the machine, with everything
made beforehand that can be made once (plans, contexts)?

Ranks of one node share a clock, so there a time is from the first rank's start to the last rank's end: where ranks take
turns on a core, a rank's own time means nothing. Clocks of different nodes cannot be compared; there it is the longest of
the ranks' own times.

The links' limit is the bytes that the busiest host must send or receive, over its link's rate. Links are taken as equal and
as full duplex, and the network between them as without limits, so no way of redistributing can be faster, unless something
holds bytes back from the link's accounting: a burst that a shaped link lets through, say.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import datetime
import gc
import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import __version__, blacs
from ..._kernels.flag import answer, round_trips
from ...comm.groups import group_of
from ...comm.mpi import MPI
from ...comm.progress import wait_until
from ...errors import LibraryError, RedistributionError
from ...exchanges.exchange import read_thread_count
from ...study.traffic import between_ranks
from ..cases import Case
from ..info import mpi_path, mpi_version
from .methods import Method, Prepared
from .rank_case import RankCase
from .results import CaseResult, MethodResult

BYTES_PER_TIME = 2**20
MOST_CALLS = 64
MORE_TICKS = 2  # of `run_case`, beside one for each round: after warming up, and after verifying
SETTLE = 0.01  # seconds between methods: links empty, and ranks that share cores have had their turns
BATCHES, TRIPS_PER_BATCH, SECONDS = 1000, 5, 2.0  # of round trips of a flag
PAGE = 4096


class Clock:
    """Timer of calls that all ranks make together; `one_node` says whether they share a clock."""

    def __init__(self, comm: MPI.Intracomm, one_node: bool) -> None:
        self._comm, self._one_node = comm, one_node
        self._own, self._most = np.zeros(2, np.int64), np.zeros(2, np.int64)
        self.meaning = (
            "after a barrier, from the first rank's start to the last rank's end"
            if one_node
            else "after a barrier, the longest of the ranks' own times (nodes share no clock)"
        )

    def seconds(self, run: Callable[[], None], calls: int) -> float:
        """Time of one call, the mean of `calls` in a row. Collective."""
        comm, own, most = self._comm, self._own, self._most
        if self._one_node:
            comm.Barrier()
        else:
            time.sleep(SETTLE)
            wait_until(comm.Ibarrier().Test)
        with contextlib.ExitStack() as after:
            if gc.isenabled():  # no garbage collection while timing
                gc.disable()
                after.callback(gc.enable)
            start = time.monotonic_ns()
            for _ in range(calls):
                run()
            end = time.monotonic_ns()
        own[:] = (end, -start) if self._one_node else (end - start, 0)
        if self._one_node:
            comm.Allreduce(own, most, MPI.MAX)
        else:  # hosts may share cores without MPI's knowledge, and its wait would occupy them
            wait_until(comm.Iallreduce(own, most, MPI.MAX).Test)
        return float(most.sum()) / calls / 1e9


def run_case(
    case: Case,
    methods: Sequence[Method],
    repeat: int,
    clock: Clock,
    comm: MPI.Intracomm,
    tick: Callable[[], None],
    calls: int | None = None,
    profile: bool = False,
) -> CaseResult:
    """Time and verify each method on one case, which needs no more ranks than `comm` has. Collective over `comm`.

    Methods that do not apply are left out, and the reason is given. In each of `repeat` timed rounds every method runs
    once, in an order that is rotated from round to round; `tick` is called after each.

    Parameters
    ----------
    calls : int, optional
        Calls in a row that one time is the mean of. By default several where one is too short to time.
    profile : bool
        Whether to take down where the time of a call goes: of one apart, since looking at the clock in it takes time.
    """
    rank_case = RankCase(case, comm)
    ready, not_run = _prepare(methods, rank_case)
    calls = calls or max(1, min(MOST_CALLS, BYTES_PER_TIME // max(1, case.local_elements * case.dtype.itemsize)))
    growth = {}
    for name, run in ready.items():
        run.forget()
        growth[name] = _peak_growth(run)
    tick()
    seconds: dict[str, list[float]] = {name: [] for name in ready}
    names = collections.deque(ready)
    for _ in range(repeat):
        for name in names:
            seconds[name].append(clock.seconds(ready[name], calls))
        names.rotate(-1)
        tick()
    results = []
    for name, run in ready.items():
        extra = comm.allgather(growth[name] if run.extra_bytes is None else run.extra_bytes)
        where = _profile(run, comm) if profile else {}
        run.poison()  # a last run, in which every byte on every rank is checked
        comm.Barrier()
        run()
        right = all(comm.allgather(run.correct()))
        results.append(MethodResult(name, tuple(seconds[name]), None if None in extra else max(extra), right, where))
        run.close()
    tick()
    return CaseResult(case, tuple(results), not_run, calls)


def _prepare(methods: Sequence[Method], rank_case: RankCase) -> tuple[dict[str, Prepared], dict[str, str]]:
    """The prepared methods, and for others the reason of the lowest rank that has one."""
    ready: dict[str, Prepared] = {}
    not_run: dict[str, str] = {}
    for method in methods:
        why = next(filter(None, rank_case.comm.allgather(method.obstacle(rank_case.case))), None)
        if why is None:
            reason = None
            try:
                ready[method.name] = method.prepare(rank_case)
            except RedistributionError as error:
                reason = str(error)
            why = next(filter(None, rank_case.comm.allgather(reason)), None)
        if why is not None:
            ready.pop(method.name, None)
            not_run[method.name] = why
    return ready, not_run


def _profile(run: Prepared, comm: MPI.Intracomm) -> dict[str, tuple[float, ...]]:
    """The parts of a call, each with the seconds of the ranks that have it; equal on all ranks."""
    comm.Barrier()
    ranks = comm.allgather(dict(run.profile()))
    parts = dict.fromkeys(part for seconds in ranks for part in seconds)
    return {part: tuple(seconds[part] for seconds in ranks if part in seconds) for part in parts}


def _peak_growth(run: Callable[[], None]) -> int | None:
    """Run, and return the peak of extra memory in bytes; None if the system has no such figure. Collective like `run`.

    Memory that is reused from earlier calls does not count: free it first.
    """

    def memory(field: str) -> int | None:
        with contextlib.suppress(OSError, StopIteration, ValueError), open("/proc/self/status") as file:
            return int(next(line for line in file if line.startswith(f"{field}:")).split()[1]) * 1024
        return None

    with contextlib.suppress(AttributeError):  # free memory of this process would hide new allocations
        ctypes.CDLL(None).malloc_trim(0)
    before = None
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak of earlier calls
        file.flush()
        before = memory("VmRSS")
    run()
    peak = memory("VmHWM")
    return None if before is None or peak is None else max(0, peak - before)


# -- the environment


def environment(comm: MPI.Intracomm, nodes: list[int], time: str, plans: str) -> dict[str, Any]:
    """The machine and the software, for readers of the figures. Collective over `comm`.

    `nodes` has the node of each rank; `time` and `plans` say what is timed, and when plans are made.
    """
    try:
        library = blacs.load()
        scalapack = {"path": library.path, "vendor": library.vendor}
    except LibraryError:
        scalapack = None
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "pyscalapack_redist": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mpi4py": importlib.metadata.version("mpi4py"),
        "mpi": mpi_version(),
        "mpi_path": mpi_path(),
        "scalapack": scalapack,
        "machine": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count() or 1,
        "ranks": comm.Get_size(),
        "threads": read_thread_count(),
        "hosts": len(set(comm.allgather(platform.node()))),
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
    return _numbered(first)


def _numbered(leaders: list[int]) -> list[int]:
    number = {leader: k for k, leader in enumerate(dict.fromkeys(leaders))}
    return [number[leader] for leader in leaders]


def processor() -> str | None:
    """The name of this processor; None if unknown."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), None)
    return None


def flag_round_trip_ns(comm: MPI.Intracomm, nodes: list[int]) -> float | None:
    """Median round trip of a flag in memory that ranks 0 and 1 share, in nanoseconds. Collective over `comm`.

    Ratios to memcpy depend on it: it is some 100 ns where the cores share a cache, several times that where they do not.
    None where there is one rank, the two are on different nodes, or MPI gives them no shared memory.
    """
    if comm.Get_size() < 2 or nodes[0] != nodes[1]:
        return None
    rank, median = comm.Get_rank(), None
    pair: MPI.Intracomm = comm.Split(0 if rank < 2 else MPI.UNDEFINED, rank)  # type: ignore[assignment]
    if pair != MPI.COMM_NULL:
        with contextlib.suppress(MPI.Exception):
            window = MPI.Win.Allocate_shared(PAGE if rank == 0 else 0, comm=pair)
            flags = np.frombuffer(window.Shared_query(0)[0], np.int64)  # type: ignore[call-overload]
            flags[:] = 0
            pair.Barrier()
            if rank == 0:
                times = round_trips(flags, BATCHES, TRIPS_PER_BATCH, SECONDS)
                median = round(float(np.median(times)), 1) if times.size else None
            else:
                answer(flags, BATCHES * TRIPS_PER_BATCH, SECONDS)
            pair.Barrier()
            del flags
            window.Free()
        pair.Free()
    agreed: float | None = comm.bcast(median, root=0)
    return agreed


# -- links between hosts


def between_hosts(case: Case, hosts: Sequence[int]) -> NDArray[np.int64]:
    """Bytes that each host owes each other host, by the host of each rank; zeros on the diagonal."""
    before, after = (side.descriptor(case.shape, None) for side in (case.before, case.after))
    ranks, elements = between_ranks(before, after)
    owed, host = np.zeros((max(hosts) + 1,) * 2, np.int64), np.asarray(hosts)[ranks]
    np.add.at(owed, np.ix_(host, host), elements)
    np.fill_diagonal(owed, 0)
    return owed * case.dtype.itemsize


def links_limit(case: Case, environment: dict[str, Any]) -> dict[str, float] | None:
    """Bytes, the link's bytes per second, and the seconds that the links allow at best in one case.

    None where `links_of` found no rate or nothing goes between hosts.
    """
    rate, hosts = environment.get("link_rate"), environment.get("host_of_rank")
    if rate is None or hosts is None:
        return None
    owed = between_hosts(case, hosts)
    busiest = max(int(owed.sum(axis=side).max()) for side in range(2))
    return {"bytes": busiest, "rate": rate, "seconds": busiest / rate} if busiest else None


def links_of(comm: MPI.Intracomm, rate: float | None) -> dict[str, Any]:
    """Entries of the environment: the host of each rank, the rate of a host's link and where that is from. Collective.

    Without a rate it is what the engine measured. Raises RedistributionError where what the environment says of nodes or
    links is wrong, on this rank or on another.
    """
    group = group_of(comm)
    hosts, links = _numbered(group.make_node().leaders.tolist()), group.links
    if rate is not None:
        return {"host_of_rank": hosts, "link_rate": rate, "link_rate_origin": "as given"}
    measured = (links.rate, links.origin) if links is not None else (None, None)
    return {"host_of_rank": hosts, "link_rate": measured[0], "link_rate_origin": measured[1]}
