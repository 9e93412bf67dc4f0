"""Layouts as the command line writes them: read, written, turned into descriptors, and what is said of wrong ones."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import deal

from pyscalapack_redist import Blocks, Descriptor, DescriptorError, ProcessGrid, Tiles
from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.tools.bench.methods import read_method
from pyscalapack_redist.tools.bench.rank_case import held_of
from pyscalapack_redist.tools.bench.timing import between_hosts
from pyscalapack_redist.tools.cases import Case, read_dtype
from pyscalapack_redist.tools.layout_text import TileLayout, read_side

WHOLE = LayoutText.parse("1x1:1x1")
LARGE = 10**20


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("2x4:64x64", LayoutText((2, 4), (64, 64), (0, 0), 0)),
        ("4x2:32x100@3,1+8", LayoutText((4, 2), (32, 100), (3, 1), 8)),
        ("1x1x4:8x7x6@0,0,2", LayoutText((1, 1, 4), (8, 7, 6), (0, 0, 2), 0)),
        ("4x2:balanced", LayoutText((4, 2), ("balanced", "balanced"), (0, 0))),
        ("4x2:32xbalanced@3,0+8", LayoutText((4, 2), (32, "balanced"), (3, 0), 8)),
        ("3x2:9p2,4p0,7p2x32@0,1", LayoutText((3, 2), (Blocks([9, 4, 7], [2, 0, 2]), 32), (0, 1))),
        ("2cx4x3cx2:8x5p1,6p0+4", LayoutText((4, 2), (8, Blocks([5, 6], [1, 0])), (0, 0), 4, copied=((0, 2), (2, 3)))),
        ("2x4:64x64/C", LayoutText((2, 4), (64, 64), (0, 0), order="C")),
        ("2x1:3x4@1,0+5/70x50@10,0", LayoutText((2, 1), (3, 4), (1, 0), 5, (70, 50), (10, 0))),
        ("3:5/70@10/C", LayoutText((3,), (5,), (0,), 0, (70,), (10,), "C")),
    ],
)
def test_layouts_are_read_and_written(text: str, layout: LayoutText) -> None:
    assert LayoutText.parse_operand(text) == layout
    assert str(layout) == text


def test_what_is_the_default_is_not_written() -> None:
    for text, short in (("2x4:64x64@0,0+0/F", "2x4:64x64"), ("3x1:9,0,4x5", "3x1:9p0,4p2x5")):
        assert str(LayoutText.parse_operand(text)) == short


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no block size"),
        ("columns", "does not say of how many ranks: columns of 4 are 1x4:balanced"),
        ("2xa:1x1", "the grid '2xa' must be whole numbers of at least 1"),
        ("2x2:3", "the block size '3' must have one number for each dimension of the grid '2x2'"),
        (
            "2x2c:8x8",
            "the block size '8x8' must have one number for each dimension of the grid '2x2c' but those of replicas, which",
        ),
        ("2x2:balanced@1,0", "the source process '1,0' must be 0 along a dimension of balanced blocks"),
        (
            "2x2:3,4x0",
            "the block size '3,4x0' must be whole numbers of at least 1 joined by 'x', one for each dimension, balanced",
        ),
        ("2x2:3,4,5x3", "the blocks '3,4,5' are also of process 2 along a dimension of 2"),
        ("2x2:3p0,4p2x3", "give a size for each process at most, or SIZEpPROCESS"),
        (f"2x2:{LARGE},4x3", f"the blocks '{LARGE},4' must be"),
        ("2x2:3,4x3@1,0", "the source process '1,0' must be 0 along a dimension of irregular blocks"),
        ("3c:2", "the grid '3c' has replicas only"),
        ("2x2x0c:3x3", "the number of replicas '0' must be whole numbers of at least 1"),
        ("2x2:3x3@1", "the source process '1' must have one number"),
        ("2x2:3x3@0,2", "the source process '0,2' is outside the grid '2x2'"),
        ("2x2:3x3+a", "the first rank 'a' must be a whole number of at least 0"),
        (f"{LARGE}x2:1x1", f"has {LARGE}, which must be at most 2**62"),
        ("2x2:3x3/9x9", "ends in '9x9': there are /MxN@IA,JA"),
        ("2x2:3x3/9@1,1", "the whole shape '9' must have one number for each dimension"),
        ("2x2:3x3/9x9@-1,1", "the sub-array's start '-1,1' must be whole numbers of at least 0"),
        ("3:tiles=5x7", "only pyscalapack-redist bench takes"),
    ],
)
def test_the_wrong_part_of_a_layout_is_named(text: str, said: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        LayoutText.parse_operand(text)
    assert said in str(caught.value)
    assert repr(text) in str(caught.value)
    with pytest.raises(DescriptorError):
        LayoutText.parse(text)


def test_a_grid_is_filled_by_rows_and_copies_are_along_dimensions_of_their_own() -> None:
    layout, grid = LayoutText.parse("2x3:4x4+5"), ProcessGrid((2, 3))
    assert [layout.coords(5 + rank) for rank in range(6)] == [grid.coords_of(rank) for rank in range(6)]
    assert layout.coords(4) is layout.coords(11) is None
    assert layout.descriptor((9, 9), None).grid.ranks.tolist() == [[5, 6, 7], [8, 9, 10]]
    copied = LayoutText.parse("2cx3x2:4x5+1")
    grid = ProcessGrid((2, 3, 2), ranks=1 + np.arange(12).reshape(2, 3, 2))
    assert copied.descriptor((30, 20), None) == Descriptor((30, 20), (4, 5), grid, axes=(1, 2))
    assert (copied.size, copied.end, copied.ndim) == (12, 13, 2)
    assert [copied.coords(rank) for rank in (0, 1, 4, 7, 10, 13)] == [None, (0, 0), (1, 1), (0, 0), (1, 1), None]


def test_balanced_and_irregular_blocks_are_those_of_the_descriptor() -> None:
    balanced = LayoutText.parse("3x2:balancedx4")
    assert balanced.descriptor((11, 20), None) == Descriptor((11, 20), ("balanced", 4), ProcessGrid((3, 2)))
    assert balanced.largest_part((11, 20)) == 4 * 12
    irregular = LayoutText.parse("3x2:9p2,4p0,7p2x4")
    blocks = Blocks([9, 4, 7], [2, 0, 2])
    assert irregular.descriptor((20, 8), None) == Descriptor((20, 8), (blocks, 4), ProcessGrid((3, 2)))
    assert irregular.largest_part((20, 8)) == 16 * 4
    with pytest.raises(DescriptorError, match="has blocks of 20 elements along dimension 0, which has 21"):
        Case((21, 8), irregular, irregular)


@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 5))
def test_the_largest_part_bounds_all_parts(n: int, block: int, processes: int) -> None:
    most = LayoutText((processes,), (block,), (0,)).largest_part((n,))
    held = max(map(len, deal(n, block, processes)))
    assert held <= most < held + block


def test_a_case_needs_the_ranks_of_both_layouts_and_room_for_sub_arrays() -> None:
    case = Case((8, 8), LayoutText.parse("2x2:1x1"), LayoutText.parse("1x3:1x1+4"))
    assert str(case) == "8 x 8 float64, 2x2:1x1 -> 1x3:1x1+4, 7 ranks"
    with pytest.raises(DescriptorError, match="2 dimensions and the shape"):
        Case((8,), case.before, case.after)
    Case((30, 20), WHOLE, LayoutText.parse_operand("1x1:1x1/40x20@10,0"))
    with pytest.raises(DescriptorError, match=r"no room for a sub-array of the shape \(30, 20\).*\(41, 20\)"):
        Case((30, 20), WHOLE, LayoutText.parse_operand("1x1:1x1/40x20@11,0"))


def test_dtypes_that_cannot_be_checked() -> None:
    for text in ("O", "quux", "V0", "f8,i4", "(2,)f8"):
        with pytest.raises(ValueError, match="give float64"):
            read_dtype(text)


# -- tiles

FILE = {"row_edges": [0, 2, 2, 5], "column_edges": [0, 1, 4], "owners": [[0, 2], [1, 1], [2, 0]]}


def written(folder: Path, content: object) -> str:
    file = folder / "tiles.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return f"tiles={file}"


def test_tiles_are_read_and_written() -> None:
    for text in ("3:tiles=5x7", "3:tiles=5x7@3+4", "tiles=a/b.json"):
        layout = read_side(text)
        assert isinstance(layout, TileLayout)
        assert str(layout) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tiles=5x7@3", "it must be PROCESSES:tiles=ROWSxCOLUMNS[@SEED][+FIRST]"),
        ("3:tiles=5x7/C", "without sub-array and order"),
        ("0:tiles=5x7", "must have at least 1 process"),
        ("3:tiles=1001x1000", "from 1 to 1000000 tiles"),
    ],
)
def test_what_is_wrong_with_tiles_is_said(text: str, said: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        read_side(text)
    assert said in str(caught.value)
    assert repr(text) in str(caught.value)


def test_a_seed_always_draws_the_same_tiles() -> None:
    """Written down, so that another version of Python that drew others would be seen."""
    tiles = read_side("3:tiles=3x4@7+1").descriptor((20, 30), None)
    assert isinstance(tiles, Tiles)
    assert tiles.row_edges.tolist() == [0, 3, 6, 20]
    assert tiles.column_edges.tolist() == [0, 2, 16, 20, 30]
    assert tiles.owners.tolist() == [[2, 1, 2, 1], [2, 1, 1, 2], [3, 1, 1, 2]]
    assert read_side("3:tiles=3x4@8+1").descriptor((20, 30), None) != tiles


@pytest.mark.parametrize("text", ["3:tiles=5x7@3+1", "FILE"])
def test_each_element_is_in_one_tile(tmp_path: Path, text: str) -> None:
    shape = (5, 4) if text == "FILE" else (23, 31)
    side = read_side(text if text != "FILE" else written(tmp_path, FILE))
    tiles = side.descriptor(shape, None)
    seen = np.full(shape, -1)
    for rank in range(side.end):
        for held in held_of(side, shape, rank):
            assert (seen[np.ix_(*held)] == -1).all()
            seen[np.ix_(*held)] = rank
    assert np.array_equal(seen, tiles.owner(*np.ix_(*map(np.arange, shape))))
    assert side.largest_part(shape) == np.bincount(seen.ravel()).max()


def test_a_file_is_read_when_it_is_needed_and_goes_along(tmp_path: Path) -> None:
    case = Case.read((5, 4), written(tmp_path, FILE), "1x2:5x2", "int8")
    (tmp_path / "tiles.json").unlink()
    assert (case.ranks, case.tiled, case.local_elements) == (3, "A", 11)
    there = pickle.loads(pickle.dumps(case))
    assert there == case
    tiles = there.before.descriptor((5, 4), None)
    assert tiles.owners.tolist() == FILE["owners"]
    owners = tiles.owner(*np.ix_(range(5), range(4)))
    owed = np.array([[np.count_nonzero(owners[:, 2 * q : 2 * q + 2] == p) for q in (0, 1, 2)] for p in (0, 1, 2)])
    np.fill_diagonal(owed, 0)
    assert np.array_equal(between_hosts(case, [0, 1, 2]), owed)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("{", "the file must be a JSON object with the entries row_edges, column_edges, owners"),
        ({**FILE, "more": 1}, "'more'"),
        ({**FILE, "row_edges": [0, 3, 2, 5]}, "in the file row_edges[2] = 2 is less than row_edges[1] = 3"),
        ({**FILE, "owners": [[0, -1], [1, 1], [1, 1]]}, "every rank must be at least 0"),
        ({**FILE, "row_edges": [0, 2, 2, 6]}, "cuts a matrix of 6 x 4: the shape (5, 4) must be that"),
    ],
)
def test_a_wrong_file_is_told(tmp_path: Path, content: object, said: str) -> None:
    text = f"tiles={tmp_path}/absent.json" if content is None else written(tmp_path, content)
    with pytest.raises(DescriptorError) as caught:
        Case.read((5, 4), text, "2x2:2x2")
    assert said in str(caught.value)
    assert text in str(caught.value)


def test_tiles_are_of_matrices_and_not_for_every_method() -> None:
    with pytest.raises(DescriptorError, match=r"of tiles of a matrix, and the shape \(5,\) has 1 dimension$"):
        Case.read((5,), "3:tiles=2x2", "3:2")
    case = Case.read((9, 9), "2x1:2x2", "3:tiles=2x2")
    assert read_method("auto").obstacle(case) is None
    for name in ("pxgemr2d", "gather-scatter", "mpi-waitall", "mpi-alltoallv", "bcast", "alltoall"):
        why = read_method(name).obstacle(case) or ""
        assert why.endswith("is for a local array on each process, and the layout of B is of tiles")
