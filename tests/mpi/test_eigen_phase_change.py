"""examples/eigen_phase_change.py: energies and states are right in every type, and what is wrong is told once."""

from __future__ import annotations

import re
from pathlib import Path

import launch
import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "eigen_phase_change.py"


def energies(text: str) -> tuple[float, float]:
    found = re.search(r"lowest energy  (\S+), highest (\S+);", text)
    assert found is not None, text
    return float(found[1]), float(found[2])


@pytest.mark.parametrize(
    ("ranks", "words", "routine"),
    [
        (1, ["--blocks", "64"], "pdsyevd"),
        (4, ["--blocks", "2", "5", "64"], "pdsyevd"),
        (3, ["--flux", "0.25", "--grid", "1x2", "--blocks", "4"], "pzheevd"),
    ],
)
def test_lattice_without_disorder(ranks: int, words: list[str], routine: str) -> None:
    """Without disorder and field the energies are known: sums of two cosines. With a field the spectrum is symmetric."""
    text = launch.run(EXAMPLE, ranks, "--side", 6, "--disorder", 0, *words).stdout
    low, high = energies(text)
    assert re.search(rf"^eigh +{routine} ", text, re.MULTILINE), text
    assert low == pytest.approx(-high, abs=2e-6)
    if "--flux" not in words:
        assert high == pytest.approx(4 * np.cos(np.pi / 7), abs=2e-6)
    assert "WRONG" not in text
    assert "times as fast" in text


@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_a_matrix_in_a_file(dtype: str, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    half = random.standard_normal((30, 30)) + (1j * random.standard_normal((30, 30)) if dtype == "c8" else 0)
    matrix = (half + half.conj().T).astype(dtype)
    np.save(tmp_path / "a.npy", matrix)
    text = launch.run(EXAMPLE, 4, "--matrix", tmp_path / "a.npy", "--blocks", "8", "--no-comparison").stdout
    assert energies(text) == pytest.approx(tuple(np.linalg.eigvalsh(matrix)[[0, -1]]), rel=1e-4)


def test_bad_input_is_told_once(tmp_path: Path) -> None:
    skew = np.arange(81.0).reshape(9, 9)
    np.save(tmp_path / "a.npy", skew)
    for words, message in (
        (["--matrix", tmp_path / "a.npy", "--blocks", 2], "the matrix is not Hermitian"),
        (["--side", 3, "--blocks", 9], "p?syevd needs blocks smaller than that"),
        (["--grid", "3x3"], "needs 9 processes"),
        (["--side", 0], "whole number of at least 1"),
        (["--matrix", "none.npy"], "none.npy"),
    ):
        done = launch.run(EXAMPLE, 2, *words, check=False)
        assert done.returncode == 2, launch.told(done)
        assert done.stderr.count("eigen_phase_change.py: error: ") == 1, launch.told(done)
        assert message in done.stderr, launch.told(done)
