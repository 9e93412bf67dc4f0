"""The suites, with a few small cases of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import launch
import pytest
from papers.desprez_packing import EXCHANGES, TIMERS

pytestmark = pytest.mark.any_mpi
PROGRAM = ("-m", "pyscalapack_redist")
SUITES = (str(Path(__file__).parents[2] / "benchmarks/run_suites.py"),)  # with those that are not installed


def quick(
    ranks: int, suite: str, tmp_path: Path, *more: str, env: dict[str, str] | None = None
) -> tuple[str, list[dict[str, Any]]]:
    file, picture = tmp_path / "suite.json", tmp_path / "suite.png"
    options = ("--suite", suite, "--quick", "--repeat", 2, "--json", file, "--plot", picture, *more)
    if suite not in ("broad", "sizes", "once", "hosts"):
        done = launch.run(SUITES, ranks, *options, env=env)
    else:
        done = launch.run(PROGRAM, ranks, "bench", *options, env=env)
    assert picture.read_bytes().startswith(b"\x89PNG")
    cases: list[dict[str, Any]] = json.loads(file.read_text())["cases"]
    assert all(method["verified"] for case in cases for method in case["methods"])
    return done.stdout, cases


@pytest.mark.parametrize("ranks", [4, 8])
def test_walker_otto(tmp_path: Path, ranks: int) -> None:
    text, cases = quick(ranks, "walker-otto", tmp_path)
    assert [case["to"] for case in cases] == [f"{ranks}x1:{4 * K}x1" for K in (2, 3, 20)]
    for case in cases:
        assert (case["from"], case["dtype"], case["not_run"]) == (f"{ranks}x1:4x1", "int32", [])
        assert {"walker-otto/sendrecv", "natural/synchronized", "bcast", "alltoall"} <= {
            method["name"] for method in case["methods"]
        }
    assert "time against K (Walker & Otto, Fig 11)" in text
    for row in ("bcast", "alltoall", "redistribution, K = 2", "redistribution, K = 20"):
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {row} ") and line.count("|") == 3]
        assert line.split("|")[2].strip().endswith("s")


@pytest.mark.parametrize(("ranks", "to"), [(12, "8x1:3x1"), (20, "8x1:3x1+12")])
def test_desprez(tmp_path: Path, ranks: int, to: str) -> None:
    text, cases = quick(ranks, "desprez", tmp_path)
    assert [case["to"] for case in cases] == [to, to]
    for case in cases:
        missing = {missing["name"] for missing in case["not_run"]}
        assert missing <= {"pxgemr2d"}  # where there is no ScaLAPACK
    sets = "disjoint sets" if "+" in to else "shared processes"
    assert f"Example 4: P = 12, Q = 8, r = 4, s = 3, {sets}" in text
    assert "0.67 by steps" in text


@pytest.mark.parametrize("ranks", [2, 4, 12])
def test_desprez_with_packing_apart(tmp_path: Path, ranks: int) -> None:
    text, cases = quick(ranks, "desprez-packing", tmp_path)
    names = {f"{exchange} {timer}" for exchange in EXCHANGES for timer in TIMERS}
    for case in cases:
        assert case["not_run"] == []
        assert {method["name"] for method in case["methods"]} == names
    assert "packing outside the timer, as theirs" in text
    assert "packing inside the timer" in text


@pytest.mark.parametrize(
    ("ranks", "suite"),
    [
        (2, "broad"),
        (4, "broad"),
        (2, "sizes"),
        (8, "blocks"),
        (1, "ranks"),
        (3, "ranks"),
        (2, "dtypes"),
        (2, "once"),
        (4, "once"),
    ],
)
def test_suites_of_our_own(tmp_path: Path, ranks: int, suite: str) -> None:
    text, cases = quick(ranks, suite, tmp_path)
    assert len(cases) > 1
    for case in cases:
        assert case["ranks"] == ranks
        assert {"auto", "memcpy"} <= {method["name"] for method in case["methods"]}
        assert {missing["name"] for missing in case["not_run"]} <= {"pxgemr2d"}
    _, summary = text.split("all cases: geometric means")
    (row,) = [line for line in summary.splitlines() if line.startswith("| auto ")]
    assert row.split("|")[2].strip() == str(len(cases))
    assert ("plans: made anew in each call" in text) == (suite == "once")


@pytest.mark.parametrize("ranks", [2, 4])
def test_overlap(tmp_path: Path, ranks: int) -> None:
    text, cases = quick(ranks, "overlap", tmp_path)
    kinds = ("auto", "auto/nonblocking", "auto/windowed")
    for case in cases:
        names = {method["name"] for method in case["methods"]}
        assert names >= {
            "computing",
            *kinds,
            *(f"{kind} {verb} computing" for kind in kinds for verb in ("then", "during")),
        }
        assert case["not_run"] == []
    _, table = text.split("the share of the shorter time that was hidden:")
    rows = [line for line in table.splitlines() if line.startswith("| 192 x 192, ")]
    assert [row.split("|")[2].strip() for row in rows] == list(kinds)
    row = [part.strip() for part in rows[1].split("|")]
    (case,) = [result for result in cases if result["shape"] == [192, 192]]
    least = {method["name"]: method["min"] for method in case["methods"]}
    alone, computing = least["auto/nonblocking"], least["computing"]
    gained = least["auto/nonblocking then computing"] - least["auto/nonblocking during computing"]
    assert float(row[7].split("/")[0]) == pytest.approx(gained / min(alone, computing), rel=0.01, abs=0.01)


@pytest.mark.parametrize(("nodes", "hosts"), [("0,1,2,3", [0, 1, 2, 3]), ("1,1,0,0", [0, 0, 1, 1])])
def test_hosts(tmp_path: Path, nodes: str, hosts: list[int]) -> None:
    forced = {"PYSCALAPACK_REDIST_NODES": nodes}
    text, cases = quick(4, "hosts", tmp_path, "--link-rate", "50mbit", env=forced)
    environment = json.loads((tmp_path / "suite.json").read_text())["environment"]
    assert environment["host_of_rank"] == hosts
    assert (environment["link_rate"], environment["link_rate_origin"]) == (6.25e6, "as given")
    assert f"links of {len(set(hosts))} hosts: 6.25 MB/s each way (as given)" in text
    for case in cases:
        assert {missing["name"] for missing in case["not_run"]} <= {"pxgemr2d"}
        names = {method["name"] for method in case["methods"]}
        assert {"auto", "mpi-waitall", "mpi-alltoallv", "gather-scatter", "caterpillar/sendrecv"} <= names
        limit = case["links_limit"]
        assert limit["seconds"] == limit["bytes"] / 6.25e6 > 0
        assert limit["bytes"] <= 8 * 128 * 128
    assert text.count("| the links' limit ") == len(cases)
    _, summary = text.split("all cases: ratios of minimum times")
    (row,) = [line for line in summary.splitlines() if line.startswith("| best of all at once / auto ")]
    assert row.split("|")[2].strip() == str(len(cases))


def test_hosts_measures_its_links_and_has_none_on_one_host(tmp_path: Path) -> None:
    forced = {"PYSCALAPACK_REDIST_NODES": "0,0,1,1"}
    text, cases = quick(4, "hosts", tmp_path, "--methods", "auto", env=forced)
    assert "(measured)" in text
    environment = json.loads((tmp_path / "suite.json").read_text())["environment"]
    assert environment["link_rate"] > 1e6
    assert all(case["links_limit"]["rate"] == environment["link_rate"] for case in cases)
    text, cases = quick(4, "hosts", tmp_path, "--methods", "auto,mpi-waitall")
    assert "links_limit" not in cases[0]
    assert "links of" not in text


@pytest.mark.parametrize("ranks", [2, 4])
def test_batch(tmp_path: Path, ranks: int) -> None:
    text, cases = quick(ranks, "batch", tmp_path)
    for case in cases:
        assert {method["name"] for method in case["methods"]} == {
            f"{way}{exchange}" for way in ("one by one", "batch") for exchange in ("", ", nonblocking")
        }
    _, table = text.split("16 matrices, minimum / median times:")
    (row,) = [line for line in table.splitlines() if line.startswith("| 64 x 64 ") and "| auto " in line]
    least = {method["name"]: method["min"] for method in cases[0]["methods"]}
    assert float(row.split("|")[5].split("/")[0]) == pytest.approx(least["one by one"] / least["batch"], rel=0.01)


def test_a_comparison_with_an_earlier_run_of_a_suite(tmp_path: Path) -> None:
    old = tmp_path / "suite.json"
    _, cases = quick(2, "broad", tmp_path)
    content = json.loads(old.read_text())
    for case in content["cases"]:
        for method in case["methods"]:
            if method["name"] == "auto":
                method["seconds"] = [seconds / 1000 for seconds in method["seconds"]]
    old.write_text(json.dumps(content))
    done = launch.run(
        PROGRAM, 2, "bench", "--suite", "broad", "--quick", "--repeat", 2, "--methods", "auto,memcpy", "--compare", old
    )
    assert f"auto: {len(cases)} slower; now / then in geometric mean: " in done.stdout
    _, table = done.stdout.split("compared with the earlier run:")
    slower = [line for line in table.splitlines() if "| auto " in line and "| slower " in line]
    assert len(slower) == len(cases)


def test_pieces_on_links() -> None:
    options = ("--rate", "10gbit", "--megabytes", "0.2", "0.01", "--repeat", 2)
    done = launch.run((str(Path(SUITES[0]).parent / "pieces_on_links.py"),), 4, *options)
    assert "4 ranks, 0.2 MB each way, the links' limit 0.16 ms" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith(("| whole ", "| 2 of 65 kB", "| 4 of 16 kB"))]
    assert len(rows) == 2 * 3
    assert all(float(cell.split("/")[0]) > 0 for row in rows for cell in row.split("|")[2:4])


def test_quick_is_for_suites_that_have_it() -> None:
    done = launch.run(PROGRAM, 2, "bench", "--suite", "facts", "--quick", check=False)
    assert done.returncode == 2
    assert "--quick: the suite facts has no smaller cases" in done.stderr
