"""`pyscalapack-redist bench` under mpiexec."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import launch
import pytest

pytestmark = pytest.mark.any_mpi
PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = ("-m", "pyscalapack_redist")
SMALL = ["--shape", "70", "50", "--from", "1x2:3x4@0,1", "--to", "2x1:5x7"]
long = pytest.mark.long


def bench(ranks: int, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return launch.run(PROGRAM, ranks, "bench", *arguments, **options)


def measured(file: Path, ranks: int, *arguments: object, **options: Any) -> tuple[str, dict[str, Any]]:
    """What is printed, and the one case in the JSON, verified."""
    done = bench(ranks, *arguments, "--json", file, **options)
    (case,) = json.loads(file.read_text())["cases"]
    assert all(method["verified"] is True for method in case["methods"])
    return done.stdout, case


def names(methods: list[dict[str, Any]]) -> list[str]:
    return [method["name"] for method in methods]


def test_methods_are_verified_and_in_the_json(tmp_path: Path) -> None:
    file, picture = tmp_path / "new.json", tmp_path / "bars.png"
    methods = "auto,natural/nonblocking,caterpillar/sendrecv,gather-scatter,memcpy"
    text, case = measured(file, 2, *SMALL, "--methods", methods, "--repeat", 3, "--plot", picture, "--profile")
    assert (case["shape"], case["from"], case["to"]) == ([70, 50], "1x2:3x4@0,1", "2x1:5x7")
    assert (case["dtype"], case["ranks"], case["not_run"]) == ("float64", 2, [])
    assert names(case["methods"]) == methods.split(",")
    assert all(len(method["seconds"]) == 3 and method["extra_bytes"] >= 0 for method in case["methods"])
    assert all(f"| {method} " in text for method in methods.split(","))
    environment = json.loads(file.read_text())["environment"]
    assert environment["node_of_rank"] == [0, 0]
    assert environment["flag_round_trip_ns"] > 1
    assert "flag round trip" in text
    assert "\x1b" not in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    auto, *_, memcpy = case["methods"]
    assert {"packed", "waited"} <= set(auto["profile"])
    assert all(len(seconds) == 2 for seconds in auto["profile"].values())
    assert "profile" not in memcpy
    assert sum("| auto " in line and "| packed " in line for line in text.splitlines()) == 1


@pytest.mark.parametrize(
    ("ranks", "arguments"),
    [
        (4, "--shape 40 30 --from 1x2:3x4/50x40@7,10 --to 2x1:5x7+2/41x35@0,4/C --dtype int8"),
        (4, "--shape 20 8 --from 2x1x2c:9p1,4p0,7p1x4 --to 2cx1x2:4x2"),
        pytest.param(4, "--shape 9 8 7 --from 2x1x2:2x3x4 --to 1x3x1:2x2x2+1 --dtype V24", marks=long),
        pytest.param(3, "--shape 0 30 --from 1x3:3x4 --to 2x1:5x7 --dtype complex64", marks=long),
    ],
)
def test_other_layouts_and_dtypes(tmp_path: Path, ranks: int, arguments: str) -> None:
    methods = "auto,caterpillar/sendrecv,pxgemr2d,gather-scatter,memcpy"
    words = arguments.split()
    text, case = measured(tmp_path / "new.json", ranks, *words, "--methods", methods, "--repeat", 2)
    assert [case["from"], case["to"]] == [words[words.index(side) + 1] for side in ("--from", "--to")]
    assert len(case["methods"]) + len(case["not_run"]) == 5
    assert text.count("case 1:") == 1  # one rank prints


def test_tiles_from_a_file_and_drawn(tmp_path: Path) -> None:
    edges = {"row_edges": [0, 13, 13, 40], "column_edges": [0, 9, 30], "owners": [[2, 0], [1, 1], [0, 2]]}
    (tmp_path / "tiles.json").write_text(json.dumps(edges))
    sides = ["--from", f"tiles={tmp_path}/tiles.json", "--to", "3:tiles=5x7@3"]
    methods = "auto,ring/sendrecv,caterpillar/windowed,pxgemr2d,gather-scatter,memcpy"
    words = ("--shape", "40x30", *sides, "--methods", methods, "--repeat", 1)
    text, case = measured(tmp_path / "new.json", 4, *words)
    assert [case["from"], case["to"], case["ranks"]] == [*sides[1::2], 3]
    assert names(case["methods"]) == ["auto", "ring/sendrecv", "caterpillar/windowed", "memcpy"]
    assert names(case["not_run"]) == ["pxgemr2d", "gather-scatter"]
    assert "pxgemr2d not run: pxgemr2d is for a local array on each process, and the layout of A is of tiles" in text


@pytest.mark.long
def test_a_suite_runs_the_cases_for_its_ranks() -> None:
    done = bench(8, "--suite", "facts", "--methods", "auto", "--repeat", 1, "--dtype", "int8")
    assert "suite facts: 1 of 13 cases are for 8 ranks" in done.stdout
    assert "mpiexec -n 2, 4 or 16" in done.stdout
    assert "4096 x 4096 int8, 2x4:64x64 -> 4x2:100x100" in done.stdout


def test_comparison_with_an_earlier_run(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    measured(old, 2, *SMALL, "--methods", "auto,memcpy", "--repeat", 1)
    content = json.loads(old.read_text())
    content["cases"][0]["methods"][0]["seconds"] = [1e-9]
    old.write_text(json.dumps(content))
    done = bench(2, *SMALL, "--methods", "auto,natural/nonblocking,memcpy", "--repeat", 1, "--compare", old)
    (row,) = [line for line in done.stdout.splitlines() if "70 x 50" in line and "| auto " in line]
    assert "slower" in row
    assert "only in this run" in done.stdout


def test_without_a_library_the_rest_goes_on(tmp_path: Path) -> None:
    nowhere = {"PYSCALAPACK_REDIST_LIBRARY": "/nowhere/libscalapack.so"}
    words = (*SMALL, "--repeat", 1, "--methods", "auto,pxgemr2d,pxgemr2d=/other.so:p_")
    text, case = measured(tmp_path / "new.json", 2, *words, env=nowhere)
    assert names(case["methods"]) == ["auto"]
    assert names(case["not_run"]) == ["pxgemr2d", "pxgemr2d=/other.so:p_"]
    assert "/nowhere/libscalapack.so" in case["not_run"][0]["why"]
    assert text.count("not run:") == 2


def test_gemr2d_moves_sub_arrays_and_leaves_c_order_to_others(tmp_path: Path) -> None:
    words = ("--shape", 70, 50, "--from", "1x2:3x4/90x60@7,10", "--repeat", 1, "--methods", "pxgemr2d,auto", "--to")
    _, case = measured(tmp_path / "new.json", 2, *words, "2x1:5x7/71x51@1,0")
    if case["not_run"]:
        pytest.skip(f"there is no ScaLAPACK: {case['not_run'][0]['why']}")
    assert names(case["methods"]) == ["pxgemr2d", "auto"]
    _, case = measured(tmp_path / "new.json", 2, *words, "2x1:5x7/C")
    assert names(case["methods"]) == ["auto"]
    assert "local arrays of B are in C order" in case["not_run"][0]["why"]


@pytest.mark.parametrize(
    ("ranks", "arguments", "said"),
    [
        (2, ["--shape", "9", "9", "--from", "2x2:1x1", "--to", "1x1:1x1"], "mpiexec -n 4 "),
        *(
            pytest.param(2, *row, marks=long)
            for row in (
                (["--suite", "facts", "--quick"], "--quick: the suite facts has no smaller cases"),
                (
                    ["--shape", "1e6", "1e6", "--from", "1x2:64x64", "--to", "2x1:64x64"],
                    "would take 14902.1 GiB of a node, more than its memory",
                ),
                ([*SMALL, "--json", "/nowhere/new.json"], "--json /nowhere/new.json"),
                ([*SMALL, "--compare", "/nowhere/old.json"], "--compare /nowhere/old.json"),
                ([*SMALL[:-1], "tiles=/nowhere/tiles.json"], "layout 'tiles=/nowhere/tiles.json': the file must be"),
            )
        ),
        pytest.param(3, ["--suite", "facts"], "2, 4, 8 or 16 ranks, none for 3", marks=long),
    ],
)
def test_bad_input_is_told_once_and_nothing_aborts(ranks: int, arguments: list[str], said: str) -> None:
    done = bench(ranks, *arguments, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count(said) == done.stderr.count("pyscalapack-redist: error:") == 1
    assert "abort" not in done.stderr.lower().replace("the job has been aborted", "")
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_where_no_method_runs_nothing_was_measured() -> None:
    done = bench(2, *SMALL, "--repeat", 1, "--methods", "pxgemr2d=/other.so", check=False)
    assert done.returncode == 1
    assert "NOTHING WAS MEASURED: no method ran" in done.stdout


@pytest.mark.long
def test_two_libraries_side_by_side(tmp_path: Path) -> None:
    """Each with contexts of its own: netlib's in use, and MKL, or another file with the same entry points."""
    file = tmp_path / "environment.json"
    measured(file, 1, "--shape", 3, 3, "--from", "1x1:1x1", "--to", "1x1:1x1", "--methods", "memcpy")
    library = json.loads(file.read_text())["environment"]["scalapack"]
    if library is None or library["vendor"] != "netlib":
        pytest.skip(f"for a second library beside netlib's ScaLAPACK; in use is {library}")
    files = [*Path(sys.prefix, "lib").glob("libmkl_scalapack_lp64.so*"), tmp_path / "another.so"]
    shutil.copy(library["path"], files[-1])
    methods, sequential = ["pxgemr2d", f"pxgemr2d={files[0]}", "auto"], {"MKL_THREADING_LAYER": "SEQUENTIAL"}
    _, case = measured(tmp_path / "new.json", 2, *SMALL, "--methods", ",".join(methods), "--repeat", 2, env=sequential)
    assert names(case["methods"]) == methods, case["not_run"]


def test_what_goes_wrong_is_seen() -> None:
    assert "OK" in launch.run(PROGRAMS / "bench_faults.py", 4).stdout
