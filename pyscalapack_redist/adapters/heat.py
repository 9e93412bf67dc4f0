"""Heat: arrays that are split along one dimension, into any numbers of indices, or that each process has whole."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.agreement import agreement
from ..comm.groups import group_of
from ..comm.mpi import MPI
from ..errors import ArrayError, DescriptorError
from ..layout.axis import Blocks, balanced
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .adapter import Adapter, Blueprint, View
from .tensors import array_of, tensor_of


class HeatArrays(Adapter):
    """`DNDarray` on CPUs, on its communicator, balanced or not.

    A new array is split as another one, balanced unless it has as many indices there; one without that dimension is whole on
    each process.
    """

    communicates = True

    def takes(self, x: Any) -> bool:
        return isinstance(x, import_module("heat").DNDarray)

    def communicator(self, x: Any) -> MPI.Intracomm:
        return x.comm.handle  # type: ignore[no-any-return]

    def layout(self, x: Any, comm: MPI.Intracomm) -> Descriptor:
        return _layout(tuple(x.shape), x.split, _sizes(x, comm), comm)

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        layout = self.layout(x, comm)
        local = array_of("larray of the DNDarray", x.larray)
        return View(layout, local, local.dtype)

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        sizes, split = _sizes(like, comm), like.split
        if split is not None and split >= len(shape):
            split = None
        even = [] if split is None else balanced(shape[split], comm.Get_size()).sizes.tolist()
        if sum(sizes) != sum(even):
            sizes = even
        layout = _layout(shape, split, sizes, comm)

        def build(local: NDArray[Any], dtype: np.dtype[Any]) -> Any:
            return _new_array(like, local, shape, split, split is None or sizes == even)

        return Blueprint([layout], "C", build)

    def replicated(self, like: Any, values: NDArray[Any]) -> Any:
        return _new_array(like, values, values.shape, None, True)


def _sizes(x: Any, comm: MPI.Intracomm) -> list[int]:
    """The numbers of indices along the split dimension that the processes have. Collective over `comm`.

    Heat asks for them in a call of MPI that blocks, and remembers them.
    """

    with agreement(group_of(comm), "the DNDarray", combine=list) as agreed:
        agreed.give((x.split, tuple(x.shape), tuple(x.larray.shape)))
    all_ranks: list[Any] = agreed.result
    split, shape, _ = all_ranks[0]
    if not shape:
        raise ArrayError("the DNDarray has no dimensions: only arrays with one or more are distributed")
    for rank, (split_there, shape_there, local) in enumerate(all_ranks):
        if (split_there, shape_there) != (split, shape):
            raise DescriptorError(
                f"the DNDarray has shape {shape} and split={split} on rank 0, but shape {shape_there} and split={split_there} "
                f"on rank {rank}"
            )
        if len(local) != len(shape) or any(
            m != n for k, (m, n) in enumerate(zip(local, shape, strict=True)) if k != split
        ):
            raise DescriptorError(
                f"the DNDarray has shape {shape} and split={split}, but a local tensor of shape {local} on rank {rank}"
            )
    if split is None:
        return []
    sizes = [local[split] for _, _, local in all_ranks]
    if sum(sizes) != shape[split]:
        raise DescriptorError(
            f"the DNDarray has shape {shape} and split={split}, but its local tensors have {sizes} indices there, "
            f"{sum(sizes)} in all"
        )
    return sizes


def _layout(shape: tuple[int, ...], split: int | None, sizes: Sequence[int], comm: MPI.Intracomm) -> Descriptor:
    """Blocks of these sizes along one dimension, or the whole array on each process."""
    blocks = [Blocks(sizes) if k == split else None for k in range(len(shape))]
    axes = [0 if k == split else None for k in range(len(shape))]
    return Descriptor(shape, blocks, ProcessGrid((comm.Get_size(),), comm), axes=axes)


def _new_array(like: Any, local: NDArray[Any], shape: tuple[int, ...], split: int | None, is_balanced: bool) -> Any:
    """A DNDarray on the communicator of another one, whose memory is a local array."""
    heat, tensor = import_module("heat"), tensor_of(local)
    try:
        dtype = heat.types.canonical_heat_type(tensor.dtype)
    except TypeError:
        raise ArrayError(f"Heat has no elements of dtype {local.dtype}: convert the array with astype before") from None
    return heat.DNDarray(tensor, shape, dtype, split, like.device, like.comm, is_balanced)
