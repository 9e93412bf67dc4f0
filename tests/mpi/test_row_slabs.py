"""examples/row_slabs.py: slabs of any heights and dask's chunks go into ScaLAPACK and come back."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import launch
import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "row_slabs.py"


def residual(text: str) -> float:
    found = re.search(r"^residual (?:by dask )?(\S+) = ", text, re.MULTILINE)
    assert found is not None, text
    return float(found[1])


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        (1, ["--order", "21"]),
        (4, ["--rows", "8", "8", "8", "5"]),
        (4, ["--rows", "9", "9", "0", "0", "--grid", "2x2"]),
        (4, ["--rows", "30", "0", "21", "3", "--grid", "2x2", "--block", "7"]),
        (3, ["--rows", "1", "50", "4", "--grid", "1x2", "--block", "4"]),
    ],
)
def test_slabs(ranks: int, words: list[str]) -> None:
    text = launch.run(EXAMPLE, ranks, *words).stdout
    moved = re.findall(r"^solve +redistribute (a|b|result) .*irregular", text, re.MULTILINE)
    assert moved == ["a", "b", "result"], text
    assert residual(text) < 1e-12


@pytest.mark.skipif(find_spec("dask") is None, reason="dask is not installed: pip install 'dask[array]'")
@pytest.mark.parametrize(("order", "chunk", "count"), [(50, 13, 16), (30, 64, 1)])
def test_chunks_of_dask(order: int, chunk: int, count: int) -> None:
    text = launch.run(EXAMPLE, 4, "--order", order, "--chunk", chunk, "--grid", "2x2", "--block", 8).stdout
    assert f"{count} chunks" in text
    assert len(re.findall(r"^ +plan ", text, re.MULTILINE)) == 3, text  # of A, b and x
    assert residual(text) < 1e-12


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rows", "3"], "--rows 3: give 2 numbers, one for each rank"),
        (["--rows", "3", "-1"], "give 2 numbers"),
        (["--rows", "0", "0"], "not all 0"),
        (["--block", "0"], "argument --block: '0' must be a whole number of at least 1"),
        (["--grid", "2by1"], "argument --grid: '2by1' must be rows x columns"),
        (["--grid", "3x3"], "needs 9 processes"),
        (["--size", "4"], "unknown argument --size"),
    ],
)
def test_bad_input_is_told_once(words: list[str], message: str) -> None:
    done = launch.run(EXAMPLE, 2, *words, check=False)
    assert done.returncode == 2, launch.told(done)
    assert message in done.stderr, launch.told(done)
    assert done.stderr.count("row_slabs.py: error:") == 1, launch.told(done)
