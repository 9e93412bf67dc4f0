"""Named sets of cases. A suite may have cases for several numbers of ranks; one run takes those for its own."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace

from .batching import BATCH
from .broad import BROAD
from .case import Case
from .hosts import HOSTS
from .hosts_figure import plot_hosts
from .layout import Layout
from .suite import Suite
from .sweeps import BLOCKS, DTYPES, ONCE, RANKS, SIZES

__all__ = ["STUDIES", "SUITES"]


def _case(shape: tuple[int, int], before: str, after: str) -> Case:
    return Case(shape, Layout.parse(before), Layout.parse(after))


BIG = (4096, 4096)

DEMO = (
    _case(BIG, "1x2:64x64", "2x1:64x64"),
    _case(BIG, "1x2:30x50", "2x1:64x64"),
    _case(BIG, "1x2:1x1", "2x1:64x64"),
)

FACTS = (
    _case(BIG, "1x2:64x64", "2x1:64x64"),
    _case(BIG, "2x1:64x64", "1x2:256x256"),
    _case(BIG, "1x2:30x50", "2x1:64x64"),
    _case(BIG, "1x2:1x1", "2x1:64x64"),
    _case(BIG, "2x1:1x1", "2x1:64x64"),
    _case((8192, 8192), "1x2:64x64", "2x1:128x128"),
    _case(BIG, "2x2:32x32", "1x4:128x128"),
    _case(BIG, "2x4:64x64", "4x2:100x100"),
    _case(BIG, "4x4:16x16", "2x8:48x48"),
    _case(BIG, "4x4:128x128", "4x4:128x128"),
    _case((64, 64), "1x2:16x16", "2x1:16x16"),
    _case((512, 512), "1x2:64x64", "2x1:64x64"),
    _case((64, 64), "2x2:16x16", "1x4:16x16"),
)

SUITES: dict[str, Suite] = {
    "demo": Suite(DEMO),
    "facts": Suite(FACTS),
    "broad": BROAD,
    "sizes": SIZES,
    "blocks": BLOCKS,
    "ranks": RANKS,
    "dtypes": DTYPES,
    "once": ONCE,
    "batch": BATCH,
    "hosts": replace(HOSTS, plot=plot_hosts),
}

STUDIES: dict[str, Callable[[Namespace], int]] = {}  # suites that move nothing and need no MPI
