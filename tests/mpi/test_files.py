"""Files read and written by several ranks, beside NumPy's own, h5py's and zarr's."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import SEED, run

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize(
    ("ranks", "cases"),
    [
        (1, 20),
        (2, 30),
        (4, 10),
        *(pytest.param(n, cases, marks=pytest.mark.long) for n, cases in ((1, 120), (2, 120), (4, 90), (6, 60))),
    ],
)
def test_random_arrays(ranks: int, cases: int, tmp_path: Path) -> None:
    assert run(PROGRAMS / "files.py", ranks, tmp_path, cases, SEED + ranks, timeout=250).stdout == "OK\n"


@pytest.mark.parametrize(
    ("ranks", "cases"),
    [(2, 28), *(pytest.param(n, cases, marks=pytest.mark.long) for n, cases in ((1, 140), (2, 280), (4, 140)))],
)
def test_hdf5_of_every_kind(ranks: int, cases: int, tmp_path: Path) -> None:
    """Alone: HDF5 keeps a file that it could not write, on a full disk, until the process ends."""
    pytest.importorskip("h5py")
    program = PROGRAMS / "hdf5_files.py"
    assert run(program, ranks, tmp_path, cases, SEED + ranks, timeout=250, alone=True).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 2, pytest.param(4, marks=pytest.mark.long)])
def test_errors_on_every_rank(ranks: int, tmp_path: Path) -> None:
    assert run(PROGRAMS / "file_errors.py", ranks, tmp_path).stdout == "OK\n"


@pytest.mark.parametrize("name", ["kept.npy", "kept.h5", "kept.zarr"])
@pytest.mark.parametrize("ranks", [2, pytest.param(1, marks=pytest.mark.long)])
def test_what_a_killed_save_has_left(ranks: int, name: str, tmp_path: Path) -> None:
    if not name.endswith(".npy"):
        pytest.importorskip({".zarr": "zarr", ".h5": "h5py"}[Path(name).suffix])
    program = PROGRAMS / "killed_save.py"
    assert run(program, ranks, tmp_path, name, "killed", timeout=60, check=False).returncode
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(f".{name}.")]
    assert run(program, ranks, tmp_path, name, "next", timeout=60).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [2, pytest.param(1, marks=pytest.mark.long)])
def test_types_that_numpy_writes_alike(ranks: int, tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    assert run(PROGRAMS / "foreign_types.py", ranks, tmp_path).stdout == "OK\n"
