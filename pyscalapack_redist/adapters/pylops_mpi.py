"""pylops-mpi: arrays scattered along one axis, into any numbers of indices, or that each process has whole."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..comm.agreement import agreement
from ..comm.groups import group_of
from ..comm.mpi import MPI
from ..errors import ArrayError
from ..layout.axis import Blocks
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .adapter import Adapter, Blueprint, View


class Parts(NamedTuple):
    """The parts of an array on the ranks: the axis that is cut, None if each rank has all, and each rank's indices there."""

    shape: tuple[int, ...]
    axis: int | None
    sizes: list[int]

    def layout(self, comm: MPI.Intracomm) -> Descriptor:
        cut = [k == self.axis for k in range(len(self.shape))]
        blocks, axes = [Blocks(self.sizes) if each else None for each in cut], [0 if each else None for each in cut]
        return Descriptor(self.shape, blocks, ProcessGrid((comm.Get_size(),), comm), axes=axes)


class PylopsArrays(Adapter):
    """`DistributedArray` of NumPy's arrays, on its `base_comm`, of any partition, axis, local shapes and mask.

    A mask says which ranks add in `dot` and `norm`, and not where elements are: they are those of all ranks.

    A new array has the partition, axis and mask of another one, and its local shapes where it has as many indices along the
    axis; else they are balanced. One without that axis is whole on each process.
    """

    communicates = True  # pylops-mpi itself asks all ranks for `local_shapes`

    def takes(self, x: Any) -> bool:
        return isinstance(x, _library().DistributedArray | _library().StackedDistributedArray)

    def communicator(self, x: Any) -> MPI.Intracomm:
        if x.base_comm == MPI.COMM_NULL:
            raise ArrayError(f"the base_comm of a {type(x).__name__} has been freed: make the array on another one")
        return x.base_comm  # type: ignore[no-any-return]

    def layout(self, x: Any, comm: MPI.Intracomm) -> Descriptor:
        parts, groups = _parts(x, comm), [] if x.mask is None else list(x.mask)
        if x.partition is _library().Partition.UNSAFE_BROADCAST and len({*groups}) > 1:
            raise ArrayError(
                f"the DistributedArray is UNSAFE_BROADCAST with mask={groups}, so each group of ranks may have elements "
                "of its own: make one without a mask, or on x.sub_comm"
            )
        return parts.layout(comm)

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        return View(self.layout(x, comm), x.local_array, x.local_array.dtype)

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        pylops_mpi, (_, axis, sizes), partition = _library(), _parts(like, comm), like.partition
        if axis is not None and axis >= len(shape):
            axis, partition = None, pylops_mpi.Partition.BROADCAST
        even = [] if axis is None else _balanced(shape[axis], comm.Get_size())
        if sum(sizes) != sum(even):
            sizes = even
        parts = Parts(shape, axis, [] if axis is None else sizes)

        def build(local: NDArray[Any], dtype: np.dtype[Any]) -> Any:
            # The constructor communicates where it is given local shapes or a mask: on all ranks alike.
            shapes = None if axis is None or sizes == even else [(*shape[:axis], n, *shape[axis + 1 :]) for n in sizes]
            return pylops_mpi.DistributedArray(
                shape,
                like.base_comm,
                partition=partition,
                axis=axis or 0,
                local_array=local,
                local_shapes=shapes,
                mask=like.mask,
            )

        return Blueprint([parts.layout(comm)], "C", build)


def _library() -> Any:
    return import_module("pylops_mpi")


def _parts(x: Any, comm: MPI.Intracomm) -> Parts:
    """The parts of an array on the ranks, which know of their own alone. Collective over `comm`."""
    with agreement(group_of(comm), "a DistributedArray of pylops-mpi", combine=list) as agreed:
        if isinstance(x, _library().StackedDistributedArray):
            raise ArrayError(
                f"a StackedDistributedArray is {x.narrays} arrays: redistribute each of its distarrays, and stack the results"
            )
        if x.engine != "numpy":
            raise ArrayError(
                f"the DistributedArray has engine={x.engine!r}, and only the host's memory is moved: make one of NumPy's "
                "arrays, such as of local_array.get()"
            )
        shape = tuple(map(int, x.global_shape))
        axis = x.axis % len(shape) if x.partition is _library().Partition.SCATTER else None
        agreed.same("global_shape", shape)
        agreed.same("partition", x.partition.name)
        agreed.same("axis", axis)
        agreed.same("mask", None if x.mask is None else tuple(map(int, x.mask)))
        agreed.give(0 if axis is None else int(x.local_array.shape[axis]))
    return Parts(shape, axis, [] if axis is None else agreed.result)


def _balanced(n: int, parts: int) -> list[int]:
    """As pylops-mpi cuts an axis by itself, and that without communication."""
    return [n // parts + (k < n % parts) for k in range(parts)]
