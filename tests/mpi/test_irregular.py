"""Irregular blocks over real ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import run

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("ranks", [1, 2, 4, 7])
def test_every_operation(ranks: int, tmp_path: Path) -> None:
    assert run(PROGRAMS / "irregular.py", ranks, tmp_path, timeout=120).stdout == "OK\n"
