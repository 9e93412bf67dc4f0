"""A distributed array moved to or from one file by collective MPI-IO, each rank through the view that its layout is.

MPI does all there is to do. How fast, and what becomes of the others when one rank fails in the middle, is up to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..comm.progress import blocking
from ..errors import FileError
from ..layout.blockcyclic import BlockCyclic
from ..layout.descriptor import Descriptor
from . import view as views
from .agreed import all_must, as_file_error, largest
from .header import FileArray
from .view import first_element, local_part, pieces, view_type

__all__ = ["bytes_of", "opened", "read", "write"]

# ROMIO's data sieving locks the file to write, which some file systems cannot; together ranks write without holes.
HINTS = {"romio_ds_write": "disable", "romio_cb_write": "enable"}


class _Part(NamedTuple):
    """One piece of this rank: its elements in the file, and the box of the local array where they belong."""

    first: int
    axes: tuple[BlockCyclic, ...]
    box: tuple[slice, ...]


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
        target = out[part.box]
        direct = dtype == stored.dtype and _is_contiguous(target, stored.order)
        buffer = target if direct else np.empty(target.shape, stored.dtype, order=stored.order)  # type: ignore[call-overload]
        status = MPI.Status()
        file.Read_at_all(0, [bytes_of(buffer, stored.order), buffer.nbytes, MPI.BYTE], status)
        if status.Get_count(MPI.BYTE) not in (buffer.nbytes, MPI.UNDEFINED):
            raise FileError(f"{path} ended while it was read: {status.Get_count(MPI.BYTE)} bytes of {buffer.nbytes}")
        if not direct:
            target[...] = buffer

    with opened(everyone, path, MPI.MODE_RDONLY) as file:
        _transfer(everyone, file, stored, desc, read_part)


def write(everyone: MPIGroup, path: str, stored: FileArray, desc: Descriptor, local: NDArray[Any] | None) -> None:
    """Write this rank's part into a file that is there, and see it on the disk. Collective.

    MPI may fail and not say so: `slab_file.check` finds out.

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
        buffer = np.asarray(raw[part.box], order=stored.order)  # type: ignore[call-overload]
        file.Write_at_all(0, [bytes_of(buffer, stored.order), buffer.nbytes, MPI.BYTE])

    with opened(everyone, path, MPI.MODE_WRONLY) as file:
        _transfer(everyone, file, stored, desc, write_part)


@contextlib.contextmanager
def opened(everyone: MPIGroup, path: str, mode: int) -> Iterator[MPI.File]:
    """The file, closed in the end; one that was written is on the disk then, or every rank raises. Collective."""
    file = all_must(everyone, lambda: _open(everyone, path, mode))
    try:
        yield file
        if mode == MPI.MODE_WRONLY:
            all_must(everyone, lambda: blocking(file.Sync))
    except BaseException:
        blocking(file.Close)
        raise
    if mode == MPI.MODE_WRONLY:
        all_must(everyone, lambda: blocking(file.Close))
    else:
        blocking(file.Close)


def _open(everyone: MPIGroup, path: str, mode: int) -> MPI.File:
    """The file, whose errors are exceptions. Collective."""
    info = MPI.Info.Create()
    try:
        for name, value in HINTS.items():
            info.Set(name, value)
        file = blocking(lambda: MPI.File.Open(everyone.comm, path, mode, info))
    finally:
        info.Free()
    file.Set_errhandler(MPI.ERRORS_RETURN)
    return file


def _transfer(
    everyone: MPIGroup, file: MPI.File, stored: FileArray, desc: Descriptor, move: Callable[[_Part | None], None]
) -> None:
    """Move all parts; a rank with fewer of them than others takes part with nothing. Collective."""
    parts = all_must(everyone, lambda: _parts(stored, desc))
    rounds = largest(everyone, len(parts))
    item = stored.dtype.itemsize
    element = MPI.BYTE.Create_contiguous(item).Commit()
    try:
        error: Exception | None = None
        for k in range(rounds):
            part = parts[k] if k < len(parts) else None
            view = element
            try:
                if part is not None and error is None:
                    assert desc.coords is not None
                    view = view_type(part.axes, desc.coords, element, stored.order)
            except Exception as caught:
                error = as_file_error(caught)
            everyone.must_all(error)
            try:
                start = stored.offset + (0 if part is None else part.first * item)
                blocking(lambda: file.Set_view(start, element, view, "native"))  # noqa: B023
                blocking(lambda: move(part))  # noqa: B023
            except Exception as caught:
                error = as_file_error(caught)
            finally:
                if view is not element:
                    view.Free()
        everyone.must_all(error)
    finally:
        element.Free()


def _parts(stored: FileArray, desc: Descriptor) -> list[_Part]:
    if desc.coords is None:
        return []
    made = []
    for piece in pieces(desc.distributions, desc.coords, stored.dtype.itemsize, stored.order, views.PIECE_BYTES):
        axes = desc[piece].distributions
        made.append(_Part(first_element(piece, stored.shape, stored.order), axes, local_part(axes, desc.coords)))
    return made


def _is_contiguous(array: NDArray[Any], order: str) -> bool:
    return array.flags.c_contiguous if order == "C" else array.flags.f_contiguous


def bytes_of(array: NDArray[Any], order: str) -> NDArray[np.uint8]:
    """The memory of an array that is contiguous in this order."""
    flat = array.reshape(-1, order=order)  # type: ignore[call-overload]
    made: NDArray[np.uint8] = flat.view(np.uint8)
    return made
