"""A distributed array moved to or from one file in slabs: a redistribution, and each rank reads or writes one contiguous part.

This is what MPI-IO does inside a collective call on a view, but through this package's own exchange, and with each rank's
reading and writing apart: one that fails says so to the others, where a collective call of MPI-IO may wait for ever.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..engine.redistribute import redistribute
from ..errors import FileError
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .agreed import all_must
from .header import FileArray, Region
from .mpi_file import bytes_of, opened

__all__ = ["SLAB_BYTES", "Slab", "read", "slabs", "write"]

SLAB_BYTES = 16 * 2**20  # of each rank that reads or writes
# Of a window, what lies between two runs is read as well where that takes no longer than another call.
GAP_BYTES = 2**14
SPAN_BYTES = 4 * 2**20


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
    with opened(everyone, path, MPI.MODE_RDONLY) as file:
        for slab in slabs(desc, stored.dtype.itemsize, stored.order, everyone.size):
            part = all_must(everyone, lambda slab=slab: _read(file, path, stored, slab, dtype))  # type: ignore[misc]
            redistribute(slab.layout, desc[slab.part], dtype=dtype, comm=desc.grid.comm)(part, out)


def write(everyone: MPIGroup, path: str, stored: FileArray, desc: Descriptor, local: NDArray[Any] | None) -> None:
    """Write this rank's part into a file that is there, and see it on the disk. Collective.

    Raises
    ------
    FileError
        MPI could not, on this rank.
    CollectiveError
        It could not on another.
    """
    with opened(everyone, path, MPI.MODE_WRONLY) as file:
        for slab in slabs(desc, stored.dtype.itemsize, stored.order, everyone.size):
            part = _filled(slab, stored, desc, local)
            all_must(everyone, lambda slab=slab, part=part: _write(file, stored, slab, part))  # type: ignore[misc]


def _filled(slab: Slab, stored: FileArray, desc: Descriptor, local: NDArray[Any] | None) -> NDArray[Any]:
    """This rank's part of a slab, of those of the local arrays. Collective."""
    part = slab.layout.empty(stored.dtype, order=stored.order)
    # On the whole communicator: not every slab has a part for every rank.
    redistribute(desc[slab.part], slab.layout, dtype=stored.dtype, comm=desc.grid.comm)(local, part)
    return part


def _read(file: MPI.File, path: str, stored: FileArray, slab: Slab, dtype: np.dtype[Any]) -> NDArray[Any]:
    part, item = slab.layout.empty(stored.dtype, order=stored.order), stored.dtype.itemsize
    if part.size:
        raw = _from_slowest(part, stored)
        for span in stored.spans(slab.own, GAP_BYTES // item, SPAN_BYTES // item):
            box = raw[span.part]
            among = box if span.length == box.size else np.empty(span.length, raw.dtype)
            status = MPI.Status()
            file.Read_at(span.start, [bytes_of(among, "C"), among.nbytes, MPI.BYTE], status)
            came = status.Get_count(MPI.BYTE)
            if came != among.nbytes:
                raise FileError(f"{path} ended while it was read: {came} bytes of {among.nbytes} came")
            if among is not box:
                box[...] = np.ndarray(box.shape, raw.dtype, among, strides=span.strides)
    return part.astype(dtype, order="K", copy=False)


def _from_slowest(part: NDArray[Any], stored: FileArray) -> NDArray[Any]:
    """The same elements with dimensions from the slowest to the fastest, as bytes: a copy of records would leave gaps out."""
    raw = part.view((np.void, stored.dtype.itemsize))
    return raw if stored.order == "C" else raw.T


def _write(file: MPI.File, stored: FileArray, slab: Slab, part: NDArray[Any]) -> None:
    if part.size:
        raw = _from_slowest(part, stored)
        for span in stored.spans(slab.own, 0, part.size):
            box, status = raw[span.part], MPI.Status()
            file.Write_at(span.start, [bytes_of(box, "C"), box.nbytes, MPI.BYTE], status)
            went = status.Get_count(MPI.BYTE)
            if went != box.nbytes:
                raise FileError(f"only {went} bytes of {box.nbytes} could be written: is the disk full?")


# -- the slabs


class Slab(NamedTuple):
    """A slab: what it is of the array, and its layout over the ranks that read or write it.

    Attributes
    ----------
    part : tuple of slice
        Of the array.
    layout : Descriptor
        One contiguous part for each of these ranks, in the order in which they are in the file.
    """

    part: Region
    layout: Descriptor

    @property
    def own(self) -> Region:
        """This rank's part, in the whole array; empty slices where it has none."""
        coords = self.layout.coords
        if coords is None:
            return tuple(slice(0, 0) for _ in self.part)
        starts = [whole.start + p * block for whole, block, p in zip(self.part, self.layout.block, coords, strict=True)]
        return tuple(slice(low, low + n) for low, n in zip(starts, self.layout.local_shape, strict=True))


def slabs(desc: Descriptor, item: int, order: str, ranks: int) -> Iterator[Slab]:
    """The slabs of an array, in the order in which they are in the file. Not collective; the same on all ranks.

    A slab has at most `ranks` times SLAB_BYTES, or one element for each rank. No part is as large as twice the slab's
    bytes by `ranks`, unless it is one element.

    Parameters
    ----------
    desc : Descriptor
        Layout of the array.
    item : int
        Bytes of an element.
    order : {"C", "F"}
        Which index runs fastest in the file.
    ranks : int
        How many ranks read or write: the first ones of the communicator.
    """
    grids: dict[tuple[int, ...], ProcessGrid] = {}
    for part in _boxes(desc.shape, max(ranks, SLAB_BYTES * ranks // item), order, ranks):
        shape = [extent.stop - extent.start for extent in part]
        processes = _dealt(shape, ranks) if order == "C" else _dealt(shape[::-1], ranks)[::-1]
        if processes not in grids:
            grids[processes] = ProcessGrid(processes, desc.grid.comm, order="row" if order == "C" else "column")
        yield Slab(part, Descriptor(shape, None, grids[processes]))


def _boxes(shape: Sequence[int], limit: int, order: str, ranks: int) -> Iterator[Region]:
    """Boxes of at most `limit` elements that are contiguous in the file, one after another."""
    if 0 in shape:
        return
    from_slowest = list(range(len(shape)))[:: 1 if order == "C" else -1]
    below, place = 1, len(shape) - 1
    while place and below * shape[from_slowest[place]] <= limit:
        below *= shape[from_slowest[place]]
        place -= 1
    cut, outer = from_slowest[place], from_slowest[:place]
    length = _length(shape[cut], limit // below, ranks)
    for fixed in itertools.product(*(range(shape[k]) for k in outer)):
        chosen = {k: slice(i, i + 1) for k, i in zip(outer, fixed, strict=True)}
        for low in range(0, shape[cut], length):
            chosen[cut] = slice(low, min(low + length, shape[cut]))
            yield tuple(chosen.get(k, slice(0, n)) for k, n in enumerate(shape))


def _length(n: int, most: int, ranks: int) -> int:
    """How many indices of the dimension that is cut a slab is to have: `most` or fewer, so that hardly a rank is idle.

    Either every rank gets as many of them as the others, or as many ranks share each.
    """
    if n <= most:
        return n
    return most - most % ranks if most >= ranks else ranks // -(-ranks // most)


def _dealt(shape: Sequence[int], ranks: int) -> tuple[int, ...]:
    """Processes along each dimension, the slowest first, so that each has one contiguous part.

    The slowest dimension is dealt out. While there are fewer indices than processes for them, each index has several,
    among which the next dimension is dealt out.
    """
    made = []
    for n in shape:
        block = -(-n // ranks)
        made.append(-(-n // block))
        ranks = ranks // n if block == 1 else 1
    return tuple(made)
