"""Messages as MPI derived datatypes: one dimension inside the other, vectors of vectors (Walker & Otto, Figs 2 and 3).

A type is as large as the runs of one period, not as its elements. Sender and receiver list elements in the same order.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._kernels.boxes import Box
from .._kernels.runs import Runs
from ..comm.mpi import MPI
from .message import LARGEST_COUNT

__all__ = ["box_type"]


def box_type(box: Box, target: bool, strides: Sequence[int], item: int, order: Sequence[int]) -> MPI.Datatype:
    """The elements of a box in its source or in its target array, committed; the caller frees it. Not collective.

    Parameters
    ----------
    target : bool
        Which side of the box.
    strides : sequence of int
        Of that side's array, in bytes; displacements are from its element (0, 0, ...).
    item : int
        Bytes of an element.
    order : sequence of int
        Dimensions from the fastest running to the slowest.
    """
    steps = _Steps()
    try:
        made = steps.element(item)
        for k in order:
            made = steps.dimension(made, box.runs[k], target, strides[k])
        return steps.take(made).Commit()
    finally:
        steps.free()


class _Steps:
    """The types from an element to a box, each made of those before; they may be freed once the last is made."""

    def __init__(self) -> None:
        self._made: list[MPI.Datatype] = []

    def _keep(self, datatype: MPI.Datatype) -> MPI.Datatype:
        self._made.append(datatype)
        return datatype

    def take(self, datatype: MPI.Datatype) -> MPI.Datatype:
        """Leave this one to the caller."""
        self._made.remove(datatype)
        return datatype

    def free(self) -> None:
        """Free all others."""
        for datatype in self._made:
            datatype.Free()

    def element(self, item: int) -> MPI.Datatype:
        return self._keep(MPI.BYTE.Create_contiguous(item))

    def dimension(self, oldtype: MPI.Datatype, runs: Runs, target: bool, stride: int) -> MPI.Datatype:
        """`oldtype` at every position of `runs`: whole periods, and what is left of the last."""
        table = runs.side(target)
        period = (runs.period_y if target else runs.period_x) * stride
        whole, rest = divmod(runs.total, runs.per_period)
        parts = []
        if whole:
            parts.append((0, self.repeated(self.period(oldtype, table, stride), whole, period)))
        if rest:
            before = np.cumsum(table[:, 2]) - table[:, 2]
            some = table[before < rest]
            some[-1, 2] = rest - before[len(some) - 1]
            parts.append((whole * period, self.period(oldtype, some, stride)))
        return self.placed(parts)

    def period(self, oldtype: MPI.Datatype, table: NDArray[np.int64], stride: int) -> MPI.Datatype:
        """Runs given as rows start, step, count."""
        kinds: dict[tuple[int, int], MPI.Datatype] = {}
        parts = []
        for start, step, count in table.tolist():
            if (step, count) not in kinds:
                kinds[step, count] = self.repeated(oldtype, count, step * stride)
            parts.append((start * stride, kinds[step, count]))
        return self.placed(parts)

    def repeated(self, oldtype: MPI.Datatype, count: int, stride: int) -> MPI.Datatype:
        """A vector: `oldtype` at equal distances in bytes."""
        if count == 1:
            return oldtype
        if stride == -1:  # single bytes, which Open MPI 4.1 would read forwards
            pair = self._keep(oldtype.Create_hindexed_block(1, [0, -1]))
            pairs = [(0, self.repeated(pair, count // 2, -2))]
            return self.placed([*pairs, (1 - count, oldtype)] if count % 2 else pairs)
        if count <= LARGEST_COUNT:
            if stride == oldtype.extent:  # said so: MPICH copies a vector element by element, even one without gaps
                return self._keep(oldtype.Create_contiguous(count))
            return self._keep(oldtype.Create_hvector(count, 1, stride))
        many, rest = divmod(count, LARGEST_COUNT)
        part = self.repeated(oldtype, LARGEST_COUNT, stride)
        parts = [(0, self.repeated(part, many, LARGEST_COUNT * stride))]
        if rest:
            parts.append((many * LARGEST_COUNT * stride, self.repeated(oldtype, rest, stride)))
        return self.placed(parts)

    def placed(self, parts: Sequence[tuple[int, MPI.Datatype]]) -> MPI.Datatype:
        """Types at displacements in bytes: a vector where they are alike at equal distances."""
        first, datatype = parts[0]
        if len(parts) == 1:
            return datatype if first == 0 else self._keep(datatype.Create_hindexed_block(1, [first]))
        places = [place for place, _ in parts]
        if any(other is not datatype for _, other in parts):
            return self._keep(MPI.Datatype.Create_struct([1] * len(parts), places, [other for _, other in parts]))
        step = places[1] - first
        if all(b - a == step for a, b in itertools.pairwise(places)):
            return self.placed([(first, self.repeated(datatype, len(parts), step))])
        return self._keep(datatype.Create_hindexed_block(1, places))
