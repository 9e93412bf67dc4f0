"""What the benchmark tells a person: each case's table, all cases together, where time went, and two runs compared.

Ratios of two methods are told twice, of the minimum times / of the medians.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cases import Case
from ..text import console, counted, new_table, on_terminal, print_table, ratio_text, size_text, time_text
from .results import CaseResult, Column, Results, ratios

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "LIMIT",
    "Change",
    "Display",
    "case_lines",
    "case_table",
    "changes",
    "comparison_lines",
    "comparison_table",
    "environment_lines",
    "extreme",
    "flag_text",
    "library",
    "means",
    "profile_table",
    "summary_table",
]

LIMIT = "the links' limit"
NOTEWORTHY = 1.1  # the factor from which on a method got slower or faster


def means(column: Column) -> str:
    """The geometric means over all cases. Not collective."""
    if not column:
        return "-"
    return " / ".join(ratio_text(statistics.geometric_mean(values)) for values in zip(*column.values(), strict=True))


def extreme(column: Column, choose: Callable[..., int]) -> str:
    """The largest (`max`) or the smallest (`min`) of the minimum times' ratios, and its case. Not collective."""
    if not column:
        return "-"
    number = choose(column, key=lambda number: column[number].least)
    return f"{ratio_text(column[number].least)} (case {number})"


# -- one run


def environment_lines(environment: dict[str, Any]) -> Iterator[str]:
    """Where it runs, what is timed, and what the columns mean. Not collective."""
    known, library_ = environment, environment["scalapack"]
    nodes = counted(len(set(known["node_of_rank"])), "node")
    processor = known["processor"] or known["machine"]
    yield f"{counted(known['ranks'], 'rank')} on {nodes}, {counted(known['cores'], 'core')} ({processor})"
    yield (
        f"pyscalapack_redist {known['pyscalapack_redist']}, Python {known['python']}, "
        f"numpy {known['numpy']}, mpi4py {known['mpi4py']}, {known['mpi']}"
    )
    yield f"ScaLAPACK: {library_['vendor']}, {library_['path']}" if library_ else "ScaLAPACK: none"
    yield f"flag round trip between ranks 0 and 1: {flag_text(known)}"
    yield f"time: {known['time']}; plans: {known['plans']}"
    rate = known.get("link_rate")
    if rate is not None:
        yield (
            f"links of {counted(len(set(known['host_of_rank'])), 'host')}: {rate / 1e6:.4g} MB/s each way "
            f"({known['link_rate_origin']}); limit: what the busiest host sends or receives, over that"
        )
    yield "ratios: of the minimum times / of the medians; extra memory: the most of all ranks, beside A and B"


def flag_text(environment: dict[str, Any]) -> str:
    """The round trip in words. Not collective."""
    trip = environment["flag_round_trip_ns"]
    return "not measured (no two ranks with shared memory)" if trip is None else f"{trip:.0f} ns"


def case_lines(result: CaseResult) -> Iterator[str]:
    """What did not run and why, in one line each. Not collective."""
    for name, why in result.not_run.items():
        first, *more = why.splitlines()
        yield f"{name} not run: {first}" + (" (`pyscalapack-redist info` says more)" if more else "")


def library(times: dict[str, Column]) -> Column:
    """Times of the library that others are held against: the one in use, else the first that was named. Not collective."""
    found: Column = {}
    for name in ("pxgemr2d", *(name for name in times if name.startswith("pxgemr2d="))):
        found = times.get(name, {}) | found
    return found


def case_table(result: CaseResult) -> Table:
    """A row for each method, and one for the links' limit where it is known. Not collective.

    Ratios are to memcpy; where that did not run, to auto.
    """
    results = Results({}, (result,))
    times, limits = results.times, results.limits()
    base = next((name for name in ("memcpy", "auto") if name in times), "memcpy")
    columns = ["min", "median", f"x {base}", "faster than pxgemr2d", *(["x limit"] if limits else [])]
    table = new_table(("method",), (*columns, "extra memory", "verified"))
    gemr2d = library(times)
    for method in result.methods:
        column = times[method.name]
        itself = method.name == "memcpy" or gemr2d.get(1) is column[1]
        table.add_row(
            method.name,
            time_text(method.least),
            time_text(method.median),
            means(ratios(column, times.get(base, {}))),
            "-" if itself else means(ratios(gemr2d, column)),
            *([means(ratios(column, limits))] if limits else []),
            size_text(method.extra_bytes),
            "yes" if method.verified else "NO",
            style=None if method.verified else "bold red",
        )
    for limit in limits.values():
        table.add_row(LIMIT, *map(time_text, limit), *["-"] * 5)
    return table


def profile_table(result: CaseResult) -> Table | None:
    """A row for each part of each method, over the ranks; None where no method can tell. Not collective."""
    table = new_table(("method", "part"), ("least", "median", "most"))
    for method in result.methods:
        for part, seconds in method.profile:
            figures = min(seconds), statistics.median(seconds), max(seconds)
            table.add_row(method.name, part, *map(time_text, figures))
    return table if table.row_count else None


def summary_table(results: Results) -> Table:
    """All cases together, a row for each method: ratios to memcpy and to pxgemr2d, and the worst of each. Not collective."""
    table = new_table(
        ("method",), ("cases", "x memcpy", "the most", "cases with pxgemr2d", "faster than pxgemr2d", "the least")
    )
    times = results.times
    gemr2d = library(times)
    for name, column in times.items():
        slower, faster = ratios(column, times.get("memcpy", {})), ratios(gemr2d, column)
        itself = name == "memcpy" or any(gemr2d.get(number) is found for number, found in column.items())
        against = ["-"] * 3 if itself else [str(len(faster)), means(faster), extreme(faster, min)]
        table.add_row(name, str(len(column)), means(slower), extreme(slower, max), *against)
    return table


# -- two runs


class Change(NamedTuple):
    """One method in one case, then and now: median times, and the same as multiples of memcpy's in the same run.

    Two runs may differ in the machine's speed as well, so the multiples count where both runs have them.
    """

    case: str
    method: str
    old: float
    old_to_memcpy: float | None
    new: float
    new_to_memcpy: float | None

    @property
    def factor(self) -> float:
        """How many times slower than before; relative to memcpy where that is known."""
        if self.old_to_memcpy is not None and self.new_to_memcpy is not None:
            return self.new_to_memcpy / self.old_to_memcpy
        return self.new / self.old

    @property
    def verdict(self) -> str:
        """One of "slower", "faster" and "same"."""
        return "slower" if self.factor > NOTEWORTHY else "faster" if self.factor < 1 / NOTEWORTHY else "same"


def _medians(results: Results) -> dict[tuple[Case, str], tuple[float, float | None]]:
    """Of each method in each case, and as a multiple of memcpy's."""
    memcpy = results.times.get("memcpy", {})
    return {
        (results.cases[number - 1].case, name): (
            pair.median,
            pair.median / memcpy[number].median if number in memcpy else None,
        )
        for name, column in results.times.items()
        for number, pair in column.items()
    }


def changes(old: Results, new: Results) -> list[Change]:
    """What both runs have, what slowed down most first. Not collective."""
    then, now = _medians(old), _medians(new)
    both = [(case, name) for case, name in now if name != "memcpy" and (case, name) in then]
    found = [Change(str(case), name, *then[case, name], *now[case, name]) for case, name in both]
    return sorted(found, key=lambda change: -change.factor)


def comparison_table(found: Iterable[Change]) -> Table:
    """A row for each change. Not collective."""
    figures = ("now / then", "median then", "median now", "x memcpy then", "x memcpy now")
    table = new_table(("case", "method", "verdict"), figures)
    for change in found:
        table.add_row(
            *(change.case, change.method, change.verdict, ratio_text(change.factor)),
            *map(time_text, (change.old, change.new)),
            *map(ratio_text, (change.old_to_memcpy, change.new_to_memcpy)),
            style={"slower": "red", "faster": "green"}.get(change.verdict),
        )
    return table


def comparison_lines(old: Results, new: Results) -> Iterator[str]:
    """What the figures are, each method as a whole, what one run lacks, and what else differs. Not collective."""
    yield f"now / then: of the medians as multiples of memcpy's; slower or faster from a factor of {NOTEWORTHY} on"
    factors: dict[str, list[Change]] = {}
    for change in changes(old, new):
        factors.setdefault(change.method, []).append(change)
    for name, its in sorted(factors.items()):
        counts = collections.Counter(change.verdict for change in its)
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("slower", "faster", "same") if counts[verdict])
        mean = ratio_text(statistics.geometric_mean([change.factor for change in its]))
        yield f"{name}: {told}; now / then in geometric mean: {mean}"
    plans = [run.environment.get("plans") for run in (old, new)]
    if plans[0] != plans[1]:
        yield f"not the same is timed: plans were {plans[0]} then, and are {plans[1]} now"
    for name, here, there in (("the earlier run", old, _medians(new)), ("this run", new, _medians(old))):
        for result in here.cases:
            absent = [method.name for method in result.methods if (result.case, method.name) not in there]
            if absent:
                yield f"only in {name}: {result.case}: {', '.join(absent)}"
    trips = [run.environment.get("flag_round_trip_ns") for run in (old, new)]
    if None not in trips:
        yield f"flag round trip: {trips[0]:.0f} ns then, {trips[1]:.0f} ns now"


# -- while it goes on


class Display:
    """Text and tables on standard output, on rank 0; a progress bar of so many ticks at a terminal. Not collective."""

    def __init__(self, ticks: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = console()
        self._environment: dict[str, Any] = {}
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        # no thread that refreshes the bar: it would take time from what is timed
        self._progress = Progress(
            *columns, console=self._console, auto_refresh=False, transient=True, disable=not on_terminal()
        )
        self._task = self._progress.add_task("", total=ticks)

    def environment(self, environment: dict[str, Any], notes: Iterable[str]) -> None:
        """Show where it runs, and what else is to be said."""
        self._environment = environment
        self.lines(*environment_lines(environment), *notes)
        self._progress.start()

    def tick(self, description: str | None = None) -> None:
        """Another round is done; or, with a description, a case begins."""
        self._progress.update(self._task, description=description, advance=description is None)
        self._progress.refresh()

    def result(self, number: int, result: CaseResult) -> None:
        """A case is done."""
        calls = f"; times are of {result.calls} calls in a row, divided" if result.calls > 1 else ""
        trip = flag_text(self._environment)
        self.table(f"case {number}: {result.case}; flag round trip {trip}{calls}", case_table(result))
        self.lines(*case_lines(result))
        self.table(f"where the time of a call went in case {number}, over the ranks:", profile_table(result))

    def table(self, heading: str, table: Table | None) -> None:
        """A table with its heading, if there is one."""
        if table is not None:
            self.lines("", heading)
            print_table(self._console, table)

    def summary(self, results: Results, earlier: Results | None) -> None:
        """All cases together, where there are several, and what changed since an earlier run."""
        if len(results.cases) > 1:
            heading = "all cases: geometric means of the ratios of minimum times / of medians:"
            self.table(heading, summary_table(results))
        if earlier is not None:
            found = changes(earlier, results)
            self.lines("", "compared with the earlier run:" if found else "no case and method is in both runs")
            if found:
                print_table(self._console, comparison_table(found))
            self.lines(*comparison_lines(earlier, results))

    def close(self) -> None:
        """Take the progress bar away."""
        self._progress.stop()

    def lines(self, *lines: str) -> None:
        """Show lines of text."""
        for line in lines:
            self._console.print(line, soft_wrap=True, markup=False)
