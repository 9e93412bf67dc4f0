"""HDF5 files by h5py. All ranks call HDF5 if h5py was built with MPI, else the first rank."""

from __future__ import annotations

import itertools
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import diagnostics
from ..comm.groups import MPIGroup
from ..comm.mpi import MPI
from ..errors import FileError, LibraryError
from ..layout.descriptor import Descriptor
from .contents import FileArray, FilePart, Region, named_errors
from .slabs import ArrayFile, Slab, identity_of, on_all, on_first

LONGEST_NAME = 244  # bytes: Open MPI 4.1 appends a suffix in a buffer of 256
OF_NUMBERS = {5, 6}  # filters: H5Z_FILTER_NBIT, H5Z_FILTER_SCALEOFFSET of <H5Zpublic.h>
OF_DIMENSIONS = ("DIMENSION_LABELS", "DIMENSION_LIST", "REFERENCE_LIST")  # attributes that depend on their number
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
        diagnostics.warn(
            f"{self.name}: h5py was built without MPI, so the first rank reads and writes for all ranks",
            RuntimeWarning,
        )

    def locate(self, part: FilePart, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        def read() -> FileArray:
            array = read_dataset(self._h5py, self.path, self._dataset, self.name)
            return part.of(array, f"{self.name}: {self._dataset}", desc)

        return on_first(self.group, read)

    def create(self, target: str, array: FileArray) -> FileArray:
        """Make the file: a copy of `target`, if that exists, with a data set for the array. Collective."""

        def make() -> None:
            with named_errors(self.name):
                self.origin = identity_of(target) if os.path.exists(target) else {}
                if self.origin:
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                    shutil.copyfile(target, self.path)
                with self._h5py.File(self.path, "r+" if self.origin else "w-") as file:
                    check_links(self._h5py, file, self._dataset, self.name)
                    if not isinstance(file.get(self._dataset), self._h5py.Dataset | None):
                        raise FileError(f"{self.name}: {self._dataset} is a group: give another dataset=")
                    make_dataset(self._h5py, file, self._dataset, array, filtered=not self._parallel)

        on_first(self.group, make)
        return array

    @contextmanager
    def opened(self, mode: str) -> Iterator[Any]:
        def open_file() -> Any:  # None on a rank that does not call HDF5
            with named_errors(self.name):
                if not self._parallel and self.group.rank:
                    return None
                driver = {"driver": "mpio", "comm": self.group.comm} if self._parallel else {}
                file = self._h5py.File(self.path, mode, **driver)
                if mode != "r" and not has_type_of(self._h5py, file[self._dataset]):
                    file.close()
                    raise FileError(
                        f"{self.name}: the numbers of {self._dataset} have fewer bits than NumPy's: no window can be written"
                    )
                return file

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

    def write(self, array: FileArray, desc: Descriptor, local: NDArray[Any] | None, progress: bool = False) -> None:
        def allocate() -> None:
            with named_errors(self.name), self._h5py.File(self.path, "r+") as file:
                allocate_chunks(file[self._dataset], array.within(tuple([slice(0, n) for n in desc.shape])))

        if self._parallel:
            on_first(self.group, allocate)
        super().write(array, desc, local, progress)

    def write_part(self, file: Any, array: FileArray, slab: Slab, part: NDArray[Any]) -> None:
        with named_errors(self.name):
            file[self._dataset][array.within(slab.own)] = part


# -- data sets


def make_dataset(h5py: Any, file: Any, name: str, array: FileArray, filtered: bool = True) -> None:
    """Make a data set for an array; an old one stays if it can hold the array, else its attributes and properties do.

    Without `filtered` it has no filters, such as compression: HDF5 does not let ranks write through them independently. The
    space of a new one is allocated before the file is closed: until then HDF5 knows which space the old one had.
    """
    old = file.get(name)
    if old is not None and _can_hold(h5py, file, old, array, filtered):
        if old.shape != array.shape:
            old.resize(array.shape)
        return
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    options: dict[str, Any] = {}
    if old is not None and old.chunks and old.ndim == len(array.shape) and 0 not in array.shape:
        properties = old.id.get_create_plist()
        filters = {properties.get_filter(k)[0] for k in range(properties.get_nfilters())}
        if filtered:  # only those go that depend on the numbers, and may round them
            filters &= OF_NUMBERS if old.dtype != array.dtype else set()
        for code in filters:
            properties.remove_filter(code)
        limits = [m if m is None else max(n, m) for n, m in zip(array.shape, old.maxshape, strict=True)]
        chunks = [c if m is None else min(c, n) for c, n, m in zip(old.chunks, array.shape, limits, strict=True)]
        options = {"maxshape": tuple(limits), "chunks": tuple(chunks)}
    elif not array.shape or 0 not in array.shape:
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    attributes, dimensions = ({}, []) if old is None else (_attributes(old), _dimensions(old))
    if old is not None:
        old = None  # as long as it is open, HDF5 keeps its space
        del file[name]
    new = file.create_dataset(name, array.shape, array.dtype, dcpl=properties, **options)
    for key, (value, shape, dtype) in attributes.items():
        new.attrs.create(key, value, shape, dtype)
    for k, (label, scales) in enumerate(dimensions[: len(array.shape)]):
        if label:
            new.dims[k].label = label
        for scale in scales:
            new.dims[k].attach_scale(scale)


def _can_hold(h5py: Any, file: Any, old: Any, array: FileArray, filtered: bool) -> bool:
    """Whether an existing data set, perhaps resized, can hold an array, and its elements are in this file."""
    if old.file.filename != file.filename or old.is_virtual or old.external:
        return False
    if old.shape is None or old.ndim != len(array.shape) or old.dtype != array.dtype or not has_type_of(h5py, old):
        return False
    if not filtered and old.id.get_create_plist().get_nfilters():
        return False
    fits = all(m is None or n <= m for n, m in zip(array.shape, old.maxshape, strict=True))
    return bool(old.shape == array.shape or (old.chunks and fits))


def allocate_chunks(dataset: Any, region: Region) -> None:
    """Make the chunks of a region of a data set that do not exist, if others do; of none HDF5 makes all when ranks open it.

    Ranks that write independently cannot: each would have another table of chunks, and all wait for ever in closing the file.
    """
    sizes, table, existing = dataset.chunks, dataset.id, set()
    if sizes is None:
        return
    counts = [-(-n // size) for n, size in zip(dataset.shape, sizes, strict=True)]
    if table.get_num_chunks() in (0, math.prod(counts)):
        return
    firsts = [range(part.start // n * n, part.stop, n) for part, n in zip(region, sizes, strict=True)]
    if hasattr(table, "chunk_iter"):  # of HDF5 1.12.3 and later
        table.chunk_iter(lambda chunk: existing.add(chunk.chunk_offset))
    else:
        existing = {k for k in itertools.product(*firsts) if table.get_chunk_info_by_coord(k).byte_offset is not None}
    for first in itertools.product(*firsts):
        if first not in existing:
            element = tuple([slice(k, k + 1) for k in first])
            dataset[element] = dataset[element]


def has_type_of(h5py: Any, dataset: Any) -> bool:
    """Whether numbers of a data set are stored as NumPy's: not those of 12 bits, which NumPy reads as 16."""
    stored = dataset.id.get_type()
    if stored.get_class() not in (h5py.h5t.INTEGER, h5py.h5t.FLOAT):
        return True
    return bool(stored == h5py.h5t.py_create(dataset.dtype))


def _attributes(dataset: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Attributes: values, shapes and dtypes; but for those of dimensions."""
    numbers = {key: dataset.attrs.get_id(key) for key in dataset.attrs if key not in OF_DIMENSIONS}
    return {key: (dataset.attrs[key], number.shape, number.dtype) for key, number in numbers.items()}


def _dimensions(dataset: Any) -> list[tuple[str, list[Any]]]:
    """The label of each dimension, and its dimension scales."""
    labels = [*dataset.attrs.get(OF_DIMENSIONS[0], ()), *[""] * dataset.ndim]  # HDF5 crashes if the file has too few
    return [(label, dimension.values()) for label, dimension in zip(labels, dataset.dims, strict=False)]


def check_links(h5py: Any, file: Any, dataset: str, name: str) -> None:
    """Raise a FileError if the way to a data set goes over a link that leads nowhere."""
    parts, links = [part for part in dataset.split("/") if part], file.id.links
    for place in ("/".join(parts[: k + 1]) for k in range(len(parts))):
        if not links.exists(place.encode()):
            return
        try:
            if not isinstance(file[place], h5py.Group):
                return
        except (KeyError, OSError, RuntimeError) as error:  # HDF5's kinds of errors in several versions of h5py
            if links.get_info(place.encode()).type == h5py.h5l.TYPE_HARD:
                raise
            target = links.get_val(place.encode())
            names = target[::-1] if isinstance(target, tuple) else (target,)
            where = " of the file ".join(os.fsdecode(each) for each in names)
            raise FileError(
                f"{name}: {place!r} is a link to {where}, which is not there or cannot be read: make that, remove the link, or "
                "give another dataset="
            ) from error


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
        check_links(h5py, file, dataset, name)
        item = file.get(dataset)
        if not isinstance(item, h5py.Dataset):
            group = isinstance(item, h5py.Group)
            names = ", ".join(list(item if group else file)[:10]) or "nothing"
            if group:
                raise FileError(f"{name}: {dataset!r} is a group, which has {names}: give dataset='{dataset}/NAME'")
            raise FileError(f"{name} has no data set {dataset!r}; it has {names}: give dataset=")
        of_fixed_size = not item.dtype.hasobject and item.dtype.itemsize and item.dtype.subdtype is None
        if item.shape is None or not of_fixed_size:
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
