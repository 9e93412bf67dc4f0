"""What `simulate` takes for a plan's messages, held against real plans."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import run

pytestmark = pytest.mark.any_mpi
PROGRAMS = Path(__file__).parent / "programs"


def test_simulated_messages_are_the_plans_messages() -> None:
    assert run(PROGRAMS / "simulated_traffic.py", 6, timeout=120).stdout == "OK\n"
