"""Named sets of cases. A suite may have cases for several numbers of ranks; one run takes those for its own.

In `sizes` only the size varies; in `once`, plans are used once. Those of benchmarks/ are run by benchmarks/run_suites.py.
"""

from __future__ import annotations

import functools
from argparse import Namespace
from collections.abc import Callable

from ..cases import Case
from .broad import BROAD
from .hosts import HOSTS
from .methods import DEFAULT_METHODS, named_methods
from .plot import Axis, plot
from .suite import Suite, squares

__all__ = ["STUDIES", "SUITES"]

BIG = 4096, 4096

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

SIZE = Axis(
    "rows and columns of the matrix",
    lambda case: case.shape[0],
    lambda case: f"{case.dtype}, {case.before} -> {case.after}",
)
SUITES: dict[str, Suite] = {
    "demo": Suite((FACTS[0], FACTS[2], FACTS[3])),
    "facts": Suite(FACTS),
    "broad": BROAD,
    "sizes": Suite(
        cases=squares((2**k, 16, 16) for k in range(6, 14)),
        quick=squares((n, 16, 16) for n in (64, 128, 256)),
        methods=named_methods("auto", "caterpillar/sendrecv", "pxgemr2d", "gather-scatter", "memcpy"),
        plot=functools.partial(plot, axis=SIZE),
    ),
    "once": Suite(
        cases=squares(((64, 16, 16), (512, 64, 64), (4096, 64, 64), (4096, 1, 1))),
        quick=squares(((64, 16, 16), (200, 16, 16))),
        methods=named_methods(*DEFAULT_METHODS),
        plans="made anew in each call; contexts made before timing",
        variant=lambda method: method.anew(),
    ),
    "hosts": HOSTS,
}

STUDIES: dict[str, Callable[[Namespace], int]] = {}  # suites that move nothing and need no MPI
