"""nvmath-python: distributions of nvmath.distributed, each with a local array in host memory, or alone as a layout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..comm.agreement import agreement
from ..comm.groups import group_of
from ..comm.mpi import MPI
from ..errors import DescriptorError
from ..layout.arrays import host_array
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .adapter import Adapter, Blueprint, View
from .boxes import layouts_of_boxes

Shape = tuple[int, ...]


class NvmathDistributions(Adapter):
    """A pair (distribution, local array). As a layout also (distribution, global shape), or a distribution bound to a shape.

    The distribution is a `Slab`, `Box`, `BlockCyclic` or `BlockNonCyclic`. The communicator is that of nvmath.distributed once
    that is initialized, which needs a device; until then nvmath makes no `ProcessGrid`, so none of the latter two. The shape of
    the array follows from the local arrays of all ranks. A new array is a pair, too.
    """

    communicates = True

    def takes(self, x: Any) -> bool:
        module = sys.modules.get("nvmath.distributed.distribution")
        return module is not None and isinstance(_pair(x)[0], module.Distribution)

    def communicator(self, x: Any) -> MPI.Intracomm | None:
        context = sys.modules["nvmath.distributed"].get_context()
        return None if context is None else getattr(context.process_group, "_mpi_comm", None)

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        distribution, companion = _pair(x)
        layout = _layout(distribution, companion, None, comm)
        has_elements = companion is not None and not isinstance(companion, tuple | list)
        return View(layout, host_array("the local array", companion) if has_elements else ...)

    def make(self, like: Any, shape: Shape, comm: MPI.Intracomm) -> Blueprint:
        distribution, companion = _pair(like)
        layout = _layout(distribution, companion, shape, comm)
        by_columns = hasattr(distribution, "block_sizes")  # as cuBLASMp has it, and cuFFTMp not
        if isinstance(companion, np.ndarray):
            by_columns = companion.flags.f_contiguous and (by_columns or not companion.flags.c_contiguous)
        return Blueprint(
            [layout], "F" if by_columns else "C", lambda local, dtype: (_for_shape(distribution, shape), local)
        )


def _pair(x: Any) -> tuple[Any, Any]:
    """The distribution, and its local array, or a global shape, or None."""
    return x if isinstance(x, tuple) else (x, None)


def _layout(distribution: Any, companion: Any, shape: Shape | None, comm: MPI.Intracomm) -> Descriptor:
    """The layout for a shape; by default the companion, the bound shape, or what the local arrays make up. Collective."""

    with agreement(group_of(comm), "the distribution of nvmath", combine=list) as agreed:
        if shape is None and isinstance(companion, tuple | list):
            shape = tuple(companion)
        elif shape is None:
            shape = getattr(distribution, "_data_global_shape", None)
        local_shape = getattr(companion, "shape", None)
        box = (distribution.lower, distribution.upper) if hasattr(distribution, "lower") else None
        if box is None and shape is None and local_shape is None:
            raise DescriptorError(
                f"the {type(distribution).__name__} is of no global shape yet: give a pair, (distribution, local array) or "
                "(distribution, shape)"
            )
        agreed.give((type(distribution).__name__, local_shape, box))
    kinds, shapes, boxes = zip(*agreed.result, strict=True)
    if len(set(kinds)) > 1:
        raise DescriptorError(f"the ranks have different distributions: {', '.join(kinds)}")
    if boxes[comm.Get_rank()] is not None:
        return _of_boxes(boxes, shape, comm)
    if hasattr(distribution, "partition_dim"):
        return _of_slabs(distribution, shape, shapes, comm)
    return _block_cyclic(distribution, shape, shapes, comm)


def _of_boxes(boxes: Sequence[tuple[Shape, Shape]], shape: Shape | None, comm: MPI.Intracomm) -> Descriptor:
    edges = [sorted({0, *(bound[k] for box in boxes for bound in box)}) for k in range(len(boxes[0][0]))]
    whole = tuple([values[-1] for values in edges])
    if shape is not None and whole != tuple(shape):
        raise DescriptorError(f"the Boxes of the ranks are of an array of shape {whole}, not of {tuple(shape)}")
    holders, is_grid = {}, True
    for rank, (lower, upper) in enumerate(boxes):
        index = tuple([values.index(bound) for values, bound in zip(edges, lower, strict=True)])
        is_grid &= all(values[i + 1] == bound for values, i, bound in zip(edges, index, upper, strict=True))
        holders[index] = [rank]
    if not is_grid or len(holders) != len(boxes) or len(holders) != np.prod([len(values) - 1 for values in edges]):
        raise DescriptorError(
            f"the Boxes of the ranks are no grid that has each element once: {', '.join(f'{a} to {b}' for a, b in boxes)}"
        )
    (layout,) = layouts_of_boxes(edges, holders, comm)
    assert isinstance(layout, Descriptor)  # one box for each rank
    return layout


def _of_slabs(distribution: Any, shape: Shape | None, shapes: Sequence[Shape], comm: MPI.Intracomm) -> Descriptor:
    cut, first = distribution.partition_dim, shapes[0] if shape is None else shape
    if cut >= len(first):
        raise DescriptorError(f"{distribution} does not fit an array of {len(first)} dimensions")
    whole = (*first[:cut], sum(each[cut] for each in shapes), *first[cut + 1 :]) if shape is None else shape
    axes = [0 if k == cut else None for k in range(len(whole))]
    blocks = [None if axis is None else "balanced" for axis in axes]
    return Descriptor(whole, blocks, ProcessGrid([comm.Get_size()], comm), axes=axes)


def _block_cyclic(distribution: Any, shape: Shape | None, shapes: Sequence[Shape], comm: MPI.Intracomm) -> Descriptor:
    process_grid = distribution.process_grid
    order = "column" if process_grid.layout is not None and process_grid.layout.name == "COL_MAJOR" else "row"
    grid = ProcessGrid(process_grid.shape, comm, order=order, ranks=process_grid.process_array)
    if shape is None:  # from the processes along each dimension with coordinate 0 in the others
        lines = [np.moveaxis(grid.ranks, k, 0).reshape(len, -1)[:, 0] for k, len in enumerate(grid.shape)]
        shape = tuple([sum(shapes[rank][k] for rank in line) for k, line in enumerate(lines)])
    blocks = _for_shape(distribution, shape).block_sizes
    if -1 in blocks:  # of a BlockNonCyclic that is bound to no shape
        blocks = [n // parts for n, parts in zip(shape, grid.shape, strict=True)]
        if any(n % parts for n, parts in zip(shape, grid.shape, strict=True)):
            raise DescriptorError(
                f"{distribution} is for shapes that its grid divides, not for {shape}: use BlockCyclic"
            )
    return Descriptor(shape, blocks, grid, source=distribution.first_process)


def _for_shape(distribution: Any, shape: Shape) -> Any:
    """The distribution, or a new one if it is bound to another shape."""
    bound, kind = getattr(distribution, "_data_global_shape", shape), type(distribution)
    if tuple(bound) == shape:
        return distribution
    if hasattr(distribution, "partition_dim"):
        return kind(distribution.partition_dim)
    blocks = () if kind.__name__ == "BlockNonCyclic" else (distribution.block_sizes,)
    return kind(distribution.process_grid, *blocks, first_process=distribution.first_process)
