"""Linear algebra on distributed arrays, beside NumPy's and SciPy's."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import run

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_linear_systems_are_those_of_numpy(ranks: int) -> None:
    assert run(PROGRAMS / "linear_systems.py", ranks, timeout=120).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_products_and_decompositions_are_those_of_numpy(ranks: int) -> None:
    assert run(PROGRAMS / "decompositions.py", ranks, timeout=280).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [2, 4])
def test_bad_input_is_an_error_on_every_rank(ranks: int) -> None:
    assert run(PROGRAMS / "linalg_errors.py", ranks, timeout=120).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_generalized_problems_any_rank_traces_and_memory(ranks: int) -> None:
    assert run(PROGRAMS / "linalg_additions.py", ranks, timeout=280).stdout == "OK\n"
