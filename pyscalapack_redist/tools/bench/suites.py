"""Named sets of cases. A suite may have cases for several numbers of ranks; one run takes those for its own.

In most of them one thing varies: the size, the block size, the number of ranks, the dtype; in `once`, plans are used once.
"""

from __future__ import annotations

import functools
import math
from argparse import Namespace
from collections.abc import Callable

import numpy as np

from ..cases import Case
from .batching import BATCH
from .broad import BROAD
from .hosts import HOSTS
from .methods import DEFAULT_METHODS, named_methods
from .plot import Axis, plot
from .suite import GRIDS, Suite, squares

__all__ = ["STUDIES", "SUITES"]

METHODS = named_methods(*DEFAULT_METHODS)
BIG = 4096, 4096
ORDER = 4096  # of the matrix where something else varies
DTYPES = ("int8", "int16", "float32", "float64", "complex64", "complex128", "longdouble", "V3", "V24")

FACTS = (
    Case.read(BIG, "1x2:64x64", "2x1:64x64"),
    Case.read(BIG, "2x1:64x64", "1x2:256x256"),
    Case.read(BIG, "1x2:30x50", "2x1:64x64"),
    Case.read(BIG, "1x2:1x1", "2x1:64x64"),
    Case.read(BIG, "2x1:1x1", "2x1:64x64"),
    Case.read((8192, 8192), "1x2:64x64", "2x1:128x128"),
    Case.read(BIG, "2x2:32x32", "1x4:128x128"),
    Case.read(BIG, "2x4:64x64", "4x2:100x100"),
    Case.read(BIG, "4x4:16x16", "2x8:48x48"),
    Case.read(BIG, "4x4:128x128", "4x4:128x128"),
    Case.read((64, 64), "1x2:16x16", "2x1:16x16"),
    Case.read((512, 512), "1x2:64x64", "2x1:64x64"),
    Case.read((64, 64), "2x2:16x16", "1x4:16x16"),
)

DEMO = FACTS[0], FACTS[2], FACTS[3]

SIZE = Axis(
    "rows and columns of the matrix",
    lambda case: case.shape[0],
    lambda case: f"{case.dtype}, {case.before} -> {case.after}",
)
BLOCK = Axis(
    "rows and columns of a block before",
    lambda case: case.before.block[0],
    lambda case: f"{case.array}, from {' x '.join(map(str, case.before.grid))} processes to {case.after}",
)


def _ranks(ranks: int, order: int) -> tuple[Case, ...]:
    """From the squarest grid to a column of processes, and to its transpose with other blocks."""
    rows = max(n for n in range(1, math.isqrt(ranks) + 1) if ranks % n == 0)
    after = f"{ranks}x1:64x64", f"{ranks // rows}x{rows}:100x100"
    return tuple(Case.read((order, order), f"{rows}x{ranks // rows}:64x64", layout) for layout in after)


def _dtypes(size: int) -> tuple[Case, ...]:
    """Arrays of about so many bytes, whatever the dtype."""
    rows = math.isqrt(size) // 2
    columns = {name: size // rows // np.dtype(name).itemsize for name in DTYPES}
    return tuple(
        Case.read((rows, n), f"{a}:30x50", f"{b}:64x64", name) for a, b in GRIDS.values() for name, n in columns.items()
    )


SUITES: dict[str, Suite] = {
    "demo": Suite(DEMO),
    "facts": Suite(FACTS),
    "broad": BROAD,
    "sizes": Suite(
        cases=squares((2**k, 16, 16) for k in range(6, 14)),
        quick=squares((n, 16, 16) for n in (64, 128, 256)),
        methods=named_methods("auto", "caterpillar/sendrecv", "pxgemr2d", "gather-scatter", "memcpy"),
        plot=functools.partial(plot, axis=SIZE),
    ),
    "blocks": Suite(
        cases=squares((ORDER, 2**k, 64) for k in range(11)),
        quick=squares((200, n, 64) for n in (1, 4, 64)),
        methods=METHODS,
        plot=functools.partial(plot, axis=BLOCK),
    ),
    "ranks": Suite(
        cases=tuple(case for ranks in range(1, 17) for order in (512, ORDER) for case in _ranks(ranks, order)),
        quick=tuple(case for ranks in range(1, 17) for case in _ranks(ranks, 300)),
        methods=METHODS,
    ),
    "dtypes": Suite(cases=_dtypes(64 * 2**20), quick=_dtypes(2**16), methods=METHODS),
    "once": Suite(
        cases=squares(((64, 16, 16), (512, 64, 64), (ORDER, 64, 64), (ORDER, 1, 1))),
        quick=squares(((64, 16, 16), (200, 16, 16))),
        methods=METHODS,
        plans="made anew in each call; contexts made before timing",
        variant=lambda method: method.anew(),
    ),
    "batch": BATCH,
    "hosts": HOSTS,
}

STUDIES: dict[str, Callable[[Namespace], int]] = {}  # suites that move nothing and need no MPI
