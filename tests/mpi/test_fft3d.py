"""examples/fft3d.py: right with slabs and pencils on any number of ranks, and what is wrong is told once."""

from __future__ import annotations

import re
from pathlib import Path

import launch
import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "fft3d.py"


@pytest.mark.parametrize(
    ("ranks", "shape", "grid"), [(1, "6 7 8", "1x1"), (2, "12 8 10", "2x1"), (4, "13 9 6", "2x2"), (3, "2 5 1", "1x3")]
)
def test_both_ways_agree_with_numpy(ranks: int, shape: str, grid: str) -> None:
    text = launch.run(PROGRAM, ranks, "--shape", *shape.split(), "--grid", grid, "--repeat", 1).stdout
    assert f"slabs, {ranks}:" in text
    assert f"pencils, {grid}:" in text
    differences = [float(text) for text in re.findall(r"fftn (\S+),", text)]
    assert len(differences) == 2
    assert max(differences) < 1e-12
    assert "WRONG" not in text
    assert len(re.findall(r"^  .*->.* ms$", text, re.MULTILINE)) == 1 + 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--grid", "3x2"], "--grid 3x2: it must be PxQ with P Q = 2"),
        (["--shape", "4", "0", "4"], "all must be at least 1"),
        (["--shape", "4", "4"], "argument --shape: expected 3 arguments"),
        (["--plot", "/nowhere/fft.png"], "--plot /nowhere/fft.png: its folder does not exist"),
        (["--size", "4"], "unknown argument --size"),
    ],
)
def test_bad_input_is_told_once(words: list[str], message: str) -> None:
    done = launch.run(PROGRAM, 2, *words, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("fft3d.py: error:") == 1
