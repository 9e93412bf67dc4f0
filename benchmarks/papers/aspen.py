"""`bench --suite aspen`: algorithms that find what two layouts share, against each other, as in the ASPEN paper. No MPI.

Each is held against the others in the same language: Python against Python, compiled against compiled.
"""

from __future__ import annotations

import datetime
import os
import platform
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pyscalapack_redist import __version__
from pyscalapack_redist.intersections import ALGORITHMS, FORMS
from pyscalapack_redist.tools.bench.timing import processor
from pyscalapack_redist.tools.text import console, counted, new_table, on_terminal, print_table, ratio_text, time_text
from pyscalapack_redist.tools.usage import UsageError, check_outputs

from .aspen_cases import GRIDS, METHODS, QUICK_GRIDS, AspenCase, all_cases, correct, loops, seconds_of
from .aspen_results import AspenResult, AspenResults, Measured, geometric_mean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["bench_aspen"]

TARGET = 10
NOT_VERIFIED = 1
OF_LAYOUTS = ("shape", "before", "after", "dtype", "methods", "profile", "compare")
FLAGS = {"before": "from", "after": "to"}


def bench_aspen(options: Namespace) -> int:
    """Run the suite, show it, write and draw what is asked for. Not collective.

    Parameters
    ----------
    options : Namespace
        The command line: repeat, quick, json, plot. What is for redistributions must not be given.

    Returns
    -------
    int
        Exit status: 0, or 1 where runs were wrong.

    Raises
    ------
    UsageError
        It cannot be done as asked.
    """
    for name in OF_LAYOUTS:
        given = getattr(options, name, None)
        if given is not None and given is not False:
            raise UsageError(
                f"--{FLAGS.get(name, name)} and --suite aspen: the suite has its own cases and algorithms, and moves nothing; "
                "it takes --quick, --repeat, --json and --plot"
            )
    check_outputs(options)
    cases = all_cases(QUICK_GRIDS if options.quick else GRIDS)
    out = console()
    where = _environment()
    for line in _heading(where, len(cases)):
        out.print(line, soft_wrap=True, markup=False)
    with _progress(out, cases) as under_way:
        results = AspenResults(where, tuple(_measure(case, options.repeat) for case in under_way))
    for heading, table in _tables(results):
        out.print(f"\n{heading}", soft_wrap=True, markup=False)
        print_table(out, table)
    for line in _summary(results):
        out.print(line, soft_wrap=True, markup=False)
    _write(results, options)
    return 0 if results.verified else NOT_VERIFIED


def _measure(case: AspenCase, repeat: int) -> AspenResult:
    seconds = seconds_of(case, repeat)
    methods = []
    for name, form in METHODS:
        runs, comparisons = loops(case, name, form)()
        methods.append(Measured(name, form, tuple(seconds[name, form]), runs, comparisons, correct(case, name, form)))
    return AspenResult(case, tuple(methods))


def _environment() -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "pyscalapack_redist": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count() or 1,
        "time": "all processes of the grid before, both dimensions, one after the other on one core",
    }


def _heading(where: dict[str, Any], cases: int) -> Iterator[str]:
    yield (
        f"pyscalapack_redist {where['pyscalapack_redist']}, Python {where['python']}, NumPy {where['numpy']}; "
        f"{where['processor'] or where['machine']}, {counted(where['cores'], 'core')}, load {os.getloadavg()[0]:.1f}"
    )
    yield f"{counted(cases, 'case')}; a time is of {where['time']}"


@contextmanager
def _progress(out: Console, cases: Sequence[AspenCase]) -> Iterator[Iterator[AspenCase]]:
    """The cases one by one; for a person with a bar that moves between them, and no thread of its own."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=out, auto_refresh=False, transient=True, disable=not on_terminal())
    task = bar.add_task("", total=len(cases))

    def each() -> Iterator[AspenCase]:
        for case in cases:
            yield case
            bar.advance(task)
            bar.refresh()

    with bar:
        yield each()


def _tables(results: AspenResults) -> Iterator[tuple[str, Table]]:
    for form in FORMS:
        yield (
            f"{form}, by grid: geometric mean of the least times over all pairs of block sizes",
            _by_grid(results, form),
        )
    case = results.largest[0].case
    grids = f"{case.before} x {case.before} -> {case.after} x {case.after}"
    for form in FORMS:
        yield f"{form}, {grids}, by block sizes: least times", _by_blocks(results.largest, form)
    yield f"{grids}, by block sizes: comparisons, and runs found", _counts(results.largest)


def _by_grid(results: AspenResults, form: str) -> Table:
    table = new_table(("grid, both sides",), (*ALGORITHMS, "falls / aspen", "least", "most"))
    for side in dict.fromkeys(result.case.before for result in results.cases):
        mine = [result for result in results.cases if result.case.before == result.case.after == side]
        ratios = [result.ratio(form) for result in mine]
        table.add_row(
            f"{side} x {side}",
            *(time_text(geometric_mean(result.method(name, form).least for result in mine)) for name in ALGORITHMS),
            *(ratio_text(value) for value in (geometric_mean(ratios), min(ratios), max(ratios))),
        )
    return table


def _by_blocks(cases: Sequence[AspenResult], form: str) -> Table:
    table = new_table(("blocks",), (*ALGORITHMS, "falls / aspen"))
    for result in cases:
        times = (time_text(result.method(name, form).least) for name in ALGORITHMS)
        table.add_row(result.case.blocks, *times, ratio_text(result.ratio(form)))
    return table


def _counts(cases: Sequence[AspenResult]) -> Table:
    """The same in both forms; the classical algorithm finds those of the whole array, the others those of a period."""
    table = new_table(("blocks",), (*ALGORITHMS, "runs of aspen", "of classical"))
    for result in cases:
        found = {name: result.method(name, FORMS[0]) for name in ALGORITHMS}
        counts = [method.comparisons for method in found.values()]
        table.add_row(result.case.blocks, *map(str, [*counts, found["aspen"].runs, found["classical"].runs]))
    return table


def _summary(results: AspenResults) -> Iterator[str]:
    side = results.largest[0].case.before
    for form in FORMS:
        ratios = [result.ratio(form) for result in results.largest]
        yield (
            f"{form}: aspen is {ratio_text(geometric_mean(ratios))} times as fast as falls at {side} processes per dimension "
            f"({ratio_text(min(ratios))} to {ratio_text(max(ratios))}; the target is {TARGET})"
        )
    if not results.verified:
        yield "WRONG RUNS: see verified in --json"


def _write(results: AspenResults, options: Namespace) -> None:
    if options.json:
        with open(options.json, "w") as file:
            file.write(results.to_json() + "\n")
    if options.plot:
        from .aspen_plot import plot_aspen

        plot_aspen(results, options.plot)
