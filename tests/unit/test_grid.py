"""Process grids on paper: placement, coordinates, and what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyscalapack_redist import Descriptor, DescriptorError, ProcessGrid
from pyscalapack_redist.layout.blockcyclic import MOST_DIMENSIONS


def test_orders_are_those_of_blacs() -> None:
    assert ProcessGrid((2, 3)).ranks.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert ProcessGrid((2, 3), order="column").ranks.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_any_placement() -> None:
    grid = ProcessGrid((2, 2), ranks=[[7, 2], [0, 3]])
    assert (grid.shape, grid.size, grid.ndim, grid.comm, grid.coords) == ((2, 2), 4, 2, None, None)
    for rank, place in ((7, (0, 0)), (2, (0, 1)), (0, (1, 0)), (3, (1, 1))):
        assert grid.coords_of(rank) == place
        assert grid.rank_of(place) == rank
    assert grid.coords_of(5) is None
    with pytest.raises(ValueError, match="read-only"):
        grid.ranks[0, 0] = 1


def test_equality_is_by_placement() -> None:
    assert ProcessGrid((2, 2)) == ProcessGrid((2, 2), ranks=[[0, 1], [2, 3]])
    assert hash(ProcessGrid((2, 2))) == hash(ProcessGrid((2, 2), ranks=[[0, 1], [2, 3]]))
    assert ProcessGrid((2, 2)) != ProcessGrid((2, 2), order="column")
    assert ProcessGrid((2, 2)) != ProcessGrid((4, 1))


def test_a_person_can_read_it() -> None:
    assert repr(ProcessGrid((2, 3))) == "ProcessGrid(2 x 3, ranks 0 to 5, on paper)"
    assert "ranks [[1, 0]]" in repr(ProcessGrid((1, 2), ranks=[[1, 0]]))
    assert "..." in repr(ProcessGrid((5, 5), order="column"))


@pytest.mark.parametrize(
    ("shape", "keywords", "words"),
    [
        ((0, 2), {}, r"shape\[0\] = 0 must be at least 1"),
        ((), {}, r"shape = \(\) must have at least one dimension"),
        ((2, 2), {"order": "diagonal"}, "order = 'diagonal' must be 'row' or 'column'"),
        ((2, 2), {"ranks": [[0, 1]]}, r"ranks has shape \(1, 2\), but the grid has shape \(2, 2\)"),
        ((2, 2), {"ranks": [[0, 1], [1, 2]]}, "ranks has rank 1 twice"),
        ((1, 2), {"ranks": [[0, -1]]}, "every rank must be at least 0"),
        ((1, 2), {"ranks": [[0.5, 1]]}, "ranks must be integers"),
    ],
)
def test_what_cannot_be_is_named(shape: tuple[int, ...], keywords: dict[str, object], words: str) -> None:
    with pytest.raises(DescriptorError, match=words):
        ProcessGrid(shape, **keywords)  # type: ignore[arg-type]


def test_a_communicator_must_be_one() -> None:
    with pytest.raises(DescriptorError, match="comm = 'world' must be an mpi4py Intracomm"):
        ProcessGrid((1, 1), "world")  # type: ignore[arg-type]
    for comm in None, [1, 2], 7:
        with pytest.raises(DescriptorError, match=r"comm = .* must be an mpi4py Intracomm"):
            ProcessGrid.from_context(0, comm)  # type: ignore[arg-type]
        with pytest.raises(DescriptorError, match=r"comm = .* must be an mpi4py Intracomm"):
            Descriptor.from_array([1, 0, 4, 4, 2, 2, 0, 0, 4], comm)  # type: ignore[arg-type]


def test_contexts_need_ranks_and_two_dimensions() -> None:
    with pytest.raises(DescriptorError, match="on paper: give it a communicator"):
        ProcessGrid((1, 1)).make_context()
    with pytest.raises(DescriptorError, match=r"has no BLACS context yet: call make_context\(\)"):
        _ = ProcessGrid((1, 1)).context
    with pytest.raises(DescriptorError, match=r"coords = \(2, 0\) are outside a grid of shape \(2, 2\)"):
        ProcessGrid((2, 2)).rank_of((2, 0))


@pytest.mark.parametrize("coords", [0, None, (0,), (0, 0, 0), (0, 0.5), "ab", np.zeros(())])
def test_coordinates_are_as_many_integers_as_dimensions(coords: Any) -> None:
    grid = ProcessGrid((2, 2))
    words = r"must be a sequence of integers, one for each dimension of a grid of shape \(2, 2\)"
    for find in (grid.rank_of, Descriptor((4, 4), 1, grid).local_shape_of):
        with pytest.raises(DescriptorError, match=rf"coords = .* {words}"):
            find(coords)


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (3,), (1, 3, 1)])
def test_the_ranks_of_a_line_of_processes_may_be_flat(shape: tuple[int, ...]) -> None:
    assert ProcessGrid(shape, ranks=[2, 0, 5]) == ProcessGrid(shape, ranks=np.reshape([2, 0, 5], shape))
    assert ProcessGrid((1, 1), ranks=[4]).rank_of((0, 0)) == 4


@pytest.mark.parametrize("shape", [(2, 2), (4, 1, 2), (3, 1)])
def test_flat_ranks_of_any_other_grid_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DescriptorError, match=r"ranks has shape \(4,\), but the grid has shape"):
        ProcessGrid(shape, ranks=[0, 1, 2, 3])


def test_many_ranks() -> None:
    grid = ProcessGrid((1024, 1024))
    assert grid.coords_of(2**20 - 1) == (1023, 1023)
    assert np.array_equal(grid.ranks.ravel(), np.arange(2**20))


def test_as_many_dimensions_as_an_array_can_have() -> None:
    assert ProcessGrid((1,) * MOST_DIMENSIONS).coords_of(0) == (0,) * MOST_DIMENSIONS
    words = f"shape has {MOST_DIMENSIONS + 1} dimensions: NumPy's arrays have at most {MOST_DIMENSIONS}"
    with pytest.raises(DescriptorError, match=words):
        ProcessGrid((1,) * (MOST_DIMENSIONS + 1))
