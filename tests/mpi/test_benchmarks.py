"""What is in benchmarks/ runs: the papers' suites on ranks, with a few small cases each, and the scripts that make tables."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import launch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from papers import aspen
from papers.birkeland_model import Model, moves, sweep
from papers.birkeland_projection import WAYS
from papers.desprez import EXCHANGES, TIMERS

from pyscalapack_redist.intersections import ALGORITHMS, FORMS
from pyscalapack_redist.tools.bench.suites import SUITES

pytestmark = pytest.mark.any_mpi
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
INSTALLED = ("broad", "sizes", "once", "hosts")
OF_OUR_OWN = {"auto", "memcpy"}
long = pytest.mark.long


def quick(ranks: int, suite: str, tmp_path: Path, *more: object, **options: Any) -> tuple[str, list[dict[str, Any]]]:
    """What a suite prints, and its cases, all of them verified."""
    file, picture = tmp_path / "suite.json", tmp_path / "suite.png"
    program = ("-m", "pyscalapack_redist", "bench") if suite in INSTALLED else (str(BENCHMARKS / "run_suites.py"),)
    words = ("--suite", suite, "--quick", "--repeat", 2, "--json", file, "--plot", picture, *more)
    done = launch.run(program, ranks, *words, **options)
    assert picture.read_bytes().startswith(b"\x89PNG")
    cases: list[dict[str, Any]] = json.loads(file.read_text())["cases"]
    assert cases
    for case in cases:
        assert {missing["name"] for missing in case["not_run"]} <= {"pxgemr2d", "mpi4py-fft"}
        assert all(method["verified"] for method in case["methods"])
    return done.stdout, cases


@pytest.mark.parametrize(
    ("suite", "ranks", "methods", "printed"),
    [
        ("broad", 2, OF_OUR_OWN, "all cases: geometric means"),
        *(
            pytest.param(*row, marks=long)
            for row in (
                ("sizes", 2, OF_OUR_OWN, "all cases: geometric means"),
                ("blocks", 8, OF_OUR_OWN, "all cases: geometric means"),
                ("ranks", 3, OF_OUR_OWN, "all cases: geometric means"),
                ("dtypes", 2, OF_OUR_OWN, "all cases: geometric means"),
                ("once", 2, OF_OUR_OWN, "plans: made anew in each call"),
                (
                    "walker-otto",
                    4,
                    {"random-phases/synchronized", "plain sendrecv", "alltoall"},
                    "time against K (Walker & Otto, Fig 11)",
                ),
                ("desprez", 12, {"auto"}, "Example 4: P = 12, Q = 8, r = 4, s = 3, shared processes"),
                ("desprez-packing", 4, {f"{e} {t}" for e in EXCHANGES for t in TIMERS}, "packing outside the timer"),
                ("birkeland", 1, {"sweep", "subarrays/alltoallw"}, "times as fast as subarrays/alltoallw"),
                ("birkeland", 6, {"sweep/alltoallw/datatypes", "memcpy"}, "t_s, start-up of a message"),
                ("birkeland-links", 6, {"sweep/nonblocking", "ring/irecv-isend-wait"}, ""),
                ("birkeland-projection", 4, {*WAYS}, "what the process that sends most sends:"),
            )
        ),
    ],
)
def test_suites(suite: str, ranks: int, methods: set[str], printed: str, tmp_path: Path) -> None:
    text, cases = quick(ranks, suite, tmp_path)
    for case in cases:
        assert methods <= {method["name"] for method in case["methods"]}
    assert printed in text


@pytest.mark.long
def test_the_limit_of_links_between_hosts(tmp_path: Path) -> None:
    forced = {"PYSCALAPACK_REDIST_NODES": "1,1,0,0"}
    text, cases = quick(4, "hosts", tmp_path, "--link-rate", "50mbit", env=forced)
    environment = json.loads((tmp_path / "suite.json").read_text())["environment"]
    assert environment["host_of_rank"] == [0, 0, 1, 1]
    assert "links of 2 hosts: 6.25 MB/s each way (as given)" in text
    for case in cases:
        assert case["links_limit"]["seconds"] == case["links_limit"]["bytes"] / 6.25e6 > 0
    assert text.count("| the links' limit ") == len(cases)
    (row,) = [line for line in text.splitlines() if line.startswith("| best of all at once / auto ")]
    assert row.split("|")[2].strip() == str(len(cases))
    assert "(measured)" in quick(4, "hosts", tmp_path, "--methods", "auto", env=forced)[0]
    assert "links_limit" not in quick(4, "hosts", tmp_path, "--methods", "auto")[1][0]


# -- scripts


SCRIPTS = [
    ("break_even.py", "--most 4000", []),
    (
        "sweeps.py",
        "--shape 512 512 512 --model ts=1e-5,tw=1e-9 --plot new.png",
        ["at most 512 processes here", "r = 2: faster than r = 1 from 328 processes on", "| 1,024 "],
    ),
]
LONG_SCRIPTS = [
    ("planning.py", "--repeat 1", ["1,048,576 ranks | caterpillar | 576 | 810 |"]),
    ("intersection_shapes.py", "--repeat 1 --largest 1000000", ["| 100x100x100 | "]),
    ("walker_otto_simulated.py", "--most 10", ["| 10 |"]),
]


@pytest.mark.parametrize(
    ("script", "options", "printed"), [*SCRIPTS, *(pytest.param(*script, marks=long) for script in LONG_SCRIPTS)]
)
def test_scripts(script: str, options: str, printed: list[str], tmp_path: Path) -> None:
    words = options.split()
    command = [sys.executable, BENCHMARKS / script, *words]
    done = subprocess.run(command, cwd=tmp_path, env=launch.environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [text for text in printed if text not in done.stdout] == []
    assert all((tmp_path / word).stat().st_size > 1000 for word in words if word.endswith(".png"))
    if script == "break_even.py":  # its table is in the documents
        shown = (BENCHMARKS.parent / "docs" / "expect.md").read_text().splitlines()
        rows = done.stdout.splitlines()
        assert len(rows) == 6
        assert [row for row in rows if row not in shown] == []


def test_table_of_pairs(tmp_path: Path) -> None:
    """Of results that are there already: the last of each pair, and the most memory on any number of processes."""
    place = {"environment": "numpy2", "shape": [4104, 8177], "source": "JAX", "target": "dask"}
    records = [
        {**place, "processes": 1, "error": "needs 99 MiB", "new": 99 * 2**20},
        {**place, "processes": 1, "error": None, "new": 3 * 2**20, "copy": 2**20},
        {**place, "processes": 2, "error": None, "new": -1, "copy": 5 * 2**20},
        {**place, "processes": 2, "target": "GPAW", "error": "wrong"},
    ]
    results, page = tmp_path / "results", tmp_path / "page.md"
    results.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    page.write_text("before\n\n<!-- pairs -->\n\nold\n\n<!-- end -->\n\nafter\n")
    command = [sys.executable, BENCHMARKS / "pairs.py", "--ranks", "--results", results, "--page", page]
    done = subprocess.run(command, env=launch.environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    head, _, *rows = done.stdout.splitlines()
    cells = {row.split(" | ")[0]: row.strip("| ").split(" | ")[1:] for row in rows}
    titles = head.strip("| ").split(" | ")[1:]
    assert {title: text for title, text in zip(titles, cells["| JAX"], strict=True) if text != "–"} == {
        "dask": "5",
        "GPAW": "failed",
    }
    assert page.read_text() == f"before\n\n<!-- pairs -->\n\n{done.stdout}\n<!-- end -->\n\nafter\n"


FEW = ["matmul", "solve", "svd-tall"]
ALL = ["matmul", "solve", "cholesky", "qr", "eigh", "eigh-tenth", "svd", "svd-tall", "lstsq"]


@pytest.mark.parametrize("routines", [FEW, pytest.param(ALL, marks=long)])
def test_linear_algebra_beside_numpy(routines: list[str], tmp_path: Path) -> None:
    """Every cell has times of both sides, and the script itself compares the results."""
    file, script = tmp_path / "speed.json", BENCHMARKS / "linalg_speed.py"
    words = ("--routines", ",".join(routines), "--repeat", 1, "--json", file)
    done = launch.run(script, 2, "--orders", "24,20", *words)
    cells = json.loads(file.read_text())["cells"]
    assert [(cell["routine"], cell["order"]) for cell in cells] == [(name, n) for name in routines for n in (20, 24)]
    for cell in cells:
        assert len(cell["cold_ours"]) > 1 < len(cell["cold_numpy"])
        ours, numpys = (cell[side] or cell[f"cold_{side}"] for side in ("ours", "numpy"))
        assert cell["ratio"] == min(ours) / min(numpys) > 0
        assert cell["cold_ratio"] == min(cell["cold_ours"]) / min(cell["cold_numpy"]) > 0
    tables = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [row[0].strip() for row in tables] == ["n", "20", "24"] * 2
    assert all(text.strip() for row in tables for text in row)
    assert "flag round trip" in done.stdout
    short = launch.run(script, 2, "--orders", "24,20", *words, "--limit", "1e-9").stdout
    assert "matmul: larger orders than 20 are left out" in short


def test_ranks_that_share_cores() -> None:
    """The program fails unless the moves that wait for nobody are of as many bytes as the plan's."""
    done = launch.run(BENCHMARKS / "many_ranks.py", 4, "--order", 96, "--rounds", 2)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["4", "memcpy", "unwaited", "call"]
    assert all(float(word) > 0 for line in lines[1:] for word in line.split()[1::2] if word != "ms")


# -- what needs no MPI


def test_copies_between_orders() -> None:
    """The program compares what each of them has copied."""
    line = [sys.executable, BENCHMARKS / "crossing_lines.py", "--order", "64", "--rounds", "1"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=launch.limit(120), check=True)
    rows = [[cell.strip() for cell in text.split("|")[1:-1]] for text in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["dtype", "---", "int8", "int16", "float32", "float64", "complex128"]
    assert all(float(cell) >= 0 for row in rows[2:] for cell in row[1:])
    assert rows[0][-2:] == ["ours", "ours, blocks of 64"]


def test_table_of_runs(tmp_path: Path) -> None:
    """Each large case of two ranks is in one class by the length of its runs."""
    cases = [case for case in SUITES["broad"].cases if case.ranks == 2]
    methods = [{"name": "auto", "min": 3e-3}, {"name": "memcpy", "min": 2e-3}]
    file = tmp_path / "broad.json"
    file.write_text(json.dumps({"cases": [{**case.to_dict(), "methods": methods} for case in cases]}))
    line = [sys.executable, BENCHMARKS / "bounds.py", file]
    done = subprocess.run(line, capture_output=True, text=True, timeout=launch.limit(120), check=True)
    rows = [[cell.strip() for cell in text.split("|")[1:-1]] for text in done.stdout.splitlines() if text.startswith("| ")]
    assert rows[0] == ["large cases, bytes of a run", "cases", "memcpys", "at least"]
    assert rows[-1][0] == "lines cross"
    assert sum(int(row[1]) for row in rows[1:]) == len(cases) > 20
    assert {row[2] for row in rows[1:]} == {"1.50"}


# -- the suite of the ASPEN paper, which needs no MPI


@pytest.mark.long
def test_aspen(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aspen, "QUICK_GRIDS", (2, 3))
    monkeypatch.setattr(aspen, "CALLS", dict.fromkeys(FORMS, 1))
    assert aspen.main(["--quick", "--repeat", "1", "--json", str(tmp_path / "aspen.json")]) == 0
    cases = json.loads((tmp_path / "aspen.json").read_text())["cases"]
    assert len(cases) == 2 * 2 * 4 * 4
    names = {f"{name}/{form}" for name in ALGORITHMS for form in FORMS}
    assert all({method["name"] for method in case["methods"]} == names for case in cases)
    assert all(method["verified"] for case in cases for method in case["methods"])
    assert "by grid: geometric mean" in capsys.readouterr().out


# -- Birkeland and Sorevik


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 4), st.sampled_from((1, 8, 16)))
def test_the_papers_equations_where_all_divides(P: int, r: int, factor: int, item: int) -> None:
    N, ts, tw = P * factor, 3e-6, 2e-9
    shape, model = (N,) * (r + 1), Model(ts, tw)
    one = (P - 1) * (ts + tw * item * N ** (r + 1) / P ** (r + 1))
    assert [model.seconds(leg) for leg in moves(shape, (P,) * r, item)] == pytest.approx([one] * r)  # (5.1)
    assert model.seconds(sweep(shape, (P,) * r, item)) == pytest.approx(r * one)  # (5.2)
    total = P**r
    whole = (total * factor, total * factor)
    expected = (total - 1) * (ts + tw * item * math.prod(whole) / total**2)
    assert model.seconds(sweep(whole, (total,), item)) == pytest.approx(expected)  # (5.3)


def test_a_model_that_cannot_be_read() -> None:
    for text in ("", "ts=1,tw=x", "ts=-1,tw=1", "ts=0,tw=0", "ts=1,tw=1,tx=1", "tw=inf,ts=1", "ts=1e308,tw=1"):
        with pytest.raises(ValueError, match=r"must be ts=SECONDS,tw=SECONDS"):
            Model.parse(text)
    assert Model.parse("tw=1e-9, ts=2e-6") == Model(2e-6, 1e-9)
