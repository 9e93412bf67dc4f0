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
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pyscalapack_redist import __version__
from pyscalapack_redist._kernels.intersections import Complete
from pyscalapack_redist.intersections import ALGORITHMS, FORMS, find
from pyscalapack_redist.intersections.algorithms import numbers
from pyscalapack_redist.layout.axis import BlockCyclic
from pyscalapack_redist.tools.arguments import argument, check_outputs, count
from pyscalapack_redist.tools.bench.timing import processor
from pyscalapack_redist.tools.text import console, counted, new_table, print_line, print_table, ratio_text, time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

__all__ = ["complete", "geometric_mean", "main"]

SIZE = 10_000
BLOCKS = ((1024, 1024), (256, 256), (30, 50), (654, 321))
GRIDS = (2, 4, 7, 8, 16, 31, 32)
QUICK_GRIDS = (2, 32)
DRAWN = ("1024x1024 -> 256x256", "256x256 -> 1024x1024", "256x256 -> 30x50", "30x50 -> 654x321")
CALLS = {"compiled": 20, "python": 1}  # in a row, for one time
METHODS = tuple((name, form) for form in FORMS for name in ALGORITHMS)
TARGET = 10
NOT_VERIFIED = 1


class Measured(NamedTuple):
    """One algorithm in one form: the least time of all processes and both dimensions counts, for one core works alone."""

    seconds: list[float]
    runs: int
    comparisons: int
    verified: bool

    @property
    def least(self) -> float:
        return min(self.seconds)


class Result(NamedTuple):
    """All algorithms between square grids with so many processes along each dimension, before and after, by (name, form)."""

    before: int
    after: int
    blocks: tuple[tuple[int, int], tuple[int, int]]
    methods: dict[tuple[str, str], Measured]

    @property
    def pair(self) -> str:
        """The two block sizes, as 30x50 -> 654x321."""
        return " -> ".join("x".join(map(str, block)) for block in self.blocks)

    def ratio(self, form: str) -> float:
        """Least time of FALLS as a multiple of ASPEN's."""
        return self.methods["falls", form].least / self.methods["aspen", form].least


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


def measured(P: int, Q: int, blocks: tuple[tuple[int, int], tuple[int, int]], repeat: int) -> Result:
    """Times of each algorithm in each form, interleaved round by round."""
    axes = [(BlockCyclic(SIZE, r, P), BlockCyclic(SIZE, s, Q)) for r, s in zip(*blocks, strict=True)]
    ready = {(name, form): [complete(name, *pair, form) for pair in axes] for name, form in METHODS}
    counts = {method: np.sum([find() for find in finds], axis=0).tolist() for method, finds in ready.items()}
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
    verified = {method: all(_correct(*pair, *method) for pair in axes) for method in METHODS}
    methods = {method: Measured(seconds[method], *counts[method], verified[method]) for method in METHODS}
    return Result(P, Q, blocks, methods)


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


def geometric_mean(values: Iterable[float]) -> float:
    """Of numbers above 0."""
    return math.exp(statistics.fmean(map(math.log, values)))


# -- tables, JSON and the picture


def _between_equal(results: Sequence[Result], side: int) -> list[Result]:
    return [result for result in results if result.before == result.after == side]


def _tables(results: Sequence[Result]) -> Iterator[tuple[str, Table]]:
    for form in FORMS:
        table = new_table(("grid, both sides",), (*ALGORITHMS, "falls / aspen", "least", "most"))
        for side in dict.fromkeys(result.before for result in results):
            alike = _between_equal(results, side)
            ratios = [result.ratio(form) for result in alike]
            times = (geometric_mean(result.methods[name, form].least for result in alike) for name in ALGORITHMS)
            ratio = map(ratio_text, (geometric_mean(ratios), min(ratios), max(ratios)))
            table.add_row(f"{side} x {side}", *map(time_text, times), *ratio)
        yield f"{form}, by grid: geometric mean of the least times over all pairs of block sizes", table
    side = max(result.before for result in results)
    grids, largest = f"{side} x {side} -> {side} x {side}", _between_equal(results, side)
    for form in FORMS:
        table = new_table(("blocks",), (*ALGORITHMS, "falls / aspen"))
        for result in largest:
            times = (time_text(result.methods[name, form].least) for name in ALGORITHMS)
            table.add_row(result.pair, *times, ratio_text(result.ratio(form)))
        yield f"{form}, {grids}, by block sizes: least times", table
    table = new_table(("blocks",), (*ALGORITHMS, "runs of aspen", "of classical"))
    for result in largest:  # the same in both forms; those of classical are of the whole array, the others of a period
        found = {name: result.methods[name, FORMS[0]] for name in ALGORITHMS}
        counts = [one.comparisons for one in found.values()]
        table.add_row(result.pair, *map(str, [*counts, found["aspen"].runs, found["classical"].runs]))
    yield f"{grids}, by block sizes: comparisons, and runs found", table


def _summary(results: Sequence[Result]) -> Iterator[str]:
    side = max(result.before for result in results)
    for form in FORMS:
        ratios = [result.ratio(form) for result in _between_equal(results, side)]
        yield (
            f"{form}: aspen is {ratio_text(geometric_mean(ratios))} times as fast as falls at {side} processes per dimension "
            f"({ratio_text(min(ratios))} to {ratio_text(max(ratios))}; the target is {TARGET})"
        )


def _written(result: Result) -> dict[str, Any]:
    sides = zip((result.before, result.after), result.blocks, strict=True)
    before, after = (f"{n}x{n}:{block[0]}x{block[1]}" for n, block in sides)
    methods = [
        {
            "name": f"{name}/{form}",
            **one._asdict(),
            "min": one.least,
            "median": statistics.median(one.seconds),
        }
        for (name, form), one in result.methods.items()
    ]
    return {"shape": [SIZE, SIZE], "from": before, "to": after, "methods": methods}


def _draw(results: Sequence[Result], where: dict[str, Any], path: str) -> None:
    """Pictures like the paper's Figs 3 and 4: time against the size of both grids, and against that of the remote one."""
    from matplotlib.figure import Figure

    local = max(result.before for result in results)
    pairs = [pair for pair in DRAWN if any(result.pair == pair for result in results)]
    rows = [(figure, form) for figure in (3, 4) for form in FORMS]
    figure = Figure(figsize=(3.6 * len(pairs), 3.1 * len(rows) + 1), layout="constrained")
    panels = figure.subplots(len(rows), len(pairs), squeeze=False, sharey="row", sharex=True)
    for (number, form), line in zip(rows, panels, strict=True):
        for pair, axes in zip(pairs, line, strict=True):
            some = [result for result in results if result.pair == pair]
            some = [one for one in some if one.before == (one.after if number == 3 else local)]
            _lines(axes, some, form)
            where_from = "both grids" if number == 3 else f"the remote grid, {local} in the local one"
            axes.set_xlabel(f"processes per dimension, {where_from}")
            axes.set_title(f"{pair}\n{form}", fontsize=9)
        line[0].set_ylabel(f"Fig {number}: least time of all processes")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(ALGORITHMS), fontsize=10)
    machine = f"{where['processor'] or where['machine']}, Python {where['python']}"
    figure.suptitle(f"Intersections of two block-cyclic layouts of {SIZE} x {SIZE} elements\n{machine}", fontsize=11)
    figure.savefig(path, dpi=110)


def _lines(axes: Axes, some: Sequence[Result], form: str) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    ordered = sorted(some, key=lambda result: result.after)
    for name, marker in zip(ALGORITHMS, "sD^o", strict=True):
        times = [result.methods[name, form].least for result in ordered]
        axes.plot([result.after for result in ordered], times, marker=marker, markersize=4, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: time_text(value).replace(".00", "").replace(".0", ""))
    )
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelbottom=True)
    axes.grid(alpha=0.35)


# -- the suite


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite, show it, write and draw what is asked for; exit status 1 where runs were wrong."""
    parser = argparse.ArgumentParser(prog="run_suites.py --suite aspen", description=__doc__, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="a few small grids")
    parser.add_argument("--repeat", type=argument(count), default=9, metavar="N", help="timed rounds (default: 9)")
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON")
    parser.add_argument("--plot", metavar="FILE.png", help="draw the results")
    options = parser.parse_args(arguments)
    check_outputs(options)
    grids = QUICK_GRIDS if options.quick else GRIDS
    cases = [(P, Q, (r, s)) for P in grids for Q in grids for r in BLOCKS for s in BLOCKS]
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
        f"{where['processor'] or where['machine']}, {counted(where['cores'], 'core')}, load {os.getloadavg()[0]:.1f}\n"
        f"{counted(len(cases), 'case')}; a time is of {where['time']}",
    )
    results = [measured(*case, options.repeat) for case in cases]
    verified = all(one.verified for result in results for one in result.methods.values())
    for heading, table in _tables(results):
        print_line(out, f"\n{heading}")
        print_table(out, table)
    for line in (*_summary(results), *([] if verified else ["WRONG RUNS: see verified in --json"])):
        print_line(out, line)
    if options.json:
        with open(options.json, "w") as file:
            file.write(json.dumps({"environment": where, "cases": [*map(_written, results)]}, indent=1) + "\n")
    if options.plot:
        _draw(results, where, options.plot)
    return 0 if verified else NOT_VERIFIED
