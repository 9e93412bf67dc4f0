"""The matrix of hostile operands: all pairs in the long tier, and a sample of the day in the default one."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest
from launch import run

FOLDER = Path(__file__).parent
PARTS = 8
# The sample changes by the day; the output has its seed, with which the variable draws it again.
SEED = int(os.environ.get("PYSCALAPACK_REDIST_HOSTILE_SEED") or datetime.date.today().strftime("%Y%m%d"))
ENV = {"PYSCALAPACK_REDIST_TIMEOUT": "20"}


def test_nothing_is_missing() -> None:
    assert run(FOLDER / "completeness.py", 1).stdout == "OK\n"


# Reductions, indexing and functions of elements, in ordinary circumstances
ONLY = {
    "": ".",
    "of one rank": r" on one rank \|",
    "in flight": r"(start overwrite|first after|there and back).*\| a \| (ordinary|shape=many pages)$",
    "replicas": r"^DistributedArray\.(sum|mean|var|trace|diagonal).*layout=replicas",
    "interrupted": r"\| (interrupted (before|after) vote|no memory at allocation) [01]$",
    "arrays": r"^(DistributedArray\.(?!redistribute|gather|save|load)|operator|numpy)[^|]*\|[^|]*\|[^|]*$",
}
LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("ranks", "cases", "only", "nodes"),
    [
        *((1, 1200, "", ""), (2, 1200, "", ""), (3, 800, "", ""), (4, 400, "", "0,0,1,1")),
        *((1, 600, "arrays", ""), (2, 600, "arrays", ""), (4, 400, "arrays", "")),
        *((2, "all", "replicas", ""), (2, "all", "of one rank", ""), (3, "all", "of one rank", "0,1,0")),
        *((2, "all", "in flight", ""), (3, "all", "in flight", "0,1,0"), (2, "all", "interrupted", "")),
        *(pytest.param(*row, marks=LONG) for row in ((3, 2000, "arrays", ""), (4, 2000, "arrays", "0,1,1,2"))),
        pytest.param(6, 800, "arrays", "", marks=LONG),
    ],
)
def test_sample(ranks: int, cases: int | str, only: str, nodes: str) -> None:
    words, env = ("--seed", SEED, "--only", ONLY[only]), {**ENV, **({"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {})}
    done = run(FOLDER / "matrix.py", ranks, cases, *words, timeout=280, env=env, alone=True)
    print(done.stdout)
    assert done.stdout.endswith("OK\n"), done.stdout


@LONG
@pytest.mark.skipif("PYSCALAPACK_REDIST_HOSTILE_ALL" not in os.environ, reason="set PYSCALAPACK_REDIST_HOSTILE_ALL=1")
@pytest.mark.parametrize("part", range(1, PARTS + 1))
@pytest.mark.parametrize(("ranks", "nodes"), [(2, ""), (3, ""), (2, "0,1")])
def test_all_pairs(ranks: int, nodes: str, part: int) -> None:
    env = {**ENV, "PYSCALAPACK_REDIST_NODES": nodes} if nodes else ENV
    words = ("all", "--part", f"{part}/{PARTS}", "--seed", SEED)
    done = run(FOLDER / "matrix.py", ranks, *words, timeout=280, env=env, alone=True)
    assert done.stdout.endswith("OK\n"), done.stdout
