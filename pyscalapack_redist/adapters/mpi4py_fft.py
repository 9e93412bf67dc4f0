"""Arrays of mpi4py-fft: balanced blocks on a grid of processes that the communicators of the axes form."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.agreement import agreement
from ..comm.groups import group_of
from ..comm.mpi import MPI
from ..errors import ArrayError, DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .adapter import Adapter, Blueprint, View


class Pencils(Adapter):
    """`DistArray`, or a pair (Pencil, local array); a `Pencil` is a layout. None of them has a communicator of all processes.

    A `DistArray` of one dimension has no pencil: each rank has the whole array.
    """

    communicates = True

    def takes(self, x: Any) -> bool:
        if isinstance(x, tuple):
            return len(x) == 2 and isinstance(x[0], _type("pencil.Pencil"))
        return _is_array(x) or isinstance(x, _type("pencil.Pencil"))

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        pencil = _pencil(x)
        grid = _grid(pencil, comm)
        if _is_array(x):
            strides = [stride for stride, n in zip(x.strides, x.shape, strict=True) if n > 1]
            if strides != sorted(strides, reverse=True):
                raise ArrayError(
                    "the DistArray is a transposed view of each process's part, and has the pencil of the array that is not "
                    'transposed: pass that, with op="T" of redistribute'
                )
            shape = x.shape if pencil is None else x.shape[: x.rank] + pencil.shape
            return View(_layout(shape, grid, x.rank, pencil is None), x.view(np.ndarray))
        return View(_layout(pencil.shape, grid), ... if x is pencil else x[1])

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        pencil, rank = _pencil(like), like.rank if _is_array(like) else 0
        grid, kind = _grid(pencil, comm), _type("distarray.DistArray")
        if len(shape) == 1:
            whole = _layout(shape, ProcessGrid((comm.Get_size(),), comm), 0, True)
            return Blueprint([whole], "C", lambda local, dtype: kind(shape, dtype=dtype, buffer=local))
        if pencil is None or len(shape) != rank + grid.ndim or any(np.less(shape[rank:], grid.shape)):
            raise DescriptorError(
                f"an array of shape {shape} cannot be like an array of mpi4py-fft on a grid of {grid.shape} processes"
                f"{f', of rank {rank}' if rank else ''}: there must be as many dimensions, and an element for each process "
                "along each of them; redistribute to a Descriptor"
            )

        def build(local: NDArray[Any], dtype: np.dtype[Any]) -> Any:
            if isinstance(like, tuple):
                return type(pencil)(pencil.subcomm, shape, pencil.axis), local
            return kind(shape, pencil.subcomm, dtype=local.dtype, buffer=local, alignment=pencil.axis, rank=rank)

        return Blueprint([_layout(shape, grid, rank)], "C", build)


def _type(name: str) -> Any:
    module, _, kind = name.partition(".")
    return getattr(importlib.import_module(f"mpi4py_fft.{module}"), kind)


def _is_array(x: Any) -> bool:
    return isinstance(x, _type("distarray.DistArray"))


def _pencil(x: Any) -> Any:
    """The pencil; None for an array of one dimension."""
    return x[0] if isinstance(x, tuple) else x.pencil if _is_array(x) else x


def _layout(shape: tuple[int, ...], grid: ProcessGrid, rank: int = 0, is_whole: bool = False) -> Descriptor:
    """The layout of an array of tensors of a rank. Their components are in the first dimensions, not distributed."""
    axes = [None] * len(shape) if is_whole else [None] * rank + list(range(grid.ndim))
    return Descriptor(shape, "balanced", grid, axes=axes)


def _grid(pencil: Any, comm: MPI.Intracomm) -> ProcessGrid:
    """The ranks of `comm` by their coordinates in the communicators of a pencil. Collective over `comm`.

    MPI may have reordered ranks, so all of them exchange their coordinates.
    """

    with agreement(group_of(comm), "the coordinates of an array of mpi4py-fft", combine=list) as agreed:
        axes = pencil.subcomm if pencil is not None else [comm]
        agreed.give((tuple(axis.size for axis in axes), tuple(axis.rank for axis in axes)))
    places: list[Any] = agreed.result
    sizes = places[comm.Get_rank()][0]
    distinct = {coords for _, coords in places}
    if any(each != sizes for each, _ in places) or not len(distinct) == len(places) == math.prod(sizes):
        raise DescriptorError(
            f"an array of mpi4py-fft on a grid of {sizes} processes, of which {len(distinct)} are here, does not fit a "
            f"communicator of {len(places)}: pass comm=, the communicator that it was made on"
        )
    ranks = np.empty(sizes, np.int64)
    ranks[tuple(np.transpose([coords for _, coords in places]))] = range(len(places))
    return ProcessGrid(sizes, comm, ranks=ranks)
