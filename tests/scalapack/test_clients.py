"""Arrays and descriptors that other packages made: PyScalapack, scalapack4py, and PETSc's ScaLAPACK matrices."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import launch
import packages
import pytest

pytestmark = pytest.mark.long
PROGRAMS = Path(__file__).parent / "programs"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "your_library.py"


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
    """Alone: its number must not be that of a context which an earlier program has left."""
    said = launch.run(PROGRAMS / "other_library.py", 2, tmp_path, alone=True).stdout
    assert said in ("OK\n", "MKL\n")
    if said == "MKL\n":
        pytest.skip("MKL's files cannot be loaded two times")


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_petsc(ranks: int) -> None:
    done = launch.run(PROGRAMS / "with_petsc4py.py", ranks, env=packages.environment("petsc4py"), alone=True)
    assert done.stdout == "OK\n"
