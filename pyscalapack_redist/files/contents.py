"""shape_of() and dtype_of(): what a file says of the array that it holds."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..comm.groups import group_of
from ..comm.mpi import MPI
from ..errors import FileError, shown
from .agreed import check_not_foreign, checked_path, from_one, is_hdf5, is_npy
from .hdf5 import DATASET, library, read_dataset
from .header import FileArray, check_ordinary, read_npy_header

__all__ = ["dtype_of", "shape_of"]


def shape_of(
    path: str | os.PathLike[str], *, dataset: str | None = None, comm: MPI.Intracomm | None = None
) -> tuple[int, ...]:
    """Shape of the array in a .npy or HDF5 file. Not collective, but with `comm`, then collective over it.

    Only the header is read: `Descriptor(shape_of(path, comm=comm), block, grid)` is a layout to load the file in.

    Parameters
    ----------
    path : str or path
        The file. Its name ends in .npy, .h5 or .hdf5; other files are raw, and have no header that tells.
    dataset : str, optional
        Name of the data set in an HDF5 file; "data" by default.
    comm : MPI.Intracomm, optional
        Its first rank alone reads the file of the name that it was given, and all ranks get the same result or error.
        Without it, this rank reads.

    Returns
    -------
    tuple of int
        The shape.

    Raises
    ------
    FileError
        The file is not there, cut short, of another kind, without that data set, or holds Python objects; or `comm` is no
        intra-communicator.
    LibraryError
        h5py is missing.
    """
    return _described(path, dataset, comm).shape


def dtype_of(
    path: str | os.PathLike[str], *, dataset: str | None = None, comm: MPI.Intracomm | None = None
) -> np.dtype[Any]:
    """Dtype of the array in a .npy or HDF5 file. Not collective, but with `comm`, then collective over it.

    Parameters
    ----------
    path, dataset, comm
        As for `shape_of`.

    Returns
    -------
    dtype
        Of the elements, in the file's byte order; `load` returns them in the machine's.

    Raises
    ------
    FileError, LibraryError
        As for `shape_of`.
    """
    return _described(path, dataset, comm).dtype


def _described(path: object, dataset: object, comm: object) -> FileArray:
    if comm is None:
        return _read(path, dataset)
    if not hasattr(comm, "Create_group"):
        raise FileError(f"comm = {shown(comm)} must be an mpi4py Intracomm, or be omitted")
    intracomm: MPI.Intracomm = comm  # type: ignore[assignment]
    return from_one(group_of(intracomm), lambda: _read(path, dataset))


def _read(path: object, dataset: object) -> FileArray:
    name = checked_path(path, dataset)
    try:
        check_ordinary(name)
        return _contents(name, dataset)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(str(error)) from error


def _contents(name: str, dataset: object) -> FileArray:
    if is_hdf5(name):
        return read_dataset(library(name), name, str(dataset or DATASET), name)
    if not is_npy(name):
        check_not_foreign(name, reads=True)
        raise FileError(
            f"{name} is read as raw binary, which has no header that tells the shape and the dtype: give them yourself, or "
            "keep the array in a .npy or .h5 file"
        )
    return read_npy_header(name)
