"""Arrays and descriptors that other packages made: PyScalapack, scalapack4py, and PETSc's ScaLAPACK matrices."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import launch
import pytest

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "your_library.py"
DEBIAN_PYTHON = Path("/usr/lib/python3/dist-packages")
PROBE = """
from mpi4py import MPI
from petsc4py import PETSc
from pyscalapack_redist import blacs
blacs.load()
used = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
assert sum("/libscalapack" in file for file in used) == 1, f"two ScaLAPACKs: {used}"
PETSc.Mat().create(comm=MPI.COMM_SELF).setType("scalapack")
"""


@pytest.mark.parametrize("ranks", [1, 4, 5])
@pytest.mark.parametrize("client", ["PyScalapack", "scalapack4py"])
def test_python_wrappers(client: str, ranks: int) -> None:
    if find_spec(client) is None:
        pytest.skip(f"{client} is not installed: pip install {client}")
    assert launch.run(PROGRAMS / f"with_{client.lower()}.py", ranks, alone=True).stdout == "OK\n"


@pytest.mark.parametrize(("client", "order"), [("PyScalapack", 5), ("scalapack4py", 45)])
def test_example(client: str, order: int) -> None:
    if find_spec(client) is None:
        pytest.skip(f"{client} is not installed: pip install {client}")
    text = launch.run(EXAMPLE, 4, "--client", client, "--order", order, alone=True).stdout
    found = re.search(r"largest difference from NumPy (\S+)$", text, re.MULTILINE)
    assert found is not None, text
    assert float(found[1]) < 1e-12


def test_a_context_of_another_file(tmp_path: Path) -> None:
    said = launch.run(PROGRAMS / "other_library.py", 2, tmp_path).stdout
    assert said in ("OK\n", "MKL\n")
    if said == "MKL\n":
        pytest.skip("MKL's files cannot be loaded two times")


@functools.cache
def petsc4py_path() -> tuple[str | None, str]:
    """The PYTHONPATH with which petsc4py can be imported, or None and why not.

    Debian's was built for Debian's NumPy, which must then be found before the environment's.
    """
    tried = ""
    own = os.environ.get("PYTHONPATH", "")
    folders = sorted(Path("/usr/lib/petscdir").glob("*/*-real/lib/python3/dist-packages"))
    for before in ([], *([folder, DEBIAN_PYTHON] for folder in folders)):
        path = os.pathsep.join([*map(str, before), str(launch.TESTS), *filter(None, [own])])
        done = subprocess.run(
            [sys.executable, "-c", PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            env={**launch.environment(), "PYTHONPATH": path},
        )
        if done.returncode == 0:
            return path, ""
        tried = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return None, tried


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_petsc(ranks: int) -> None:
    if not launch.mpi_library().startswith("Open MPI"):
        pytest.skip("Debian's petsc4py is built for Open MPI")
    path, reason = petsc4py_path()
    if path is None:
        pytest.skip(f"petsc4py cannot be used ({reason}): apt-get install python3-petsc4py-real")
    done = launch.run(PROGRAMS / "with_petsc4py.py", ranks, env={"PYTHONPATH": path})
    assert done.stdout == "OK\n"
