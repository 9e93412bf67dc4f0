"""Least cost: the papers' examples, exhaustive search on small graphs, certificates, and the front."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyscalapack_redist.errors import ScheduleError
from pyscalapack_redist.schedules import CommunicationGrid, LengthMatrix, build, pareto, product, whole

PROVED = ("equals the lower bound", "proved by integer program")


def cheapest(lengths: np.ndarray) -> dict[int, int]:
    """Least cost for each number of steps, by trying all."""
    edges = [(int(p), int(q), int(lengths[p, q])) for p, q in np.argwhere(lengths)]
    matchings = [
        (sum(1 << i for i in chosen), max(edges[i][2] for i in chosen))
        for size in range(1, min(lengths.shape) + 1)
        for chosen in itertools.combinations(range(len(edges)), size)
        if len({edges[i][0] for i in chosen}) == len({edges[i][1] for i in chosen}) == size
    ]

    @functools.cache
    def front(left: int) -> dict[int, int]:
        if not left:
            return {0: 0}
        first, best = left & -left, {}
        for edge_set, cost in matchings:
            if edge_set & first and edge_set & left == edge_set:
                for steps, rest in front(left & ~edge_set).items():
                    best[steps + 1] = min(best.get(steps + 1, 10**9), rest + cost)
        return best

    return front((1 << len(edges)) - 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**32), st.floats(0, 5), st.floats(0.1, 5))
def test_small_graphs_against_trying_all(P: int, Q: int, seed: int, alpha: float, beta: float) -> None:
    lengths = np.random.default_rng(seed).integers(0, 6, (P, Q))
    grid, all_of_them = LengthMatrix(lengths), cheapest(lengths)
    least = build("optimal", grid, time_limit=60)
    cost = min(all_of_them.values())
    assert least.certificate in PROVED
    assert least.total_cost == cost
    assert least.number_of_steps == min(steps for steps, least_cost in all_of_them.items() if least_cost == cost)
    fewest = build("optimal", grid, objective="steps", time_limit=60)
    assert (fewest.number_of_steps, fewest.total_cost) == min(all_of_them.items())
    affine = build("optimal", grid, objective=(alpha, beta), time_limit=60)
    value = alpha * affine.number_of_steps + beta * affine.total_cost
    assert value == pytest.approx(min(alpha * steps + beta * total for steps, total in all_of_them.items()))
    front = [(schedule.number_of_steps, schedule.total_cost) for schedule in pareto(grid, time_limit=60)]
    lowest, expected = 10**9, []
    for steps, total in sorted(all_of_them.items()):
        if total < lowest:
            expected.append((steps, total))
            lowest = total
    assert front == expected


@pytest.mark.parametrize(
    ("grid", "least", "stepwise"),
    [
        ((16, 16, 3, 5), (7, 15), (7, 15)),  # Example 1
        ((16, 16, 7, 11), (16, 77), (16, 77)),  # Example 2
        ((15, 15, 3, 5), (11, 23), (10, 25)),  # Example 3
        ((12, 8, 4, 3), (4, 8), (4, 8)),  # Example 4
        ((15, 6, 2, 3), (11, 16), (10, 20)),  # Example 5
    ],
)
def test_examples_of_desprez(grid: tuple[int, ...], least: tuple[int, int], stepwise: tuple[int, int]) -> None:
    found = build("optimal", CommunicationGrid(*grid), time_limit=60)
    assert found.certificate in PROVED
    assert (found.number_of_steps, found.total_cost) == least
    found = build("stepwise", CommunicationGrid(*grid))
    found.validate()
    assert (found.number_of_steps, found.total_cost) == stepwise


@pytest.mark.parametrize("P", range(1, 13))
def test_stepwise_is_optimal_from_blocks_to_their_multiples(P: int) -> None:
    """Proposition 6."""
    for Q, K in itertools.product(range(1, 13), range(2, 8)):
        grid = CommunicationGrid(P, Q, 1, K)
        found, cheapest = build("stepwise", grid), build("optimal", grid, time_limit=60)
        assert cheapest.certificate in PROVED
        assert found.number_of_steps == build("optimal", grid, objective="steps", time_limit=60).number_of_steps, (
            P,
            Q,
            K,
        )
        assert found.total_cost == cheapest.total_cost, (P, Q, K)


@pytest.mark.parametrize(
    ("grid", "stepwise", "least"),
    [((6, 12, 6, 7), (12, 49), (12, 48)), ((8, 10, 5, 3), (8, 20), (9, 19)), ((4, 9, 3, 2), (6, 12), (7, 10))],
)
def test_stepwise_is_not_always_optimal(
    grid: tuple[int, ...], stepwise: tuple[int, int], least: tuple[int, int]
) -> None:
    """Not even where all rows are alike, as in the first case: Proposition 6 is of block sizes that divide."""
    found = build("stepwise", CommunicationGrid(*grid))
    cheapest = build("optimal", CommunicationGrid(*grid), time_limit=60)
    assert cheapest.certificate in PROVED
    assert (found.number_of_steps, found.total_cost) == stepwise
    assert (cheapest.number_of_steps, cheapest.total_cost) == least


def test_example_5_greedy_takes_more_steps_and_costs_less_than_stepwise() -> None:
    found = build("greedy", CommunicationGrid(15, 6, 2, 3))
    found.validate()
    assert found.number_of_steps >= 12
    assert found.total_cost < 20


def test_ratios_of_desprez() -> None:
    first, second, fourth = (CommunicationGrid(*grid) for grid in ((16, 16, 3, 5), (16, 16, 7, 11), (12, 8, 4, 3)))
    assert build("classes", first).number_of_steps / build("ring", first).number_of_steps == 7 / 16
    assert build("classes", second).total_cost / build("ring", second).total_cost == 77 / 112
    assert build("caterpillar", second).total_cost == 112
    ring = build("ring", fourth)
    assert ring.number_of_steps == 12
    used = [step for step in ring.steps if len(step)]
    assert len(used) == 6  # 6 of 12 rounds are empty
    assert build("optimal", fourth, time_limit=60).number_of_steps / len(used) == 4 / 6


def test_product_and_whole_of_two_dimensions() -> None:
    grids = [CommunicationGrid(3, 2, 4, 3), CommunicationGrid(4, 2, 4, 1)]
    axes = product([build("optimal", grid, time_limit=60) for grid in grids])
    all_of_it = build("optimal", whole(grids), time_limit=60)
    axes.validate()
    all_of_it.validate()
    assert (axes.total_cost, all_of_it.total_cost) == (56, 48)
    assert axes.certificate.startswith("for each axis: ")
    assert all_of_it.certificate in PROVED


def test_whole_of_64_ranks_with_messages_to_oneself_left_out() -> None:
    grids = [CommunicationGrid(4, 16, 3, 5), CommunicationGrid(16, 4, 4, 6)]
    graph = whole(grids, np.eye(64, dtype=bool))
    found = build("optimal", graph, time_limit=30)
    found.validate()
    assert found.certificate in PROVED
    assert found.number_of_steps == 63


def test_little_time_gives_an_honest_certificate_and_more_the_proof() -> None:
    grid = CommunicationGrid(60, 64, 64, 81)
    hasty = build("optimal", grid, time_limit=1e-3)
    hasty.validate()
    assert hasty.certificate.startswith("best found, within ")
    assert hasty.certificate.endswith(" %")
    percent = float(hasty.certificate.split()[3])
    grid = CommunicationGrid(30, 32, 16, 25)
    hasty, patient = (build("optimal", grid, time_limit=limit) for limit in (1e-3, 60))
    assert patient.certificate in PROVED
    assert patient.total_cost <= hasty.total_cost
    assert percent > 0


@pytest.mark.parametrize("name", ["stepwise", "greedy", "optimal"])
@pytest.mark.parametrize("size", [(1024, 1024), (960, 1024), (512, 768)])
def test_large_grids_are_valid(name: str, size: tuple[int, int]) -> None:
    schedule = build(name, CommunicationGrid(*size, 12, 35))
    schedule.validate()
    assert schedule.number_of_steps >= schedule.grid.step_bound
    assert schedule.total_cost >= schedule.grid.cost_bound


@pytest.mark.parametrize(
    ("grid", "least"), [((4, 3, 3, 4, 61, 3, 8), (31, 2)), ((3, 2, 2, 3, 20), (14, 2)), ((5, 4, 4, 5, 86), (36, 2))]
)
def test_fewest_steps_of_least_cost_in_arrays_that_end_within_a_slice(
    grid: tuple[int, ...], least: tuple[int, int]
) -> None:
    found = build("optimal", CommunicationGrid(*grid))
    assert (found.total_cost, found.number_of_steps) == least


def test_certificates_of_costs_beyond_exact_floating_point() -> None:
    excess = np.array([[5, 3, 5], [6, 5, 2], [4, 4, 6]])
    small, large = (LengthMatrix(excess + offset) for offset in (0, 2**55))
    assert build("optimal", small).total_cost == small.cost_bound + 1  # all messages longer by as much: the gap stays
    found = build("optimal", large)
    assert found.total_cost == large.cost_bound + 1
    assert found.certificate == "best found, within 0.1 %"


def test_lengths_whose_sum_is_no_number_of_64_bits_are_refused() -> None:
    with pytest.raises(ScheduleError, match=r"lengths come to .* elements together, and must be below 2\*\*62"):
        LengthMatrix([[2**61, 2**61], [1, 1]])
    assert build("greedy", LengthMatrix([[2**60, 2**60], [1, 1]])).total_cost == 2**61


def test_the_front_of_example_5() -> None:
    front = pareto(CommunicationGrid(15, 6, 2, 3), time_limit=60)
    assert [(schedule.number_of_steps, schedule.total_cost) for schedule in front] == [(10, 20), (11, 16)]
    assert all(schedule.certificate in PROVED for schedule in front)
