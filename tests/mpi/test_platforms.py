"""What other systems than Linux lack, taken away."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import run

PROGRAM = Path(__file__).parent / "programs" / "without_linux.py"


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.long), 2])
def test_plans_exchanges_and_files_without_what_only_linux_has(ranks: int) -> None:
    assert run(PROGRAM, ranks, timeout=120, alone=True).stdout == "OK\n"
