"""Matrices that know their layouts, over real ranks: random search beside the oracle, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from launch import run

PROGRAMS = Path(__file__).parent / "programs"
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20264"))


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_random_distributed_arrays(ranks: int) -> None:
    done = run(PROGRAMS / "distributed_arrays.py", ranks, 40, SEED + ranks, timeout=250)
    assert done.stdout == f"40 cases, seed {SEED + ranks} OK\n"


def test_random_distributed_arrays_between_nodes() -> None:
    env = {"PYSCALAPACK_REDIST_NODES": "0,1,1,2"}
    assert run(PROGRAMS / "distributed_arrays.py", 4, 20, SEED, timeout=250, env=env).stdout.endswith("OK\n")


@pytest.mark.parametrize("ranks", [3, 4])
def test_errors_on_every_rank(ranks: int, tmp_path: Path) -> None:
    assert run(PROGRAMS / "distributed_array_errors.py", ranks, tmp_path, timeout=120).stdout == "OK\n"
