"""Tiles in the notation of the command line: read, drawn by a seed, read from a file, and where they are refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from pyscalapack_redist import DescriptorError, Tiles
from pyscalapack_redist.tools.bench.environment import between_hosts
from pyscalapack_redist.tools.bench.methods import read_method
from pyscalapack_redist.tools.cases import Case, read_side
from pyscalapack_redist.tools.layouts import Layout
from pyscalapack_redist.tools.tile_layouts import TileLayout

FILE = {"row_edges": [0, 2, 2, 5], "column_edges": [0, 1, 4], "owners": [[0, 2], [1, 1], [2, 0]]}
SEEN = ([0, 3, 6, 20], [0, 2, 16, 20, 30], [[2, 1, 2, 1], [2, 1, 1, 2], [3, 1, 1, 2]])


@pytest.mark.parametrize("text", ["3:tiles=5x7", "3:tiles=5x7@3", "1:tiles=1x1+2", "3:tiles=5x7@3+4", "tiles=a/b.json"])
def test_tiles_are_read_and_written(text: str) -> None:
    layout = read_side(text)
    assert isinstance(layout, TileLayout)
    assert str(layout) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tiles=5x7@3", "it must be PROCESSES:tiles=ROWSxCOLUMNS[@SEED][+FIRST]"),
        ("2x2:tiles=5x7", "or tiles=FILE.json"),
        ("3:tiles=5", "it must be PROCESSES"),
        ("3:tiles=5x7@a", "it must be PROCESSES"),
        ("3:tiles=5x7/C", "without sub-array and order"),
        ("3:tiles=a.json", "it must be PROCESSES"),
        ("0:tiles=5x7", "must have at least 1 process"),
        ("3:tiles=0x7", "from 1 to 1000000 tiles"),
        ("3:tiles=1001x1000", "from 1 to 1000000 tiles"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        read_side(text)
    assert said in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("read", [Layout.parse, Layout.parse_operand])
@pytest.mark.parametrize("text", ["3:tiles=5x7", "tiles=a/b.json"])
def test_others_than_bench_say_what_can_be_done(read: object, text: str) -> None:
    with pytest.raises(DescriptorError, match="only bench takes") as caught:
        read(text)  # type: ignore[operator]
    assert repr(text) in str(caught.value)
    assert "Tiles(...).owner(i, j)" in str(caught.value)


def test_a_seed_always_draws_the_same_tiles() -> None:
    """Written down, so that another version of Python that drew others would be seen."""
    tiles = read_side("3:tiles=3x4@7+1").descriptor((20, 30), None)
    assert isinstance(tiles, Tiles)
    assert tiles.row_edges.tolist() == SEEN[0]
    assert tiles.column_edges.tolist() == SEEN[1]
    assert tiles.owners.tolist() == SEEN[2]
    assert read_side("3:tiles=3x4@8+1").descriptor((20, 30), None) != tiles


@pytest.mark.parametrize("text", ["3:tiles=5x7@3+1", "FILE"])
def test_each_element_is_in_one_tile(tmp_path: Path, text: str) -> None:
    shape = (5, 4) if text == "FILE" else (23, 31)
    side = read_side(text if text != "FILE" else written(tmp_path, FILE))
    tiles = side.descriptor(shape, None)
    seen = np.full(shape, -1)
    for rank in range(side.end):
        for held in side.indices(shape, rank):
            assert (seen[np.ix_(*held)] == -1).all()
            seen[np.ix_(*held)] = rank
    assert np.array_equal(seen, tiles.owner(*np.ix_(*map(np.arange, shape))))
    assert side.largest_part(shape) == np.bincount(seen.ravel()).max()


def written(folder: Path, content: object) -> str:
    file = folder / "tiles.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return f"tiles={file}"


def test_a_file_is_read_when_it_is_needed_and_goes_along(tmp_path: Path) -> None:
    text = written(tmp_path, FILE)
    case = Case.read((5, 4), text, "2x2:2x2")
    assert (case.ranks, case.tiled, case.local_elements) == (4, "A", 11)
    (tmp_path / "tiles.json").unlink()
    there = pickle.loads(pickle.dumps(case))
    assert there == case
    assert there.before.descriptor((5, 4), None).owners.tolist() == FILE["owners"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("{", "the file must be a JSON object with the entries row_edges, column_edges, owners"),
        ([1], "it has list"),
        ({"row_edges": [0, 5]}, "it has ['row_edges']"),
        ({**FILE, "more": 1}, "'more'"),
        ({**FILE, "row_edges": [0, 3, 2, 5]}, "in the file row_edges[2] = 2 is less than row_edges[1] = 3"),
        ({**FILE, "owners": [[0, 1]]}, "in the file owners has shape (1, 2)"),
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


def test_tiles_are_of_matrices() -> None:
    with pytest.raises(DescriptorError, match=r"of tiles of a matrix, and the shape \(5,\) has 1 dimension$"):
        Case.read((5,), "3:tiles=2x2", "3:2")


@pytest.mark.parametrize("name", ["pxgemr2d", "gather-scatter", "mpi-waitall", "mpi-alltoallv", "bcast", "alltoall"])
def test_methods_for_one_local_array_say_so(name: str) -> None:
    why = read_method(name).obstacle(Case.read((9, 9), "2x1:2x2", "3:tiles=2x2"))
    assert why is not None
    assert why.endswith("is for a local array on each process, and the layout of B is of tiles")
    assert read_method("auto").obstacle(Case.read((9, 9), "2x1:2x2", "3:tiles=2x2")) is None


def test_bytes_between_hosts(tmp_path: Path) -> None:
    case = Case.read((5, 4), written(tmp_path, FILE), "1x2:5x2", "int8")
    owners = case.before.descriptor((5, 4), None).owner(*np.ix_(range(5), range(4)))
    owed = np.array([[np.count_nonzero(owners[:, 2 * q : 2 * q + 2] == p) for q in (0, 1, 2)] for p in (0, 1, 2)])
    np.fill_diagonal(owed, 0)
    assert np.array_equal(between_hosts(case, [0, 1, 2]), owed)
