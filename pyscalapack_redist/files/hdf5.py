"""HDF5 files by h5py, as pip installs it. The first rank opens the file; all ranks read and write the elements.

HDF5 tells where it has put them (`hdf5_storage`). What it does not tell goes through the first rank, slab by slab. netCDF-4
files are HDF5, and are read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import diagnostics
from ..comm.groups import MPIGroup
from ..errors import FileError, LibraryError
from ..layout.descriptor import Descriptor
from .binary_file import allocate
from .contents import FileArray, FilePart, Region, named_errors
from .hdf5_storage import FilteredChunks, RawChunks, Storage, find_storage, has_filters, may_be_confused
from .replacement import bring_to_disk
from .slabs import ArrayFile, Slab, identity_of, on_all, on_first

OF_NUMBERS = {5, 6}  # filters: H5Z_FILTER_NBIT, H5Z_FILTER_SCALEOFFSET of <H5Zpublic.h>
OF_DIMENSIONS = ("DIMENSION_LABELS", "DIMENSION_LIST", "REFERENCE_LIST")  # attributes that depend on their number
NETCDF_3 = (b"CDF\1", b"CDF\2", b"CDF\5")  # the first bytes: classic, of 64-bit offsets, of 64-bit data


class Hdf5(ArrayFile):
    """A data set of an HDF5 file; a LibraryError if h5py cannot be imported. The constructor is collective."""

    _has_warned = False  # in this process

    def __init__(self, group: MPIGroup, path: str, name: str, dataset: str) -> None:
        self._dataset = dataset
        self._h5py = on_all(group, lambda: library(name))
        super().__init__(group, path, name, 1)

    def locate(self, part: FilePart, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        def read() -> FileArray:
            array = read_dataset(self._h5py, self.path, self._dataset, self.name)
            return part.of(array, f"{self.name}: {self._dataset}", desc)

        return on_first(self.group, read)

    def create(self, target: str, array: FileArray) -> FileArray:
        """Make the file: a copy of `target`, if that exists, with a data set for the array. Collective."""

        def make() -> None:
            h5py, name = self._h5py, self.name
            with named_errors(name):
                self.origin = identity_of(target) if os.path.exists(target) else {}
                if self.origin:
                    with opened_file(h5py, target, "r", name) as old:  # and locked: no other program writes
                        check_closed(h5py, old, name)
                        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                        shutil.copyfile(target, self.path)
                with opened_file(h5py, self.path, "r+" if self.origin else "w-", name) as file:
                    check_links(h5py, file, self._dataset, name)
                    if not isinstance(file.get(self._dataset), h5py.Dataset | None):
                        raise FileError(f"{name}: {self._dataset} is a group: give another dataset=")
                    make_dataset(h5py, file, self._dataset, array, name)
                    dataset = file[self._dataset]
                    if not has_filters(dataset) and not may_be_confused(h5py, dataset):
                        allocate_chunks(h5py, dataset, tuple([slice(0, n) for n in array.shape]))
                with open(self.path, "r+b") as bytes_of_file:
                    allocate(bytes_of_file, os.fstat(bytes_of_file.fileno()).st_size, name)

        on_first(self.group, make)
        return array

    # -- all ranks, or the first one

    def read(
        self, array: FileArray, desc: Descriptor, out: NDArray[Any] | None, dtype: np.dtype[Any], progress: bool = False
    ) -> None:
        def find() -> tuple[tuple[int, ...] | None, Storage | None]:
            """The chunks that ranks read by HDF5, or where the elements are; neither if the first rank reads for all."""
            h5py = self._h5py
            with opened_file(h5py, self.path, "r", self.name) as file:
                check_closed(h5py, file, self.name)
                dataset = file[self._dataset]
                if self._warns(hindrance(h5py, file, dataset), "reads"):
                    return None, None
                if has_filters(dataset) or may_be_confused(h5py, dataset):
                    return dataset.chunks, None
                return None, find_storage(h5py, dataset)

        chunks, storage = on_first(self.group, find)
        if storage is None:
            self.callers = self.group.size if chunks else 1
            super().read(replace(array, read_unit=chunks), desc, out, dtype, progress)
        else:
            raw = RawChunks(self, storage)
            raw.read(replace(array, read_unit=raw.unit(array)), desc, out, dtype, progress)

    def write(self, array: FileArray, desc: Descriptor, local: NDArray[Any] | None, progress: bool = False) -> None:
        def prepare() -> Storage | None:
            h5py = self._h5py
            with opened_file(h5py, self.path, "r+", self.name) as file:
                check_closed(h5py, file, self.name)
                dataset = file[self._dataset]
                if is_narrow(h5py, dataset):
                    raise FileError(
                        f"{self.name}: the numbers of {self._dataset} have fewer bits than NumPy's: no window can be written"
                    )
                reason = hindrance(h5py, file, dataset)
                if not reason and may_be_confused(h5py, dataset):
                    reason = (
                        "has an unlimited dimension that is not the first one, where HDF5 tells wrong places of chunks"
                    )
                if self._warns(reason, "writes"):
                    return None
                if not has_filters(dataset):
                    allocate_chunks(h5py, dataset, array.within(tuple([slice(0, n) for n in desc.shape])))
                    file.flush()
                return find_storage(h5py, dataset)

        storage = on_first(self.group, prepare)
        if storage is None:
            super().write(array, desc, local, progress)
        elif storage.template is None:
            raw = RawChunks(self, storage)
            raw.write(replace(array, write_unit=raw.unit(array)), desc, local, progress)
        else:
            filtered = FilteredChunks(self, self._dataset, self._h5py, storage)
            filtered.write(replace(array, write_unit=storage.chunks), desc, local, progress)

    def _warns(self, reason: str, verb: str) -> bool:
        """Whether there is a reason why the first rank reads or writes for all ranks; the first in a process is a warning."""
        if reason and not Hdf5._has_warned:
            Hdf5._has_warned = True
            diagnostics.warn(
                f"{self.name}: {self._dataset} {reason}, so the first rank {verb} for all ranks: store it as h5py's "
                "file['copy'] = file[name][()] does, or save()",
                RuntimeWarning,
            )
        return bool(reason)

    # -- by HDF5, which one rank opens to write

    @contextmanager
    def opened(self, mode: str) -> Iterator[Any]:
        """The file of h5py on ranks that read by HDF5, or on the first one, which writes; None on the others. Collective."""
        with ExitStack() as open_file:

            def open_here() -> Any:
                if self.group.rank >= self.callers:
                    return None
                return open_file.enter_context(opened_file(self._h5py, self.path, mode, self.name))

            yield on_all(self.group, open_here)
            on_all(self.group, open_file.close)
        if mode != "r":
            on_first(self.group, lambda: bring_to_disk(self.path))

    def read_part(self, file: Any, array: FileArray, slab: Slab, dtype: np.dtype[Any]) -> NDArray[Any]:
        with named_errors(self.name):
            return np.asarray(file[self._dataset][array.within(slab.own)], dtype)

    def write_part(self, file: Any, array: FileArray, slab: Slab, part: NDArray[Any]) -> None:
        with named_errors(self.name):
            file[self._dataset][array.within(slab.own)] = part


@contextmanager
def opened_file(h5py: Any, path: str, mode: str, name: str) -> Iterator[Any]:
    """The file of h5py; a FileError for the file `name` if it cannot be opened, with what to do where others have it open."""
    with named_errors(name):
        try:
            file = h5py.File(path, mode)
        except OSError as error:
            raise FileError(_refusal(path, name, str(error))) from error
        with file:
            yield file


def _refusal(path: str, name: str, text: str) -> str:
    """Why HDF5 does not open a file, and what to do."""
    if "unable to lock file" in text:
        return (
            f"{name} is open in another program, or on another rank ({text}): close it there; if nobody has it open, its file "
            "system may have no locks: set HDF5_USE_FILE_LOCKING=FALSE in the environment"
        )
    if "already open for read-only" in text:
        return f"{name} is open in this program to be read ({text}): close it first, on each rank"
    if "already open for" in text:
        return (
            f"{name} is being written by another program, perhaps for SWMR ({text}): close it there; if that program was "
            f"killed, run h5clear --status {name}"
        )
    if os.path.isfile(path):
        with open(path, "rb") as file:
            if file.read(4) in NETCDF_3:
                return (
                    f"{name} is netCDF-3, and only netCDF-4 can be read: convert it, as by nccopy -k nc4 {name} NEW.nc"
                )
    return f"{name}: {text}"


def check_closed(h5py: Any, file: Any, name: str) -> None:
    """Raise a FileError if this process has a file open besides, and elements in HDF5's memory may not be those in the file."""
    if file.mode != "r" and h5py.h5f.get_obj_count(file.id, h5py.h5f.OBJ_FILE) > 1:  # "r+" if another one is that
        raise FileError(f"{name} is open in this program, and HDF5 may have elements of it in memory: close it first")


# -- data sets


def make_dataset(h5py: Any, file: Any, dataset: str, array: FileArray, name: str) -> None:
    """Make a data set for an array; an old one stays if it can hold the array, else its attributes and properties do.

    The space of a new one is allocated, if it is contiguous, but nothing written there: all ranks will do that. `name` is the
    file's name in errors.
    """
    old = file.get(dataset)
    if old is not None and _can_hold(h5py, file, old, array):
        if old.shape != array.shape:
            old.resize(array.shape)
        return
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    options: dict[str, Any] = {}
    if old is not None and old.chunks and old.ndim == len(array.shape) and 0 not in array.shape:
        properties = old.id.get_create_plist()
        filters = {properties.get_filter(k)[0] for k in range(properties.get_nfilters())}
        for code in filters & OF_NUMBERS if old.dtype != array.dtype else ():  # which may round other numbers
            properties.remove_filter(code)
        limits = [m if m is None else max(n, m) for n, m in zip(array.shape, old.maxshape, strict=True)]
        chunks = [c if m is None else min(c, n) for c, n, m in zip(old.chunks, array.shape, limits, strict=True)]
        options = {"maxshape": tuple(limits), "chunks": tuple(chunks)}
    elif not array.shape or 0 not in array.shape:
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    attributes, dimensions = ([], []) if old is None else (_attributes(h5py, file, old, name), _dimensions(file, old))
    if old is not None:
        if file.id.links.get_info(dataset.encode()).type == h5py.h5l.TYPE_HARD:  # else only the link goes
            _check_unreferenced(h5py, file, old, name)
            for dimension in old.dims:  # the scales would refer to what is gone
                for scale in dimension.values():
                    dimension.detach_scale(scale)
        old = dimension = None  # as long as it is open, HDF5 keeps its space
        del file[dataset]
    new = file.create_dataset(dataset, array.shape, array.dtype, dcpl=properties, **options)
    for attribute in attributes:
        with _copied(attribute.key, dataset, name):
            number = h5py.h5a.create(new.id, attribute.key, attribute.stored, attribute.space)
            if attribute.values is not None:
                number.write(attribute.values, attribute.memory)
    for k, (label, scales) in enumerate(dimensions[: len(array.shape)]):
        if label:
            new.dims[k].label = label
        for scale in scales:
            new.dims[k].attach_scale(scale)


def _can_hold(h5py: Any, file: Any, old: Any, array: FileArray) -> bool:
    """Whether an existing data set, perhaps resized, can hold an array, and its elements are in this file."""
    if old.file.filename != file.filename or old.is_virtual or old.external:
        return False
    if old.shape is None or old.ndim != len(array.shape) or old.dtype != array.dtype or is_narrow(h5py, old):
        return False
    fits = all(m is None or n <= m for n, m in zip(array.shape, old.maxshape, strict=True))
    return bool(old.shape == array.shape or (old.chunks and fits))


def allocate_chunks(h5py: Any, dataset: Any, region: Region) -> None:
    """Make the chunks of a region that do not exist, with the fill value, or the whole of a contiguous data set."""
    storage = find_storage(h5py, dataset)
    if storage is not None:
        for place, first, _ in storage.chunks_of(region):
            if place["offset"] < 0:
                element = tuple([slice(k, k + 1) for k in first])
                dataset[element] = dataset[element]


def hindrance(h5py: Any, file: Any, dataset: Any) -> str:
    """Why the elements do not lie in the file as NumPy's; empty if they do, or go through filters."""
    if dataset.file.filename != file.filename:
        return f"is a link to the file {dataset.file.filename}"
    if dataset.is_virtual:
        return "is virtual, made of other data sets"
    if dataset.external:
        return "has its elements in external files"
    stored = dataset.id.get_type()
    if has_filters(dataset) or stored == h5py.h5t.py_create(dataset.dtype, logical=True):
        return ""
    return f"has elements of a type that NumPy has not, read as {dataset.dtype}"


def is_narrow(h5py: Any, dataset: Any) -> bool:
    """Whether numbers are stored otherwise than NumPy's, as those of 12 bits, which NumPy reads as 16."""
    stored = dataset.id.get_type()
    return stored.get_class() in (h5py.h5t.INTEGER, h5py.h5t.FLOAT) and stored != h5py.h5t.py_create(dataset.dtype)


class Attribute(NamedTuple):
    """An attribute as HDF5 has it: types in the file and in memory, and the values there; None if it has none."""

    key: bytes
    stored: Any
    space: Any
    memory: Any
    values: NDArray[Any] | None


def _attributes(h5py: Any, file: Any, dataset: Any, name: str) -> list[Attribute]:
    """Attributes but for those of dimensions. Python's values do not have all that HDF5 has, so elements are bytes."""
    h5t, keys = h5py.h5t, list[bytes]()
    h5py.h5a.iterate(dataset.id, keys.append)
    attributes = []
    for key in keys:
        if key.decode(errors="replace") in OF_DIMENSIONS:
            continue
        with _copied(key, dataset.name, name):
            number = h5py.h5a.open(dataset.id, key)
            stored, space = number.get_type().copy(), number.get_space()
            if stored.detect_class(h5t.REFERENCE) and dataset.file.filename != file.filename:
                other = dataset.file.filename
                dataset.file.close()  # which the traceback would keep open
                raise ValueError(f"it refers to objects of {other}")
            is_text = isinstance(stored, h5t.TypeStringID)
            points = any(stored.detect_class(kind) for kind in (h5t.VLEN, h5t.REFERENCE))
            points |= stored.is_variable_str() if is_text else stored.detect_class(h5t.STRING)  # of compounds any text
            memory, values = (h5t.py_create(number.dtype), number.dtype) if points else (stored, f"V{stored.get_size()}")
            if space.get_simple_extent_type() == h5py.h5s.NULL:
                attributes.append(Attribute(key, stored, space, None, None))
            else:
                elements = np.empty(number.shape, values)
                number.read(elements, memory)
                attributes.append(Attribute(key, stored, space, memory, elements))
    return attributes


@contextmanager
def _copied(key: bytes, dataset: str, name: str) -> Iterator[None]:
    """Name the attribute that cannot be copied, and say what to do."""
    with named_errors(
        f"{name}: {dataset} is made anew, but its attribute {key.decode(errors='replace')!r} cannot be copied: remove that by "
        "h5py, or give another dataset="
    ):
        yield


def _dimensions(file: Any, dataset: Any) -> list[tuple[str, list[Any]]]:
    """The label of each dimension, and its dimension scales, which must be in the same file."""
    labels = [*dataset.attrs.get(OF_DIMENSIONS[0], ()), *[""] * dataset.ndim]  # HDF5 crashes if the file has too few
    is_here = dataset.file.filename == file.filename
    return [(label, each.values() if is_here else []) for label, each in zip(labels, dataset.dims, strict=False)]


def _check_unreferenced(h5py: Any, file: Any, dataset: Any, name: str) -> None:
    """Raise a FileError if another name or data set means this one, which is to be replaced."""
    count = h5py.h5o.get_info(dataset.id).rc
    if count > 1:
        raise FileError(
            f"{name}: {dataset.name} cannot hold the new array in its place, and has {count} names (hard links), of which the "
            "others would keep the old elements: give another dataset=, or remove it by h5py before"
        )
    for reference, _ in dataset.attrs.get(OF_DIMENSIONS[2], ()):
        try:
            other = file[reference].name
        except (KeyError, OSError, RuntimeError, ValueError):
            continue  # it has gone
        raise FileError(
            f"{name}: {dataset.name} cannot hold the new array in its place, and is a dimension scale of {other}: give another "
            "dataset=, or detach it by h5py before (dims[k].detach_scale)"
        )


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


def read_dataset(h5py: Any, path: str, dataset: str, name: str) -> FileArray:
    """Read shape and dtype of a data set; `name` is the file's name in errors."""
    with opened_file(h5py, path, "r", name) as file:
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
