"""Every algorithm in both forms finds what dealing out one element at a time finds, on thousands of random axes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from pyscalapack_redist import BlockCyclic, intersections

sys.path.insert(0, str(Path(__file__).parent))
from axes import random_axes, shared

PAIRS = 1500  # for each of the eight loops; the seeds differ


@pytest.mark.parametrize("form", intersections.FORMS)
@pytest.mark.parametrize("algorithm", intersections.ALGORITHMS)
def test_against_brute_force(algorithm: str, form: str) -> None:
    rng = np.random.default_rng([ord(letter) for letter in algorithm + form])
    nothing = 0
    for _ in range(PAIRS):
        a, b = random_axes(rng)
        for p, expected in enumerate(shared(a, b)):
            found = intersections.find(algorithm, a, b, p, form=form)
            elements = [(q, x + k, y + k) for q, x, y, length in found.expand().tolist() for k in range(length)]
            assert elements == expected, (a, b, p)
            assert found.size == len(expected)
            assert all(
                column.dtype == np.int64 for column in (found.remote, found.start_a, found.start_b, found.length)
            )
            nothing += not expected
    assert nothing > PAIRS / 10  # processes that hold nothing are among them


def test_all_find_the_same_runs() -> None:
    """Not only the same elements: the same cuts, the same count in both forms, one answer for all."""
    rng = np.random.default_rng(1)
    for _ in range(PAIRS):
        a, b = random_axes(rng)
        for p in range(a.processes):
            rows = {}
            for name in intersections.ALGORITHMS:
                first, other = (intersections.find(name, a, b, p, form=form) for form in intersections.FORMS)
                assert first.comparisons == other.comparisons, (name, a, b, p)
                rows[name] = first.expand().tolist()
                assert rows[name] == other.expand().tolist(), (name, a, b, p)
            assert rows["falls"] == rows["scan"] == rows["aspen"], (a, b, p)
            if (
                not a.offset and not b.offset
            ):  # else a block may be cut where a period ends, which classical does not see
                assert rows["classical"] == rows["aspen"], (a, b, p)


@pytest.mark.parametrize("form", intersections.FORMS)
@pytest.mark.parametrize("algorithm", intersections.ALGORITHMS)
@pytest.mark.parametrize(
    ("a", "b", "p", "rows"),
    [
        (BlockCyclic(0, 3, 2), BlockCyclic(0, 4, 3), 1, []),
        (BlockCyclic(4, 3, 2), BlockCyclic(4, 2, 3, 1), 1, [[2, 0, 1, 1]]),  # the array ends inside a block
        (BlockCyclic(5, 9, 4, 3), BlockCyclic(5, 7, 1), 3, [[0, 0, 0, 5]]),  # blocks larger than the array
        (BlockCyclic(5, 9, 4, 3), BlockCyclic(5, 7, 1), 2, []),  # a process with nothing
        (BlockCyclic(6, 2, 1), BlockCyclic(6, 3, 1), 0, [[0, 0, 0, 2], [0, 2, 2, 1], [0, 3, 3, 1], [0, 4, 4, 2]]),
        # ASPEN's Fig 1 along one dimension: blocks of 2 on 4 processes, of 3 on 3; process 0 holds 0, 1, 8, 9
        (BlockCyclic(12, 2, 4), BlockCyclic(12, 3, 3), 0, [[0, 0, 0, 2], [2, 2, 2, 1], [0, 3, 3, 1]]),
        # from element 5 on: the first own block is cut at both ends
        (BlockCyclic(3, 8, 2, 0, 5), BlockCyclic(3, 2, 2, 0, 0), 0, [[0, 5, 0, 2], [1, 7, 0, 1]]),
    ],
)
def test_by_hand(algorithm: str, form: str, a: BlockCyclic, b: BlockCyclic, p: int, rows: list[list[int]]) -> None:
    assert intersections.find(algorithm, a, b, p, form=form).expand().tolist() == rows


def test_pairs_that_share_nothing_are_not_in_the_answer() -> None:
    """One own block meets two of a million processes: nothing of the others is made or kept."""
    a, b = BlockCyclic(10**8, 64, 10**6), BlockCyclic(10**8, 100, 10**6)
    found = intersections.find("aspen", a, b, 12_345)
    assert found.comparisons == len(found.remote) <= 4
    assert found.remote.tolist() == sorted({*b.owner(a.global_indices(12_345)).tolist()})


def test_a_period_with_many_runs_stays_compact() -> None:
    """1 -> 64 over 32 x 31 processes: 32 bytes for each of the own runs of one period, however long the array."""
    for n in (10**4, 10**7, 10**12):
        a, b = BlockCyclic(n, 1, 32), BlockCyclic(n, 64, 31)
        for own, remote, runs in ((a, b, 62), (b, a, 64)):
            found = intersections.find("aspen", own, remote, 30)
            base = found.length.base
            assert base is not None
            assert len(found.remote) == runs
            assert base.nbytes == 32 * runs
            assert all(column.flags.c_contiguous for column in (found.remote, found.start_a, found.start_b))
