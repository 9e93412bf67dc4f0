"""Suites in which one thing varies: the size, the block size, the number of ranks, the dtype; and plans used once."""

from __future__ import annotations

import math

import numpy as np

from .case import Case
from .layout import Layout
from .methods import DEFAULT_METHODS, named_methods
from .results import Results
from .suite import Suite

__all__ = ["BLOCKS", "DTYPES", "ONCE", "RANKS", "SIZES"]

GRIDS = {2: ("1x2", "2x1"), 4: ("2x2", "1x4"), 8: ("2x4", "4x2"), 16: ("4x4", "2x8")}
METHODS = named_methods(*DEFAULT_METHODS)
ORDER = 4096  # of the matrix where something else varies
ORDERS_AND_BLOCKS = ((64, 16), (512, 64), (ORDER, 64), (ORDER, 1))  # of matrices whose plans are used once
BYTES = 64 * 2**20  # of the array where the dtype varies


def _square(n: int, before: str, after: str) -> Case:
    return Case((n, n), Layout.parse(before), Layout.parse(after))


def _sizes(sizes: list[int]) -> tuple[Case, ...]:
    return tuple(_square(n, f"{a}:16x16", f"{b}:16x16") for a, b in GRIDS.values() for n in sizes)


def _blocks(order: int, blocks: list[int]) -> tuple[Case, ...]:
    return tuple(_square(order, f"{a}:{n}x{n}", f"{b}:64x64") for a, b in GRIDS.values() for n in blocks)


def _ranks(ranks: int, order: int) -> tuple[Case, ...]:
    """From the squarest grid to a column of processes, and to its transpose with other blocks."""
    rows = max(n for n in range(1, math.isqrt(ranks) + 1) if ranks % n == 0)
    before = f"{rows}x{ranks // rows}:64x64"
    after = f"{ranks}x1:64x64", f"{ranks // rows}x{rows}:100x100"
    return tuple(_square(order, before, one) for one in after)


def _dtypes(size: int) -> tuple[Case, ...]:
    """Of so many bytes each, whatever the dtype."""
    names = ("int8", "int16", "float32", "float64", "complex64", "complex128", "longdouble", "V3", "V24")
    rows = math.isqrt(size) // 2
    return tuple(
        Case(
            (rows, size // rows // np.dtype(name).itemsize),
            Layout.parse(f"{a}:30x50"),
            Layout.parse(f"{b}:64x64"),
            np.dtype(name),
        )
        for a, b in GRIDS.values()
        for name in names
    )


def _plot_sizes(results: Results, path: str) -> None:
    from .lines import Axis, plot_lines

    axis = Axis(
        "rows and columns of the matrix",
        lambda case: case.shape[0],
        lambda case: f"{case.dtype}, {case.before} -> {case.after}",
    )
    plot_lines(results, path, axis)


def _plot_blocks(results: Results, path: str) -> None:
    from .lines import Axis, plot_lines

    axis = Axis(
        "rows and columns of a block before",
        lambda case: case.before.block[0],
        lambda case: f"{case.array}, from {' x '.join(map(str, case.before.grid))} processes to {case.after}",
    )
    plot_lines(results, path, axis)


POWERS = [2**k for k in range(6, 14)]
SIZES = Suite(
    cases=_sizes(POWERS),
    quick=_sizes([64, 128, 256]),
    methods=named_methods("auto", "caterpillar/sendrecv", "pxgemr2d", "gather-scatter", "memcpy"),
    plot=_plot_sizes,
)
BLOCKS = Suite(
    cases=_blocks(ORDER, [2**k for k in range(11)]),
    quick=_blocks(200, [1, 4, 64]),
    methods=METHODS,
    plot=_plot_blocks,
)
RANKS = Suite(
    cases=tuple(case for ranks in range(1, 17) for order in (512, ORDER) for case in _ranks(ranks, order)),
    quick=tuple(case for ranks in range(1, 17) for case in _ranks(ranks, 300)),
    methods=METHODS,
)
DTYPES = Suite(cases=_dtypes(BYTES), quick=_dtypes(2**16), methods=METHODS)
ONCE = Suite(
    cases=tuple(_square(n, f"{a}:{b}x{b}", f"{c}:{b}x{b}") for a, c in GRIDS.values() for n, b in ORDERS_AND_BLOCKS),
    quick=tuple(_square(n, f"{a}:16x16", f"{b}:16x16") for a, b in GRIDS.values() for n in (64, 200)),
    methods=METHODS,
    plans="made anew in each call; contexts made before timing",
    variant=lambda method: method.anew(),
)
