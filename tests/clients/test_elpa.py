"""ELPA in layouts that `linalg.check_layout` accepts, and in those that it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import launch
import packages
import pytest

from pyscalapack_redist.linalg.rates import VARIABLE

PROGRAM = Path(__file__).parent / "programs" / "with_elpa.py"
EIGH = Path(__file__).parent / "programs" / "eigh_with_elpa.py"
LONG = pytest.mark.long
CONDITIONS = ("columns on each process column", "square blocks", "source (0, 0)", "a matrix that is not empty")


@pytest.mark.parametrize("ranks", [2, *(pytest.param(ranks, marks=LONG) for ranks in (1, 3, 4))])
def test_accepted_layouts_give_eigenpairs(ranks: int) -> None:
    assert launch.run(PROGRAM, ranks, env=packages.environment("libelpa"), alone=True).stdout == "OK\n"


@LONG
@pytest.mark.parametrize("condition", CONDITIONS)
def test_refused_layouts_fail(condition: str) -> None:
    """ELPA returns an error, crashes or computes something else."""
    environment = {**packages.environment("libelpa"), "PYTHONFAULTHANDLER": ""}
    done = launch.run(PROGRAM, 4, condition, env=environment, check=False, alone=True)
    assert "check_layout refuses" in done.stderr
    assert done.returncode != 0
    assert "OK" not in done.stdout


@pytest.mark.parametrize("ranks", [2, *(pytest.param(ranks, marks=LONG) for ranks in (1, 3, 4))])
def test_eigh_by_elpa(ranks: int, tmp_path: Path) -> None:
    assert launch.run(EIGH, ranks, env=on_grids(tmp_path), alone=True, timeout=250).stdout == "OK\n"


def on_grids(folder: Path) -> dict[str, str]:
    """The environment with ELPA, and rates by which small matrices, too, are computed on a grid."""
    path = folder / "rates.json"
    path.write_text(json.dumps({"eigh": [1.0, 1e30, 0.0]}))
    return {**packages.environment("libelpa"), VARIABLE: str(path)}


def test_an_elpa_that_is_missing_or_of_another_mpi_is_named(tmp_path: Path) -> None:
    """The file is no library; so `driver="elpa"` is refused on all ranks, and the default takes ScaLAPACK."""
    (tmp_path / "libelpa.so").write_text("no library")
    environment = {**on_grids(tmp_path), "PYSCALAPACK_REDIST_ELPA": str(tmp_path / "libelpa.so")}
    assert launch.run(EIGH, 2, "missing", env=environment, alone=True).stdout == "OK\n"
