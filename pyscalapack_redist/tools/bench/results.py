"""Measured times by method and case: as JSON, tables, lines of text and a picture.

Ratios of two methods are given twice: of the minimum times / of the medians.
"""

from __future__ import annotations

import collections
import json
import math
import os
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cases import Case, read_dtype
from ..text import count_text, log_ticks, new_table, ratio_text, size_text, time_text

if TYPE_CHECKING:
    from rich.table import Table

LIMIT = "the links' limit"
NOTEWORTHY = 1.1  # the factor from which on a method got slower or faster

# A row for each case: the shortest time and the median, or ratios of such to those of others; NaN where there are none.
Column = NDArray[np.float64]


def fastest(columns: Iterable[Column]) -> Column:
    """The smallest of several columns in each case, separately for shortest times and medians."""
    least: Column = np.fmin.reduce(list(columns))
    return least


def count(column: Column) -> int:
    """Number of cases with figures."""
    return int(np.count_nonzero(column[:, 0] > 0))


def means(column: Column) -> str:
    """The geometric means over all cases."""
    logs = np.log(column[column[:, 0] > 0])
    return " / ".join(map(ratio_text, np.exp(logs.mean(axis=0)))) if logs.size else "-"


def extreme(column: Column, choose: Callable[[Any], Any]) -> str:
    """The largest (`nanargmax`) or the smallest (`nanargmin`) of the minimum times' ratios, and its case."""
    if not count(column):
        return "-"
    case = int(choose(column[:, 0]))
    return f"{ratio_text(column[case, 0])} (case {case + 1})"


@dataclass(frozen=True)
class MethodResult:
    """One method's figures in one case."""

    name: str
    seconds: tuple[float, ...]  # of each round
    extra_bytes: int | None  # beside the two local arrays, the most of all ranks; None if unknown
    verified: bool  # whether every rank's output was right, byte by byte
    profile: dict[str, tuple[float, ...]] = field(
        default_factory=dict
    )  # of each part on each rank, if it was asked for

    @property
    def least(self) -> float:
        """The shortest time."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median time."""
        return statistics.median(self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """The values for JSON."""
        fields = {"min": self.least, "median": self.median, **vars(self)}
        return {name: value for name, value in fields.items() if name != "profile" or value}

    @classmethod
    def from_dict(cls, read: dict[str, Any]) -> MethodResult:
        """Read the result of `to_dict`. Raises ValueError if there are no times."""
        seconds = tuple(map(float, read["seconds"]))
        if not seconds:
            raise ValueError("a method has no times")
        profile = {part: tuple(map(float, some)) for part, some in read.get("profile", {}).items()}
        return cls(read["name"], seconds, read["extra_bytes"], bool(read["verified"]), profile)


@dataclass(frozen=True)
class CaseResult:
    """One case: the methods that ran, and why others did not."""

    case: Case
    methods: tuple[MethodResult, ...]
    not_run: dict[str, str] = field(default_factory=dict)
    calls: int = 1  # in a row, that each time is the mean of
    limit: dict[str, float] | None = None  # what the links between hosts allow, as `links_limit` gives it

    def method(self, name: str) -> MethodResult | None:
        """The figures of a method; None if it did not run."""
        return next((method for method in self.methods if method.name == name), None)

    @property
    def verified(self) -> bool:
        """Whether all methods' results were right."""
        return all(method.verified for method in self.methods)

    def to_dict(self) -> dict[str, Any]:
        """The values for JSON."""
        return {
            **self.case.to_dict(),
            "calls_per_time": self.calls,
            "methods": [method.to_dict() for method in self.methods],
            "not_run": [{"name": name, "why": why} for name, why in self.not_run.items()],
            **({"links_limit": self.limit} if self.limit else {}),
        }

    @classmethod
    def from_dict(cls, read: dict[str, Any]) -> CaseResult:
        """Read the result of `to_dict`."""
        case = Case.read(tuple(map(int, read["shape"])), read["from"], read["to"], read_dtype(read["dtype"]))
        methods = tuple(map(MethodResult.from_dict, read["methods"]))
        why = {missing["name"]: missing["why"] for missing in read.get("not_run", ())}
        return cls(case, methods, why, int(read.get("calls_per_time", 1)), read.get("links_limit"))

    def lines(self) -> Iterator[str]:
        """The methods that did not run, with reasons, one line each."""
        for name, why in self.not_run.items():
            first, *more = why.splitlines()
            yield f"{name} not run: {first}" + (" (`pyscalapack-redist info` says more)" if more else "")

    def table(self) -> Table:
        """A row for each method, and one for the links' limit where it is known.

        Ratios are to memcpy; where that did not run, to auto.
        """
        results = Results({}, (self,))
        limits, gemr2d = results.limits(), results.library()
        base = next((name for name in ("memcpy", "auto") if self.method(name)), "memcpy")
        columns = ["min", "median", f"x {base}", "faster than pxgemr2d", *(["x limit"] if count(limits) else [])]
        table = new_table(("method",), (*columns, "extra memory", "verified"))
        for method in self.methods:
            column = results.column(method.name)
            itself = method.name == "memcpy" or np.array_equal(column, gemr2d)
            table.add_row(
                method.name,
                *map(time_text, column[0]),
                means(column / results.column(base)),
                "-" if itself else means(gemr2d / column),
                *([means(column / limits)] if count(limits) else []),
                size_text(method.extra_bytes),
                "yes" if method.verified else "NO",
                style=None if method.verified else "bold red",
            )
        if count(limits):
            table.add_row(LIMIT, *map(time_text, limits[0]), *["-"] * 5)
        return table

    def profile_table(self) -> Table:
        """A row for each part of each method, over the ranks; empty where no method can tell."""
        table = new_table(("method", "part"), ("least", "median", "most"))
        for method in self.methods:
            for part, seconds in method.profile.items():
                figures = min(seconds), statistics.median(seconds), max(seconds)
                table.add_row(method.name, part, *map(time_text, figures))
        return table


@dataclass(frozen=True)
class Results:
    """A whole run of the benchmark: where it ran, and each case."""

    environment: dict[str, Any]
    cases: tuple[CaseResult, ...]

    @property
    def verified(self) -> bool:
        """Whether all methods' results were right in all cases."""
        return all(result.verified for result in self.cases)

    @property
    def measured(self) -> bool:
        """Whether any method ran."""
        return any(result.methods for result in self.cases)

    @property
    def times(self) -> dict[str, Column]:
        """A column for each method, in the order of first runs, for tables and pictures."""
        names = dict.fromkeys(method.name for result in self.cases for method in result.methods)
        return {name: self.column(name) for name in names}

    def column(self, name: str) -> Column:
        """The times of a method, perhaps without any."""
        figures = (result.method(name) for result in self.cases)
        return np.array([(method.least, method.median) if method else (np.nan, np.nan) for method in figures])

    def limits(self, least_bytes: int = 0) -> Column:
        """The links' limit in the cases that have it and in which the busiest host has so much to send or receive."""
        known = [result.limit if result.limit and result.limit["bytes"] >= least_bytes else {} for result in self.cases]
        return np.array([[limit.get("seconds", np.nan)] * 2 for limit in known])

    def library(self) -> Column:
        """Times of the reference library: the one in use, else the first that was named."""
        times = self.column("pxgemr2d")
        for name, column in self.times.items():
            if name.startswith("pxgemr2d="):
                times = np.where(np.isnan(times), column, times)
        return times

    def to_json(self) -> str:
        """As JSON text."""
        cases = [result.to_dict() for result in self.cases]
        return json.dumps({"environment": self.environment, "cases": cases}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read the result of `to_json`. The ValueError names missing entries."""
        try:
            read = json.loads(text)
            return cls(dict(read["environment"]), tuple(map(CaseResult.from_dict, read["cases"])))
        except KeyError as error:
            raise ValueError(f"it has no entry {error}") from error
        except (TypeError, AttributeError) as error:
            raise ValueError(f"it is not of the expected form ({error})") from error

    def summary_table(self) -> Table:
        """All cases together, a row for each method: ratios to memcpy and to pxgemr2d, and the worst of each."""
        columns = ("cases", "x memcpy", "the most", "cases with pxgemr2d", "faster than pxgemr2d", "the least")
        table = new_table(("method",), columns)
        memcpy, gemr2d = self.column("memcpy"), self.library()
        for name, column in self.times.items():
            slower, faster = column / memcpy, gemr2d / column
            itself = name == "memcpy" or bool((gemr2d == column).any())
            against = ["-"] * 3 if itself else [str(count(faster)), means(faster), extreme(faster, np.nanargmin)]
            table.add_row(name, str(count(column)), means(slower), extreme(slower, np.nanargmax), *against)
        return table


# -- the environment, and comparison of two runs


def environment_lines(environment: dict[str, Any]) -> Iterator[str]:
    """Lines on the machine, the timed operations and the meaning of columns."""
    known, library_ = environment, environment["scalapack"]
    nodes = count_text(len(set(known["node_of_rank"])), "node")
    processor = known["processor"] or known["machine"]
    yield f"{count_text(known['ranks'], 'rank')} on {nodes}, {count_text(known['cores'], 'core')} ({processor})"
    versions = ", ".join(f"{name} {known[name.lower()]}" for name in ("Python", "numpy", "mpi4py"))
    yield f"pyscalapack_redist {known['pyscalapack_redist']}, {versions}, {known['mpi']}"
    yield f"ScaLAPACK: {library_['vendor']}, {library_['path']}" if library_ else "ScaLAPACK: none"
    yield f"flag round trip between ranks 0 and 1, what two cores take to tell each other something: {flag_text(known)}"
    yield f"time: {known['time']}; plans: {known['plans']}"
    rate = known.get("link_rate")
    if rate is not None:
        yield (
            f"links of {count_text(len(set(known['host_of_rank'])), 'host')}: {rate / 1e6:.4g} MB/s each way "
            f"({known['link_rate_origin']}); limit: what the busiest host sends or receives, over that"
        )
    yield "ratios: of the minimum times / of the medians; extra memory: the most of all ranks, beside A and B"


def flag_text(environment: dict[str, Any]) -> str:
    """A line on the round trip of a flag."""
    trip = environment["flag_round_trip_ns"]
    return "not measured (no two ranks with shared memory)" if trip is None else f"{trip:.0f} ns"


class Change(NamedTuple):
    """A method in a case of two runs: medians of each run, also as multiples of memcpy's."""

    case: Case
    method: str
    medians: tuple[float, float]
    multiples: tuple[float, float]

    @property
    def factor(self) -> float:
        """The slowdown; by multiples of memcpy's if both runs have them, as the machine's speed may differ."""
        then, now = self.medians if math.isnan(sum(self.multiples)) else self.multiples
        return now / then

    @property
    def verdict(self) -> str:
        """The verdict in a word."""
        return "slower" if self.factor > NOTEWORTHY else "faster" if self.factor < 1 / NOTEWORTHY else "same"


def _medians(results: Results) -> dict[tuple[Case, str], tuple[float, float]]:
    """Of each method in each case, and as a multiple of memcpy's."""
    memcpy = results.column("memcpy")[:, 1].tolist()
    return {
        (result.case, method.name): (method.median, method.median / base)
        for result, base in zip(results.cases, memcpy, strict=True)
        for method in result.methods
    }


def _changes(old: Results, new: Results) -> list[Change]:
    """Of each method in each case that both runs have, what slowed down most first."""
    then, now = _medians(old), _medians(new)
    both = [key for key in now if key in then and key[1] != "memcpy"]
    changes = [Change(*key, *zip(then[key], now[key], strict=True)) for key in both]
    return sorted(changes, key=lambda change: -change.factor)


def comparison_table(old: Results, new: Results) -> Table:
    """A row for each method in each case that both runs have, what slowed down most first."""
    figures = ("now / then", "median then", "median now", "x memcpy then", "x memcpy now")
    table = new_table(("case", "method", "verdict"), figures)
    for change in _changes(old, new):
        cells = (*map(time_text, change.medians), *map(ratio_text, change.multiples))
        style = {"slower": "red", "faster": "green"}.get(change.verdict)
        table.add_row(str(change.case), change.method, change.verdict, ratio_text(change.factor), *cells, style=style)
    return table


def comparison_lines(old: Results, new: Results) -> Iterator[str]:
    """What the figures are, each method as a whole, what one run lacks, and what else differs."""
    yield f"now / then: of the medians as multiples of memcpy's; slower or faster from a factor of {NOTEWORTHY} on"
    changes = _changes(old, new)
    for method in sorted({change.method for change in changes}):
        some = [change for change in changes if change.method == method]
        counts = collections.Counter(change.verdict for change in some)
        verdicts = ", ".join(f"{counts[name]} {name}" for name in ("slower", "faster", "same") if counts[name])
        mean = ratio_text(statistics.geometric_mean(change.factor for change in some))
        yield f"{method}: {verdicts}; now / then in geometric mean: {mean}"
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


# -- the picture: minimum times of the methods, on a row for each case

ROW, SPREAD = 0.3, 0.6  # inches of a row, and the part of it over which its marks are laid out
MARKERS = "osD^vP*Xh"
# Colours that people tell apart who do not see red and green alike (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
BOUNDS = {"memcpy": "--", LIMIT: "-"}  # lines across the row of a case, that methods are held against


def plot(results: Results, path: str) -> None:
    """Write the picture of minimum times to a file, in the format that its name ends in.

    The legend has the geometric means of the times as multiples of memcpy's or, without it, of auto's. Raises OSError or
    ValueError where the file cannot be written or there is no such format.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 2.2 + ROW * len(results.cases)), layout="constrained")
    figure.suptitle(_heading(results), fontsize=10)
    axes = figure.subplots()
    times, rows = results.times, np.arange(1, len(results.cases) + 1)
    base = next((name for name in ("memcpy", "auto") if name in times), None)
    methods = [name for name in times if name not in BOUNDS]
    for number, method in enumerate(methods):
        name, equals, library = method.partition("=")  # without the folder of a library
        label, style = name + equals + os.path.basename(library), _mark(number)
        ratios = times[method] / times[base] if base not in (None, method) else np.empty((0, 2))
        if count(ratios):
            label += f": {means(ratios).split()[0]} x {base} ({count_text(count(ratios), 'case')})"
        offset = SPREAD * ((number + 0.5) / len(methods) - 0.5)
        axes.plot(times[method][:, 0], rows + offset, linestyle="none", label=label, **style)
    for name, line in BOUNDS.items():
        least = (results.limits() if name == LIMIT else results.column(name))[:, 0]
        if np.isfinite(least).any():
            across = [rows - 0.5, rows + 0.5]
            axes.plot([least, least], across, color="black", linestyle=line, linewidth=1.4, label=name)
    cases = [result.case for result in results.cases]
    texts = [f"{case.array}, {case.before} -> {case.after}   case {n}" for n, case in enumerate(cases, 1)]
    axes.set_yticks(rows, texts, fontsize=7)
    axes.set_ylim(len(texts) + 0.6, 0.4)
    axes.set_xscale("log")
    log_ticks(axes.xaxis, time_text)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("minimum time; below, the geometric mean of its multiples", fontsize=9)
    axes.grid(alpha=0.35, axis="x")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        unique = dict(zip(labels, handles, strict=True))
        figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=min(4, len(unique)), fontsize=9)
    figure.savefig(path, dpi=150)


def _mark(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "markersize": 5}


def _heading(results: Results) -> str:
    """The environment in a line."""
    known = results.environment
    rate, words = known.get("link_rate"), f"Redistribution on {count_text(known['ranks'], 'rank')}"
    if rate is None:
        return f"{words}, {count_text(known['cores'], 'core')}, {known['mpi']}; flag round trip {flag_text(known)}"
    hosts = count_text(len(set(known["host_of_rank"])), "host")
    return f"{words}, {hosts}, links of {rate / 1e6:.4g} MB/s each way ({known['link_rate_origin']}); {known['mpi']}"
