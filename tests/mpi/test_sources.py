"""Arrays loaded by slices of other libraries' objects, and tensors of safetensors files."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from launch import SEED, run

PROGRAM = Path(__file__).parent / "programs" / "sources.py"
LIBRARIES = ["numpy", "h5py", "zarr", "tensorstore", "safetensors"]


@pytest.mark.parametrize(
    ("ranks", "cases"), [(1, 4), (2, 6), *(pytest.param(n, 40, marks=pytest.mark.long) for n in (1, 2, 4, 6))]
)
def test_random_arrays(ranks: int, cases: int, tmp_path: Path) -> None:
    libraries = ",".join(name for name in LIBRARIES if importlib.util.find_spec(name) is not None)
    assert run(PROGRAM, ranks, tmp_path, cases, SEED + ranks, libraries, timeout=250).stdout == "OK\n"


@pytest.mark.parametrize("library", ["torch", "netCDF4"])
@pytest.mark.parametrize(("ranks", "cases"), [(2, 6), pytest.param(4, 40, marks=pytest.mark.long)])
def test_libraries_with_processes_of_their_own(library: str, ranks: int, cases: int, tmp_path: Path) -> None:
    """netCDF4 brings another HDF5 than h5py."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"there is no {library}")
    assert run(PROGRAM, ranks, tmp_path, cases, SEED, library, timeout=250, alone=True).stdout == "OK\n"
