"""What a file holds: the format that its name tells, the array in it, and the part of that which a caller means.

A .npy file has a header (NumPy enhancement proposal 1); of a raw one the caller says what it holds.
"""

from __future__ import annotations

import ast
import io
import itertools
import math
import operator
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..errors import DescriptorError, FileError, shown
from ..layout.axis import BlockCyclic, whole_number
from ..layout.descriptor import Descriptor
from ..layout.dimensions import sub_array

Region = tuple[slice, ...]  # a box of an array
Window = slice | EllipsisType | tuple[slice | EllipsisType, ...] | None

LONGEST = 2**20  # bytes of a header; NumPy's own is below 2**16 unless a record has thousands of fields


# -- the format, by name

FOREIGN = {
    ".npz": "NumPy's archive of several arrays",
    ".csv": "text separated by commas",
    ".tsv": "text separated by tabulators",
    ".txt": "text",
    ".json": "JSON",
    ".mat": "MATLAB's format",
    ".mtx": "Matrix Market's format",
    ".zarr": "Zarr",
    ".nc": "netCDF",
    ".parquet": "Parquet",
    ".pkl": "Python's pickle",
    ".pt": "PyTorch's format",
    ".safetensors": "safetensors",
}


NOT_READ = (
    "is not read here: keep the array in a .npy or .h5 file; where its elements lie in this one as they are in memory, give "
    "dtype= and offset=, the byte where they begin"
)
NOT_WRITTEN = "is not written here: give a name in .npy, .h5 or .hdf5, or another ending (.bin) for the elements alone"


def check_format(name: str, refusal: str) -> None:
    """Refuse to take for the elements alone what a file's name says to be of a format that is not known here."""
    ending = os.path.splitext(name)[1].lower()
    if ending in FOREIGN:
        raise FileError(f"{name}: {FOREIGN[ending]} {refusal}")


def is_hdf5(name: str) -> bool:
    """Whether a file of this name is HDF5, in whatever case its ending is."""
    return name.lower().endswith((".h5", ".hdf5"))


def is_npy(name: str) -> bool:
    """Whether a file of this name is NumPy's."""
    return name.lower().endswith(".npy")


def checked_path(path: object, dataset: object) -> str:
    """The path as text."""
    try:
        name = os.fsdecode(os.fspath(path))  # type: ignore[call-overload]
    except TypeError:
        raise FileError(f"path = {path!r} must be a str or a pathlib.Path") from None
    if not name or "\0" in name:
        raise FileError(f"path = {name!r} must name a file, without NUL")
    if dataset is not None:
        if not is_hdf5(name):
            raise FileError(
                f"dataset = {dataset!r} is for HDF5: the name of such a file ends in .h5 or .hdf5, not as {name!r}"
            )
        if not isinstance(dataset, str) or not dataset.strip("/") or "\0" in dataset:
            raise FileError(f"dataset = {dataset!r} must be the name of a data set in {name}")
    return name


def check_ordinary(path: str) -> None:
    """Raise a FileError for a pipe, which would be waited for, or a device. Not collective."""
    if stat.S_IFMT(os.stat(path).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
        raise FileError(f"{path} is not an ordinary file: give another path")


# -- the array


class FileSpan(NamedTuple):
    """Neighbours in a file, from the first to the last element of a box; others may lie between its elements.

    Attributes
    ----------
    start : int
        Byte of the first one.
    length : int
        How many elements.
    part : tuple of slice
        The box, in the region of which it is a part; dimensions go from the slowest to the fastest.
    strides : tuple of int
        Bytes from index to index along these.
    """

    start: int
    length: int
    part: Region
    strides: tuple[int, ...]


@dataclass(frozen=True)
class FileArray:
    """An array in a file, or a window of it. Regions are counted from the window's first element.

    Attributes
    ----------
    dtype : dtype
        Of its elements, in the file's byte order.
    shape : tuple of int
        Shape of the whole.
    order : {"C", "F"}
        Which index runs fastest: the last or the first.
    offset : int
        Byte where the first element begins.
    window : tuple of slice, optional
        The part that is meant; by default all.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str
    offset: int
    window: Region | None = None

    @property
    def end(self) -> int:
        """Byte after the last element."""
        return self.offset + self.dtype.itemsize * math.prod(self.shape)

    def start_of(self, region: Region) -> int:
        """Byte where the first element of a region begins."""
        return self.offset + first_element(self.within(region), self.shape, self.order) * self.dtype.itemsize

    def within(self, region: Region) -> Region:
        """A region of the window, as one of the whole."""
        if self.window is None:
            return region
        return tuple(
            slice(part.start + all_of.start, part.stop + all_of.start)
            for part, all_of in zip(region, self.window, strict=True)
        )

    def spans(self, region: Region, gap: int, limit: int) -> Iterator[FileSpan]:
        """A region, which is not empty, in spans of the file, one after another.

        Parameters
        ----------
        region : tuple of slice
            Of the window.
        gap : int
            How many others may lie between two runs of its elements that share a span; none with 0.
        limit : int
            Length of a span; one without others may be longer.
        """
        step = 1 if self.order == "C" else -1
        lengths = [part.stop - part.start for part in region][::step]
        strides = [math.prod(self.shape[::step][k + 1 :]) for k in range(len(lengths))]
        cut, inner = len(lengths), 1  # from the first to the last one in the dimensions from `cut` on
        while cut and strides[cut - 1] - inner <= gap and (inner <= limit or strides[cut - 1] == inner):
            cut -= 1
            inner += (lengths[cut] - 1) * strides[cut]
        is_short = inner <= max(limit, math.prod(lengths[cut:]))
        inner -= (lengths[cut] - 1) * strides[cut]
        each = lengths[cut] if is_short else max(1, (limit - inner) // strides[cut] + 1)
        first, apart = self.start_of(region), tuple(stride * self.dtype.itemsize for stride in strides)
        rest = tuple(slice(0, n) for n in lengths[cut + 1 :])
        for fixed in itertools.product(*map(range, lengths[:cut])):
            place, outer = first + sum(map(operator.mul, fixed, apart)), tuple(slice(i, i + 1) for i in fixed)
            for low in range(0, lengths[cut], each):
                high = min(low + each, lengths[cut])
                length = (high - low - 1) * strides[cut] + inner
                yield FileSpan(place + low * apart[cut], length, (*outer, slice(low, high), *rest), apart)


def first_element(region: Region, shape: Sequence[int], order: str) -> int:
    """Number, in the file, of a region's first element. Not collective."""
    number = 0
    for part, n in zip(region if order == "C" else region[::-1], shape if order == "C" else shape[::-1], strict=True):
        number = number * n + part.start
    return number


# -- the header of .npy files


def read_npy_header(path: str) -> FileArray:
    """What a .npy file holds, checked against its length. Not collective.

    Raises
    ------
    FileError
        It is not a .npy file, holds Python objects, or ends too early.
    OSError
        It cannot be read.
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
                raise ValueError(f"its header says shape {shape!r} and fortran_order {fortran!r}")
        except OSError:
            raise
        except Exception as error:  # of Python's parsers, of NumPy's: any kind
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
    """The bytes before the elements, as NumPy writes them. Not collective."""
    fields = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": order == "F", "shape": shape}
    for write in (np.lib.format.write_array_header_1_0, np.lib.format.write_array_header_2_0):
        buffer = io.BytesIO()
        try:
            write(buffer, fields)
        except (ValueError, UnicodeError):  # too long for it, or names that latin-1 has not
            continue
        return buffer.getvalue()
    text = repr(fields).encode()
    text += b" " * (-(len(text) + 13) % 64) + b"\n"
    return np.lib.format.magic(3, 0) + len(text).to_bytes(4, "little") + text


def _read_header_3(file: BinaryIO, longest: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Version 3.0 has names of fields in UTF-8."""
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


# -- the part that is meant


@dataclass(frozen=True)
class FilePart:
    """What a caller says of the array in a file, as the arguments of `load` and `save` of the same names."""

    window: Window
    shape: Sequence[int] | None
    order: str | None
    offset: int | None

    @property
    def key(self) -> tuple[object, ...]:
        """The same in plain values, equal on ranks that mean the same. Not collective."""
        shape = [str(n) for n in self.shape] if isinstance(self.shape, Iterable) else self.shape
        return self.order or "C", self.offset, None if self.window is None else self._text, shape

    @property
    def _slices(self) -> tuple[slice | EllipsisType | None, ...]:
        return self.window if isinstance(self.window, tuple) else (self.window,)

    @property
    def _text(self) -> str:
        """The window as it is written in brackets."""
        return f"[{', '.join(map(_bounds, self._slices))}]"

    def check(self, name: str) -> None:
        """Refuse what is wrong with the arguments for a file that is there, whatever it holds. Not collective."""
        raw = not (is_npy(name) or is_hdf5(name))
        for argument, value in (("order", self.order), ("offset", self.offset), ("shape", self.shape)):
            if value is not None and not raw:
                raise FileError(f"{argument} = {value!r} is for raw files: {name} tells itself; omit it")
        self._check_order()
        if self.offset is not None:
            whole_number("offset", self.offset, 0, ": the byte where the array begins")
        if self.window is not None and not all(isinstance(part, slice | EllipsisType) for part in self._slices):
            raise FileError(f"window = {shown(self.window)} must be slices, such as numpy.s_[10:50, :]")
        if self.shape is not None:
            if self.window is None:
                raise FileError(
                    f"shape = {self.shape!r} is for window=: without it the array in {name} has the shape of desc"
                )
            if not isinstance(self.shape, Iterable):
                raise FileError(f"shape = {self.shape!r} must be a sequence of integers")
            for k, n in enumerate(self.shape):
                whole_number(f"shape[{k}]", n, 0)
        elif raw and self.window is not None:
            raise FileError(
                f"window = {self._text}: {name} is read as raw binary, which does not tell the shape of its array: give shape="
            )

    def check_new(self, name: str) -> None:
        """Refuse what is wrong with the arguments for a new file. Not collective."""
        for argument, value in (("shape", self.shape), ("offset", self.offset)):
            if value is not None:
                raise FileError(f"{argument} = {value!r} is for window=: without it the file is the array")
        self._check_order()
        if self.order == "F" and is_hdf5(name):
            raise FileError(f"order = 'F': in {name} the last index runs fastest, as always in HDF5; omit it")

    def _check_order(self) -> None:
        if self.order is not None and (not isinstance(self.order, str) or self.order not in ("C", "F")):
            raise FileError(f"order = {self.order!r} must be 'C' (the last index runs fastest) or 'F' (the first one)")

    def locate(self, name: str, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        """Where what is meant of a .npy or raw file is, checked against its length and the layout. Not collective."""
        if is_npy(name):
            return self.of(read_npy_header(name), name, desc)
        length = os.stat(name).st_size
        if dtype is None:
            raise FileError(
                f"{name} is read as raw binary, which does not tell its dtype: give dtype=, as in ndarray.tofile"
            )
        shape = desc.shape if self.shape is None else tuple(map(int, self.shape))
        array = FileArray(dtype, shape, self.order or "C", self.offset or 0)
        if length < array.end or (self.offset is None and length > array.end):
            raise FileError(
                f"{name} has {length} bytes, but an array of shape {shape} of {dtype} ends at byte {array.end}"
                + (": in a longer file, say where it begins by offset=" if length > array.end else "")
            )
        return self.of(array, name, desc)

    def of(self, array: FileArray, name: str, desc: Descriptor) -> FileArray:
        """What is meant of an array in a file, checked against the layout. Not collective."""
        if self.window is None:
            if array.shape != desc.shape:
                raise FileError(
                    f"{name} holds an array of shape {array.shape}, but desc has shape {desc.shape}: they must be equal, "
                    "or window= say which part is meant"
                )
            return array
        window = f"window = {self._text} of {name}, which holds an array of shape {array.shape}"
        try:
            parts = sub_array([BlockCyclic(n, max(1, n), 1) for n in array.shape], self.window)
        except DescriptorError as error:
            raise FileError(f"{window}: {error}") from None
        shape = tuple(part.n for part in parts)
        if shape != desc.shape:
            raise FileError(f"{window}, has shape {shape}, but desc has shape {desc.shape}: they must be equal")
        return replace(array, window=tuple(slice(part.offset, part.offset + part.n) for part in parts))


def _bounds(part: object) -> str:
    if isinstance(part, slice):
        low, high, step = ("" if bound is None else str(bound) for bound in (part.start, part.stop, part.step))
        return f"{low}:{high}" + (f":{step}" if step else "")
    return "..." if part is Ellipsis else shown(part)
