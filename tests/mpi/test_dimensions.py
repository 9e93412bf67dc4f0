"""Arrays of 1 to 6 dimensions over real ranks: random search, groups of processes, merged dimensions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from launch import cases, run

PROGRAMS = Path(__file__).parent / "programs"
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20261"))
CASES = cases(570)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8])
def test_random_dimensions(ranks: int) -> None:
    done = run(PROGRAMS / "random_dimensions.py", ranks, CASES, SEED + ranks, timeout=250)
    assert done.stdout.split() == [str(CASES), "cases,", "seed", str(SEED + ranks), "OK"]


def test_random_dimensions_as_if_they_were_large() -> None:
    """Stores past the cache, and messages that share lines moved together."""
    assert run(PROGRAMS / "random_dimensions.py", 4, cases(160), SEED, 65536, 4, timeout=250).stdout.endswith("OK\n")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_groups_and_merged_dimensions(ranks: int) -> None:
    assert run(PROGRAMS / "dimensions.py", ranks, timeout=120).stdout == "OK\n"
