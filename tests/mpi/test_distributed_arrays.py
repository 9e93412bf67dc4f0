"""Arrays that know their layouts, over real ranks: random search beside the oracle, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import SEED, run

PROGRAMS = Path(__file__).parent / "programs"
long = pytest.mark.long


@pytest.mark.parametrize(
    ("ranks", "cases"),
    [(1, 8), (2, 12), (4, 12), pytest.param(3, 40, marks=long), pytest.param(6, 40, marks=long)],
)
def test_random_distributed_arrays(ranks: int, cases: int) -> None:
    assert run(PROGRAMS / "distributed_arrays.py", ranks, cases, SEED + ranks, timeout=250).stdout == "OK\n"


@pytest.mark.long
def test_random_distributed_arrays_between_nodes() -> None:
    env = {"PYSCALAPACK_REDIST_NODES": "0,1,1,2"}
    assert run(PROGRAMS / "distributed_arrays.py", 4, 20, SEED, timeout=250, env=env).stdout == "OK\n"
