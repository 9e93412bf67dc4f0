"""The arrays of mpi4py-fft, PETSc, dask and GPAW, and ELPA's eigenvectors: by redistribute as by their own means."""

from __future__ import annotations

from pathlib import Path

import launch
import packages
import pytest

pytestmark = pytest.mark.long
PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize(
    ("package", "program", "ranks"),
    [
        *(("mpi4py_fft", "with_mpi4py_fft.py", ranks) for ranks in (1, 4, 6)),
        *(("petsc4py", "with_petsc_rows.py", ranks) for ranks in (1, 3, 4)),
        *(("dask", "with_dask.py", ranks) for ranks in (1, 4, 5)),
        *(("libelpa", "with_elpa.py", ranks) for ranks in (1, 4, 5)),
    ],
)
def test_package(package: str, program: str, ranks: int) -> None:
    environment = packages.environment(package)
    assert launch.run(PROGRAMS / program, ranks, env=environment, alone=True).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 4, 5])
def test_gpaw(ranks: int) -> None:
    environment = packages.environment("gpaw")
    assert launch.run(PROGRAMS / "with_gpaw.py", ranks, 20261122 + ranks, env=environment, alone=True).stdout == "OK\n"
