"""What each rank must hold, straight from ScaLAPACK's formulas (NUMROC, INDXL2G): shares no code with the engine.

Each element is a function of its global index. Where the dtype has room for all of them it is the index itself, so no
two are equal; a smaller one has the top bits of the index times an odd number, which any shift of rows or columns changes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .case import Case
from .layout import Layout
from .poison import bytes_of, poison, poisoned

__all__ = ["Part", "global_indices", "values"]

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, made odd
ELEMENTS_AT_ONCE = 2**18
PADDED = "gG"  # long double and its complex: NumPy leaves their padding as it was
AROUND = 0x5A  # bytes of A around a sub-array, which are to stay there


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


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether the elements' bytes are equal, but for those of long doubles that mean nothing."""
    if one.dtype.char in PADDED:
        return np.array_equal(one, other)
    return np.ascontiguousarray(one).tobytes() == other.tobytes()


class Part:
    """What one rank holds of a case's array in one of its layouts. Not collective.

    Attributes
    ----------
    shape : tuple of int
        Shape of the local array, a sub-array's of its whole array; zeros on a rank outside the grid.
    inside : tuple of slice
        Where in the local array the elements are that move.
    indices : list of ndarray of int64
        For each dimension the global indices of these elements, in local order, counted from the sub-array's first.
    """

    def __init__(self, case: Case, layout: Layout, rank: int) -> None:
        self._case, self._order = case, layout.order
        coords = layout.coords(rank)
        self.outside_grid = coords is None
        self.shape: tuple[int, ...] = (0,) * len(case.shape)
        self.inside: tuple[slice, ...] = ()
        self.indices = [np.empty(0, np.int64) for _ in case.shape]
        if coords is not None:
            places = zip(layout.whole_shape(case.shape), layout.block, layout.grid, layout.source, coords, strict=True)
            held = [global_indices(*place) for place in places]
            self.shape = tuple(one.size for one in held)
            starts = layout.offset or (0,) * len(held)
            ends = (start + n for start, n in zip(starts, case.shape, strict=True))
            self.inside = tuple(
                slice(*np.searchsorted(one, bounds).tolist()) for one, *bounds in zip(held, starts, ends, strict=True)
            )
            self.indices = [one[some] - start for one, some, start in zip(held, self.inside, starts, strict=True)]

    @property
    def elements(self) -> int:
        """How many elements it has that move."""
        return math.prod(one.size for one in self.indices)

    @property
    def is_whole(self) -> bool:
        """Whether all of the local array moves."""
        return self.elements == math.prod(self.shape)

    def empty(self) -> NDArray[Any] | None:
        """A local array in the layout's order, contents arbitrary; None outside the grid."""
        return None if self.outside_grid else np.empty(self.shape, self._case.dtype, order=self._order)  # type: ignore[call-overload]

    def filled(self) -> NDArray[Any] | None:
        """A local array with the elements that it must have, and others around a sub-array; None outside the grid."""
        array = self.empty()
        if array is not None:
            if not self.is_whole:
                bytes_of(array).fill(AROUND)
            for columns, expected in self._pieces():
                array[self.inside][..., columns].T[...] = expected
        return array

    def matches(self, array: NDArray[Any] | None) -> bool:
        """Whether a local array has exactly the bytes that it must have, and is as `poison` left it around a sub-array."""
        if array is None or self.outside_grid:
            return array is None and self.outside_grid
        return (
            array.shape == self.shape
            and array.dtype == self._case.dtype
            and all(_same(array[self.inside][..., columns].T, expected) for columns, expected in self._pieces())
            and (self.is_whole or self._untouched_around(array))
        )

    def _untouched_around(self, array: NDArray[Any]) -> bool:
        rest = array.copy(order="K").view(f"V{array.dtype.itemsize}")
        here = np.empty((), rest.dtype)
        poison(here)
        rest[self.inside] = here
        return poisoned(rest)

    def _pieces(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Some columns at a time of what moves, transposed: their place and their elements."""
        case = self._case
        if not self.elements:
            return
        strides = np.cumprod([1, *case.shape[:0:-1]])[::-1]
        *rows, columns = (held * stride for held, stride in zip(self.indices, strides, strict=True))
        step = max(1, ELEMENTS_AT_ONCE // max(1, math.prod(row.size for row in rows)))
        for start in range(0, columns.size, step):
            some = columns[start : start + step]
            index = functools.reduce(np.add, np.ix_(some, *reversed(rows)))
            yield slice(start, start + step), values(index, case.elements, case.dtype)
