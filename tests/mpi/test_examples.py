"""Every example, on small sizes."""

from __future__ import annotations

from pathlib import Path

import launch
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SIZES: dict[str, tuple[int, list[str]]] = {
    "lu_phase_change.py": (4, ["--panels", "8", "--grid", "2x2", "--block", "4", "--plot", "charge.png"]),
}

# Files that are not programs are modules of those that are.
PROGRAMS = {path.name for path in EXAMPLES.glob("*.py") if '__name__ == "__main__"' in path.read_text()}


@pytest.mark.parametrize("name", sorted({*SIZES, *PROGRAMS}))
def test_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name in SIZES, f"give {name} its ranks and small sizes in this file"
    ranks, args = SIZES[name]
    monkeypatch.chdir(tmp_path)
    launch.run(EXAMPLES / name, ranks, *args)
    pictures = [arg for arg in args if arg.endswith(".png")]
    assert all(Path(picture).stat().st_size > 1000 for picture in pictures)
