"""Random cases on real ranks, each compared with the oracle: layouts, arrays, operations, ways and uses of plans."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from cases import TABLE
from launch import SEED, run

PROGRAM = Path(__file__).parent / "programs" / "random_cases.py"
long = pytest.mark.long


def drawn(ranks: int, cases: int, *forced: object, env: dict[str, str] | None = None) -> Counter[str]:
    """Run so many cases; how often there was what."""
    done = run(PROGRAM, ranks, cases, SEED + ranks, *forced, timeout=280, env=env)
    return Counter(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("ranks", "cases"),
    [
        (1, 80),
        (2, 150),
        (4, 240),
        pytest.param(3, 500, marks=long),
        pytest.param(6, 300, marks=long),
        pytest.param(8, 300, marks=long),
    ],
)
def test_cases(ranks: int, cases: int) -> None:
    found = drawn(ranks, cases)
    assert found["use call"] > cases // 2
    assert ranks == 1 or found["compiled"]


@pytest.mark.long
def test_all_is_drawn() -> None:
    """Nothing that the package can do drops out of what is drawn."""
    found = drawn(4, 1200)
    assert not [name for name in TABLE if not found[name]]


@pytest.mark.parametrize(
    ("ranks", "cases", "ring"),
    [
        (2, 60, (2048, 2, 0)),
        (4, 60, (8192, 4, 0)),
        pytest.param(4, 200, (256, 1, 0), marks=long),
        pytest.param(3, 200, (65536, 4, 2**30), marks=long),
    ],
)
def test_arrays_go_the_way_of_large_ones(ranks: int, cases: int, ring: tuple[int, ...]) -> None:
    """Stores past the cache or not, and a ring so small that it goes round many times."""
    assert drawn(ranks, cases, "ring", *ring)["use call"]


@pytest.mark.parametrize(
    ("nodes", "cases"),
    [
        ("0,1", 80),
        ("0,0,1,1", 80),
        pytest.param("0,1,2,3", 400, marks=long),
        pytest.param("0,1,0,2,1,1", 250, marks=long),
    ],
)
def test_cases_between_nodes(nodes: str, cases: int) -> None:
    """Some pairs through shared memory, the others by MPI; or all by MPI."""
    assert drawn(len(nodes.split(",")), cases, env={"PYSCALAPACK_REDIST_NODES": nodes})["use call"]


@pytest.mark.parametrize(
    ("nodes", "cases"),
    [
        ("0,0,1,1", 60),
        ("0,1,1,1", 60),
        pytest.param("0,1,0,2,1,1", 250, marks=long),
        pytest.param("0,1,2,0,1,2,0,1", 250, marks=long),
        pytest.param("0,0,1", 250, marks=long),
    ],
)
def test_one_message_from_node_to_node(nodes: str, cases: int) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes}
    assert drawn(len(nodes.split(",")), cases, "exchange", "node-packed", env=env)["exchange node-packed"]


@pytest.mark.parametrize(
    ("nodes", "cases", "nbytes"),
    [("0,1", 40, 40), pytest.param("0,1,2,3", 150, 100, marks=long), pytest.param("0,0,1,2,2", 150, 24, marks=long)],
)
def test_messages_in_short_pieces(nodes: str, cases: int, nbytes: int, tmp_path: Path) -> None:
    """As between nodes with slow links."""
    links = tmp_path / "links.json"
    links.write_text(json.dumps({"latency": 1e-6, "rate": 1e4}))
    env = {"PYSCALAPACK_REDIST_NODES": nodes, "PYSCALAPACK_REDIST_LINKS": str(links)}
    assert drawn(len(nodes.split(",")), cases, "pieces", nbytes, env=env)["use call"]


@pytest.mark.parametrize(
    ("ranks", "nodes"),
    [
        *((1, ""), (2, ""), (4, "")),
        *(pytest.param(*row, marks=long) for row in ((3, ""), (4, "0,1,2,3"), (4, "0,0,1,1"))),
    ],
)
def test_special_cases(ranks: int, nodes: str) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    assert run(PROGRAM.with_name("special_cases.py"), ranks, env=env).stdout == "OK\n"


@pytest.mark.parametrize(
    ("ranks", "nodes", "cases", "mebibytes"),
    [
        (1, "", 20, 32),
        (2, "", 40, 64),
        (3, "0,0,1", 40, 0),
        *(pytest.param(*row, marks=long) for row in ((2, "", 400, 512), (4, "", 400, 256))),
        *(pytest.param(*row, marks=long) for row in ((3, "0,1,2", 400, 0), (2, "0,1", 100, 256))),
    ],
)
def test_redistributions_that_consume_a(ranks: int, nodes: str, cases: int, mebibytes: int) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    run(PROGRAM.with_name("consumed.py"), ranks, SEED, cases, mebibytes, env=env, timeout=280)


@pytest.mark.parametrize(
    ("ranks", "nodes", "cases", "pieces"),
    [
        (1, "", 20, ()),
        (4, "", 60, ()),
        (2, "0,1", 30, ()),
        (4, "0,0,1,1", 40, (100,)),
        *(pytest.param(*row, marks=long) for row in ((4, "", 400, ()), (8, "", 100, ()), (6, "0,1,1,1,2,2", 100, ()))),
        *(pytest.param(*row, marks=long) for row in ((3, "0,1,2", 200, (100,)), (4, "0,0,0,1", 200, ()))),
    ],
)
def test_sums_of_replicas(ranks: int, nodes: str, cases: int, pieces: tuple[int, ...]) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    run(PROGRAM.with_name("sums.py"), ranks, SEED, cases, *pieces, env=env, timeout=280, alone=bool(pieces))


@pytest.mark.parametrize(
    ("what", "check", "succeeds"),
    [
        ("overwrite", "1", True),
        ("ordinary", "1", False),
        ("ordinary", "0", False),
    ],
)
def test_memory_of_a_control_group(what: str, check: str, succeeds: bool, control_group: Path) -> None:
    env = {"PYSCALAPACK_REDIST_MEMORY_CHECK": check}
    program = PROGRAM.with_name("consumed.py")
    done = run(program, 2, "limited", control_group, what, env=env, check=False, alone=True)
    assert (done.returncode == 0) == (done.stdout == "OK\n") == succeeds, done
    if check == "1" and not succeeds:
        assert "not enough free memory for B" in done.stderr
