"""A case on the ranks: local arrays, and their expected contents.

The verification shares no code with the engine: which indices a process has, `held_of` takes from the definition of the
layouts. Each element has the bytes of its global index times an odd number, the high ones first: in 8 bytes no two are equal,
and in fewer any shift of rows or columns changes most.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...comm.mpi import MPI
from ...layout.axis import Blocks
from ...layout.notation import LayoutText
from ..cases import Case
from ..layout_text import TileLayout

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, made odd
ELEMENTS_AT_ONCE = 2**18
POISON = 0xFB  # bytes that a correct run overwrites, or must not touch
OUTSIDE = 0x5A  # bytes of A around a sub-array, which stay

Held = list[NDArray[np.int64]]  # global indices along each dimension, in local order


def bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an array in Fortran or C order, as they lie in memory: a view."""
    return array.ravel(order="K").view(np.uint8) if array.size else np.empty(0, np.uint8)


def poison(array: NDArray[Any] | None) -> None:
    """Overwrite every byte of an array in Fortran or C order."""
    if array is not None:
        bytes_of(array).fill(POISON)


def values(index: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Elements of an array at the given places of its row-major order: bytes, of whatever meaning."""
    number = (index.astype(np.uint64) * MULTIPLIER).astype(">u8")  # the bytes that differ most come first
    pattern = np.tile(number[..., np.newaxis].view(np.uint8), -(-dtype.itemsize // 8))
    if dtype.kind == "b":
        pattern >>= 7
    return np.ascontiguousarray(pattern[..., : dtype.itemsize]).view(dtype)[..., 0]


def _owners(n: int, block: int | str | Blocks, processes: int, source: int) -> NDArray[np.int64]:
    """The process coordinate of each index along a dimension, by the definition of its kind of blocks."""
    if isinstance(block, Blocks):
        return np.repeat(block.owners, block.sizes)
    if isinstance(block, int):
        return (np.arange(n) // block + source) % processes
    sizes = [part.size for part in np.array_split(np.empty(n, np.int8), processes)]
    return np.repeat(np.arange(processes), sizes)


def held_of(layout: LayoutText, shape: tuple[int, ...], rank: int) -> list[Held]:
    """Of each local array of a rank the whole array's indices that it holds: of one, of each tile, or of none outside."""
    if isinstance(layout, TileLayout):
        rows, columns, owners = layout.cut(shape)
        return [
            [np.arange(*rows[i : i + 2]), np.arange(*columns[j : j + 2])]
            for i, along in enumerate(owners)
            for j, owner in enumerate(along)
            if owner == rank
        ]
    coords = layout.coords(rank)
    if coords is None:
        return []
    dims = zip(layout.whole_shape(shape), layout.block, layout.grid, layout.source, strict=True)
    return [[np.flatnonzero(_owners(*dim) == coordinate) for dim, coordinate in zip(dims, coords, strict=True)]]


class CasePart:
    """A local array of a case's array in one of its layouts, by its global indices along each dimension.

    Attributes
    ----------
    shape : tuple of int
        Shape of the local array, a sub-array's of its whole array.
    inside : tuple of slice
        Where in the local array the elements are that move.
    indices : list of ndarray of int64
        For each dimension the global indices of these elements, in local order, counted from the sub-array's first.
    """

    def __init__(self, case: Case, layout: LayoutText, held: Held) -> None:
        self._case, self._order = case, layout.order
        self.shape = tuple(index.size for index in held)
        starts = layout.offset or (0,) * len(held)
        places = zip(held, starts, case.shape, strict=True)
        self.inside = tuple(slice(*np.searchsorted(index, (o, o + n)).tolist()) for index, o, n in places)
        self.indices = [index[some] - start for index, some, start in zip(held, self.inside, starts, strict=True)]
        self.elements = math.prod(index.size for index in self.indices)

    def empty(self) -> NDArray[Any]:
        """A local array in the layout's order, contents arbitrary."""
        return np.empty(self.shape, self._case.dtype, order=self._order)  # type: ignore[call-overload, no-any-return]

    def filled(self, outside: int = OUTSIDE) -> NDArray[Any]:
        """A local array with its expected elements, and the value `outside` in the bytes outside a sub-array."""
        array, case = self.empty(), self._case
        bytes_of(array).fill(outside)
        strides = np.cumprod([1, *case.shape[:0:-1]])[::-1]
        *rows, columns = (held * stride for held, stride in zip(self.indices, strides, strict=True))
        step = max(1, ELEMENTS_AT_ONCE // max(1, math.prod(row.size for row in rows)))
        for start in range(0, columns.size if self.elements else 0, step):
            index = functools.reduce(np.add, np.ix_(columns[start : start + step], *reversed(rows)))
            array[self.inside][..., start : start + step].T[...] = values(index, case.dtype)
        return array

    def matches(self, array: NDArray[Any]) -> bool:
        """Whether a local array has its expected bytes, and those of `poison` outside a sub-array."""
        alike = array.shape == self.shape and array.dtype == self._case.dtype
        return alike and np.array_equal(bytes_of(array), bytes_of(self.filled(POISON)))


def parts_of(case: Case, layout: LayoutText, rank: int) -> list[CasePart]:
    """The local arrays of a rank in one of a case's layouts: one, none outside the grid, or one for each of its tiles."""
    return [CasePart(case, layout, held) for held in held_of(layout, case.shape, rank)]


class RankCase:
    """One case on this rank.

    Attributes
    ----------
    comm : MPI.Intracomm
        All ranks; those outside both layouts take part and have nothing to do.
    desc_a, desc_b : Descriptor or Tiles
        Layouts before and after.
    a, out : ndarray, list of ndarray or None
        Local arrays, in the layouts' order: A filled and read-only, and room for B, which all methods share. A list where
        the layout is of tiles.
    part_of_a, part_of_b : ndarray or None
        Views of the elements in them that move: all but those around a sub-array. Of tiles, a copy of all in one piece.
    """

    def __init__(self, case: Case, comm: MPI.Intracomm) -> None:
        self.case, self.comm = case, comm
        self.desc_a, self.desc_b = (side.descriptor(case.shape, comm) for side in (case.before, case.after))
        before, self._parts = (parts_of(case, side, comm.Get_rank()) for side in (case.before, case.after))
        filled, self._outs = [part.filled() for part in before], [part.empty() for part in self._parts]
        for array in filled:
            array.flags.writeable = False
        self.a, self.part_of_a = _local(case.before, before, filled)
        self.out, self.part_of_b = _local(case.after, self._parts, self._outs)
        self.poison()

    def poison(self) -> None:
        """Overwrite the output."""
        for array in self._outs:
            poison(array)

    def correct(self) -> bool:
        """Whether this rank's output has the expected bytes."""
        return self.matches(self.out)

    def matches(self, out: Any) -> bool:
        """Whether another local array, or list of them, has the bytes expected of the output."""
        outs = out if isinstance(out, list) else [] if out is None else [out]
        return len(outs) == len(self._parts) and all(map(CasePart.matches, self._parts, outs))


def _local(layout: LayoutText, parts: list[CasePart], arrays: list[Any]) -> tuple[Any, NDArray[Any] | None]:
    """The argument of a plan, and its elements that move."""
    if layout.tiled:
        return arrays, np.concatenate([np.empty(0, np.uint8), *map(bytes_of, arrays)])
    return (arrays[0], arrays[0][parts[0].inside]) if arrays else (None, None)
