"""Several plans as one, over real ranks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from launch import run

PROGRAM = Path(__file__).parent / "programs" / "batches.py"
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20260"))


@pytest.mark.parametrize(("ranks", "batches"), [(1, 40), (2, 60), (3, 40), (4, 40), (6, 20)])
def test_random_batches(ranks: int, batches: int) -> None:
    assert run(PROGRAM, ranks, batches, 10, SEED + ranks, timeout=250).stdout == "OK\n"


@pytest.mark.parametrize("nodes", ["0,1", "0,0,1,1", "0,1,0,2"])
def test_random_batches_between_nodes(nodes: str) -> None:
    """Some pairs through shared memory, the others by MPI; or all by MPI."""
    env = {"PYSCALAPACK_REDIST_NODES": nodes}
    assert run(PROGRAM, len(nodes.split(",")), 18, 8, SEED, timeout=250, env=env).stdout == "OK\n"
