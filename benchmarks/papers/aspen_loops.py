"""An intersection algorithm for every process of an axis in a row: what the suite `aspen` times.

A rank that makes a plan needs its own runs only, by `intersections.find`. Done for all ranks, a compiled loop is long enough
for the call from Python not to count.
"""

from __future__ import annotations

from collections.abc import Callable

from pyscalapack_redist._kernels.intersections import Complete
from pyscalapack_redist.intersections import ALGORITHMS
from pyscalapack_redist.intersections.algorithms import numbers
from pyscalapack_redist.layout.axis import BlockCyclic

__all__ = ["complete"]


def complete(algorithm: str, a: BlockCyclic, b: BlockCyclic, form: str) -> Callable[[], tuple[int, int]]:
    """A call that finds the runs of all processes of `a`, ready to be timed. Not collective.

    It returns the number of runs and of comparisons of all processes together. The runs themselves go into lists or, if
    compiled, into memory that is made here, in the order in which they are found.
    """
    chosen = ALGORITHMS[algorithm]
    window = chosen.window(a, b)
    if form == "compiled":
        return Complete(algorithm, window, numbers(a), numbers(b))

    def in_python() -> tuple[int, int]:
        runs = comparisons = 0
        for p in range(a.processes):
            found, compared = chosen.loop(a, b, p, window)
            runs += len(found)
            comparisons += compared
        return runs, comparisons

    return in_python
