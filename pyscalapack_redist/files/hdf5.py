"""HDF5 by h5py: slabs are redistributed to the ranks that call HDF5, all of them or, without MPI in h5py, the first one."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.groups import MPIGroup
from ..engine.redistribute import redistribute
from ..errors import FileError, LibraryError, RedistributionError, callers_level
from ..layout.descriptor import Descriptor
from .agreed import all_must, from_one
from .header import FileArray
from .mpi_file import check_openable
from .part import FilePart
from .slabs import Slab, slabs

__all__ = ["DATASET", "Hdf5", "library", "read_dataset"]

DATASET = "data"


class Hdf5:
    """A data set of an HDF5 file. Made collectively.

    Parameters
    ----------
    everyone : MPIGroup
        The ranks.
    path : str
        The file.
    dataset : str
        Name in it.
    title : str, optional
        The file in messages; by default its path.

    Attributes
    ----------
    callers : int
        How many ranks call HDF5: the first ones.

    Raises
    ------
    LibraryError
        h5py cannot be imported.
    """

    def __init__(self, everyone: MPIGroup, path: str, dataset: str, title: str | None = None) -> None:
        self._everyone, self._path, self._dataset, self._title = everyone, path, dataset, title or path
        self._h5py = all_must(everyone, lambda: library(self._title))
        self._parallel: bool = from_one(everyone, lambda: bool(self._h5py.get_config().mpi))
        self.callers = everyone.size if self._parallel else 1
        if not self._parallel:
            from_one(everyone, self._say_so)

    def _say_so(self) -> None:
        warnings.warn(
            f"{self._title}: h5py was built without MPI, so the first rank reads and writes for all of them",
            RuntimeWarning,
            stacklevel=callers_level(),
        )

    def stored(self, desc: Descriptor, part: FilePart) -> FileArray:
        """What of the file is meant, checked against the layout. Collective."""

        def look() -> FileArray:
            found = read_dataset(self._h5py, self._path, self._dataset, self._title)
            return part.of(found, f"{self._title}: {self._dataset}", desc)

        return from_one(self._everyone, look)

    def read(self, stored: FileArray, desc: Descriptor, out: NDArray[Any] | None, dtype: np.dtype[Any]) -> None:
        """Read what is meant into `out`, of this dtype. Collective."""
        with self._opened(self._path, "r") as file:
            for slab in slabs(desc, dtype.itemsize, "C", self.callers):

                def read_part(slab: Slab = slab) -> NDArray[Any] | None:
                    if slab.layout.coords is None:
                        return None
                    with _named(self._title):
                        return np.asarray(file[self._dataset][stored.within(slab.own)], dtype)

                part = all_must(self._everyone, read_part)
                redistribute(slab.layout, desc[slab.part], dtype=dtype, comm=desc.grid.comm)(part, out)

    def create(self, target: str, stored: FileArray) -> None:
        """Make the file at our path with the data set, and all else that `target` has. Collective."""

        def make() -> None:
            with _named(self._title):
                if os.path.exists(target):
                    os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                    shutil.copyfile(target, self._path)
                with self._h5py.File(self._path, "r+" if os.path.exists(target) else "w-") as file:
                    if self._dataset in file:
                        if not isinstance(file[self._dataset], self._h5py.Dataset):
                            raise FileError(f"{self._title}: {self._dataset} is a group: give another dataset=")
                        del file[self._dataset]
                    file.create_dataset(self._dataset, stored.shape, stored.dtype)

        from_one(self._everyone, make)

    def write(self, stored: FileArray, desc: Descriptor, local: NDArray[Any] | None) -> None:
        """Write what is meant of the data set, which is there, and see it on the disk. Collective."""
        with self._opened(self._path, "r+") as file:
            for slab in slabs(desc, stored.dtype.itemsize, "C", self.callers):
                part = redistribute(desc[slab.part], slab.layout, dtype=stored.dtype, comm=desc.grid.comm)(local)

                def write_part(slab: Slab = slab, part: NDArray[Any] | None = part) -> None:
                    if part is not None:
                        with _named(self._title):
                            file[self._dataset][stored.within(slab.own)] = part

                all_must(self._everyone, write_part)
        from_one(self._everyone, self._sync)

    def _sync(self) -> None:
        with open(self._path, "rb") as file:
            os.fsync(file.fileno())

    @contextmanager
    def _opened(self, path: str, mode: str) -> Iterator[Any]:
        """The file on the ranks that call HDF5, None on the others. Collective."""

        def opened() -> Any:
            with _named(self._title):
                if self._parallel:
                    return self._h5py.File(path, mode, driver="mpio", comm=self._everyone.comm)
                return self._h5py.File(path, mode) if self._everyone.rank == 0 else None

        if self._parallel:
            all_must(self._everyone, lambda: check_openable(path))
        file = all_must(self._everyone, opened)

        def close() -> None:
            with _named(self._title):
                if file is not None:
                    file.close()

        try:
            yield file
        except BaseException:
            if file is not None:
                file.close()
            raise
        all_must(self._everyone, close)


def read_dataset(h5py: Any, path: str, dataset: str, title: str) -> FileArray:
    """What a data set holds; `title` is the file in messages. Not collective."""
    with _named(title), h5py.File(path, "r") as file:
        found = file.get(dataset)
        if not isinstance(found, h5py.Dataset):
            group = isinstance(found, h5py.Group)
            names = ", ".join(list(found if group else file)[:10]) or "nothing"
            if group:
                raise FileError(f"{title}: {dataset!r} is a group, which has {names}: give dataset='{dataset}/NAME'")
            raise FileError(f"{title} has no data set {dataset!r}; it has {names}: give dataset=")
        if found.shape is None or found.dtype.hasobject or not found.dtype.itemsize:
            what = "nothing (H5S_NULL)" if found.shape is None else found.dtype
            raise FileError(f"{title}: {dataset} holds {what}: only fixed sizes can be read")
        return FileArray(found.dtype, found.shape, "C", 0)


@contextmanager
def _named(title: str) -> Iterator[None]:
    """Errors of HDF5, which come as many kinds, are FileErrors."""
    try:
        yield
    except RedistributionError:
        raise
    except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise FileError(f"{title}: {error}") from error


def library(path: str) -> Any:
    """The module h5py, or an error that says which file needs it."""
    try:
        import h5py  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise LibraryError(
            f"{path} is HDF5, for which h5py is needed ({error}): pip install h5py, or use a .npy file"
        ) from error
    return h5py
