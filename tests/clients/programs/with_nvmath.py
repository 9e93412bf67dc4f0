"""Distributions of nvmath-python, with local arrays in host memory, go through redistribute; and theirs are made."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import nvmath.distributed
import pytest
from mpi4py import MPI
from numpy.typing import NDArray
from nvmath.distributed.distribution import BlockCyclic, BlockNonCyclic, Box, ProcessGrid, Slab

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
ROWS, COLUMNS = (SIZE // 2, 2) if SIZE % 2 == 0 else (SIZE, 1)


def whole(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def by_rows(shape: tuple[int, ...]) -> psr.Descriptor:
    grid = psr.ProcessGrid((SIZE,) + (1,) * (len(shape) - 1), WORLD)
    return psr.Descriptor(shape, (2,) + (None,) * (len(shape) - 1), grid)


def check(distribution: Any, index: list[Any], shape: tuple[int, ...], dtype: str, order: str) -> None:
    """Both ways; this rank has the elements at `index` of the array."""
    expected = whole(shape, dtype)
    local = np.array(expected[np.ix_(*index)], order=order)  # type: ignore[call-overload]
    pair = distribution, local
    array = psr.as_distributed(pair)
    assert (array.shape, array.local is local) == (shape, True)
    assert psr.layout_of((distribution, shape)) == psr.layout_of(pair) == array.desc
    moved = psr.redistribute(pair, by_rows(shape))
    assert np.array_equal(moved.local, by_rows(shape).from_function(lambda *i: expected[i], dtype))
    for like in (pair, (distribution, shape)):
        kind, back = psr.redistribute(moved, like=like)
        assert kind is distribution
        assert back.dtype == local.dtype
        assert np.array_equal(back, local)
    local[...] = 0
    psr.copy_to(moved, pair)
    assert np.array_equal(local, back)
    with pytest.raises(psr.ArrayError, match="a layout without elements: give a pair"):
        psr.as_distributed((distribution, shape))


def check_slabs_and_boxes(dtype: str) -> None:
    """These need neither a device nor an initialized nvmath."""
    for shape, cut in (((17, 11), 0), ((17, 11), 1), ((5, 7, 9), 2), ((7,), 0)):
        index: list[Any] = [np.arange(n) for n in shape]
        index[cut] = np.array_split(index[cut], SIZE)[RANK]
        for slab in ((Slab.X, Slab.Y, Slab.Z)[cut], Slab(cut, len(shape))):
            check(slab, index, shape, dtype, "C")
    row, column = divmod(RANK, COLUMNS)
    parts = [np.array_split(np.arange(17), ROWS)[row], np.array_split(np.arange(11), COLUMNS)[column]]
    box = Box([int(part[0]) for part in parts], [int(part[-1]) + 1 for part in parts])
    check(box, parts, (17, 11), dtype, "F")


def check_block_cyclic(dtype: str) -> None:
    """Of an nvmath with processes and without a device: its `initialize` would open one."""
    group = nvmath.distributed.MPIProcessGroup(WORLD)
    nvmath.distributed._ctx = nvmath.distributed.DistributedContext(0, group, False, None)
    grids = {layout: ProcessGrid(shape=(ROWS, COLUMNS), layout=layout) for layout in ProcessGrid.Layout}
    for layout, grid in grids.items():
        place = (RANK // COLUMNS, RANK % COLUMNS) if layout.name == "ROW_MAJOR" else (RANK % ROWS, RANK // ROWS)

        def index(
            shape: tuple[int, int], block: tuple[int, int], source: tuple[int, int], place: Any = place
        ) -> list[Any]:
            distances = [(p - s) % n for p, s, n in zip(place, source, (ROWS, COLUMNS), strict=True)]
            dimensions = zip(shape, block, (ROWS, COLUMNS), distances, strict=True)
            return [np.array([i for i in range(n) if i // b % p == d], int) for n, b, p, d in dimensions]

        source = (ROWS - 1, COLUMNS - 1)
        for shape, block in (((17, 11), (3, 2)), ((1, 9), (2, 2))):
            distribution = BlockCyclic(grid, block, first_process=source)
            parts = index(shape, block, source)
            assert distribution.shape(RANK, shape) == tuple(map(len, parts))  # as theirs
            check(distribution, parts, shape, dtype, "F")
        shape = 3 * ROWS, 2 * COLUMNS
        check(BlockNonCyclic(grid), index(shape, (3, 2), (0, 0)), shape, dtype, "F")

        bound = BlockNonCyclic(grid)._bind(shape)
        layout_of_bound = psr.layout_of(bound)
        assert (layout_of_bound.shape, layout_of_bound.block) == (shape, (3, 2))
        other = psr.DistributedArray.from_function(by_rows((2 * ROWS, COLUMNS)), lambda i, j: 1.0 * i - j)
        kind, local = psr.redistribute(other, like=bound)
        assert type(kind) is BlockNonCyclic
        assert kind is not bound
        assert local.shape == (2, 1)
        if SIZE > 1:
            with pytest.raises(psr.DescriptorError, match="for shapes that its grid divides"):
                psr.layout_of((BlockNonCyclic(grid), (3 * ROWS + 1, 2 * COLUMNS + 1)))
    table = np.arange(SIZE)[::-1].reshape(1, SIZE)
    layout_of_table = psr.layout_of((BlockCyclic(ProcessGrid(process_array=table), (2, 2)), (4, 9)))
    assert np.array_equal(layout_of_table.grid.ranks, table)
    with pytest.raises(psr.DescriptorError, match="is of no global shape yet: give a pair"):
        psr.layout_of(Slab.X)
    assert psr.layout_of(Slab(0)._bind((2 * SIZE, 3))).shape == (2 * SIZE, 3)


def check_errors() -> None:
    box = Box((0, 0), (2, 3))  # the same on all ranks
    if SIZE > 1:
        with pytest.raises(psr.DescriptorError, match="are no grid that has each element once"):
            psr.as_distributed((box, np.zeros((2, 3))))
    with pytest.raises(psr.DescriptorError, match=re.escape("are of an array of shape (2, 3), not of (5, 5)")):
        psr.layout_of((box, (5, 5)))
    with pytest.raises(psr.DescriptorError, match="does not fit an array of 2 dimensions"):
        psr.layout_of((Slab.Z, (4, 4)))
    local = np.zeros((2, 3 + (RANK == SIZE - 1)))
    if SIZE > 1:
        with pytest.raises(psr.ArrayError if RANK == SIZE - 1 else psr.CollectiveError, match="has shape"):
            psr.as_distributed((Slab.X, local))
        with pytest.raises(psr.DescriptorError, match=r"the ranks have different distributions: .*Slab"):
            psr.as_distributed((Slab.X, local) if RANK else (box, np.zeros((2, 3))))
        desc = by_rows((2, 3))  # an array that does not communicate to be read
        with pytest.raises(psr.CollectiveError, match="the ranks ask for different things"):
            psr.as_distributed((Slab.X, local) if RANK else (desc, desc.zeros()))
        with pytest.raises(psr.ArrayError if RANK else psr.CollectiveError, match="x is a object: give"):
            psr.as_distributed(object() if RANK else (Slab.X, local))


def main() -> None:
    for dtype in sys.argv[1:] or "dFi?":
        check_slabs_and_boxes(dtype)
    check_errors()
    for dtype in sys.argv[1:] or "dFi?":
        check_block_cyclic(dtype)
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
