"""The engine and the descriptors beside a real ScaLAPACK."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from launch import cases, run

PROGRAMS = Path(__file__).parent / "programs"
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20260"))


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_random_pairs_are_those_of_pxgemr2d(ranks: int) -> None:
    done = run(PROGRAMS / "against_pxgemr2d.py", ranks, cases(500), SEED + ranks, timeout=250)
    assert done.stdout.endswith("OK\n"), done.stdout


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_operations_are_those_of_pdtran_and_pdgeadd(ranks: int) -> None:
    assert run(PROGRAMS / "against_pdtran.py", ranks, cases(150), SEED + ranks, timeout=120).stdout == "OK\n"


def test_benchmark_of_operations() -> None:
    options = ("--order", 40, "--block", 3, "--dtypes", "float32", "complex128", "--repeat", 1)
    printed = run(BENCHMARKS / "operations.py", 2, *options).stdout
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("| 40 ")
    ]
    made = [row[1:4] for row in rows]
    assert made == [
        [dtype, what, factors]
        for dtype, ways in (("float32", ("same", "column", "T")), ("complex128", ("same", "column", "T", "C")))
        for what in ways
        for factors in ("alone", "beta = 1", "alpha and beta")
    ]
    assert all((row[2] == "column") == (row[-1] == "") for row in rows), "ScaLAPACK has no routine for another grid"


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
