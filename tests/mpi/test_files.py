"""Files read and written by several ranks, beside NumPy's own and h5py's."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from launch import run

PROGRAMS = Path(__file__).parent / "programs"
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20263"))


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_random_layouts(ranks: int, tmp_path: Path) -> None:
    assert run(PROGRAMS / "files.py", ranks, tmp_path, 45, SEED + ranks, timeout=250).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_errors_on_every_rank(ranks: int, tmp_path: Path) -> None:
    assert run(PROGRAMS / "file_errors.py", ranks, tmp_path, timeout=120).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_windows(ranks: int, tmp_path: Path) -> None:
    assert run(PROGRAMS / "file_windows.py", ranks, tmp_path, 20, SEED + ranks, timeout=120).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 3])
def test_what_a_killed_save_has_left(ranks: int, tmp_path: Path) -> None:
    program = PROGRAMS / "killed_save.py"
    assert run(program, ranks, tmp_path, "killed", timeout=60, check=False).returncode
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".kept.npy.")]
    assert run(program, ranks, tmp_path, "next", timeout=60).stdout == "OK\n"


@pytest.mark.skipif(importlib.util.find_spec("h5py") is None, reason="h5py is not installed")
@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_hdf5(ranks: int, tmp_path: Path) -> None:
    assert run(PROGRAMS / "hdf5_files.py", ranks, tmp_path, 25, SEED + ranks, timeout=200).stdout == "OK\n"


def test_without_h5py(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys; sys.modules['h5py'] = None\n"
        "import pytest, pyscalapack_redist as psr\n"
        "from mpi4py import MPI\n"
        "desc = psr.Descriptor((4,), None, psr.ProcessGrid((2,), MPI.COMM_WORLD))\n"
        "for call in (lambda: psr.load(desc, 'x.h5'), lambda: psr.save(desc, desc.zeros(), 'x.h5')):\n"
        "    with pytest.raises(psr.LibraryError, match='x.h5 is HDF5, for which h5py is needed'):\n"
        "        call()\n"
    )
    run(program, 2)
