"""DistributedArray: a matrix that knows its layout; and distribute(), which makes one of an array on one rank.

What it does without communication is in `layout.distributed`. What it does with the other ranks is a call of `redistribute`,
`gather`, `load` or `save`; this module adds that all ranks know the dtype and agree on the layout to reach.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .comm.group import first_known
from .comm.vote import Ballot, Statement, digest
from .engine.make import from_root, gather, redistribute
from .engine.spec import communicator_of, group_of_all
from .errors import ArrayError, DescriptorError, shown
from .layout.arrays import host_array
from .layout.descriptor import Descriptor
from .layout.dimensions import BlockSizes
from .layout.distributed import Distributed, descriptor_of
from .layout.grid import ProcessGrid
from .layout.letters import OPERATIONS, letter_of, transposes


class DistributedArray(Distributed):
    """A matrix that knows its layout: a descriptor and this rank's local array, and nothing else. Not collective.

    Every function that takes a descriptor and a local array takes it in place of both, and a plan takes and gives it.
    It does no arithmetic: that is for `local`, or for ScaLAPACK.

    Parameters
    ----------
    desc : Descriptor
        Layout of the array; of a sub-array, `local` is the whole array's.
    local : ndarray or None
        This rank's local array, of any fixed-size dtype and any strides, which is not copied. Of (LLD, columns), only the
        rows that are held are kept. On a rank outside the grid None, or an empty array, which tells the dtype.

    Raises
    ------
    DescriptorError, ArrayError
        `desc` is no Descriptor, or `local` does not fit it. On this rank only.
    """

    @classmethod
    def load(cls, desc: Descriptor, path: str | os.PathLike[str], **options: Any) -> Self:
        """Read an array from a file. Collective over the communicator of the descriptor's grid.

        Parameters, errors and the formats of files are those of `load`.
        """
        from .files import load

        return cls(desc, load(desc, path, **options))

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the array into a file. Collective over the communicator of the array's grid.

        Parameters, errors and the formats of files are those of `save`.
        """
        from .files import save

        save(self, path, **options)

    def gather(self, root: int = 0) -> NDArray[Any] | None:
        """The whole array, or slice, on rank `root`, as `gather` returns it; None elsewhere.

        Collective over the communicator of the array's grid.
        """
        return gather(self, root)

    def redistribute(
        self,
        desc: Descriptor | Distributed | None = None,
        *,
        block: Sequence[BlockSizes] | BlockSizes | EllipsisType = ...,
        grid: ProcessGrid | None = None,
        source: Sequence[int] | int = 0,
        axes: Sequence[int | None] | None = None,
        out: Self | None = None,
        op: str = "N",
        alpha: complex = 1,
        beta: complex = 0,
        **options: Any,
    ) -> Self:
        """The array in another layout: out = alpha * op(A) + beta * out. Collective over the communicator of its grid.

        The plan is kept with the communicator. A plan that is made by `redistribute` and held saves two votes in each call.

        Parameters
        ----------
        desc : Descriptor or DistributedArray, optional
            Layout to reach, or an array that has it, on the same communicator or among its processes.
        block, grid, source, axes : optional
            In place of `desc`: the layout to reach, as for `Descriptor`; block size and grid are by default those of this
            array.
        out : DistributedArray, optional
            In place of a layout: the array, or slice of one, to write into.
        op : {"N", "T", "C", "R"}
            As it is, transposed, transposed and conjugated, or conjugated.
        alpha, beta : number
            As in a call of a plan.
        **options
            uplo, diag, fill, schedule, exchange, buffers, via and memory_limit of `redistribute`.

        Returns
        -------
        DistributedArray
            `out`, or a new array, on every rank.

        Raises
        ------
        DescriptorError, ArrayError, ScheduleError
            An argument is wrong on this rank.
        CollectiveError
            An argument is wrong on another rank, or ranks ask for different things. Every rank raises.
        """
        comm, everyone = communicator_of(self._desc), group_of_all(self._desc)
        error: Exception | None = None
        target: Any = None
        try:
            target = self._layout_to_reach(desc, out, op, block, grid, source, axes)
        except Exception as caught:
            error = caught
        layout = None if target is None else target.layout_digest
        unknown = self.dtype is None
        ballot = Ballot(failed=everyone.failed(error), call=digest("layout to reach"), target=layout, note=unknown)
        statements = [Statement("the layout to reach", layout, repr(target))]
        outcome = everyone.agree(ballot, error, lambda: statements, lambda outcome: bool(outcome.note))
        dtype = everyone.combine(self.dtype, first_known) if outcome.note else self.dtype
        plan = redistribute(self._desc, target, dtype=dtype, comm=comm, op=op, **options)
        local = plan(self._local, None if out is None else out.local, alpha=alpha, beta=beta)
        return type(self)._made(target, local, dtype) if out is None else out

    def _layout_to_reach(
        self,
        desc: Any,
        out: Any,
        op: str,
        block: Sequence[BlockSizes] | BlockSizes | EllipsisType,
        grid: ProcessGrid | None,
        source: Sequence[int] | int,
        axes: Sequence[int | None] | None,
    ) -> Descriptor:
        """What the arguments say of it; an error where they say nothing, or too much."""
        left_out = block is ..., grid is None, np.ndim(source) == 0 and source == 0, axes is None
        written = not all(left_out)
        if (desc is not None) + (out is not None) + written != 1:
            raise DescriptorError("give the layout to reach in one way: a Descriptor; or block=, grid=; or out=")
        if out is not None:
            if not isinstance(out, Distributed):
                raise ArrayError(
                    f"out is a {type(out).__name__}: it must be a DistributedArray, whose layout is reached"
                )
            return out.desc
        if desc is not None:
            found = descriptor_of(desc)
            if not isinstance(found, Descriptor):
                raise DescriptorError(f"desc = {shown(desc)} must be a Descriptor or a DistributedArray")
            return found
        step = -1 if transposes(letter_of("op", op, OPERATIONS)) else 1
        blocks: Any = block
        if isinstance(block, EllipsisType):  # of a slice, what there is of irregular blocks
            blocks = [axis.block for axis in self._desc.distributions][::step]
        return Descriptor(self.shape[::step], blocks, grid or self._desc.grid, source=source, axes=axes)


def distribute(array: object, desc: Descriptor, root: int = 0) -> DistributedArray:
    """Distribute an array of one rank by a descriptor. Collective over the communicator of the descriptor's grid.

    Parameters
    ----------
    array : array_like
        On `root` the whole array, of the descriptor's shape: anything that NumPy can make an array of, such as nested lists,
        but no masked array. Elsewhere not looked at.
    desc : Descriptor
        Layout to reach; of a whole array, not of a sub-array.
    root : int
        Rank that has it.

    Raises
    ------
    ArrayError, DescriptorError
        An argument is wrong on this rank.
    CollectiveError
        One is wrong on another rank.
    """
    local, dtype = from_root(desc, lambda: _whole(array, desc), root)
    return DistributedArray._made(desc, local, dtype)


def _whole(array: Any, desc: Descriptor) -> NDArray[Any] | None:
    """What NumPy makes of the array, if it fits."""
    if array is None:
        return None
    if _is_masked(array):
        raise ArrayError("the array is a masked array, whose mask would not move with it: pass array.filled(value)")
    given = host_array("array", array)
    try:
        made = np.asarray(given)
    except Exception as caught:
        raise ArrayError(f"NumPy cannot make an array of this {type(array).__name__}: {caught}") from caught
    if made.shape != desc.shape:
        raise ArrayError(f"the array has shape {made.shape}, but desc has shape {desc.shape}: they must be equal")
    return made


def _is_masked(array: object) -> bool:
    """Whether it is a masked array, or a nested sequence with one in it, of which NumPy would drop the mask."""
    if isinstance(array, list | tuple):
        return any(map(_is_masked, array))
    return isinstance(array, np.ma.MaskedArray)
