"""What holds for every algorithm: messages move once, one-port steps are, and own parts are parts of the whole."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from graphs import small_grids, some_grids, some_irregular, some_matrices, some_wholes
from hypothesis import given
from hypothesis import strategies as st

from pyscalapack_redist import BlockCyclic, Descriptor, ProcessGrid, ScheduleError
from pyscalapack_redist.schedules import (
    NAMES,
    CommunicationGrid,
    LengthMatrix,
    ListedSchedule,
    MessageGraph,
    Schedule,
    between,
    build,
    product,
)

ORDERS = ("natural", "random", "phases", "random-phases")
FORMULAS = ("walker-otto", "phases", "random-phases", "classes")
ANYWHERE = tuple(name for name in NAMES if name not in FORMULAS)


def schedules(grid: MessageGraph) -> Iterator[Schedule]:
    for name in NAMES:
        try:
            yield build(name, grid, **({"time_limit": 0.01} if name == "optimal" else {}))
        except ScheduleError:
            assert name in FORMULAS


def check_parts(schedule: Schedule) -> None:
    """Each process has its part of the steps, in their order."""
    grid = schedule.grid
    rows = [(k, *row) for k, step in enumerate(schedule.steps) for row in step.tolist()]
    for p in range(grid.P):
        part = schedule.of_sender(p).tolist()
        assert sorted(map(tuple, part)) == sorted((k, q, length) for k, sender, q, length in rows if sender == p)
        assert [row[0] for row in part] == sorted(row[0] for row in part)
    for q in range(grid.Q):
        part = schedule.of_receiver(q).tolist()
        assert sorted(map(tuple, part)) == sorted((k, p, length) for k, p, receiver, length in rows if receiver == q)
        assert [row[0] for row in part] == sorted(row[0] for row in part)


def check(schedule: Schedule) -> None:
    schedule.validate()
    check_parts(schedule)
    grid, table = schedule.grid, schedule.table()
    assert ((table >= 0) == (grid.lengths > 0)).all()
    for k, step in enumerate(schedule.steps):
        assert (table[step[:, 0], step[:, 1]] <= k).all()
    costs = []
    for step in schedule.steps:
        load = np.zeros(grid.P + grid.Q, dtype=np.int64)
        np.add.at(load, step[:, 0], step[:, 2])
        np.add.at(load, grid.P + step[:, 1], step[:, 2])
        costs.append(int(load.max()))
    assert schedule.total_cost == sum(costs)
    assert schedule.one_port == (schedule.name not in ORDERS)
    if schedule.one_port:
        assert schedule.total_cost >= schedule.lower_bound
        assert (schedule.certificate == "equals the lower bound") == (schedule.total_cost == schedule.lower_bound)


@given(some_grids | some_matrices | some_wholes | some_irregular)
def test_every_schedule_is_valid(grid: MessageGraph) -> None:
    for schedule in schedules(grid):
        check(schedule)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), st.integers(1, 12), st.booleans(), st.data())
def test_walker_otto_and_classes_on_arrays(P: int, Q: int, r: int, K: int, grows: bool, data: st.DataObject) -> None:
    r, s = (r, K * r) if grows else (K * r, r)
    n = data.draw(st.one_of(st.none(), st.integers(0, 400)))
    grid = CommunicationGrid(
        P, P, r, s, n, data.draw(st.integers(0, 9)) * min(r, s), data.draw(st.integers(0, 9)) * min(r, s)
    )
    for name in FORMULAS[:3]:
        check(build(name, grid))
    grid = CommunicationGrid(P, Q, r, s, n, data.draw(st.integers(-9, 9)))
    d = math.gcd(r, s)
    if math.gcd(r // d, Q) == math.gcd(s // d, P) == 1:
        schedule = build("classes", grid)
        check(schedule)
        if n is None:  # Proposition 4
            assert (schedule.number_of_steps, schedule.total_cost) == (grid.step_bound, grid.cost_bound)
    else:
        with pytest.raises(ScheduleError, match="Proposition 3"):
            build("classes", grid)


@given(some_grids | some_matrices)
def test_steps_of_each_algorithm(grid: MessageGraph) -> None:
    most = int((grid.lengths > 0).sum(axis=1).max())
    assert build("natural", grid).number_of_steps == most == build("random", grid, seed=5).number_of_steps
    for name, sign in (("caterpillar", 1), ("ring", -1)):
        schedule = build(name, grid)
        assert schedule.number_of_steps == max(grid.P, grid.Q) == len(schedule.steps)
        for t, step in enumerate(schedule.steps):
            assert ((step[:, 1] + sign * step[:, 0] - t) % max(grid.P, grid.Q) == 0).all()
    assert build("stepwise", grid).number_of_steps == grid.step_bound  # Theorem 1
    fewest = build("optimal", grid, objective="steps", time_limit=0.1)
    assert fewest.number_of_steps == grid.step_bound


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 6), st.integers(1, 12))
def test_proposition_6(P: int, Q: int, r: int, K: int) -> None:
    """Stepwise has the fewest steps and the least cost from blocks to their multiples."""
    grid = CommunicationGrid(P, Q, r, K * r)
    schedule = build("stepwise", grid)
    assert (schedule.number_of_steps, schedule.total_cost) == (grid.step_bound, grid.cost_bound)


@given(some_irregular)
def test_natural_is_the_order_of_the_first_elements(graph: MessageGraph) -> None:
    firsts, schedule = graph.first_elements(np.arange(graph.P)), build("natural", graph)
    for p in range(graph.P):
        part = schedule.of_sender(p)[:, 1].tolist()
        assert part == np.argsort(firsts[p])[: len(part)].tolist()


def test_random_depends_on_its_seed_alone() -> None:
    grid = CommunicationGrid(16, 16, 7, 11)
    first, again, other = (build("random", grid, seed=seed).table() for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@given(some_grids, small_grids, st.sampled_from(ANYWHERE[:6]), st.sampled_from(ANYWHERE), st.booleans())
def test_products(grid_a: CommunicationGrid, grid_b: CommunicationGrid, first: str, second: str, own: bool) -> None:
    same = np.eye(grid_a.P * grid_b.P, grid_a.Q * grid_b.Q, dtype=bool) if own else None
    a, b = build(first, grid_a), build(second, grid_b)
    both = product([a, b], same)
    both.validate()
    assert both.number_of_steps == a.number_of_steps * b.number_of_steps
    if not own and both.one_port:
        assert both.total_cost == a.total_cost * b.total_cost
    assert both.certificate == f"for each axis: {a.certificate}; {b.certificate}"
    if own:
        assert (both.grid.lengths[same] == 0).all()
    check_parts(both)


def test_broken_schedules_are_found() -> None:
    grid = LengthMatrix([[2, 1], [0, 3]])
    good = [np.array([[0, 0, 2], [1, 1, 3]]), np.array([[0, 1, 1]])]
    ListedSchedule("example", grid, good).validate()
    for steps, words in (
        (good[:1], "move 0 elements from 0 to 1, but the message has 1"),
        ([*good, good[1]], "move 2 elements from 0 to 1, but the message has 1"),
        ([np.concatenate(good)], "sender 0 is 2 times in step 0"),
        ([np.array([[0, 5, 2]])], "receiver 5; there are 2"),
        ([*good, np.array([[1, 0, 0]])], "length 0 from 1 to 0"),
        ([np.array([[0, 1]])], "rows sender, receiver, length"),
    ):
        with pytest.raises(ScheduleError, match=words):
            ListedSchedule("example", grid, steps).validate()
    crowded = ListedSchedule("example", grid, [np.concatenate(good)], one_port=False)
    crowded.validate()
    assert crowded.total_cost == 4  # receiver 1 gets 3 + 1


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("optimum", {}, ["'optimum' is unknown; there are optimal, ", "walker-otto"]),
        ("open-shop", {}, ["'open-shop' is unknown; there are ", "stepwise", "optimal"]),
        ("auto", {}, ["leaves the choice to redistribute", "name one of natural, random, "]),
        ("ring", {"seed": 1}, ["seed = 1", "it has none"]),
        ("optimal", {"limit": 1}, ["objective and time_limit"]),
        ("optimal", {"objective": "price"}, ["objective = 'price'", "'cost', 'steps'"]),
        ("optimal", {"objective": (1, -1)}, ["(alpha, beta)"]),
        ("random", {"seed": "x"}, ["seed = 'x'"]),
        ("optimal", {"time_limit": "soon"}, ["time_limit = 'soon' must be a number of seconds of more than 0"]),
        ("stepwise", {"time_limit": -1.0}, ["time_limit = -1.0 must be a number of seconds of more than 0"]),
        ("classes", {}, ["gcd(12, 16) = 4", "stepwise for the fewest steps", "optimal for the least cost"]),
        ("walker-otto", {}, ["r -> K r or K r -> r", "r = 12, s = 35", "stepwise"]),
    ],
)
def test_bad_requests_are_named(name: str, options: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ScheduleError) as error:
        build(name, CommunicationGrid(16, 16, 12, 35), **options)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_schedules_with_conditions_say_what_to_use() -> None:
    a, b = Descriptor((9,), ("balanced",), ProcessGrid((2,))), Descriptor((9,), (1,), ProcessGrid((3,)))
    for name in FORMULAS:
        with pytest.raises(ScheduleError, match="needs a CommunicationGrid of one dimension; use stepwise or optimal"):
            build(name, between(*a.distributions, *b.distributions))
    with pytest.raises(ScheduleError, match=r"a.n = 9 and b.n = 8 must be equal"):
        between(a.distributions[0], BlockCyclic(8, 1, 3))


def test_tables_past_memory_are_refused_and_own_parts_are_not() -> None:
    grid, full = CommunicationGrid(10**5, 10**5, 7, 11), CommunicationGrid(10**5, 10**5 - 1, 7, 11)
    for name in ("natural", "random", "caterpillar", "ring", "classes"):
        with pytest.raises(ScheduleError, match=r"1e\+10 entries.*of_sender"):
            build(name, grid).steps  # noqa: B018
    for name in ("stepwise", "greedy", "optimal"):
        with pytest.raises(ScheduleError, match=r"1e\+10 messages.*of_sender"):
            build(name, full)
    for name in ("natural", "random", "caterpillar", "ring", "classes"):
        schedule = build(name, grid)
        (step, q, length), *_ = schedule.of_sender(77).tolist()
        assert grid.length(77, q) == length
        assert [step, 77, length] in schedule.of_receiver(q).tolist()


@pytest.mark.parametrize("name", ["natural", "caterpillar", "classes", "walker-otto"])
def test_own_part_takes_no_table(name: str) -> None:
    tracemalloc.start()
    try:
        schedule = build(name, CommunicationGrid(1024, 1024, 4, 4 * 17))
        schedule.of_sender(500)
        schedule.of_receiver(3)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "lengths" not in vars(schedule.grid)
    assert most < 1024 * 1024  # bytes; a table of the pairs of processes would have more elements
