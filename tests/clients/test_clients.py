"""Arrays and descriptors of other packages, and solvers that are given ours: by redistribute as by their own means."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import launch
import packages
import pytest

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "your_library.py"


@pytest.mark.parametrize("package", ["gpaw", "mpi4py_fft", "petsc4py"])
def test_adapter(package: str) -> None:
    environment = packages.environment(package)
    program = PROGRAMS / f"with_{package}.py"
    assert launch.run(program, 3, "adapter", env=environment, alone=True).stdout == "OK\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("package", "program", "ranks"),
    [
        ("PyScalapack", "with_pyscalapack.py", 3),
        ("dask", "with_dask.py", 2),
        ("numpy", "with_partitioned.py", 3),
        ("nvmath", "with_nvmath.py", 2),
        ("scalapack4py", "with_scalapack4py.py", 2),
    ],
)
def test_adapter(package: str, program: str, ranks: int) -> None:
    """Each once, for one dtype."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    assert launch.run(PROGRAMS / program, ranks, "D").stdout == "OK\n"


@pytest.mark.long
@pytest.mark.parametrize("package", ["gpaw", "mpi4py_fft", "petsc4py"])
def test_adapter(package: str) -> None:
    environment = packages.environment(package)
    program = PROGRAMS / f"with_{package}.py"
    assert launch.run(program, 3, "adapter", env=environment, alone=True).stdout == "OK\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("package", "program", "ranks"),
    [
        *(("PyScalapack", "with_pyscalapack.py", ranks) for ranks in (1, 4, 5)),
        *(("scalapack4py", "with_scalapack4py.py", ranks) for ranks in (1, 4, 5)),
        *(("mpi4py_fft", "with_mpi4py_fft.py", ranks) for ranks in (1, 2, 4, 6)),
        *(("petsc4py", "with_petsc4py.py", ranks) for ranks in (1, 2, 3, 6)),
        *(("gpaw", "with_gpaw.py", ranks) for ranks in (1, 4, 5)),
        *(("dask", "with_dask.py", ranks) for ranks in (1, 2, 4, 6)),
        *(("numpy", "with_partitioned.py", ranks) for ranks in (1, 2, 4, 6)),
        *(("nvmath", "with_nvmath.py", ranks) for ranks in (1, 3, 4, 6)),
    ],
)
def test_package(package: str, program: str, ranks: int) -> None:
    environment = packages.environment(package)
    assert launch.run(PROGRAMS / program, ranks, env=environment, alone=True).stdout == "OK\n"


@pytest.mark.long
@pytest.mark.long
@pytest.mark.parametrize(("package", "order"), [("PyScalapack", 5), ("scalapack4py", 45)])
def test_example(package: str, order: int) -> None:
    environment = packages.environment(package)
    arguments = ("--client", package, "--order", order)
    text = launch.run(EXAMPLE, 4, *arguments, env=environment, alone=True).stdout
    found = re.search(r"largest difference from NumPy (\S+)$", text, re.MULTILINE)
    assert found is not None, text
    assert float(found[1]) < 1e-12
