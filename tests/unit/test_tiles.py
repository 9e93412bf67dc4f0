"""Tiles: who owns what, element by element; storage; and what is refused."""

from __future__ import annotations

import pickle
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import TileLayout

from pyscalapack_redist import ArrayError, DescriptorError, Tiles

SEEDS = st.integers(0, 2**32 - 1)
RANKS = 4


def on_rank(tiles: Tiles, rank: int) -> Tiles:
    """The same as a rank sees it."""
    comm = mock.Mock(spec=["Create_group", "Get_size", "Get_rank"])
    comm.Get_size.return_value, comm.Get_rank.return_value = RANKS, rank
    return Tiles(tiles.row_edges, tiles.column_edges, tiles.owners, comm)


@given(SEEDS, st.integers(0, 12), st.integers(0, 9))
def test_owners_and_windows(seed: int, m: int, n: int) -> None:
    rng, size = np.random.default_rng(seed), (m, n)
    edges = [np.sort(np.r_[0, rng.integers(0, n + 1, int(rng.integers(6))), n]) for n in size]
    owners = rng.integers(0, RANKS, [len(some) - 1 for some in edges])
    dealt = np.full(size, -1)
    for rank in range(RANKS):
        for piece in TileLayout((edges[0], edges[1]), owners, stored=False).pieces(rank):
            dealt[np.ix_(*piece)] = rank
    tiles = Tiles(*edges, owners)
    if m and n:
        assert np.array_equal(tiles.owner(*np.ogrid[:m, :n]), dealt)
        assert tiles.owner(m - 1, 0) == dealt[m - 1, 0]
    seen = np.full((m, n), -1)
    for rank in range(RANKS):
        here = on_rank(tiles, rank)
        for window, shape in zip(here.windows, here.local_shapes, strict=True):
            assert (seen[window] == -1).all()
            assert seen[window].shape == shape
            seen[window] = rank
        for array, window in zip(here.from_function(lambda i, j: 100 * i + j), here.windows, strict=True):
            assert np.array_equal(array, (100 * np.arange(m)[:, None] + np.arange(n))[window])
    assert np.array_equal(seen, dealt)


def test_one_array_of_all_tiles() -> None:
    comm = on_rank(Tiles([0, 1], [0, 1], [[0]]), 0).comm
    tiles = Tiles(
        [0, 2, 5], [0, 3, 3, 4], [[0, 0, 1], [1, 1, 0]], comm, offsets=[10, 3, 1], leading_dimensions=[4, 1000, 3]
    )
    assert tiles.own.tolist() == [[0, 0], [0, 1], [1, 2]]
    local = tiles.zeros("i4")
    assert local.shape == (10 + 2 * 4 + 2,)
    local[:] = np.arange(20)
    first, empty, last = tiles.views(local)
    assert first.tolist() == [[10, 14, 18], [11, 15, 19]]
    assert empty.shape == (2, 0)
    assert last.tolist() == [[1], [2], [3]]
    for leading in (None, [1]):  # a tile of one row
        row = Tiles([0, 1], [0, 3], [[0]], comm, offsets=[2], leading_dimensions=leading)
        assert row.zeros("i4").shape == (5,)
    for wrong in (local[:-1], local.reshape(4, 5), [local], None, np.ma.masked_array(local)):
        with pytest.raises(ArrayError, match=r"local .*one dimension with at least 20 elements"):
            tiles.views(wrong)


def test_equality() -> None:
    edges: list[Any] = [0, 2, 5], [0, 4]
    tiles = Tiles(*edges, [[0], [1]])
    same, others = Tiles(*map(np.array, edges), np.array([[0], [1]], "u1")), [Tiles(*edges, [[1], [0]])]
    others += [Tiles([0, 3, 5], [0, 4], [[0], [1]]), Tiles([0, 2, 2, 5], [0, 4], [[0], [0], [1]])]
    assert tiles == same
    assert hash(tiles) == hash(same)
    assert tiles.layout_digest == same.layout_digest
    assert all(tiles != other and tiles.layout_digest != other.layout_digest for other in others)
    assert pickle.loads(pickle.dumps(tiles)) == tiles
    here = on_rank(tiles, 0)
    assert here.on(here.comm) is here  # type: ignore[arg-type]
    with pytest.raises(DescriptorError, match="is on paper: give it a communicator to run a redistribution on it"):
        tiles.on(here.comm)  # type: ignore[arg-type]
    assert "5 x 4 in 2 x 1 tiles on 2 ranks" in repr(tiles)


GOOD: dict[str, Any] = {"row_edges": [0, 2, 5], "column_edges": [0, 4], "owners": [[0], [1]]}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"row_edges": []}, "row_edges is empty"),
        ({"row_edges": [1, 2, 5]}, r"row_edges\[0\] = 1 must be 0"),
        ({"row_edges": [0, 5, 2]}, r"row_edges\[2\] = 2 is less than row_edges\[1\] = 5: edges must ascend"),
        ({"column_edges": [0, 4.5]}, r"column_edges\[1\] = 4.5 must be an integer"),
        ({"column_edges": 4}, "column_edges = 4 must be a sequence"),
        ({"owners": [0, 1]}, r"owners has shape \(2,\), but the edges cut the matrix into 2 x 1 tiles"),
        ({"owners": [[0], [1, 2]]}, "owners = .* must be a matrix of ranks"),
        ({"owners": [[0.0], [1.0]]}, "owners must be integers, not float64"),
        ({"owners": [[0], [-1]]}, r"owners\[1, 0\] = -1: every rank must be at least 0"),
        ({"owners": [[0], [RANKS]]}, r"owners\[1, 0\] = 4: .* below the communicator's size 4"),
        ({"comm": 3}, "comm = 3 must be an mpi4py Intracomm"),
        ({"leading_dimensions": [2]}, "leading_dimensions without offsets"),
        ({"offsets": [0, 1]}, "offsets has 2 entries, but this rank has 1 tile"),
        ({"offsets": [-1]}, r"offsets\[0\] = -1 must be at least 0"),
        (
            {"offsets": [0], "leading_dimensions": [1]},
            r"leading_dimensions\[0\] = 1 must be at least 2, the rows of its tile",
        ),
    ],
)
def test_what_is_refused(changed: dict[str, Any], words: str) -> None:
    comm = on_rank(Tiles(**GOOD), 0).comm
    with pytest.raises(DescriptorError, match=words):
        Tiles(**{**GOOD, "comm": comm, **changed})
