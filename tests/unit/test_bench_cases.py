"""The benchmark's own parts, without MPI: layouts as text, suites, the arithmetic that verifies, results and their tables."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracle import deal

from pyscalapack_redist import Blocks, Descriptor, DescriptorError, ProcessGrid
from pyscalapack_redist.tools.bench.benchmark import calls_per_time
from pyscalapack_redist.tools.bench.methods import read_method
from pyscalapack_redist.tools.bench.plot import plot
from pyscalapack_redist.tools.bench.results import CaseResult, MethodResult, Results
from pyscalapack_redist.tools.bench.stage import Part, values
from pyscalapack_redist.tools.bench.suites import SUITES
from pyscalapack_redist.tools.bench.tables import (
    case_lines,
    case_table,
    changes,
    comparison_lines,
    comparison_table,
    environment_lines,
)
from pyscalapack_redist.tools.cases import Case, read_dtype
from pyscalapack_redist.tools.layouts import Layout, global_indices
from pyscalapack_redist.tools.text import console, print_table, ratio_text, size_text, time_text

# -- layouts


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("2x4:64x64", Layout((2, 4), (64, 64), (0, 0), 0)),
        ("4x2:32x100+8", Layout((4, 2), (32, 100), (0, 0), 8)),
        ("4x2:32x100@3,1+8", Layout((4, 2), (32, 100), (3, 1), 8)),
        ("1x1x4:8x7x6@0,0,2", Layout((1, 1, 4), (8, 7, 6), (0, 0, 2), 0)),
        ("3:5", Layout((3,), (5,), (0,), 0)),
        ("4x2:balanced", Layout((4, 2), ("balanced", "balanced"), (0, 0))),
        ("4x2:32xbalanced@3,0+8", Layout((4, 2), (32, "balanced"), (3, 0), 8)),
        ("3x2:9p2,4p0,7p2x32@0,1", Layout((3, 2), (Blocks([9, 4, 7], [2, 0, 2]), 32), (0, 1))),
        ("2x2x3c:64x64", Layout((2, 2), (64, 64), (0, 0), copied=((2, 3),))),
        ("2cx4x3cx2:8x5p1,6p0+4", Layout((4, 2), (8, Blocks([5, 6], [1, 0])), (0, 0), 4, copied=((0, 2), (2, 3)))),
    ],
)
def test_layouts_are_read_and_written(text: str, layout: Layout) -> None:
    assert Layout.parse(text) == layout
    assert str(layout) == text


def test_what_is_the_default_is_not_written() -> None:
    assert str(Layout.parse("2x4:64x64@0,0+0")) == "2x4:64x64"
    assert str(Layout.parse("3x1:9,0,4x5")) == "3x1:9p0,4p2x5"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2x4", "has no block size"),
        ("2xa:1x1", "the grid '2xa' must be whole numbers of at least 1"),
        ("0x2:1x1", "the grid '0x2'"),
        ("2x2:1x0", "the block size '1x0'"),
        ("2x2:-1x1", "the block size '-1x1'"),
        ("2x2:3", "the block size '3' must have one number for each dimension of the grid '2x2'"),
        ("2x2:balancex1", "the block size 'balancex1'"),
        ("2x2:balancedx3x3", "the block size 'balancedx3x3' must have one number for each dimension of the grid '2x2'"),
        ("2x2:balanced@1,0", "the source process '1,0' must be 0 along a dimension of balanced blocks"),
        (
            "2x2:3,4x0",
            "the block size '3,4x0' must be whole numbers of at least 1 joined by 'x', one for each dimension, balanced",
        ),
        ("2x2:3q1x3", "or the sizes of all blocks, as 9,4,7 or 9p2,4p0,7p2"),
        ("2x2:3,4,5x3", "the blocks '3,4,5' are also of process 2 along a dimension of 2"),
        ("2x2:3p0,4p2x3", "give a size for each process at most, or SIZEpPROCESS"),
        ("2x2:99999999999999999999,4x3", "the blocks '99999999999999999999,4' must be"),
        ("2x2:3,4x3@1,0", "the source process '1,0' must be 0 along a dimension of irregular blocks"),
        ("3c:2", "the grid '3c' has copies only"),
        ("2x2x0c:3x3", "the number of copies '0' must be whole numbers of at least 1"),
        ("2x2xc:3x3", "the number of copies ''"),
        ("2x2x3c:3x3x3", "the block size '3x3x3' must have one number for each dimension of the grid '2x2'"),
        ("2x2:3x3@1", "the source process '1' must have one number"),
        ("2x2:3x3@0,2", "the source process '0,2' is outside the grid '2x2'"),
        ("2x2:3x3+a", "the first rank 'a' must be a whole number of at least 0"),
        ("2x2:3x3+", "the first rank ''"),
        (f"{10**20}x2:1x1", f"has {10**20}, which must be at most 2**62"),
        (f"2x2:{10**20}x1", f"the block size '{10**20}x1' has {10**20}, which"),
        (f"2x2:3x3+{10**20}", "must be at most 2**62"),
        ("", "has no block size"),
    ],
)
def test_the_wrong_part_of_a_layout_is_named(text: str, said: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        Layout.parse(text)
    assert said in str(caught.value)
    assert repr(text) in str(caught.value)


def test_coordinates_are_those_of_a_grid_filled_by_rows() -> None:
    layout = Layout.parse("2x3:4x4+5")
    grid = ProcessGrid((2, 3))
    assert [layout.coords(5 + rank) for rank in range(6)] == [grid.coords_of(rank) for rank in range(6)]
    assert layout.coords(4) is layout.coords(11) is None
    assert layout.descriptor((9, 9), None).grid.ranks.tolist() == [[5, 6, 7], [8, 9, 10]]


@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 5))
def test_the_largest_part_bounds_all_parts(n: int, block: int, processes: int) -> None:
    most = Layout((processes,), (block,), (0,)).largest_part((n,))
    held = max(map(len, deal(n, block, processes)))
    assert held <= most < held + block


def test_balanced_blocks() -> None:
    layout = Layout.parse("3x2:balancedx4")
    desc = layout.descriptor((11, 20), None)
    assert desc == Descriptor((11, 20), ("balanced", 4), ProcessGrid((3, 2)))
    assert layout.largest_part((11, 20)) == 4 * 12
    assert [global_indices(11, "balanced", 3, 0, p).tolist() for p in range(3)] == [
        axis.tolist() for axis in np.array_split(np.arange(11), 3)
    ]


def test_irregular_blocks() -> None:
    layout = Layout.parse("3x2:9p2,4p0,7p2x4")
    desc = layout.descriptor((20, 8), None)
    blocks = Blocks([9, 4, 7], [2, 0, 2])
    assert desc == Descriptor((20, 8), (blocks, 4), ProcessGrid((3, 2)))
    assert layout.largest_part((20, 8)) == 16 * 4
    assert [global_indices(20, blocks, 3, 0, p).tolist() for p in range(3)] == [
        [*range(9, 13)],
        [],
        [*range(9), *range(13, 20)],
    ]
    with pytest.raises(DescriptorError, match="has blocks of 20 elements along dimension 0, which has 21"):
        Case((21, 8), layout, layout)


def test_copies() -> None:
    layout = Layout.parse("2cx3x2:4x5+1")
    grid = ProcessGrid((2, 3, 2), ranks=1 + np.arange(12).reshape(2, 3, 2))
    assert layout.descriptor((30, 20), None) == Descriptor((30, 20), (4, 5), grid, axes=(1, 2))
    assert (layout.size, layout.end, layout.ndim) == (12, 13, 2)
    assert [layout.coords(rank) for rank in (0, 1, 4, 7, 10, 13)] == [None, (0, 0), (1, 1), (0, 0), (1, 1), None]


# -- cases and suites


def test_a_case_needs_the_ranks_of_both_layouts() -> None:
    case = Case((8, 8), Layout.parse("2x2:1x1"), Layout.parse("1x3:1x1+4"))
    assert case.ranks == 7
    assert str(case) == "8 x 8 float64, 2x2:1x1 -> 1x3:1x1+4, 7 ranks"
    with pytest.raises(DescriptorError, match="2 dimensions and the shape"):
        Case((8,), case.before, case.after)


def test_suites() -> None:
    assert {case.ranks for case in SUITES["demo"].cases} == {2}
    facts = SUITES["facts"].cases
    assert len(set(facts)) == len(facts) == 13
    assert sorted(case.ranks for case in facts) == [2] * 8 + [4] * 2 + [8] + [16] * 2


@pytest.mark.parametrize("text", ["O", "quux", "V0", "f8,i4", "(2,)f8"])
def test_dtypes_that_cannot_be_checked(text: str) -> None:
    with pytest.raises(ValueError, match="give float64"):
        read_dtype(text)


def test_short_calls_are_timed_together() -> None:
    layouts = Layout.parse("1x2:64x64"), Layout.parse("2x1:64x64")
    assert calls_per_time(Case((64, 64), *layouts)) == 32
    assert calls_per_time(Case((4096, 4096), *layouts)) == 1
    assert calls_per_time(Case((0, 0), *layouts)) == 64


@pytest.mark.parametrize(
    "name",
    [
        "auto",
        "caterpillar/sendrecv",
        "auto/nonblocking",
        "optimal/sendrecv/datatypes",
        "pxgemr2d",
        "pxgemr2d=/a/b.so:x_",
        "gather-scatter",
        "mpi-waitall",
        "mpi-alltoallv",
    ],
)
def test_methods_are_known_by_their_names(name: str) -> None:
    assert read_method(name).name == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x", "unknown method 'x'"),
        ("x/sendrecv", "schedule 'x'"),
        ("auto/x", "'x'"),
        ("auto/sendrecv/x", "buffers 'x'"),
        ("a/b/c/d", "'a/b/c/d'"),
    ],
)
def test_unknown_methods(name: str, said: str) -> None:
    with pytest.raises(ValueError, match="there are") as caught:
        read_method(name)
    assert said in str(caught.value)


# -- the arithmetic that verifies


@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 5), st.data())
def test_indices_are_those_of_dealing(n: int, block: int, processes: int, data: st.DataObject) -> None:
    source = data.draw(st.integers(0, processes - 1))
    held = deal(n, block, processes, source)
    assert [global_indices(n, block, processes, source, p).tolist() for p in range(processes)] == held


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "longdouble", "complex64", "int8", "?", "V3", "V24", "S5"]
)
def test_elements_differ_from_their_neighbours(dtype: str) -> None:
    shape = (64, 256)
    made = values(np.arange(shape[0] * shape[1]), shape[0] * shape[1], np.dtype(dtype)).reshape(shape)
    assert made.dtype == dtype
    for axis in range(2):
        rolled = np.roll(made, 1, axis)
        assert np.mean([x.tobytes() != y.tobytes() for x, y in zip(made.flat, rolled.flat, strict=True)]) > 0.3


def test_elements_are_their_own_index_where_the_dtype_has_room() -> None:
    index = np.arange(12)
    for dtype in ("float64", "int64", "float32"):
        assert values(index, 12, np.dtype(dtype)).tolist() == index.tolist()


def part(dtype: str = "float64") -> tuple[Part, NDArray[Any]]:
    case = Case((50, 40), Layout.parse("2x2:3x4@1,0+1"), Layout.parse("1x1:1x1"), np.dtype(dtype))
    made = Part(case, case.before, 2)
    filled = made.filled()
    assert filled is not None
    return made, filled


@pytest.mark.parametrize("dtype", ["float64", "complex128", "int8", "V24"])
def test_a_part_has_the_right_elements(dtype: str) -> None:
    mine, filled = part(dtype)
    rows, columns = deal(50, 3, 2, 1)[0], deal(40, 4, 2, 0)[1]
    whole = values(np.arange(2000), 2000, np.dtype(dtype)).reshape(50, 40)
    assert filled.tobytes("F") == whole[np.ix_(rows, columns)].tobytes("F")
    assert mine.matches(filled)


def test_wrong_elements_are_found() -> None:
    mine, filled = part()
    for wrong in (filled[::-1], np.roll(filled, 1, 1), filled + 0.5, filled[:-1], filled.astype(np.float32), None):
        assert not mine.matches(wrong)
    filled[0, 0], filled[-1, -1] = filled[-1, -1], filled[0, 0]
    assert not mine.matches(filled)


def test_a_rank_outside_has_no_part() -> None:
    case = Case((5, 5), Layout.parse("2x2:3x4+1"), Layout.parse("1x1:1x1"))
    outside = Part(case, case.before, 0)
    assert outside.filled() is None
    assert outside.matches(None)
    assert not outside.matches(np.empty((0, 0)))


# -- results


def results(factor: float = 1.0, methods: tuple[str, ...] = ("auto", "pxgemr2d", "memcpy")) -> Results:
    case = SUITES["demo"].cases[0]
    seconds = {"auto": 0.02 * factor, "pxgemr2d": 0.09, "memcpy": 0.01}
    done = [MethodResult(name, (seconds[name], 1.5 * seconds[name], 9.0), 2**24, True) for name in methods]
    environment = {
        "ranks": 2,
        "cores": 2,
        "processor": "a processor",
        "node_of_rank": [0, 0],
        "scalapack": None,
        "flag_round_trip_ns": 123.4,
        "mpi": "an MPI",
        "time": "the time",
        "plans": "reused",
        **dict.fromkeys(("pyscalapack_redist", "python", "numpy", "mpi4py"), "1"),
    }
    return Results(environment, (CaseResult(case, tuple(done), {"natural/sendrecv": "no\nmore"}),))


def test_json_has_the_documented_form_and_is_read_back() -> None:
    text = results().to_json()
    (case,) = json.loads(text)["cases"]
    assert {"shape", "from", "to", "dtype", "ranks", "methods"} <= set(case)
    assert (case["shape"], case["from"], case["to"]) == ([4096, 4096], "1x2:64x64", "2x1:64x64")
    assert (case["dtype"], case["ranks"]) == ("float64", 2)
    assert case["methods"][0] == {
        "name": "auto",
        "seconds": [0.02, 0.03, 9.0],
        "min": 0.02,
        "median": 0.03,
        "extra_bytes": 2**24,
        "verified": True,
    }
    assert Results.from_json(text) == results()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"environment": {}, "cases": [3]}', '{"environment": 1, "cases": []}']
)
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Results.from_json(text)


def shown(table: Any) -> str:
    out = console()
    with out.capture() as text:
        print_table(out, table)
    return text.get()


def test_the_table_of_a_case() -> None:
    case = results().cases[0]
    table = shown(case_table(case))
    rows = {line.split("|")[1].strip(): line for line in table.splitlines()}
    assert "2.00 / 2.00" in rows["auto"]
    assert "4.50 / 4.50" in rows["auto"]
    assert "16.0 MiB" in rows["auto"]
    assert "9.00 / 9.00" in rows["pxgemr2d"]
    assert "\x1b" not in table
    assert list(case_lines(case)) == ["natural/sendrecv not run: no (`pyscalapack-redist info` says more)"]
    assert any("123 ns" in line for line in environment_lines(results().environment))


def test_a_wrong_result_stands_out() -> None:
    case = results().cases[0]
    wrong = dataclasses.replace(case.methods[0], verified=False)
    case = dataclasses.replace(case, methods=(wrong, *case.methods[1:]))
    assert not case.verified
    assert "NO" in shown(case_table(case))


def test_comparison_is_relative_to_memcpy() -> None:
    slower = changes(results(), results(2.0))
    assert [(change.method, change.verdict) for change in slower] == [("auto", "slower"), ("pxgemr2d", "same")]
    assert slower[0].factor == pytest.approx(2)
    assert changes(results(2.0), results())[-1].verdict == "faster"
    alone = changes(results(methods=("auto",)), results(3.0, ("auto",)))
    assert alone[0].new_to_memcpy is None
    assert alone[0].factor == pytest.approx(3)
    assert "slower" in shown(comparison_table(slower))


def test_comparison_says_what_is_missing() -> None:
    lines = list(comparison_lines(results(methods=("auto", "memcpy")), results(methods=("pxgemr2d", "memcpy"))))
    assert any(line.startswith("only in the earlier run") and line.endswith("auto") for line in lines)
    assert any(line.startswith("only in this run") and line.endswith("pxgemr2d") for line in lines)


def test_figures() -> None:
    assert [time_text(t) for t in (2.5e-7, 9.996e-6, 1.12e-3, 0.9996, 12.3)] == [
        "0.25 us",
        "10.0 us",
        "1.12 ms",
        "1.00 s",
        "12.3 s",
    ]
    assert [size_text(n) for n in (None, 12, 2**20, 3 * 2**29)] == ["?", "12 B", "1.0 MiB", "1.5 GiB"]
    assert [ratio_text(r) for r in (None, 1.05, 12.34, 100.2)] == ["-", "1.05", "12.3", "100"]


@pytest.mark.parametrize("methods", [("auto", "pxgemr2d", "memcpy"), ("memcpy",), ()])
def test_plot(tmp_path: Path, methods: tuple[str, ...]) -> None:
    plot(results(methods=methods), str(tmp_path / "bars.png"))
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")
