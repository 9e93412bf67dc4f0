"""dask: arrays in chunks, each computed by the rank that owns it."""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.mpi import MPI
from ..errors import ArrayError
from ..layout.axis import balanced
from ..layout.tiles import Tiles
from .adapter import Adapter, Blueprint, View


class DaskArrays(Adapter):
    """A `dask.array.Array`, or a pair (x, owners) with the rank that owns each block: an array of shape `x.numblocks`.

    Without owners each rank gets a run of blocks, in C order, of numbers that differ by one at most. The layout is `Tiles`; its
    `owners` are good for such a pair. A rank computes its own blocks only, in the calling thread, or by the scheduler that
    `dask.config` names; each rank must have the same graph. They are computed whenever elements are needed: hold
    `as_distributed(x)` to use them twice.

    A new array has the chunks and owners of another one of its shape; else a block of rows for each rank. It has the blocks of
    this rank; computing another one raises an error. From a pair a pair is made.
    """

    def takes(self, x: Any) -> bool:
        dask_array = import_module("dask.array").Array
        return isinstance(x[0] if isinstance(x, tuple) else x, dask_array)

    def layout(self, x: Any, comm: MPI.Intracomm) -> Tiles:
        array, owners = x if isinstance(x, tuple) else (x, None)
        if not array.shape:
            raise ArrayError("the dask array has no dimensions: only arrays with one or more are distributed")
        if any(map(math.isnan, array.shape)):
            raise ArrayError(
                f"the dask array has chunks of unknown sizes, {array.chunks}: call x.compute_chunk_sizes()"
            )
        kind = type(array._meta)
        if kind is not np.ndarray:
            raise ArrayError(
                f"the dask array has blocks of {kind.__module__}.{kind.__name__}: make NumPy arrays of them, as by "
                "x.map_blocks(lambda block: block.todense()), or block.get() of CuPy"
            )
        return _tiles(array.chunks, owners, comm)

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        layout, array = self.layout(x, comm), x[0] if isinstance(x, tuple) else x
        dask = import_module("dask")
        blocks = array.to_delayed()
        scheduler = dask.config.get("scheduler", None) or "synchronous"
        computed = dask.compute(*[blocks[place] for place in layout.own_places], scheduler=scheduler)
        local = [_checked(block, place, array.dtype) for block, place in zip(computed, layout.own_places, strict=True)]
        return View(layout, local, array.dtype)

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        is_pair = isinstance(like, tuple)
        if shape == (like[0] if is_pair else like).shape:
            layout = self.layout(like, comm)
        else:
            parts = max(1, min(shape[0], comm.Get_size()))
            rows = tuple(balanced(shape[0], parts).sizes.tolist())
            layout = _tiles((rows, *[(n,) for n in shape[1:]]), None, comm)

        def build(local: Any, dtype: np.dtype[Any]) -> Any:
            array = _new_array(layout, local, dtype)
            return (array, layout.owners) if is_pair else array

        return Blueprint([layout], "C", build)


def _tiles(chunks: Sequence[Sequence[int]], owners: Any, comm: MPI.Intracomm) -> Tiles:
    """The layout of chunks with their owners; by default runs of blocks in C order."""
    counts = tuple(map(len, chunks))
    if owners is None:
        runs = balanced(math.prod(counts), comm.Get_size()).sizes
        owners = np.repeat(np.arange(len(runs)), runs).reshape(counts)
    return Tiles.from_edges([[0, *itertools.accumulate(sizes)] for sizes in chunks], owners, comm)


def _checked(block: Any, place: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A computed block, read-only: nothing that is written into it comes into the dask array."""
    if not isinstance(block, np.ndarray) or block.dtype != dtype:
        kind = f"an array of {block.dtype}" if isinstance(block, np.ndarray) else f"a {type(block).__name__}"
        raise ArrayError(
            f"block {place} of the dask array is {kind}: it must be a NumPy array of {dtype}, as the dask array says"
        )
    view = block.view()
    view.flags.writeable = False
    return view


def _new_array(layout: Tiles, local: Sequence[NDArray[Any]], dtype: Any) -> Any:
    """A dask array with the blocks of this rank, and errors in place of others."""
    name = f"redistributed-{uuid.uuid4().hex}"
    rank = layout.comm.Get_rank() if layout.comm else 0
    graph: dict[Any, Any] = {
        (name, *place): (_raise_absent, place, int(owner), rank) for place, owner in np.ndenumerate(layout.owners)
    }
    graph.update(zip([(name, *place) for place in layout.own_places], local, strict=True))
    chunks = tuple([tuple(np.diff(edges).tolist()) for edges in layout.edges])
    return import_module("dask.array").Array(graph, name, chunks, dtype=dtype)


def _raise_absent(place: tuple[int, ...], owner: int, rank: int) -> None:
    raise ArrayError(
        f"block {place} of the dask array is on rank {owner}, and this is rank {rank}: compute own blocks only. An array of "
        "other chunks that is computed from it needs owners, as_distributed((array, owners)), with this rank for own blocks"
    )
