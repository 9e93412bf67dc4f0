"""Redistribution between hosts: the papers' examples and two-dimensional cases, held against the limit of the links.

Walker & Otto (1996, section 3), blocks of 4 that grow to 4 K, as long as theirs and with 2 MB on each host; Desprez et al.
(1998, section 5), examples 1 to 4, from vectors that are all latency to such as are all bytes; grids of two dimensions, and
process sets that are disjoint or overlap. One rank on each of 16 hosts is what it is made for; 8 and 4 have fewer cases.

The question: with a network as the bottleneck, what do the order of messages and waiting for steps to end cost, and how
much of what the links can do is reached?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .case import Case
from .example import Example
from .figures import ratio_text, time_text
from .layout import Layout
from .methods import Method, Prepared, named_methods
from .results import CaseResult, MethodResult, Results
from .stage import Stage
from .suite import Suite
from .summary import Ratios
from .terminal import new_table

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "ALL_AT_ONCE",
    "COMPARISONS",
    "HOSTS",
    "PLAIN",
    "Comparison",
    "against_limit",
    "compared",
    "short_label",
    "tables",
]

AUTO = "auto"
PLAIN = ("mpi-waitall", "mpi-alltoallv")
ALL_AT_ONCE = (*PLAIN, "auto/nonblocking", "auto/alltoallv", "auto/alltoallw")
WINDOWED = ("stepwise/windowed", "optimal/windowed", "caterpillar/windowed")
LOCK_STEP = ("caterpillar/sendrecv", "ring/sendrecv", "stepwise/sendrecv", "optimal/sendrecv")
METHODS = (AUTO, *WINDOWED, *LOCK_STEP, *ALL_AT_ONCE, "pxgemr2d", "gather-scatter")

MB = 10**6
MACHINES = (4, 8, 16)
FACTORS = (2, 4, 8, 12)
BLOCK, PAPERS_BLOCKS, MANY_BLOCKS = 4, 800, 131_040  # 12.8 kB and 2.1 MB of 4-byte integers on each process
DOUBLES = (76_800, 1_228_800, 4_915_200)  # on 16
EXAMPLES = (Example(1, 16, 16, 3, 5), Example(2, 16, 16, 7, 11), Example(3, 15, 15, 3, 5), Example(4, 12, 8, 4, 3))
SMALLER = (Example(1, 8, 8, 3, 5), Example(1, 4, 4, 3, 5))  # the first example for fewer hosts
ORDERS = {16: (512, 2048), 8: (384, 1440), 4: (256, 1024)}  # as many bytes for each host
GRIDS = {
    16: (
        ("4x4:64x64", "2x8:48x48"),
        ("1x16:32x32", "4x4:64x64"),
        ("2x4:64x64", "4x2:48x48+8"),  # disjoint halves
        ("3x4:64x64", "4x4:48x48"),  # 12 -> 16
    ),
    8: (
        ("2x4:64x64", "4x2:48x48"),
        ("1x8:32x32", "2x4:64x64"),
        ("2x2:64x64", "1x4:48x48+4"),
        ("2x3:64x64", "2x4:48x48"),
    ),
    4: (
        ("2x2:64x64", "1x4:48x48"),
        ("1x4:32x32", "4x1:64x64"),
        ("1x2:64x64", "2x1:48x48+2"),
        ("1x3:64x64", "2x2:48x48"),
    ),
}
MOST_THROUGH_ONE = 2 * MB  # bytes that are gathered on one host: more take longer than all other methods together


def _walker_otto(processes: int, K: int, blocks: int) -> Case:
    before, after = (Layout((processes, 1), (block, 1), (0, 0)) for block in (BLOCK, K * BLOCK))
    return Case((processes * blocks * BLOCK, 1), before, after, np.dtype(np.int32))


def _matrices(ranks: int, orders: Sequence[int]) -> tuple[Case, ...]:
    grids = [(Layout.parse(before), Layout.parse(after)) for before, after in GRIDS[ranks]]
    return tuple(Case((n, n), before, after) for before, after in grids for n in orders)


def _cases() -> tuple[Case, ...]:
    found = []
    for ranks in MACHINES:
        factors = FACTORS if ranks == max(MACHINES) else FACTORS[:2]
        found += [_walker_otto(ranks, K, blocks) for blocks in (PAPERS_BLOCKS, MANY_BLOCKS) for K in factors]
        mine = EXAMPLES if ranks == max(MACHINES) else [one for one in SMALLER if ranks == one.P]
        found += [one.case(size * ranks // max(MACHINES), disjoint=False) for one in mine for size in DOUBLES]
        found += _matrices(ranks, ORDERS[ranks])
    return tuple(found)


def _quick() -> tuple[Case, ...]:
    found = []
    for ranks in MACHINES:
        example = next(one for one in (*EXAMPLES, *SMALLER) if ranks == one.P)
        found += [_walker_otto(ranks, 2, 40), example.case(12_000, disjoint=False), *_matrices(ranks, (128,))]
    return tuple(found)


class _Small(Method):
    """A method that is left out where it would take longer than all others together."""

    def __init__(self, method: Method) -> None:
        self.name, self._method = method.name, method

    def obstacle(self, case: Case) -> str | None:
        """More than goes through one host's link in reasonable time, or what the method says. Not collective."""
        size = case.elements * case.dtype.itemsize
        if size > MOST_THROUGH_ONE:
            most = f"{MOST_THROUGH_ONE / MB:g} MB"
            return f"all {size / MB:.3g} MB would go through one host's link; this suite has it up to {most}"
        return self._method.obstacle(case)

    def prepare(self, stage: Stage) -> Prepared:
        """That of the method. Collective."""
        return self._method.prepare(stage)


def _variant(method: Method) -> Method:
    return _Small(method) if method.name == "gather-scatter" else method


# -- what is said of all cases together


@dataclass(frozen=True)
class Comparison:
    """What `auto` is held against: in each case the fastest of some methods, of those that ran."""

    short: str
    label: str
    names: tuple[str, ...]

    def best(self, case: CaseResult, time: Callable[[MethodResult], float]) -> MethodResult | None:
        """The fastest of them by that time. Not collective."""
        return min(filter(None, map(case.method, self.names)), key=time, default=None)


COMPARISONS = (
    Comparison("pxgemr2d", "pxgemr2d", ("pxgemr2d",)),
    Comparison("caterpillar", "caterpillar/sendrecv", ("caterpillar/sendrecv",)),
    Comparison("lock step", "best in lock step", LOCK_STEP),
    Comparison("plain", "best of plain mpi4py", PLAIN),
    Comparison("at once", "best of all at once", ALL_AT_ONCE),
    Comparison("windowed", "best windowed by name", WINDOWED),
)


def compared(results: Results, comparison: Comparison) -> Ratios:
    """How many times as long as `auto` the other takes, in all cases that have both. Not collective."""
    found = []
    for number, case in enumerate(results.cases, 1):
        auto, one = case.method(AUTO), comparison.best(case, _least)
        other = comparison.best(case, _median)
        if auto is not None and one is not None and other is not None:
            found.append((one.least / auto.least, other.median / auto.median, number))
    return _ratios(found)


def against_limit(results: Results, name: str, least_bytes: int = 0) -> Ratios:
    """How many times as long as the links' limit a method takes, in cases with such a limit. Not collective.

    Parameters
    ----------
    least_bytes : int
        Only cases in which the busiest host has as many to send or receive.
    """
    found = []
    for number, case in enumerate(results.cases, 1):
        one, limit = case.method(name), case.limit
        if one is not None and limit is not None and limit.nbytes >= least_bytes:
            found.append((one.least / limit.seconds, one.median / limit.seconds, number))
    return _ratios(found)


def _ratios(found: Sequence[tuple[float, float, int]]) -> Ratios:
    least, medians, numbers = zip(*found, strict=True) if found else ((), (), ())
    return Ratios(tuple(least), tuple(medians), tuple(numbers))


def _least(one: MethodResult) -> float:
    return one.least


def _median(one: MethodResult) -> float:
    return one.median


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """`auto` in each case beside the limit and the others, and the geometric means of these ratios. Not collective."""
    shown = [one for one in COMPARISONS if any(one.best(case, _least) for case in results.cases)]
    each = new_table(("case",), ("limit", AUTO, "median", "x limit", *(one.short for one in shown)))
    each.columns[0].no_wrap = True
    for number, case in enumerate(results.cases, 1):
        auto, limit = case.method(AUTO), case.limit
        each.add_row(
            f"{number}: {short_label(case.case)}",
            "-" if limit is None else time_text(limit.seconds),
            *(("-", "-") if auto is None else (time_text(auto.least), time_text(auto.median))),
            "-" if auto is None or limit is None else ratio_text(auto.least / limit.seconds),
            *(_cell(case, one) for one in shown),
        )
    all_ = new_table(("ratio",), ("cases", "geometric mean", "the least", "the largest"))
    for one in shown:
        _add(all_, f"{one.label} / {AUTO}", compared(results, one))
    for least, where in ((0, ""), (MB, ", 1 MB a host and more")):
        _add(all_, f"{AUTO} / the links' limit{where}", against_limit(results, AUTO, least))
    return [
        (
            "each case: the links' limit, auto's minimum and median; the others' minimum times as multiples of auto's:",
            each,
        ),
        ("all cases: ratios of minimum times / of medians:", all_),
    ]


def short_label(case: Case) -> str:
    """Layouts and size, vectors by processes and block size alone. Not collective."""
    size = case.elements * case.dtype.itemsize
    amount = f"{size / MB:.3g} MB" if size >= MB / 10 else f"{size / 1000:.3g} kB"
    texts = [str(one).replace("x1", "") if case.shape[-1] == 1 else str(one) for one in (case.before, case.after)]
    return f"{' -> '.join(texts)}, {amount}"


def _cell(case: CaseResult, comparison: Comparison) -> str:
    auto, other = case.method(AUTO), comparison.best(case, _least)
    return "-" if auto is None or other is None else ratio_text(other.least / auto.least)


def _add(table: Table, name: str, ratios: Ratios) -> None:
    table.add_row(name, str(len(ratios.cases)), ratios.means, ratios.smallest, ratios.largest)


HOSTS = Suite(
    cases=_cases(),
    quick=_quick(),
    methods=named_methods(*METHODS),
    calls=1,
    tables=tables,
    variant=_variant,
    machines=MACHINES,
    between_hosts=True,
)
