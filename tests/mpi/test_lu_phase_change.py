"""The LU example under bad input: one message, all ranks end, status 2; and the tables of a good run."""

from __future__ import annotations

from pathlib import Path

import launch
import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "lu_phase_change.py"


def refused(*args: object, ranks: int = 3, **env: str) -> str:
    done = launch.run(EXAMPLE, ranks, *args, env=env, check=False)
    assert done.returncode == 2, launch.told(done)
    assert done.stderr.count("lu_phase_change.py: error: ") == 1, launch.told(done)
    assert "Traceback" not in done.stderr, launch.told(done)
    return done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--panels", "0"], "whole number of at least 1"),
        (["--grid", "2by2"], "2x2"),
        (["--grid", "3x3"], "needs 9 processes"),
        (["--plot", "charge.txt"], ".png"),
        (["--plot", "/no/such/folder/charge.png"], "no such folder"),
        (["--matrix", "none.npy"], "none.npy"),
        (["--matrix", "none.npy", "--panels", "8"], "not allowed with"),
    ],
)
def test_bad_options(args: list[str], message: str) -> None:
    assert message in refused(*args)


def test_bad_matrices(tmp_path: Path) -> None:
    matrix = np.random.default_rng(3).standard_normal((9, 9))
    file = tmp_path / "a.npy"
    for wrong, message in ((matrix[:5], "square"), (matrix * 0, "singular"), (matrix * np.inf, "infinite")):
        np.save(file, wrong)
        assert message in refused("--matrix", file)


def test_no_library() -> None:
    assert "/no/such/library.so" in refused(PYSCALAPACK_REDIST_LIBRARY="/no/such/library.so")


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_every_letter_of_scalapack(dtype: str, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    matrix = random.standard_normal((30, 30)) + 9 * np.eye(30)
    if "c" in dtype:
        matrix = matrix + 1j * random.standard_normal((30, 30))
    np.save(tmp_path / "a.npy", matrix.astype(dtype))
    done = launch.run(EXAMPLE, 4, "--matrix", tmp_path / "a.npy", "--grid", "1x3", "--block", "4")
    expected = np.linalg.norm(np.linalg.solve(matrix, np.ones(30)))
    printed = next(line for line in done.stdout.splitlines() if line.startswith("norm of x"))
    assert float(printed.split()[-1]) == pytest.approx(expected, rel=1e-4)
    assert "are identical" in done.stdout


@pytest.mark.parametrize(("ranks", "args"), [(1, []), (2, ["--block", "1"]), (7, ["--grid", "2x3", "--block", "100"])])
def test_capacitance(ranks: int, args: list[str]) -> None:
    done = launch.run(EXAMPLE, ranks, "--panels", "10", *args)
    assert "capacitance    0.36355 x 4 pi eps0 a" in done.stdout
    assert "are identical" in done.stdout
    assert "\x1b" not in done.stdout
