"""`pyscalapack-redist bench`: choose the cases, run them, show, compare, write. Rank 0 alone prints and writes files."""

from __future__ import annotations

import dataclasses
import functools
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import RedistributionError
from .benchmark import no_profile, run_case, ticks_of_case
from .case import Case
from .clock import Clock
from .environment import environment, nodes_of
from .files import check_outputs, read_earlier, write
from .limit import limit_of, links_of
from .methods import DEFAULT_METHODS, Method, named_methods
from .profile import check_profiles, profile_of
from .results import CaseResult, Results
from .selection import UsageError, asked_for, for_size
from .suite import Suite
from .suites import STUDIES, SUITES

if TYPE_CHECKING:
    from mpi4py import MPI

    from .display import Display

__all__ = ["bench"]

NOT_VERIFIED = 1


def bench(options: Namespace) -> int:
    """Run the benchmark. Collective over all ranks.

    Parameters
    ----------
    options : Namespace
        The command line: suite or shape, before and after; dtype, methods, link_rate, repeat, quick, profile, compare,
        json, plot.

    Returns
    -------
    int
        Exit status: 0, or 1 where a result was wrong.

    Raises
    ------
    UsageError
        On every rank.
    """
    if options.suite in STUDIES:
        return STUDIES[options.suite](options)
    cases = asked_for(options)
    suite = _suite(options)
    if options.profile:
        check_profiles()
    methods = options.methods or suite.methods or named_methods(*DEFAULT_METHODS)
    comm = _world()
    cases, notes = for_size(cases, options.suite, comm.Get_size())
    earlier = _prepared(comm, options)
    display = _display(comm, len(cases) * ticks_of_case(options.repeat))
    results = _run(cases, [suite.variant(one) for one in methods], options, comm, display, notes)
    if display is not None:
        display.close()
        for heading, table in suite.tables(results):
            display.table(heading, table)
        display.summary(results)
        if earlier is not None:
            display.comparison(earlier, results)
        write(results, options)
        if not results.verified:
            display.note("WRONG RESULTS: an output was not what it must be; see the column 'verified'")
    return 0 if results.verified else NOT_VERIFIED


def _world() -> MPI.Intracomm:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"bench needs an MPI, and mpi4py cannot start one ({reason}): see pyscalapack-redist info"
        ) from None
    return MPI.COMM_WORLD


def _suite(options: Namespace) -> Suite:
    return SUITES[options.suite] if options.suite else Suite(())


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


def _display(comm: MPI.Intracomm, ticks: int) -> Display | None:
    if comm.Get_rank() != 0:
        return None
    from .display import Display  # other ranks do not need rich

    return Display(ticks)


def _run(
    cases: Sequence[Case],
    methods: Sequence[Method],
    options: Namespace,
    comm: MPI.Intracomm,
    display: Display | None,
    notes: Sequence[str],
) -> Results:
    suite = _suite(options)
    time_case = functools.partial(
        run_case,
        methods=methods,
        repeat=options.repeat,
        comm=comm,
        calls=suite.calls,
        profile=profile_of if options.profile else no_profile,
    )
    nodes = nodes_of(comm)
    clock = Clock(comm, one_node=len(set(nodes)) == 1)
    where = environment(comm, nodes, clock, suite.plans) | _links(comm, options, suite)
    if display is not None:
        display.environment(where)
        for note in notes:
            display.note(note)
    done: list[CaseResult] = []
    for number, case in enumerate(cases, 1):
        if display is None:
            done.append(time_case(case, clock=clock, tick=lambda: None))
            continue
        display.case(number, case)
        result = time_case(case, clock=clock, tick=display.tick)
        done.append(dataclasses.replace(result, limit=limit_of(case, where)))
        display.result(number, done[-1])
    return Results(where, tuple(done))


def _links(comm: MPI.Intracomm, options: Namespace, suite: Suite) -> dict[str, Any]:
    """What is known of the links between hosts, where anybody asks. Collective."""
    if options.link_rate is None and not suite.between_hosts:
        return {}
    try:
        return links_of(comm, options.link_rate)
    except RedistributionError as error:
        raise UsageError(str(error)) from None
