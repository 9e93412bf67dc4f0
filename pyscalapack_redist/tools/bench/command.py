"""`pyscalapack-redist bench`: choose the cases, run them, show, compare, write. Rank 0 alone prints and writes files."""

from __future__ import annotations

import dataclasses
import os
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import RedistributionError
from ..cases import Case
from ..text import size_text
from ..usage import UsageError, case_of, check_outputs, write_text, written
from .benchmark import MORE_TICKS, Clock, profile_of, run_case
from .environment import environment, limit_of, links_of, nodes_of
from .methods import DEFAULT_METHODS, named_methods
from .results import CaseResult, Results
from .suite import Suite
from .suites import STUDIES, SUITES
from .tables import Display

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["asked_for", "bench", "for_size", "read_earlier"]

START = "mpiexec -n {} python -m mpi4py -m pyscalapack_redist bench ..."
FAILED = 1


def bench(options: Namespace) -> int:
    """Do what a command line asks for, and return the exit status: 0, or 1 where a result was wrong, or no method ran.

    Collective. Raises UsageError on every rank where it cannot be done.
    """
    if options.suite in STUDIES:
        return STUDIES[options.suite](options)
    suite = SUITES[options.suite] if options.suite else Suite(())
    comm = _world()
    cases, earlier = _prepared(comm, options)
    cases, notes = for_size(cases, options.suite, comm.Get_size())
    _check_memory(cases, comm)
    # other ranks do not need rich
    display = Display(len(cases) * (options.repeat + MORE_TICKS)) if comm.Get_rank() == 0 else None
    results = _run(cases, suite, options, comm, display, notes)
    if display is not None:
        display.close()
        # first: whoever reads the output may stop, as head does
        if options.json:
            write_text("--json", options.json, results.to_json())
        if options.plot:
            with written("--plot", options.plot):
                suite.plot(results, options.plot)
        for heading, table in suite.tables(results):
            display.table(heading, table)
        display.summary(results, earlier)
        if not results.verified:
            display.lines("WRONG RESULTS: an output was not what it must be; see the column 'verified'")
        if not results.measured:
            display.lines("NOTHING WAS MEASURED: no method ran")
    return 0 if results.verified and results.measured else FAILED


def _check_memory(cases: Sequence[Case], comm: MPI.Intracomm) -> None:
    """Raise UsageError where the local arrays of a case are more than a node's memory. Collective."""
    nodes = nodes_of(comm)
    memory, here = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), nodes.count(nodes[comm.Get_rank()])
    for case in cases:
        needed = 2 * case.local_elements * case.dtype.itemsize * min(here, case.ranks)
        if comm.allreduce(needed > memory):
            raise UsageError(f"{case}: local arrays would take {size_text(needed)} of a node, more than its memory")


def _world() -> MPI.Intracomm:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"bench needs an MPI, and mpi4py cannot start one ({reason}): see pyscalapack-redist info"
        ) from None
    return MPI.COMM_WORLD


def _prepared(comm: MPI.Intracomm, options: Namespace) -> tuple[list[Case], Results | None]:
    """The cases, and on rank 0 the earlier run. Rank 0 alone reads files, and tells all what is wrong. Collective."""
    cases, earlier, problem = [], None, None
    if comm.Get_rank() == 0:
        try:
            cases = asked_for(options)
            check_outputs(options)
            earlier = read_earlier(options.compare)
        except UsageError as error:
            problem = str(error)
    cases, problem = comm.bcast((cases, problem), root=0)
    if problem is not None:
        raise UsageError(problem)
    return cases, earlier


def _run(
    cases: Sequence[Case],
    suite: Suite,
    options: Namespace,
    comm: MPI.Intracomm,
    display: Display | None,
    notes: list[str],
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
    methods = list(map(suite.variant, options.methods or suite.methods or named_methods(*DEFAULT_METHODS)))
    profile = profile_of if options.profile else None
    tick = (lambda description=None: None) if display is None else display.tick
    done: list[CaseResult] = []
    for number, case in enumerate(cases, 1):
        tick(f"case {number}: {case}")
        result = run_case(case, methods, options.repeat, clock, comm, tick, suite.calls, profile)
        if display is not None:
            result = dataclasses.replace(result, limit=limit_of(case, where))
            display.result(number, result)
        done.append(result)
    return Results(where, tuple(done))


# -- what is asked for


def asked_for(options: Namespace) -> list[Case]:
    """The cases of a suite, or the one that is given. Not collective.

    Raises UsageError where neither is given, both are, or the layouts do not fit the shape.
    """
    single = {"--shape": options.shape, "--from": options.before, "--to": options.after}
    given = [name for name, value in single.items() if value is not None]
    if options.suite:
        if given:
            raise UsageError(f"{given[0]} and --suite: give a suite, or one case by --shape, --from and --to")
        suite = SUITES[options.suite]
        if options.quick and not suite.quick:
            quick = ", ".join(name for name, some in SUITES.items() if some.quick)
            raise UsageError(f"--quick: the suite {options.suite} has no smaller cases; there are some in {quick}")
        cases = suite.quick if options.quick else suite.cases
        return list(dict.fromkeys(dataclasses.replace(case, dtype=options.dtype or case.dtype) for case in cases))
    if options.quick:
        raise UsageError("--quick: it is for a --suite")
    missing = ", ".join(name for name in single if name not in given)
    if missing:
        raise UsageError(f"{missing} missing: give --shape, --from and --to, or --suite {' or '.join(SUITES)}")
    return [case_of(options)]


def for_size(cases: Sequence[Case], suite: str | None, size: int) -> tuple[list[Case], list[str]]:
    """The cases to run on `size` ranks, and a word on those that are left out. Not collective.

    A single case may run on more ranks than it needs; of a suite only the cases for this number of ranks are run. Raises
    UsageError where there is none, and says how to start it.
    """
    if suite is None:
        needed = cases[0].ranks
        if needed > size:
            raise UsageError(f"{cases[0]}: it was started on {size}; start it by {START.format(needed)}")
        return list(cases), []
    ranks_for = SUITES[suite].ranks_for
    mine = [case for case in cases if ranks_for(case) == size]
    others = sorted(set(map(ranks_for, cases)) - {size})
    if not mine:
        raise UsageError(
            f"--suite {suite}: it has cases for {_any_of(others)} ranks, none for {size}; start it by {START.format(others[0])}"
        )
    note = (
        f"suite {suite}: {len(mine)} of {len(cases)} cases are for {size} ranks and run now; the others are left out, "
        f"start them by mpiexec -n {_any_of(others)}"
    )
    return mine, [note] if others else []


def _any_of(numbers: Sequence[int]) -> str:
    return " or ".join(", ".join(map(str, numbers)).rsplit(", ", 1))


def read_earlier(path: str | None) -> Results | None:
    """The results of an earlier run; None without a file. Not collective.

    Raises UsageError where the file cannot be read, or holds something else.
    """
    if path is None:
        return None
    try:
        with open(path) as file:
            return Results.from_json(file.read())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
    raise UsageError(f"--compare {path}: it must be what --json wrote, and cannot be read: {why}")
