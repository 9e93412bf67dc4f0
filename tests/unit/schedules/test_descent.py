"""Edges put into levels while others are put out, and cheaper schedules near one."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyscalapack_redist._kernels.ejection import ejected
from pyscalapack_redist.schedules import CommunicationGrid, LengthMatrix, build
from pyscalapack_redist.schedules.descent import Descent, inserted
from pyscalapack_redist.schedules.levels import Levels
from pyscalapack_redist.schedules.nested import Attempt, Messages, Targets
from pyscalapack_redist.schedules.relaxation import part
from pyscalapack_redist.schedules.schedule import ListedSchedule


def late() -> float:
    return time.monotonic() + 60


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 60), st.integers(1, 900), st.integers(1, 90))
def test_no_level_has_more_than_its_room(seed: int, lefts: int, rights: int, edges: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.permutation(lefts * rights)[:edges]
    left, right = cells // rights, cells % rights
    widest, steps = np.sort(rng.integers(0, levels, len(cells))), rng.integers(0, 4, levels)
    level = rng.integers(-1, levels, len(cells))
    failed = ejected(left, right, lefts, rights, widest, steps, level, 50, seed % 1000, late())
    placed = level >= 0
    for end, vertices in ((left, lefts), (right, rights)):
        used = np.zeros((vertices, levels), dtype=np.int64)
        np.add.at(used, (end[placed], level[placed]), 1)
        assert (used <= steps).all()
    assert (level <= widest).all()
    assert failed >= 0 or placed.all()


def test_an_edge_puts_out_others_where_no_path_between_two_levels_makes_room() -> None:
    """A Latin square whose last cells are left is completed, in three levels of one step each."""
    cells = [(p, q, (p + q) % 3) for p, q in itertools.product(range(3), repeat=2)]
    left, right, wanted = (np.array(column) for column in zip(*cells, strict=True))
    for seed in range(20):
        level = np.where(np.random.default_rng(seed).random(9) < 0.5, wanted[::-1], -1)
        assert ejected(left, right, 3, 3, np.full(9, 2), np.ones(3, np.int64), level, 10_000, seed, late()) == -1
        assert sorted(zip(left, level, strict=True)) == list(itertools.product(range(3), repeat=2))


def test_edges_that_do_not_fit_are_told() -> None:
    left, right = np.zeros(3, np.int64), np.arange(3)
    level = np.full(3, -1)
    assert ejected(left, right, 1, 3, np.zeros(3, np.int64), np.array([2]), level, 100, 0, late()) == 2
    assert np.count_nonzero(level < 0) == 1


def test_messages_without_a_level_of_their_length_have_no_room() -> None:
    messages = Messages(np.array([[5, 3]]))
    level, left = inserted(messages, np.array([5, 3]), np.array([0, 2]), np.full(2, -1), 100, 0, late())
    assert left == 0
    assert (level == -1).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(2, 6), st.integers(2, 9))
def test_schedules_near_one_against_the_program_of_the_whole(seed: int, P: int, Q: int, longest: int) -> None:
    lengths = np.random.default_rng(seed).integers(0, longest + 1, (P, Q))
    lengths[0, 0] = 1
    grid = LengthMatrix(lengths)
    messages = Messages(grid.lengths)
    costs = np.unique(messages.length)[::-1]
    profile = np.array([np.count_nonzero(grid.profile == cost) for cost in costs])
    exact = Levels(part(messages, np.arange(len(messages.length))), late(), costs).least(
        costs.astype(float), [], whole=True
    )
    assert exact.steps is not None
    least = int(exact.steps @ costs)
    kept: list[Attempt] = []
    each = (costs - np.append(costs[1:], 0)).astype(float)
    descent = Descent(messages, costs, np.cumsum(profile), each, None, kept.append)
    dear = messages.attempt(Targets(costs, np.zeros_like(profile)), late())
    descent.run(dear.level, least, late(), in_vain=400)
    found = [dear.cost] + [attempt.cost for attempt in kept]
    assert found == sorted(found, reverse=True)
    assert found[-1] == least
    for attempt in kept:
        schedule = ListedSchedule("near", grid, messages.listed(attempt))
        schedule.validate()
        assert least <= schedule.total_cost <= attempt.cost


def test_a_limit_on_the_steps_is_kept() -> None:
    grid = CommunicationGrid(49, 20, 19, 30, 41504)
    schedule = build("optimal", grid, objective="steps")
    schedule.validate()
    assert schedule.number_of_steps == grid.step_bound


@pytest.mark.parametrize(("case", "cost"), [((791, 989, 43, 53, 1303568), 2400), ((546, 487, 19, 7, 83188459), 180000)])
def test_the_program_of_few_types_comes_before_long_searches(case: tuple[int, ...], cost: int) -> None:
    schedule = build("optimal", CommunicationGrid(*case), time_limit=6)
    schedule.validate()
    assert schedule.total_cost < cost
