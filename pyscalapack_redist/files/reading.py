"""load(): a distributed array from a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..comm.mpi import MPI
from ..engine.arguments import group_of_all
from ..engine.arrays import made_for
from ..errors import FileError
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed
from ..layout.given import LayoutArgument, layout_on
from . import slabs
from .agreed import (
    agree_on,
    all_must,
    check_not_foreign,
    check_through,
    checked_path,
    fitting,
    from_one,
    is_hdf5,
)
from .hdf5 import DATASET, Hdf5
from .one_file import one_file
from .part import FilePart, Window

__all__ = ["load"]

D = TypeVar("D", bound=Distributed)


@overload
def load(
    array: D,
    path: str | os.PathLike[str],
    /,
    *,
    order: str | None = None,
    offset: int | None = None,
    dataset: str | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    through: str = "slabs",
) -> D: ...


@overload
def load(
    desc: LayoutArgument,
    path: str | os.PathLike[str],
    out: NDArray[Any] | None = None,
    *,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    offset: int | None = None,
    dataset: str | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    through: str = "slabs",
    comm: MPI.Intracomm | None = None,
) -> NDArray[Any] | None: ...


def load(
    desc: LayoutArgument | Distributed,
    path: str | os.PathLike[str],
    out: NDArray[Any] | None = None,
    *,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    offset: int | None = None,
    dataset: str | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    through: str = "slabs",
    comm: MPI.Intracomm | None = None,
) -> Any:
    """Read an array from a file, each rank its own part. Collective over the communicator of the descriptor's grid.

    In place of `desc` and `out` it takes a `DistributedArray`, reads into that, and returns it.

    The suffix of the name selects the format: .npy (NumPy's), .h5 or .hdf5 (HDF5, by h5py), anything else raw binary. One
    of a format that is not read here, such as .npz or .csv, is refused, unless `offset` says where in it elements begin.
    .npy and raw files are read by MPI-IO. HDF5 is read in parallel where h5py was built with MPI; else the first rank reads
    for all, and a RuntimeWarning says so.

    Parameters
    ----------
    desc : Descriptor, or nine integers
        Layout to reach. The file, or its window, holds an array of its shape: of a sub-array, of the sub-array's.
    path : str or path
        The file; the same on all ranks, all of which must see it.
    out : ndarray, optional
        This rank's local array to read into; needed where `desc` is of a sub-array, of which only that is written.
    dtype : dtype, optional
        Of the result; by default that of `out`, or of the file in the machine's byte order. What the file has must
        be safe to convert to it (`numpy.can_cast`). A raw file's elements are of this dtype, and it must be given, there or
        by `out`.
    order : {"C", "F"}, optional
        Which index runs fastest in a raw file: the last ("C", the default) or the first. A .npy file has it in its header.
    offset : int, optional
        Byte of a raw file where the array begins; more may then follow it. Without it, the file is the array.
    dataset : str, optional
        Name of the data set in an HDF5 file; "data" by default.
    window : slice or tuple of slice, optional
        Part of the file's array to read, such as `np.s_[10:50, :]`; the rest is not. As in `desc[10:50, :]`, negative
        bounds count from the end, `...` stands for all dimensions that are not named, and a step is 1.
    shape : sequence of int, optional
        With `window`: of the array in a raw file, which does not tell it.
    through : {"slabs"}
        How the file is read: each rank a contiguous part of it, which is then redistributed.
    comm : MPI.Intracomm, optional
        Communicator that holds the grid, and then all of its ranks take part; needed where `desc` is nine integers, as for
        `redistribute`, or None on some ranks.

    Returns
    -------
    ndarray or None
        `out`, or this rank's new local array, in Fortran order; None on a rank outside the grid.

    Raises
    ------
    FileError
        The file is not there, cut short, of another shape or kind, or holds Python objects; or ranks see different files of
        that name, or it was replaced or changed while it was read, and `out` has parts of it. On all ranks.
    ArrayError, DescriptorError, LibraryError
        An argument is wrong on this rank, or h5py is missing.
    CollectiveError
        An argument is wrong on another rank, or a rank could not read.
    """
    if isinstance(desc, Distributed):
        if out is not None:
            raise TypeError("load(array, path) reads into the array: give out= with a Descriptor only")
        where: dict[str, Any] = {"order": order, "offset": offset, "window": window, "shape": shape}
        load(desc.desc, path, desc.local, dtype=dtype, dataset=dataset, through=through, **where)
        return desc
    desc = layout_on(desc, comm)
    everyone, part = group_of_all(desc), FilePart(window, shape, order, offset)
    error, name, wanted, fitted = None, "", None, None
    try:
        name = checked_path(path, dataset)
        if offset is None:
            check_not_foreign(name, reads=True)
        wanted = _wanted(name, out, dtype)
        check_through(through)
        part.check(name)
        fitted = None if out is None else fitting("out", out, desc)
    except Exception as caught:
        error = caught
    agree_on(everyone, desc, ("load", name, *part.told, dataset), wanted, error)
    wanted = everyone.share(wanted)
    file = Hdf5(everyone, name, dataset or DATASET) if is_hdf5(name) else None
    with one_file(everyone, name, ranks=file.callers if file else None):
        stored = file.stored(desc, part) if file else from_one(everyone, lambda: part.found(name, desc, wanted))
        result = _result_dtype(name, stored.dtype, wanted)
        target = all_must(everyone, lambda: _target(desc, fitted, result))
        if file:
            file.read(stored, desc, target, result)
        else:
            slabs.read(everyone, name, stored, desc, target, result)
    return target if fitted is None else out


def _wanted(name: str, out: object, dtype: DTypeLike | None) -> np.dtype[Any] | None:
    """The dtype asked for; None for the file's own."""
    given = None if dtype is None else np.dtype(dtype)
    if isinstance(out, np.ndarray):
        if given is not None and given != out.dtype:
            raise FileError(f"dtype = {given}, but out has dtype {out.dtype}: leave dtype away, or make them equal")
        given = out.dtype
    if given is not None and (given.hasobject or not given.itemsize):
        raise FileError(f"dtype = {given}: only elements of a fixed size, without Python objects, can be read")
    return given


def _result_dtype(name: str, stored: np.dtype[Any], wanted: np.dtype[Any] | None) -> np.dtype[Any]:
    dtype = stored.newbyteorder("=") if wanted is None else wanted
    if not np.can_cast(stored, dtype, "safe"):
        raise FileError(f"{name} has elements of {stored}, which dtype = {dtype} cannot hold without loss")
    return dtype


def _target(desc: Descriptor, out: NDArray[Any] | None, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """The array to read into; None outside the grid."""
    if desc.coords is None:
        return None
    return made_for(desc, dtype) if out is None else out
