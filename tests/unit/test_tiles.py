"""Tiles: who owns what, element by element; storage; and what is refused."""

from __future__ import annotations

import pickle
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import made_for, placed
from numpy.typing import NDArray
from oracle import AnyLayout, random_layout, random_tiles

from pyscalapack_redist import ArrayError, DescriptorError, Tiles
from pyscalapack_redist.engine.local_arrays import check_tiles_apart
from pyscalapack_redist.schedules.layout_graphs import LayoutMessages
from pyscalapack_redist.study.traffic import between_ranks

SEEDS = st.integers(0, 2**32 - 1)
RANKS = 4


def on_rank(tiles: Tiles, rank: int) -> Tiles:
    """The same as a rank sees it."""
    comm = mock.Mock(spec=["Create_group", "Get_size", "Get_rank"])
    comm.Get_size.return_value, comm.Get_rank.return_value = RANKS, rank
    return Tiles.from_edges(tiles.edges, tiles.owners, comm)


def number(*indices: Any) -> Any:
    """Another number for each element of at most 100 along each dimension."""
    return sum(100**k * index for k, index in enumerate(indices))


@given(SEEDS, st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple))
def test_owners_and_windows(seed: int, size: tuple[int, ...]) -> None:
    layout = random_tiles(np.random.default_rng(seed), size, RANKS)
    dealt, whole = np.full(size, -1), number(*np.indices(size))
    for rank in range(RANKS):
        for piece in layout.pieces(rank):
            dealt[np.ix_(*piece)] = rank
    tiles = Tiles.from_edges(layout.edges, layout.owners)
    assert (tiles.ndim, tiles.shape, tiles.T.shape) == (len(size), size, size[::-1])
    if 0 not in size:
        assert np.array_equal(tiles.owner(*np.ix_(*map(range, size))), dealt)
        last = tuple(n - 1 for n in size)
        assert tiles.owner(*last) == tiles.T.owner(*last[::-1]) == dealt[last]
    seen = np.full(size, -1)
    for rank in range(RANKS):
        here = on_rank(tiles, rank)
        for window, shape in zip(here.windows, here.local_shapes, strict=True):
            assert (seen[window] == -1).all()
            assert seen[window].shape == shape
            seen[window] = rank
        for array, window in zip(here.from_function(number), here.windows, strict=True):
            assert np.array_equal(array, whole[window])
    assert np.array_equal(seen, dealt)


@given(SEEDS, st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple))
def test_each_rank_gets_each_of_its_elements_once(seed: int, size: tuple[int, ...]) -> None:
    """From or to tiles, with replicas or without: from any rank that has it, from itself where it has it."""
    rng = np.random.default_rng(seed)
    pair: list[AnyLayout] = [random_layout(rng, size, RANKS, sub_arrays=False, copies=True) for _ in range(2)]
    for k in rng.permutation(2)[: int(rng.integers(1, 3))]:
        pair[k] = random_tiles(rng, size, RANKS)
    before, after = ([held_by(layout, rank) for rank in range(RANKS)] for layout in pair)
    a, b = (made_for(layout, None, None) for layout in pair)
    ranks, table = between_ranks(a, b)
    for q, rank in enumerate(ranks.tolist()):
        assert table[:, q].sum() == after[rank].sum()
        assert table[q, q] == (before[rank] & after[rank]).sum()
        for p, sender in enumerate(ranks.tolist()):
            assert table[p, q] <= (before[sender] & after[rank]).sum()
            if pair[0].copies == 1:
                assert table[p, q] == (before[sender] & after[rank]).sum()
    np.fill_diagonal(table, 0)
    at = np.ix_(np.searchsorted(ranks, a.ranks), np.searchsorted(ranks, b.ranks))
    lengths = LayoutMessages(a, b).whole.lengths
    assert np.array_equal(lengths[: len(a.ranks), : len(b.ranks)], table[at])


def held_by(layout: AnyLayout, rank: int) -> NDArray[np.bool_]:
    """Where the elements of a rank are."""
    held = np.zeros(layout.size, bool)
    for piece in layout.pieces(rank):
        held[np.ix_(*piece)] = True
    return held


@given(SEEDS)
def test_arrays_that_share_elements(seed: int) -> None:
    """Views of one array, of any strides; those of a regular part may be next to or between each other's elements."""
    rng, arrays = np.random.default_rng(seed), []
    base = placed(rng, tuple(rng.integers(1, 7, int(rng.integers(1, 4)))), np.dtype("i4"))
    for k in range(int(rng.integers(2, 5))):
        cut = [sorted(rng.integers(0, n + 1, 2).tolist()) for n in base.shape]
        view = base[tuple(slice(*span, int(rng.integers(1, 3))) for span in cut)]
        arrays.append((str(k), view[(slice(None, None, -1),) * base.ndim] if rng.random() < 0.3 else view))
    shared = any(np.shares_memory(x, y) for k, (_, x) in enumerate(arrays) for _, y in arrays[:k])
    if shared:
        with pytest.raises(ArrayError, match=r"\d and \d share elements"):
            check_tiles_apart([(name, view, True) for name, view in arrays])
    else:
        check_tiles_apart([(name, view, True) for name, view in arrays])
    check_tiles_apart([(name, view, False) for name, view in arrays])


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
    assert tiles.views([first, empty, last])[2] is last
    turned = tiles.T
    assert turned.offsets is None
    assert turned.own.tolist() == [[0, 0], [1, 0], [2, 1]]
    assert turned._of_transpose().own.tolist() == tiles.own.tolist()
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


def test_any_number_of_dimensions() -> None:
    line, cube = Tiles.from_edges([[0, 3, 8]], [1, 0]), Tiles.from_edges([[0, 3], [0, 1, 5], [0, 2]], [[[2], [0]]])
    matrix = Tiles([0, 3, 8], [0, 1], [[1], [0]])
    assert Tiles.from_edges(matrix.edges, matrix.owners) == matrix
    assert [edges.tolist() for edges in matrix.edges] == [matrix.row_edges.tolist(), matrix.column_edges.tolist()]
    assert line != matrix
    for tiles in line, cube:
        assert pickle.loads(pickle.dumps(tiles)) == tiles
        assert not any(array.flags.writeable for array in (*tiles.edges, tiles.owners))
        with pytest.raises(AttributeError, match="row_edges and column_edges are of matrices"):
            tiles.column_edges  # noqa: B018
    assert "8 in 2 tiles on 2 ranks" in repr(line)
    assert "3 x 5 x 2 in 1 x 2 x 1 tiles on 2 ranks" in repr(cube)
    with pytest.raises(IndexError, match="2 indices for an array of 3 dimensions"):
        cube.owner(0, 0)
    with pytest.raises(ArrayError, match="a list with a NumPy array of 3 dimensions for each own tile, 1 here"):
        on_rank(cube, 2).views(np.zeros((3, 1, 2)))


@pytest.mark.parametrize(
    ("edges", "owners", "words"),
    [
        (4, [0], "edges = 4 must be a sequence with a list of edges for each dimension"),
        ([], 0, "edges has 0 entries: it must be .* from 1 to"),
        ([0, 4], [0], r"edges\[0\] = 0 must be a sequence"),
        ([[0, 1], [0, 1], [0, 5, 4]], [[[0, 0]]], r"edges\[2\]\[2\] = 4 is less than edges\[2\]\[1\] = 5"),
        ([[0, 1, 4]], [[0, 0]], r"owners has shape \(1, 2\), but the edges cut the array into 2 tiles"),
        ([[0, 1, 4]], [0, -1], r"owners\[1\] = -1: every rank must be at least 0"),
        ([[0, 1]] * 3, [[[0], [1, 2]]], r"owners = .* must be an array of shape \(1, 1, 1\) of ranks"),
    ],
)
def test_edges_that_are_refused(edges: Any, owners: Any, words: str) -> None:
    with pytest.raises(DescriptorError, match=words):
        Tiles.from_edges(edges, owners)


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
