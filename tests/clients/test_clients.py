"""Arrays and descriptors of other packages, and solvers that are given ours: by redistribute as by their own means."""

from __future__ import annotations

import re
from pathlib import Path

import launch
import packages
import pytest

pytestmark = pytest.mark.long
PROGRAMS = Path(__file__).parent / "programs"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "your_library.py"


@pytest.mark.parametrize(
    ("package", "program", "ranks"),
    [
        *(("PyScalapack", "with_pyscalapack.py", ranks) for ranks in (1, 4, 5)),
        *(("scalapack4py", "with_scalapack4py.py", ranks) for ranks in (1, 4, 5)),
        *(("mpi4py_fft", "with_mpi4py_fft.py", ranks) for ranks in (1, 4, 6)),
        *(("petsc4py", "with_petsc4py.py", ranks) for ranks in (1, 3, 4)),
        *(("gpaw", "with_gpaw.py", ranks) for ranks in (1, 4, 5)),
    ],
)
def test_package(package: str, program: str, ranks: int) -> None:
    environment = packages.environment(package)
    assert launch.run(PROGRAMS / program, ranks, env=environment, alone=True).stdout == "OK\n"


@pytest.mark.parametrize(("package", "order"), [("PyScalapack", 5), ("scalapack4py", 45)])
def test_example(package: str, order: int) -> None:
    environment = packages.environment(package)
    arguments = ("--client", package, "--order", order)
    text = launch.run(EXAMPLE, 4, *arguments, env=environment, alone=True).stdout
    found = re.search(r"largest difference from NumPy (\S+)$", text, re.MULTILINE)
    assert found is not None, text
    assert float(found[1]) < 1e-12
