"""Runs of every intersection algorithm against an owner looked up one element at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import deal

from pyscalapack_redist import BlockCyclic, ScheduleError, intersections


@st.composite
def two_axes(draw: st.DrawFn) -> tuple[BlockCyclic, BlockCyclic]:
    n = draw(st.integers(0, 120))

    def axis() -> BlockCyclic:
        processes = draw(st.integers(1, 6))
        return BlockCyclic(
            n, draw(st.integers(1, 12)), processes, draw(st.integers(0, processes - 1)), draw(st.integers(0, 15))
        )

    return axis(), axis()


def places(axis: BlockCyclic) -> list[tuple[int, int]]:
    """Owner and local index of each element, found by dealing."""
    held = deal(axis.n + axis.offset, axis.block, axis.processes, axis.source)
    where = {g: (p, local) for p, mine in enumerate(held) for local, g in enumerate(mine)}
    return [where[i + axis.offset] for i in range(axis.n)]


@pytest.mark.parametrize("algorithm", sorted(intersections.ALGORITHMS))
@given(two_axes())
def test_runs_are_those_of_the_oracle(algorithm: str, axes: tuple[BlockCyclic, BlockCyclic]) -> None:
    a, b = axes
    in_a, in_b = places(a), places(b)
    for p in range(a.processes):
        found = intersections.find(algorithm, a, b, p)
        got = [
            (remote, start_a + k, start_b + k)
            for remote, start_a, start_b, length in found.expand()
            for k in range(length)
        ]
        assert got == [(q, x, y) for (own, x), (q, y) in zip(in_a, in_b, strict=True) if own == p]


def test_work_does_not_depend_on_the_array() -> None:
    short, long = (
        intersections.find("aspen", BlockCyclic(n, 64, 32), BlockCyclic(n, 100, 31), 5) for n in (10**7, 10**12)
    )
    assert len(short.remote) == len(long.remote) == short.comparisons
    assert long.repeats > 10**5


def test_an_unknown_algorithm_is_named() -> None:
    with pytest.raises(ScheduleError, match="'bisect' is unknown; there are aspen"):
        intersections.find("bisect", BlockCyclic(1, 1, 1), BlockCyclic(1, 1, 1), 0)
