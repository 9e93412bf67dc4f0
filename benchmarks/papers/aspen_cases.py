"""The cases of the ASPEN paper (section 5): a 10,000 x 10,000 array between square grids, and the time of each algorithm.

A time is that of the whole of Algorithm 1, for every process of the grid before: both dimensions, in memory made beforehand
where the loop is compiled. Nothing is communicated.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pyscalapack_redist.intersections import ALGORITHMS, FORMS, find
from pyscalapack_redist.layout.axis import BlockCyclic

from .aspen_loops import complete

__all__ = ["BLOCKS", "GRIDS", "METHODS", "QUICK_GRIDS", "AspenCase", "all_cases", "correct", "loops", "seconds_of"]

SIZE = 10_000
BLOCKS = ((1024, 1024), (256, 256), (30, 50), (654, 321))
GRIDS = (2, 4, 7, 8, 16, 31, 32)
QUICK_GRIDS = (2, 32)
CALLS = {"compiled": 20, "python": 1}  # in a row, for one time
METHODS = tuple((name, form) for form in FORMS for name in ALGORITHMS)


@dataclass(frozen=True)
class AspenCase:
    """One redistribution on paper: processes along each dimension and block size, before and after."""

    before: int
    after: int
    block_before: tuple[int, int]
    block_after: tuple[int, int]
    size: int = SIZE

    @property
    def axes(self) -> tuple[tuple[BlockCyclic, BlockCyclic], ...]:
        """Before and after, for each dimension."""
        return tuple(
            (BlockCyclic(self.size, r, self.before), BlockCyclic(self.size, s, self.after))
            for r, s in zip(self.block_before, self.block_after, strict=True)
        )

    @property
    def blocks(self) -> str:
        """The two block sizes, as 30x50 -> 654x321."""
        return " -> ".join("x".join(map(str, block)) for block in (self.block_before, self.block_after))


def all_cases(grids: Sequence[int], blocks: Sequence[tuple[int, int]] = BLOCKS) -> list[AspenCase]:
    """All pairs of grids, with all pairs of block sizes. Not collective."""
    return [AspenCase(P, Q, r, s) for P in grids for Q in grids for r in blocks for s in blocks]


def loops(case: AspenCase, name: str, form: str) -> Callable[[], tuple[int, int]]:
    """What is timed: runs and comparisons of all processes, both dimensions. Not collective."""
    ready = [complete(name, a, b, form) for a, b in case.axes]

    def run() -> tuple[int, int]:
        found = [find() for find in ready]
        return sum(runs for runs, _ in found), sum(comparisons for _, comparisons in found)

    return run


def seconds_of(case: AspenCase, repeat: int) -> dict[tuple[str, str], list[float]]:
    """Times of each algorithm in each form, interleaved round by round. Not collective."""
    ready = {method: loops(case, *method) for method in METHODS}
    seconds: dict[tuple[str, str], list[float]] = {method: [] for method in METHODS}
    was = gc.isenabled()
    gc.disable()
    try:
        for run in ready.values():
            run()
        for _ in range(repeat):
            for method, run in ready.items():
                calls = CALLS[method[1]]
                start = time.perf_counter()
                for _ in range(calls):
                    run()
                seconds[method].append((time.perf_counter() - start) / calls)
    finally:
        if was:
            gc.enable()
    return seconds


def correct(case: AspenCase, name: str, form: str) -> bool:
    """Whether the first, a middle and the last process's runs are those of index arithmetic. Not collective."""
    return all(_correct(a, b, name, form) for a, b in case.axes)


@functools.cache
def _correct(a: BlockCyclic, b: BlockCyclic, name: str, form: str) -> bool:
    return all(
        np.array_equal(_elements(find(name, a, b, p, form=form).expand()), _expected(a, b, p))
        for p in {0, a.processes // 2, a.processes - 1}
    )


def _elements(rows: np.ndarray) -> np.ndarray:
    """Each element of the runs: process of b, place in a, place in b."""
    each = np.repeat(rows[:, :3], rows[:, 3], axis=0)
    within = np.arange(len(each)) - np.repeat(np.cumsum(rows[:, 3]) - rows[:, 3], rows[:, 3])
    each[:, 1:] += within[:, None]
    return each


@functools.cache
def _expected(a: BlockCyclic, b: BlockCyclic, p: int) -> np.ndarray:
    """The same without the package's arithmetic: blocks are dealt in turn from process 0 and element 0."""
    i = np.arange(a.n)
    mine = i[i // a.block % a.processes == p]
    place = mine // (b.block * b.processes) * b.block + mine % b.block
    return np.stack([mine // b.block % b.processes, np.arange(len(mine)), place], axis=1)
