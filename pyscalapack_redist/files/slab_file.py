"""A distributed array moved to or from one file in slabs: a redistribution, and each rank reads or writes one contiguous part.

This is what MPI-IO does inside a collective call on a view, but through this package's own exchange, and with each rank's
reading and writing apart: one that fails says so to the others, where a collective call of MPI-IO may wait for ever.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..engine.redistribute import redistribute
from ..errors import FileError
from ..layout.descriptor import Descriptor
from .agreed import all_must
from .header import FileArray
from .slabs import Slab, slabs
from .view_file import bytes_of, opened

__all__ = ["check", "read", "write"]


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
            part = _dealt(slab, stored, desc, local)
            all_must(everyone, lambda slab=slab, part=part: _write(file, stored, slab, part))  # type: ignore[misc]


def check(everyone: MPIGroup, path: str, stored: FileArray, desc: Descriptor, local: NDArray[Any] | None) -> None:
    """See that a file holds the array, byte by byte. Collective.

    Raises
    ------
    FileError
        What this rank read of it is something else, or it could not read.
    CollectiveError
        That was so on another.
    """
    raw = replace(stored, dtype=np.dtype((np.void, stored.dtype.itemsize)))
    mine = None if local is None else local.view(raw.dtype)
    with opened(everyone, path, MPI.MODE_RDONLY) as file:
        for slab in slabs(desc, raw.dtype.itemsize, raw.order, everyone.size):
            part = _dealt(slab, raw, desc, mine)
            all_must(everyone, lambda slab=slab, part=part: _check(file, path, raw, slab, part))  # type: ignore[misc]


def _dealt(slab: Slab, stored: FileArray, desc: Descriptor, local: NDArray[Any] | None) -> NDArray[Any]:
    """This rank's part of a slab, of those of the local arrays. Collective."""
    part = slab.layout.empty(stored.dtype, order=stored.order)
    # On the whole communicator: not every slab has a part for every rank.
    redistribute(desc[slab.part], slab.layout, dtype=stored.dtype, comm=desc.grid.comm)(local, part)
    return part


def _read(file: MPI.File, path: str, stored: FileArray, slab: Slab, dtype: np.dtype[Any]) -> NDArray[Any]:
    part = slab.layout.empty(stored.dtype, order=stored.order)
    if part.size:
        status = MPI.Status()
        place = stored.offset + slab.first(stored.shape, stored.order) * stored.dtype.itemsize
        file.Read_at(place, [bytes_of(part, stored.order), part.nbytes, MPI.BYTE], status)
        if status.Get_count(MPI.BYTE) != part.nbytes:
            raise FileError(f"{path} ended while it was read: {status.Get_count(MPI.BYTE)} bytes of {part.nbytes} came")
    return part.astype(dtype, order="K", copy=False)


def _check(file: MPI.File, path: str, stored: FileArray, slab: Slab, part: NDArray[Any]) -> None:
    if part.size:
        wanted = bytes_of(part, stored.order)
        found = bytes_of(_read(file, path, stored, slab, stored.dtype), stored.order)
        if not np.array_equal(found, wanted):
            place = stored.offset + slab.first(stored.shape, stored.order) * stored.dtype.itemsize
            raise FileError(
                f"MPI said that it had written all, but byte {place + int(np.argmax(found != wanted))} is not what it should "
                "be: is the disk full, or the length of files limited? through='slabs' would tell"
            )


def _write(file: MPI.File, stored: FileArray, slab: Slab, part: NDArray[Any]) -> None:
    if part.size:
        status = MPI.Status()
        place = stored.offset + slab.first(stored.shape, stored.order) * stored.dtype.itemsize
        file.Write_at(place, [bytes_of(part, stored.order), part.nbytes, MPI.BYTE], status)
        if status.Get_count(MPI.BYTE) != part.nbytes:
            raise FileError(
                f"only {status.Get_count(MPI.BYTE)} bytes of {part.nbytes} could be written: is the disk full?"
            )
