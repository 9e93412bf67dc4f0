"""What an intersection algorithm is: its loop in Python and the same loop compiled, with one answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._kernels.intersections import runs
from ..layout.blockcyclic import LARGEST, BlockCyclic
from .intersections import Intersections, period

__all__ = ["FORMS", "Algorithm", "Loop", "Run", "numbers"]

Run = tuple[int, int, int, int]
Loop = Callable[[BlockCyclic, BlockCyclic, int, int], tuple[list[Run], int]]

FORMS = ("compiled", "python")
"""The forms in which each algorithm exists, by name."""
COMPILED, PYTHON = FORMS


@dataclass(frozen=True)
class Algorithm:
    """One way to find the runs.

    Attributes
    ----------
    name : str
        Also that of the compiled loop.
    loop : callable
        From two axes, a process of the first and the elements to look at: the runs (remote process, local start in a
        and in b, length) in the order in which they are found, and the number of comparisons.
    periodic : bool
        Whether it looks at one period only, not at the whole array.
    ascending : bool
        Whether it finds the runs in ascending order of the global index.
    """

    name: str
    loop: Loop
    periodic: bool = True
    ascending: bool = False

    def window(self, a: BlockCyclic, b: BlockCyclic) -> int:
        """Elements that are looked at. Not collective."""
        return min(a.n, period(a, b)) if self.periodic else a.n

    def find(self, a: BlockCyclic, b: BlockCyclic, p: int, form: str = COMPILED) -> Intersections:
        """The runs of process `p` of `a`, by the loop in the given form. Not collective."""
        size, n = a.local_size(p), a.n
        length = period(a, b) if self.periodic else n or 1
        window = length if length < n else n
        if form == COMPILED:
            columns, comparisons = runs(self.name, window, numbers(a), numbers(b), p)
        else:
            found, comparisons = self.loop(a, b, p, window)
            columns = np.array(found, dtype=np.int64).reshape(-1, 4).T.copy()
        if not self.ascending:
            columns = columns.take(np.argsort(columns[1]), axis=1)
        remote, start_a, start_b, lengths = columns
        step = length if length < LARGEST else LARGEST  # a longer one is longer than the array, and not repeated
        return Intersections(
            remote,
            start_a,
            start_b,
            lengths,
            step // a.processes,
            step // b.processes,
            -(-n // length),
            size,
            comparisons,
        )


def numbers(axis: BlockCyclic) -> tuple[int, int, int, int]:
    """What the compiled loops must know of an axis. Not collective."""
    return axis.block, axis.processes, axis.source, axis.offset
