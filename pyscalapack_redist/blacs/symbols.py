"""Symbols of shared libraries, and what a file links; also without opening it. Not collective."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct

__all__ = ["address_of", "counts_in_64_bits", "file_of", "linked"]


class _SymbolPlace(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("file_base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def address_of(library: ctypes.CDLL, symbol: str) -> int:
    """Address of a symbol of a library or of what it links; 0 where there is none."""
    try:
        return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def file_of(library: ctypes.CDLL, symbol: str) -> str | None:
    """Which file a symbol of a library, or of what it links, comes from."""
    place = _SymbolPlace()
    address = address_of(library, symbol)
    if not address or not ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(place)):
        return None
    return os.path.realpath(os.fsdecode(place.file))


def linked(path: str) -> list[str]:
    """Names of the libraries that an ELF file links; none where it is not a 64-bit little-endian one."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            return _linked_names(image) if image[:6] == b"\x7fELF\x02\x01" else []
    except (OSError, ValueError, StopIteration, struct.error):
        return []


def _linked_names(image: mmap.mmap) -> list[str]:
    (table,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    segments = [struct.unpack_from("<IIQQQQ", image, table + k * size) for k in range(count)]
    loaded = [(address, offset, length) for kind, _, offset, address, _, length in segments if kind == 1]
    dynamic = [
        struct.unpack_from("<qQ", image, at)
        for kind, _, offset, _, _, length in segments
        if kind == 2
        for at in range(offset, offset + length, 16)
    ]
    (texts,) = (value for tag, value in dynamic if tag == 5)
    start = next(offset + texts - at for at, offset, length in loaded if at <= texts < at + length)
    return [image[start + value : image.find(b"\0", start + value)].decode() for tag, value in dynamic if tag == 1]


def counts_in_64_bits(library: ctypes.CDLL) -> bool:
    """Whether a ScaLAPACK reads integers of 64 bits, by its names or by what its NUMROC answers.

    That is asked how many of 10 elements the first of 3 processes has. Where it reads 64 bits they are 10 + 2^32.
    """
    if not address_of(library, "pdgemr2d_") and any(address_of(library, f"pdgemr2d{end}") for end in ("_64_", "64_")):
        return True
    numroc = address_of(library, "numroc_")
    if not numroc:
        return False
    numbers = [ctypes.c_int64(number) for number in (10 + 2**32, 1, 0, 0, 3)]
    count = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)(numroc)
    return bool(count(*map(ctypes.addressof, numbers)) != 4)
