"""The dimensions of an array: a layout's arguments, checked, as one distribution for each; and parts of these."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DescriptorError
from .blockcyclic import BlockCyclic, check_dimensions, whole_number
from .grid import ProcessGrid
from .irregular import Blocks, Irregular, balanced

__all__ = [
    "BlockSizes",
    "Distribution",
    "Places",
    "check_one_size",
    "distributions_of",
    "in_numbers",
    "local_part",
    "sub_array",
]

Distribution = BlockCyclic | Irregular
BALANCED = "balanced"
BlockSizes = int | Blocks | str | None


def _checked_axes(axes: Sequence[int | None] | None, dimensions: int, grid: ProcessGrid) -> tuple[int | None, ...]:
    """The grid dimension over which each array dimension is spread; by default in order, and then of all of them."""
    if axes is None:
        chosen: tuple[int | None, ...] = tuple(k if k < grid.ndim else None for k in range(dimensions))
    else:
        chosen = _each("axes", axes, dimensions)
    used = []
    for k, axis in enumerate(chosen):
        if axis is None:
            continue
        if whole_number(f"axes[{k}]", axis, 0) >= grid.ndim:
            raise DescriptorError(
                f"axes[{k}] = {axis} is not a dimension of the grid, which has {grid.ndim}: 0 to {grid.ndim - 1}, or None"
            )
        if axis in used:
            raise DescriptorError(f"axes = {chosen} uses grid dimension {axis} twice: each spreads one array dimension")
        used.append(axis)
    left = _unused(chosen, grid)
    if axes is None and left:
        axis = left[0]
        raise DescriptorError(
            f"grid dimension {axis} has {grid.shape[axis]} processes and no array dimension is spread over it: name it in "
            f"axes, use a grid of size 1 there, or give axes = {chosen} for a copy of the array on each of them"
        )
    return chosen


def _unused(axes: Sequence[int | None], grid: ProcessGrid) -> list[int]:
    """Grid dimensions of several processes over which no array dimension is spread: these hold copies."""
    return [axis for axis, n in enumerate(grid.shape) if n > 1 and axis not in axes]


def distributions_of(
    shape: Sequence[int],
    block: Sequence[BlockSizes] | BlockSizes,
    grid: ProcessGrid,
    source: Sequence[int] | int,
    axes: Sequence[int | None] | None,
) -> tuple[tuple[Distribution, ...], tuple[int | None, ...]]:
    """The distribution of each dimension of an array, and its grid dimension. Not collective."""
    plain = type(shape) is type(block) is tuple and len(shape) == len(block) == grid.ndim
    if plain and axes is None and type(source) is int and source == 0:  # as most are
        try:
            return tuple(map(BlockCyclic, shape, block, grid.shape)), tuple(range(grid.ndim))  # type: ignore[arg-type]
        except DescriptorError:
            pass  # it is found again below, by name
    sizes = [whole_number(f"shape[{k}]", n, 0) for k, n in enumerate(_each("shape", shape, None))]
    check_dimensions(sizes)
    spread = _checked_axes(axes, len(sizes), grid)
    processes = [1 if axis is None else grid.shape[axis] for axis in spread]
    alike = isinstance(block, Blocks) or (isinstance(block, str) and block == BALANCED)
    given = _each("block", (block,) * len(sizes) if alike else block, len(sizes))
    blocks = [_checked_block(k, n, p, b) for k, (n, p, b) in enumerate(zip(sizes, processes, given, strict=True))]
    sources = [whole_number(f"source[{k}]", s, 0) for k, s in enumerate(_each("source", source, len(sizes)))]
    for k, (s, p) in enumerate(zip(sources, processes, strict=True)):
        if s >= p:
            raise DescriptorError(
                f"source[{k}] = {s} is outside the grid: its dimension has {p} processes, so it must be 0 to {p - 1}"
            )
    parts = enumerate(zip(sizes, blocks, processes, sources, strict=True))
    return tuple(_distribution(k, *part) for k, part in parts), spread


def _checked_block(k: int, n: int, processes: int, block: object) -> int | Blocks:
    if block is None:
        return max(1, -(-n // processes))
    if isinstance(block, Blocks):
        return block
    if isinstance(block, str):
        if block != BALANCED:
            raise DescriptorError(
                f"block[{k}] = {block!r} must be an integer of at least 1, None (one block per process), 'balanced' (the same "
                "in sizes that differ by one at most), or Blocks(sizes, owners)"
            )
        return balanced(n, processes)
    return whole_number(f"block[{k}]", block, 1, ": elements in a block; None is one per process")


def _distribution(k: int, n: int, block: int | Blocks, processes: int, source: int) -> Distribution:
    if not isinstance(block, Blocks):
        return BlockCyclic(n, block, processes, source)
    if block.total != n:
        raise DescriptorError(
            f"block[{k}] = {block!r}: the sizes sum to {block.total}, but shape[{k}] = {n}: they must sum to that"
        )
    if source:
        raise DescriptorError(
            f"source[{k}] = {source} is for blocks of one size: with block[{k}] = {block!r} it must be 0; name the processes "
            "by Blocks(sizes, owners)"
        )
    try:
        return Irregular(n, block, processes)
    except DescriptorError as error:
        raise DescriptorError(f"block[{k}] = {block!r}: {error}") from None


def _each(name: str, value: Any, dimensions: int | None) -> tuple[Any, ...]:
    """One value for each dimension; a single one stands for all of them."""
    if value is None or isinstance(value, int | np.integer | str):
        return (value,) * (1 if dimensions is None else dimensions)
    try:
        values = tuple(value)
    except TypeError:
        raise DescriptorError(
            f"{name} = {value!r} must be an integer or a sequence of them, one for each dimension"
        ) from None
    if dimensions is not None and len(values) != dimensions:
        raise DescriptorError(
            f"{name} = {values} has {len(values)} entries, but the array has {dimensions} dimensions: give one for each"
        )
    return values


def sub_array(distributions: Sequence[Distribution], key: object) -> tuple[Distribution, ...]:
    """The distributions of the part that slices take: of the first dimensions, and of the last ones after `...`."""
    slices = key if isinstance(key, tuple) else (key,)
    dimensions = len(distributions)
    gaps = [k for k, part in enumerate(slices) if part is Ellipsis]
    if len(gaps) > 1:
        raise DescriptorError(f"a sub-array takes at most one ellipsis (...), got {len(gaps)}")
    if len(slices) - len(gaps) > dimensions:
        raise DescriptorError(
            f"a sub-array of {dimensions} dimensions takes at most {dimensions} slices, got {len(slices) - len(gaps)}"
        )
    before, after = (slices[: gaps[0]], slices[gaps[0] + 1 :]) if gaps else (slices, ())
    slices = (*before, *(slice(None),) * (dimensions - len(before) - len(after)), *after)
    return tuple(_part(k, *both) for k, both in enumerate(zip(distributions, slices, strict=True)))


def _part(k: int, axis: Distribution, part: object) -> Distribution:
    if not isinstance(part, slice):
        raise DescriptorError(
            f"dimension {k}: a sub-array is taken by slices, not {part!r}; for one index i write i:i+1"
        )
    if part.step not in (None, 1):
        raise DescriptorError(f"dimension {k}: the step of a sub-array must be 1, not {part.step}")
    try:
        low, high, _ = part.indices(axis.n)
    except TypeError:
        raise DescriptorError(f"dimension {k}: the bounds of {part!r} must be integers") from None
    return replace(axis, n=max(0, high - low), offset=axis.offset + low)


def check_one_size(distributions: Sequence[Distribution]) -> None:
    """Raise a DescriptorError for irregular blocks, which ScaLAPACK's descriptor cannot tell. Not collective."""
    for k, axis in enumerate(distributions):
        if isinstance(axis, Irregular):
            raise DescriptorError(
                f"dimension {k} has irregular blocks, {axis.blocks!r}, and a ScaLAPACK descriptor one block size: "
                "redistribute to a Descriptor with a block size first"
            )


class Places:
    """Which process holds what: by process coordinate along the array dimensions, and by copy. Not collective.

    Attributes
    ----------
    copies : int
        How many processes hold each element. Copies are numbered by the grid dimensions that the array does not use, row
        by row.
    """

    def __init__(self, distributions: Sequence[Distribution], axes: tuple[int | None, ...], grid: ProcessGrid) -> None:
        self._axes, self._rest, self._grid = axes, _unused(axes, grid), grid
        self._processes = [axis.processes for axis in distributions]
        self.copies = math.prod(grid.shape[axis] for axis in self._rest)

    def ranks(self) -> NDArray[np.int64]:
        """Rank at each process coordinate, and of each copy along a last dimension if there are several, read-only."""
        found = self._grid._spread.get(self._axes)
        if found is not None:
            return found
        used = [axis for axis in self._axes if axis is not None]
        order = used + [axis for axis in range(self._grid.ndim) if axis not in used]
        shape = [*self._processes, self.copies] if self._rest else self._processes
        ranks = self._grid.ranks.transpose(order).reshape(shape)
        ranks.setflags(write=False)
        self._grid._spread[self._axes] = ranks
        return ranks

    def at(self, coords: Sequence[int]) -> tuple[int, ...]:
        """The index into `ranks` of the process at grid coordinates: one for each dimension, then the copy's, if several."""
        place = [0 if axis is None else operator.index(coords[axis]) for axis in self._axes]
        if self._rest:
            copy = 0
            for axis in self._rest:
                copy = copy * self._grid.shape[axis] + operator.index(coords[axis])
            place.append(copy)
        return tuple(place)


_numbers = operator.attrgetter("n", "block", "processes", "source", "offset")


def in_numbers(distributions: Sequence[Distribution]) -> list[tuple[Any, ...]]:
    """All that tells one distribution from another, of each. Not collective."""
    return list(map(_numbers, distributions))


def local_part(distributions: Sequence[Distribution], coords: Sequence[int]) -> tuple[slice, ...]:
    """The part of the whole array's local array that holds a process's elements. Not collective."""
    return tuple(
        slice(start := axis.local_start(p), start + axis.local_size(p))
        for axis, p in zip(distributions, coords, strict=True)
    )
