"""What load() and save() are asked, checked and agreed on by all ranks, and errors of one rank told to all."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..comm.group import Group
from ..comm.mpi import MPI
from ..comm.vote import Ballot, Statement, digest
from ..engine.arrays import check_dtype, dtype_digest
from ..errors import ArrayError, FileError
from ..layout.descriptor import Descriptor
from ..layout.distributed import fitted
from ..layout.host_array import host_array

__all__ = [
    "HDF5_ENDINGS",
    "NPY_ENDING",
    "agree_on",
    "all_must",
    "check_not_foreign",
    "check_through",
    "checked_order",
    "checked_path",
    "fitting",
    "from_one",
    "is_hdf5",
    "is_npy",
]

T = TypeVar("T")
HDF5_ENDINGS = (".h5", ".hdf5")
NPY_ENDING = ".npy"
FOREIGN = {
    ".npz": "NumPy's archive of several arrays",
    ".csv": "text separated by commas",
    ".tsv": "text separated by tabulators",
    ".txt": "text",
    ".json": "JSON",
    ".mat": "MATLAB's format",
    ".mtx": "Matrix Market's format",
    ".zarr": "Zarr",
    ".nc": "netCDF",
    ".parquet": "Parquet",
    ".pkl": "Python's pickle",
    ".pt": "PyTorch's format",
    ".safetensors": "safetensors",
}


def agree_on(
    everyone: Group,
    desc: Descriptor,
    call: tuple[object, ...],
    dtype: np.dtype[Any] | None,
    error: Exception | None,
) -> None:
    """Raise on every rank unless all are well and ask for the same. Collective."""
    known = None if dtype is None else dtype_digest(dtype)
    everyone.agree(
        Ballot(failed=everyone.failed(error), call=digest((desc.layout_digest, call)), dtype=known),
        error,
        lambda: [
            Statement("desc", desc.layout_digest, repr(desc)),
            Statement("what is asked of the file", repr(call), repr(call)),
            Statement("the dtype", known, repr(dtype)),
        ],
        lambda outcome: True,
    )


def all_must(everyone: Group, action: Callable[[], T]) -> T:
    """Do something on every rank; if it fails on one, raise on all. Collective."""
    made, error = None, None
    try:
        made = action()
    except Exception as caught:
        error = as_file_error(caught)
    everyone.raise_on_all(error)
    return made  # type: ignore[return-value]


def from_one(everyone: Group, action: Callable[[], T]) -> T:
    """Do something on the first rank, and return the result, or raise the error, on all. Collective."""
    told: tuple[T | None, Exception | None] = (None, None)
    if everyone.rank == 0:
        try:
            told = (action(), None)
        except Exception as caught:
            error = as_file_error(caught)
            told = (None, error)
    made, problem = everyone.combine(told, lambda every: every[0])
    if problem is not None:
        raise problem
    return made  # type: ignore[no-any-return]


def as_file_error(error: Exception) -> Exception:
    """An error of the system or of MPI as the package's own."""
    if isinstance(error, FileError) or not isinstance(error, OSError | MPI.Exception):
        return error
    made = FileError(f"MPI: {error}" if isinstance(error, MPI.Exception) else str(error))
    made.__cause__ = error
    return made


def checked_path(path: object, dataset: object) -> str:
    """The path as text."""
    try:
        text = os.fsdecode(os.fspath(path))  # type: ignore[call-overload]
    except TypeError:
        raise FileError(f"path = {path!r} must be a str or a pathlib.Path") from None
    if not text or "\0" in text:
        raise FileError(f"path = {text!r} must name a file, without NUL")
    hdf5 = is_hdf5(text)
    if dataset is not None and not hdf5:
        raise FileError(
            f"dataset = {dataset!r} is for HDF5: the name of such a file ends in .h5 or .hdf5, not as {text!r}"
        )
    if hdf5 and dataset is not None and (not isinstance(dataset, str) or not dataset.strip("/") or "\0" in dataset):
        raise FileError(f"dataset = {dataset!r} must be the name of a data set in {text}")
    return text


def is_hdf5(name: str) -> bool:
    """Whether a file of this name is HDF5, in whatever case its ending is."""
    return name.lower().endswith(HDF5_ENDINGS)


def is_npy(name: str) -> bool:
    """Whether a file of this name is NumPy's."""
    return name.lower().endswith(NPY_ENDING)


def check_not_foreign(name: str, reads: bool = False) -> None:
    """Refuse to take for the elements alone what a file's name says to be of a format that is not known here."""
    ending = os.path.splitext(name)[1].lower()
    if ending not in FOREIGN:
        return
    if reads:
        raise FileError(
            f"{name}: {FOREIGN[ending]} is not read here: keep the array in a .npy or .h5 file; where its elements lie in this "
            "one as they are in memory, give dtype= and offset=, the byte where they begin"
        )
    raise FileError(
        f"{name}: {FOREIGN[ending]} is not written here: give a name in .npy, .h5 or .hdf5, or another ending (.bin) for "
        "the elements alone"
    )


def check_through(through: object) -> None:
    """Refuse all ways to move elements but by slabs, also one that there was once."""
    if not isinstance(through, str) or through != "slabs":
        gone = ": collective MPI-IO through a view of the file is gone, for it was slower and could hang"
        raise FileError(f"through = {through!r} must be 'slabs', or be omitted{gone if through == 'view' else ''}")


def checked_order(order: object) -> str:
    """The order of the elements in a file."""
    if not isinstance(order, str) or order not in ("C", "F"):
        raise FileError(f"order = {order!r} must be 'C' (the last index runs fastest) or 'F' (the first one)")
    return str(order)


def fitting(name: str, array: object, desc: Descriptor) -> NDArray[Any] | None:
    """The local array as it goes with `desc`; None where this rank has nothing."""
    made = fitted(name, host_array(name, array), desc)
    if made is not None:
        check_dtype(made.dtype)
        if name == "out" and not made.flags.writeable:
            raise ArrayError("out is read-only: give an array that can be written")
    return made
