"""The scripts that make the tables of docs/schedules.md run, and draw their picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


def test_least_cost_schedules(tmp_path: Path) -> None:
    picture, cases = tmp_path / "a" / "picture.png", tmp_path / "cases.csv"
    command = [
        sys.executable,
        BENCHMARKS / "least_cost_schedules.py",
        "--largest",
        "3",
        "--plot",
        picture,
        "--csv",
        cases,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "| 15 -> 6 | 7 |" in done.stdout
    assert "15,6,2,3,10,15,11,16,proved by integer program,20,20," in cases.read_text()
    assert picture.stat().st_size > 10_000


def test_cut_messages() -> None:
    command = [sys.executable, BENCHMARKS / "cut_messages.py", "--time-limit", "0.05"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "| 15 -> 15, 3 -> 5 | 0 | 11 | 23 | 23 | 15 | 15 | 15 | 15 | equals the lower bound |" in done.stdout
    assert "| 60 -> 64, 32 -> 29 | cost at least |" in done.stdout


def test_steps_against_cost(tmp_path: Path) -> None:
    picture = tmp_path / "a" / "picture.png"
    command = [sys.executable, BENCHMARKS / "steps_against_cost.py", "--plot", picture]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "| 15 -> 6, 2 -> 3 | 10, 20; 11, 16 | 10 | 15 |" in done.stdout
    assert picture.stat().st_size > 10_000


def test_open_shop() -> None:
    command = [sys.executable, BENCHMARKS / "open_shop.py", "--time-limit", "0.05"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "| Example 1: 16 -> 16, 3 -> 5 | 15 | 15 | equals the lower bound |" in done.stdout
    assert "| 8x8 -> 4x16 | 8 | 319488 | " in done.stdout
