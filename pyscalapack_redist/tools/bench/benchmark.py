"""Run methods on cases: interleaved round by round, timed together, and every result verified.

The question: how long does each method take, on the same arrays and under the same load of the machine, with everything
made beforehand that can be made once (plans, contexts)?

Ranks of one node share a clock, so there a time is from the first rank's start to the last rank's end: where ranks take
turns on a core, a rank's own time means nothing. Clocks of different nodes cannot be compared; there it is the longest of
the ranks' own times.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import gc
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...comm.mpi import MPI
from ...comm.progress import until
from ...errors import RedistributionError
from ..cases import Case
from .methods import Method, Prepared
from .results import CaseResult, MethodResult, Profile
from .stage import Stage

__all__ = ["MORE_TICKS", "Clock", "calls_per_time", "profile_of", "run_case"]

BYTES_PER_TIME = 2**20
MOST_CALLS = 64
MORE_TICKS = 2  # of `run_case`, beside one for each round: after warming up, and after verifying
SETTLE = 0.01  # seconds between methods: links empty, and ranks that share cores have had their turns


class Clock:
    """Times what all ranks of a communicator do together; `one_node` says whether they all share a clock."""

    def __init__(self, comm: MPI.Intracomm, one_node: bool) -> None:
        self._comm, self._one_node = comm, one_node
        self._mine, self._all = np.zeros(2, np.int64), np.zeros(2, np.int64)
        self.meaning = (
            "after a barrier, from the first rank's start to the last rank's end"
            if one_node
            else "after a barrier, the longest of the ranks' own times (nodes share no clock)"
        )

    def seconds(self, run: Callable[[], None], calls: int) -> float:
        """Time of one call, the mean of `calls` in a row. Collective."""
        comm, mine, most = self._comm, self._mine, self._all
        if self._one_node:
            comm.Barrier()
        else:
            time.sleep(SETTLE)
            until(comm.Ibarrier().Test)
        with contextlib.ExitStack() as after:
            if gc.isenabled():  # Python's garbage collection stays out of the times
                gc.disable()
                after.callback(gc.enable)
            start = time.monotonic_ns()
            for _ in range(calls):
                run()
            end = time.monotonic_ns()
        mine[:] = (end, -start) if self._one_node else (end - start, 0)
        if self._one_node:
            comm.Allreduce(mine, most, MPI.MAX)
        else:  # hosts may share cores unknown to MPI, whose wait would take them from those still at work
            until(comm.Iallreduce(mine, most, MPI.MAX).Test)
        return float(most.sum()) / calls / 1e9


def calls_per_time(case: Case) -> int:
    """Calls in a row that one time is the mean of: several where one is too short to time. Not collective."""
    local_bytes = max(1, case.local_elements * case.dtype.itemsize)
    return max(1, min(MOST_CALLS, BYTES_PER_TIME // local_bytes))


def run_case(
    case: Case,
    methods: Sequence[Method],
    repeat: int,
    clock: Clock,
    comm: MPI.Intracomm,
    tick: Callable[[], None],
    calls: int | None = None,
    profile: Callable[[Prepared, MPI.Intracomm], Profile] | None = None,
) -> CaseResult:
    """Time and verify each method on one case, which needs no more ranks than `comm` has. Collective over `comm`.

    Methods that do not apply are left out, and the reason is given. In each of `repeat` timed rounds every method runs
    once, in an order that is rotated from round to round; `tick` is called after each.

    Parameters
    ----------
    calls : int, optional
        Calls in a row that one time is the mean of. By default as many as the size of the arrays asks for.
    profile : callable, optional
        From a method that is ready to where the time of a call goes, as `profile_of`; called once for each.
    """
    stage = Stage(case, comm)
    ready, not_run = _prepare(methods, stage)
    calls = calls or calls_per_time(case)
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
        extra = growth[name] if run.extra_bytes is None else run.extra_bytes
        where = () if profile is None else profile(run, comm)
        results.append(MethodResult(name, tuple(seconds[name]), _most(comm, extra), _verified(run, comm), where))
        run.close()
    tick()
    return CaseResult(case, tuple(results), not_run, calls)


def _prepare(methods: Sequence[Method], stage: Stage) -> tuple[dict[str, Prepared], dict[str, str]]:
    """What can run, ready, and why the rest cannot."""
    ready: dict[str, Prepared] = {}
    not_run: dict[str, str] = {}
    for method in methods:
        why = _first_reason(stage.comm, method.obstacle(stage.case))
        if why is None:
            mine = None
            try:
                ready[method.name] = method.prepare(stage)
            except RedistributionError as error:
                mine = str(error)
            why = _first_reason(stage.comm, mine)
        if why is not None:
            not_run[method.name] = why
            ready.pop(method.name, None)
    return ready, not_run


def _first_reason(comm: MPI.Intracomm, mine: str | None) -> str | None:
    """What the lowest rank says that says anything. Collective."""
    return next((reason for reason in comm.allgather(mine) if reason is not None), None)


def _most(comm: MPI.Intracomm, mine: int | None) -> int | None:
    known = comm.allgather(mine)
    return None if None in known else max(known)


def _verified(run: Prepared, comm: MPI.Intracomm) -> bool:
    """Run once more, on poisoned output, and look at every byte on every rank."""
    run.poison()
    comm.Barrier()
    run()
    return all(comm.allgather(run.correct()))


def profile_of(run: Prepared, comm: MPI.Intracomm) -> Profile:
    """One call's parts, each with the seconds of each rank that has it. Collective; the same on all ranks.

    The call is apart from the timed ones: looking at the clock in it takes time.
    """
    comm.Barrier()
    found: list[Mapping[str, float]] = comm.allgather(dict(run.profile()))
    parts = dict.fromkeys(part for mine in found for part in mine)
    return tuple((part, tuple(mine[part] for mine in found if part in mine)) for part in parts)


def _peak_growth(run: Callable[[], None]) -> int | None:
    """Run, and return what it took at its peak in bytes; None where the system does not tell. As collective as `run`.

    What was kept from earlier calls and is used again does not show: have it given back before.
    """
    with contextlib.suppress(AttributeError):  # what is free in this process must not hide what is taken
        ctypes.CDLL(None).malloc_trim(0)
    before = None
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak of earlier calls
        file.flush()
        before = _memory("VmRSS")
    run()
    peak = _memory("VmHWM")
    return None if before is None or peak is None else max(0, peak - before)


def _memory(field: str) -> int | None:
    with contextlib.suppress(OSError, StopIteration, ValueError), open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith(f"{field}:")).split()[1]) * 1024
    return None
