"""Process grids on paper: placement, coordinates, and what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyscalapack_redist import Descriptor, DescriptorError, ProcessGrid
from pyscalapack_redist.layout.axis import MOST_DIMENSIONS

SQUARE = ProcessGrid((2, 2))


def test_placement() -> None:
    assert ProcessGrid((2, 3)).ranks.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert ProcessGrid((2, 3), order="column").ranks.tolist() == [[0, 2, 4], [1, 3, 5]]
    grid = ProcessGrid((2, 2), ranks=[[7, 2], [0, 3]])
    assert (grid.shape, grid.size, grid.ndim, grid.comm, grid.coords) == ((2, 2), 4, 2, None, None)
    for rank, place in ((7, (0, 0)), (2, (0, 1)), (0, (1, 0)), (3, (1, 1))):
        assert grid.coords_of(rank) == place
        assert grid.rank_of(place) == rank
    assert grid.coords_of(5) is None
    with pytest.raises(ValueError, match="read-only"):
        grid.ranks[0, 0] = 1
    large = ProcessGrid((1024, 1024))
    assert large.coords_of(2**20 - 1) == (1023, 1023)
    assert np.array_equal(large.ranks.ravel(), np.arange(2**20))
    assert ProcessGrid((1,) * MOST_DIMENSIONS).coords_of(0) == (0,) * MOST_DIMENSIONS


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (3,), (1, 3, 1)])
def test_the_ranks_of_a_line_of_processes_may_be_flat(shape: tuple[int, ...]) -> None:
    assert ProcessGrid(shape, ranks=[2, 0, 5]) == ProcessGrid(shape, ranks=np.reshape([2, 0, 5], shape))
    assert ProcessGrid((1, 1), ranks=[4]).rank_of((0, 0)) == 4


def test_equality_is_by_placement() -> None:
    assert ProcessGrid((2, 2), ranks=[[0, 1], [2, 3]]) == SQUARE
    assert hash(ProcessGrid((2, 2), ranks=[[0, 1], [2, 3]])) == hash(SQUARE)
    assert ProcessGrid((2, 2), order="column") != SQUARE
    assert ProcessGrid((4, 1)) != SQUARE


def test_a_person_can_read_it() -> None:
    assert repr(ProcessGrid((2, 3))) == "ProcessGrid(2 x 3, ranks 0 to 5, on paper)"
    assert "ranks [[1, 0]]" in repr(ProcessGrid((1, 2), ranks=[[1, 0]]))
    assert "..." in repr(ProcessGrid((5, 5), order="column"))


@pytest.mark.parametrize(
    ("shape", "keywords", "words"),
    [
        ((0, 2), {}, r"shape\[0\] = 0 must be at least 1"),
        ((), {}, r"shape = \(\) must have at least one dimension"),
        ((1,) * (MOST_DIMENSIONS + 1), {}, f"shape has {MOST_DIMENSIONS + 1} dimensions: NumPy's arrays have at most"),
        ((2, 2), {"order": "diagonal"}, "order = 'diagonal' must be 'row' or 'column'"),
        ((2, 2), {"ranks": [[0, 1]]}, r"ranks has shape \(1, 2\), but the grid has shape \(2, 2\)"),
        ((2, 2), {"ranks": [0, 1, 2, 3]}, r"ranks has shape \(4,\), but the grid has shape"),
        ((3, 1), {"ranks": [0, 1, 2, 3]}, r"ranks has shape \(4,\), but the grid has shape"),
        ((2, 2), {"ranks": [[0, 1], [1, 2]]}, "ranks has rank 1 twice"),
        ((1, 2), {"ranks": [[0, -1]]}, "every rank must be at least 0"),
        ((1, 2), {"ranks": [[0.5, 1]]}, "ranks must be integers"),
        ((1, 1), {"comm": "world"}, "comm = 'world' must be an mpi4py Intracomm"),
    ],
)
def test_what_cannot_be_is_named(shape: tuple[int, ...], keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptorError, match=words):
        ProcessGrid(shape, **keywords)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ProcessGrid.from_context(0, 7), "comm = 7 must be an mpi4py Intracomm"),  # type: ignore[arg-type]
        (lambda: Descriptor.from_array([1, 0, 4, 4, 2, 2, 0, 0, 4], None), "comm = None must be an mpi4py Intracomm"),
        (SQUARE.make_context, "on paper: give it a communicator"),
        (lambda: SQUARE.context, r"has no BLACS context yet: call make_context\(\)"),
        (lambda: SQUARE.rank_of((2, 0)), r"coords = \(2, 0\) are outside a grid of shape \(2, 2\)"),
    ],
)
def test_what_is_not_there(call: Any, words: str) -> None:
    with pytest.raises(DescriptorError, match=words):
        call()


@pytest.mark.parametrize("coords", [0, None, (0,), (0, 0, 0), (0, 0.5), "ab"])
def test_coordinates_are_as_many_integers_as_dimensions(coords: Any) -> None:
    words = r"coords = .* must be a sequence of integers, one for each dimension of a grid of shape \(2, 2\)"
    for find in (SQUARE.rank_of, Descriptor((4, 4), 1, SQUARE).local_shape_of):
        with pytest.raises(DescriptorError, match=words):
            find(coords)
