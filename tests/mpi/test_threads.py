"""Ranks whose large moves are shared among threads: the random cases of other tests, and what the environment says wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import cases, run

PROGRAMS = Path(__file__).parent / "programs"
SEED = 20261
pytestmark = pytest.mark.any_mpi


@pytest.mark.parametrize(
    ("ranks", "threads", "nodes"), [(1, 2, ""), (1, 3, ""), (2, 3, ""), (3, 2, "0,1,2"), (4, 2, "0,0,1,1")]
)
@pytest.mark.parametrize("program", ["random_layouts.py", "operations.py", "random_dimensions.py", "tiles.py"])
def test_random_cases(program: str, ranks: int, threads: int, nodes: str) -> None:
    env = {"PYSCALAPACK_REDIST_THREADS": str(threads), **({"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {})}
    done = run(PROGRAMS / "threaded.py", ranks, program, cases(120), SEED + ranks, timeout=250, env=env)
    assert done.stdout.endswith("OK\n")


@pytest.mark.parametrize("program", ["random_layouts.py", "operations.py"])
@pytest.mark.parametrize(("ranks", "area", "slots"), [(2, 2048, 2), (3, 65536, 4)])
def test_random_cases_as_if_they_were_large(program: str, ranks: int, area: int, slots: int) -> None:
    """What stays on a rank is copied by threads, beside what goes through the ring."""
    env = {"PYSCALAPACK_REDIST_THREADS": "2"}
    done = run(PROGRAMS / "threaded.py", ranks, program, cases(100), SEED, area, slots, timeout=250, env=env)
    assert done.stdout.endswith("OK\n")


@pytest.mark.parametrize(("ranks", "nodes"), [(1, ""), (2, ""), (2, "0,1"), (3, "0,1,1")])
def test_a_number_of_threads_that_is_none(ranks: int, nodes: str) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    assert run(PROGRAMS / "wrong_threads.py", ranks, env=env).stdout == "OK\n"
