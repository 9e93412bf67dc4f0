"""A case set up on the ranks: local arrays, and what they must hold by ScaLAPACK's own formulas (NUMROC, INDXL2G).

The verification shares no code with the engine. Each element is a function of its global index. Where the dtype has room
for all of them it is the index itself, so no two are equal; a smaller one has the top bits of the index times an odd number,
which any shift of rows or columns changes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...comm.mpi import MPI
from ..cases import Case, Layout

__all__ = ["Part", "Stage", "bytes_of", "global_indices", "poison", "poisoned", "values"]

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, made odd
ELEMENTS_AT_ONCE = 2**18
PADDED = "gG"  # long double and its complex: NumPy leaves their padding as it was
POISON = 0xFB  # bytes where a right answer is to come, or where nothing may be written
AROUND = 0x5A  # bytes of A around a sub-array, which are to stay there


def bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an array in Fortran or C order, as they lie in memory: a view. Not collective."""
    return array.ravel(order="K").view(np.uint8) if array.size else np.empty(0, np.uint8)


def poison(array: NDArray[Any] | None) -> None:
    """Overwrite every byte of an array in Fortran or C order. Not collective."""
    if array is not None and array.size:
        bytes_of(array).fill(POISON)


def poisoned(array: NDArray[Any]) -> bool:
    """Whether every byte of an array in Fortran or C order is as `poison` leaves it. Not collective."""
    return bool((bytes_of(array) == POISON).all())


def global_indices(n: int, block: int | str, processes: int, source: int, coordinate: int) -> NDArray[np.int64]:
    """Global indices along one dimension, counted from 0, in the local order of one process. Not collective."""
    if not isinstance(block, int):
        return np.array_split(np.arange(n, dtype=np.int64), processes)[coordinate]
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
    return min(np.finfo(dtype).nmant + 1 if dtype.kind in "fc" else 8 * dtype.itemsize, 62)


def _same(array: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Whether the elements' bytes are equal, but for those of long doubles that mean nothing."""
    if array.dtype.char in PADDED:
        return np.array_equal(array, expected)
    return np.ascontiguousarray(array).tobytes() == expected.tobytes()


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
        if coords is None:
            return
        places = zip(layout.whole_shape(case.shape), layout.block, layout.grid, layout.source, coords, strict=True)
        held = [global_indices(*place) for place in places]
        self.shape = tuple(index.size for index in held)
        starts = layout.offset or (0,) * len(held)
        ends = [start + n for start, n in zip(starts, case.shape, strict=True)]
        bounds = [np.searchsorted(*place).tolist() for place in zip(held, zip(starts, ends, strict=True), strict=True)]
        self.inside = tuple(slice(*pair) for pair in bounds)
        self.indices = [index[some] - start for index, some, start in zip(held, self.inside, starts, strict=True)]

    @property
    def elements(self) -> int:
        """How many elements it has that move."""
        return math.prod(index.size for index in self.indices)

    def empty(self) -> NDArray[Any] | None:
        """A local array in the layout's order, contents arbitrary; None outside the grid."""
        return None if self.outside_grid else np.empty(self.shape, self._case.dtype, order=self._order)  # type: ignore[call-overload]

    def filled(self) -> NDArray[Any] | None:
        """A local array with the elements that it must have, and others around a sub-array; None outside the grid."""
        array = self.empty()
        if array is not None:
            if self.elements != array.size:
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
            and (self.elements == array.size or self._untouched_around(array))
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


class Stage:
    """One case on this rank. Not collective.

    Attributes
    ----------
    comm : MPI.Intracomm
        All ranks; those outside both layouts take part and have nothing to do.
    desc_a, desc_b : Descriptor
        Layouts before and after.
    a, out : ndarray or None
        Local arrays, in the layouts' order: A filled and read-only, and room for B, which all methods share.
    part_of_a, part_of_b : ndarray or None
        Views of the elements in them that move: all but those around a sub-array.
    """

    def __init__(self, case: Case, comm: MPI.Intracomm) -> None:
        self.case, self.comm = case, comm
        self.desc_a = case.before.descriptor(case.shape, comm)
        self.desc_b = case.after.descriptor(case.shape, comm)
        rank = comm.Get_rank()
        before, self._part_b = Part(case, case.before, rank), Part(case, case.after, rank)
        self.a, self.out = before.filled(), self._part_b.empty()
        if self.a is not None:
            self.a.flags.writeable = False
        self.part_of_a: NDArray[Any] | None = None if self.a is None else self.a[before.inside]
        self.part_of_b: NDArray[Any] | None = None if self.out is None else self.out[self._part_b.inside]
        self.poison()

    def poison(self) -> None:
        """Overwrite the output, so that nothing correct is left in it."""
        poison(self.out)

    def correct(self) -> bool:
        """Whether the output is, byte by byte, what it must be on this rank."""
        return self.matches(self.out)

    def matches(self, out: NDArray[Any] | None) -> bool:
        """Whether another array is, byte by byte, what the output must be."""
        return self._part_b.matches(out)
