"""How much memory a process has, and whether it grows by what is done again and again."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from statistics import median_low

WINDOWS = 5


def resident() -> int:
    """Bytes. Counted in the page tables: the kernel's running count of them, in statm, lags behind."""
    gc.collect()
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("Rss:")).split()[1])
    except OSError:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(work: Callable[[int], object], times: int) -> int:
    """Bytes that memory grows by while the work is done that many times.

    It is done in several parts, and the median of their growths counts: what leaks, leaks in each. Pools of MPI that
    fill once, and parts of files that are read late, are no leak.
    """
    grown = []
    for _ in range(WINDOWS):
        before = resident()
        work(-(-times // WINDOWS))
        grown.append(resident() - before)
    return WINDOWS * max(0, median_low(grown))
