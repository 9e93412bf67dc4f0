"""What of a file is meant: the array that it is, or a window of it; and what a caller says of a raw file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any

import numpy as np

from ..errors import DescriptorError, FileError, shown
from ..layout.blockcyclic import BlockCyclic, whole_number
from ..layout.descriptor import Descriptor
from ..layout.dimensions import sub_array
from .agreed import checked_order, is_hdf5, is_npy
from .header import FileArray, read_npy_header

__all__ = ["FilePart", "Window"]

Window = slice | EllipsisType | tuple[slice | EllipsisType, ...] | None


@dataclass(frozen=True)
class FilePart:
    """What a caller says of the array in a file, as the arguments of `load` and `save` of the same names."""

    window: Window
    shape: Sequence[int] | None
    order: str | None
    offset: int | None

    @property
    def told(self) -> tuple[object, ...]:
        """The same, equal on ranks that mean the same. Not collective."""
        shape = [str(n) for n in self.shape] if isinstance(self.shape, Iterable) else self.shape
        return self.order or "C", self.offset, None if self.window is None else self._text, shape

    @property
    def _text(self) -> str:
        """The window as it is written in brackets."""
        parts = self.window if isinstance(self.window, tuple) else (self.window,)
        return f"[{', '.join(map(_bounds, parts))}]"

    def check(self, name: str) -> None:
        """Refuse what is wrong whatever the file holds. Not collective."""
        raw = not (is_npy(name) or is_hdf5(name))
        for argument, value in (("order", self.order), ("offset", self.offset), ("shape", self.shape)):
            if value is not None and not raw:
                raise FileError(f"{argument} = {value!r} is for raw files: {name} tells itself; omit it")
        if self.order is not None:
            checked_order(self.order)
        if self.offset is not None:
            whole_number("offset", self.offset, 0, ": the byte where the array begins")
        parts = self.window if isinstance(self.window, tuple) else (self.window,)
        if self.window is not None and not all(isinstance(part, slice | EllipsisType) for part in parts):
            raise FileError(f"window = {shown(self.window)} must be slices, such as numpy.s_[10:50, :]")
        if self.shape is not None and self.window is None:
            raise FileError(
                f"shape = {self.shape!r} is for window=: without it the array in {name} has the shape of desc"
            )
        if self.shape is not None:
            if not isinstance(self.shape, Iterable):
                raise FileError(f"shape = {self.shape!r} must be a sequence of integers")
            for k, n in enumerate(self.shape):
                whole_number(f"shape[{k}]", n, 0)
        if raw and self.window is not None and self.shape is None:
            raise FileError(
                f"window = {self._text}: {name} is read as raw binary, which does not tell the shape of its array: give shape="
            )

    def found(self, name: str, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        """What is meant of a .npy or raw file, checked against its length and the layout. Not collective."""
        if is_npy(name):
            return self.of(read_npy_header(name), name, desc)
        length = os.stat(name).st_size
        if dtype is None:
            raise FileError(
                f"{name} is read as raw binary, which does not tell its dtype: give dtype=, as in ndarray.tofile"
            )
        shape = desc.shape if self.shape is None else tuple(map(int, self.shape))
        stored = FileArray(dtype, shape, self.order or "C", self.offset or 0)
        if length < stored.end or (self.offset is None and length > stored.end):
            raise FileError(
                f"{name} has {length} bytes, but an array of shape {shape} of {dtype} ends at byte {stored.end}"
                + (": in a longer file, say where it begins by offset=" if length > stored.end else "")
            )
        return self.of(stored, name, desc)

    def of(self, stored: FileArray, name: str, desc: Descriptor) -> FileArray:
        """What is meant of an array in a file, checked against the layout. Not collective."""
        if self.window is None:
            if stored.shape != desc.shape:
                raise FileError(
                    f"{name} holds an array of shape {stored.shape}, but desc has shape {desc.shape}: they must be equal, "
                    "or window= say which part is meant"
                )
            return stored
        axes = [BlockCyclic(n, max(1, n), 1) for n in stored.shape]
        try:
            parts = sub_array(axes, self.window)
        except DescriptorError as error:
            raise FileError(
                f"window = {self._text} of {name}, which holds an array of shape {stored.shape}: {error}"
            ) from None
        shape = tuple(part.n for part in parts)
        if shape != desc.shape:
            raise FileError(
                f"window = {self._text} of {name}, which holds an array of shape {stored.shape}, has shape {shape}, but desc "
                f"has shape {desc.shape}: they must be equal"
            )
        return replace(stored, window=tuple(slice(part.offset, part.offset + part.n) for part in parts))


def _bounds(part: object) -> str:
    if isinstance(part, slice):
        low, high, step = ("" if bound is None else str(bound) for bound in (part.start, part.stop, part.step))
        return f"{low}:{high}" + (f":{step}" if step else "")
    return "..." if part is Ellipsis else shown(part)
