"""HDF5 files by h5py. All ranks call HDF5 if h5py was built with MPI, else the first rank."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..errors import FileError, LibraryError, callers_level
from ..layout.descriptor import Descriptor
from .contents import FileArray, FilePart, named_errors
from .slabs import ArrayFile, Slab, on_all, on_first

LONGEST_NAME = 244  # bytes: Open MPI 4.1 appends a suffix in a buffer of 256
DESCRIPTORS = 8  # free file descriptors before MPI opens a file; Open MPI 4.1 needs two


class Hdf5(ArrayFile):
    """A data set of an HDF5 file; a LibraryError if h5py cannot be imported. The constructor is collective."""

    def __init__(self, group: MPIGroup, path: str, name: str, dataset: str) -> None:
        self._dataset = dataset
        self._h5py = on_all(group, lambda: library(name))
        self._parallel: bool = on_first(group, lambda: bool(self._h5py.get_config().mpi))
        super().__init__(group, path, name, group.size if self._parallel else 1)
        if not self._parallel:
            on_first(group, self._warn)

    def _warn(self) -> None:
        warnings.warn(
            f"{self.name}: h5py was built without MPI, so the first rank reads and writes for all ranks",
            RuntimeWarning,
            stacklevel=callers_level(),
        )

    def locate(self, part: FilePart, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        def read() -> FileArray:
            array = read_dataset(self._h5py, self.path, self._dataset, self.name)
            return part.of(array, f"{self.name}: {self._dataset}", desc)

        return on_first(self.group, read)

    def create(self, target: str, array: FileArray) -> FileArray:
        """Make the file with the data set, and copy the other contents of `target`. Collective."""

        def make() -> None:
            with named_errors(self.name):
                if os.path.exists(target):
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                    shutil.copyfile(target, self.path)
                with self._h5py.File(self.path, "r+" if os.path.exists(target) else "w-") as file:
                    if self._dataset in file:
                        if not isinstance(file[self._dataset], self._h5py.Dataset):
                            raise FileError(f"{self.name}: {self._dataset} is a group: give another dataset=")
                        del file[self._dataset]
                    file.create_dataset(self._dataset, array.shape, array.dtype)

        on_first(self.group, make)
        return array

    @contextmanager
    def opened(self, mode: str) -> Iterator[Any]:
        def open_file() -> Any:  # None on a rank that does not call HDF5
            with named_errors(self.name):
                if self._parallel:
                    return self._h5py.File(self.path, mode, driver="mpio", comm=self.group.comm)
                return self._h5py.File(self.path, mode) if self.group.rank == 0 else None

        if self._parallel:
            on_all(self.group, lambda: check_openable(self.path))
        file = on_all(self.group, open_file)

        def close() -> None:
            with named_errors(self.name):
                if file is not None:
                    file.close()

        with ExitStack() as undo:
            undo.callback(close)
            yield file
            undo.pop_all()
        on_all(self.group, close)
        if mode != "r":
            on_first(self.group, self._sync)

    def _sync(self) -> None:
        with open(self.path, "rb") as file:
            os.fsync(file.fileno())

    def read_part(self, file: Any, array: FileArray, slab: Slab, dtype: np.dtype[Any]) -> NDArray[Any]:
        with named_errors(self.name):
            return np.asarray(file[self._dataset][array.within(slab.own)], dtype)

    def write_part(self, file: Any, array: FileArray, slab: Slab, part: NDArray[Any]) -> None:
        with named_errors(self.name):
            file[self._dataset][array.within(slab.own)] = part


def check_openable(path: str) -> None:
    """Raise a FileError where MPI-IO would open another file or abort the program, or other ranks would wait forever."""
    if ":" in path:
        raise FileError(
            f"{path} has a colon, and MPI-IO, by which h5py opens it, may take what is before it for the kind of a file "
            "system: rename it, or use a relative path"
        )
    length = len(os.fsencode(path))
    if length > LONGEST_NAME and MPI.get_vendor()[0] == "Open MPI":
        raise FileError(
            f"{path}: the name has {length} bytes, and Open MPI aborts the program in MPI_File_open for more than "
            f"{LONGEST_NAME}: use a shorter one, such as a relative path (save() appends a suffix while it writes)"
        )
    with ExitStack() as files:
        try:
            for _ in range(DESCRIPTORS):
                files.callback(os.close, os.open(os.sep, os.O_RDONLY))
        except OSError as error:
            raise FileError(
                f"{path}: MPI may need {DESCRIPTORS} file descriptors to open it, and this process has fewer left ({error}): "
                "close files, or allow more by ulimit -n"
            ) from error


def read_dataset(h5py: Any, path: str, dataset: str, name: str) -> FileArray:
    """Read shape and dtype of a data set; `name` is the file's name in errors."""
    with named_errors(name), h5py.File(path, "r") as file:
        item = file.get(dataset)
        if not isinstance(item, h5py.Dataset):
            group = isinstance(item, h5py.Group)
            names = ", ".join(list(item if group else file)[:10]) or "nothing"
            if group:
                raise FileError(f"{name}: {dataset!r} is a group, which has {names}: give dataset='{dataset}/NAME'")
            raise FileError(f"{name} has no data set {dataset!r}; it has {names}: give dataset=")
        if item.shape is None or item.dtype.hasobject or not item.dtype.itemsize:
            content = "nothing (H5S_NULL)" if item.shape is None else item.dtype
            raise FileError(f"{name}: {dataset} holds {content}: only fixed sizes can be read")
        return FileArray(item.dtype, item.shape, "C", 0)


def library(path: str) -> Any:
    """Import h5py; a LibraryError that names the file if it is missing."""
    try:
        import h5py  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise LibraryError(
            f"{path} is HDF5, which needs h5py ({error}): pip install h5py, or use a .npy file"
        ) from error
    return h5py
