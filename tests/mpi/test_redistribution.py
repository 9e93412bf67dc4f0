"""Redistributions over real ranks, each program under one mpiexec."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from launch import cases, run

PROGRAMS = Path(__file__).parent / "programs"
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20260"))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8])
def test_random_layouts(ranks: int) -> None:
    done = run(PROGRAMS / "random_layouts.py", ranks, cases(630), SEED + ranks, timeout=250)
    assert done.stdout.split() == [str(cases(630)), "cases,", "seed", str(SEED + ranks), "OK"]


@pytest.mark.parametrize(
    ("ranks", "area", "slots", "stream_from"), [(2, 2048, 2, 0), (4, 8192, 4, 0), (4, 256, 1, 0), (3, 65536, 4, 2**30)]
)
def test_random_layouts_as_if_they_were_large(ranks: int, area: int, slots: int, stream_from: int) -> None:
    """Stores past the cache or not, and a ring so small that it goes round many times."""
    done = run(PROGRAMS / "random_layouts.py", ranks, cases(160), SEED + ranks, area, slots, stream_from, timeout=250)
    assert done.stdout.endswith("OK\n")


@pytest.mark.parametrize("nodes", ["0,0,1,1", "0,1,0,2,1,1", "0,1,2,3,4"])
def test_random_layouts_between_nodes(nodes: str) -> None:
    """Some pairs through shared memory, the others by MPI; all by MPI."""
    ranks = len(nodes.split(","))
    env = {"PYSCALAPACK_REDIST_NODES": nodes}
    done = run(PROGRAMS / "random_layouts.py", ranks, cases(630), SEED, timeout=250, env=env)
    assert done.stdout.endswith("OK\n")


@pytest.mark.parametrize(("nodes", "nbytes"), [("0,1", 40), ("0,1,2,3", 100), ("0,0,1,2,2", 24)])
def test_random_layouts_in_short_pieces_of_many_messages(nodes: str, nbytes: int, tmp_path: Path) -> None:
    """As between nodes with slow links."""
    links = tmp_path / "links.json"
    links.write_text(json.dumps({"latency": 1e-6, "rate": 1e4}))
    env = {"PYSCALAPACK_REDIST_NODES": nodes, "PYSCALAPACK_REDIST_LINKS": str(links)}
    ranks = len(nodes.split(","))
    done = run(PROGRAMS / "random_layouts.py", ranks, cases(160), SEED + ranks, nbytes, timeout=250, env=env)
    assert done.stdout.endswith("OK\n")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_plans_called_again_and_again(ranks: int) -> None:
    assert run(PROGRAMS / "repeated_calls.py", ranks, cases(60), 24, SEED + ranks, timeout=200).stdout == "OK\n"


@pytest.mark.parametrize("nodes", ["0,1,2,3", "0,1,1,2"])
def test_plans_called_again_between_nodes(nodes: str) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes}
    assert run(PROGRAMS / "repeated_calls.py", 4, cases(60), 24, SEED, timeout=200, env=env).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_operations_on_the_way(ranks: int) -> None:
    assert run(PROGRAMS / "operations.py", ranks, cases(300), SEED + ranks).stdout == "OK\n"


@pytest.mark.parametrize(("ranks", "area", "slots"), [(2, 65536, 4), (4, 8192, 2)])
def test_operations_as_if_arrays_were_large(ranks: int, area: int, slots: int) -> None:
    assert run(PROGRAMS / "operations.py", ranks, cases(200), SEED + ranks, area, slots).stdout == "OK\n"


@pytest.mark.parametrize(("ranks", "nodes"), [(1, "0"), (2, "0,0"), (3, "0,0,0"), (3, "0,1,1")])
def test_factors_in_turn(ranks: int, nodes: str) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes}
    assert run(PROGRAMS / "factors_in_turn.py", ranks, cases(60), SEED, env=env).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_trapezoids(ranks: int) -> None:
    assert run(PROGRAMS / "trapezoids.py", ranks, cases(200), SEED + ranks, timeout=250).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_blocks_of_superblocks_in_phases(ranks: int) -> None:
    assert run(PROGRAMS / "superblocks.py", ranks, cases(60), SEED + ranks).stdout == "OK\n"
