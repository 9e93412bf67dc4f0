"""Run methods on cases: interleaved round by round, timed together, and every result verified.

The question: how long does each method take, on the same arrays and under the same load of the machine, with everything
made beforehand that can be made once (plans, contexts)?
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...errors import RedistributionError
from .case import Case
from .clock import Clock
from .methods import Method, Prepared
from .peak import peak_growth
from .results import CaseResult, MethodResult, Profile
from .stage import Stage

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["calls_per_time", "no_profile", "run_case", "ticks_of_case"]

BYTES_PER_TIME = 2**20
MOST_CALLS = 64


def no_profile(run: Prepared, comm: MPI.Intracomm) -> Profile:
    """Nothing is asked. Not collective."""
    return ()


def calls_per_time(case: Case) -> int:
    """Calls in a row that one time is the mean of: several where one is too short to time. Not collective."""
    local_bytes = max(1, case.local_elements * case.dtype.itemsize)
    return max(1, min(MOST_CALLS, BYTES_PER_TIME // local_bytes))


def ticks_of_case(repeat: int) -> int:
    """How often `run_case` calls `tick`: after warming up, each round, and verifying."""
    return repeat + 2


def run_case(
    case: Case,
    methods: Sequence[Method],
    repeat: int,
    clock: Clock,
    comm: MPI.Intracomm,
    tick: Callable[[], None],
    calls: int | None = None,
    profile: Callable[[Prepared, MPI.Intracomm], Profile] = no_profile,
) -> CaseResult:
    """Time and verify each method on one case. Collective over `comm`.

    Parameters
    ----------
    case : Case
        It needs no more ranks than `comm` has.
    methods : sequence of Method
        Those that do not apply are left out, and the reason is given.
    repeat : int
        Timed rounds. In each, every method runs once; the order is rotated from round to round.
    clock : Clock
        Of `comm`.
    tick : callable
        Called after each round.
    calls : int, optional
        Calls in a row that one time is the mean of. By default as many as the size of the arrays asks for.
    profile : callable
        From a method that is ready to where the time of a call goes; called once for each. Collective over `comm`.
    """
    stage = Stage(case, comm)
    ready, not_run = _prepare(methods, stage)
    calls = calls or calls_per_time(case)
    growth = {}
    for name, run in ready.items():
        run.forget()
        growth[name] = peak_growth(run)
    tick()
    seconds: dict[str, list[float]] = {name: [] for name in ready}
    names = list(ready)
    for k in range(repeat):
        for name in names[k % len(names) :] + names[: k % len(names)] if names else []:
            with _no_collection():
                seconds[name].append(clock.seconds(ready[name], calls))
        tick()
    results = []
    for name, run in ready.items():
        extra = growth[name] if run.extra_bytes is None else run.extra_bytes
        where = profile(run, comm)
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
        prepared = None
        if why is None:
            try:
                prepared = method.prepare(stage)
                mine = None
            except RedistributionError as error:
                mine = str(error)
            why = _first_reason(stage.comm, mine)
        if why is not None:
            not_run[method.name] = why
        elif prepared is not None:
            ready[method.name] = prepared
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


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's garbage collection out of the times."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
