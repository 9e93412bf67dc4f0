"""The scripts that make the tables of docs/schedules.md run, and draw their picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


def printed_by(script: str, *arguments: str | Path) -> str:
    """What a script that ends well writes on standard output."""
    command = [sys.executable, BENCHMARKS / script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_least_cost_schedules(tmp_path: Path) -> None:
    picture, cases = tmp_path / "a" / "picture.png", tmp_path / "cases.csv"
    printed = printed_by(
        "least_cost_schedules.py",
        "--largest",
        "3",
        "--plot",
        picture,
        "--csv",
        cases,
    )
    assert "| 15 -> 6 | 7 |" in printed
    assert "15,6,2,3,10,15,11,16,proved by integer program,20,20," in cases.read_text()
    assert picture.stat().st_size > 10_000


def test_cut_messages() -> None:
    printed = printed_by("cut_messages.py", "--time-limit", "0.05")
    assert "| 15 -> 15, 3 -> 5 | 0 | 11 | 23 | 23 | 15 | 15 | 15 | 15 | equals the lower bound |" in printed
    assert "| 60 -> 64, 32 -> 29 | cost at least |" in printed


def test_steps_against_cost(tmp_path: Path) -> None:
    picture = tmp_path / "a" / "picture.png"
    printed = printed_by("steps_against_cost.py", "--plot", picture)
    assert "| 15 -> 6, 2 -> 3 | 10, 20; 11, 16 | 10 | 15 |" in printed
    assert picture.stat().st_size > 10_000


def test_open_shop() -> None:
    printed = printed_by("open_shop.py", "--time-limit", "0.05")
    assert "| Example 1: 16 -> 16, 3 -> 5 | 15 | 15 | equals the lower bound |" in printed
    assert "| 8x8 -> 4x16 | 8 | 319488 | " in printed
