"""Levels of messages, the bounds of small programs, and finite arrays."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyscalapack_redist.errors import ScheduleError
from pyscalapack_redist.schedules import CommunicationGrid, LengthMatrix, build
from pyscalapack_redist.schedules.levels import Levels
from pyscalapack_redist.schedules.nested import Attempt, Messages, Targets
from pyscalapack_redist.schedules.relaxation import Grouped, around, part, residues, wishes
from pyscalapack_redist.schedules.schedule import ListedSchedule

PROVED = ("equals the lower bound", "proved by integer program")


def random_lengths(seed: int, P: int, Q: int, longest: int) -> np.ndarray:
    lengths = np.random.default_rng(seed).integers(0, longest + 1, (P, Q))
    lengths[0, 0] = max(1, lengths[0, 0])
    return lengths


def profile_of(grid: LengthMatrix | CommunicationGrid, messages: Messages) -> Targets:
    costs = np.unique(messages.length)[::-1]
    return Targets(costs, np.array([np.count_nonzero(grid.profile == cost) for cost in costs]))


def checked(grid: LengthMatrix, messages: Messages, attempt: Attempt) -> ListedSchedule:
    schedule = ListedSchedule("levels", grid, messages.listed(attempt))
    schedule.validate()
    assert schedule.number_of_steps == attempt.steps
    assert grid.cost_bound <= schedule.total_cost <= attempt.cost
    return schedule


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 12), st.integers(1, 9), st.booleans(), st.booleans())
def test_levels_are_schedules(seed: int, P: int, Q: int, longest: int, late: bool, wished: bool) -> None:
    grid = LengthMatrix(random_lengths(seed, P, Q, longest))
    messages = Messages(grid.lengths)
    targets = profile_of(grid, messages)
    wish = np.random.default_rng(seed).integers(0, len(targets.costs), len(messages.length)) if wished else None
    deadline = time.monotonic() + (-1 if late else 60)
    for order in (None, seed):
        attempt = messages.attempt(targets, deadline, wish, order)
        checked(grid, messages, attempt)
        if not len(attempt.raised):
            assert attempt.cost <= grid.cost_bound
        fewest = messages.within(grid.step_bound, targets, deadline, wish, order)
        assert checked(grid, messages, fewest).number_of_steps == grid.step_bound


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 4), st.integers(1, 5))
def test_small_programs_bound_the_whole(seed: int, P: int, Q: int, longest: int) -> None:
    grid = LengthMatrix(random_lengths(seed, P, Q, longest))
    least = build("optimal", grid, time_limit=20)
    assert least.certificate in PROVED
    messages = Messages(grid.lengths)
    costs, rng = np.unique(messages.length)[::-1], np.random.default_rng(seed)
    everything = np.arange(len(messages.length))
    graphs = [
        Grouped(messages, everything, rng.integers(0, 2, P), rng.integers(0, 2, Q)),
        part(messages, around(messages, everything[:1], int(rng.integers(1, 8)))),
        part(messages, everything),
    ]
    for graph in graphs:
        bound = Levels(graph, time.monotonic() + 20, costs).least(costs.astype(float), []).bound
        assert bound <= least.total_cost
    assert graphs[1].types <= graphs[2].types


def test_wishes_share_out_what_a_program_says() -> None:
    grid = CommunicationGrid(60, 64, 32, 29, 1000007)
    messages = Messages(grid.lengths)
    group = residues(grid, messages)
    shares = np.stack([group.count // 2, group.count - group.count // 2], axis=1).astype(float)
    wish = wishes(group, shares)
    assert (np.bincount(group.kind[wish == 0], minlength=group.types) == group.count // 2).all()
    assert group.count.sum() == len(messages.length) == np.count_nonzero(grid.lengths)


@pytest.mark.parametrize(
    "case",
    [
        (481, 904, 53, 33, 8319380),
        (971, 299, 21, 22, 4337598),
        (642, 140, 21, 4, 1043409),
        (658, 874, 4, 51, 1967),  # takes the program of a part
    ],
)
def test_arrays_are_proved(case: tuple[int, ...]) -> None:
    schedule = build("optimal", CommunicationGrid(*case), time_limit=30)
    schedule.validate()
    assert schedule.certificate in PROVED


def test_an_array_of_many_slices_takes_the_numbers_of_steps_of_a_program() -> None:
    grid = CommunicationGrid(60, 64, 32, 29, 1000007)
    schedule = build("optimal", grid, time_limit=30)
    schedule.validate()
    assert grid.cost_bound < schedule.total_cost <= 24203 * 1.01


@pytest.mark.parametrize("name", ["stepwise", "optimal"])
@pytest.mark.parametrize("case", [(642, 140, 21, 4, 1043409), (481, 904, 53, 33, 8319380)])
def test_fewest_steps_of_large_arrays(name: str, case: tuple[int, ...]) -> None:
    grid = CommunicationGrid(*case)
    schedule = build(name, grid, **({"objective": "steps"} if name == "optimal" else {}))
    schedule.validate()
    assert schedule.number_of_steps == grid.step_bound


def test_where_there_are_too_many_steps_fewer_costs_are_tried() -> None:
    grid = CommunicationGrid(127, 128, 37, 64, 1562499)
    messages = Messages(grid.lengths)
    targets = profile_of(grid, messages)
    assert messages.attempt(targets, time.monotonic() + 60).steps > grid.step_bound
    found = messages.within(grid.step_bound, targets, time.monotonic() + 60)
    hasty = messages.within(grid.step_bound, targets, time.monotonic() - 1)
    for attempt in (found, hasty):
        schedule = ListedSchedule("levels", grid, messages.listed(attempt))
        schedule.validate()
        assert schedule.number_of_steps == grid.step_bound
    assert found.cost <= grid.cost_bound * 1.1 < hasty.cost


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 40))
def test_fewer_costs_are_as_many_steps_none_of_them_cheaper(seed: int, levels: int, least: int) -> None:
    steps = np.random.default_rng(seed).integers(0, 9, levels)
    steps[int(steps[0]) % levels] += 1
    targets = Targets(np.arange(levels, 0, -1), steps)
    for fewer in (targets.coarser(least), targets.merged(least)):
        assert fewer.steps.sum() == steps.sum()
        assert (np.cumsum(fewer.steps) >= np.cumsum(steps)).all()
    used = targets.coarser(least).steps
    assert (used[used > 0][:-1] >= least).all()


@pytest.mark.parametrize(
    "grid",
    [
        CommunicationGrid(60, 64, 32, 29),
        CommunicationGrid(60, 64, 32, 29, 1000007),
        CommunicationGrid(127, 128, 37, 64, 1562499),
    ],
)
def test_stepwise_has_the_fewest_steps_however_little_time_there_is(grid: CommunicationGrid) -> None:
    schedule = build("stepwise", grid, time_limit=1e-9)
    schedule.validate()
    assert schedule.number_of_steps == grid.step_bound


@pytest.mark.parametrize("limit", [0, -1.0, "soon", None])
def test_a_limit_that_is_no_time(limit: object) -> None:
    for name in ("stepwise", "optimal"):
        with pytest.raises(ScheduleError, match=r"time_limit = .* must be a number of seconds of more than 0"):
            build(name, CommunicationGrid(15, 6, 2, 3), time_limit=limit)
