"""Objects that can be sliced, read as files are: data sets of h5py and netCDF4, arrays of zarr and tensorstore, memory maps.

Each rank has such an object of its own, all of the same elements, and slices it by itself, whole chunks at a time.
"""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..adapters.adapter import adapter_of
from ..adapters.tensors import array_of
from ..comm.groups import MPIGroup
from ..errors import FileError, shown
from ..layout.array_arithmetic import Distributed
from ..layout.descriptor import Descriptor
from ..layout.dtypes import foreign_dtypes
from .contents import FileArray, FilePart, named_errors
from .safetensors import numpy_dtype
from .slabs import Slab, StoredArray, on_first

AS_STORED = "in netCDF4, variable.set_auto_maskandscale(False) gives the numbers as they are stored"


class Sliceable(Protocol):
    """An object with slices; its shape is `shape` or `get_shape()`, its dtype `dtype` or `get_dtype()`."""

    def __getitem__(self, key: Any, /) -> Any:
        """The elements of a tuple of slices."""


class Source(StoredArray):
    """An object that can be sliced; `array` describes it. Not collective."""

    def __init__(self, group: MPIGroup, source: Any, array: FileArray) -> None:
        super().__init__(group, name_of(source), group.size)
        self._source, self._array = source, array

    def locate(self, part: FilePart, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        return on_first(self.group, lambda: part.of(self._array, self.name, desc))

    @contextmanager
    def opened(self, mode: str) -> Iterator[Any]:
        yield self._source

    def read_part(self, file: Any, array: FileArray, slab: Slab, dtype: np.dtype[Any]) -> NDArray[Any]:
        with named_errors(self.name):
            part = _slice(file, _in_domain(file, array.within(slab.own)), self.name, array.dtype)
            if np.ma.is_masked(part):
                raise FileError(f"{self.name} has masked elements: fill them before; {AS_STORED}")
            elements = np.asarray(part)
        if elements.shape != slab.layout.local_shape or not np.can_cast(elements.dtype, array.dtype, "equiv"):
            raise FileError(
                f"{self.name} has dtype {array.dtype}, but a slice of shape {slab.layout.local_shape} of it has shape "
                f"{elements.shape} and dtype {elements.dtype}: it must have what it says; {AS_STORED}"
            )
        return elements.astype(dtype, copy=False)


def is_source(path: object) -> bool:
    """Whether a first or second argument of `load` is read by slices, and not the name of a file."""
    if isinstance(path, str | bytes | os.PathLike | type) or not hasattr(path, "__getitem__"):
        return False
    with named_errors(name_of(path)):
        return all(hasattr(path, name) or hasattr(path, f"get_{name}") for name in ("shape", "dtype"))


def name_of(source: object) -> str:
    """What errors call an object that can be sliced."""
    return f"source ({type(source).__name__})"


def describe(source: Any) -> FileArray:
    """Shape, dtype and chunks of an object that can be sliced.

    Raises
    ------
    FileError
        It is distributed, or has no such attributes, or elements of no fixed size.
    """
    name = name_of(source)
    if isinstance(source, Distributed) or adapter_of(source) is not None:
        raise FileError(
            f"{name} is of a kind that is distributed over the ranks: use redistribute, or numpy.asarray of it if each rank "
            "has it whole"
        )
    with named_errors(name):
        lengths = source.shape if hasattr(source, "shape") else source.get_shape()
        if lengths is None:
            raise FileError(f"{name} has no elements: its shape is None")
        shape = tuple(map(operator.index, lengths))
        dtype = _dtype_of(source, len(shape), name)
        units = _chunks_of(source, shape)
    if dtype.hasobject or not dtype.itemsize or dtype.subdtype is not None:
        raise FileError(f"{name} holds {dtype}: only fixed sizes can be read")
    return FileArray(dtype, shape, "C", 0, read_unit=units)


def check_apart(source: object, out: object) -> None:
    """Refuse an `out` in the memory of the source, which would change while it is read."""
    if isinstance(source, np.ndarray) and isinstance(out, np.ndarray) and np.may_share_memory(source, out):
        raise FileError(
            "out is in the memory of the source, which is read: read into other memory, or use redistribute"
        )


def _dtype_of(source: Any, ndim: int, name: str) -> np.dtype[Any]:
    """The dtype by NumPy; of other libraries' dtypes that of an empty slice."""
    own = source.dtype if hasattr(source, "dtype") else source.get_dtype()
    own = getattr(own, "numpy_dtype", own)  # of tensorstore
    if isinstance(own, str) and own.isupper():
        return numpy_dtype(own, name)
    try:
        return np.dtype(own if own is not None else object)
    except TypeError:
        return np.asarray(_slice(source, (slice(0, 0),) * ndim, name)).dtype


def _chunks_of(source: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Shape of a chunk, a dimension at most as long as the array's; None if there are none."""
    chunks = getattr(source, "chunks", None)
    if hasattr(source, "chunk_layout"):  # tensorstore
        chunks = source.chunk_layout.read_chunk.shape
    elif hasattr(source, "chunking"):  # netCDF4
        chunks = source.chunking()
    if not isinstance(chunks, tuple | list) or len(chunks) != len(shape) or not any(chunks) or not math.prod(shape):
        return None
    # xarray has the lengths of all chunks along a dimension, which all but the last one have in common.
    lengths = [next(iter(each), 0) if isinstance(each, tuple) else each for each in chunks]
    lengths = [operator.index(each or n) for each, n in zip(lengths, shape, strict=True)]
    if min(lengths) < 1:
        raise FileError(f"{name_of(source)} has chunks = {shown(chunks)}: their lengths must be at least 1")
    return tuple(map(min, lengths, shape))


def _slice(source: Any, region: tuple[slice, ...], name: str, dtype: np.dtype[Any] | None = None) -> Any:
    """A slice; of PyTorch a NumPy array, as NumPy does not take its elements of 8 and 16 bits, nor those to conjugate."""
    try:
        part = source[region]
    except TypeError as error:
        if dtype is None or not foreign_dtypes(dtype):
            raise
        raise FileError(
            f"{name} has elements of {dtype}, which its library does not give to NumPy ({error}): load them from the file, by "
            "its name"
        ) from error
    torch = sys.modules.get("torch")  # loaded already, if there is a tensor
    if torch is None or not isinstance(part, torch.Tensor):
        return part
    return array_of(name, part.resolve_conj().resolve_neg())


def _in_domain(source: Any, region: tuple[slice, ...]) -> tuple[slice, ...]:
    """A region as a view of tensorstore counts, from the first index of its domain on; of others the same."""
    origin = source.origin if hasattr(source, "chunk_layout") else (0,) * len(region)
    return tuple(slice(first + part.start, first + part.stop) for first, part in zip(origin, region, strict=True))
