"""The answer of every intersection algorithm: runs of first period, and how often the period repeats."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..layout.blockcyclic import BlockCyclic

__all__ = ["Intersections", "period"]


def period(a: BlockCyclic, b: BlockCyclic) -> int:
    """Elements after which both axes repeat: lcm(a.stride, b.stride). Not collective."""
    return math.lcm(a.stride, b.stride)


@dataclass(frozen=True)
class Intersections:
    """Runs that first process of axis a shares with the processes of axis b, ascending in the global index.

    Attributes
    ----------
    remote, start_a, start_b, length : ndarray of int64
        For each run of first period: the process of b, where the run starts in a's and in b's local array, elements.
    period_a, period_b : int
        Elements by which the runs move in a's and in b's local array from first period to the next.
    repeats : int
        Number of periods, the last of which may be cut short by the end of the array.
    size : int
        Elements that the process holds in all.
    comparisons : int
        Operations as the ASPEN paper counts them (Eqs 1, 2 and 4), for this process and this dimension: blocks compared
        by `classical` and `falls` (there at least first for each own block and other process), steps of the walks of
        `scan`, runs cut by `aspen`.
    """

    remote: NDArray[np.int64]
    start_a: NDArray[np.int64]
    start_b: NDArray[np.int64]
    length: NDArray[np.int64]
    period_a: int
    period_b: int
    repeats: int
    size: int
    comparisons: int

    def expand(self) -> NDArray[np.int64]:
        """Every run of the whole array as rows: remote, start in a, start in b, length. Not collective."""
        first = np.stack([self.remote, self.start_a, self.start_b, self.length], axis=1)
        step = np.array([0, self.period_a, self.period_b, 0], dtype=np.int64)
        runs = (first[None] + step * np.arange(self.repeats, dtype=np.int64)[:, None, None]).reshape(-1, 4)
        before = np.concatenate([[0], np.cumsum(runs[:, 3])[:-1]]) if len(runs) else np.zeros(0, np.int64)
        runs[:, 3] = np.minimum(runs[:, 3], self.size - before)
        return runs[runs[:, 3] > 0]
