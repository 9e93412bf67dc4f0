"""A matrix from every kind of array to every kind that can be in one process with it; its elements, and memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import launch
import packages
import pytest

from pyscalapack_redist.exchanges.exchange import MEMORY_LIMIT

pytestmark = pytest.mark.long
PROGRAM = Path(__file__).parent / "programs" / "pairs.py"
SLACK = 8 * 2**20  # of MPI, interpreter and libraries
# Kinds that cannot be in one process with others of the environment.
EXCLUDED = {
    "numpy2": {"PETSc", "mpi4py-fft", "GPAW"},
    "numpy1": {"JAX", "JAX, 2 devices a process", "scalapack4py"},
}


def run(results: Path, ranks: int, environment: str, *arguments: object) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Results of pairs, and kinds without a library."""
    variables = packages.beside(packages.environment("gpaw") if environment == "numpy1" else {}, "heat")
    variables["MALLOC_ARENA_MAX"] = "1"  # zarr's threads would keep freed memory in arenas of their own
    done = launch.run(PROGRAM, ranks, results, environment, *arguments, env=variables, timeout=280, alone=True)
    missing = json.loads(done.stdout.splitlines()[-1])
    return [json.loads(line) for line in results.read_text().splitlines()], missing


def check(records: list[dict[str, Any]], missing: dict[str, str], environment: str) -> None:
    """All pairs of the kinds that were there; skips the test after that if others were missing."""
    names = {record["source"] for record in records}
    assert {(record["source"], record["target"]) for record in records} == {(a, b) for a in names for b in names}
    assert [record for record in records if record["error"]] == []
    others = {name: reason for name, reason in missing.items() if name not in EXCLUDED[environment]}
    if others:
        pytest.skip(f"all but these: {others}")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("environment", EXCLUDED)
def test_elements(environment: str, ranks: int, tmp_path: Path) -> None:
    records, missing = run(tmp_path / "results", ranks, environment, "29x17,24x53", "any")
    assert len({record["source"] for record in records}) >= 9
    check(records, missing, environment)


@pytest.mark.parametrize(
    ("environment", "kinds"),
    [
        ("numpy2", "Descriptor,Tiles,JAX,scalapack4py,.npy"),
        ("numpy2", "PyTorch,Heat,Descriptor,Tiles"),
        ("numpy1", "GPAW,PETSc,mpi4py-fft,HDF5"),
    ],
)
def test_memory(environment: str, kinds: str, tmp_path: Path) -> None:
    """Of 256 MiB no process has more than its parts of both arrays, and what the limit of memory allows."""
    limit = MEMORY_LIMIT + SLACK
    records, missing = run(tmp_path / "results", 2, environment, "4104x8177", limit, "", kinds)
    assert all(record["new"] > -(2**28) for record in records)
    check(records, missing, environment)
