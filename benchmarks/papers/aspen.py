"""`--suite aspen`: algorithms that find what two layouts share, against each other, as in the ASPEN paper (section 5). No MPI.

A 10,000 x 10,000 array between square grids. Each algorithm is held against the others in the same language: Python against
Python, compiled against compiled. A time is that of the whole of Algorithm 1, for every process of the grid before: both
dimensions, in memory made beforehand where the loop is compiled. Nothing is communicated.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import gc
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyscalapack_redist import __version__
from pyscalapack_redist._kernels.intersections import Complete
from pyscalapack_redist.intersections import ALGORITHMS, FORMS, find
from pyscalapack_redist.intersections.algorithms import numbers
from pyscalapack_redist.layout.axis import BlockCyclic
from pyscalapack_redist.tools.arguments import argument, count, write_text
from pyscalapack_redist.tools.bench.results import CaseResult, MethodResult, Results
from pyscalapack_redist.tools.bench.timing import processor
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.text import console, count_text, new_table, print_line, print_table, ratio_text, time_text

if TYPE_CHECKING:
    from rich.table import Table

SIZE = 10_000
BLOCKS = ("1024x1024", "256x256", "30x50", "654x321")
GRIDS = (2, 4, 7, 8, 16, 31, 32)
QUICK_GRIDS = (2, 32)
CALLS = {"compiled": 20, "python": 1}  # in a row, for one time
METHODS = tuple((name, form) for form in FORMS for name in ALGORITHMS)
NOT_VERIFIED = 1


def complete(algorithm: str, a: BlockCyclic, b: BlockCyclic, form: str) -> Callable[[], tuple[int, int]]:
    """A call that finds the runs of all processes of `a`, ready to be timed: it returns the number of runs and of comparisons.

    A rank that makes a plan needs its own runs only. Done for all ranks, a compiled loop is so long that the call from Python
    does not count. The runs themselves go into lists or, if compiled, into memory that is made here.
    """
    chosen = ALGORITHMS[algorithm]
    window = chosen.window(a, b)
    if form == "compiled":
        return Complete(algorithm, window, numbers(a), numbers(b))

    def in_python() -> tuple[int, int]:
        found = [chosen.loop(a, b, p, window) for p in range(a.processes)]
        return sum(len(runs) for runs, _ in found), sum(comparisons for _, comparisons in found)

    return in_python


def axes_of(case: Case) -> list[tuple[BlockCyclic, BlockCyclic]]:
    """The dimensions of a case, before and after."""
    sides = zip(case.shape, case.before.block, case.before.grid, case.after.block, case.after.grid, strict=True)
    return [(BlockCyclic(n, r, p), BlockCyclic(n, s, q)) for n, r, p, s, q in sides]


def measured(case: Case, repeat: int) -> CaseResult:
    """Times of each algorithm in each form, interleaved round by round."""
    axes = axes_of(case)
    ready = {(name, form): [complete(name, *pair, form) for pair in axes] for name, form in METHODS}
    for finds in ready.values():
        for find_all in finds:
            find_all()
    seconds: dict[tuple[str, str], list[float]] = {method: [] for method in METHODS}
    was = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repeat):
            for method, finds in ready.items():
                calls = CALLS[method[1]]
                start = time.perf_counter()
                for _ in range(calls):
                    for find_all in finds:
                        find_all()
                seconds[method].append((time.perf_counter() - start) / calls)
    finally:
        if was:
            gc.enable()
    methods = (
        MethodResult("/".join(method), tuple(seconds[method]), None, all(_correct(*pair, *method) for pair in axes))
        for method in METHODS
    )
    return CaseResult(case, tuple(methods))


@functools.cache
def _correct(a: BlockCyclic, b: BlockCyclic, name: str, form: str) -> bool:
    """Whether the first, a middle and the last process's runs are those of index arithmetic."""
    return all(
        np.array_equal(_elements(find(name, a, b, p, form=form).expand()), _expected(a, b, p))
        for p in {0, a.processes // 2, a.processes - 1}
    )


def _elements(rows: np.ndarray) -> np.ndarray:
    """Each element of the runs: process of b, place in a, place in b."""
    each = np.repeat(rows[:, :3], rows[:, 3], axis=0)
    within = np.arange(len(each)) - np.repeat(np.cumsum(rows[:, 3]) - rows[:, 3], rows[:, 3])
    each[:, 1:] += within[:, None]
    return each


@functools.cache
def _expected(a: BlockCyclic, b: BlockCyclic, p: int) -> np.ndarray:
    """The same without the package's arithmetic: blocks are dealt in turn from process 0 and element 0."""
    i = np.arange(a.n)
    own = i[i // a.block % a.processes == p]
    place = own // (b.block * b.processes) * b.block + own % b.block
    return np.stack([own // b.block % b.processes, np.arange(len(own)), place], axis=1)


# -- tables


def tables(results: Results) -> Iterator[tuple[str, Table]]:
    """Least times on equal grids, as geometric means and by block sizes on the largest, and what was compared there."""
    cases = [result.case for result in results.cases]
    equal: dict[int, list[int]] = {}  # cases by processes along each dimension
    for k, case in enumerate(cases):
        if case.before.grid == case.after.grid:
            equal.setdefault(case.before.grid[0], []).append(k)
    largest = max(equal)
    for form in FORMS:
        times = np.array([results.column(f"{name}/{form}")[:, 0] for name in ALGORITHMS])
        falls, aspen = (results.column(f"{name}/{form}")[:, 0] for name in ("falls", "aspen"))
        ratios = falls / aspen
        table = new_table(("grid, both sides",), (*ALGORITHMS, "falls / aspen", "least", "most"))
        for side, some in equal.items():
            means = map(time_text, geometric_means(times[:, some]))
            ratio = (*geometric_means(ratios[None, some]), ratios[some].min(), ratios[some].max())
            table.add_row(f"{side} x {side}", *means, *map(ratio_text, ratio))
        yield f"{form}, by grid: geometric mean of the least times over all pairs of block sizes", table
        table = new_table(("layouts",), (*ALGORITHMS, "falls / aspen"))
        for k in equal[largest]:
            table.add_row(f"{cases[k].before} -> {cases[k].after}", *map(time_text, times[:, k]), ratio_text(ratios[k]))
        yield f"{form}, {largest} x {largest} processes, by block sizes: least times", table
    table = new_table(("layouts",), (*ALGORITHMS, "runs of aspen", "of classical"))
    for k in equal[
        largest
    ]:  # the same in both forms; those of classical are of the whole array, the others of a period
        found = {name: [complete(name, *pair, "compiled")() for pair in axes_of(cases[k])] for name in ALGORITHMS}
        runs, comparisons = ({name: sum(pair[n] for pair in pairs) for name, pairs in found.items()} for n in range(2))
        table.add_row(
            f"{cases[k].before} -> {cases[k].after}",
            *map(str, (*comparisons.values(), runs["aspen"], runs["classical"])),
        )
    yield f"{largest} x {largest} processes, by block sizes: comparisons, and runs found", table


def geometric_means(rows: NDArray[np.float64]) -> list[float]:
    """Of each row of numbers above 0."""
    means: list[float] = np.exp(np.log(rows).mean(axis=1)).tolist()
    return means


# -- the suite


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite, show it and write what is asked for; exit status 1 where runs were wrong."""
    parser = argparse.ArgumentParser(prog="run_suites.py --suite aspen", description=__doc__, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="a few small grids")
    parser.add_argument("--repeat", type=argument(count), default=9, metavar="N", help="timed rounds (default: 9)")
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON")
    options = parser.parse_args(arguments)
    grids = QUICK_GRIDS if options.quick else GRIDS
    layouts = [[f"{P}x{P}:{block}" for block in BLOCKS] for P in grids]
    cases = [
        Case.read((SIZE, SIZE), before, after)
        for befores in layouts
        for afters in layouts
        for before in befores
        for after in afters
    ]
    where = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "pyscalapack_redist": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count() or 1,
        "time": "all processes of the grid before, both dimensions, one after the other on one core",
    }
    out = console()
    print_line(
        out,
        f"pyscalapack_redist {where['pyscalapack_redist']}, Python {where['python']}, NumPy {where['numpy']}; "
        f"{where['processor'] or where['machine']}, {count_text(where['cores'], 'core')}, load {os.getloadavg()[0]:.1f}\n"
        f"{count_text(len(cases), 'case')}; a time is of {where['time']}",
    )
    results = Results(where, tuple(measured(case, options.repeat) for case in cases))
    if options.json:
        write_text("--json", options.json, results.to_json())
    for heading, table in tables(results):
        print_line(out, f"\n{heading}")
        print_table(out, table)
    if not results.verified:
        print_line(out, "WRONG RUNS: see verified in --json")
    return 0 if results.verified else NOT_VERIFIED
