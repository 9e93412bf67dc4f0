"""Every example, on small sizes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import launch
import numpy as np
import pytest
import scipy.io

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SIZES: dict[str, tuple[int, list[str]]] = {
    "lu_phase_change.py": (4, ["--panels", "8", "--grid", "2x2", "--block", "4", "--plot", "charge.png"]),
    "fft3d.py": (4, ["--shape", "9", "14", "11", "--repeat", "1", "--plot", "fft.png"]),
    "eigen_phase_change.py": (4, ["--side", "8", "--blocks", "4", "8"]),
    "row_slabs.py": (4, ["--order", "90", "--block", "16"]),
    "your_library.py": (4, ["--client", "PyScalapack", "--order", "70"]),
    "malleable_solver.py": (6, ["--points", "200", "--iterations", "5"]),
    "overlap.py": (3, ["--order", "70", "--columns", "16", "--points", "2"]),
    "producer_consumer.py": (
        5,
        ["--producers", "2", "--points", "31", "--frames", "40", "--steps", "2", "--block", "4"],
    ),
}

# Files that are not programs are modules of those that are.
PROGRAMS = {path.name for path in EXAMPLES.glob("*.py") if '__name__ == "__main__"' in path.read_text()}


@pytest.mark.parametrize("name", sorted({*SIZES, *PROGRAMS}))
def test_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name in SIZES, f"give {name} its ranks and small sizes in this file"
    ranks, args = SIZES[name]
    if name == "your_library.py" and find_spec("PyScalapack") is None:
        pytest.skip("PyScalapack is not installed: pip install PyScalapack")
    monkeypatch.chdir(tmp_path)
    launch.run(EXAMPLES / name, ranks, *args)
    pictures = [arg for arg in args if arg.endswith(".png")]
    assert all(Path(picture).stat().st_size > 1000 for picture in pictures)


@pytest.mark.parametrize("suffix", [".npy", ".mtx"])
def test_lu_of_a_matrix_in_a_file(suffix: str, tmp_path: Path) -> None:
    matrix = np.random.default_rng(5).standard_normal((50, 50)) + 10 * np.eye(50)
    file = tmp_path / f"matrix{suffix}"
    if suffix == ".npy":
        np.save(file, matrix)
    else:
        scipy.io.mmwrite(file, matrix)
    launch.run(EXAMPLES / "lu_phase_change.py", 3, "--matrix", file, "--grid", "1x3", "--block", "8")
