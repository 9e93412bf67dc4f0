"""Packages of others whose arrays are redistributed: where `ci/setup --all` has put them, and whether they can be used."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import launch
import pytest

# Python modules out of Debian's packages. They were built for an older NumPy, which is beside them.
FOLDER = launch.TESTS.parent / "build" / "clients"
# Names that Heat imports from torchvision, whose wheels for CPUs are not where those of others are.
STAND_INS = launch.TESTS / "clients" / "stand_ins"
PETSC = sorted(Path("/usr/lib/petscdir").glob("*/*-real/lib/python3/dist-packages"))
FOR_OPEN_MPI = ("gpaw", "libelpa", "petsc4py")
PROBE = """
import ctypes.util, importlib, sys
from mpi4py import MPI
import pyscalapack_redist.blacs
pyscalapack_redist.blacs.load()
name = sys.argv[1]
if name.startswith("lib"):
    file = ctypes.util.find_library(name[3:])
    assert file is not None, f"no {name}.so"
    ctypes.CDLL(file)
else:
    importlib.import_module(name)
    parts = {"gpaw": "gpaw.blacs", "petsc4py": "petsc4py.PETSc", "torch": "torch.distributed.tensor"}
    importlib.import_module(parts.get(name, name))
used = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
for library in ("/libmpi.so", "/libscalapack"):
    assert sum(library in file for file in used) <= 1, f"two of {library[1:]}: {used}"
"""


def environment(name: str) -> dict[str, str]:
    """The variables with which `launch.run` starts programs that need a package, or a library lib...

    Skips the test where the package cannot be used.
    """
    path, reason = path_of(name)
    if path is None:
        pytest.skip(f"{name} cannot be used: {reason}")
    return {"PYTHONPATH": path} if path else {}


def beside(variables: dict[str, str], name: str) -> dict[str, str]:
    """The variables of another environment, and what makes a package importable there, if it can be used."""
    path = path_of(name)[0]
    paths = filter(None, [path, variables.get("PYTHONPATH")])
    return {**variables, "PYTHONPATH": os.pathsep.join(paths)} if path else variables


@functools.cache
def path_of(name: str) -> tuple[str | None, str]:
    """The PYTHONPATH that makes it importable, empty if the environment has it itself; or None and why not."""
    if name in FOR_OPEN_MPI and not launch.mpi_library().startswith("Open MPI"):
        return None, "Debian's is built for Open MPI"
    reason = ""
    for folders in ([], [STAND_INS] if name == "heat" else [FOLDER, *PETSC]):
        own = filter(None, [os.environ.get("PYTHONPATH")])
        path = os.pathsep.join([*map(str, folders), str(launch.TESTS), *own]) if folders else ""
        done = subprocess.run(
            [sys.executable, "-c", PROBE, name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            env={**launch.environment(), **({"PYTHONPATH": path} if path else {})},
        )
        if done.returncode == 0:
            return path, ""
        reason = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return None, f"{reason}; ci/setup --all gets what there is"
