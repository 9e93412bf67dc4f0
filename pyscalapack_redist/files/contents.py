"""The contents of a file: its format, the array in it, and windows of the array.

The suffix of the name selects the format. A .npy file has a header (NumPy enhancement proposal 1); for a raw file the caller
gives shape and dtype.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import math
import operator
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import EllipsisType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..errors import DescriptorError, FileError, RedistributionError, shown
from ..layout.axis import BlockCyclic, whole_number
from ..layout.descriptor import Descriptor
from ..layout.dimensions import sub_array

Region = tuple[slice, ...]  # a box of an array
Window = slice | EllipsisType | tuple[slice | EllipsisType, ...] | None

LONGEST = 2**20  # bytes of a header; usually below 2**16, except for records with thousands of fields


# -- the format, by name

FOREIGN = {
    ".npz": "NumPy's archive of several arrays",
    ".csv": "text separated by commas",
    ".tsv": "text separated by tabulators",
    ".txt": "text",
    ".json": "JSON",
    ".mat": "MATLAB's format",
    ".mtx": "Matrix Market's format",
    ".parquet": "Parquet",
    ".pkl": "Python's pickle",
    ".pt": "PyTorch's format",
}
NOT_MADE = {".nc": "netCDF, whose dimensions are not those of one array,", ".safetensors": "safetensors"}  # but read

NOT_READ = (
    "cannot be read: use a .npy, .h5 or .zarr file; if this file contains the elements as they are in memory, give dtype= and "
    "offset=, the byte where they begin"
)
NOT_WRITTEN = (
    "cannot be written: use a name in .npy, .h5, .hdf5 or .zarr, or another suffix (.bin) for the elements alone"
)


def check_format(name: str, refusal: str) -> None:
    """Raise a FileError for a file with the suffix of an unsupported format."""
    ending = os.path.splitext(name)[1].lower()
    formats = FOREIGN if refusal is NOT_READ else FOREIGN | NOT_MADE
    if ending in formats and not (refusal is NOT_READ and is_safetensors(name)):  # of which an index ends in .json
        raise FileError(f"{name}: {formats[ending]} {refusal}")


def is_hdf5(name: str) -> bool:
    """Whether a file of this name is HDF5, or netCDF-4, which is HDF5; upper and lower case are equal."""
    return name.lower().endswith((".h5", ".hdf5", ".nc"))


def is_zarr(name: str) -> bool:
    """Whether a directory of this name is a Zarr store."""
    return name.lower().endswith(".zarr")


def is_npy(name: str) -> bool:
    """Whether a file of this name is a .npy file."""
    return name.lower().endswith(".npy")


def is_raw(name: str) -> bool:
    """Whether a file of this name has the elements alone."""
    return not (is_npy(name) or is_hdf5(name) or is_zarr(name) or is_safetensors(name))


def is_safetensors(name: str) -> bool:
    """Whether a file of this name has tensors in the format of safetensors, or is the index of such files."""
    return name.lower().endswith((".safetensors", ".safetensors.index.json"))


def is_folder_name(path: object) -> bool:
    """Whether this is the name of a folder of several arrays, if there is one: it has no ending."""
    return isinstance(path, str | os.PathLike) and not os.path.splitext(os.fsdecode(path).rstrip(os.sep))[1]


@contextlib.contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Turn errors of a library, which have many types, into FileErrors."""
    try:
        yield
    except (RedistributionError, MemoryError):
        raise
    except Exception as error:
        raise FileError(f"{name}: {error}") from error


def checked_path(path: object, dataset: object) -> str:
    """The path as text, without a slash at the end of a Zarr store."""
    try:
        name = os.fsdecode(os.fspath(path))  # type: ignore[call-overload]
    except TypeError:
        raise FileError(f"path = {shown(path)} must be a str or a pathlib.Path") from None
    except MemoryError:
        raise
    except Exception as error:  # of a class with a name of its own
        raise FileError(f"path = {shown(path)} has no name: {error}") from error
    if not name or "\0" in name:
        raise FileError(f"path = {name!r} must name a file, without NUL")
    if is_zarr(name.rstrip(os.sep)):
        name = name.rstrip(os.sep)
    store = next((str(folder) for folder in Path(name).parents if is_zarr(str(folder))), None)
    if store is not None:
        raise FileError(f"path = {name!r} is in the Zarr store {store}: give the store, and the array by dataset=")
    if dataset is not None:
        if not (is_hdf5(name) or is_zarr(name) or is_safetensors(name)):
            raise FileError(
                f"dataset = {dataset!r} is for HDF5, Zarr and safetensors, names in .h5, .hdf5, .nc, .zarr or .safetensors; "
                f"the name is {name!r}"
            )
        if not isinstance(dataset, str) or not dataset.strip("/") or "\0" in dataset:
            raise FileError(f"dataset = {dataset!r} must be the name of a data set in {name}")
    return name


def check_ordinary(path: str) -> None:
    """Raise a FileError for a pipe, on which opening would block, or a device."""
    if stat.S_IFMT(os.stat(path).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
        raise FileError(f"{path} is not an ordinary file: give another path")


# -- the array


class FileSpan(NamedTuple):
    """Consecutive elements of a file, from the first to the last element of a box; other elements may lie in between.

    Attributes
    ----------
    start : int
        Byte of the first element.
    length : int
        Number of elements.
    part : tuple of slice
        The box as a part of the region; dimensions from the slowest to the fastest.
    strides : tuple of int
        Bytes from index to index along these dimensions.
    """

    start: int
    length: int
    part: Region
    strides: tuple[int, ...]


@dataclass(frozen=True)
class FileArray:
    """An array in a file, or a window of it. Regions are relative to the window's first element.

    Attributes
    ----------
    dtype : dtype
        Dtype of the elements, in the file's byte order.
    shape : tuple of int
        Shape of the whole array.
    order : {"C", "F"}
        Index that runs fastest: the last or the first.
    offset : int
        Byte of the first element.
    window : tuple of slice, optional
        The window; by default the whole array.
    read_unit, write_unit : tuple of int, optional
        Shapes of the parts that one rank reads or writes whole; by default single elements.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str
    offset: int
    window: Region | None = None
    read_unit: tuple[int, ...] | None = None
    write_unit: tuple[int, ...] | None = None

    @property
    def end(self) -> int:
        """Byte after the last element."""
        return self.offset + self.dtype.itemsize * math.prod(self.shape)

    def start_of(self, region: Region) -> int:
        """Byte of the first element of a region."""
        return self.offset + first_element(self.within(region), self.shape, self.order) * self.dtype.itemsize

    def within(self, region: Region) -> Region:
        """A region of the window as a region of the whole array."""
        if self.window is None:
            return region
        return tuple(
            slice(part.start + window.start, part.stop + window.start)
            for part, window in zip(region, self.window, strict=True)
        )

    def spans(self, region: Region, gap: int, limit: int) -> Iterator[FileSpan]:
        """Divide a nonempty region into spans of the file.

        Parameters
        ----------
        region : tuple of slice
            A region of the window.
        gap : int
            Most other elements between two runs in one span.
        limit : int
            Longest span; a span without other elements may be longer.
        """
        step = 1 if self.order == "C" else -1
        lengths = [part.stop - part.start for part in region][::step]
        strides = [math.prod(self.shape[::step][k + 1 :]) for k in range(len(lengths))]
        cut, inner = len(lengths), 1  # elements of a span over the dimensions from `cut` on
        while cut and strides[cut - 1] - inner <= gap and (inner <= limit or strides[cut - 1] == inner):
            cut -= 1
            inner += (lengths[cut] - 1) * strides[cut]
        is_short = inner <= max(limit, math.prod(lengths[cut:]))
        inner -= (lengths[cut] - 1) * strides[cut]
        indices_each = lengths[cut] if is_short else max(1, (limit - inner) // strides[cut] + 1)
        first, byte_strides = self.start_of(region), tuple(stride * self.dtype.itemsize for stride in strides)
        rest = tuple(slice(0, n) for n in lengths[cut + 1 :])
        for fixed in itertools.product(*map(range, lengths[:cut])):
            start, outer = first + sum(map(operator.mul, fixed, byte_strides)), tuple(slice(i, i + 1) for i in fixed)
            for low in range(0, lengths[cut], indices_each):
                high = min(low + indices_each, lengths[cut])
                length = (high - low - 1) * strides[cut] + inner
                yield FileSpan(start + low * byte_strides[cut], length, (*outer, slice(low, high), *rest), byte_strides)


def shape_of_region(region: Region) -> tuple[int, ...]:
    """Numbers of indices of a region."""
    return tuple(part.stop - part.start for part in region)


def first_element(region: Region, shape: Sequence[int], order: str) -> int:
    """Number of a region's first element in the file."""
    number = 0
    for part, n in zip(region if order == "C" else region[::-1], shape if order == "C" else shape[::-1], strict=True):
        number = number * n + part.start
    return number


# -- the header of .npy files


def read_npy_header(path: str) -> FileArray:
    """Read the header of a .npy file, and check the file's length.

    Raises
    ------
    FileError
        The file is not a .npy file, holds Python objects, or is too short.
    OSError
        The file cannot be read.
    """
    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        try:
            version = np.lib.format.read_magic(file)
            if version not in HEADERS:
                raise ValueError(f"its version {version} of the format is unknown")
            shape, fortran, dtype = HEADERS[version](file, LONGEST)
            sizes = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
            if not sizes or type(fortran) is not bool:
                raise ValueError(f"its header has shape {shape!r} and fortran_order {fortran!r}")
        except OSError:
            raise
        except Exception as error:  # Python's and NumPy's parsers raise many types
            raise FileError(f"{path} ({length} bytes) is not a .npy file that can be read: {error}") from error
        array = FileArray(dtype, shape, "F" if fortran else "C", file.tell())
    if dtype.hasobject or not dtype.itemsize or dtype.subdtype is not None:
        raise FileError(
            f"{path} holds elements of dtype {dtype}: only elements of a fixed size can be read in parallel"
        )
    if length < array.end:
        raise FileError(
            f"{path} is cut short: it has {length} bytes, but {array.shape} elements of {dtype} end at byte {array.end}"
        )
    return array


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> bytes:
    """The header of a .npy file, as NumPy writes it."""
    fields = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": order == "F", "shape": shape}
    for write in (np.lib.format.write_array_header_1_0, np.lib.format.write_array_header_2_0):
        buffer = io.BytesIO()
        try:
            write(buffer, fields)
        except (ValueError, UnicodeError):  # too long, or names that are not latin-1
            continue
        return buffer.getvalue()
    text = repr(fields).encode()
    text += b" " * (-(len(text) + 13) % 64) + b"\n"
    return np.lib.format.magic(3, 0) + len(text).to_bytes(4, "little") + text


def _read_header_3(file: BinaryIO, longest: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read a header of version 3.0, which has names of fields in UTF-8."""
    length = int.from_bytes(file.read(4), "little")
    text = file.read(length) if length <= longest else b""
    if len(text) < length:
        raise ValueError(f"its header of {length} bytes is too long, or cut short")
    fields = ast.literal_eval(text.decode())
    return fields["shape"], fields["fortran_order"], np.lib.format.descr_to_dtype(fields["descr"])


HEADERS: dict[tuple[int, int], Callable[[Any, int], tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): _read_header_3,
}


# -- windows


@dataclass(frozen=True)
class FilePart:
    """The arguments of `load` and `save` that describe the array in a file."""

    window: Window
    shape: Sequence[int] | None
    order: str | None
    offset: int | None

    @property
    def key(self) -> tuple[object, ...]:
        """The arguments as plain values that are equal on ranks with equal arguments."""
        shape = [str(n) for n in self.shape] if isinstance(self.shape, Iterable) else self.shape
        return self.order or "C", self.offset, None if self.window is None else self._text, shape

    @property
    def _slices(self) -> tuple[slice | EllipsisType | None, ...]:
        return self.window if isinstance(self.window, tuple) else (self.window,)

    @property
    def _text(self) -> str:
        """The window as written in brackets."""
        return f"[{', '.join(map(_bounds, self._slices))}]"

    def check(self, name: str, raw: bool) -> None:
        """Check the arguments for an existing array, `raw` if only they describe it, before it is opened.

        Raises
        ------
        FileError
            They are invalid.
        """
        for argument, value in (("order", self.order), ("offset", self.offset), ("shape", self.shape)):
            if value is not None and not raw:
                raise FileError(f"{argument} = {value!r} is for raw files: {name} has its own; omit it")
        self._check_order()
        if self.offset is not None:
            whole_number("offset", self.offset, 0, ": the byte where the array begins")
        if self.window is not None and not all(isinstance(part, slice | EllipsisType) for part in self._slices):
            raise FileError(f"window = {shown(self.window)} must be slices, such as numpy.s_[10:50, :]")
        if self.shape is not None:
            if self.window is None:
                raise FileError(
                    f"shape = {self.shape!r} is for window=: without window= the array in {name} has the shape of desc"
                )
            if not isinstance(self.shape, Iterable):
                raise FileError(f"shape = {self.shape!r} must be a sequence of integers")
            for k, n in enumerate(self.shape):
                whole_number(f"shape[{k}]", n, 0)
        elif raw and self.window is not None:
            raise FileError(f"window = {self._text}: {name} is read as raw binary, which has no shape: give shape=")

    def check_new(self, name: str, dataset: object) -> None:
        """Check the arguments for a new file; a FileError if they are invalid."""
        if dataset is not None and is_zarr(name):
            raise FileError(
                f"dataset = {dataset!r} is for window=: without window= the array is the whole store {name}; to write into a "
                "group, make the array by zarr.create_array, and give window=..."
            )
        for argument, value in (("shape", self.shape), ("offset", self.offset)):
            if value is not None:
                raise FileError(f"{argument} = {value!r} is for window=: without window= the array is the whole file")
        self._check_order()
        if self.order == "F" and (is_hdf5(name) or is_zarr(name)):
            raise FileError(
                f"order = 'F': in {name} the last index runs fastest, as always in HDF5 and here in Zarr; omit it"
            )

    def _check_order(self) -> None:
        if self.order is not None and (not isinstance(self.order, str) or self.order not in ("C", "F")):
            raise FileError(f"order = {self.order!r} must be 'C' (the last index runs fastest) or 'F' (the first one)")

    def locate(self, name: str, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        """The array or window in a .npy or raw file, checked against the file's length and the layout."""
        if is_npy(name):
            return self.of(read_npy_header(name), name, desc)
        length = os.stat(name).st_size
        if dtype is None:
            raise FileError(f"{name} is read as raw binary, which has no dtype: give dtype=, as for numpy.fromfile")
        shape = desc.shape if self.shape is None else tuple(map(int, self.shape))
        array = FileArray(dtype, shape, self.order or "C", self.offset or 0)
        if length < array.end or (self.offset is None and length > array.end):
            raise FileError(
                f"{name} has {length} bytes, but an array of shape {shape} of {dtype} ends at byte {array.end}"
                + (": in a longer file, give the first byte of the array by offset=" if length > array.end else "")
            )
        return self.of(array, name, desc)

    def of(self, array: FileArray, name: str, desc: Descriptor) -> FileArray:
        """The array or the window, checked against the layout."""
        if self.window is None:
            if array.shape != desc.shape:
                raise FileError(
                    f"{name} holds an array of shape {array.shape}, but desc has shape {desc.shape}: they must be equal, "
                    "or window= must select a part"
                )
            return array
        region = self.region(array.shape, name)
        shape = shape_of_region(region)
        if shape != desc.shape:
            raise FileError(
                f"window = {self._text} of {name}, which holds an array of shape {array.shape}, has shape {shape}, but desc "
                f"has shape {desc.shape}: they must be equal"
            )
        return replace(array, window=region)

    def region(self, shape: tuple[int, ...], name: str) -> Region:
        """The part of an array of this shape; without a window the whole of it."""
        key = ... if self.window is None else self.window
        try:
            parts = sub_array([BlockCyclic(n, max(1, n), 1) for n in shape], key)
        except DescriptorError as error:
            window = "" if self.window is None else f"window = {self._text} of "
            raise FileError(f"{window}{name}, which holds an array of shape {shape}: {error}") from None
        return tuple(slice(part.offset, part.offset + part.n) for part in parts)


Lengths = Sequence[int] | int | None


@dataclass(frozen=True)
class Chunking:
    """The arguments of `save` that describe how a new Zarr array is stored."""

    chunks: Lengths
    shards: Lengths
    options: Mapping[str, Any] | None

    @property
    def key(self) -> tuple[object, ...]:
        """The arguments as plain values that are equal on ranks with equal arguments; of options the names, as codecs vary."""
        names = sorted(map(str, self.options)) if isinstance(self.options, Mapping) else self.options
        return str(self.chunks), str(self.shards), str(names)

    def checked(self, name: str, shape: Sequence[int], is_new: bool) -> Chunking:
        """The arguments with a length for each dimension; a FileError if they are invalid."""
        arguments = {"chunks": self.chunks, "shards": self.shards, "zarr": self.options}
        for argument, value in arguments.items():
            if value is not None and not (is_zarr(name) and is_new):
                reason = f"{name} has its own" if is_zarr(name) else f"{name} does not end in .zarr"
                raise FileError(f"{argument} = {shown(value)} is for new Zarr stores, but {reason}; omit it")
        if self.options is not None and not isinstance(self.options, Mapping):
            raise FileError(f"zarr = {shown(self.options)} must be a dict of arguments of zarr.create_array")
        return Chunking(_lengths("chunks", self.chunks, shape), _lengths("shards", self.shards, shape), self.options)


def _lengths(argument: str, value: Lengths, shape: Sequence[int]) -> tuple[int, ...] | None:
    if value is None:
        return None
    lengths = tuple(value) if isinstance(value, Iterable) else (value,) * len(shape)
    if len(lengths) != len(shape):
        raise FileError(
            f"{argument} = {value!r} must have {len(shape)} entries, one for each dimension, or be one number"
        )
    return tuple(whole_number(f"{argument}[{k}]", n, 1) for k, n in enumerate(lengths))


def _bounds(part: object) -> str:
    if isinstance(part, slice):
        low, high, step = ("" if bound is None else str(bound) for bound in (part.start, part.stop, part.step))
        return f"{low}:{high}" + (f":{step}" if step else "")
    return "..." if part is Ellipsis else shown(part)
