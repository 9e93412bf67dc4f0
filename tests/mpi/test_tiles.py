"""Tiles over real ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import run

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_random_tiles_and_bad_input(ranks: int) -> None:
    assert run(PROGRAMS / "tiles.py", ranks, 60, ranks, timeout=240).stdout.endswith("OK\n")
