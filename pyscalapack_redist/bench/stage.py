"""A case set up on the ranks: descriptors, local arrays, and what the arrays must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .arithmetic import Part
from .case import Case

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Stage", "poison"]

POISON = 0xFB


class Stage:
    """One case on this rank. Not collective.

    Attributes
    ----------
    case : Case
        What is moved.
    comm : MPI.Intracomm
        All ranks; those outside both layouts take part and have nothing to do.
    desc_a, desc_b : Descriptor
        Layouts before and after.
    a, out : ndarray or None
        Local arrays, in Fortran order: A filled and read-only, and room for B, which all methods share.
    """

    def __init__(self, case: Case, comm: MPI.Intracomm) -> None:
        self.case, self.comm = case, comm
        self.desc_a = case.before.descriptor(case.shape, comm)
        self.desc_b = case.after.descriptor(case.shape, comm)
        rank = comm.Get_rank()
        self._part_b = Part(case, case.after, rank)
        self.a = Part(case, case.before, rank).filled()
        if self.a is not None:
            self.a.flags.writeable = False
        self.out = self._part_b.empty()
        self.poison()

    def poison(self) -> None:
        """Overwrite the output, so that nothing correct is left in it."""
        poison(self.out)

    def correct(self) -> bool:
        """Whether the output is, byte by byte, what it must be on this rank."""
        return self._part_b.matches(self.out)


def poison(array: NDArray[Any] | None) -> None:
    """Overwrite every byte of a Fortran-ordered array. Not collective."""
    if array is not None and array.size:
        array.T.view(np.uint8).fill(POISON)
