"""The counts of comparisons are those of the ASPEN paper: Eqs 1, 2 and 4, per process (without L) and dimension (without D).

N is the number of blocks of one process, N^ that within one period or the array, whichever is less.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from pyscalapack_redist import BlockCyclic, intersections

sys.path.insert(0, str(Path(__file__).parent))
from axes import random_axes

GRIDS = (2, 3, 5, 8, 13, 21, 32)


def count(algorithm: str, a: BlockCyclic, b: BlockCyclic, p: int = 0) -> int:
    return intersections.find(algorithm, a, b, p).comparisons


def slopes(counts: list[int], *factors: list[float]) -> list[float]:
    """Exponents e, f, ... of the fit counts = constant * factor_1^e * factor_2^f ..."""
    unknown = np.log(np.array([[math.e] * len(counts), *factors], dtype=float)).T
    return np.linalg.lstsq(unknown, np.log(np.array(counts, dtype=float)), rcond=None)[0][1:].tolist()


def blocks(axis: BlockCyclic, p: int, window: int) -> set[int]:
    """Numbers of the blocks that a process has among the first elements, one element at a time."""
    return {(i + axis.offset) // axis.block for i in range(window) if axis.owner(i) == p}


def test_classical_is_equation_1_exactly() -> None:
    """All blocks with all blocks: summed over p it is L R N_local N_remote."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        a, b = random_axes(rng)
        numbers = [[len(blocks(axis, p, axis.n)) for p in range(axis.processes)] for axis in (a, b)]
        for p, own in enumerate(numbers[0]):
            assert count("classical", a, b, p) == own * sum(numbers[1])
    L, R, local, remote = 6, 5, 7, 14
    a, b = BlockCyclic(L * local * 10, 10, L), BlockCyclic(R * remote * 6, 6, R)
    assert sum(count("classical", a, b, p) for p in range(L)) == L * R * local * remote


def test_falls_is_equation_2_exactly() -> None:
    """For each other process and each own block of a period: the other's blocks that it meets, at least one look."""
    rng = np.random.default_rng(3)
    for _ in range(150):
        a, b = random_axes(rng)
        window = min(a.n, math.lcm(a.stride, b.stride))
        for p in range(a.processes):
            expected = 0
            for own in blocks(a, p, window):
                held = [i for i in range(window) if (i + a.offset) // a.block == own]
                for q in range(b.processes):
                    expected += max(1, len({(i + b.offset) // b.block for i in held if b.owner(i) == q}))
            assert count("falls", a, b, p) == expected


@pytest.mark.parametrize(("r", "s"), [(30, 654), (64, 100), (1024, 100)])
def test_falls_fits_equation_2(r: int, s: int) -> None:
    """R N^_local N^_remote, N^_remote being the mean number of blocks searched: all three exponents are 1."""
    counts, remotes, local, searched = [], [], [], []
    for Q, n in itertools.product(GRIDS, (20_000, 60_000, 200_000)):
        a, b = BlockCyclic(n, r, 16), BlockCyclic(n, s, Q)
        window = min(n, math.lcm(a.stride, b.stride))
        counts.append(count("falls", a, b))
        remotes.append(Q)
        local.append(len({i // r for i in range(0, window, r) if a.owner(i) == 0}))
        searched.append(max(1, (r / s + 1) / Q))  # a block of r meets r / s + 1 blocks of s, of Q processes
    exponents = slopes(counts, remotes, local) if r < s else slopes(counts, remotes, local, searched)
    assert exponents == pytest.approx([1.0] * len(exponents), abs=0.02), exponents


def test_scan_walks_both_lists_for_each_pair() -> None:
    rng = np.random.default_rng(4)
    for _ in range(150):
        a, b = random_axes(rng)
        window = min(a.n, math.lcm(a.stride, b.stride))
        others = [len(blocks(b, q, window)) for q in range(b.processes)]
        for p in range(a.processes):
            own = len(blocks(a, p, window))
            steps = count("scan", a, b, p)
            assert sum(min(own, other) for other in others) <= steps
            assert steps <= sum(own + other - 1 for other in others if own and other)


def test_aspen_is_equation_4_exactly() -> None:
    """One operation for each own run of one period, or of the array if that is shorter."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        a, b = random_axes(rng)
        window = min(a.n, math.lcm(a.stride, b.stride))
        for p in range(a.processes):
            pieces = {((i + a.offset) // a.block, (i + b.offset) // b.block) for i in range(window) if a.owner(i) == p}
            assert count("aspen", a, b, p) == len(pieces)


@pytest.mark.parametrize(("r", "s"), [(1024, 256), (30, 654), (654, 30), (50, 321)])
def test_aspen_has_no_factor_of_remote_processes(r: int, s: int) -> None:
    """Below a period the count is the same for any number of them, while that of FALLS grows with it."""
    n = 10_000
    grids = [Q for Q in GRIDS if math.lcm(r * 32, s * Q) >= n]
    counts = {
        name: [count(name, BlockCyclic(n, r, 32), BlockCyclic(n, s, Q), 5) for Q in grids]
        for name in ("aspen", "falls")
    }
    assert len(grids) >= 4
    assert len(set(counts["aspen"])) == 1
    ratio = [f / a for f, a in zip(counts["falls"], counts["aspen"], strict=True)]
    if r < s:
        assert slopes(ratio, grids) == pytest.approx([1.0], abs=0.02)
    else:  # while there are fewer processes than a block meets, each of them is met
        assert ratio[-1] > 1.4 * ratio[0]


def test_aspen_follows_the_array_and_then_stays() -> None:
    """Proportional to the rank's own part until the period is full; nothing more after that."""
    a, b = (64, 32), (100, 31)
    period = math.lcm(math.prod(a), math.prod(b))
    below = [period // 64, period // 16, period // 4, period]
    counts = [count("aspen", BlockCyclic(n, *a), BlockCyclic(n, *b), 3) for n in below]
    held = [BlockCyclic(n, *a).local_size(3) for n in below]
    assert slopes(counts, held) == pytest.approx([1.0], abs=0.05)
    for n in (period + 1, 7 * period, 10**12):
        assert count("aspen", BlockCyclic(n, *a), BlockCyclic(n, *b), 3) == counts[-1]
