"""Containers: files with many arrays and values by name. HDF5 files, Zarr groups, and folders of .npy files with an index; and
safetensors, which are only read.

A container knows how the entries are laid down; `checkpoint` decides what is written and when. All methods are for the first
rank alone. What makes an entry's kind come back is an attribute of its data set, `MARK`, which other programs may ignore.
"""

from __future__ import annotations

import ast
import fcntl
import json
import math
import os
import re
import shutil
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from ..errors import ArrayError, FileError, RedistributionError, shown
from .binary_file import allocate
from .contents import (
    check_ordinary,
    is_folder_name,
    is_hdf5,
    is_safetensors,
    is_zarr,
    named_errors,
    npy_header,
    read_npy_header,
)
from .hdf5 import check_closed, opened_file
from .hdf5 import library as hdf5_library
from .replacement import STAMP, UNKNOWN, bring_to_disk, check_regular, has_ended, temporary_files_of, temporary_name
from .safetensors import is_index, read_index, tensors
from .slabs import identity_of
from .zarr_store import METADATA, check_array_store, metadata_file
from .zarr_store import library as zarr_library

MARK = "pyscalapack_redist"  # the attribute of what save() of several arrays has written, and of its data sets
FORMAT = 1  # of the index, and the value of MARK
INDEX = "index.json"
PART = re.compile(rf"\.append{STAMP}\.part")  # HDF5's group of new entries
SAVED = re.compile(rf"data{STAMP}\.saved")  # a folder's subfolder

ARRAY, WHOLE, SCALAR, TEXT, TEXTS = "array", "whole array", "NumPy number", "str", "list of str"
NUMBERS: dict[str, Any] = {"bool": bool, "int": int, "float": float, "complex": complex}  # bool before int, which it is
UNREADABLE = "unreadable"  # a foreign data set of objects, of no elements, or of text in two dimensions
KINDS = (ARRAY, WHOLE, SCALAR, TEXT, TEXTS, *NUMBERS)
OF_ZARR = (*METADATA, ".zattrs", ".zmetadata")  # files in the folders of a store
WAITS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # seconds, for a program that has an HDF5 file open for a moment
INT_LEAST, INT_MOST = -(2**63), 2**64 - 1


# -- entries


@dataclass(frozen=True)
class Entry:
    """An array or a value in a container.

    Attributes
    ----------
    kind : str
        What it comes back as, one of `KINDS`: an array of all ranks, a NumPy array that each has whole, a Python number, ...
    shape, dtype
        Of the array; () and the dtype of the number, or `str`.
    attributes : dict
        As `checked_attribute` gives them.
    value : object
        The value to save, or one that the index of a folder has; none of an array of all ranks.
    file : str
        In a folder the .npy file, seen from the folder; empty if the index has the value.
    """

    kind: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    file: str = ""

    @property
    def stored(self) -> Any:
        """The value as files have it: a NumPy array, text, or a list of texts; integers beyond 64 bits are decimal text."""
        if self.kind in (TEXT, TEXTS) or (self.kind == "int" and not INT_LEAST <= self.value <= INT_MOST):
            return str(self.value) if self.kind != TEXTS else self.value
        return np.asarray(self.value)

    def restored(self, stored: Any) -> Any:
        """The value of what a file has."""
        if self.kind in NUMBERS:
            return NUMBERS[self.kind](stored)
        if self.kind in (TEXT, TEXTS):
            return str(stored) if self.kind == TEXT else [str(text) for text in stored]
        array = np.asarray(stored, self.dtype)
        return array[()] if self.kind == SCALAR else array


def check_text(what: str, text: object) -> None:
    """Raise a FileError unless this is text that all formats can hold."""
    if not isinstance(text, str):
        raise FileError(f"{what} = {shown(text)} must be a str")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise FileError(f"{what} = {shown(text)} has a NUL or a surrogate, which HDF5 cannot hold: remove it")


def check_names(names: Sequence[Any], existing: Collection[str] = ()) -> None:
    """Raise a FileError for a name that a format cannot have, or that is also a group of another one, or of an existing one."""
    for name in names:
        check_text("the name of an entry", name)
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise FileError(
                f"the name of an entry = {name!r} must have nonempty parts between '/', and none of them '.' or '..'; dataset= "
                "is that of one array to append"
            )
        if "\\" in name:
            raise FileError(
                f"the name of an entry = {name!r} has a backslash, which Zarr makes a '/': give another name"
            )
        for part in name.split("/"):
            if part in OF_ZARR or part.startswith("__") or not part.strip(".") or PART.fullmatch(part):
                raise FileError(f"the name of an entry = {name!r} has {part!r}, which files need: give another name")
    known = {*names, *existing}
    for name in known:
        for group in _groups(name):
            if group in known:
                raise FileError(f"the name {group!r} is an entry, and a group in {name!r}: rename one")


def _groups(name: str) -> Iterator[str]:
    parts = name.split("/")
    return ("/".join(parts[:k]) for k in range(1, len(parts)))


def checked_attribute(value: Any) -> Any:
    """An attribute as it comes back: text, a Python number, a list of texts, or an array of numbers; else an ArrayError."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArrayError("a masked array; the mask would be lost: give value.filled(...)")
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind not in "biufcSUOT":
        raise ArrayError(f"{shown(value)} has dtype {value.dtype}, which attributes cannot have: give a number or text")
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError as error:
            raise ArrayError(
                f"{shown(value)} is no UTF-8 ({error}): give a NumPy array of its bytes, of dtype uint8"
            ) from None
    if isinstance(value, str):
        check_text("an attribute", value)
        return str.__str__(value)
    if isinstance(value, int) and not INT_LEAST <= value <= INT_MOST:
        raise ArrayError(f"{shown(value)} has more than 64 bits: give it as text")
    for number in NUMBERS.values():
        if isinstance(value, number):
            return number(value)
    if isinstance(value, list | tuple | np.ndarray):
        is_text = not isinstance(value, np.ndarray) or value.dtype.kind in "OSUT"
        if is_text and all(isinstance(text, str | bytes) for text in value):
            return [checked_attribute(text) for text in value]
        array = _numbers(value)
        if array.dtype.kind in "biufc" and array.dtype.itemsize <= (16 if array.dtype.kind == "c" else 8):
            return array.astype(array.dtype.newbyteorder("="), order="C")
    raise ArrayError(
        f"{shown(value)} must be text, a number of at most 64 bits, a list of these, or a NumPy array of numbers"
    )


def _numbers(value: Any) -> np.ndarray[Any, Any]:
    """Numbers as an array, of objects if they are not numbers of one type, or would be rounded."""
    try:
        array = np.array(value)
    except ValueError:  # lists of several lengths
        return np.array(None)
    if not isinstance(value, np.ndarray) and array.dtype.kind in "biufc":
        given = np.array(value, object)
        if array.dtype.kind == "f" and all(isinstance(number, int) for number in given.flat) and array.size:
            return given
        if any(number == number and number != own.item() for number, own in zip(given.flat, array.flat, strict=True)):
            return given
    return array


def _to_json(value: Any) -> tuple[Any, Any]:
    """An attribute or value in JSON, and what is needed to read it: for complex numbers and arrays."""
    if isinstance(value, complex):
        return [value.real, value.imag], "complex"
    if not isinstance(value, np.ndarray):
        return value, None
    parts = value.view(f"f{value.itemsize // 2}").reshape(*value.shape, 2) if value.dtype.kind == "c" else value
    return parts.tolist(), [value.dtype.str, list(value.shape)]


def _from_json(value: Any, form: Any) -> Any:
    if form is None:
        return value
    if form == "complex":
        return complex(*value)
    dtype, shape = np.dtype(form[0]), tuple(form[1])
    if dtype.kind == "c":
        return np.array(value, f"f{dtype.itemsize // 2}").reshape(*shape, 2).view(dtype).reshape(shape)
    return np.array(value, dtype).reshape(shape)


def _dtype_text(dtype: np.dtype[Any]) -> str:
    return repr(np.lib.format.dtype_to_descr(dtype))


def _dtype_of(text: str) -> np.dtype[Any]:
    return np.lib.format.descr_to_dtype(ast.literal_eval(text))


# -- what calls leave


_RUNNING: set[str] = set()  # temporary names of the calls of this process


def _begun(name: str) -> str:
    """A temporary name, as one of a call that is running."""
    _RUNNING.add(name)
    return name


def _is_left(name: str) -> bool | None:
    """Whether the call with a temporary name has ended; None if unknown on this machine."""
    own = temporary_name("own").split(".")[-5:-2]
    if own[0] != UNKNOWN and os.path.basename(name).split(".")[-5:-2] == own:
        return name not in _RUNNING
    return has_ended(name)


# -- containers


class Place(NamedTuple):
    """Where an array of all ranks is: a file, what it is called in errors and for its format, and the data set in it."""

    path: str
    name: str
    dataset: str | None


class ReadableContainer(ABC):
    """A file of many entries in one format, to read. Methods are for the first rank; errors are FileErrors and LibraryErrors.

    Parameters
    ----------
    name : str
        The file or folder.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def index(self) -> str:
        """The file whose replacement shows that the container was replaced."""
        return self.name

    @abstractmethod
    def holds_several(self) -> bool:
        """Whether the file has several arrays: it has our mark, or no array where that of a single one would be."""

    @abstractmethod
    def read(self) -> dict[str, Entry]:
        """The entries, without values."""

    @abstractmethod
    def read_values(self, entries: Mapping[str, Entry]) -> dict[str, Any]:
        """The values of some entries."""

    def contents(self) -> tuple[dict[str, Entry], dict[str, Any]]:
        """The entries, and facts that identify the files."""
        check_ordinary(self.name)
        return dict(sorted(self.read().items())), self.identity()

    def identity(self) -> dict[str, Any]:
        """Facts that identify each file whose replacement would change entries."""
        return {self.index: identity_of(self.index)}

    def place(self, name: str, entry: Entry) -> Place:
        """Where an array of all ranks is read."""
        return Place(self.name, self.name, name)


class Container(ReadableContainer):
    """A file of many entries in one format, to read and write.

    Attributes
    ----------
    target : str
        The file or folder that is renamed to make a new container valid.
    is_atomic : bool
        Whether entries are added in one step, by a rename.
    """

    is_atomic = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.target, self._temporary = name, ""

    def prepare(self) -> None:
        """Make what must be there before the temporary file."""

    @abstractmethod
    def check(self, target: str) -> None:
        """Raise a FileError unless the existing target may be replaced."""

    @abstractmethod
    def create(
        self, path: str, target: str, entries: Mapping[str, Entry], appends: bool, is_marked: bool
    ) -> dict[str, Place]:
        """Make all data sets at `path`, those of values with their contents; the places of the arrays of all ranks."""

    def complete(self) -> None:
        """When all is written, give what `create` has added to an existing container its names."""

    @abstractmethod
    def discard(self) -> None:
        """Remove what `create` and `complete` have added to an existing container, after an error."""

    def end(self) -> None:
        """Forget the call, which is complete or has been discarded."""
        _RUNNING.discard(self._temporary)

    def replaced(self) -> list[str]:
        """Remove the data of the container that has been replaced; what killed saves have left there."""
        return []

    @property
    def index(self) -> str:
        return self.target

    def check_new(self, names: list[str]) -> None:
        """Raise a FileError if names to add are in the container, or cannot be beside those that are."""
        existing = self.read()
        for name in names:
            if name in existing:
                raise FileError(
                    f"{self.name} has an entry {name!r}, and append=True adds new ones: give another name, or save all "
                    "entries without append"
                )
        check_names(names, existing)


def container_of(name: str) -> Container:
    """The container of a name, by its ending, to write."""
    if is_hdf5(name) and not name.lower().endswith(".nc"):
        return Hdf5File(name)
    if is_zarr(name):
        return ZarrGroup(name)
    if not is_folder_name(name):
        raise FileError(
            f"{name}: several arrays go into HDF5 (a name in .h5 or .hdf5), a Zarr group (.zarr), or a folder of .npy files, "
            "whose name has no ending"
        )
    return Folder(name)


def readable_container_of(name: str) -> ReadableContainer:
    """The container of a name, by its ending, to read: also of formats that are not written."""
    if is_hdf5(name):
        return Hdf5File(name)
    return SafetensorsFile(name) if is_safetensors(name) else container_of(name)


class SafetensorsFile(ReadableContainer):
    """The tensors of a safetensors file, or of a sharded model by its index."""

    def holds_several(self) -> bool:
        return True

    def identity(self) -> dict[str, Any]:
        index = super().identity()
        shards = set(read_index(self.name).values()) if is_index(self.name) else ()
        return index | {path: identity_of(path) for path in sorted(shards)}

    def place(self, name: str, entry: Entry) -> Place:
        if not name.strip("/") or "\0" in name:
            raise FileError(
                f"{self.name} has a tensor named {name!r}, which dataset= cannot be: rename it, or load the others by names="
            )
        return super().place(name, entry)

    def read(self) -> dict[str, Entry]:
        return {
            name: Entry(ARRAY if array.shape else SCALAR, array.shape, array.dtype)
            for name, (_, array) in tensors(self.name).items()
        }

    def read_values(self, entries: Mapping[str, Entry]) -> dict[str, Any]:
        placed = tensors(self.name)
        values = {}
        for name, entry in entries.items():
            path, array = placed[name]
            values[name] = entry.restored(np.fromfile(path, array.dtype, 1, offset=array.offset)[0])
        return values


class Hdf5File(Container):
    """An HDF5 file: data sets, groups and attributes as h5py makes them.

    New entries of an existing file are in a group of a temporary name until all are complete.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._added: dict[str, str] = {}
        self._moved: list[str] = []

    @contextmanager
    def _opened(self, path: str, mode: str) -> Iterator[Any]:
        h5py = hdf5_library(self.name)
        if mode != "w":
            check_ordinary(path)
        with opened_file(h5py, path, mode, self.name) as file:
            check_closed(h5py, file, self.name)
            yield file

    @contextmanager
    def _opened_with_space(self, path: str, mode: str, nbytes: int) -> Iterator[Any]:
        """Open the file to write, with so much space at its end: HDF5 destroys a file, or crashes, if the disk is full."""
        with self._opened(path, mode) as file, open(path, "r+b") as raw:
            try:
                allocate(raw, os.path.getsize(path) + nbytes, self.name)
                yield file
            finally:
                file.flush()
                raw.truncate(file.id.get_filesize())  # HDF5 has its lock yet

    def check(self, target: str) -> None:
        check_regular(target)

    def create(
        self, path: str, target: str, entries: Mapping[str, Entry], appends: bool, is_marked: bool
    ) -> dict[str, Place]:
        h5py = hdf5_library(self.name)
        nbytes = self._space(h5py, entries)
        if appends:
            self._temporary = _begun(temporary_name("append"))
        elif os.path.exists(target):  # as private as the old one may be
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        inside = {name: f"{self._temporary}/{name}" if appends else name for name in entries}
        with self._opened_with_space(path, "r+" if appends else "w", nbytes) as file:
            if is_marked and not appends:
                file.attrs[MARK] = FORMAT
            if appends:
                for each in [each for each in file if PART.fullmatch(str(each)) and _is_left(each)]:
                    del file[each]
            for name, entry in entries.items():
                with named_errors(f"{self.name}: entry {name!r} cannot be made"):
                    if appends:
                        _absent(file, name)
                        self._added[name] = inside[name]
                    self._make(h5py, file, inside[name], entry)
        with open(path, "r+b") as raw:
            allocate(raw, os.path.getsize(path), self.name)
            os.fsync(raw.fileno())
        return {name: Place(path, self.name, inside[name]) for name, entry in entries.items() if entry.kind == ARRAY}

    def _space(self, h5py: Any, entries: Mapping[str, Entry]) -> int:
        """Most bytes that entries need: those of numbers, and what a file in memory has for the rest."""
        numbers = 0
        with h5py.File(temporary_name("space"), "w", driver="core", backing_store=False) as file:
            for name, entry in entries.items():
                with named_errors(f"{self.name}: entry {name!r} cannot be made"):
                    self._make(h5py, file, name, entry, has_numbers=False)
                if entry.kind == ARRAY:
                    numbers += math.prod(entry.shape) * entry.dtype.itemsize
                elif isinstance(entry.stored, np.ndarray):
                    numbers += entry.stored.nbytes
            file.flush()
            return numbers + int(file.id.get_filesize()) + _links_space(entries)

    def _make(self, h5py: Any, file: Any, name: str, entry: Entry, has_numbers: bool = True) -> None:
        stored = None if entry.kind == ARRAY else entry.stored
        if not has_numbers and not isinstance(stored, str | list):
            dataset = file.create_dataset(name, (), entry.dtype if stored is None else stored.dtype)
        elif stored is None:
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if 0 not in entry.shape:  # all its space, in one piece, which ranks write
                properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            dataset = file.create_dataset(name, entry.shape, entry.dtype, dcpl=properties)
        else:
            dtype = stored.dtype if isinstance(stored, np.ndarray) else h5py.string_dtype()
            dataset = file.create_dataset(name, data=stored, dtype=dtype)
        for key, value in {MARK: entry.kind, **entry.attributes}.items():
            is_texts = isinstance(value, list)
            dataset.attrs.create(
                key, value, **({"shape": (len(value),), "dtype": h5py.string_dtype()} if is_texts else {})
            )

    def complete(self) -> None:
        if self._added:
            self._change(self._move)

    def _move(self, file: Any) -> None:
        with named_errors(self.name):
            for name in self._added:
                _absent(file, name)
            for name, inside in self._added.items():
                file.move(inside, name)
                self._moved.append(name)
            del file[self._temporary]

    def discard(self) -> None:
        if self._added:
            with suppress(OSError, KeyError):
                self._change(self._remove)

    def _remove(self, file: Any) -> None:
        for name in (*self._moved, self._temporary):
            if name in file:
                del file[name]

    def _change(self, action: Callable[[Any], None]) -> None:
        """Call a function with the file, which another program may have open for a moment."""
        for wait in WAITS:
            time.sleep(wait)
            with ExitStack() as opened:
                try:
                    file = opened.enter_context(self._opened_with_space(self.target, "r+", _links_space(self._added)))
                except FileError:
                    if wait == WAITS[-1]:
                        raise
                    continue
                action(file)
                return

    def holds_several(self) -> bool:
        h5py = hdf5_library(self.name)
        with self._opened(self.name, "r") as file:
            return MARK in file.attrs or not isinstance(_found(file, "data"), h5py.Dataset)

    def read(self) -> dict[str, Entry]:
        h5py = hdf5_library(self.name)
        with named_errors(self.name), self._opened(self.name, "r") as file:
            return dict(self._entries(h5py, file, "", ()))

    def _entries(self, h5py: Any, group: Any, before: str, above: tuple[Any, ...]) -> Iterator[tuple[str, Entry]]:
        """The data sets of a group by all their names, also those of links; a group within itself only once."""
        info = h5py.h5o.get_info(group.id)
        above = (*above, (info.fileno, info.addr))
        for key in group:
            name = before + (key if isinstance(key, str) else key.decode(errors="backslashreplace"))
            item = _found(group, key)
            if isinstance(item, h5py.Dataset) and isinstance(key, str):
                yield name, self._entry(h5py, item)
            elif not isinstance(item, h5py.Group):
                if not isinstance(item, h5py.Datatype):
                    yield name, Entry(UNREADABLE, (), np.dtype(object))
            elif not (PART.fullmatch(name)):
                info = h5py.h5o.get_info(item.id)
                if (info.fileno, info.addr) not in above:
                    yield from self._entries(h5py, item, f"{name}/", above)

    def _entry(self, h5py: Any, item: Any) -> Entry:
        attributes = {}
        for key in item.attrs:
            # Of types that NumPy or this module has not, such as references.
            with suppress(RedistributionError), named_errors(key):
                attributes[key] = checked_attribute(item.attrs[key])
        mark = attributes.pop(MARK, None)
        try:
            dtype = item.dtype
        except TypeError:  # one that NumPy does not have
            return Entry(UNREADABLE, item.shape or (), np.dtype(object), attributes)
        is_string = h5py.check_string_dtype(dtype) is not None
        if not _may_be(mark, item.shape, dtype, is_string and dtype.kind == "O"):
            mark = None
        is_text = is_string and (dtype.kind == "O" or mark is None)
        kind = mark or _foreign_kind(item.shape, dtype, is_text)
        return Entry(kind, item.shape or (), np.dtype(str) if is_text else dtype, attributes)

    def read_values(self, entries: Mapping[str, Entry]) -> dict[str, Any]:
        h5py, values = hdf5_library(self.name), {}
        with self._opened(self.name, "r") as file:
            for name, entry in entries.items():
                with named_errors(f"{self.name}: {name!r}"):
                    item = file[name]
                    is_text = h5py.check_string_dtype(item.dtype) is not None and entry.kind not in (WHOLE, SCALAR)
                    values[name] = entry.restored(item.asstr()[()] if is_text else item[()])
        return values


def _links_space(names: Collection[str]) -> int:
    """Most bytes that the groups and links of entries need in an HDF5 file, besides those of a file of these alone."""
    return 2**16 + sum(2**13 * (1 + name.count("/")) for name in names)


def _found(group: Any, name: Any) -> Any:
    """What a name of a group leads to; None for a link that leads nowhere."""
    try:
        return group[name]
    except (KeyError, OSError, RuntimeError):  # HDF5's kinds of errors in several versions of h5py
        return None


def _absent(group: Any, name: str) -> str:
    """The name, which is to be added to a group; a FileError if something has it."""
    if name in group or group.get(name, getlink=True) is not None:
        raise FileError(f"{group.name} has {name!r}, a group or a link: give another name")
    return name


def _may_be(kind: Any, shape: tuple[int, ...] | None, dtype: np.dtype[Any], is_text: bool) -> bool:
    """Whether a data set can be of the kind that its mark says, which another program may have made."""
    if not isinstance(kind, str) or kind not in KINDS or shape is None:
        return False
    if kind == TEXTS:
        return is_text and len(shape) == 1
    if kind == TEXT or (kind == "int" and is_text):
        return is_text and not shape
    if is_text or _foreign_kind(shape, dtype, False) == UNREADABLE:
        return False
    letters = {"bool": "b", "int": "iu", "float": "f", "complex": "c"}.get(kind)
    if letters is not None or kind == SCALAR:
        return not shape and (letters is None or dtype.kind in letters)
    return kind == WHOLE or bool(shape)


def _foreign_kind(shape: tuple[int, ...] | None, dtype: np.dtype[Any], is_text: bool) -> str:
    """The kind of a data set that has no mark."""
    if shape is None or (is_text and len(shape) > 1):
        return UNREADABLE
    if is_text:
        return TEXTS if shape else TEXT
    if dtype.hasobject or not dtype.itemsize or dtype.subdtype is not None:
        return UNREADABLE
    return ARRAY if shape else SCALAR


class ZarrGroup(Container):
    """A Zarr store with a group at its root. New entries of an existing one are beside it until all are complete."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._names: list[str] = []
        self._moved: list[str] = []
        self._groups: list[str] = []

    @property
    def index(self) -> str:
        return metadata_file(self.name, "")

    def check(self, target: str) -> None:
        check_ordinary(metadata_file(target, "") if os.path.exists(metadata_file(target, "")) else target)
        try:
            check_array_store(target)
        except FileError:
            facts = _node(target)
            if facts.get("node_type") != "group" or MARK not in facts["attributes"]:
                raise
            other = next(_others(target), None)
            if other is not None:
                raise FileError(
                    f"{target} has {other}, which save() has not made, and would be replaced: give another path, or remove it"
                ) from None

    def create(
        self, path: str, target: str, entries: Mapping[str, Entry], appends: bool, is_marked: bool
    ) -> dict[str, Place]:
        zarr = zarr_library(self.name)
        zarr_format = 3
        if appends:
            real = os.path.realpath(target)
            zarr_format = self._root(zarr, "r+").metadata.zarr_format
            for each in filter(_is_left, temporary_files_of(real)):
                shutil.rmtree(each, ignore_errors=True)
            path = self._temporary = _begun(temporary_name(real))
            self._names = [*entries]
        if os.path.exists(target):  # as private as the old one may be
            os.mkdir(path, stat.S_IRWXU)
        # Otherwise zarr leaves out chunks that equal the fill value: -0.0 would come back as 0.0.
        with named_errors(self.name), zarr.config.set({"array.write_empty_chunks": True}):
            root = zarr.open_group(Path(path), mode="w-", zarr_format=zarr_format)
            root.attrs[MARK] = FORMAT
            for name, entry in entries.items():
                with named_errors(f"{self.name}: entry {name!r} cannot be made"):
                    self._make(root, name, entry)
        for folder, _, files in os.walk(path):
            for each in (*files, ""):
                bring_to_disk(os.path.join(folder, each))
        return {name: Place(path, self.name, name) for name, entry in entries.items() if entry.kind == ARRAY}

    def _root(self, zarr: Any, mode: str) -> Any:
        """The group at the root, as its folders are: of consolidated metadata another program may have made an old copy."""
        with named_errors(self.name):
            check_ordinary(metadata_file(self.name, ""))
            root = zarr.open(Path(self.name), mode=mode, use_consolidated=False)
            if isinstance(root, zarr.Array):
                raise FileError(
                    f"{self.name} is a store of one array: load it without names=, layouts= and open, and append to another"
                )
            return root

    def complete(self) -> None:
        if not self._temporary:
            return
        zarr = zarr_library(self.name)
        root = self._root(zarr, "r+")
        with named_errors(self.name):
            for name in self._names:
                for group in _groups(name):
                    if group not in root:
                        self._check_absent(group)
                        root.create_group(group)
                        self._groups.append(group)
                self._check_absent(name)
                os.rename(os.path.join(self._temporary, name), os.path.join(self.name, name))
                self._moved.append(name)
                bring_to_disk(os.path.dirname(os.path.join(self.name, name)))
            whole = zarr.open_group(Path(self.name), mode="r+")
            if whole.metadata.consolidated_metadata is not None:
                zarr.consolidate_metadata(Path(self.name))
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _check_absent(self, name: str) -> None:
        if os.path.lexists(os.path.join(self.name, name)):
            raise FileError(f"{self.name} has {name!r}, a group or another file: give another name")

    def _make(self, root: Any, name: str, entry: Entry) -> None:
        stored = None if entry.kind == ARRAY else entry.stored
        dtype: Any = entry.dtype if stored is None else getattr(stored, "dtype", str)
        if isinstance(dtype, np.dtype) and not dtype.names:
            dtype = np.dtype(dtype.str)  # "q" and "l" are equal, but zarr has one of them only
        shape = entry.shape if stored is None else np.shape(stored)
        converted = {key: _to_json(value) for key, value in entry.attributes.items()}
        mark = {"kind": entry.kind, "attributes": {key: form for key, (_, form) in converted.items() if form}}
        if entry.kind in (WHOLE, SCALAR):
            mark["dtype"] = _dtype_text(entry.dtype)  # version 3 of the format has no byte order
        attributes = {MARK: mark, **{key: value for key, (value, _) in converted.items()}}
        array = root.create_array(name, shape=shape, dtype=dtype, attributes=attributes)
        if isinstance(stored, list):
            stored = np.array(stored, object)
        if stored is not None and 0 not in shape:
            array[...] = stored

    def discard(self) -> None:
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)
        for name in self._moved:
            shutil.rmtree(os.path.join(self.name, name), ignore_errors=True)
        for group in reversed(self._groups):
            folder = os.path.join(self.name, group)
            with suppress(OSError):
                if set(os.listdir(folder)) <= set(OF_ZARR):
                    shutil.rmtree(folder)

    def contents(self) -> tuple[dict[str, Entry], dict[str, Any]]:
        left = self._left_aside()
        if left:
            raise FileError(
                f"{self.name} is not there, but {', '.join(left)}: a save was killed between two renames, as where a file "
                f"system cannot exchange names: rename the one that zarr opens whole to {self.name}; if none is whole, it was "
                "the first save: save again"
            )
        return super().contents()

    def _left_aside(self) -> list[str]:
        """What a killed save has left of the old and the new store, if there is none of the name."""
        return [] if os.path.exists(self.name) else temporary_files_of(os.path.realpath(self.name))

    def holds_several(self) -> bool:
        zarr = zarr_library(self.name)
        if self._left_aside():
            return True  # whose error says so
        with named_errors(self.name):
            check_ordinary(metadata_file(self.name, ""))
            return not isinstance(zarr.open(Path(self.name), mode="r"), zarr.Array)

    def _arrays(self) -> dict[str, Any]:
        zarr = zarr_library(self.name)
        root = self._root(zarr, "r")
        return {name: item for name, item in root.members(max_depth=None) if isinstance(item, zarr.Array)}

    def read(self) -> dict[str, Entry]:
        with named_errors(self.name):
            return {name: self._entry(array) for name, array in self._arrays().items()}

    def _entry(self, array: Any) -> Entry:
        raw = dict(array.attrs)
        mark, attributes = raw.pop(MARK, None), {}
        is_text = array.dtype.kind == "T" or (array.dtype.kind == "O" and array.metadata.zarr_format == 3)
        if not isinstance(mark, dict) or not _may_be(mark.get("kind"), array.shape, array.dtype, is_text):
            mark = {}
        forms = mark.get("attributes")
        forms = forms if isinstance(forms, dict) else {}
        for key, value in raw.items():
            with suppress(RedistributionError), named_errors(key):  # nested JSON
                attributes[key] = checked_attribute(_from_json(value, forms.get(key)))
        dtype = np.dtype(str) if is_text else array.dtype
        kind = mark.get("kind") or _foreign_kind(array.shape, dtype, is_text)
        return Entry(kind, array.shape, _dtype_of(mark["dtype"]) if "dtype" in mark else dtype, attributes)

    def read_values(self, entries: Mapping[str, Entry]) -> dict[str, Any]:
        with named_errors(self.name):
            arrays = self._arrays()
            return {name: entry.restored(_plain(arrays[name][...])) for name, entry in entries.items()}


def _node(folder: str) -> dict[str, Any]:
    """The metadata of a node of a Zarr store of version 3; of another folder without a type."""
    with suppress(OSError, ValueError):
        check_ordinary(os.path.join(folder, "zarr.json"))
        facts = json.loads(Path(folder, "zarr.json").read_bytes())
        if isinstance(facts, dict) and isinstance(facts.get("attributes"), dict):
            return facts
    return {"attributes": {}}


def _others(folder: str) -> Iterator[str]:
    """Files and folders in a group that `save` has not made."""
    for each in sorted(os.listdir(folder)):
        path = os.path.join(folder, each)
        facts = _node(path)
        if facts.get("node_type") == "group":
            yield from _others(path)
        elif each != "zarr.json" and (facts.get("node_type") != "array" or MARK not in facts["attributes"]):
            yield path


def _plain(stored: Any) -> Any:
    """What zarr gives for an array of no dimensions, without its wrapping."""
    return stored[()] if isinstance(stored, np.ndarray) and not stored.shape else stored


class Folder(Container):
    """A folder with an index, which is renamed last, and for each save a subfolder of .npy files."""

    is_atomic = True

    def __init__(self, name: str) -> None:
        super().__init__(name.rstrip(os.sep) or name)
        self.target = os.path.join(self.name, INDEX)
        self._subfolder, self._is_new = "", False
        self._old: bytes | None = None
        self._appends, self._locked = False, ExitStack()
        self._mode: int | None = None

    @property
    def _root(self) -> str:
        return os.path.dirname(os.path.realpath(self.target))

    def prepare(self) -> None:
        if not os.path.lexists(self.name):
            os.mkdir(self.name)
            self._is_new = True
            bring_to_disk(os.path.dirname(self.name) or ".")
        if not os.path.isdir(self.name):
            raise FileError(
                f"{self.name} is a file, and would be a folder of .npy files: give another name, or remove it"
            )
        if os.path.lexists(self.target):
            return
        leftovers = {os.path.basename(path) for path in temporary_files_of(self.target)}
        others = [each for each in os.listdir(self.name) if not SAVED.fullmatch(each) and each not in leftovers]
        if others:
            raise FileError(
                f"{self.name} is a folder with {', '.join(sorted(others)[:5])} and without an index of save(): give a new or "
                "an empty one"
            )

    def check(self, target: str) -> None:
        check_regular(target)
        self._parsed(Path(target).read_bytes())

    def _index_text(self) -> bytes | None:
        """What is in the index; None if there is none."""
        if not os.path.exists(self.target):
            return None
        check_ordinary(self.target)
        return Path(self.target).read_bytes()

    def create(
        self, path: str, target: str, entries: Mapping[str, Entry], appends: bool, is_marked: bool
    ) -> dict[str, Place]:
        self._old, self._appends = self._index_text(), appends
        self._mode = None if self._old is None else stat.S_IMODE(os.stat(target).st_mode)
        kept = self._parsed(self._old) if appends and self._old is not None else {}
        self._subfolder = os.path.basename(temporary_name("data"))[1:].removesuffix("part") + "saved"
        self._temporary = _begun(self._subfolder)
        os.mkdir(os.path.join(self._root, self._subfolder))
        placed = {}
        for name, entry in entries.items():
            with named_errors(f"{self.name}: entry {name!r} cannot be made"):
                placed[name] = self._make(name, entry)
        for folder, _, _ in os.walk(os.path.join(self._root, self._subfolder)):
            bring_to_disk(folder)
        bring_to_disk(self._root)
        text = json.dumps({MARK: FORMAT, "entries": {n: _described(e) for n, e in (kept | placed).items()}}, indent=1)
        Path(path).write_text(text)
        bring_to_disk(path)
        return {name: self.place(name, entry) for name, entry in placed.items() if entry.kind == ARRAY}

    def _make(self, name: str, entry: Entry) -> Entry:
        """Make the file of an entry, of an array of all ranks with its space alone; the index has other values."""
        if entry.kind not in (ARRAY, WHOLE, SCALAR):
            return entry
        *groups, last = [quote(part, safe=" ") for part in name.split("/")]
        # No group is called as a file beside it: files have the only dot.
        folders = [group.replace(".", "%2E") for group in groups]
        folder = os.path.join(self._root, self._subfolder, *folders)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{last}.npy"), "xb") as file:
            if self._mode is not None:  # as private as the index
                os.fchmod(file.fileno(), self._mode | stat.S_IRUSR | stat.S_IWUSR)
            if entry.kind == ARRAY:
                header = npy_header(entry.dtype, entry.shape, "C")
                file.write(header)
                file.flush()
                nbytes = entry.dtype.itemsize * math.prod(entry.shape)
                if nbytes:
                    allocate(file, len(header) + nbytes, file.name)
            else:
                np.save(file, entry.stored, allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
        return replace(entry, file=os.path.join(self._subfolder, *folders, f"{last}.npy"))

    def complete(self) -> None:
        self._lock()
        if self._appends and self._index_text() != self._old:
            raise FileError(f"{self.name} was changed by another program during the call: append again")

    def _lock(self) -> None:
        """Lock the folder until the end of the call: what another one has appended would be lost."""
        folder = os.open(self._root, os.O_RDONLY | os.O_CLOEXEC)
        self._locked.callback(os.close, folder)
        for wait in WAITS:
            time.sleep(wait)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            except OSError:  # a file system without locks of folders
                pass
            return
        raise FileError(f"{self.name} is being saved by another program: save again when that has ended")

    def end(self) -> None:
        self._locked.close()
        super().end()

    def discard(self) -> None:
        with suppress(OSError, FileError):
            index = self.read() if os.path.exists(self.target) else {}
            if self._subfolder and self._subfolder not in _subfolders(index):
                shutil.rmtree(os.path.join(self._root, self._subfolder), ignore_errors=True)
        if self._is_new:
            with suppress(OSError):
                os.rmdir(self.name)

    def replaced(self) -> list[str]:
        kept = _subfolders(self.read())
        with suppress(FileError):
            for each in _subfolders(self._parsed(self._old or b"{}")) - kept:
                if SAVED.fullmatch(each):
                    shutil.rmtree(os.path.join(self._root, each), ignore_errors=True)
        left = {each: _is_left(each) for each in os.listdir(self._root) if SAVED.fullmatch(each) and each not in kept}
        for each in filter(left.get, left):
            shutil.rmtree(os.path.join(self._root, each), ignore_errors=True)
        return [os.path.join(self._root, each) for each in sorted(left) if left[each] is None]

    def holds_several(self) -> bool:
        return os.path.isdir(self.name)

    def read(self) -> dict[str, Entry]:
        if os.path.isdir(self.name) and not os.path.exists(self.target):
            raise FileError(f"{self.name} has no {INDEX}: it is no folder that save() has completed")
        check_ordinary(self.target)
        return self._parsed(Path(self.target).read_bytes())

    def _parsed(self, text: bytes) -> dict[str, Entry]:
        with named_errors(f"{self.target} is no index that save() has written, so give another folder"):
            index = json.loads(text)
            if index.get(MARK) != FORMAT:
                raise ValueError(f"it has {MARK} = {index.get(MARK)!r}, not {FORMAT}")
            return {name: _entry_of(facts) for name, facts in index["entries"].items()}

    def read_values(self, entries: Mapping[str, Entry]) -> dict[str, Any]:
        values = {}
        for name, entry in entries.items():
            path = os.path.join(self.name, entry.file)
            with named_errors(path):
                if entry.file:
                    check_ordinary(path)
                values[name] = entry.restored(np.load(path, allow_pickle=False) if entry.file else entry.value)
                if entry.file and read_npy_header(path).shape != entry.shape:
                    raise FileError(f"{path} has another shape than {INDEX} says: the folder was changed")
        return values

    def place(self, name: str, entry: Entry) -> Place:
        path = os.path.join(self.name, entry.file)
        return Place(path, path, None)


def _subfolders(entries: Mapping[str, Entry]) -> set[str]:
    return {entry.file.split(os.sep)[0] for entry in entries.values() if entry.file}


def _described(entry: Entry) -> dict[str, Any]:
    """An entry in the index of a folder."""
    converted = {key: _to_json(value) for key, value in entry.attributes.items()}
    facts = {"kind": entry.kind, "shape": list(entry.shape), "dtype": _dtype_text(entry.dtype)}
    value = {"file": entry.file} if entry.file else {"value": _to_json(entry.value)[0]}
    return {
        **facts,
        **value,
        "attributes": {key: value for key, (value, _) in converted.items()},
        "forms": {key: form for key, (_, form) in converted.items() if form},
    }


def _entry_of(facts: Mapping[str, Any]) -> Entry:
    if facts["kind"] not in KINDS:
        raise ValueError(f"an entry of the kind {facts['kind']!r} is unknown")
    forms = facts["forms"]
    attributes = {key: _from_json(value, forms.get(key)) for key, value in facts["attributes"].items()}
    value, file = facts.get("value"), facts.get("file", "")
    if os.path.isabs(file) or os.pardir in file.split(os.sep):
        raise ValueError(f"an entry is in {file!r}, which is not in the folder")
    if facts["kind"] == "complex":
        value = _from_json(value, "complex")
    return Entry(facts["kind"], tuple(facts["shape"]), _dtype_of(facts["dtype"]), attributes, value, file)
