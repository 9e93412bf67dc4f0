"""Two dimensions taken as one: a lower-dimensional projection of a layout (Birkeland & Sorevik, section 4).

Element (i, j) of dimensions of n_i and n_j elements, i running faster, becomes element i + n_i j of the one dimension.
Local arrays do not change, so the one dimension must be dealt out in blocks of one size to the same processes; or in
irregular blocks, where one of the two has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import DescriptorError
from .blockcyclic import BlockCyclic, whole_number
from .dimensions import Distribution
from .grid import ProcessGrid
from .irregular import Blocks, Irregular

__all__ = ["Merged", "merged", "merged_with_next", "neighbours"]


class Merged(NamedTuple):
    """The dimensions of an array, two of them as one: the distribution of each, its grid dimension, and the grid."""

    distributions: list[Distribution]
    axes: list[int | None]
    grid: ProcessGrid


def merged(
    distributions: Sequence[Distribution],
    axes: Sequence[int | None],
    grid: ProcessGrid,
    dims: Sequence[object],
    order: str,
) -> Merged:
    """The dimensions `dims` of an array as one, which runs through them in `order`. Not collective.

    Raises
    ------
    DescriptorError
        They are not neighbours, or a process's elements would not be blocks of one size.
    """
    made = Merged(list(distributions), list(axes), grid)
    for k in neighbours(dims, len(distributions), order):
        try:
            made = merged_with_next(*made, k, order)
        except DescriptorError as error:
            raise DescriptorError(f"dimensions {k} and {k + 1} cannot be merged: {error}") from None
    return made


def neighbours(dims: Sequence[object], dimensions: int, order: str) -> Sequence[int]:
    """Dimensions to be merged with the next one, one after another, so that all of `dims` become one. Not collective.

    Raises
    ------
    DescriptorError
        They are not two or more neighbours, ascending, or there is no such order.
    """
    if order not in ("F", "C"):
        raise DescriptorError(f"order = {order!r} must be 'F' (the first dimension runs fastest) or 'C' (the last)")
    chosen = [whole_number(f"dims[{k}]", dim, 0) for k, dim in enumerate(dims)]
    first, count = (chosen or [0])[0], len(chosen)
    if count < 2 or chosen != list(range(first, first + count)) or first + count > dimensions:
        raise DescriptorError(
            f"dims = {dims} must be two or more neighbours of the {dimensions} dimensions, ascending, as 1, 2"
        )
    return [first] * (count - 1) if order == "F" else range(first + count - 2, first - 1, -1)


def merged_with_next(
    distributions: Sequence[Distribution], axes: Sequence[int | None], grid: ProcessGrid, k: int, order: str
) -> Merged:
    """Dimensions `k` and k + 1 as one; in order "F" the first of them runs faster. Not collective.

    Raises
    ------
    DescriptorError
        The elements of a process would not be blocks of one size; says what would make them so.
    """
    fast, slow = (k, k + 1) if order == "F" else (k + 1, k)
    merged = _as_one(distributions[fast], distributions[slow])
    spread = fast if distributions[slow].processes == 1 else slow
    rest, left = list(distributions), list(axes)
    if distributions[fast].processes > 1 and distributions[slow].processes > 1:
        grid, left = _with_one_grid_dimension(distributions, axes, grid, fast, slow)
    left[k : k + 2] = [left[spread]]
    rest[k : k + 2] = [merged]
    return Merged(rest, left, grid)


def _as_one(fast: Distribution, slow: Distribution) -> Distribution:
    """How two dimensions are dealt out as one, `fast` running faster.

    Where both are distributed, coordinate c is the process whose distance from the source is c mod P along the faster one of
    P processes, and c // P along the slower one.
    """
    n = fast.n * slow.n
    if fast.processes == 1:
        if isinstance(slow, Irregular):
            return Irregular(n, Blocks(slow.block.sizes * fast.n, slow.block.owners), slow.processes)
        return BlockCyclic(n, max(1, fast.n) * slow.block, slow.processes, slow.source)
    if slow.processes == 1:
        if isinstance(fast, Irregular):
            again = (np.tile(column, slow.n) for column in (fast.block.sizes, fast.block.owners))
            return Irregular(n, Blocks(*again), fast.processes)
        if fast.n <= fast.block:  # one process holds it all
            return BlockCyclic(n, max(1, n), fast.processes, fast.source)
        if slow.n > 1 and fast.n % fast.stride:
            raise DescriptorError(
                f"{_told(fast)} runs faster, and its last round of blocks is not full: its size must be a multiple of block "
                f"x processes = {fast.stride}; choose another block, or merge in the other order where memory allows it"
            )
        return BlockCyclic(n, fast.block, fast.processes, fast.source)
    if isinstance(fast, Irregular) or isinstance(slow, Irregular) or (n and (fast.n != fast.stride or slow.block != 1)):
        raise DescriptorError(
            f"both are distributed: the faster ({_told(fast)}) must be one block for each process, of equal size, and the "
            f"slower ({_told(slow)}) must have blocks of 1; redistribute one of them first"
        )
    return BlockCyclic(n, fast.block, fast.processes * slow.processes)


def _with_one_grid_dimension(
    distributions: Sequence[Distribution], axes: Sequence[int | None], grid: ProcessGrid, fast: int, slow: int
) -> tuple[ProcessGrid, list[int | None]]:
    """A grid whose last dimension counts the processes of two array dimensions from their sources on, and the axes."""
    both = {axis: distributions[k].source for k in (slow, fast) if (axis := axes[k]) is not None}
    kept = [axis for axis in range(grid.ndim) if axis not in both]
    turned = np.roll(grid.ranks, [-first for first in both.values()], [*both])
    ranks = turned.transpose([*kept, *both]).reshape([*(grid.shape[axis] for axis in kept), -1])
    place = {axis: min(number, len(kept)) for number, axis in enumerate([*kept, *both])}
    return ProcessGrid(ranks.shape, grid.comm, ranks=ranks), [None if axis is None else place[axis] for axis in axes]


def _told(axis: Distribution) -> str:
    return f"a dimension of {axis.n} in blocks of {axis.block} over {axis.processes} processes"
