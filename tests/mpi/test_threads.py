"""Ranks whose large moves are shared among threads: random cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import SEED, run

PROGRAMS = Path(__file__).parent / "programs"
THREADS, NODES = "PYSCALAPACK_REDIST_THREADS", "PYSCALAPACK_REDIST_NODES"
pytestmark = pytest.mark.any_mpi


def long(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("ranks", "number", "threads", "nodes", "forced"),
    [
        (2, 40, 3, "", ()),
        long(1, 300, 3, "", ()),
        long(4, 300, 2, "0,0,1,1", ()),
        long(4, 300, 2, "", ("ring", 65536, 4, 2**30)),
    ],
)
def test_random_cases(ranks: int, number: int, threads: int, nodes: str, forced: tuple[object, ...]) -> None:
    """What stays on a rank is copied by threads, beside what goes through the ring."""
    env = {THREADS: str(threads), **({NODES: nodes} if nodes else {})}
    run(PROGRAMS / "threaded.py", ranks, "random_cases.py", number, SEED, *forced, timeout=250, env=env)
