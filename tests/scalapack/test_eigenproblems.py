"""The eigenproblem that ScaLAPACK solves for us, against NumPy."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import run

PROGRAM = Path(__file__).parent / "programs" / "eigenproblems.py"


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_values_and_vectors_are_those_of_numpy(ranks: int) -> None:
    assert run(PROGRAM, ranks, timeout=120).stdout == "OK\n"
