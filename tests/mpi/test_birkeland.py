"""The suite birkeland of benchmarks/run_suites.py with a few small cases: every method goes the same way and ends right."""

from __future__ import annotations

import json
from pathlib import Path

import launch
import pytest
from papers.birkeland_projection import WAYS

pytestmark = pytest.mark.any_mpi
PROGRAM = (str(Path(__file__).parents[2] / "benchmarks/run_suites.py"),)


@pytest.mark.parametrize(("ranks", "grids"), [(1, ["1x1x1"]), (2, ["2x1x1"]), (6, ["6x1x1", "3x2x1"])])
def test_the_suite(tmp_path: Path, ranks: int, grids: list[str]) -> None:
    file, picture = tmp_path / "suite.json", tmp_path / "suite.png"
    words = ["--suite", "birkeland", "--quick", "--repeat", 2, "--json", file, "--plot", picture]
    text = launch.run(PROGRAM, ranks, *words).stdout
    cases = json.loads(file.read_text())["cases"]
    assert list(dict.fromkeys(case["from"].split(":")[0] for case in cases)) == grids
    for case in cases:
        names = {method["name"] for method in case["methods"]}
        assert {"sweep", "sweep/alltoallw/datatypes", "subarrays/alltoallw", "memcpy"} <= names
        assert all(method["verified"] for method in case["methods"])
        assert {missing["name"] for missing in case["not_run"]} <= {"mpi4py-fft"}
    assert "times as fast as subarrays/alltoallw" in text
    assert ("t_s, start-up of a message" in text) == (ranks > 1)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_suite_for_links(tmp_path: Path) -> None:
    file = tmp_path / "links.json"
    launch.run(PROGRAM, 6, "--suite", "birkeland-links", "--quick", "--repeat", 2, "--json", file)
    cases = json.loads(file.read_text())["cases"]
    assert len(cases) == 2
    for case in cases:
        assert {method["name"] for method in case["methods"]} == {
            "sweep",
            "sweep/nonblocking",
            "ring/irecv-isend-wait",
            "subarrays/alltoallw",
        }
        assert all(method["verified"] for method in case["methods"])


@pytest.mark.parametrize("ranks", [4, 9])
def test_the_projection(tmp_path: Path, ranks: int) -> None:
    file = tmp_path / "projection.json"
    text = launch.run(
        PROGRAM, ranks, "--suite", "birkeland-projection", "--quick", "--repeat", 2, "--json", file
    ).stdout
    (case,) = json.loads(file.read_text())["cases"]
    assert case["not_run"] == []
    assert {method["name"] for method in case["methods"]} == {*WAYS}
    assert all(method["verified"] for method in case["methods"])
    assert "what the process that sends most sends:" in text
