"""Messages that may be cut: least cost, exhaustive search on tiny graphs, certificates, and start-ups against time."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from graphs import seeds, some_grids, some_matrices, some_wholes
from hypothesis import given
from hypothesis import strategies as st

from pyscalapack_redist.schedules import (
    CommunicationGrid,
    LengthMatrix,
    MessageGraph,
    build,
    preemptive_pareto,
)
from pyscalapack_redist.schedules.preemptive import SplitBounds

EQUAL = "equals the lower bound"


def least_costs(lengths: np.ndarray) -> dict[int, int]:
    """Least sum of durations for each number of steps, by trying all steps of all durations."""
    P, Q = lengths.shape
    matchings = [
        (rows, columns)
        for size in range(1, min(P, Q) + 1)
        for rows in itertools.combinations(range(P), size)
        for columns in itertools.permutations(range(Q), size)
    ]

    @functools.cache
    def of(left: tuple[int, ...]) -> dict[int, int]:
        if not any(left):
            return {0: 0}
        table, best = np.array(left).reshape(P, Q), {}
        for rows, columns in matchings:
            longest = table[rows, columns].max()
            if not table[rows, columns].min():
                continue
            for duration in range(1, longest + 1):
                rest = table.copy()
                rest[rows, columns] -= np.minimum(table[rows, columns], duration)
                for steps, cost in of(tuple(rest.ravel().tolist())).items():
                    best[steps + 1] = min(best.get(steps + 1, 10**9), duration + cost)
        return best

    return of(tuple(lengths.ravel().tolist()))


@given(some_grids | some_matrices | some_wholes, st.sampled_from([0, 0.5, 3, 40]))
def test_every_message_goes_and_the_certificate_is_true(grid: MessageGraph, startup: float) -> None:
    found = build("preemptive", grid, startup=startup, time_limit=0.1)
    found.validate()
    assert found.one_port
    assert found.time == startup * found.number_of_steps + found.total_cost
    assert found.time_bound >= startup * grid.step_bound + grid.volume_bound
    assert found.time >= found.time_bound * (1 - 1e-9)
    if not startup:
        assert found.total_cost == found.lower_bound == grid.volume_bound
        assert found.certificate == EQUAL


@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 4), seeds, st.floats(0, 9))
def test_tiny_graphs_against_trying_all(P: int, Q: int, longest: int, seed: int, startup: float) -> None:
    lengths = np.random.default_rng(seed).integers(0, longest + 1, (P, Q))
    grid, costs = LengthMatrix(lengths), least_costs(lengths)
    least = min(startup * steps + cost for steps, cost in costs.items())
    found = build("preemptive", grid, startup=startup, time_limit=120)
    assert found.time_bound <= least + 1e-6 <= found.time + 2e-6
    assert found.time <= 1.3 * least
    hasty = build("preemptive", grid, startup=startup, time_limit=1e-6)
    hasty.validate()
    assert hasty.time_bound <= least + 1e-6
    assert hasty.time >= least - 1e-6
    bounds = SplitBounds(grid)
    for steps, cost in costs.items():
        assert bounds.cost(steps) <= cost
        assert bounds.steps(cost) <= steps
    check_front(grid, costs)


def check_front(grid: MessageGraph, costs: dict[int, int]) -> None:
    front = preemptive_pareto(grid, time_limit=0.1)
    assert front[-1].total_cost == grid.volume_bound
    for schedule, after in itertools.zip_longest(front, front[1:]):
        schedule.validate()
        least = min(cost for steps, cost in costs.items() if steps <= schedule.number_of_steps)
        assert schedule.time_bound <= least <= schedule.total_cost
        assert (schedule.certificate == EQUAL) == (schedule.total_cost == schedule.time_bound)
        if after is not None:
            assert schedule.number_of_steps < after.number_of_steps
            assert schedule.total_cost > after.total_cost


@pytest.mark.parametrize(
    ("grid", "cut", "uncut"),
    [((15, 15, 3, 5), 15, 23), pytest.param((60, 64, 32, 29), 928, 1348, marks=pytest.mark.long)],
)
def test_cut_messages_cost_what_the_busiest_process_has(grid: tuple[int, ...], cut: int, uncut: int) -> None:
    found = build("preemptive", CommunicationGrid(*grid))
    found.validate()
    assert (found.total_cost, found.certificate) == (cut, EQUAL)
    assert build("optimal", CommunicationGrid(*grid), time_limit=120).total_cost == uncut
    front = [
        (each.number_of_steps, each.total_cost) for each in preemptive_pareto(CommunicationGrid(*grid), time_limit=10)
    ]
    assert front[0][0] == CommunicationGrid(*grid).step_bound
    assert front[-1][1] == cut
    assert len(front) > 2


def test_start_ups_and_cuts_of_folded_grids() -> None:
    """Free steps cost least and dear ones are few."""
    grid = CommunicationGrid(15, 15, 3, 5)
    found = [build("preemptive", grid, startup=startup, time_limit=120) for startup in (0, 0.5, 2, 1000)]
    assert [each.time for each in found[:3]] == [15, 22.5, 41]
    assert found[-1].number_of_steps == grid.step_bound


def test_a_cut_that_pays_and_one_that_does_not() -> None:
    grid = LengthMatrix([[10, 1, 0, 0], [0, 0, 6, 5]])  # durations 10, 5 or 5, 5, 1
    assert [SplitBounds(grid).cost(steps) for steps in (2, 3, 4)] == [15, 11, 11]
    for startup, steps, cost in ((1, 3, 11), (3, 3, 11), (5, 2, 15)):
        found = build("preemptive", grid, startup=startup, time_limit=120)
        assert (found.number_of_steps, found.total_cost, found.certificate) == (steps, cost, EQUAL)


def test_hundreds_of_processes_in_a_remainder_of_a_slice() -> None:
    grid = CommunicationGrid(100, 120, 7, 9, 100003)
    found = build("preemptive", grid, time_limit=0.1)
    found.validate()
    assert found.total_cost == grid.volume_bound
    assert found.number_of_steps < 2 * grid.step_bound
