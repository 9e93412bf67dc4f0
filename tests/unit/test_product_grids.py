"""The grid on which a product is computed, by the layouts of operands and result; no MPI."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pyscalapack_redist import Blocks, Descriptor, ProcessGrid
from pyscalapack_redist.linalg.product_grids import (
    PANEL_BYTES,
    Arrangement,
    Plane,
    Sizes,
    best_arrangement,
    halves,
    steps_of_half,
)

DOUBLE = np.dtype(float)


def rows(m: int, n: int, ranks: int) -> Descriptor:
    return Descriptor((m, n), None, ProcessGrid((ranks, 1)))


def chosen(ranks: int, a: Descriptor, b: Descriptor, c: Descriptor, may_be_half: bool = False) -> Arrangement:
    sizes = Sizes(a.shape[0], b.shape[1], a.shape[1], DOUBLE)
    return best_arrangement(sizes, ranks, a, b, c, may_be_half)


def stays(grid: Arrangement, a: Descriptor, b: Descriptor, c: Descriptor) -> tuple[bool, bool, bool]:
    return grid.unmoved(Sizes(a.shape[0], b.shape[1], a.shape[1], DOUBLE), *map(Plane.of, (a, b, c)))


def test_rows_stay_where_they_are() -> None:
    for ranks in (2, 3, 4):
        layouts = (rows(2000, 1900, ranks), rows(1900, 1800, ranks), rows(2000, 1800, ranks))
        grid = chosen(ranks, *layouts)
        assert grid.ranks.shape == (ranks, 1, 1)
        assert stays(grid, *layouts) == (True, False, True)


def test_a_matrix_times_a_vector_moves_no_matrix() -> None:
    for block in (64, None, "balanced"):
        a = Descriptor((4000, 4000), block, ProcessGrid((2, 3), order="column"), source=(1, 2) if block == 64 else 0)
        grid = chosen(6, a, rows(4000, 1, 6), rows(4000, 1, 6))
        assert grid.ranks.shape == (2, 1, 3)
        assert stays(grid, a, rows(4000, 1, 6), rows(4000, 1, 6)) == (True, False, False)
        grid = chosen(
            6, Descriptor((1, 4000), None, ProcessGrid((1, 6))), a, Descriptor((1, 4000), None, ProcessGrid((1, 6)))
        )
        assert grid.ranks.shape == (1, 3, 2)


def test_tall_columns_with_themselves_stay() -> None:
    tall, small = rows(200_000, 300, 8), rows(300, 300, 8)
    layouts = tall.T, tall, Descriptor((300, 300), None, tall.T.grid)
    for may_be_half in (False, True):
        grid = chosen(8, *layouts, may_be_half)
        assert grid.ranks.shape == (1, 1, 8)
        assert stays(grid, *layouts)[:2] == (True, True)
    assert chosen(8, tall.T, tall, small).ranks.shape == (1, 1, 8)


def test_one_half_where_it_saves_time() -> None:
    for ranks in (2, 4, 8):
        a = rows(4096, 4096, ranks)
        assert chosen(ranks, a, a.T, a, True).is_half
        assert not chosen(ranks, a, a.T, a, False).is_half
        small = rows(32, 32, ranks)
        assert not chosen(ranks, small, small.T, small, True).is_half


def test_small_matrices_on_one_rank_stay_there() -> None:
    one = Descriptor((50, 50), 8, ProcessGrid((1, 1), ranks=[[3]]))
    grid = chosen(8, one, one, one)
    assert grid.ranks.tolist() == [[[3]]]
    assert stays(grid, one, one, one) == (True, True, True)


def test_extra_memory_is_a_share_of_the_arrays() -> None:
    """Sums of all layers would take a whole result on each process."""
    ranks, m, k = 64, 30_000, 1_000_000
    a, b = Descriptor((m, k), None, ProcessGrid((1, ranks))), Descriptor((k, m), None, ProcessGrid((ranks, 1)))
    c = Descriptor((m, m), 64, ProcessGrid((8, 8)))
    grid = chosen(ranks, a, b, c)
    cost = grid.cost(Sizes(m, m, k, DOUBLE), False, *map(Plane.of, (a, b, c)))
    assert cost.nbytes <= PANEL_BYTES + 8 * (m * m + 2 * m * k) / ranks
    assert grid.ranks.shape[2] < ranks


def test_planes() -> None:
    grid = ProcessGrid((2, 2))
    whole = Descriptor((10, 12), (2, 3), grid, source=(1, 0))
    plane = Plane.of(whole)
    assert plane is not None
    assert plane.equals(Plane.of(whole))
    for other in (
        Descriptor((10, 12), (2, 3), grid),
        Descriptor((10, 12), (2, 4), grid, source=(1, 0)),
        Descriptor((10, 12), (2, 3), ProcessGrid((2, 2), order="column"), source=(1, 0)),
        whole[1:],
        Descriptor((10, 12), 2, grid, axes=(0, None)),
        Descriptor((10, 12), (Blocks([5, 5]), None), ProcessGrid((2, 1))),
    ):
        assert not plane.equals(Plane.of(other))
    ones = [Descriptor((10, 12), block, ProcessGrid((1, 1))) for block in (1, 5, None, "balanced")]
    planes = [Plane.of(desc) for desc in ones]
    assert planes[0] is not None
    assert all(planes[0].equals(other) for other in planes)


@pytest.mark.parametrize(("ranks", "n"), [(1, 700), (2, 1500), (4, 2048), (6, 2000), (8, 3000)])
def test_steps_of_one_half(ranks: int, n: int) -> None:
    """They cover the half, and each process has not much more than its part of it."""
    for grid in halves(ranks, Sizes(n, n, n, DOUBLE)):
        p, q, _ = grid.ranks.shape
        if grid.ranks.size < ranks:
            continue
        blocks = [deal.block or n for deal in (grid.rows, grid.columns)]
        desc = Descriptor((n, n), blocks, ProcessGrid((p, q)))
        covered, most = np.zeros((n, n), bool), 0
        for coords in np.ndindex(p, q):
            down, over = (desc.global_indices(axis, coords) for axis in (0, 1))
            size = 0
            for first, width, height in steps_of_half(down, over):
                inside = np.ix_(down[down.size - height :], over[first : first + width])
                assert not covered[inside].any()
                covered[inside], size = True, size + width * height
            most = max(most, size)
        assert covered[np.tril_indices(n)].all()
        assert most <= 0.75 * n * n / (p * q)
        estimate = grid._half(Sizes(n, n, n, DOUBLE)) * math.ceil(n / p) * math.ceil(n / q)
        assert 0.8 * most < estimate < 1.3 * most
