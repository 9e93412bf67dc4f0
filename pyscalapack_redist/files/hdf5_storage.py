"""Where the elements of an HDF5 data set are in the file, and how all ranks reach them without opening it by HDF5.

A contiguous data set, and each chunk without filters, is a raw array at some byte, as in a .npy file. Of chunks that went
through filters, as compression, each rank takes its own through a data set in memory that has the same properties, so HDF5
itself applies them. Only the index of chunks, where their sizes are, is the first rank's to write.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..comm.agreement import agreement
from .binary_file import BinaryFile, OpenFile, bytes_from_slowest, read_bytes, read_region, write_region
from .contents import FileArray, Region, named_errors
from .slabs import STEP, ArrayFile, Slab, as_file_error

# A chunk in the file: its byte, or -1 if it does not exist, its length, and the bits of filters that it did not go through.
PLACE = np.dtype([("offset", "i8"), ("length", "i8"), ("mask", "u4")])
NAME = "data"  # of the data set in memory
IN_MEMORY = "pyscalapack_redist.hdf5"  # no file of the user's, as HDF5 refuses a second one of a name
UNIT_BYTES = 4 * 2**20  # of the largest chunk without filters that one rank reads and writes whole
GROWTH = 2**20  # bytes by which a file in memory grows
USER_BLOCK = 512  # bytes, the smallest


class Storage(NamedTuple):
    """Where the elements of a data set are.

    Attributes
    ----------
    shape, chunks : tuple of int
        Shapes of the data set and of a chunk; a contiguous data set is one chunk.
    places : ndarray
        A `PLACE` for each chunk, in the grid of chunks.
    fill : ndarray
        The value of elements whose chunk does not exist.
    template : bytes, optional
        If chunks go through filters: an HDF5 file with such a data set, without chunks.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    places: NDArray[Any]
    fill: NDArray[Any]
    template: bytes | None

    def chunks_of(self, region: Region) -> Iterator[tuple[Any, tuple[int, ...], Region]]:
        """The chunks that a region touches: the place, the first element, and the part of the region in it."""
        numbers = [range(part.start // n, -(-part.stop // n)) for part, n in zip(region, self.chunks, strict=True)]
        for number in itertools.product(*numbers):
            first = tuple([k * n for k, n in zip(number, self.chunks, strict=True)])
            bounds = zip(region, first, self.chunks, strict=True)
            part = tuple([slice(max(whole.start, low), min(whole.stop, low + n)) for whole, low, n in bounds])
            yield self.places[number], first, part

    def is_cut(self, first: tuple[int, ...], part: Region) -> bool:
        """Whether a part is not all elements of its chunk."""
        ends = [min(low + n, end) for low, n, end in zip(first, self.chunks, self.shape, strict=True)]
        return [(extent.start, extent.stop) for extent in part] != list(zip(first, ends, strict=True))


def find_storage(h5py: Any, dataset: Any) -> Storage | None:
    """Where the elements are that have a place of their own in the file; None of a compact data set, which is in a header."""
    properties, number = dataset.id.get_create_plist(), dataset.id
    layout = properties.get_layout()
    if layout == h5py.h5d.COMPACT:
        return None
    chunks = dataset.chunks or tuple([max(1, n) for n in dataset.shape])
    places = np.full([-(-n // size) for n, size in zip(dataset.shape, chunks, strict=True)], -1, PLACE)
    if layout == h5py.h5d.CONTIGUOUS:
        length = number.get_storage_size()
        if length:  # else, with a user block, HDF5 tells an offset of 1 less than that has
            places[...] = (number.get_offset(), length, 0)
    else:
        base = 0 if counts_user_block(h5py) else dataset.file.userblock_size

        def keep(chunk: Any) -> None:
            index = tuple([k // size for k, size in zip(chunk.chunk_offset, chunks, strict=True)])
            places[index] = (chunk.byte_offset + base, chunk.size, chunk.filter_mask)

        if hasattr(number, "chunk_iter"):  # of HDF5 1.12.3 and later
            number.chunk_iter(keep)
        else:
            for k in range(number.get_num_chunks()):
                keep(number.get_chunk_info(k))
    fill = np.asarray(dataset.fillvalue, dataset.dtype)
    return Storage(dataset.shape, chunks, places, fill, _template(h5py, dataset) if has_filters(dataset) else None)


def has_filters(dataset: Any) -> bool:
    """Whether elements go through filters, as compression."""
    return bool(dataset.id.get_create_plist().get_nfilters())


def _template(h5py: Any, dataset: Any) -> bytes:
    """A file with a data set of the same type, shape and properties, without chunks."""
    properties = dataset.id.get_create_plist()
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_INCR)
    with h5py.File(IN_MEMORY, "w", driver="core", backing_store=False, block_size=GROWTH) as file:
        stored, space = dataset.id.get_type().copy(), dataset.id.get_space()  # with its limits, which chunks may need
        h5py.h5d.create(file.id, NAME.encode(), stored, space, properties)
        file.flush()
        return bytes(file.id.get_file_image())


@functools.cache
def counts_user_block(h5py: Any) -> bool:
    """Whether the offsets of chunks that HDF5 tells count a user block in, as since 2024. It shows where there is one."""
    offsets = []
    for length in (0, USER_BLOCK):
        with h5py.File(IN_MEMORY, "w", driver="core", backing_store=False, userblock_size=length) as file:
            data = file.create_dataset(NAME, (1,), "i1", chunks=(1,))
            data[0] = 1
            file.flush()
            offsets.append(data.id.get_chunk_info(0).byte_offset)
    return bool(offsets[1] == offsets[0] + USER_BLOCK)


@functools.cache
def confuses_chunks(h5py: Any) -> bool:
    """Whether HDF5 tells wrong coordinates of chunks in an extensible array, if another dimension than the first is unlimited.

    Its index begins with the unlimited dimension, which HDF5 2.0 forgets in telling the coordinates, but not in reading.
    """
    with h5py.File(IN_MEMORY, "w", driver="core", backing_store=False, libver="latest") as file:
        data = file.create_dataset(NAME, data=np.ones((2, 2)), chunks=(1, 1), maxshape=(2, None))
        file.flush()
        first_elements = {data.id.get_chunk_info(k).chunk_offset for k in range(4)}
    return first_elements != set(itertools.product(range(2), repeat=2))


def may_be_confused(h5py: Any, dataset: Any) -> bool:
    """Whether the chunks of a data set may have an extensible array as index, in which HDF5 confuses them."""
    unlimited = [k for k, limit in enumerate(dataset.maxshape) if limit is None]
    is_new_format = h5py.h5o.get_info(dataset.id).hdr.version > 1  # that of HDF5 1.8 too, which has no such index yet
    return is_new_format and len(unlimited) == 1 and unlimited != [0] and confuses_chunks(h5py)


class RawChunks(BinaryFile):
    """A data set whose elements lie in the file as in memory: each rank reads and writes them by the system's calls."""

    def __init__(self, file: ArrayFile, storage: Storage) -> None:
        super().__init__(file.group, file.path, file.name)
        self._storage = storage

    def unit(self, array: FileArray) -> tuple[int, ...] | None:
        """The chunk, if it is small enough to be one rank's."""
        is_small = array.dtype.itemsize * math.prod(self._storage.chunks) <= UNIT_BYTES
        return self._storage.chunks if is_small and self._storage.places.size > 1 else None

    def _boxes(self, array: FileArray, slab: Slab) -> Iterator[tuple[FileArray, Region, Region]]:
        """This rank's part of a slab in pieces: a chunk as an array, the piece in it, and in the part."""
        whole = array.within(slab.own)
        for place, first, piece in self._storage.chunks_of(whole):
            chunk = FileArray(array.dtype, self._storage.chunks, "C", int(place["offset"]))
            yield chunk, _from(piece, first), _from(piece, [extent.start for extent in whole])

    def read_part(self, file: OpenFile, array: FileArray, slab: Slab, dtype: np.dtype[Any]) -> NDArray[Any]:
        part = slab.layout.empty(array.dtype, order=array.order)
        raw = bytes_from_slowest(part, array)
        with named_errors(self.name):
            for chunk, inside, box in self._boxes(array, slab):
                if chunk.offset < 0:
                    part[box] = self._storage.fill
                else:
                    read_region(file, chunk, inside, raw[box])
        return part.astype(dtype, order="K", copy=False)

    def write_part(self, file: OpenFile, array: FileArray, slab: Slab, part: NDArray[Any]) -> None:
        raw = bytes_from_slowest(part, array)
        with named_errors(self.name):
            for chunk, inside, box in self._boxes(array, slab):
                write_region(file, chunk, inside, raw[box])


class FilteredChunks(BinaryFile):
    """A data set to write whose chunks go through filters: each rank filters its own, and the first rank writes all.

    Parameters
    ----------
    file : ArrayFile
        The HDF5 file, which the first rank opens to write.
    dataset : str
        The data set in it.
    h5py : module
        h5py.
    storage : Storage
        Where the chunks are before.
    """

    def __init__(self, file: ArrayFile, dataset: str, h5py: Any, storage: Storage) -> None:
        super().__init__(file.group, file.path, file.name)
        self._file, self._dataset, self._h5py, self._storage = file, dataset, h5py, storage

    @contextmanager
    def opened(self, mode: str) -> Iterator[OpenFile]:
        with super().opened("r") as file, self._file.opened(mode) as self._target:  # chunks that a window cuts are read
            yield file

    def write_slab(self, file: OpenFile, array: FileArray, slab: Slab, part: NDArray[Any]) -> None:
        with agreement(self.group, STEP, combine=self._store) as agreed:
            if part.size:
                agreed.give(as_file_error(lambda: self._filtered(file, array.within(slab.own), part)))

    def _filtered(self, file: OpenFile, region: Region, part: NDArray[Any]) -> list[tuple[tuple[int, ...], int, bytes]]:
        """The chunks of a region with their new elements: the first element, the mask, and the bytes."""
        chunks = list(self._storage.chunks_of(region))
        cut = [(place, first) for place, first, piece in chunks if self._storage.is_cut(first, piece)]
        with named_errors(self.name), self._in_memory(file, cut) as memory:
            memory[NAME][region] = part
            dataset = memory[NAME]
            return [(first, *dataset.id.read_direct_chunk(first)) for _, first, _ in chunks]

    def _store(self, contents: list[Any]) -> None:
        """Write the chunks of all ranks. On the first rank."""
        with named_errors(self.name):
            number = self._target[self._dataset].id
            for first, mask, content in itertools.chain.from_iterable(filter(None, contents)):
                number.write_direct_chunk(first, content, mask)

    @contextmanager
    def _in_memory(self, file: OpenFile, chunks: list[tuple[Any, tuple[int, ...]]]) -> Iterator[Any]:
        """A file in memory with such a data set, and some chunks; those of all slabs would be too many.

        The data set is opened anew for each step: HDF5 2.0 remembers what the last chunk was before, with its mask.
        """
        h5py, access = self._h5py, self._h5py.h5p.create(self._h5py.h5p.FILE_ACCESS)
        access.set_fapl_core(GROWTH, False)
        access.set_file_image(self._storage.template)
        with h5py.File(h5py.h5f.open(IN_MEMORY.encode(), h5py.h5f.ACC_RDWR, access)) as memory:
            dataset = memory[NAME]
            for place, first in chunks:
                if place["offset"] >= 0:
                    content = np.empty(int(place["length"]), np.uint8)
                    read_bytes(file.number, content.data, int(place["offset"]))
                    dataset.id.write_direct_chunk(first, content, int(place["mask"]))
            del dataset  # the last reference closes it
            yield memory


def _from(region: Region, first: Any) -> Region:
    """A region relative to an element."""
    return tuple([slice(part.start - low, part.stop - low) for part, low in zip(region, first, strict=True)])
