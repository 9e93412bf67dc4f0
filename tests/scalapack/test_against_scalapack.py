"""The engine and the descriptors beside a real ScaLAPACK."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from launch import cases, run

PROGRAMS = Path(__file__).parent / "programs"
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20260"))


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_random_pairs_are_those_of_pxgemr2d(ranks: int) -> None:
    done = run(PROGRAMS / "against_pxgemr2d.py", ranks, cases(500), SEED + ranks, timeout=250)
    assert done.stdout.endswith("OK\n"), done.stdout


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_operations_are_those_of_pdtran_and_pdgeadd(ranks: int) -> None:
    assert run(PROGRAMS / "against_pdtran.py", ranks, cases(150), SEED + ranks, timeout=120).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_random_trapezoids_are_those_of_pxtrmr2d(ranks: int) -> None:
    done = run(PROGRAMS / "against_pxtrmr2d.py", ranks, cases(300), SEED + ranks, timeout=250)
    assert done.stdout.endswith("OK\n"), done.stdout


def test_nine_integer_descriptors(tmp_path: Path) -> None:
    assert run(PROGRAMS / "descriptors.py", 4, tmp_path, timeout=120).stdout == "OK\n"


def test_library_and_contexts() -> None:
    assert run(PROGRAMS / "library_program.py", 4, timeout=200).stdout.endswith("OK\n")


@pytest.mark.parametrize("ranks", [2, 4])
def test_routines_take_distributed_arrays(ranks: int) -> None:
    assert run(PROGRAMS / "distributed_arrays.py", ranks, timeout=120).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [2, 4])
def test_nine_integers(ranks: int) -> None:
    assert run(PROGRAMS / "nine_integers.py", ranks, timeout=120).stdout == "OK\n"
