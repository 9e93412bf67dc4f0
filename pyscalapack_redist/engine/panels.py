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
from ..layout.descriptor import Descriptor

PANELS = 16  # of a plan: where B fills as A empties, both need a sixteenth more than the larger one
PAGE = 4096  # bytes, by which all ranks reckon alike, whatever their pages are


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


def excess(a: Descriptor, b: Descriptor, dimension: int, is_cut: bool, item_bytes: int) -> float:
    """What panels along a dimension need beside A, as a share of a local array, where the orders of op(A) and B cross.

    Processes of B may fill sooner than those of A empty. Of each line, of A if that is cut (`is_cut`), otherwise of B, pages go
    in part: one of A's, and one of B's at each place where the first panel is written.
    """
    before, after = a.distributions[dimension], b.distributions[dimension]
    panels = np.zeros(a.shape[dimension], np.int64)
    for p in range(before.processes):
        size = before.local_size(p)
        panels[before.global_indices(p)] = np.arange(size) * PANELS // max(1, size)
    filled, places = 0.0, 1
    for p in range(after.processes):
        written = panels[after.global_indices(p)]
        shares = np.cumsum(np.bincount(written, minlength=PANELS)) / max(1, written.size)
        filled = max(filled, float((shares - np.arange(1, PANELS + 1) / PANELS).max()))
        places = max(places, int(np.count_nonzero(np.diff(written == 0, prepend=False, append=False))) // 2)
    axis = before if is_cut else after
    line = max(axis.local_size(p) for p in range(axis.processes)) * item_bytes
    return filled + min(1.0, (1 if is_cut else places) * PAGE / max(1, line))


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
    periods = np.arange(first // max(1, runs.per_period), -(-last // max(1, runs.per_period)))[:, None]
    x, y = (runs.side(target) for target in (False, True))
    before = periods * runs.per_period + np.cumsum(x[:, 2]) - x[:, 2]  # elements ahead of each run
    skipped, end = (np.clip(limit - before, 0, x[:, 2]) for limit in (first, last))
    kept = end > skipped
    number = (end - skipped)[kept]
    starts, steps = [], []
    for side, period in ((x, runs.period_x), (y, runs.period_y)):
        starts.append((side[:, 0] + periods * period + skipped * side[:, 1])[kept])
        steps.append(np.broadcast_to(side[:, 1], kept.shape)[kept])
    pieces = np.where((steps[0] == 1) & (steps[1] == 1), 1, number)  # of a run with other steps single elements
    place = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    at_x, at_y = (np.repeat(start, pieces) + np.repeat(step, pieces) * place for start, step in zip(starts, steps, strict=True))
    if kind == "packed":
        at_y -= first
    elif kind == "unpacked":
        at_x -= first
    return Runs(at_x, at_y, np.repeat(number // pieces, pieces), 0, 0, last - first)
