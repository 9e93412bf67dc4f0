"""Redistributions over real ranks, each program under one mpiexec."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from launch import run

PROGRAMS = Path(__file__).parent / "programs"
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20260"))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8])
def test_random_layouts(ranks: int) -> None:
    done = run(PROGRAMS / "random_layouts.py", ranks, 1350, SEED + ranks, timeout=250)
    assert done.stdout.split() == ["1350", "cases,", "seed", str(SEED + ranks), "OK"]


def test_datatypes_of_random_boxes() -> None:
    assert run(PROGRAMS / "datatypes.py", 1, 500, SEED, timeout=120).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [4, 5])
def test_bad_input_is_an_error_on_every_rank(ranks: int) -> None:
    assert run(PROGRAMS / "bad_input.py", ranks, timeout=120).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_transfers_in_flight_and_kinds_of_communicators(ranks: int) -> None:
    assert run(PROGRAMS / "transfers.py", ranks, timeout=120).stdout.endswith("self\nOK\n")


def test_nothing_is_left_behind() -> None:
    done = run(PROGRAMS / "resources.py", 4, 10_000, 1_000, 500, timeout=280)
    assert done.stdout.endswith("OK\n"), done.stdout
