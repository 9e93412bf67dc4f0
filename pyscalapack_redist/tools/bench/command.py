"""`pyscalapack-redist bench`: choose the cases, run them, show, compare, write. Rank 0 alone prints and writes files."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engine.redistribute import Redistribution
from ...errors import RedistributionError
from .benchmark import Clock, profile_of, run_case, ticks_of_case
from .case import Case
from .environment import environment, nodes_of
from .limit import limit_of, links_of
from .methods import DEFAULT_METHODS, named_methods
from .options import UsageError, asked_for, check_outputs, for_size, read_earlier
from .results import CaseResult, Results
from .suite import Suite
from .suites import STUDIES, SUITES
from .tables import Display

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["bench", "check_profiles"]

NOT_VERIFIED = 1


def bench(options: Namespace) -> int:
    """Do what a command line asks for, and return the exit status: 0, or 1 where a result was wrong. Collective.

    Raises UsageError on every rank where it cannot be done.
    """
    if options.suite in STUDIES:
        return STUDIES[options.suite](options)
    cases = asked_for(options)
    suite = SUITES[options.suite] if options.suite else Suite(())
    if options.profile:
        check_profiles()
    comm = _world()
    cases, notes = for_size(cases, options.suite, comm.Get_size())
    earlier = _prepared(comm, options)
    # other ranks do not need rich
    display = Display(len(cases) * ticks_of_case(options.repeat)) if comm.Get_rank() == 0 else None
    results = _run(cases, suite, options, comm, display, notes)
    if display is not None:
        display.close()
        for heading, table in suite.tables(results):
            display.table(heading, table)
        display.summary(results, earlier)
        if options.json:
            with open(options.json, "w") as file:
                file.write(results.to_json() + "\n")
        if options.plot:
            suite.plot(results, options.plot)
        if not results.verified:
            display.lines("WRONG RESULTS: an output was not what it must be; see the column 'verified'")
    return 0 if results.verified else NOT_VERIFIED


def check_profiles() -> None:
    """Raise UsageError where plans cannot tell where their time goes. Not collective."""
    if not hasattr(Redistribution, "profile"):
        raise UsageError("--profile: plans of this version cannot tell where their time goes: leave it away")


def _world() -> MPI.Intracomm:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"bench needs an MPI, and mpi4py cannot start one ({reason}): see pyscalapack-redist info"
        ) from None
    return MPI.COMM_WORLD


def _prepared(comm: MPI.Intracomm, options: Namespace) -> Results | None:
    """The earlier run, on rank 0. What is wrong there is told to all ranks. Collective."""
    earlier, problem = None, None
    if comm.Get_rank() == 0:
        try:
            check_outputs(options)
            earlier = read_earlier(options.compare)
        except UsageError as error:
            problem = str(error)
    problem = comm.bcast(problem, root=0)
    if problem is not None:
        raise UsageError(problem)
    return earlier


def _run(
    cases: Sequence[Case],
    suite: Suite,
    options: Namespace,
    comm: MPI.Intracomm,
    display: Display | None,
    notes: Sequence[str],
) -> Results:
    nodes = nodes_of(comm)
    clock = Clock(comm, one_node=len(set(nodes)) == 1)
    where = environment(comm, nodes, clock.meaning, suite.plans)
    if options.link_rate is not None or suite.between_hosts:
        try:
            where |= links_of(comm, options.link_rate)
        except RedistributionError as error:
            raise UsageError(str(error)) from None
    if display is not None:
        display.environment(where, notes)
    asked = options.methods or suite.methods or named_methods(*DEFAULT_METHODS)
    methods = list(map(suite.variant, asked))
    profile = profile_of if options.profile else None
    done: list[CaseResult] = []
    for number, case in enumerate(cases, 1):
        if display is not None:
            display.case(number, case)
        tick = (lambda: None) if display is None else display.tick
        result = run_case(case, methods, options.repeat, clock, comm, tick, suite.calls, profile)
        if display is not None:
            result = dataclasses.replace(result, limit=limit_of(case, where))
            display.result(number, result)
        done.append(result)
    return Results(where, tuple(done))
