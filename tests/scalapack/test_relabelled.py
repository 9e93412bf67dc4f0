"""A relabelled layout is an ordinary one for the real library."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import run

PROGRAM = Path(__file__).parent / "programs" / "relabelled_lu.py"


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_factors_and_solves(ranks: int) -> None:
    assert run(PROGRAM, ranks, timeout=120).stdout == "OK\n"
