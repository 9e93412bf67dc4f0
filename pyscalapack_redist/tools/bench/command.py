"""`pyscalapack-redist bench`: choose the cases, run them, show, compare, write. Rank 0 alone prints and writes files."""

from __future__ import annotations

import dataclasses
import os
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...comm.agreement import meet
from ...comm.groups import check_running, group_of
from ...errors import CollectiveError, RedistributionError
from ..arguments import UsageError, case_of, check_outputs, write_text, written
from ..cases import Case
from ..text import console, on_terminal, print_line, print_table, size_text
from .methods import DEFAULT_METHODS, named_methods
from .results import Results, comparison_lines, comparison_table, environment_lines, flag_text, plot
from .suites import SUITES, Suite
from .timing import MORE_TICKS, Clock, environment, links_limit, links_of, nodes_of, run_case

if TYPE_CHECKING:
    from mpi4py import MPI
    from rich.table import Table

START = "mpiexec -n {} python -m mpi4py -m pyscalapack_redist bench ..."
FAILED = 1


def bench(options: Namespace) -> int:
    """Run a command line, and return the exit status: 0, or 1 if a result was wrong or no method ran.

    Collective. Raises UsageError on every rank where it cannot be done.
    """
    suite = SUITES[options.suite] if options.suite else Suite(())
    try:
        from mpi4py import MPI

        check_running()
        comm = MPI.COMM_WORLD
    except CollectiveError as error:
        raise UsageError(f"bench needs a running MPI: {error}") from None
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"bench needs an MPI, and mpi4py cannot start one ({reason}): see pyscalapack-redist info"
        ) from None
    meet(group_of(comm), "bench")
    cases, earlier = _asked_for(comm, options)
    cases, notes = _for_size(cases, options.suite, comm.Get_size())
    nodes = nodes_of(comm)
    _check_memory(cases, comm, nodes)
    display = _Display(len(cases) * (options.repeat + MORE_TICKS), quiet=comm.Get_rank() > 0)
    results = _run(cases, suite, options, comm, nodes, display, notes)
    if comm.Get_rank() == 0:
        if options.json:
            write_text("--json", options.json, results.to_json())
        if options.plot:
            with written("--plot", options.plot):
                plot(results, options.plot)
        _summarize(results, suite, earlier, display)
    return 0 if results.verified and results.measured else FAILED


def _run(
    cases: Sequence[Case],
    suite: Suite,
    options: Namespace,
    comm: MPI.Intracomm,
    nodes: list[int],
    display: _Display,
    notes: list[str],
) -> Results:
    clock = Clock(comm, one_node=len(set(nodes)) == 1)
    where = environment(comm, nodes, clock.meaning, suite.plans)
    if options.link_rate is not None or suite.between_hosts:
        try:
            where |= links_of(comm, options.link_rate)
        except RedistributionError as error:
            raise UsageError(str(error)) from None
    display.lines(*environment_lines(where), *notes)
    methods = list(map(suite.variant, options.methods or suite.methods or named_methods(*DEFAULT_METHODS)))
    done = []
    with display.progress:
        for number, case in enumerate(cases, 1):
            display.tick(f"case {number}: {case}")
            result = run_case(case, methods, options.repeat, clock, comm, display.tick, suite.calls, options.profile)
            result = dataclasses.replace(result, limit=links_limit(case, where))
            calls = f"; times are of {result.calls} calls in a row, divided" if result.calls > 1 else ""
            display.table(f"case {number}: {case}; flag round trip {flag_text(where)}{calls}", result.table())
            display.lines(*result.lines())
            display.table(f"where the time of a call went in case {number}, over the ranks:", result.profile_table())
            done.append(result)
    return Results(where, tuple(done))


def _summarize(results: Results, suite: Suite, earlier: Results | None, display: _Display) -> None:
    for heading, table in suite.tables(results):
        display.table(heading, table)
    if len(results.cases) > 1:
        heading = "all cases: geometric means of the ratios of minimum times / of medians:"
        display.table(heading, results.summary_table())
    if earlier is not None:
        table = comparison_table(earlier, results)
        display.table("compared with the earlier run:", table)
        display.lines(*([] if table.row_count else ["", "no case and method is in both runs"]))
        display.lines(*comparison_lines(earlier, results))
    if not results.verified:
        display.lines("WRONG RESULTS: an output was not what it must be; see the column 'verified'")
    if not results.measured:
        display.lines("NOTHING WAS MEASURED: no method ran")


class _Display:
    """Text and tables on standard output, and in a terminal a progress bar of so many ticks."""

    def __init__(self, ticks: int, quiet: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = console(quiet)
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        hidden = quiet or not on_terminal()
        # no thread refreshes the bar: it would disturb the times
        self.progress = Progress(*columns, console=self._console, auto_refresh=False, transient=True, disable=hidden)
        self._task = self.progress.add_task("", total=ticks)

    def tick(self, description: str | None = None) -> None:
        """Another round is done; or, with a description, a case begins."""
        self.progress.update(self._task, description=description, advance=description is None)
        self.progress.refresh()

    def table(self, heading: str, table: Table) -> None:
        """A table with its heading, unless it is empty."""
        if table.row_count:
            self.lines("", heading)
            print_table(self._console, table)

    def lines(self, *lines: str) -> None:
        """Lines of text."""
        for line in lines:
            print_line(self._console, line)


# -- the cases


def _asked_for(comm: MPI.Intracomm, options: Namespace) -> tuple[list[Case], Results | None]:
    """The cases, and on rank 0 the earlier run. Rank 0 reads the files; its errors are raised on all. Collective."""
    cases, earlier, problem = [], None, None
    if comm.Get_rank() == 0:
        try:
            cases = _cases(options)
            check_outputs(options)
            earlier = _read_earlier(options.compare) if options.compare is not None else None
        except UsageError as error:
            problem = str(error)
    cases, problem = comm.bcast((cases, problem), root=0)
    if problem is not None:
        raise UsageError(problem)
    return cases, earlier


def _cases(options: Namespace) -> list[Case]:
    """The cases of a suite, or the one on the command line."""
    if options.suite:
        single = {"--shape": options.shape, "--from": options.before, "--to": options.after}
        present = [name for name, value in single.items() if value is not None]
        if present:
            raise UsageError(f"{present[0]} and --suite: give a suite, or one case by --shape, --from and --to")
        suite = SUITES[options.suite]
        if options.quick and not suite.quick:
            quick = ", ".join(name for name, some in SUITES.items() if some.quick)
            raise UsageError(f"--quick: the suite {options.suite} has no smaller cases; there are some in {quick}")
        cases = suite.quick if options.quick else suite.cases
        return list(dict.fromkeys(dataclasses.replace(case, dtype=options.dtype or case.dtype) for case in cases))
    if options.quick:
        raise UsageError("--quick: it is for a --suite")
    return [case_of(options, f", or --suite {' or '.join(SUITES)}")]


def _for_size(cases: Sequence[Case], suite: str | None, size: int) -> tuple[list[Case], list[str]]:
    """The cases to run on `size` ranks, and a line on the others.

    A single case may run on more ranks than it needs; of a suite only the cases for this number of ranks are run.
    """
    if suite is None:
        needed = cases[0].ranks
        if needed > size:
            raise UsageError(f"{cases[0]}: it was started on {size}; start it by {START.format(needed)}")
        return list(cases), []
    ranks_for = SUITES[suite].ranks_for
    fitting = [case for case in cases if ranks_for(case) == size]
    others = sorted(set(map(ranks_for, cases)) - {size})
    named = " or ".join(", ".join(map(str, others)).rsplit(", ", 1))
    if not fitting:
        raise UsageError(
            f"--suite {suite}: it has cases for {named} ranks, none for {size}; start it by {START.format(others[0])}"
        )
    note = (
        f"suite {suite}: {len(fitting)} of {len(cases)} cases are for {size} ranks and run now; the others are left out, "
        f"start them by mpiexec -n {named}"
    )
    return fitting, [note] if others else []


def _check_memory(cases: Sequence[Case], comm: MPI.Intracomm, nodes: list[int]) -> None:
    """Raise UsageError where the local arrays of a case are more than a node's memory. Collective."""
    memory, here = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), nodes.count(nodes[comm.Get_rank()])
    for case in cases:
        needed = 2 * case.local_elements * case.dtype.itemsize * min(here, case.ranks)
        if comm.allreduce(needed > memory):
            raise UsageError(f"{case}: local arrays would take {size_text(needed)} of a node, more than its memory")


def _read_earlier(path: str) -> Results:
    """The results of an earlier run."""
    try:
        with open(path) as file:
            return Results.from_json(file.read())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
    raise UsageError(f"--compare {path}: it must be what --json wrote, and cannot be read: {why}")
