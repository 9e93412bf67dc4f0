"""What plans are made of: the same elements as by brute force, in few runs where blocks are much larger on one side."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from pyscalapack_redist import BlockCyclic, intersections
from pyscalapack_redist._kernels.intersections import families
from pyscalapack_redist.intersections.algorithm import numbers
from pyscalapack_redist.intersections.by_process import Shared, by_process

sys.path.insert(0, str(Path(__file__).parent))
from axes import random_axes, shared

PAIRS = 3000


def elements(shared: Shared) -> list[tuple[int, int]]:
    """Place in a and in b of each element, written out period after period."""
    per_period = [
        (x + k, y + k) for x, y, n in zip(shared.start_a, shared.start_b, shared.length, strict=True) for k in range(n)
    ]
    repeats = -(-shared.total // len(per_period))
    found = [(x + k * shared.period_a, y + k * shared.period_b) for k in range(repeats) for x, y in per_period]
    return found[: shared.total]


def test_against_brute_force() -> None:
    rng = np.random.default_rng(6)
    for _ in range(PAIRS):
        a, b = random_axes(rng)
        for p, expected in enumerate(shared(a, b)):
            found = list(by_process(a, b, p))
            assert [item.remote for item in found] == sorted({q for q, _, _ in expected})
            for item in found:
                assert item.start_a.flags.c_contiguous
                assert elements(item) == [(x, y) for q, x, y in expected if q == item.remote], (a, b, p, item)


def test_families_are_the_runs_of_aspen() -> None:
    rng = np.random.default_rng(7)
    fewer = 0
    for _ in range(PAIRS):
        a, b = random_axes(rng)
        for p in range(a.processes):
            runs = intersections.find("aspen", a, b, p)
            found = families(intersections.ALGORITHMS["aspen"].window(a, b), numbers(a), numbers(b), p)
            written = [
                (q, x + k * dx, y + k * dy, n) for q, x, y, n, dx, dy, count in found.T.tolist() for k in range(count)
            ]
            expected = list(zip(runs.remote, runs.start_a, runs.start_b, runs.length, strict=True))
            assert sorted(written, key=lambda run: run[1]) == expected, (a, b, p)
            fewer += found.shape[1] < len(expected)
    assert fewer > PAIRS / 10


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 2), (None, 2)),
        ((None, 2), (1, 2)),
        ((2, 3), (None, 4)),
        ((None, 4), (2, 3)),
        ((7, 5), (None, 3)),
        ((None, 3), (7, 5)),
    ],
)
def test_cyclic_and_one_block_per_process_take_no_memory(
    before: tuple[int | None, int], after: tuple[int | None, int]
) -> None:
    """10^12 elements: two numbers for each peer, where a list of runs would fill any machine."""
    n = 10**12 + 1
    a, b = (BlockCyclic(n, block or -(-n // processes), processes) for block, processes in (before, after))
    for p in range(a.processes):
        found = list(by_process(a, b, p))
        assert sum(item.total for item in found) == a.local_size(p)
        for item in found:
            assert len(item.length) <= 2
            last = item.total - 1
            runs, rest = divmod(last, int(item.length.sum()))
            at = int(rest >= item.length[0])
            within = rest - at * int(item.length[0])
            x, y = item.start_a[at] + runs * item.period_a + within, item.start_b[at] + runs * item.period_b + within
            for place_a, place_b in ((item.start_a[0], item.start_b[0]), (x, y)):
                i = a.global_index(p, int(place_a))
                assert (b.owner(i), b.local_index(i)) == (item.remote, place_b)


@pytest.mark.parametrize("n", [7, 50, 3000])
def test_few_runs_among_many_processes(n: int) -> None:
    """Fewer runs than processes of the other axis, which come round its end: sorted in another way than many runs are."""
    a, b = BlockCyclic(n, 25, 2, offset=3), BlockCyclic(n, 3, 1000, source=998, offset=4)
    for p, expected in enumerate(shared(a, b)):
        found = by_process(a, b, p)
        assert [item.remote for item in found] == sorted({q for q, _, _ in expected})
        for item in found:
            assert elements(item) == [(x, y) for q, x, y in expected if q == item.remote]
            assert item.first == a.global_index(p, int(item.start_a[0]))


def test_a_process_outside_is_an_error() -> None:
    a = BlockCyclic(7, 2, 3)
    for p in (-1, 3):
        with pytest.raises(IndexError, match=f"process {p} is outside 0 <= p < 3"):
            by_process(a, a, p)
