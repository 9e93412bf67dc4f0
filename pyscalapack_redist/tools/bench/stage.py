"""A case set up on the ranks: descriptors, local arrays, and what the arrays must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from .arithmetic import Part
from .case import Case
from .poison import poison

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Stage"]


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
        Local arrays, in the layouts' order: A filled and read-only, and room for B, which all methods share.
    part_of_a, part_of_b : ndarray or None
        Views of the elements in them that move: all but those around a sub-array.
    """

    def __init__(self, case: Case, comm: MPI.Intracomm) -> None:
        self.case, self.comm = case, comm
        self.desc_a = case.before.descriptor(case.shape, comm)
        self.desc_b = case.after.descriptor(case.shape, comm)
        rank = comm.Get_rank()
        before, self._part_b = Part(case, case.before, rank), Part(case, case.after, rank)
        self.a, self.out = before.filled(), self._part_b.empty()
        if self.a is not None:
            self.a.flags.writeable = False
        self.part_of_a: NDArray[Any] | None = None if self.a is None else self.a[before.inside]
        self.part_of_b: NDArray[Any] | None = None if self.out is None else self.out[self._part_b.inside]
        self.poison()

    def poison(self) -> None:
        """Overwrite the output, so that nothing correct is left in it."""
        poison(self.out)

    def correct(self) -> bool:
        """Whether the output is, byte by byte, what it must be on this rank."""
        return self.matches(self.out)

    def matches(self, out: NDArray[Any] | None) -> bool:
        """Whether another array is, byte by byte, what the output must be."""
        return self._part_b.matches(out)
