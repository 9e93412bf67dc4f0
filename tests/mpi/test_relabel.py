"""Relabelled layouts on real ranks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from launch import run

PROGRAM = Path(__file__).parent / "programs" / "relabelling.py"
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20262"))


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_random_layouts(ranks: int) -> None:
    assert run(PROGRAM, ranks, 100, SEED + ranks, timeout=200).stdout == "OK\n"


def test_the_environment_has_the_node_map() -> None:
    assert run(PROGRAM, 4, 0, SEED, env={"PYSCALAPACK_REDIST_NODES": "0,1,1,0"}).stdout == "OK\n"
