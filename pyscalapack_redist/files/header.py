"""What a file says it holds: the header of a .npy file (NumPy enhancement proposal 1), or what the caller says of a raw one."""

from __future__ import annotations

import ast
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import FileError

__all__ = ["FileArray", "Region", "first_element", "npy_header", "read_npy_header"]

Region = tuple[slice, ...]  # a box of an array

LONGEST = 2**20  # bytes of a header; NumPy's own is below 2**16 unless a record has thousands of fields


@dataclass(frozen=True)
class FileArray:
    """An array in a file.

    Attributes
    ----------
    dtype : dtype
        Of its elements, in the file's byte order.
    shape : tuple of int
        Its shape.
    order : {"C", "F"}
        Which index runs fastest: the last or the first.
    offset : int
        Byte where the first element begins.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str
    offset: int

    @property
    def end(self) -> int:
        """Byte after the last element."""
        size = self.dtype.itemsize
        for n in self.shape:
            size *= n
        return self.offset + size

    def start_of(self, region: Region) -> int:
        """Byte where the first element of a region begins."""
        return self.offset + first_element(region, self.shape, self.order) * self.dtype.itemsize


def first_element(region: Region, shape: Sequence[int], order: str) -> int:
    """Number, in the file, of a region's first element. Not collective."""
    number = 0
    for part, n in zip(region if order == "C" else region[::-1], shape if order == "C" else shape[::-1], strict=True):
        number = number * n + part.start
    return number


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
        except (ValueError, TypeError, SyntaxError, KeyError, UnicodeError) as error:
            raise FileError(f"{path} ({length} bytes) is not a .npy file that can be read: {error}") from error
        made = FileArray(dtype, tuple(shape), "F" if fortran else "C", file.tell())
    if dtype.hasobject or not dtype.itemsize:
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
