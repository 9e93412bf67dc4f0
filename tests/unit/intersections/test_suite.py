"""The suite `aspen` of the benchmark: it runs without MPI, verifies, counts, writes, draws, and refuses what it cannot use."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from papers import aspen, aspen_cases

from pyscalapack_redist.intersections import ALGORITHMS, FORMS
from pyscalapack_redist.tools.usage import UsageError

NONE = dict.fromkeys(("shape", "before", "after", "dtype", "methods", "compare", "json", "plot"))


def options(**given: Any) -> Namespace:
    return Namespace(**{**NONE, "quick": True, "profile": False, "repeat": 1, **given})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aspen, "QUICK_GRIDS", (2, 3))
    monkeypatch.setattr(aspen_cases, "CALLS", dict.fromkeys(FORMS, 1))


@pytest.mark.usefixtures("small")
def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = tmp_path / "aspen.json", tmp_path / "aspen.png"
    assert aspen.bench_aspen(options(json=str(file), plot=str(picture), repeat=2)) == 0
    cases = json.loads(file.read_text())["cases"]
    assert len(cases) == 2 * 2 * 4 * 4
    assert {(case["from"], case["to"]) for case in cases} >= {
        ("3x3:30x50", "2x2:654x321"),
        ("2x2:256x256", "2x2:256x256"),
    }
    for case in cases:
        assert {method["name"] for method in case["methods"]} == {
            f"{name}/{form}" for name in ALGORITHMS for form in FORMS
        }
        counts = {method["name"]: (method["comparisons"], method["runs"]) for method in case["methods"]}
        for method in case["methods"]:
            assert method["verified"]
            assert len(method["seconds"]) == 2
        for name in ALGORITHMS:
            assert counts[f"{name}/compiled"] == counts[f"{name}/python"]
        assert counts["aspen/python"][0] == counts["aspen/python"][1] == counts["falls/python"][1]
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = capsys.readouterr().out
    assert "by grid: geometric mean" in text
    assert "aspen is" in text
    assert "WRONG" not in text


@pytest.mark.usefixtures("small")
def test_wrong_runs_are_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    right = aspen_cases.find

    def wrong(algorithm: str, *arguments: Any, form: str) -> Any:
        found = right(algorithm, *arguments, form=form)
        if (algorithm, form) == ("falls", "python") and len(found.start_b):
            found.start_b[-1] += 1
        return found

    aspen_cases._correct.cache_clear()
    monkeypatch.setattr(aspen_cases, "find", wrong)
    try:
        assert aspen.bench_aspen(options()) == 1
    finally:
        aspen_cases._correct.cache_clear()
    assert "WRONG RUNS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ({"shape": [3, 3]}, "--shape"),
        ({"before": "2x2:1x1"}, "--from"),
        ({"methods": ["auto"]}, "--methods"),
        ({"profile": True}, "--profile"),
    ],
)
def test_what_is_for_redistributions_is_refused(given: dict[str, Any], flag: str) -> None:
    with pytest.raises(UsageError, match=f"{flag} and --suite aspen: .* it takes --quick"):
        aspen.bench_aspen(options(**given))


def test_it_does_not_start_mpi() -> None:
    code = (
        "import sys\n"
        "from papers.aspen_cases import AspenCase, seconds_of\n"
        "import papers.aspen\n"
        "seconds_of(AspenCase(2, 2, (30, 50), (256, 256)), 1)\n"
        "print('mpi4py.MPI' in sys.modules)"
    )
    folder = Path(aspen.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"


def test_other_shapes() -> None:
    script = Path(__file__).parents[3] / "benchmarks/intersection_shapes.py"
    command = [sys.executable, script, "--repeat", "1", "--largest", "1000000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in rows[::4]] == ["| 10000", "| 1000000", "| 1000x1000", "| 100x100x100"]
    assert rows[2][1] == "32 -> 31"
    assert all(float(row[-1].rstrip(" |")) > 0 for row in rows)
