"""save(): a distributed array into a file, which gets its name when it is complete, or into a window of one that is there."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO, overload

import numpy as np
from numpy.typing import NDArray

from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..engine.arguments import group_of_all
from ..errors import ArrayError, FileError
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed, takes_distributed
from ..layout.given import LayoutArgument, layout_on
from . import slabs
from .agreed import (
    agree_on,
    check_not_foreign,
    check_through,
    checked_order,
    checked_path,
    fitting,
    from_one,
    is_hdf5,
    is_npy,
)
from .hdf5 import DATASET, Hdf5
from .header import FileArray, npy_header
from .leftovers import found_beside, remove_ended, temporary_name
from .one_file import one_file
from .part import FilePart, Window

__all__ = ["save"]

NOT_OFFERED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@overload
def save(
    array: Distributed,
    path: str | os.PathLike[str],
    /,
    *,
    order: str | None = None,
    dataset: str | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    offset: int | None = None,
    through: str = "slabs",
) -> None: ...


@overload
def save(
    desc: LayoutArgument,
    local: NDArray[Any] | None,
    path: str | os.PathLike[str],
    *,
    order: str | None = None,
    dataset: str | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    offset: int | None = None,
    through: str = "slabs",
    comm: MPI.Intracomm | None = None,
) -> None: ...


@takes_distributed("desc", "local")
def save(
    desc: LayoutArgument,
    local: NDArray[Any] | None,
    path: str | os.PathLike[str],
    *,
    order: str | None = None,
    dataset: str | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    offset: int | None = None,
    through: str = "slabs",
    comm: MPI.Intracomm | None = None,
) -> None:
    """Write an array into a file, each rank its own part. Collective over the communicator of the descriptor's grid.

    In place of `desc` and `local` it takes a `DistributedArray`.

    With `window` it writes into a file that is there, in place: what is outside the window stays as it is, and nothing is
    written unless all ranks find all arguments right. A program that is killed meanwhile, or cannot write on, leaves some
    elements of the window new and others old, and of an HDF5 file perhaps one that cannot be opened.

    The suffix of the name selects the format, as for `load`, and one that is of a format which is not written here, such as
    .npz or .csv, is refused. Without `window` the file is written in the same directory under another name
    (.NAME.MACHINE.PID.START.TOKEN.part), brought to the disk, and renamed by the first rank: whatever goes wrong before, a
    file that was there stays as it was. What a killed program has left there is removed by the next call for the same
    file, if a rank runs on the machine that had the first rank then; else a RuntimeWarning names it.

    Parameters
    ----------
    desc : Descriptor, or nine integers
        Layout of the array. Of a sub-array, only that is written. Of copies, which are taken to be equal, each element is
        written once.
    local : ndarray or None
        This rank's local array, of any strides; None on a rank outside the grid.
    path : str or path
        The file; the same on all ranks, all of which must see it. Its dtype is that of `local`, byte order included.
    order : {"C", "F"}, optional
        Which index is to run fastest in a .npy or raw file: the last ("C", the default) or the first. In HDF5 it is always
        the last. With `window`, which does in a raw file.
    dataset : str, optional
        Name of the data set in an HDF5 file; "data" by default. What else such a file has stays in it.
    window : slice or tuple of slice, optional
        Part of the file's array to write, of the shape of `desc`, as for `load`.
    shape : sequence of int, optional
        With `window`: of the array in a raw file, which does not tell it.
    offset : int, optional
        With `window`: byte of a raw file where the array begins; more may then follow it.
    through : {"slabs"}
        How the file is written, as for `load`.
    comm : MPI.Intracomm, optional
        As for `load`.

    Raises
    ------
    FileError
        The file cannot be made or written: no such directory, no right, no space; or it has another dtype than `local`, or
        no such window; or ranks see different files of that name, or it was replaced meanwhile. On all ranks, or a
        CollectiveError on those that could write.
    ArrayError, DescriptorError, LibraryError
        An argument is wrong on this rank, or h5py is missing.
    CollectiveError
        An argument is wrong on another rank, or a rank could not write.
    """
    desc = layout_on(desc, comm)
    everyone, part = group_of_all(desc), FilePart(window, shape, order, offset)
    error, name, dtype = None, "", None
    try:
        name = checked_path(path, dataset)
        check_not_foreign(name)
        check_through(through)
        if window is None:
            _check_whole(name, part)
        else:
            part.check(name)
        local = fitting("local", local, desc)
        dtype = None if local is None else local.dtype
    except Exception as caught:
        error = caught
    agree_on(everyone, desc, ("save", name, *part.told, dataset), dtype, error)
    dtype = everyone.share(dtype)
    if dtype is None:
        raise ArrayError(
            "local is None on every rank, so that the dtype is not known: pass an empty array of it on one"
        )
    if window is None:
        _save_whole(everyone, name, FileArray(dtype, desc.shape, order or "C", 0), desc, local, dataset)
    else:
        _save_window(everyone, name, part, desc, local, dtype, dataset)


def _check_whole(name: str, part: FilePart) -> None:
    """Refuse what is wrong with the arguments for a new file."""
    for argument, value in (("shape", part.shape), ("offset", part.offset)):
        if value is not None:
            raise FileError(f"{argument} = {value!r} is for window=: without it the file is the array")
    if part.order is not None:
        checked_order(part.order)
    if part.order == "F" and is_hdf5(name):
        raise FileError(f"order = 'F': in {name} the last index runs fastest, as always in HDF5; omit it")


def _save_window(
    everyone: MPIGroup,
    name: str,
    part: FilePart,
    desc: Descriptor,
    local: NDArray[Any] | None,
    dtype: np.dtype[Any],
    dataset: str | None,
) -> None:
    """Write a part of the array in a file that is there. Collective."""
    file = Hdf5(everyone, name, dataset or DATASET) if is_hdf5(name) else None
    with one_file(everyone, name, True, file.callers if file else None):
        stored = file.stored(desc, part) if file else from_one(everyone, lambda: part.found(name, desc, dtype))
        if stored.dtype != dtype:
            raise FileError(
                f"local has dtype {_spelled(dtype)}, but {name} has elements of {_spelled(stored.dtype)}: to write into a "
                "window pass local.astype of that dtype"
            )
        if file:
            file.write(stored, desc, local)
        else:
            slabs.write(everyone, name, stored, desc, local)


def _spelled(dtype: np.dtype[Any]) -> str:
    """A dtype with its byte order."""
    return str(dtype) if dtype.names else dtype.str


def _save_whole(
    everyone: MPIGroup,
    name: str,
    wanted: FileArray,
    desc: Descriptor,
    local: NDArray[Any] | None,
    dataset: str | None,
) -> None:
    """Write a new file in place of what has its name. Collective."""
    target, temporary, left = from_one(everyone, lambda: _place(name))
    if left:
        remove_ended(everyone, left, name)
    try:
        if is_hdf5(name):
            file = Hdf5(everyone, temporary, dataset or DATASET, title=name)
            file.create(target, wanted)
            file.write(wanted, desc, local)
        else:
            stored = from_one(everyone, lambda: _begin(temporary, target, name, wanted))
            with one_file(everyone, temporary, writes=True, elsewhere=("size",)):  # its name is random
                slabs.write(everyone, temporary, stored, desc, local)
        from_one(everyone, lambda: _finish(temporary, target))
    except BaseException:
        if everyone.rank == 0:
            with suppress(OSError):
                os.unlink(temporary)
        raise


def _place(name: str) -> tuple[str, str, list[str]]:
    """The file that is to be replaced: what a link leads to. A temporary name for it, and what has such a name already."""
    folder = os.path.dirname(name) or "."
    if not os.path.isdir(folder):
        raise FileError(f"{name} cannot be written: there is no directory {folder}; make it first")
    target = os.path.realpath(name)
    if os.path.lexists(target) and not stat.S_ISREG(os.stat(target).st_mode):
        raise FileError(f"{target} is not an ordinary file and would be replaced: give another path")
    return target, temporary_name(target), found_beside(target)


def _opener(target: str) -> Callable[[str, int], int]:
    """Makes a file that nobody may read who may not read the one that it is to replace."""
    mode = stat.S_IMODE(os.stat(target).st_mode) & 0o666 if os.path.exists(target) else 0o666
    return lambda path, flags: os.open(path, flags, mode | stat.S_IWUSR | stat.S_IRUSR)


def _begin(temporary: str, target: str, name: str, wanted: FileArray) -> FileArray:
    """Make the temporary file with its header and all its space, so that a full disk is known before ranks write."""
    header = npy_header(wanted.dtype, wanted.shape, wanted.order) if is_npy(name) else b""
    stored = replace(wanted, offset=len(header))
    with open(temporary, "xb", opener=_opener(target)) as file:
        file.write(header)
        file.flush()
        if stored.end > stored.offset:
            _take_room(file, stored.end, name)
    return stored


def _take_room(file: BinaryIO, nbytes: int, name: str) -> None:
    """Make the file that long, on a system that can also see to it that the disk has room."""
    if not hasattr(os, "posix_fallocate"):
        file.truncate(nbytes)
        return
    try:
        os.posix_fallocate(file.fileno(), 0, nbytes)
    except OSError as error:
        if error.errno not in NOT_OFFERED:
            raise FileError(f"{name}: there is no room for {nbytes} bytes: {error}") from error
        file.truncate(nbytes)


def _finish(temporary: str, target: str) -> None:
    """Give the complete file its name. On the first rank."""
    if os.path.exists(target):
        shutil.copymode(target, temporary)
    os.replace(temporary, target)
    folder = os.open(os.path.dirname(target), os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system does this for a directory
            os.fsync(folder)
    finally:
        os.close(folder)
