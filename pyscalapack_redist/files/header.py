"""What a file says it holds: the header of a .npy file (NumPy enhancement proposal 1), or what the caller says of a raw one.

And where the elements of a box of it are.
"""

from __future__ import annotations

import ast
import io
import itertools
import math
import operator
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import FileError

__all__ = ["FileArray", "Region", "Span", "check_ordinary", "first_element", "npy_header", "read_npy_header"]

Region = tuple[slice, ...]  # a box of an array

LONGEST = 2**20  # bytes of a header; NumPy's own is below 2**16 unless a record has thousands of fields


class Span(NamedTuple):
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

    def spans(self, region: Region, gap: int, limit: int) -> Iterator[Span]:
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
                yield Span(place + low * apart[cut], length, (*outer, slice(low, high), *rest), apart)


def first_element(region: Region, shape: Sequence[int], order: str) -> int:
    """Number, in the file, of a region's first element. Not collective."""
    number = 0
    for part, n in zip(region if order == "C" else region[::-1], shape if order == "C" else shape[::-1], strict=True):
        number = number * n + part.start
    return number


def check_ordinary(path: str) -> None:
    """Raise a FileError for a pipe, which would be waited for, or a device. Not collective."""
    if stat.S_IFMT(os.stat(path).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
        raise FileError(f"{path} is not an ordinary file: give another path")


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
            if version == (1, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file, LONGEST)
            elif version == (2, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_2_0(file, LONGEST)
            elif version == (3, 0):
                shape, fortran, dtype = _read_header_3(file)
            else:
                raise ValueError(f"its version {version} of the format is unknown")
        except OSError:
            raise
        except Exception as error:  # of Python's parsers, of NumPy's: any kind
            raise FileError(f"{path} ({length} bytes) is not a .npy file that can be read: {error}") from error
        if (
            not isinstance(shape, tuple)
            or not all(type(n) is int and n >= 0 for n in shape)
            or type(fortran) is not bool
        ):
            raise FileError(
                f"{path} ({length} bytes) is not a .npy file that can be read: its header says shape {shape!r} and "
                f"fortran_order {fortran!r}"
            )
        made = FileArray(dtype, shape, "F" if fortran else "C", file.tell())
    if dtype.hasobject or not dtype.itemsize or dtype.subdtype is not None:
        raise FileError(
            f"{path} holds elements of dtype {dtype}: only elements of a fixed size can be read in parallel"
        )
    if length < made.end:
        raise FileError(
            f"{path} is cut short: it has {length} bytes, but {made.shape} elements of {dtype} end at byte {made.end}"
        )
    return made


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> bytes:
    """The bytes before the elements, as NumPy writes them. Not collective."""
    what = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": order == "F", "shape": shape}
    for write in (np.lib.format.write_array_header_1_0, np.lib.format.write_array_header_2_0):
        buffer = io.BytesIO()
        try:
            write(buffer, what)
        except (ValueError, UnicodeError):  # too long for it, or names that latin-1 has not
            continue
        return buffer.getvalue()
    text = repr(what).encode()
    text += b" " * (-(len(text) + 13) % 64) + b"\n"
    return np.lib.format.magic(3, 0) + len(text).to_bytes(4, "little") + text


def _read_header_3(file: io.BufferedReader) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Version 3.0 has names of fields in UTF-8."""
    length = int.from_bytes(file.read(4), "little")
    if length > LONGEST:
        raise ValueError(f"its header of {length} bytes is too long")
    text = file.read(length)
    if len(text) < length:
        raise ValueError("it ends within its header")
    what = ast.literal_eval(text.decode())
    return what["shape"], what["fortran_order"], np.lib.format.descr_to_dtype(what["descr"])
