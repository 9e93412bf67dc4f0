"""Arrays and descriptors of other packages, and solvers that are given ours: by redistribute as by their own means."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import launch
import packages
import pytest

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
MY_PACKAGE = """
class Rows:
    def __init__(self, rows, counts):
        self.rows, self.counts = rows, counts
"""


@pytest.mark.parametrize(
    ("package", "ranks", "arguments"),
    [
        ("PyScalapack", 3, "D"),
        ("dask", 2, "D"),
        ("gpaw", 3, "adapter"),
        ("heat", 2, "few"),
        ("jax", 2, "2 few"),
        ("mpi4py_fft", 2, "adapter"),
        ("petsc4py", 2, "adapter"),
        ("pylops_mpi", 2, "few"),
        ("scalapack4py", 2, "D"),
        ("torch", 4, "few"),
    ],
)
def test_adapter(package: str, ranks: int, arguments: str) -> None:
    """Each once, where its library is there."""
    environment = packages.environment(package)
    program = PROGRAMS / f"with_{package.lower()}.py"
    assert launch.run(program, ranks, *arguments.split(), env=environment, alone=True).stdout == "OK\n"


def test_libraries_are_imported_by_who_has_their_arrays() -> None:
    code = """
import sys
from mpi4py import MPI
import pyscalapack_redist as psr
desc = psr.Descriptor((4, 4), 2, psr.ProcessGrid((1, 1), MPI.COMM_WORLD))
pair = desc, desc.zeros()
psr.linalg.norm(psr.redistribute(psr.as_distributed(pair), like=pair))
print(*{name.partition(".")[0] for name in sys.modules})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=launch.environment(), capture_output=True, text=True, check=True
    )
    assert not {"torch", "heat", "jax", "dask", "pylops_mpi", "ml_dtypes"} & set(done.stdout.split())


def test_example_with_jax() -> None:
    environment = packages.environment("jax") | {"JAX_PLATFORMS": "cpu"}
    text = launch.run(EXAMPLES / "jax_eigh.py", 2, env=environment, alone=True).stdout
    found = re.search(r"from 0\.386308 to 8\.938402, v over P\('rows',\), relative residual (\S+)$", text, re.MULTILINE)
    assert found is not None, text
    assert float(found[1]) < 1e-13


def test_adapter_of_the_page(tmp_path: Path) -> None:
    """The adapter that docs/arrays.md shows, installed as another package's, is found by its entry point."""
    page = (EXAMPLES.parent / "docs" / "arrays.md").read_text()
    (code,) = re.findall(r"^```py \{data-adapter=yes\}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (entry,) = re.findall(r"^```toml\n\[project\.entry-points\.\"(\S+)\"\]\n(\S+) = \"(\S+)\"\n```", page, re.MULTILINE)
    folder, information = tmp_path / "my_package", tmp_path / "my_package-1.0.dist-info"
    for new in (folder, information):
        new.mkdir()
    (folder / "__init__.py").write_text(MY_PACKAGE)
    (folder / "redistribution.py").write_text(code)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my_package\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[{}]\n{} = {}\n".format(*entry))
    program = PROGRAMS / "with_my_package.py"
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])}
    assert launch.run(program, 2, env=environment, alone=True).stdout == "OK\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("package", "ranks"),
    [
        *(("PyScalapack", ranks) for ranks in (1, 4, 5)),
        *(("scalapack4py", ranks) for ranks in (1, 4, 5)),
        *(("mpi4py_fft", ranks) for ranks in (1, 2, 4, 6)),
        *(("petsc4py", ranks) for ranks in (1, 2, 3, 6)),
        *(("gpaw", ranks) for ranks in (1, 4, 5)),
        *(("dask", ranks) for ranks in (1, 2, 4, 6)),
        *(("heat", ranks) for ranks in (1, 3, 4)),
        *(("pylops_mpi", ranks) for ranks in (1, 3, 4)),
        *(("torch", ranks) for ranks in (1, 2, 3, 4, 6)),
    ],
)
def test_package(package: str, ranks: int) -> None:
    environment = packages.environment(package)
    assert launch.run(PROGRAMS / f"with_{package.lower()}.py", ranks, env=environment, alone=True).stdout == "OK\n"


@pytest.mark.long
def test_benchmark_with_pylops_mpi() -> None:
    """Every way gives every element, also where the parts are of different sizes."""
    program, environment = ROOT / "benchmarks" / "pylops_mpi_redistribute.py", packages.environment("pylops_mpi")
    for more in ((), ("--reused",)):
        done = launch.run(program, 3, "--sizes", 7, "--rounds", 1, *more, env=environment, alone=True)
        assert done.stdout.count("| 3 | 7³ |") == 6


@pytest.mark.long
def test_two_mpi_libraries() -> None:
    environment = packages.environment("petsc4py")
    assert launch.run(PROGRAMS / "with_two_mpis.py", 2, env=environment, alone=True).stdout == "OK\n"


@pytest.mark.long
@pytest.mark.parametrize(("ranks", "devices"), [(1, 1), (1, 4), (2, 1), (2, 2), (3, 2), (4, 1)])
def test_jax(ranks: int, devices: int) -> None:
    environment = packages.environment("jax")
    assert launch.run(PROGRAMS / "with_jax.py", ranks, devices, env=environment, alone=True).stdout == "OK\n"


@pytest.mark.long
@pytest.mark.parametrize(("package", "order"), [("PyScalapack", 5), ("scalapack4py", 45)])
def test_example(package: str, order: int) -> None:
    environment = packages.environment(package)
    arguments = ("--client", package, "--order", order)
    text = launch.run(EXAMPLES / "your_library.py", 4, *arguments, env=environment, alone=True).stdout
    found = re.search(r"largest difference from NumPy (\S+)$", text, re.MULTILINE)
    assert found is not None, text
    assert float(found[1]) < 1e-12
