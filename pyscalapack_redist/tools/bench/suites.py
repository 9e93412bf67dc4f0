"""Named sets of cases: what is compared on them, and how the whole is shown.

A suite may have cases for several numbers of ranks; one run takes those for its own. In `sizes` only the size varies; in
`once`, plans are used once. `broad` has random cases from a fixed seed, so that nothing can be tuned to a few named ones.
Those of benchmarks/ are run by benchmarks/run_suites.py.

`orders` has local arrays of A and of B in Fortran and C order, of elements of 1 to 16 bytes: lines that cross, and runs
with gaps.

`hosts` asks, with a network as the bottleneck, what the order of messages and waiting for steps to end cost, and how much of
what the links can do is reached: Walker & Otto (1996, section 3), blocks of 4 that grow to 4 K, as long as theirs and with
2 MB on each host; Desprez et al. (1998, section 5), examples 1 to 4, from vectors that are all latency to such as are all
bytes; grids of two dimensions, and process sets that are disjoint or overlap. One rank on each of 16 hosts is what it is
made for; 8 and 4 have fewer cases.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ...layout.notation import LayoutText
from ..cases import Case
from ..text import new_table, ratio_text, time_text
from .methods import DEFAULT_METHODS, Method, named_methods
from .results import Results, count, extreme, fastest, means

if TYPE_CHECKING:
    from rich.table import Table

T = TypeVar("T")
AUTO = "auto"


@dataclass(frozen=True)
class Suite:
    """A named set of cases: for one number of ranks or several; a run takes those for its own."""

    cases: tuple[Case, ...]
    quick: tuple[Case, ...] = ()  # fewer and smaller ones for `--quick`
    methods: tuple[Method, ...] = ()  # compared where the command line names none; empty for the benchmark's own choice
    calls: int | None = None  # in a row, that one time is the mean of; None to choose by the size of the arrays
    tables: Callable[[Results], Sequence[tuple[str, Table]]] = lambda results: ()  # of all cases, with headings
    plans: str = "made before timing and reused"
    variant: Callable[[Method], Method] = lambda method: method  # of any method, to what is timed in its place
    # Numbers of ranks that it is for, ascending: a case for fewer runs on the first of them that has enough. Empty where each
    # case runs on just as many as it needs.
    machines: tuple[int, ...] = ()
    between_hosts: bool = False  # whether the links' limit is of interest without being asked for

    def ranks_for(self, case: Case) -> int:
        """The number of ranks on which a case is run."""
        return next((ranks for ranks in self.machines if ranks >= case.ranks), case.ranks)


# -- named cases

BIG = 4096, 4096
FACTS = tuple(
    Case.read(shape, before, after)
    for shape, before, after in (
        (BIG, "1x2:64x64", "2x1:64x64"),
        (BIG, "2x1:64x64", "1x2:256x256"),
        (BIG, "1x2:30x50", "2x1:64x64"),
        (BIG, "1x2:1x1", "2x1:64x64"),
        (BIG, "2x1:1x1", "2x1:64x64"),
        ((8192, 8192), "1x2:64x64", "2x1:128x128"),
        (BIG, "2x2:32x32", "1x4:128x128"),
        (BIG, "2x4:64x64", "4x2:100x100"),
        (BIG, "4x4:16x16", "2x8:48x48"),
        (BIG, "4x4:128x128", "4x4:128x128"),
        ((64, 64), "1x2:16x16", "2x1:16x16"),
        ((512, 512), "1x2:64x64", "2x1:64x64"),
        ((64, 64), "2x2:16x16", "1x4:16x16"),
    )
)
GRIDS = {
    2: ("1x2", "2x1"),
    4: ("2x2", "1x4"),
    8: ("2x4", "4x2"),
    16: ("4x4", "2x8"),
}  # before and after, by their ranks


def squares(orders_and_blocks: Iterable[tuple[int, int, int]]) -> tuple[Case, ...]:
    """Square matrices on all GRIDS: of each order, from blocks of one size to blocks of another."""
    some = list(orders_and_blocks)
    return tuple(Case.read((n, n), f"{a}:{r}x{r}", f"{b}:{s}x{s}") for a, b in GRIDS.values() for n, r, s in some)


# -- orders of local arrays

ROWS, BLOCKS_OF_COLUMNS, BLOCKS_OF_ROWS = "2x1:balanced", "1x2:64x64", "2x1:64x64"
ORDER_LAYOUTS = ((ROWS, BLOCKS_OF_COLUMNS), (BLOCKS_OF_COLUMNS, ROWS), (ROWS, BLOCKS_OF_ROWS))
ORDER_DTYPES = ("int8", "float32", "float64", "complex128")
ORDER_PAIRS = ("FF", "FC", "CF", "CC")  # of A and of B
ENDING = {"F": "", "C": "/C"}


def _in_orders(shape: tuple[int, int]) -> tuple[Case, ...]:
    """Each dtype and pair of layouts in each pair of orders."""
    return tuple(
        Case.read(shape, before + ENDING[pair[0]], after + ENDING[pair[1]], dtype)
        for dtype in ORDER_DTYPES
        for before, after in ORDER_LAYOUTS
        for pair in ORDER_PAIRS
    )


def _order_tables(results: Results) -> Sequence[tuple[str, Table]]:
    """For each dtype and pair of layouts a line, with a column for each pair of orders."""
    times = results.column(AUTO) / results.column("memcpy")
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for result, (least, median) in zip(results.cases, times, strict=True):
        case = result.case
        sides = [str(side).removesuffix(ENDING["C"]) for side in (case.before, case.after)]
        pair = case.before.order + case.after.order
        lines.setdefault((str(case.dtype), *sides), {})[pair] = f"{ratio_text(least)} / {ratio_text(median)}"
    table = new_table(("dtype", "from", "to"), ORDER_PAIRS)
    for words, figures in lines.items():
        table.add_row(*words, *(figures.get(pair, "-") for pair in ORDER_PAIRS))
    heading = "time in memcpys of the same bytes, minima / medians; orders of A and B, F for Fortran and C:"
    return [(heading, table)]


# -- random cases, by `random()` alone, whose sequence Python keeps from version to version: everybody has the same

SEED = 1969
CASES = {2: 36, 4: 8, 8: 8, 16: 8}  # for each number of ranks
DTYPES = ("float64", "float64", "float32", "complex128", "int8", "V24")
MIB = 2**20
LEAST, MOST, MOST_IN_ALL = 4 * MIB, 64 * MIB, 256 * MIB  # bytes of a rank's part of what moves, and of all of them
TINY = 6  # one case of so many is
TINY_SIDE = 200
MOST_UNSQUARE = 64
LARGEST_BLOCK = 1000
ROUNDS = 2  # in which a large matrix's blocks are dealt out at least, lest one rank have nearly all


def _draw(ranks: int, count: int) -> list[Case]:
    """So many random cases on so many ranks."""
    rng = random.Random(f"{SEED} {ranks}")
    return [_random_case(rng, ranks) for _ in range(count)]


def _random_case(rng: random.Random, ranks: int) -> Case:
    dtype = np.dtype(_choice(rng, DTYPES))
    if _between(rng, 1, TINY) == 1:
        shape, rounds = (_skewed(rng, 4, TINY_SIDE), _skewed(rng, 4, TINY_SIDE)), 0
    else:  # square, tall or wide
        elements = _skewed(rng, LEAST, min(MOST, MOST_IN_ALL // ranks)) * ranks // dtype.itemsize
        unsquare = float(_skewed(rng, 1, MOST_UNSQUARE))
        rows = round(math.sqrt(elements * _choice(rng, (1.0, unsquare, 1 / unsquare))))
        shape, rounds = (rows, elements // rows), ROUNDS
    in_c_order = _choice(rng, ((), (), (), (), (), (0,), (1,)))
    sub_arrays = _choice(rng, ((), (), (), (), (), (0,), (1,), (0, 1)))
    before, after = (
        _random_layout(rng, shape, ranks, rounds, k in sub_arrays, "C" if k in in_c_order else "F") for k in range(2)
    )
    return Case(shape, before, after, dtype)


def _random_layout(
    rng: random.Random, shape: tuple[int, int], ranks: int, rounds: int, sub_array: bool, order: str
) -> LayoutText:
    rows = _choice(rng, [n for n in range(1, ranks + 1) if ranks % n == 0])
    grid = (rows, ranks // rows)
    block = _random_block(rng), _random_block(rng)
    if rng.random() < 0.5:
        block = block[0], block[0]
    if rounds:
        most = [max(1, n // (rounds * p)) for n, p in zip(shape, grid, strict=True)]
        block = min(block[0], most[0]), min(block[1], most[1])
    source = tuple(_between(rng, 0, p - 1) for p in grid) if rng.random() < 0.25 else (0, 0)
    if not sub_array:
        return LayoutText(grid, block, source, order=order)
    offset = tuple(_between(rng, 0, n // 8) for n in shape)
    whole = tuple(o + n + _between(rng, 0, n // 8) for o, n in zip(offset, shape, strict=True))
    return LayoutText(grid, block, source, whole=whole, offset=offset, order=order)


def _random_block(rng: random.Random) -> int:
    """A block size: single elements, a power of two, a prime, or anything."""
    kind = rng.random()
    size = _skewed(rng, 1, LARGEST_BLOCK)
    if kind < 0.15:
        return 1
    if kind < 0.35:
        return 1 << (size.bit_length() - 1)
    if kind < 0.6:
        return next(n for n in range(max(2, size), 1, -1) if all(n % k for k in range(2, math.isqrt(n) + 1)))
    return size


def _choice(rng: random.Random, some: Sequence[T]) -> T:
    return some[int(rng.random() * len(some))]


def _between(rng: random.Random, least: int, most: int) -> int:
    return least + int(rng.random() * (most - least + 1))


def _skewed(rng: random.Random, least: int, most: int) -> int:
    """A number whose logarithm is evenly spread."""
    return min(most, round(least * math.pow(most / least, rng.random())))


# -- between hosts

PLAIN = ("mpi-waitall", "mpi-alltoallv")
ALL_AT_ONCE = (*PLAIN, "auto/nonblocking", "auto/alltoallv", "auto/alltoallw")
WINDOWED = ("stepwise/windowed", "optimal/windowed", "caterpillar/windowed")
LOCK_STEP = ("caterpillar/sendrecv", "ring/sendrecv", "stepwise/sendrecv", "optimal/sendrecv")
COMPARISONS = {  # what `auto` is held against: in each case the fastest of some methods, of those that ran
    "pxgemr2d": ("pxgemr2d", ("pxgemr2d",)),
    "caterpillar": ("caterpillar/sendrecv", ("caterpillar/sendrecv",)),
    "lock step": ("best in lock step", LOCK_STEP),
    "plain": ("best of plain mpi4py", PLAIN),
    "at once": ("best of all at once", ALL_AT_ONCE),
    "windowed": ("best windowed by name", WINDOWED),
}
MB = 10**6
FACTORS = {16: (2, 4, 8, 12), 8: (2, 4), 4: (2, 4)}
BLOCK, PAPERS_BLOCKS, MANY_BLOCKS = 4, 800, 131_040  # 12.8 kB and 2.1 MB of 4-byte integers on each process
DOUBLES = (4_800, 76_800, 307_200)  # for each host
# (P, Q, r, s): from blocks of r on P processes to blocks of s on Q; for fewer hosts the first example
EXAMPLES = {
    16: ((16, 16, 3, 5), (16, 16, 7, 11), (15, 15, 3, 5), (12, 8, 4, 3)),
    8: ((8, 8, 3, 5),),
    4: ((4, 4, 3, 5),),
}
ORDERS = {16: (512, 2048), 8: (384, 1440), 4: (256, 1024)}  # as many bytes for each host
# two with other shapes and blocks, disjoint halves, and a grid that grows: 12 -> 16
MATRICES = {
    16: ("4x4:64x64 2x8:48x48", "1x16:32x32 4x4:64x64", "2x4:64x64 4x2:48x48+8", "3x4:64x64 4x4:48x48"),
    8: ("2x4:64x64 4x2:48x48", "1x8:32x32 2x4:64x64", "2x2:64x64 1x4:48x48+4", "2x3:64x64 2x4:48x48"),
    4: ("2x2:64x64 1x4:48x48", "1x4:32x32 4x1:64x64", "1x2:64x64 2x1:48x48+2", "1x3:64x64 2x2:48x48"),
}
MACHINES = tuple(sorted(MATRICES))
LARGEST_GATHER = 2 * MB  # bytes that are gathered on one host: more take longer than all other methods together


def _between_hosts(quick: bool) -> Iterable[Case]:
    """For each number of hosts growing blocks, vectors of whole slices of about so many doubles, and matrices."""
    for ranks in MACHINES:
        for blocks in (40,) if quick else (PAPERS_BLOCKS, MANY_BLOCKS):
            for K in FACTORS[ranks][: 1 if quick else None]:
                before, after = (f"{ranks}x1:{block}x1" for block in (BLOCK, K * BLOCK))
                yield Case.read((ranks * blocks * BLOCK, 1), before, after, "int32")
        for P, Q, r, s in EXAMPLES[ranks][: 1 if quick else None]:
            slice_ = math.lcm(P * r, Q * s)
            for size in (12_000,) if quick else (each * ranks for each in DOUBLES):
                shape = max(1, round(size / slice_)) * slice_, 1
                yield Case.read(shape, f"{P}x1:{r}x1", f"{Q}x1:{s}x1")
        for layouts in MATRICES[ranks]:
            for n in (128,) if quick else ORDERS[ranks]:
                yield Case.read((n, n), *layouts.split())


def _not_large_gathers(method: Method) -> Method:
    """The method; but gathered on one host only what does not take longer than all other methods together."""

    def obstacle(case: Case) -> str | None:
        size = case.elements * case.dtype.itemsize
        if size <= LARGEST_GATHER:
            return method.obstacle(case)
        most = f"{LARGEST_GATHER / MB:g} MB"
        return f"all {size / MB:.3g} MB would go through one host's link; this suite has it up to {most}"

    return replace(method, obstacle=obstacle) if method.name == "gather-scatter" else method


def _tables(results: Results) -> Sequence[tuple[str, Table]]:
    """`auto` in each case beside the limit and the others, and the geometric means of these ratios."""
    auto, limits = results.column(AUTO), results.limits()
    compared = {
        short: fastest(map(results.column, names)) / auto
        for short, (_, names) in COMPARISONS.items()
        if results.times.keys() & {*names}
    }
    each = new_table(("case",), ("limit", AUTO, "median", "x limit", *compared))
    each.columns[0].no_wrap = True
    for k, result in enumerate(results.cases):
        figures = (column[k, 0] for column in (auto / limits, *compared.values()))
        times = (limits[k, 0], *auto[k])
        each.add_row(f"{k + 1}: {_short_label(result.case)}", *map(time_text, times), *map(ratio_text, figures))
    rows = {f"{COMPARISONS[short][0]} / {AUTO}": column for short, column in compared.items()}
    rows[f"{AUTO} / the links' limit"] = auto / limits
    rows[f"{AUTO} / the links' limit, 1 MB a host and more"] = auto / results.limits(MB)
    together = new_table(("ratio",), ("cases", "geometric mean", "the least", "the largest"))
    for words, column in rows.items():
        least, largest = (extreme(column, choose) for choose in (np.nanargmin, np.nanargmax))
        together.add_row(words, str(count(column)), means(column), least, largest)
    heading = (
        "each case: the links' limit, auto's minimum and median; the others' minimum times as multiples of auto's:"
    )
    return [(heading, each), ("all cases: ratios of minimum times / of medians:", together)]


def _short_label(case: Case) -> str:
    """Layouts and size, vectors by processes and block size alone."""
    size = case.elements * case.dtype.itemsize
    amount = f"{size / MB:.3g} MB" if size >= MB / 10 else f"{size / 1000:.3g} kB"
    layouts = f"{case.before} -> {case.after}"
    return f"{layouts.replace('x1', '') if case.shape[-1] == 1 else layouts}, {amount}"


# -- all suites

SUITES: dict[str, Suite] = {
    "demo": Suite((FACTS[0], FACTS[2], FACTS[3])),
    "facts": Suite(FACTS),
    "broad": Suite(
        cases=tuple(case for ranks, count in CASES.items() for case in _draw(ranks, count)),
        quick=tuple(case for ranks in CASES for case in _draw(ranks, 40) if case.elements < TINY_SIDE**2),
        methods=named_methods("auto", "pxgemr2d", "memcpy"),
    ),
    "orders": Suite(
        cases=_in_orders(BIG), quick=_in_orders((96, 80)), methods=named_methods(AUTO, "memcpy"), tables=_order_tables
    ),
    "sizes": Suite(
        cases=squares((2**k, 16, 16) for k in range(6, 14)),
        quick=squares((n, 16, 16) for n in (64, 128, 256)),
        methods=named_methods("auto", "caterpillar/sendrecv", "pxgemr2d", "gather-scatter", "memcpy"),
    ),
    "once": Suite(
        cases=squares(((64, 16, 16), (512, 64, 64), (4096, 64, 64), (4096, 1, 1))),
        quick=squares(((64, 16, 16), (200, 16, 16))),
        methods=named_methods(*DEFAULT_METHODS),
        plans="made anew in each call; contexts made before timing",
        variant=lambda method: method.anew(),
    ),
    "hosts": Suite(
        cases=tuple(_between_hosts(quick=False)),
        quick=tuple(_between_hosts(quick=True)),
        methods=named_methods(AUTO, *WINDOWED, *LOCK_STEP, *ALL_AT_ONCE, "pxgemr2d", "gather-scatter"),
        calls=1,
        tables=_tables,
        variant=_not_large_gathers,
        machines=MACHINES,
        between_hosts=True,
    ),
}
