"""Gather the array on one rank, then scatter it from there: what programs do that have nothing better.

Plain mpi4py and NumPy: each rank sends its local array to rank 0, which puts it into the whole array by its global
indices; then back the same way. Nothing of this package's engine takes part.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..stage import Part, Stage, bytes_of
from .method import Prepared

__all__ = ["GatherScatter"]

ROOT = 0


class GatherScatter(Prepared):
    """The indices, and rank 0's memory for the whole array, are made once and reused.

    All arrays are seen transposed: local arrays in Fortran order are sent and received as they lie in memory.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        from mpi4py import MPI

        case, comm = stage.case, stage.comm
        self._element = MPI.BYTE.Create_contiguous(case.dtype.itemsize).Commit()
        self._mine = None if stage.part_of_a is None else stage.part_of_a.T
        self._wanted = None if stage.part_of_b is None else stage.part_of_b.T
        self._whole: NDArray[Any] | None = None
        if comm.Get_rank() == ROOT:
            self._senders, self._receivers = (
                [(rank, _place(part)) for rank in range(comm.Get_size()) if (part := Part(case, side, rank)).elements]
                for side in (case.before, case.after)
            )
            self._whole = np.empty(case.shape[::-1], case.dtype)

    @property
    def extra_bytes(self) -> int | None:
        if self._whole is not None:
            pieces = (math.prod(index.size for index in place) for _, place in (*self._senders, *self._receivers))
            return self._whole.nbytes + self._whole.dtype.itemsize * max(pieces, default=0)
        both = (self._mine, self._wanted)
        return max(0 if array is None or array.flags.c_contiguous else array.nbytes for array in both)

    def __call__(self) -> None:
        if self._whole is not None:
            self._gather_here(self._whole)
            self._scatter_from_here(self._whole)
            return
        if self._mine is not None and self._mine.size:
            self._send(self._mine, ROOT)
        if self._wanted is not None and self._wanted.size:
            room = self._wanted if self._wanted.flags.c_contiguous else np.empty_like(self._wanted, order="C")
            self._receive(room, ROOT)
            if room is not self._wanted:
                self._wanted[...] = room

    def _gather_here(self, whole: NDArray[Any]) -> None:
        for rank, place in self._senders:
            if rank == ROOT:
                whole[place] = self._mine
                continue
            came = np.empty([index.size for index in place], whole.dtype)
            self._receive(came, rank)
            whole[place] = came

    def _scatter_from_here(self, whole: NDArray[Any]) -> None:
        for rank, place in self._receivers:
            if rank != ROOT:
                self._send(whole[place], rank)
            elif self._wanted is not None:
                self._wanted[...] = whole[place]

    def _send(self, array: NDArray[Any], rank: int) -> None:
        array = np.ascontiguousarray(array)
        self.stage.comm.Send([bytes_of(array), array.size, self._element], rank)

    def _receive(self, array: NDArray[Any], rank: int) -> None:
        self.stage.comm.Recv([bytes_of(array), array.size, self._element], rank)

    def close(self) -> None:
        self._element.Free()
        self._whole = None


def _place(part: Part) -> tuple[NDArray[np.int64], ...]:
    """Where a rank's elements are in the whole array, transposed."""
    return np.ix_(*reversed(part.indices))
