"""A rank's part of an array as MPI sees it in a file: a darray where MPI has a name for the layout, else runs of indices.

A rank's part is cut into pieces, so that neither the staging memory nor the lists that MPI makes of a view grow with the
array.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .. import intersections
from ..comm.mpi import MPI
from ..layout.blockcyclic import BlockCyclic

__all__ = ["first_element", "is_darray", "local_part", "pieces", "view_type"]

PIECE_BYTES = 16 * 2**20
RUN_BYTES = 64  # what a run of elements costs at least: MPI lists each one
LIMIT = 2**31

Piece = tuple[slice, ...]


def pieces(axes: Sequence[BlockCyclic], coords: Sequence[int], item: int, order: str, limit: int) -> Iterator[Piece]:
    """Parts of the array, one after another in the file, with at most `limit` bytes of this process each. Not collective.

    Together they hold all elements of the process. Cuts are between its blocks where these are short enough.

    Parameters
    ----------
    axes : sequence of BlockCyclic
        How each dimension is dealt out.
    coords : sequence of int
        The process.
    item : int
        Bytes of an element.
    order : {"C", "F"}
        Which index runs fastest in the file.
    limit : int
        Bytes of the process in a piece; one element if that is more.
    """
    sizes = [one.local_size(p) for one, p in zip(axes, coords, strict=True)]
    if 0 in sizes:
        return
    from_slowest = list(range(len(axes)))[:: 1 if order == "C" else -1]
    fastest = axes[from_slowest[-1]]
    run = fastest.n if fastest.processes == 1 else min(fastest.block, fastest.n)
    element = max(item, -(-RUN_BYTES // run))
    below, place = 1, len(axes) - 1
    while place and below * sizes[from_slowest[place]] * element <= limit:
        below *= sizes[from_slowest[place]]
        place -= 1
    cut, outer, inner = from_slowest[place], from_slowest[:place], from_slowest[place + 1 :]
    parts = _cuts(axes[cut], coords[cut], max(1, limit // (below * element)))
    for fixed in itertools.product(*(axes[k].global_indices(coords[k]).tolist() for k in outer)):
        chosen = {k: slice(i, i + 1) for k, i in zip(outer, fixed, strict=True)}
        chosen |= {k: slice(0, axes[k].n) for k in inner}
        for part in parts:
            yield tuple({**chosen, cut: part}[k] for k in range(len(axes)))


def _cuts(axis: BlockCyclic, p: int, length: int) -> list[slice]:
    """Ranges of indices in which process `p` has `length` elements or fewer, and in all of them all of its elements."""
    start = axis.local_start(p)
    end, first = start + axis.local_size(p), start + length
    if axis.processes > 1 and length >= axis.block:
        length -= length % axis.block
        first = (start + length) // axis.block * axis.block
    bounds = [start, *range(first, end, length), end]
    return [
        slice(axis.global_index(p, low), axis.global_index(p, high - 1) + 1) for low, high in itertools.pairwise(bounds)
    ]


def first_element(piece: Piece, shape: Sequence[int], order: str) -> int:
    """Number, in the file, of a piece's first element. Not collective."""
    number = 0
    for part, n in zip(piece if order == "C" else piece[::-1], shape if order == "C" else shape[::-1], strict=True):
        number = number * n + part.start
    return number


def local_part(axes: Sequence[BlockCyclic], coords: Sequence[int]) -> Piece:
    """The box of the local array that holds a process's elements. Not collective."""
    return tuple(
        slice(start := one.local_start(p), start + one.local_size(p)) for one, p in zip(axes, coords, strict=True)
    )


def is_darray(axes: Sequence[BlockCyclic]) -> bool:
    """Whether MPI_Type_create_darray can describe this: it knows no array that starts within a block. Not collective."""
    return all((one.processes == 1 or not one.offset % one.block) and one.n < LIMIT for one in axes)


def view_type(axes: Sequence[BlockCyclic], coords: Sequence[int], element: MPI.Datatype, order: str) -> MPI.Datatype:
    """A committed datatype of a process's elements among all of them in the file. Not collective.

    Parameters
    ----------
    axes : sequence of BlockCyclic
        How each dimension is dealt out; the process has some elements of each.
    coords : sequence of int
        The process.
    element : MPI.Datatype
        Of one element.
    order : {"C", "F"}
        Which index runs fastest in the file.
    """
    made = _darray(axes, coords, element, order) if is_darray(axes) else _runs(axes, coords, element, order)
    return made.Commit()


def _darray(axes: Sequence[BlockCyclic], coords: Sequence[int], element: MPI.Datatype, order: str) -> MPI.Datatype:
    """MPI counts processes from the one that has the first block."""
    processes = [one.processes for one in axes]
    turned = [(p - one.source - one.offset // one.block) % one.processes for one, p in zip(axes, coords, strict=True)]
    number = int(np.ravel_multi_index(turned, processes))
    return element.Create_darray(
        math.prod(processes),
        number,
        [one.n for one in axes],
        [MPI.DISTRIBUTE_NONE if n == 1 else MPI.DISTRIBUTE_CYCLIC for n in processes],
        [MPI.DISTRIBUTE_DFLT_DARG if n == 1 else min(one.block, one.n) for one, n in zip(axes, processes, strict=True)],
        processes,
        MPI.ORDER_C if order == "C" else MPI.ORDER_F,
    )


def _runs(axes: Sequence[BlockCyclic], coords: Sequence[int], element: MPI.Datatype, order: str) -> MPI.Datatype:
    """Runs of elements, then runs of these, and so on: one datatype within another."""
    dims = range(len(axes)) if order == "F" else range(len(axes))[::-1]
    made, extent = element.Dup(), element.Get_extent()[1]
    for k in dims:
        start, length = _runs_of(axes[k], coords[k])
        listed = made.Create_hindexed(length.tolist(), (start * extent).tolist())
        made.Free()
        extent *= axes[k].n
        made = listed.Create_resized(0, extent)
        listed.Free()
    return made


def _runs_of(axis: BlockCyclic, p: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the runs of a process start along a dimension, and their lengths; neighbours are one."""
    _, _, start, length = intersections.find("aspen", axis, BlockCyclic(axis.n, axis.n, 1), p).expand().T
    first = np.concatenate([[True], start[1:] != start[:-1] + length[:-1]])
    return start[first], np.add.reduceat(length, np.flatnonzero(first))
