"""Relabelled layouts on real ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import SEED, run

PROGRAM = Path(__file__).parent / "programs" / "relabelling.py"


@pytest.mark.parametrize(
    ("ranks", "cases"),
    [(1, 10), (4, 15), *(pytest.param(ranks, 100, marks=pytest.mark.long) for ranks in (1, 2, 4, 6))],
)
def test_random_layouts(ranks: int, cases: int) -> None:
    assert run(PROGRAM, ranks, cases, SEED + ranks, timeout=200).stdout == "OK\n"


def test_the_environment_has_the_node_map() -> None:
    assert run(PROGRAM, 4, 0, SEED, env={"PYSCALAPACK_REDIST_NODES": "0,1,1,0"}).stdout == "OK\n"
