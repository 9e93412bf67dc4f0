"""`pyscalapack-redist simulate`: its table, JSON and picture, what it refuses, and life without MPI."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyscalapack_redist.tools import cli
from pyscalapack_redist.tools.simulate.machine import Machine
from pyscalapack_redist.tools.simulate.study import DEFAULT_METHODS
from pyscalapack_redist.tools.units import bytes_per_second, read_duration, read_size

SMALL = ["simulate", "--shape", "2400", "--from", "8:3", "--to", "8:5", "--rate", "10mbit"]
BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


def simulated(tmp_path: Path, *words: str) -> dict[str, Any]:
    file = tmp_path / "simulated.json"
    assert cli.run([*SMALL, *words, "--json", str(file)]) == 0
    read: dict[str, Any] = json.loads(file.read_text())
    return read


def test_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(tmp_path, "--latency", "50us", "--efficiency", "0.8", "--burst", "1kib", "--turns-after", "2kib")
    text = capsys.readouterr().out
    assert "simulated: 2400 float64, 8:3 -> 8:5, 8 ranks" in text
    assert "8 hosts, 10 Mbit/s each way, start-up 50 us" in text
    assert [method["name"] for method in found["methods"]] == list(DEFAULT_METHODS)
    assert found["machine"]["rate"] == 1.25e6
    assert found["limit"] == pytest.approx((found["busiest_bytes"] - 0.8 * 1024) / 1e6)
    for method in found["methods"]:
        assert method["seconds"] > found["limit"]
        assert f"| {method['name']} " in text


def test_hosts_may_be_more_than_are_needed_and_ranks_may_share_them(tmp_path: Path) -> None:
    methods = ["--methods", "ring/sendrecv,ring/windowed"]
    alone = simulated(tmp_path, *methods)
    assert simulated(tmp_path, *methods, "--hosts", "100")["methods"][0]["seconds"] == alone["methods"][0]["seconds"]
    shared = simulated(tmp_path, *methods, "--slots", "4")
    assert shared["machine"]["hosts"] == 2
    assert all(
        slow["seconds"] > other["seconds"] for slow, other in zip(shared["methods"], alone["methods"], strict=True)
    )


def test_what_does_not_apply_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(tmp_path, "--methods", "walker-otto/sendrecv,ring/sendrecv")
    assert found["methods"][0]["seconds"] is None
    assert "walker-otto/sendrecv: left out: schedule = 'walker-otto' needs r -> K r" in capsys.readouterr().out


def test_balanced_blocks(tmp_path: Path) -> None:
    words = ["--shape", "2401", "--from", "8:balanced", "--methods", "ring/sendrecv,optimal/windowed"]
    assert all(method["messages"] == 56 and method["seconds"] for method in simulated(tmp_path, *words)["methods"])


def test_window_and_piece(tmp_path: Path) -> None:
    found = simulated(tmp_path, "--methods", "ring/windowed,ring/nonblocking", "--window", "1", "--piece", "80")
    windowed, nonblocking = found["methods"]
    assert windowed["pieces"] > nonblocking["pieces"] == nonblocking["messages"]


def test_picture(tmp_path: Path) -> None:
    picture = tmp_path / "times.png"
    assert cli.run([*SMALL, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["simulate"], ["--shape, --from, --to, --rate missing", "--rate 10gbit"]),
        (SMALL[:-2], ["--rate missing"]),
        ([*SMALL, "--rate", "10"], ["argument --rate", "'10'", "50mbit"]),
        ([*SMALL, "--rate", "fast"], ["argument --rate", "'fast'", "50mbit"]),
        ([*SMALL, "--rate", "0mbit"], ["argument --rate", "'0mbit'", "above 0"]),
        ([*SMALL, "--latency", "50"], ["argument --latency", "'50'", "50us"]),
        ([*SMALL, "--overhead", "-1us"], ["argument --overhead"]),
        ([*SMALL, "--efficiency", "1.2"], ["argument --efficiency", "'1.2'", "at most 1"]),
        ([*SMALL, "--turns-after", "1.5b"], ["argument --turns-after", "'1.5b'", "64kib"]),
        ([*SMALL, "--hosts", "4"], ["--hosts 4", "needs 8 hosts"]),
        ([*SMALL, "--hosts", "2", "--slots", "3"], ["--hosts 2", "--slots 3", "6 ranks", "needs 3 hosts"]),
        ([*SMALL, "--slots", "0"], ["argument --slots", "'0'"]),
        ([*SMALL, "--piece", "0"], ["argument --piece", "'0'", "at least 1 byte"]),
        ([*SMALL, "--methods", "auto"], ["argument --methods", "'auto'", "SCHEDULE/EXCHANGE"]),
        ([*SMALL, "--methods", "rign/sendrecv"], ["argument --methods", "'rign'", "ring"]),
        ([*SMALL, "--methods", "ring/ready"], ["argument --methods", "'ready'", "sendrecv"]),
        ([*SMALL, "--methods", "natural/sendrecv"], ["argument --methods", "natural", "caterpillar"]),
        ([*SMALL, "--methods", "ring/alltoallv"], ["argument --methods", "ring", "windowed"]),
        ([*SMALL[:2], "8", "8", *SMALL[3:]], ["--shape, --from, --to", "2"]),
        ([*SMALL, "--json", "/nowhere/times.json"], ["--json /nowhere/times.json"]),
        ([*SMALL, "--plot", "times.xyz"], ["--plot times.xyz"]),
    ],
)
def test_bad_input_is_named(capsys: pytest.CaptureFixture[str], words: list[str], parts: list[str]) -> None:
    assert cli.run(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pyscalapack-redist: error: ")
    for part in parts:
        assert part in err


def test_units() -> None:
    assert [bytes_per_second(text) for text in ("8mbit", "10gbit", "1.5kbit", "2.5e9bit")] == [
        1e6,
        1.25e9,
        187.5,
        3.125e8,
    ]
    assert [read_duration(text) for text in ("50us", "0", "1.5ms", "2s")] == pytest.approx([50e-6, 0, 1.5e-3, 2])
    assert [read_size(text) for text in ("64kib", "1mb", "10")] == [65536, 1000000, 10]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hosts", 0),
        ("slots", 0),
        ("rate", 0),
        ("latency", -1),
        ("overhead", float("nan")),
        ("efficiency", 0),
        ("turns_after", -1),
        ("burst", -1),
    ],
)
def test_machines_are_checked(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} = {value}"):
        Machine(**{"hosts": 2, "rate": 1.0, name: value})  # type: ignore[arg-type]


def test_it_needs_no_mpi(tmp_path: Path) -> None:
    words = [*SMALL, "--json", str(tmp_path / "times.json"), "--plot", str(tmp_path / "times.png")]
    code = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "from pyscalapack_redist.tools.cli import run\n"
        f"assert run({words!r}) == 0 and run(['simulate', '--help']) == 0 and run(['simulate']) == 2"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_script_that_compares_with_measurements(tmp_path: Path) -> None:
    measured = tmp_path / "bench.json"
    case = {"shape": [2400], "from": "8:3", "to": "8:5", "dtype": "float64"}
    methods = [{"name": name, "min": 0.01} for name in ("ring/sendrecv", "pxgemr2d", "walker-otto/windowed")]
    measured.write_text(json.dumps({"cases": [{**case, "methods": methods}]}))
    command = [sys.executable, BENCHMARKS / "simulated_and_measured.py", "--rate", "50mbit", measured]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "| ring/sendrecv | 10 |" in done.stdout
    assert "| walker-otto/windowed | 10 | - |" in done.stdout
    assert "\n1 times: mean error" in done.stdout
