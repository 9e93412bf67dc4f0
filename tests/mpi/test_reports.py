"""Reports of all ranks over real ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import run

PROGRAM = Path(__file__).parent / "programs" / "reports_of_all.py"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_reports_of_all_ranks(ranks: int) -> None:
    assert run(PROGRAM, ranks, timeout=120).stdout == "OK\n"


def test_reports_between_nodes() -> None:
    assert run(PROGRAM, 4, timeout=120, env={"PYSCALAPACK_REDIST_NODES": "0,0,1,1"}).stdout == "OK\n"
