"""Zarr stores: directories, each with one array in chunks or shards, by zarr-python. Each rank reads and writes by itself.

A shard, or a chunk of an array without shards, is a file, which is written whole. So units of slabs are whole shards.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.groups import MPIGroup
from ..errors import FileError, LibraryError
from ..layout.descriptor import Descriptor
from .contents import Chunking, FileArray, FilePart, check_ordinary, named_errors
from .replacement import bring_to_disk
from .slabs import ArrayFile, Slab, on_all, on_first

METADATA = ("zarr.json", ".zarray", ".zgroup")  # of an array or a group, in version 3 and 2 of the format
CHUNK_BYTES = 2**20  # most bytes of a chunk, where only shards are chosen


class ZarrStore(ArrayFile):
    """An array in a Zarr store; a LibraryError if zarr cannot be imported. The constructor is collective."""

    def __init__(self, group: MPIGroup, path: str, name: str, dataset: str, chunking: Chunking | None = None) -> None:
        super().__init__(group, path, name, group.size)
        self._dataset, self._chunking = dataset.strip("/"), chunking
        self._zarr = on_all(group, lambda: library(name))

    def identity(self) -> str:
        """The file with the array's metadata. Collective."""
        return on_first(self.group, lambda: metadata_file(self.path, self._dataset))

    def locate(self, part: FilePart, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        def read() -> FileArray:
            array = read_array(self._zarr, self.path, self._dataset, self.name)
            return part.of(array, f"{self.name}: {self._dataset}" if self._dataset else self.name, desc)

        return on_first(self.group, read)

    def create(self, target: str, array: FileArray) -> FileArray:
        """Make the store with the array's metadata. Collective."""

        def make() -> FileArray:
            chunking = self._chunking or Chunking(None, None, None)
            chunks = chunking.chunks or "auto"
            if isinstance(chunking.shards, tuple) and not chunking.chunks:
                chunks = _chunks_of(chunking.shards, array.dtype.itemsize)
            # "q" and "l" are equal, but zarr has one of them only.
            dtype = array.dtype if array.dtype.names else np.dtype(array.dtype.str)
            mode = stat.S_IMODE(os.stat(target).st_mode) & 0o777 if os.path.exists(target) else 0o777
            os.mkdir(self.path, mode | stat.S_IRWXU)
            with named_errors(f"{self.name} cannot be made"):
                self._zarr.create_array(
                    Path(self.path),
                    shape=array.shape,
                    dtype=dtype,
                    chunks=chunks,
                    shards=chunking.shards,
                    overwrite=False,
                    **(chunking.options or {}),
                )
            placed = read_array(self._zarr, self.path, "", self.name)
            for name in os.listdir(self.path):
                bring_to_disk(os.path.join(self.path, name))
            return replace(placed, dtype=array.dtype)  # zarr converts to the store's byte order

        return on_first(self.group, make)

    @contextmanager
    def opened(self, mode: str) -> Iterator[Any]:
        def open_array() -> Any:
            with named_errors(self.name):
                array = self._zarr.open_array(Path(self.path), path=self._dataset, mode=mode)
                if mode == "r" or not has_equal_values(array.dtype):
                    return array
                # Else zarr leaves out chunks of -0.0 and of any NaN, as equal to a fill value of 0 or NaN.
                with self._zarr.config.set({"array.write_empty_chunks": True}):
                    return self._zarr.open_array(Path(self.path), path=self._dataset, mode=mode)

        yield on_all(self.group, open_array)

    def read_part(self, file: Any, array: FileArray, slab: Slab, dtype: np.dtype[Any]) -> NDArray[Any]:
        with named_errors(self.name):
            return np.asarray(file[array.within(slab.own)], dtype)

    def write_part(self, file: Any, array: FileArray, slab: Slab, part: NDArray[Any]) -> None:
        region = array.within(slab.own)
        with named_errors(self.name):
            file[region] = part
        units = zip(region, array.write_unit or part.shape, strict=True)
        numbers = (range(extent.start // u, -(-extent.stop // u)) for extent, u in units)
        keys = map(file.metadata.encode_chunk_key, itertools.product(*numbers))
        paths = [Path(self.path, self._dataset, key) for key in keys]
        folders = {folder for path in paths for folder in path.parents if folder.is_relative_to(self.path)}
        for path in (*paths, *folders):
            with suppress(
                FileNotFoundError
            ):  # zarr does not write whole numbers, text and dates that have fill values only
                bring_to_disk(str(path))


def has_equal_values(dtype: np.dtype[Any]) -> bool:
    """Whether elements of different bytes may count as equal: in numbers with -0.0 and NaN, and in records."""
    return dtype.kind in "fcV"


def metadata_file(path: str, dataset: str) -> str:
    """The file with the metadata of an array or a group; if there is none, the one that is missing."""
    files = [os.path.join(path, dataset.strip("/"), name) for name in METADATA]
    return next(filter(os.path.exists, files), files[0])


def read_array(zarr: Any, path: str, dataset: str, name: str) -> FileArray:
    """Read shape, dtype and units of an array in a store; `name` is the store's name in errors."""
    with named_errors(name):
        check_ordinary(metadata_file(path, dataset))
        array = zarr.open(Path(path), path=dataset, mode="r")
        if not isinstance(array, zarr.Array):
            first = "/".join(filter(None, (dataset, "NAME")))
            names = ", ".join(itertools.islice(array.keys(), 10)) or "nothing"
            raise FileError(f"{name}: {dataset or 'the root'} is a group, which has {names}: give dataset='{first}'")
        if array.dtype.hasobject or not array.dtype.itemsize:
            raise FileError(f"{name} holds {array.dtype}: only fixed sizes can be read")
        units = [tuple(max(1, n) for n in unit) for unit in (array.chunks, array.shards or array.chunks)]
        return FileArray(array.dtype, array.shape, "C", 0, None, *units)


def check_array_store(target: str) -> None:
    """Raise a FileError unless the existing `target` is a store of one array, which may be replaced."""
    try:
        with open(metadata_file(target, ""), "rb") as file:
            is_array = file.name.endswith(".zarray") or json.load(file).get("node_type") == "array"
    except (OSError, ValueError, AttributeError) as error:
        raise FileError(f"{target} is no Zarr store ({error}), and would be replaced: give another path") from error
    if not is_array:
        raise FileError(
            f"{target} is a Zarr group, and would be replaced with all its arrays: give another path; or make the array in the "
            "group by zarr.create_array, and save into it with dataset= and window=..."
        )


def _chunks_of(shards: Sequence[int], item: int) -> tuple[int, ...]:
    """Chunks of at most CHUNK_BYTES, if possible, that tile a shard."""
    chunks = [*shards]
    while math.prod(chunks) * item > CHUNK_BYTES and max(chunks) > 1:
        longest = chunks.index(max(chunks))
        chunks[longest] //= next((p for p in range(2, 100) if not chunks[longest] % p), chunks[longest])
    return tuple(chunks)


def library(path: str) -> Any:
    """Import zarr; a LibraryError that names the store if it is missing or too old."""
    get = "pip install 'zarr>=3', or pip install 'pyscalapack_redist[zarr]'"
    try:
        import zarr  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise LibraryError(f"{path} is a Zarr store, which needs zarr ({error}): {get}, or use a .npy file") from error
    if int(zarr.__version__.split(".")[0]) < 3:
        raise LibraryError(f"{path} is a Zarr store, which needs zarr 3, not {zarr.__version__}: {get}")
    return zarr
