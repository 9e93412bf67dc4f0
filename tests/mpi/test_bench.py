"""`pyscalapack-redist bench` under mpiexec."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import launch
import pytest

from pyscalapack_redist import Redistribution

pytestmark = pytest.mark.any_mpi
PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = ("-m", "pyscalapack_redist")
SMALL = ["--shape", "70", "50", "--from", "1x2:3x4@0,1", "--to", "2x1:5x7"]


def bench(ranks: int, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return launch.run(PROGRAM, ranks, "bench", *arguments, **options)


def measured(path: Path) -> dict[str, Any]:
    (case,) = json.loads(path.read_text())["cases"]
    return case  # type: ignore[no-any-return]


def test_all_methods_are_right_and_in_the_json(tmp_path: Path) -> None:
    file, picture = tmp_path / "new.json", tmp_path / "bars.png"
    methods = "auto,natural/nonblocking,caterpillar/sendrecv,gather-scatter,memcpy"
    done = bench(2, *SMALL, "--methods", methods, "--repeat", 3, "--json", file, "--plot", picture)
    case = measured(file)
    assert (case["shape"], case["from"], case["to"]) == ([70, 50], "1x2:3x4@0,1", "2x1:5x7")
    assert (case["dtype"], case["ranks"], case["not_run"]) == ("float64", 2, [])
    assert [method["name"] for method in case["methods"]] == methods.split(",")
    for method in case["methods"]:
        assert method["verified"] is True
        assert len(method["seconds"]) == 3
        assert min(method["seconds"]) == method["min"] <= method["median"]
        assert method["extra_bytes"] >= 0
        assert f"| {method['name']} " in done.stdout
    environment = json.loads(file.read_text())["environment"]
    assert environment["node_of_rank"] == [0, 0]
    assert environment["flag_round_trip_ns"] > 1
    assert "flag round trip" in done.stdout
    assert "\x1b" not in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_table_is_printed_once() -> None:
    done = bench(3, *SMALL, "--methods", "auto,memcpy", "--repeat", 1)
    assert done.stdout.count("| auto ") == 1
    assert done.stdout.count("case 1:") == 1


@pytest.mark.parametrize(
    ("ranks", "arguments"),
    [
        (4, ["--shape", "40", "30", "--from", "1x2:3x4", "--to", "2x1:5x7+2", "--dtype", "int8"]),
        (4, ["--shape", "9", "8", "7", "--from", "2x1x2:2x3x4", "--to", "1x3x1:2x2x2+1", "--dtype", "V24"]),
        (3, ["--shape", "40", "30", "--from", "1x3:3x4/50x40@7,10", "--to", "2x1:5x7+1/41x35@0,4"]),
        (4, ["--shape", "40", "30", "--from", "2x2:3x4@1,0/C", "--to", "1x3:5x7/41x35@1,0/C", "--dtype", "float32"]),
        (3, ["--shape", "0", "30", "--from", "1x3:3x4", "--to", "2x1:5x7", "--dtype", "complex64"]),
        (3, ["--shape", "50", "--from", "3:1", "--to", "2:7@1", "--dtype", "bool"]),
        (4, ["--shape", "20", "8", "--from", "2x1x2c:9p1,4p0,7p1x4", "--to", "2cx1x2:4x2"]),
    ],
)
def test_other_layouts_and_dtypes(tmp_path: Path, ranks: int, arguments: list[str]) -> None:
    methods = "auto,caterpillar/sendrecv,pxgemr2d,gather-scatter,memcpy"
    bench(ranks, *arguments, "--methods", methods, "--repeat", 2, "--json", tmp_path / "new.json")
    case = measured(tmp_path / "new.json")
    assert [case["from"], case["to"]] == [arguments[arguments.index(side) + 1] for side in ("--from", "--to")]
    assert len(case["methods"]) + len(case["not_run"]) == 5
    assert all(method["verified"] for method in case["methods"])


def test_tiles_from_a_file_and_drawn(tmp_path: Path) -> None:
    edges = {"row_edges": [0, 13, 13, 40], "column_edges": [0, 9, 30], "owners": [[2, 0], [1, 1], [0, 2]]}
    (tmp_path / "tiles.json").write_text(json.dumps(edges))
    sides, new = ["--from", f"tiles={tmp_path}/tiles.json", "--to", "3:tiles=5x7@3"], tmp_path / "new.json"
    methods = ["auto", "ring/sendrecv", "caterpillar/windowed", "pxgemr2d", "gather-scatter", "memcpy"]
    done = bench(3, "--shape", "40x30", *sides, "--methods", ",".join(methods), "--repeat", 1, "--json", new)
    case = measured(new)
    assert [case["from"], case["to"], case["ranks"]] == [*sides[1::2], 3]
    assert [method["name"] for method in case["methods"]] == ["auto", "ring/sendrecv", "caterpillar/windowed", "memcpy"]
    assert all(method["verified"] for method in case["methods"])
    assert [missing["name"] for missing in case["not_run"]] == ["pxgemr2d", "gather-scatter"]
    assert (
        "pxgemr2d not run: p?gemr2d is for a local array on each process, and the layout of A is of tiles"
        in done.stdout
    )


def test_a_suite_runs_the_cases_for_its_ranks() -> None:
    done = bench(8, "--suite", "facts", "--methods", "auto", "--repeat", 1, "--dtype", "int8")
    assert "suite facts: 1 of 13 cases are for 8 ranks" in done.stdout
    assert "mpiexec -n 2, 4 or 16" in done.stdout
    assert "4096 x 4096 int8, 2x4:64x64 -> 4x2:100x100" in done.stdout


def test_comparison_with_an_earlier_run(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    bench(2, *SMALL, "--methods", "auto,memcpy", "--repeat", 1, "--json", old)
    content = json.loads(old.read_text())
    for method in content["cases"][0]["methods"]:
        if method["name"] == "auto":
            method["seconds"] = [1e-9]
    old.write_text(json.dumps(content))
    done = bench(2, *SMALL, "--methods", "auto,natural/nonblocking,memcpy", "--repeat", 1, "--compare", old)
    (row,) = [line for line in done.stdout.splitlines() if "70 x 50" in line and "| auto " in line]
    assert "slower" in row
    assert "only in this run" in done.stdout


def test_without_a_library_the_rest_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "new.json"
    nowhere = {"PYSCALAPACK_REDIST_LIBRARY": "/nowhere/libscalapack.so"}
    done = bench(
        2, *SMALL, "--repeat", 1, "--json", file, "--methods", "auto,pxgemr2d,pxgemr2d=/other.so:p_", env=nowhere
    )
    case = measured(file)
    assert [method["name"] for method in case["methods"]] == ["auto"]
    assert [missing["name"] for missing in case["not_run"]] == ["pxgemr2d", "pxgemr2d=/other.so:p_"]
    assert "/nowhere/libscalapack.so" in case["not_run"][0]["why"]
    assert done.stdout.count("not run:") == 2
    nothing = bench(2, *SMALL, "--repeat", 1, "--methods", "pxgemr2d=/other.so", check=False)
    assert nothing.returncode == 1
    assert "Remedy: name the file of a ScaLAPACK" in nothing.stdout
    assert "NOTHING WAS MEASURED: no method ran" in nothing.stdout


@pytest.mark.parametrize(
    ("ranks", "arguments", "said"),
    [
        (2, ["--shape", "9", "9", "--from", "2x2:1x1", "--to", "1x1:1x1"], "mpiexec -n 4 "),
        (3, ["--suite", "facts"], "2, 4, 8 or 16 ranks, none for 3"),
        (
            2,
            ["--shape", "1e6", "1e6", "--from", "1x2:64x64", "--to", "2x1:64x64"],
            "would take 14902.1 GiB of a node, more than its memory",
        ),
        (2, [*SMALL, "--repeat", "none"], "argument --repeat: 'none'"),
        (2, [*SMALL, "--json", "/nowhere/new.json"], "--json /nowhere/new.json"),
        (2, [*SMALL, "--plot", "bars.xyz"], "--plot bars.xyz"),
        (2, [*SMALL, "--compare", "/nowhere/old.json"], "--compare /nowhere/old.json"),
        (2, [*SMALL[:-2], "--to", "tiles=/nowhere/tiles.json"], "layout 'tiles=/nowhere/tiles.json': the file must be"),
    ],
)
def test_bad_input_is_told_once_and_nothing_aborts(ranks: int, arguments: list[str], said: str) -> None:
    done = bench(ranks, *arguments, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count(said) == done.stderr.count("pyscalapack-redist: error:") == 1
    assert "abort" not in done.stderr.lower().replace("the job has been aborted", "")
    assert "Traceback" not in done.stderr


def test_gemr2d_moves_sub_arrays_and_leaves_c_order_to_others(tmp_path: Path) -> None:
    file = tmp_path / "new.json"
    sides = ["--from", "1x2:3x4/90x60@7,10", "--to"]
    bench(2, "--shape", 70, 50, *sides, "2x1:5x7/71x51@1,0", "--methods", "pxgemr2d", "--repeat", 1, "--json", file)
    case = measured(file)
    if case["not_run"]:
        pytest.skip(f"there is no ScaLAPACK: {case['not_run'][0]['why']}")
    assert [method["verified"] for method in case["methods"]] == [True]
    bench(2, "--shape", 70, 50, *sides, "2x1:5x7/C", "--methods", "pxgemr2d,auto", "--repeat", 1, "--json", file)
    case = measured(file)
    assert [method["name"] for method in case["methods"]] == ["auto"]
    assert "local arrays of B are in C order" in case["not_run"][0]["why"]


def library_in_use(tmp_path: Path) -> Path:
    file = tmp_path / "environment.json"
    bench(1, "--shape", 3, 3, "--from", "1x1:1x1", "--to", "1x1:1x1", "--methods", "memcpy", "--json", file)
    found = json.loads(file.read_text())["environment"]["scalapack"]
    if found is None or found["vendor"] != "netlib":
        pytest.skip(f"for a second library beside netlib's ScaLAPACK; in use is {found}")
    return Path(found["path"])


def test_two_libraries_side_by_side(tmp_path: Path) -> None:
    """Each with contexts of its own: the one in use and another file with the same entry points."""
    other = tmp_path / "another.so"
    shutil.copy(library_in_use(tmp_path), other)
    assert_side_by_side(tmp_path, other)


def test_netlib_and_mkl_side_by_side(tmp_path: Path) -> None:
    library_in_use(tmp_path)
    roots = [sys.prefix, os.environ.get("MKLROOT", "")]
    found = [file for root in roots if root for file in Path(root, "lib").glob("libmkl_scalapack_lp64.so*")]
    if not found:
        pytest.skip("no MKL in this environment or in MKLROOT: `pip install mkl` to run this")
    assert_side_by_side(tmp_path, found[0])


def assert_side_by_side(tmp_path: Path, other: Path) -> None:
    methods, file = ["pxgemr2d", f"pxgemr2d={other}", "auto"], tmp_path / "new.json"
    sequential = {"MKL_THREADING_LAYER": "SEQUENTIAL"}
    bench(2, *SMALL, "--methods", ",".join(methods), "--repeat", 2, "--json", file, env=sequential)
    case = measured(file)
    assert [method["name"] for method in case["methods"]] == methods, case["not_run"]
    assert all(method["verified"] for method in case["methods"])


def test_a_profile_says_where_time_went(tmp_path: Path) -> None:
    options = [*SMALL, "--methods", "auto,memcpy", "--repeat", 1, "--profile", "--json", tmp_path / "new.json"]
    done = bench(2, *options, check=False)
    if not hasattr(Redistribution, "profile"):
        assert done.returncode == 2
        assert done.stderr.count("--profile: plans of this version cannot tell") == 1
        return
    assert done.returncode == 0, done.stderr
    auto, memcpy = measured(tmp_path / "new.json")["methods"]
    assert {"packed", "waited"} <= set(auto["profile"])
    assert all(len(seconds) == 2 and min(seconds) >= 0 for seconds in auto["profile"].values())
    assert "profile" not in memcpy
    assert "where the time of a call went in case 1" in done.stdout
    assert sum("| auto " in line and "| packed " in line for line in done.stdout.splitlines()) == 1


@pytest.mark.parametrize("ranks", [4, 5])
def test_what_goes_wrong_is_seen(ranks: int) -> None:
    assert "OK" in launch.run(PROGRAMS / "bench_faults.py", ranks).stdout
