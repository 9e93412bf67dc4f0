"""Least cost: the papers' examples, exhaustive search on small graphs, certificates, and the front."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from graphs import seeds
from hypothesis import given
from hypothesis import strategies as st

from pyscalapack_redist.schedules import CommunicationGrid, LengthMatrix, build, pareto, product, whole

PROVED = ("equals the lower bound", "proved by integer program")
EXAMPLES = {1: (16, 16, 3, 5), 2: (16, 16, 7, 11), 3: (15, 15, 3, 5), 4: (12, 8, 4, 3), 5: (15, 6, 2, 3)}


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


@given(st.integers(1, 3), st.integers(1, 3), seeds, st.floats(0, 5), st.floats(0.1, 5))
def test_small_graphs_against_trying_all(P: int, Q: int, seed: int, alpha: float, beta: float) -> None:
    lengths = np.random.default_rng(seed).integers(0, 6, (P, Q))
    grid, all_of_them = LengthMatrix(lengths), cheapest(lengths)
    least = build("optimal", grid, time_limit=120)
    cost = min(all_of_them.values())
    assert least.certificate in PROVED
    assert least.total_cost == cost
    assert least.number_of_steps == min(steps for steps, least_cost in all_of_them.items() if least_cost == cost)
    fewest = build("optimal", grid, objective="steps", time_limit=120)
    assert (fewest.number_of_steps, fewest.total_cost) == min(all_of_them.items())
    affine = build("optimal", grid, objective=(alpha, beta), time_limit=120)
    value = alpha * affine.number_of_steps + beta * affine.total_cost
    assert value == pytest.approx(min(alpha * steps + beta * total for steps, total in all_of_them.items()))
    front = [(schedule.number_of_steps, schedule.total_cost) for schedule in pareto(grid, time_limit=120)]
    lowest, expected = 10**9, []
    for steps, total in sorted(all_of_them.items()):
        if total < lowest:
            expected.append((steps, total))
            lowest = total
    assert front == expected


@pytest.mark.parametrize(
    ("grid", "stepwise", "least"),
    [
        (EXAMPLES[1], (7, 15), (7, 15)),
        (EXAMPLES[2], (16, 77), (16, 77)),
        (EXAMPLES[3], (10, 25), (11, 23)),
        (EXAMPLES[4], (4, 8), (4, 8)),
        (EXAMPLES[5], (10, 20), (11, 16)),
        # Not even where all rows are alike, as in the next, is stepwise always optimal: Proposition 6 is of block sizes
        # that divide.
        ((6, 12, 6, 7), (12, 49), (12, 48)),
        ((8, 10, 5, 3), (8, 20), (9, 19)),
        ((4, 9, 3, 2), (6, 12), (7, 10)),
        # arrays that end within a slice
        ((4, 3, 3, 4, 61, 3, 8), None, (2, 31)),
        ((3, 2, 2, 3, 20), None, (2, 14)),
        ((5, 4, 4, 5, 86), None, (2, 36)),
    ],
)
def test_examples(grid: tuple[int, ...], stepwise: tuple[int, int] | None, least: tuple[int, int]) -> None:
    """Steps and cost: those of Desprez et al., which stepwise has in print, and counterexamples."""
    found = build("optimal", CommunicationGrid(*grid), time_limit=120)
    assert found.certificate in PROVED
    assert (found.number_of_steps, found.total_cost) == least
    if stepwise is not None:
        found = build("stepwise", CommunicationGrid(*grid))
        found.validate()
        assert (found.number_of_steps, found.total_cost) == stepwise


def test_the_front_of_example_5() -> None:
    grid = CommunicationGrid(*EXAMPLES[5])
    front = pareto(grid, time_limit=120)
    assert [(schedule.number_of_steps, schedule.total_cost) for schedule in front] == [(10, 20), (11, 16)]
    assert all(schedule.certificate in PROVED for schedule in front)
    greedy = build("greedy", grid)
    greedy.validate()
    assert greedy.number_of_steps >= 12
    assert greedy.total_cost < 20


def test_ratios_of_desprez() -> None:
    first, second, fourth = (CommunicationGrid(*EXAMPLES[number]) for number in (1, 2, 4))
    assert build("classes", first).number_of_steps / build("ring", first).number_of_steps == 7 / 16
    assert build("classes", second).total_cost / build("ring", second).total_cost == 77 / 112
    assert build("caterpillar", second).total_cost == 112
    ring = build("ring", fourth)
    assert ring.number_of_steps == 12
    used = [step for step in ring.steps if len(step)]
    assert len(used) == 6  # 6 of 12 rounds are empty
    assert build("optimal", fourth, time_limit=120).number_of_steps / len(used) == 4 / 6


def test_product_and_whole_of_two_dimensions() -> None:
    grids = [CommunicationGrid(3, 2, 4, 3), CommunicationGrid(4, 2, 4, 1)]
    axes = product([build("optimal", grid, time_limit=120) for grid in grids])
    all_of_it = build("optimal", whole(grids), time_limit=120)
    axes.validate()
    all_of_it.validate()
    assert (axes.total_cost, all_of_it.total_cost) == (56, 48)
    assert axes.certificate.startswith("for each axis: ")
    assert all_of_it.certificate in PROVED


def test_whole_of_64_ranks_with_messages_to_oneself_left_out() -> None:
    grids = [CommunicationGrid(4, 16, 3, 5), CommunicationGrid(16, 4, 4, 6)]
    found = build("optimal", whole(grids, np.eye(64, dtype=bool)), time_limit=120)
    found.validate()
    assert found.certificate in PROVED
    assert found.number_of_steps == 63


def test_little_time_gives_an_honest_certificate() -> None:
    hasty = build("optimal", CommunicationGrid(60, 64, 64, 81), time_limit=1e-3)
    hasty.validate()
    start, percent = hasty.certificate.rsplit(maxsplit=2)[0], hasty.certificate.split()[3]
    assert (start, hasty.certificate[-2:]) == ("best found, within", " %")
    assert float(percent) > 0


@pytest.mark.parametrize("name", ["stepwise", "greedy", "optimal"])
@pytest.mark.parametrize("size", [(128, 96), pytest.param((1024, 1024), marks=pytest.mark.long)])
def test_large_grids_are_valid(name: str, size: tuple[int, int]) -> None:
    schedule = build(name, CommunicationGrid(*size, 12, 35))
    schedule.validate()
    assert schedule.number_of_steps >= schedule.grid.step_bound
    assert schedule.total_cost >= schedule.grid.cost_bound


def test_certificates_of_costs_beyond_exact_floating_point() -> None:
    excess = np.array([[5, 3, 5], [6, 5, 2], [4, 4, 6]])
    small, large = (LengthMatrix(excess + offset) for offset in (0, 2**55))
    assert build("optimal", small).total_cost == small.cost_bound + 1  # all messages longer by as much: the gap stays
    found = build("optimal", large)
    assert found.total_cost == large.cost_bound + 1
    assert found.certificate == "best found, within 0.1 %"
    assert build("greedy", LengthMatrix([[2**60, 2**60], [1, 1]])).total_cost == 2**61
