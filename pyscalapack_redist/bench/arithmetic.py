"""What each rank must hold, straight from ScaLAPACK's formulas (NUMROC, INDXL2G): shares no code with the engine.

Each element is a function of its global index. Where the dtype has room for all of them it is the index itself, so no
two are equal; a smaller one has the top bits of the index times an odd number, which any shift of rows or columns changes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .case import Case
from .layout import Layout

__all__ = ["Part", "global_indices", "values"]

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, made odd
ELEMENTS_AT_ONCE = 2**18


def global_indices(n: int, block: int, processes: int, source: int, coordinate: int) -> NDArray[np.int64]:
    """Global indices along one dimension, counted from 0, in the local order of one process. Not collective."""
    distance = (processes + coordinate - source) % processes
    whole_blocks = n // block
    count = whole_blocks // processes * block
    extra = whole_blocks % processes
    count += block if distance < extra else n % block if distance == extra else 0
    local = np.arange(count, dtype=np.int64)
    return processes * block * (local // block) + local % block + distance * block


def values(index: NDArray[np.int64], count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Elements of an array of `count` elements at the given places of its row-major order. Not collective."""
    bits = _distinct_bits(dtype)
    number = index.astype(np.uint64)
    if count > 2**bits:
        number = number * MULTIPLIER >> np.uint64(64 - bits)
    if dtype.kind in "biuf":
        return number.astype(dtype)
    if dtype.kind == "c":
        made: NDArray[Any] = number.astype(dtype)
        made.imag = -made.real
        return made
    pattern = number.astype("<u8")[..., np.newaxis].view(np.uint8)
    repeats = -(-dtype.itemsize // 8)
    return np.ascontiguousarray(np.tile(pattern, repeats)[..., : dtype.itemsize]).view(dtype)[..., 0]


def _distinct_bits(dtype: np.dtype[Any]) -> int:
    if dtype.kind == "b":
        return 1
    if dtype.kind in "fc":
        return min(np.finfo(dtype).nmant + 1, 62)
    return min(8 * dtype.itemsize, 62)


class Part:
    """What one rank holds of a case's array in one of its layouts. Not collective.

    Attributes
    ----------
    shape : tuple of int or None
        Local shape; None on a rank outside the grid.
    """

    def __init__(self, case: Case, layout: Layout, rank: int) -> None:
        self._case = case
        coords = layout.coords(rank)
        self._held: list[NDArray[np.int64]] = []
        self.shape: tuple[int, ...] | None = None
        if coords is not None:
            places = zip(case.shape, layout.block, layout.grid, layout.source, coords, strict=True)
            self._held = [global_indices(*place) for place in places]
            self.shape = tuple(one.size for one in self._held)

    def empty(self) -> NDArray[Any] | None:
        """A local array in Fortran order, contents arbitrary; None outside the grid."""
        return None if self.shape is None else np.empty(self.shape, self._case.dtype, order="F")

    def filled(self) -> NDArray[Any] | None:
        """A local array with the elements that it must have; None outside the grid."""
        array = self.empty()
        if array is not None:
            for columns, expected in self._pieces():
                array[..., columns].T[...] = expected
        return array

    def matches(self, array: NDArray[Any] | None) -> bool:
        """Whether a local array has exactly the bytes that it must have."""
        if array is None or self.shape is None:
            return array is None and self.shape is None
        return array.shape == self.shape and all(
            np.ascontiguousarray(array[..., columns].T).tobytes() == expected.tobytes()
            for columns, expected in self._pieces()
        )

    def _pieces(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Some columns at a time, transposed: their place in the local array and their elements."""
        case = self._case
        assert self.shape is not None
        if 0 in self.shape:
            return
        strides = np.cumprod([1, *case.shape[:0:-1]])[::-1]
        *rows, columns = (held * stride for held, stride in zip(self._held, strides, strict=True))
        step = max(1, ELEMENTS_AT_ONCE // max(1, int(np.prod(self.shape[:-1]))))
        for start in range(0, columns.size, step):
            some = columns[start : start + step]
            index = functools.reduce(np.add, np.ix_(some, *reversed(rows)))
            yield slice(start, start + step), values(index, case.elements, case.dtype)
