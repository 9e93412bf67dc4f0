"""Communication grids against counting elements one by one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launch import SEED

from pyscalapack_redist import BlockCyclic, ScheduleError
from pyscalapack_redist.schedules import CommunicationGrid, LengthMatrix, whole

sizes = st.integers(1, 9)


def counted(P: int, Q: int, r: int, s: int, n: int, start: int = 0, other: int = 0) -> np.ndarray:
    x = np.arange(n)
    table = np.zeros((P, Q), dtype=np.int64)
    np.add.at(table, ((x + start) // r % P, (x + other) // s % Q), 1)
    return table


def bounds(table: np.ndarray) -> tuple[int, int]:
    """Maximum degree, and the sum of the maximum degrees of all level sets."""
    degrees = [max((table >= t).sum(0).max(), (table >= t).sum(1).max()) for t in range(1, table.max(initial=0) + 1)]
    return int(degrees[0]) if degrees else 0, int(sum(degrees))


@pytest.mark.parametrize("number", [200, pytest.param(2500, marks=pytest.mark.long)])
def test_slices_and_arrays_that_end_in_one(number: int) -> None:
    rng = np.random.default_rng(SEED)
    for _ in range(number):
        P, Q, r, s = (int(k) for k in rng.integers(1, 10, 4))
        offset = int(rng.choice([0, rng.integers(-60, 61)]))
        n, other = (int(rng.integers(0, 300)), int(rng.integers(0, 41))) if rng.random() < 0.5 else (None, 0)
        grid = CommunicationGrid(P, Q, r, s, n, offset, other)
        period = math.lcm(P * r, Q * s)
        table = counted(P, Q, r, s, period if n is None else n, offset % (P * r), other)
        assert grid.slice_length == period
        assert (grid.lengths == table).all(), grid
        assert (grid.columns(np.arange(Q)) == table).all()
        p, q = int(rng.integers(P)), int(rng.integers(Q))
        assert grid.length(p, q) == table[p, q]
        assert (grid.step_bound, grid.cost_bound) == bounds(table)
        assert grid.volume_bound == max(table.sum(0).max(), table.sum(1).max())
        if n is None:  # Proposition 5, and Lemma 5: the fewest steps
            assert grid.most_messages == ((table > 0).sum(axis=1).max(), (table > 0).sum(axis=0).max())
            assert max(grid.most_messages) == grid.step_bound
            reduced_r, reduced_s, g = grid.reduced
            if offset % math.gcd(r, s) == 0:  # Lemma 2
                assert (table > 0).all() == (g <= reduced_r + reduced_s - 1)


@given(st.integers(0, 2**32), st.floats(1, 4.5), st.sampled_from([0, 0, 1, 7, 2**40]))
def test_tables_of_long_arrays_against_the_rows_of_each_sender(seed: int, decades: float, slices: int) -> None:
    rng = np.random.default_rng(seed)
    P, Q, r, s = (int(number) for number in rng.integers(1, 30, 4))
    length = math.lcm(P * r, Q * s)
    n = slices * length + int(10**decades) % length
    grid = CommunicationGrid(P, Q, r, s, n, *(int(start) for start in rng.integers(-50, 2000, 2)))
    assert (grid.lengths == grid.rows(np.arange(P))).all()
    assert grid.lengths.sum() == n


def test_the_end_of_the_longest_slices() -> None:
    grid = CommunicationGrid(3, 2, 2**60, 3 * 2**58, 3 * 2**60 - 1, offset=3 * 2**60 - 1)
    assert (grid.lengths == grid.rows(np.arange(3))).all()
    assert grid.lengths.sum() == 3 * 2**60 - 1


@given(sizes, sizes, sizes, sizes, st.integers(-40, 40))
def test_classes_are_disjoint_alike_and_even(P: int, Q: int, r: int, s: int, offset: int) -> None:
    grid = CommunicationGrid(P, Q, r, s, offset=offset)
    r, s, g = grid.reduced
    seen = np.zeros((P, Q), dtype=np.int64)
    for residue in grid.classes:
        p, q = residue.pairs.T
        seen[p, q] += 1
        assert ((p * r - q * s - residue.number) % g == 0).all()
        assert (grid.lengths[p, q] == residue.length).all()
        assert len(residue.pairs) == P * Q // g  # Proposition 1
        # Lemma 3: P0 entries in each of Q0 columns, none elsewhere, and alike for rows.
        for side, processes, others, common in ((q, Q, P, math.gcd(r, g)), (p, P, Q, math.gcd(s, g))):
            counts = np.bincount(side)
            assert (counts[counts > 0] == others * common // g).all()
            assert np.count_nonzero(counts) == processes // common
    assert (seen == (grid.lengths > 0)).all()
    if not offset:
        assert all(1 - r <= residue.number <= s - 1 for residue in grid.classes)


def test_most_messages_of_the_papers_examples() -> None:
    """Examples 1 to 4 of Desprez et al.: steps of the schedules that they print."""
    for sizes_, steps in (((16, 16, 3, 5), 7), ((16, 16, 7, 11), 16), ((15, 15, 3, 5), 10), ((12, 8, 4, 3), 4)):
        assert max(CommunicationGrid(*sizes_).most_messages) == steps
    assert CommunicationGrid(15, 15, 3, 5).most_messages == (10, 9)
    assert CommunicationGrid(10**6, 10**6, 1000, 1001).most_messages == (2000, 2000)


def test_whole_process_sets() -> None:
    a, b = CommunicationGrid(3, 2, 4, 3), CommunicationGrid(2, 4, 1, 3)
    same = np.zeros((6, 8), dtype=bool)
    same[[0, 3], [1, 7]] = True
    graph = whole([a, b], same)
    table = np.kron(a.lengths, b.lengths)
    assert (whole([a, b]).lengths == table).all()
    table[same] = 0
    assert (graph.lengths == table).all()
    assert (graph.columns(np.arange(8)) == table).all()
    assert (whole([a, b], [1, -1, -1, 7, -1, -1]).lengths == table).all()
    assert (graph.step_bound, graph.cost_bound) == bounds(table)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: CommunicationGrid(0, 2, 3, 5), ["P = 0", "at least 1", "processes that send"]),
        (lambda: CommunicationGrid(2, -2, 3, 5), ["Q = -2"]),
        (lambda: CommunicationGrid(2, 2, 1.5, 5), ["r = 1.5 must be an integer"]),
        (lambda: CommunicationGrid(2, 2, 3, 0), ["s = 0"]),
        (lambda: CommunicationGrid(2, 2, 3, 5, -1), ["n = -1", "at least 0"]),
        (lambda: CommunicationGrid(2, 2, 3, 5, None, "x"), ["offset = 'x'"]),
        (lambda: CommunicationGrid(2**20, 2**20 - 1, 2**20 - 3, 2**20 - 5), ["2**62"]),
        (lambda: CommunicationGrid(10**5, 10**5, 3, 5).lengths, ["1e+10 entries", "of_sender", "grid.length"]),
        (lambda: CommunicationGrid.between(BlockCyclic(4, 1, 2), BlockCyclic(5, 1, 2)), ["a.n = 4 and b.n = 5"]),
        (lambda: LengthMatrix([[1, -2]]), ["lengths[0, 1] = -2"]),
        (lambda: LengthMatrix([1, 2]), ["must be a matrix"]),
        (lambda: LengthMatrix([[0.5]]), ["float64"]),
        (lambda: LengthMatrix([[2**61, 2**61], [1, 1]]), ["lengths sum to ", "the sum must be below 2**62"]),
        (lambda: whole([]), ["grids is empty"]),
        (lambda: whole([LengthMatrix([[1, 2]])], [[True], [True]]), ["same has shape (2, 1)"]),
        (lambda: whole([LengthMatrix([[1, 2]])], np.array([[True, True]])), ["two true entries"]),
    ],
)
def test_bad_input_is_named(make: Callable[[], object], words: list[str]) -> None:
    with pytest.raises(ScheduleError) as error:
        make()
    assert all(word in str(error.value) for word in words), str(error.value)


def axes(n: int) -> st.SearchStrategy[BlockCyclic]:
    """Distributions of n elements, also of blocks that end far beyond them."""
    whole_numbers = st.one_of(st.integers(1, 14), st.integers(2**40 - 9, 2**40))
    return st.builds(BlockCyclic, st.just(n), whole_numbers, st.just(5), st.integers(0, 4), whole_numbers)


@given(st.integers(0, 9).flatmap(lambda n: st.tuples(axes(n), axes(n))))
def test_blocks_beyond_the_array(pair: tuple[BlockCyclic, BlockCyclic]) -> None:
    """Their multiples do not grow past all integers."""
    expected = np.zeros((5, 5), np.int64)
    for i in range(pair[0].n):
        expected[tuple((axis.source + (i + axis.offset) // axis.block) % 5 for axis in pair)] += 1
    assert np.array_equal(CommunicationGrid.between(*pair).lengths, expected)
