"""A distributed array moved to or from one file by collective MPI-IO, each rank through the view that its layout is.

MPI does all there is to do. How fast, and what becomes of the others when one rank fails in the middle, is up to it. The
view is a darray where MPI has a name for the layout, else runs of indices. A rank's part is cut into regions, so that
neither the staging memory nor the lists that MPI makes of a view grow with the array.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from .. import intersections
from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..comm.progress import blocking
from ..errors import FileError
from ..layout.blockcyclic import BlockCyclic
from ..layout.descriptor import Descriptor
from ..layout.dimensions import Distribution, local_part
from ..layout.irregular import Irregular
from .agreed import all_must, as_file_error, largest
from .header import FileArray, Region
from .mpi_file import bytes_of, opened

__all__ = ["is_darray", "read", "regions", "view_type", "write"]

REGION_BYTES = 16 * 2**20
RUN_BYTES = 64  # what a run of elements costs at least: MPI lists each one
LIMIT = 2**31


class _Part(NamedTuple):
    """What this rank moves at a time: the byte where it begins in the file, its datatype there, and its local array's part."""

    start: int
    axes: tuple[Distribution, ...]
    coords: tuple[int, ...]
    local: Region


def read(
    everyone: MPIGroup,
    path: str,
    stored: FileArray,
    desc: Descriptor,
    out: NDArray[Any] | None,
    dtype: np.dtype[Any],
) -> None:
    """Read this rank's part of a file into `out`, an array of `dtype`. Collective.

    Raises
    ------
    FileError
        MPI could not, on this rank.
    CollectiveError
        It could not on another.
    """

    def read_part(part: _Part | None) -> None:
        if part is None or out is None:
            file.Read_at_all(0, [np.empty(0, np.uint8), 0, MPI.BYTE])
            return
        target = out[part.local]
        direct = dtype == stored.dtype and _is_contiguous(target, stored.order)
        buffer = target if direct else np.empty(target.shape, stored.dtype, order=stored.order)  # type: ignore[call-overload]
        status = MPI.Status()
        file.Read_at_all(0, [bytes_of(buffer, stored.order), buffer.nbytes, MPI.BYTE], status)
        if status.Get_count(MPI.BYTE) not in (buffer.nbytes, MPI.UNDEFINED):
            raise FileError(f"{path} ended while it was read: {status.Get_count(MPI.BYTE)} bytes of {buffer.nbytes}")
        if not direct:
            target[...] = buffer

    with opened(everyone, everyone.comm, path, MPI.MODE_RDONLY) as file:
        _transfer(everyone, file, stored, desc, read_part)


def write(everyone: MPIGroup, path: str, stored: FileArray, desc: Descriptor, local: NDArray[Any] | None) -> None:
    """Write this rank's part into a file that is there, and see it on the disk. Collective.

    MPI may fail and not say so: `slabs.check` finds out.

    Raises
    ------
    FileError
        MPI could not, on this rank.
    CollectiveError
        It could not on another.
    """

    def write_part(part: _Part | None) -> None:
        if part is None or local is None:
            file.Write_at_all(0, [np.empty(0, np.uint8), 0, MPI.BYTE])
            return
        # As bytes: a copy of records would leave out what lies between their fields.
        raw = local.view((np.void, stored.dtype.itemsize))
        buffer = np.asarray(raw[part.local], order=stored.order)  # type: ignore[call-overload]
        file.Write_at_all(0, [bytes_of(buffer, stored.order), buffer.nbytes, MPI.BYTE])

    with opened(everyone, everyone.comm, path, MPI.MODE_WRONLY) as file:
        _transfer(everyone, file, stored, desc, write_part)


def _transfer(
    everyone: MPIGroup, file: MPI.File, stored: FileArray, desc: Descriptor, move: Callable[[_Part | None], None]
) -> None:
    """Move all parts; a rank with fewer of them than others takes part with nothing. Collective."""
    parts = all_must(everyone, lambda: _parts(stored, desc))
    rounds = largest(everyone, len(parts))
    element = MPI.BYTE.Create_contiguous(stored.dtype.itemsize).Commit()
    try:
        error: Exception | None = None
        for k in range(rounds):
            part = parts[k] if k < len(parts) else None
            view = element
            try:
                if part is not None and error is None:
                    view = view_type(part.axes, part.coords, element, stored.order)
            except Exception as caught:
                error = as_file_error(caught)
            everyone.raise_on_all(error)
            try:
                start = stored.offset if part is None else part.start
                blocking(lambda: file.Set_view(start, element, view, "native"))  # noqa: B023
                blocking(lambda: move(part))  # noqa: B023
            except Exception as caught:
                error = as_file_error(caught)
            finally:
                if view is not element:
                    view.Free()
        everyone.raise_on_all(error)
    finally:
        element.Free()


def _parts(stored: FileArray, desc: Descriptor) -> list[_Part]:
    if desc.coords is None:
        return []
    made = []
    for region in regions(desc.distributions, desc.coords, stored.dtype.itemsize, stored.order, REGION_BYTES):
        axes = desc[region].distributions
        made.append(_Part(stored.start_of(region), axes, desc.coords, local_part(axes, desc.coords)))
    return made


def _is_contiguous(array: NDArray[Any], order: str) -> bool:
    return array.flags.c_contiguous if order == "C" else array.flags.f_contiguous


# -- the view


def regions(axes: Sequence[Distribution], coords: Sequence[int], item: int, order: str, limit: int) -> Iterator[Region]:
    """Parts of the array, one after another in the file, with at most `limit` bytes of this process each. Not collective.

    Together they hold all elements of the process. Cuts are between its blocks where these are short enough.

    Parameters
    ----------
    axes : sequence of BlockCyclic or Irregular
        How each dimension is dealt out.
    coords : sequence of int
        The process.
    item : int
        Bytes of an element.
    order : {"C", "F"}
        Which index runs fastest in the file.
    limit : int
        Bytes of the process in a region; one element if that is more.
    """
    sizes = [axis.local_size(p) for axis, p in zip(axes, coords, strict=True)]
    if 0 in sizes:
        return
    from_slowest = list(range(len(axes)))[:: 1 if order == "C" else -1]
    fastest = axes[from_slowest[-1]]
    element = max(item, -(-RUN_BYTES // _usual_run(fastest)))
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


def _usual_run(axis: Distribution) -> int:
    """Neighbouring elements of a process along a dimension: in a block, or in one of the usual size."""
    if axis.processes == 1:
        return axis.n
    return max(1, axis.n // len(axis.block.sizes)) if isinstance(axis, Irregular) else min(axis.block, axis.n)


def _cuts(axis: Distribution, p: int, length: int) -> list[slice]:
    """Ranges of indices in which process `p` has `length` elements or fewer, and in all of them all of its elements."""
    start = axis.local_start(p)
    end, first = start + axis.local_size(p), start + length
    if isinstance(axis, BlockCyclic) and axis.processes > 1 and length >= axis.block:
        length -= length % axis.block
        first = (start + length) // axis.block * axis.block
    bounds = [start, *range(first, end, length), end]
    return [
        slice(axis.global_index(p, low), axis.global_index(p, high - 1) + 1) for low, high in itertools.pairwise(bounds)
    ]


def is_darray(axes: Sequence[Distribution]) -> TypeGuard[Sequence[BlockCyclic]]:
    """Whether MPI_Type_create_darray can describe this: blocks of one size, the first of them whole. Not collective."""
    return all(
        isinstance(axis, BlockCyclic) and (axis.processes == 1 or not axis.offset % axis.block) and axis.n < LIMIT
        for axis in axes
    )


def view_type(axes: Sequence[Distribution], coords: Sequence[int], element: MPI.Datatype, order: str) -> MPI.Datatype:
    """A committed datatype of a process's elements among all of them in the file. Not collective.

    Parameters
    ----------
    axes : sequence of BlockCyclic or Irregular
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
    processes = [axis.processes for axis in axes]
    turned = [
        (p - axis.source - axis.offset // axis.block) % axis.processes for axis, p in zip(axes, coords, strict=True)
    ]
    number = int(np.ravel_multi_index(turned, processes))
    return element.Create_darray(
        math.prod(processes),
        number,
        [axis.n for axis in axes],
        [MPI.DISTRIBUTE_NONE if n == 1 else MPI.DISTRIBUTE_CYCLIC for n in processes],
        [
            MPI.DISTRIBUTE_DFLT_DARG if n == 1 else min(axis.block, axis.n)
            for axis, n in zip(axes, processes, strict=True)
        ],
        processes,
        MPI.ORDER_C if order == "C" else MPI.ORDER_F,
    )


def _runs(axes: Sequence[Distribution], coords: Sequence[int], element: MPI.Datatype, order: str) -> MPI.Datatype:
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


def _runs_of(axis: Distribution, p: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the runs of a process start along a dimension, and their lengths; neighbours are one."""
    if isinstance(axis, Irregular):
        own = axis.intervals(p)
        return own.begin, own.end - own.begin
    _, _, start, length = intersections.find("aspen", axis, BlockCyclic(axis.n, axis.n, 1), p).expand().T
    first = np.concatenate([[True], start[1:] != start[:-1] + length[:-1]])
    return start[first], np.add.reduceat(length, np.flatnonzero(first))
