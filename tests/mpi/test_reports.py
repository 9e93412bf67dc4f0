"""Reports of all ranks over real ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import run

PROGRAM = Path(__file__).parent / "programs" / "reports_of_all.py"
long = pytest.mark.long


@pytest.mark.parametrize(
    ("ranks", "nodes"),
    [(4, ""), *(pytest.param(*row, marks=long) for row in ((1, ""), (2, ""), (3, ""), (4, "0,0,1,1")))],
)
def test_reports_of_all_ranks(ranks: int, nodes: str) -> None:
    assert run(PROGRAM, ranks, env={"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}).stdout == "OK\n"
