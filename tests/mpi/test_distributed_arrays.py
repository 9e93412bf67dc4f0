"""Arrays that know their layouts, over real ranks: random search beside the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import SEED, run

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize(
    ("ranks", "cases", "nodes"),
    [
        *((1, 8, ""), (2, 12, ""), (4, 12, "")),
        *(pytest.param(*row, marks=pytest.mark.long) for row in ((3, 40, ""), (6, 40, ""), (4, 20, "0,1,1,2"))),
    ],
)
def test_random_distributed_arrays(ranks: int, cases: int, nodes: str) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    done = run(PROGRAMS / "distributed_arrays.py", ranks, cases, SEED + ranks, timeout=250, env=env)
    assert done.stdout == "OK\n"


@pytest.mark.parametrize("program", ["reductions.py", "indexing.py"])
@pytest.mark.parametrize(
    ("ranks", "nodes"),
    [(1, ""), (2, ""), (4, ""), *(pytest.param(*row, marks=pytest.mark.long) for row in ((3, ""), (4, "0,1,1,2")))],
)
def test_reductions_and_indexing(ranks: int, nodes: str, program: str) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    assert run(PROGRAMS / program, ranks, timeout=250, env=env).stdout == "OK\n"


@pytest.mark.parametrize(
    ("ranks", "nodes"), [(1, ""), (2, ""), (4, ""), pytest.param(3, "0,1,1", marks=pytest.mark.long)]
)
def test_the_order_of_elements_in_new_arrays(ranks: int, nodes: str, tmp_path: Path) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    assert run(PROGRAMS / "orders.py", ranks, tmp_path, timeout=100, env=env).stdout == "OK\n"


@pytest.mark.timeout(1600)
@pytest.mark.parametrize(
    ("ranks", "tier"),
    [(1, ""), (2, ""), (4, ""), *(pytest.param(ranks, "long", marks=pytest.mark.long) for ranks in (1, 2, 3, 4))],
)
def test_functions_of_numpy(ranks: int, tier: str) -> None:
    timeout = 1500 if tier else 250
    arguments = [tier] if tier else []
    assert run(PROGRAMS / "numpy_functions.py", ranks, *arguments, timeout=timeout).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 2, pytest.param(3, marks=pytest.mark.long), 4])
def test_arrays_of_numbers_of_rows_and_of_files(ranks: int, tmp_path: Path) -> None:
    assert run(PROGRAMS / "creation.py", ranks, tmp_path, timeout=100).stdout == "OK\n"
