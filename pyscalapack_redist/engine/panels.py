"""Panels of A: of each process the same fraction of its local array along one dimension.

The elements that two processes share in a panel follow one another, in A as in B, since local indices ascend in both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.by_process import SharedRuns
from .._kernels.runs import Runs
from ..layout.axis import Axis

PANELS = 16  # of a plan: where B fills as A empties, both need a sixteenth more than the larger one

class Panel(NamedTuple):
    """A part of A: of each process the local indices of one dimension from a fraction of them on, up to the next panel.

    Attributes
    ----------
    dimension : int
        That of op(A).
    number, panels : int
        Of this panel, and of all.
    """

    dimension: int
    number: int
    panels: int

    def bounds(self, axis: Axis, p: int) -> tuple[int, int]:
        """The first local index and the one after the last of process `p` along A's axis."""
        start, size = axis.local_start(p), axis.local_size(p)
        return start + self.number * size // self.panels, start + (self.number + 1) * size // self.panels

    def positions(self, shared: SharedRuns, axis: Axis, p: int, is_a: bool) -> tuple[int, int]:
        """Where the elements of the panel begin and end among those that two processes share along the dimension.

        Parameters
        ----------
        shared : SharedRuns
            What they share.
        axis, p : Axis, int
            Axis of A, and A's process.
        is_a : bool
            Whether `shared` has A's process as its a.
        """
        starts, period = (shared.start_a, shared.period_a) if is_a else (shared.start_b, shared.period_b)
        first, last = self.bounds(axis, p)
        runs = starts, shared.length, period, shared.total
        return _before(first, *runs), _before(last, *runs)


def _before(limit: int, starts: NDArray[np.int64], length: NDArray[np.int64], period: int, total: int) -> int:
    """How many elements of periodic runs lie before a local index."""
    ahead, elements = limit - int(starts[0]), int(length.sum())
    if ahead <= 0:
        return 0
    repetitions = min(ahead // period, total // elements) if period > 0 and total > elements else 0
    rest = ahead - repetitions * period
    return min(total, repetitions * elements + int(np.clip(rest - (starts - starts[0]), 0, length).sum()))


def cut(runs: Runs, first: int, last: int, kind: str) -> Runs:
    """The runs of some elements; a dense buffer begins with the first of them. `kind` as for `runs_of_all`."""
    pairs = runs.expand()[first:last]
    x, y = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    if kind == "packed":
        y -= first
    elif kind == "unpacked":
        x -= first
    return Runs(x, y, np.ones(last - first, np.int64), 0, 0, last - first)
