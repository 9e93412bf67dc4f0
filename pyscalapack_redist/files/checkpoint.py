"""Checkpoints: many arrays and values in one file, saved in one transaction and loaded on any number of ranks.

The first rank makes the file under a temporary name with all that is small; then each array goes the way of `save` into its
data set; one rename makes all of it valid. The formats are in `containers`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._lazy import load_above
from ..adapters.adapter import adapter_of
from ..arguments import communicator_for, in_slabs, move, named_layout, not_taken, read_argument, slabs_of
from ..comm.agreement import agreement
from ..comm.groups import MPIGroup, group_of
from ..comm.guard import holding_interrupts
from ..comm.mpi import MPI
from ..comm.vote import digest
from ..engine.spec import communicator_of
from ..errors import ArrayError, DescriptorError, FileError, LibraryError, RedistributionError, shown
from ..layout.array_arithmetic import Distributed
from ..layout.dtypes import dtype_digest, foreign_dtypes
from ..layout.grid import checked_communicator
from ..layout.notation import check_layout_text, layout_from_text
from ..layout.tiles import Layout, Tiles, read_layout
from ..tracebacks import brief, brief_methods
from .containers import (
    ARRAY,
    MARK,
    NUMBERS,
    SCALAR,
    TEXT,
    TEXTS,
    UNREADABLE,
    WHOLE,
    Container,
    Entry,
    Place,
    ReadableContainer,
    check_names,
    check_text,
    checked_attribute,
    container_of,
    readable_container_of,
)
from .contents import FilePart, check_ordinary, checked_path, is_folder_name, is_hdf5, is_safetensors, is_zarr
from .load_and_save import DATASET, array_file, load, local_array
from .replacement import remove_ended, replace_file
from .slabs import as_file_error, on_all, on_first, one_file

ALL = FilePart(None, None, None, None)
MOST_BITS = 2**13  # of an integer, which Python converts to decimal text


# -- saving


class Values(NamedTuple):
    """What a rank has read of the arguments of `save`, before arrays of other libraries are read.

    Attributes
    ----------
    container : Container
        The file.
    entries : dict
        By name, in their order; those of arrays of all ranks without shape and dtype.
    appends : bool
        Whether they are added to the file.
    given : dict
        What was given, by the names of the entries.
    """

    container: Container
    entries: dict[str, Entry]
    appends: bool
    given: dict[str, Any]


def save_entries(
    entries: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    comm: MPI.Intracomm | None = None,
    append: bool = False,
    progress: bool = False,
    is_one: bool = False,
    **others: Any,
) -> None:
    """Write many arrays and values into one file, as `save` of a dict says. Collective over the communicator.

    With `is_one` it is one array, in HDF5 by default "data", and a new file is not made one of several.
    """
    comm = _communicator_of(entries, comm)
    group = group_of(comm)
    with agreement(group, "save of several arrays", confirm=True) as agreed:
        values = as_file_error(lambda: _read_values(entries, path, attributes, append, others, is_one))
        bool(progress)  # which an array of several numbers refuses: here, where all ranks hear of it
        agreed.same("path", values.container.name)
        agreed.same("append", values.appends)
        agreed.same("the names", tuple(values.entries))
        for name, entry in values.entries.items():
            agreed.same(f"entry {name!r}", _digest_of(entry), _Text(entry))
            plain = tuple((key, _digest_of_value(value)) for key, value in entry.attributes.items())
            agreed.same(f"attributes[{name!r}]", digest(plain), dict(entry.attributes))
    container, table, appends, given = values

    arrays = {
        name: read_argument(f"entry {name!r}", given[name], comm, required=True).content
        for name, entry in table.items()
        if entry.kind == ARRAY
    }
    with agreement(group, "save of several arrays, their layouts", combine=_joined) as agreed:
        for name, array in arrays.items():
            arrays[name] = _on(comm, name, array)
            agreed.same(f"the layout of entry {name!r}", arrays[name].desc.layout_digest, arrays[name].desc)
        agreed.give([(name, array.dtype) for name, array in arrays.items()])
    for name, dtype in agreed.result.items():
        table[name] = replace(table[name], shape=arrays[name].shape, dtype=dtype)

    with ExitStack() as at_end, ExitStack() as undo:
        if group.rank == 0:
            at_end.callback(container.end)
            undo.callback(container.discard)
        exists = on_first(group, lambda: _prepared(container, list(table), appends))
        adds_in_place = exists and appends and not container.is_atomic

        def write(temporary: str, target: str) -> None:
            places = on_first(group, lambda: container.create(temporary, target, table, exists and appends, not is_one))
            for name, place in places.items():
                _write(group, place, arrays[name], table[name].dtype, progress)
            on_first(group, container.complete)

        if adds_in_place:
            write(container.target, container.target)
        else:
            replace_file(group, container.target, write, container.check)
        undo.pop_all()
    left = on_first(group, container.replaced)
    if left:
        remove_ended(group, left, container.name)


def append_array(desc: Any, local: Any, path: Any, comm: Any, options: Mapping[str, Any]) -> None:
    """Add one array to a file, as a new data set. Collective over the communicator of its layout, or over `comm`."""
    options = {key: value for key, value in options.items() if value is not None}
    save_entries({options.pop("dataset", ""): (desc, local)}, path, comm=comm, is_one=True, **options)


class _Text:
    """An entry in the text of an error."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def __repr__(self) -> str:
        return "a distributed array" if self._entry.kind == ARRAY else shown(self._entry.value)


def _communicator_of(entries: Mapping[str, Any], comm: MPI.Intracomm | None) -> MPI.Intracomm:
    """The given communicator, or that of the first array of all ranks. A rank that finds none is heard by no other."""
    if checked_communicator(comm) is not None:
        return comm  # type: ignore[return-value]
    for _, value in sorted(entries.items(), key=lambda item: str(item[0])):
        if isinstance(value, Distributed):
            return communicator_of(value.desc)
        adapter = adapter_of(value)
        if adapter is not None:
            return communicator_for(adapter, value, None, value)[0]
    raise DescriptorError(
        "comm = None: no entry is a distributed array, so give the communicator of the ranks that save, as in "
        "save({...}, path, comm=comm)"
    )


def _read_values(
    entries: Mapping[str, Any], path: object, attributes: Any, append: object, others: Mapping[str, Any], is_one: bool
) -> Values:
    """The arguments of `save`, checked."""
    for option in others:
        raise FileError(
            f"{option} = {shown(others[option])} is for the save of one array in a file: omit it with a dict, or append=True"
        )
    container = container_of(checked_path(path, None))
    if is_one and "" in entries and is_hdf5(container.name):
        entries = {DATASET: entries[""]}
    check_names(list(entries))
    entries = {str.__str__(name): value for name, value in entries.items()}
    try:
        appends = bool(append)
    except ValueError:  # of an array
        raise FileError(f"append = {shown(append)} must be True or False") from None
    if attributes is not None and not isinstance(attributes, Mapping):
        raise ArrayError(f"attributes = {shown(attributes)} must be a dict of dicts, as {{'u': {{'units': 'm/s'}}}}")
    of_no_entry = [name for name in attributes or () if name not in entries]
    if of_no_entry:
        raise ArrayError(f"attributes has {of_no_entry[0]!r}, which is no entry: the entries are {_listed(entries)}")
    table = {name: _entry_of(name, entries[name]) for name in sorted(entries)}
    for name, own in (attributes or {}).items():
        table[name] = replace(table[name], attributes=_checked_attributes(name, own))
    return Values(container, table, appends, dict(entries))


def _checked_attributes(name: str, attributes: object) -> dict[str, Any]:
    what = f"attributes[{name!r}]"
    if not isinstance(attributes, Mapping):
        raise ArrayError(f"{what} = {shown(attributes)} must be a dict")
    for key in attributes:
        check_text(f"a name in {what}", key)
        if key in ("", MARK):
            raise FileError(f"{what} has the name {key!r}: give another one, for files need it")
    checked = {}
    for key in sorted(attributes):
        try:
            checked[str.__str__(key)] = checked_attribute(attributes[key])
        except RedistributionError as error:
            raise type(error)(f"{what}[{key!r}]: {error}") from None
    return checked


def _entry_of(name: str, value: Any) -> Entry:
    """The kind of a value; an ArrayError for one that no file can hold."""
    what = f"entry {name!r}"
    if isinstance(value, Distributed):
        return Entry(ARRAY, (), np.dtype(float))
    if isinstance(value, str):
        check_text(what, value)
        return Entry(TEXT, (), np.dtype(str), value=str.__str__(value))
    if isinstance(value, np.generic):
        return Entry(SCALAR, (), _checked_dtype(what, value.dtype), value=value)
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise ArrayError(f"{what} is an int of {value.bit_length()} bits: at most {MOST_BITS} can be saved")
    for kind, number in NUMBERS.items():
        if isinstance(value, number):
            plain = number(value)
            dtype = np.asarray(plain).dtype
            return Entry(kind, (), np.dtype(str) if dtype.hasobject else dtype, value=plain)
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        for k, text in enumerate(value):
            check_text(f"{what}[{k}]", text)
        return Entry(TEXTS, (len(value),), np.dtype(str), value=[str.__str__(text) for text in value])
    if adapter_of(value) is not None:
        return Entry(ARRAY, (), np.dtype(float))
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        return Entry(WHOLE, value.shape, _checked_dtype(what, value.dtype), value=value.view(np.ndarray))
    if isinstance(value, Mapping):
        raise ArrayError(f"{what} is a dict: names with '/' make groups, as {{'{name}/a': ...}}")
    if isinstance(value, list | tuple):
        raise ArrayError(
            f"{what} = {shown(value)} must be a list of str, a pair (layout, local array), or numbers in a NumPy array, "
            "numpy.array(...)"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise ArrayError(
            f"{what} is a masked array; the mask would be lost: save value.filled(...), and the mask beside it"
        )
    if value is None:
        raise ArrayError(f"{what} is None: leave it out; on a rank outside the grid give a pair (layout, None)")
    raise not_taken(what, value)


def _checked_dtype(what: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of elements that a file has a name for."""
    if dtype.hasobject or not dtype.itemsize or dtype.subdtype is not None:
        raise ArrayError(
            f"{what} has dtype {dtype}: only elements of a fixed size are saved; text as str or a list of str"
        )
    foreign = foreign_dtypes(dtype)
    if foreign:
        raise ArrayError(
            f"{what} has dtype {dtype}, and a file cannot name {foreign[0]}: save a view of its bytes, as by "
            f".view('V{dtype.itemsize}'), and view what is loaded"
        )
    return dtype


def _digest_of(entry: Entry) -> int:
    """A number equal on all ranks that have the same value; of arrays of all ranks the same for all."""
    return digest((entry.kind, None if entry.kind == ARRAY else _digest_of_value(entry.value)))


def _digest_of_value(value: Any) -> int:
    if isinstance(value, np.ndarray | np.generic):
        # bytes between numbers, as those of long doubles have them, may be any
        content = repr(value.tolist()).encode() if value.dtype.char in "gGV" else value.tobytes()
        return digest((dtype_digest(value.dtype), value.shape, digest(content)))
    return digest((type(value).__name__, tuple(value) if isinstance(value, list) else value))


def _on(comm: MPI.Intracomm, name: str, array: Distributed) -> Distributed:
    """An array of all ranks on the communicator, checked."""
    desc: Layout = array.desc.on(comm)
    dtype = array.dtype
    if dtype is not None:
        _checked_dtype(f"entry {name!r}", dtype)
    if not isinstance(desc, Tiles):
        local_array(f"entry {name!r}", array.local, desc)
    return type(array)._from_result(desc, array.local, dtype)


def _joined(known: list[list[tuple[str, np.dtype[Any] | None]]]) -> dict[str, np.dtype[Any]]:
    """The dtypes of all arrays; ranks without elements may know none."""
    dtypes: dict[str, np.dtype[Any]] = {}
    for rank, own in enumerate(known):
        for name, dtype in own:
            if dtype is not None and dtypes.setdefault(name, dtype) != dtype:
                raise ArrayError(
                    f"entry {name!r} has dtype {dtypes[name]} on one rank, and {dtype} on rank {rank}: convert it by astype"
                )
    for name, _ in known[0]:
        if name not in dtypes:
            raise ArrayError(
                f"entry {name!r} is None on every rank, so its dtype is unknown: give an empty array of that dtype on one rank"
            )
    return dtypes


def _prepared(container: Container, names: list[str], appends: bool) -> bool:
    """Whether the file is there, after what must be made and checked before anything is written. On the first rank."""
    container.prepare()
    exists = os.path.exists(container.target)
    if exists and appends:
        container.check_new(names)
    return exists


def _write(group: MPIGroup, place: Place, array: Distributed, dtype: np.dtype[Any], progress: bool) -> None:
    """Write an array of all ranks into its data set. Collective."""
    array = in_slabs(array)
    local = on_all(group, lambda: local_array("local", array.local, array.desc))
    file = array_file(group, place.path, place.name, place.dataset)
    with one_file(group, file.identity(), writes=True, elsewhere=("size",)):
        located = file.locate(ALL, array.desc, dtype)
        # What a library says of the dtype may differ in byte order and alignment.
        file.write(replace(located, dtype=dtype), array.desc, local, progress)


# -- loading


@brief_methods
class FileContents(Mapping[str, Any]):
    """The entries of a file of several arrays, by name, which loads those that are asked for. `open` makes it.

    Its names, `in`, `len`, `shapes`, `dtypes` and `attributes` are known to all ranks without communication. `f[name]`, as
    `get`, `values` and `items`, and `load` read the file: they are collective over the communicator of `open`.

    Attributes
    ----------
    path : str
        The file or folder.
    """

    def __init__(
        self, container: ReadableContainer, comm: MPI.Intracomm, entries: Mapping[str, Entry], identity: Mapping[str, Any]
    ) -> None:
        self._container, self._comm, self._entries, self._identity = container, comm, entries, identity
        self._group = group_of(comm)
        self.path = container.name

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __eq__(self, other: object) -> bool:
        return self is other  # that of mappings would read the file

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        rows = [
            (name, entry.kind, "x".join(map(str, entry.shape)), str(entry.dtype) if entry.dtype.itemsize else "")
            for name, entry in self._entries.items()
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n  ".join([f"{type(self).__name__} of {self.path}, {len(rows)} entries", *lines])

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each entry; () of numbers and text. Not collective."""
        return {name: entry.shape for name, entry in self._entries.items()}

    @property
    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """The dtype of each entry in the file; that of `str` of text. Not collective."""
        return {name: entry.dtype for name, entry in self._entries.items()}

    @property
    def attributes(self) -> dict[str, dict[str, Any]]:
        """The attributes of each entry. Not collective."""
        return {name: dict(entry.attributes) for name, entry in self._entries.items()}

    @holding_interrupts
    def get(self, name: str, default: Any = None) -> Any:
        """Load an entry, or give the default if there is none of that name, which is no error. Collective."""
        with agreement(self._group, "get of one of several arrays", confirm=True) as agreed:
            agreed.same("whether there is an entry of the name", isinstance(name, str) and name in self._entries, name)
        return self[name] if isinstance(name, str) and name in self._entries else default

    def __getitem__(self, name: str) -> Any:
        """Load an entry, an array in balanced rows. Collective; a KeyError on all ranks if there is none of that name."""
        return self._load((name,), None, "rows", False, KeyError)[name]

    def load(
        self,
        names: Sequence[str] | None = None,
        layouts: Mapping[str, Any] | None = None,
        layout: str = "rows",
        progress: bool = False,
    ) -> dict[str, Any]:
        """Load entries. Collective over the communicator of `open`.

        Parameters
        ----------
        names : sequence of str, optional
            Which ones; by default all.
        layouts : dict, optional
            By name, the layout of an array on the communicator: `Descriptor`, `Tiles`, a `DistributedArray` that has it, or a
            text such as "2x2:64x64".
            An array that each rank had whole may have one too.
        layout : str
            Of other arrays, as for `zeros`.
        progress : bool
            As for `load`.

        Returns
        -------
        dict
            The entries as they were: a `DistributedArray`, a NumPy array or number, or a value of Python.

        Raises
        ------
        FileError
            There is no such entry, it cannot be read, or the file was replaced or changed since `open`. On all ranks.
        ArrayError, DescriptorError
            An argument is wrong on this rank.
        CollectiveError
            An argument is wrong on another rank, or a rank could not read.
        """
        return self._load(names, layouts, layout, progress, FileError)

    @holding_interrupts
    def _load(
        self, names: Any, layouts: Any, layout: object, progress: bool, missing: type[Exception]
    ) -> dict[str, Any]:
        with agreement(self._group, "load of several arrays", confirm=True) as agreed:
            chosen = self._chosen(names, missing)
            bool(progress)
            targets = self._targets(chosen, {} if layouts is None else layouts, layout)
            agreed.same("names", tuple(chosen))
            for name, target in targets.items():
                agreed.same(f"the layout of {name!r}", target.layout_digest, target)
        on_first(self._group, self._check_unchanged)
        of_values = {name: self._entries[name] for name in chosen if name not in targets}
        values = on_first(self._group, lambda: self._container.read_values(of_values)) if of_values else {}
        loaded = {
            name: of_values[name].restored(value) for name, value in values.items()
        }  # byte order is lost on the way
        for name, target in targets.items():
            loaded[name] = self._read(name, target, progress)
        on_first(self._group, self._check_unchanged)
        return {name: loaded[name] for name in chosen}

    def _chosen(self, names: Any, missing: type[Exception]) -> list[str]:
        if isinstance(names, str) or not (names is None or isinstance(names, Sequence)):
            raise FileError(f"names = {shown(names)} must be a sequence of names, as ('u', 'step')")
        for name in () if names is None else names:
            if not isinstance(name, str):
                raise FileError(f"{shown(name)} in names must be a str")
            if name not in self._entries:
                raise missing(f"{self.path} has no entry {name!r}; it has {_listed(self._entries)}")
        chosen = list(self._entries) if names is None else list(dict.fromkeys(names))
        for name in chosen:
            if self._entries[name].kind == UNREADABLE:
                raise FileError(
                    f"{self.path}: {name!r} holds {self._entries[name].dtype} or nothing: only numbers of fixed sizes and text "
                    "can be read; give the others by names="
                )
        return chosen

    def _targets(self, chosen: Sequence[str], layouts: Any, layout: object) -> dict[str, Layout]:
        """The layouts of the arrays to load."""
        if not isinstance(layouts, Mapping):
            raise DescriptorError(f"layouts = {shown(layouts)} must be a dict of layouts by name, as {{'u': desc}}")
        check_layout_text("layout", layout)
        for name in layouts:
            if name not in chosen or self._entries[name].kind not in (ARRAY, WHOLE) or not self._entries[name].shape:
                arrays = [each for each in chosen if self._entries[each].kind in (ARRAY, WHOLE)]
                raise DescriptorError(
                    f"layouts has {name!r}, which is no array to load; the arrays are {_listed(arrays)}"
                )
        targets: dict[str, Layout] = {}
        for name in chosen:
            entry, given = self._entries[name], layouts.get(name)
            if name in layouts:
                given = given.desc if isinstance(given, Distributed) else given
                target: Layout | None
                if isinstance(given, str):
                    target = layout_from_text(f"layouts[{name!r}]", given, entry.shape, self._comm)
                else:
                    target = read_layout(f"layouts[{name!r}]", given, self._comm, True)
                if target is None or target.shape != entry.shape:
                    raise DescriptorError(
                        f"layouts[{name!r}] = {shown(given)} must be a layout of shape {entry.shape}, which {self.path} has"
                    )
                targets[name] = target.on(self._comm)
            elif entry.kind == ARRAY:
                targets[name] = named_layout(entry.shape, layout, self._comm)
        return targets

    def _read(self, name: str, target: Layout, progress: bool) -> Distributed:
        entry = self._entries[name]
        place = self._container.place(name, entry)
        desc = slabs_of(target) if isinstance(target, Tiles) else target
        local = load(desc, place.path, dataset=place.dataset, comm=self._comm, progress=progress)
        kind = load_above("distributed_array").DistributedArray
        array: Distributed = kind._from_result(desc, local, entry.dtype.newbyteorder("="))
        return array if desc is target else move(array, target)

    def _check_unchanged(self) -> None:
        if self._container.identity() != self._identity:
            raise FileError(f"{self.path} was replaced or changed since it was opened: open it again")


def _listed(names: Any) -> str:
    return ", ".join([repr(name) for name in names][:10]) or "none"


@brief
@holding_interrupts
def open(path: str | os.PathLike[str], comm: MPI.Intracomm) -> FileContents:
    """The entries of a file of several arrays: HDF5, a Zarr group, safetensors, or a folder of `save`. Collective over `comm`.

    The first rank reads the names, shapes, dtypes and attributes, for all. Nothing stays open.

    Parameters
    ----------
    path : str or path
        The file, of `save` or of another program, equal on all ranks; all must have access to it.
    comm : MPI.Intracomm
        Communicator of the ranks that will load.

    Returns
    -------
    FileContents
        A mapping from names to arrays and values, which are loaded when they are asked for.

    Raises
    ------
    FileError, LibraryError
        The file is not there, is of another format or cannot be read. On all ranks.
    DescriptorError
        `comm` is no intra-communicator; on this rank.
    CollectiveError
        The path is wrong on another rank, or differs.
    """
    if checked_communicator(comm) is None:
        raise DescriptorError("comm = None: give the communicator of the ranks that load, as in open(path, comm)")
    group = group_of(comm)
    with agreement(group, "open", confirm=True) as agreed:
        container = as_file_error(lambda: readable_container_of(checked_path(path, None)))
        agreed.same("path", container.name)
    entries, identity = on_first(group, container.contents)
    return FileContents(container, comm, entries, identity)


def load_entries(
    path: str | os.PathLike[str], comm: Any, names: Any, layouts: Any, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The entries of a file, as `load` of a file of several arrays says; `options` are its others. Collective."""
    of_others = {key: value for key, value in options.items() if value is not None}
    layout, progress = of_others.pop("layout", "rows"), of_others.pop("progress", False)
    contents = open(path, comm)
    with agreement(contents._group, "load of several arrays, its arguments"):
        for key, value in of_others.items():
            raise FileError(f"{key} = {shown(value)} is for one array: omit it for {contents.path}, or give dataset=")
    return contents.load(names, layouts, layout, progress)


def name_to_load(path: Any, comm: Any) -> Any:
    """The name of a file to load, which every rank has checked; an object with slices as it is. Collective over `comm`."""
    if not isinstance(path, str | os.PathLike) or checked_communicator(comm) is None:
        return path
    return on_all(group_of(comm), lambda: checked_path(path, None))


def holds_several(name: Any, comm: Any) -> bool:
    """Whether a file is one of several arrays; errors are left to `load`. Collective over `comm`, for names that may be."""
    if not isinstance(name, str) or checked_communicator(comm) is None:
        return False
    if not (is_hdf5(name) or is_zarr(name) or is_folder_name(name) or is_safetensors(name)):
        return False

    def look() -> bool:
        with suppress(OSError, LibraryError):
            if os.path.exists(name):
                check_ordinary(name)
            return readable_container_of(name).holds_several()
        return False

    return on_first(group_of(comm), look)
