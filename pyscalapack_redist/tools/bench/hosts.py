"""Redistribution between hosts: the papers' examples and two-dimensional cases, held against the limit of the links.

Walker & Otto (1996, section 3), blocks of 4 that grow to 4 K, as long as theirs and with 2 MB on each host; Desprez et al.
(1998, section 5), examples 1 to 4, from vectors that are all latency to such as are all bytes; grids of two dimensions, and
process sets that are disjoint or overlap. One rank on each of 16 hosts is what it is made for; 8 and 4 have fewer cases.

The question: with a network as the bottleneck, what do the order of messages and waiting for steps to end cost, and how
much of what the links can do is reached?
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..cases import Case
from ..text import new_table, ratio_text, time_text
from .methods import Method, named_methods
from .plot import plot
from .results import Column, Results, fastest, ratios
from .suite import Suite
from .tables import extreme, means

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["ALL_AT_ONCE", "COMPARISONS", "HOSTS", "MACHINES", "against_limit", "short_label", "tables"]

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
# (P, Q, r, s): from blocks of r on P processes to blocks of s on Q; for fewer hosts the first example
EXAMPLES = {
    16: ((16, 16, 3, 5), (16, 16, 7, 11), (15, 15, 3, 5), (12, 8, 4, 3)),
    8: ((8, 8, 3, 5),),
    4: ((4, 4, 3, 5),),
}
ORDERS = {16: (512, 2048), 8: (384, 1440), 4: (256, 1024)}  # as many bytes for each host
# two with other shapes and blocks, disjoint halves, and a grid that grows: 12 -> 16
GRIDS = {
    16: ("4x4:64x64 2x8:48x48", "1x16:32x32 4x4:64x64", "2x4:64x64 4x2:48x48+8", "3x4:64x64 4x4:48x48"),
    8: ("2x4:64x64 4x2:48x48", "1x8:32x32 2x4:64x64", "2x2:64x64 1x4:48x48+4", "2x3:64x64 2x4:48x48"),
    4: ("2x2:64x64 1x4:48x48", "1x4:32x32 4x1:64x64", "1x2:64x64 2x1:48x48+2", "1x3:64x64 2x2:48x48"),
}
LARGEST_GATHER = 2 * MB  # bytes that are gathered on one host: more take longer than all other methods together


def _walker_otto(processes: int, K: int, blocks: int) -> Case:
    before, after = (f"{processes}x1:{block}x1" for block in (BLOCK, K * BLOCK))
    return Case.read((processes * blocks * BLOCK, 1), before, after, "int32")


def _desprez(P: int, Q: int, r: int, s: int, size: int) -> Case:
    """A vector of whole slices, of about `size` doubles and at least one slice."""
    length = math.lcm(P * r, Q * s)
    return Case.read((max(1, round(size / length)) * length, 1), f"{P}x1:{r}x1", f"{Q}x1:{s}x1")


def _matrices(ranks: int, orders: Sequence[int]) -> tuple[Case, ...]:
    return tuple(Case.read((n, n), *layouts.split()) for layouts in GRIDS[ranks] for n in orders)


def _cases() -> tuple[Case, ...]:
    found: list[Case] = []
    for ranks in MACHINES:
        factors = FACTORS if ranks == max(MACHINES) else FACTORS[:2]
        found += [_walker_otto(ranks, K, blocks) for blocks in (PAPERS_BLOCKS, MANY_BLOCKS) for K in factors]
        sizes = [size * ranks // max(MACHINES) for size in DOUBLES]
        found += [_desprez(*example, size) for example in EXAMPLES[ranks] for size in sizes]
        found += _matrices(ranks, ORDERS[ranks])
    return tuple(found)


def _quick() -> tuple[Case, ...]:
    return tuple(
        case
        for ranks in MACHINES
        for case in (_walker_otto(ranks, 2, 40), _desprez(*EXAMPLES[ranks][0], 12_000), *_matrices(ranks, (128,)))
    )


def _variant(method: Method) -> Method:
    """The method; but gathered on one host only what does not take longer than all other methods together."""

    def obstacle(case: Case) -> str | None:
        size = case.elements * case.dtype.itemsize
        if size <= LARGEST_GATHER:
            return method.obstacle(case)
        most = f"{LARGEST_GATHER / MB:g} MB"
        return f"all {size / MB:.3g} MB would go through one host's link; this suite has it up to {most}"

    return dataclasses.replace(method, obstacle=obstacle) if method.name == "gather-scatter" else method


# -- what is said of all cases together


class Comparison(NamedTuple):
    """What `auto` is held against: in each case the fastest of some methods, of those that ran."""

    short: str
    label: str
    names: tuple[str, ...]

    def compared(self, results: Results) -> Column:
        """How many times as long as `auto` it takes, in all cases that have both. Not collective."""
        times = results.times
        return ratios(fastest(times[name] for name in self.names if name in times), times.get(AUTO, {}))


COMPARISONS = (
    Comparison("pxgemr2d", "pxgemr2d", ("pxgemr2d",)),
    Comparison("caterpillar", "caterpillar/sendrecv", ("caterpillar/sendrecv",)),
    Comparison("lock step", "best in lock step", LOCK_STEP),
    Comparison("plain", "best of plain mpi4py", PLAIN),
    Comparison("at once", "best of all at once", ALL_AT_ONCE),
    Comparison("windowed", "best windowed by name", WINDOWED),
)


def against_limit(results: Results, name: str, least_bytes: int = 0) -> Column:
    """How many times as long as the links' limit a method takes, in cases with such a limit. Not collective."""
    return ratios(results.times.get(name, {}), results.limits(least_bytes))


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """`auto` in each case beside the limit and the others, and the geometric means of these ratios. Not collective."""
    shown = [comparison for comparison in COMPARISONS if any(name in results.times for name in comparison.names)]
    compared = [comparison.compared(results) for comparison in shown]
    limits, auto = results.limits(), results.times.get(AUTO, {})
    each = new_table(("case",), ("limit", AUTO, "median", "x limit", *(comparison.short for comparison in shown)))
    each.columns[0].no_wrap = True
    for number, result in enumerate(results.cases, 1):
        each.add_row(
            f"{number}: {short_label(result.case)}",
            time_text(limits[number].least) if number in limits else "-",
            *(map(time_text, auto[number]) if number in auto else "--"),
            *(
                ratio_text(column[number].least if number in column else None)
                for column in (against_limit(results, AUTO), *compared)
            ),
        )
    together = new_table(("ratio",), ("cases", "geometric mean", "the least", "the largest"))
    rows = {f"{comparison.label} / {AUTO}": column for comparison, column in zip(shown, compared, strict=True)}
    for least, where in ((0, ""), (MB, ", 1 MB a host and more")):
        rows[f"{AUTO} / the links' limit{where}"] = against_limit(results, AUTO, least)
    for words, column in rows.items():
        together.add_row(words, str(len(column)), means(column), extreme(column, min), extreme(column, max))
    said = "each case: the links' limit, auto's minimum and median; the others' minimum times as multiples of auto's:"
    return [(said, each), ("all cases: ratios of minimum times / of medians:", together)]


def short_label(case: Case) -> str:
    """Layouts and size, vectors by processes and block size alone. Not collective."""
    size = case.elements * case.dtype.itemsize
    amount = f"{size / MB:.3g} MB" if size >= MB / 10 else f"{size / 1000:.3g} kB"
    layouts = f"{case.before} -> {case.after}"
    return f"{layouts.replace('x1', '') if case.shape[-1] == 1 else layouts}, {amount}"


HOSTS = Suite(
    cases=_cases(),
    quick=_quick(),
    methods=named_methods(*METHODS),
    calls=1,
    tables=tables,
    plot=functools.partial(plot, bars=False, beside=("", AUTO), name=short_label),
    variant=_variant,
    machines=MACHINES,
    between_hosts=True,
)
