"""ScaLAPACK's array descriptor: the nine integers DTYPE, CTXT, M, N, MB, NB, RSRC, CSRC, LLD, read and written."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._descriptor import FIELDS, build_fields, check_fields, read_fields
from ..comm.mpi import MPI
from .grid import ProcessGrid

__all__ = ["NineIntegers"]


class NineIntegers(NamedTuple):
    """What the nine integers say, with the grid of the BLACS context in place of its number.

    `lld` is 1 on a process outside the grid, where the integer means nothing.
    """

    grid: ProcessGrid
    shape: tuple[int, ...]
    block: tuple[int, ...]
    source: tuple[int, ...]
    lld: int

    @classmethod
    def read(cls, integers: object, comm: MPI.Intracomm) -> NineIntegers | None:
        """Read them on a rank of their grid; None where CTXT is -1. Not collective."""
        fields = dict(zip(FIELDS, read_fields(integers), strict=True))
        grid = ProcessGrid._read_context(fields["CTXT"], comm)
        if grid is None:
            return None
        check_fields(integers, grid.shape[0], grid.shape[1], -1 if grid.coords is None else grid.coords[0])
        return cls(
            grid,
            (fields["M"], fields["N"]),
            (fields["MB"], fields["NB"]),
            (fields["RSRC"], fields["CSRC"]),
            1 if grid.coords is None else max(1, fields["LLD"]),
        )

    def to_array(self) -> NDArray[np.intc]:
        """The integers. Not collective.

        Raises
        ------
        DescriptorError
            The grid's BLACS context was not made, or a number does not fit 32 bits.
        """
        return np.asarray(build_fields((1, self.grid.context, *self.shape, *self.block, *self.source, self.lld)))
