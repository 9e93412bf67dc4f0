"""zeros(), ones(), full(), eye() and from_local(): distributed arrays made of nothing, and of the rows that each rank has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .arguments import named_layout
from .comm.agreement import agreement
from .comm.groups import group_of
from .comm.mpi import MPI
from .distributed_array import DistributedArray
from .engine.local_arrays import no_memory_for, order_like
from .errors import ArrayError, DescriptorError, shown
from .layout.array_arithmetic import Distributed, whole_layout
from .layout.arrays import host_array
from .layout.axis import Blocks
from .layout.descriptor import Descriptor
from .layout.dimensions import BALANCED
from .layout.grid import ProcessGrid, checked_communicator
from .layout.tiles import LAYOUTS, Layout
from .tracebacks import brief

ShapeOrLayout = int | Sequence[int] | Layout | Distributed


@brief
def zeros(
    shape: ShapeOrLayout,
    comm: MPI.Intracomm | None = None,
    *,
    dtype: DTypeLike = np.float64,
    layout: str = "rows",
    order: str | None = None,
) -> DistributedArray:
    """A new array of zeros. Not collective.

    Parameters
    ----------
    shape : int, sequence of int, Descriptor, Tiles or DistributedArray
        Shape of the array, with `comm`; or a layout, or an array that has it, whose order of elements is kept in other than two
        dimensions.
    comm : MPI.Intracomm, optional
        Communicator of the ranks, with a shape.
    dtype : dtype
        Of the elements.
    layout : str
        With a shape: "rows", or "columns", in balanced blocks on all ranks, as `numpy.array_split` cuts them; of other than two
        dimensions the first, or the last. Or a process grid and block sizes, as "2x2:64x64" and "4x1:balanced"; in full
        `PRxPC:MBxNB[@RSRC,CSRC][+FIRST]`, with the source process, and the first rank of the grid, as the command line has it.
    order : {None, "C", "F"}
        Of the elements of local arrays; by default Fortran order, but for an array of other than two dimensions, which has one.

    Raises
    ------
    DescriptorError
        An argument is wrong; on this rank.
    """
    desc = _layout(shape, comm, layout)
    usual = order_like(shape.own, desc.ndim) if isinstance(shape, Distributed) else "F"
    if order not in (None, "C", "F"):
        raise ArrayError(f"order = {shown(order)} must be 'C' (rows are contiguous), 'F' (columns are) or None")
    try:
        local = desc.zeros(dtype, usual if order is None else order)
    except MemoryError as error:
        raise no_memory_for(desc, error, "more processes, or elements of fewer bytes, need less on each") from None
    return DistributedArray._from_result(desc, local, np.dtype(dtype))


@brief
def ones(
    shape: ShapeOrLayout,
    comm: MPI.Intracomm | None = None,
    *,
    dtype: DTypeLike = np.float64,
    layout: str = "rows",
    order: str | None = None,
) -> DistributedArray:
    """A new array of ones. Not collective. Parameters and errors are those of `zeros`."""
    return full(shape, 1, comm, dtype=dtype, layout=layout, order=order)


@brief
def full(
    shape: ShapeOrLayout,
    value: Any,
    comm: MPI.Intracomm | None = None,
    *,
    dtype: DTypeLike | None = None,
    layout: str = "rows",
    order: str | None = None,
) -> DistributedArray:
    """A new array whose elements are a number. Not collective.

    Parameters
    ----------
    shape, comm, layout, order
        As for `zeros`.
    value : number
        The elements.
    dtype : dtype, optional
        By default that of the number.

    Raises
    ------
    ArrayError, DescriptorError
        An argument is wrong; on this rank.
    """
    if np.ndim(value) or isinstance(value, Distributed):
        raise ArrayError(f"value = {shown(value)} must be a number; distribute() has arrays")
    array = zeros(shape, comm, dtype=np.asarray(value).dtype if dtype is None else dtype, layout=layout, order=order)
    array[...] = value
    return array


@brief
def eye(
    shape: ShapeOrLayout, comm: MPI.Intracomm | None = None, *, dtype: DTypeLike = np.float64, layout: str = "rows"
) -> DistributedArray:
    """A new matrix with ones on its diagonal and zeros elsewhere. Not collective.

    Parameters and errors are those of `zeros`; an int is for a square matrix, so `a + eye(a)` adds 1 to the diagonal of a
    square one.
    """
    size = (shape, shape) if isinstance(shape, int | np.integer) else shape
    desc = _layout(size, comm, layout)
    if desc.ndim != 2:
        raise DescriptorError(f"shape = {desc.shape} must be of two dimensions, or one int for a square matrix")
    return DistributedArray._from_result(desc, desc.from_function(np.equal, dtype), np.dtype(dtype))


def _layout(shape: Any, comm: MPI.Intracomm | None, layout: str) -> Layout:
    if isinstance(shape, (Distributed, *LAYOUTS)):
        if comm is not None:
            raise DescriptorError(f"comm is for a shape, and {shape!r} has its communicator: omit it")
        desc: Layout = whole_layout(shape.desc if isinstance(shape, Distributed) else shape)
        return desc
    return named_layout(shape, layout, comm)


@brief
def from_local(array: NDArray[Any] | None, comm: MPI.Intracomm, *, axis: int = 0) -> DistributedArray:
    """The distributed array of the rows that each rank has, in the order of ranks. Collective over `comm`.

    Nothing moves, and nothing is copied: the array uses the memory of `array`. Rows are of any number on each rank, as
    `numpy.array_split` and Heat have them.

    Parameters
    ----------
    array : ndarray or None
        This rank's rows; None, or an array without any, on a rank that has none. All else of the shape, and the dtype, are
        equal on all ranks.
    comm : MPI.Intracomm
        The communicator.
    axis : int
        The dimension along which ranks follow one another: 0 for rows, 1 for columns.

    Raises
    ------
    ArrayError, DescriptorError
        An argument is wrong on this rank, or arrays do not fit together; the text names the ranks.
    CollectiveError
        An argument is wrong on another rank.
    """
    if checked_communicator(comm) is None:
        raise DescriptorError("comm = None: from_local needs the communicator of the ranks that have rows")
    with agreement(group_of(comm), "from_local", combine=list) as agreed:
        if array is not None:
            rows = host_array("array", array)
            if not isinstance(rows, np.ndarray) or not rows.ndim:
                raise ArrayError(f"array = {shown(array)} must be a NumPy array of at least one dimension, or None")
            if isinstance(axis, bool) or not isinstance(axis, int | np.integer) or not -rows.ndim <= axis < rows.ndim:
                raise ArrayError(f"axis = {shown(axis)} must be a dimension of an array with {rows.ndim}")
            agreed.give((rows.shape, rows.dtype, int(axis) % rows.ndim))
    of_ranks: list[Any] = agreed.result
    known = [rank for rank, each in enumerate(of_ranks) if each is not None]
    if not known:
        raise ArrayError(
            "array is None on all ranks: pass one without rows, which has the shape and the dtype, on one of them"
        )
    first = known[0]
    shape, dtype, dim = of_ranks[first]
    for rank in known:
        other, other_dtype, other_dim = of_ranks[rank]
        if (other_dtype, other_dim, len(other)) != (dtype, dim, len(shape)) or any(
            other[k] != shape[k] for k in range(len(shape)) if k != dim
        ):
            raise ArrayError(
                f"rank {first} has an array of shape {shape} and dtype {dtype}, with axis={dim}, and rank {rank} one of "
                f"{other} and {other_dtype}, with axis={other_dim}: all but the number of rows must be equal"
            )
    heights = [0 if each is None else each[0][dim] for each in of_ranks]
    grid = ProcessGrid([len(heights) if k == dim else 1 for k in range(len(shape))], comm)
    blocks = [Blocks(heights) if k == dim else BALANCED for k in range(len(shape))]
    desc = Descriptor([sum(heights) if k == dim else n for k, n in enumerate(shape)], blocks, grid)
    return DistributedArray._from_result(desc, array, dtype)
