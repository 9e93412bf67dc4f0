"""Searches for least cost: levels of messages, and the programs that say when to stop."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from graphs import random_lengths, seeds
from hypothesis import given
from hypothesis import strategies as st

from pyscalapack_redist.schedules import CommunicationGrid, MessageGraph, build
from pyscalapack_redist.schedules.levels import Levels, subset_of
from pyscalapack_redist.schedules.matchings import Attempt, SortedMessages, Targets
from pyscalapack_redist.schedules.schedule import ListedSchedule

PROVED = ("equals the lower bound", "proved by integer program")


def late() -> float:
    return time.monotonic() + 200


def costs_of(messages: SortedMessages) -> np.ndarray:
    """Lengths of messages, each once, the longest first."""
    return np.unique(messages.length)[::-1].copy()


def check_listed(grid: MessageGraph, messages: SortedMessages, attempt: Attempt) -> ListedSchedule:
    """Levels are a schedule, which costs no more than they say."""
    schedule = ListedSchedule("levels", grid, messages.list_steps(attempt))
    schedule.validate()
    assert schedule.number_of_steps <= attempt.steps
    assert grid.cost_bound <= schedule.total_cost <= attempt.cost
    return schedule


# -- messages in levels


@given(seeds, st.integers(1, 12), st.integers(1, 12), st.integers(1, 9), st.booleans(), st.booleans())
def test_levels_are_schedules(seed: int, P: int, Q: int, longest: int, hasty: bool, prefers: bool) -> None:
    grid = random_lengths(seed, P, Q, longest)
    messages = SortedMessages(grid)
    targets = profile_of(grid, messages)
    preferred = np.random.default_rng(seed).integers(0, len(targets.costs), len(messages.length)) if prefers else None
    deadline = time.monotonic() - 1 if hasty else late()
    for order in (None, seed):
        attempt = messages.attempt(targets, deadline, preferred, order)
        assert check_listed(grid, messages, attempt).number_of_steps == attempt.steps
        if not len(attempt.raised):
            assert attempt.cost <= grid.cost_bound
        fewest = messages.within(grid.step_bound, targets, deadline, preferred, order)
        assert check_listed(grid, messages, fewest).number_of_steps == grid.step_bound


def profile_of(grid: MessageGraph, messages: SortedMessages) -> Targets:
    costs = costs_of(messages)
    return Targets(costs, np.array([np.count_nonzero(grid.profile == cost) for cost in costs]))


@given(seeds, st.integers(2, 6), st.integers(2, 6), st.integers(2, 9))
def test_searches_against_the_program_of_the_whole(seed: int, P: int, Q: int, longest: int) -> None:
    """Whatever is tried within the time: what is proved is the least cost, and the bound of what is not is one."""
    grid = random_lengths(seed, P, Q, longest)
    messages = SortedMessages(grid)
    costs = costs_of(messages)
    whole = subset_of(messages, np.arange(len(messages.length)))
    exact = Levels(whole, late(), costs).least(costs.astype(float), [], whole=True)
    assert exact.steps is not None
    least = int(exact.steps @ costs)
    for seconds in (1e-3, 120):
        schedule = build("optimal", grid, time_limit=seconds)
        schedule.validate()
        assert schedule.lower_bound <= least <= schedule.total_cost
        assert schedule.certificate not in PROVED or schedule.total_cost == least
    assert schedule.certificate in PROVED


# -- arrays that are proved, or have the fewest steps


@pytest.mark.parametrize(
    ("case", "cost"),
    [
        ((481, 904, 53, 33, 8319380), None),
        ((658, 874, 4, 51, 1967), None),  # takes the program of a part
        ((656, 364, 47, 24, 36589), 151),  # takes the weights of a program
        pytest.param((115, 161, 59, 63, 1230), 118, marks=pytest.mark.long),
        pytest.param((241, 883, 50, 47, 1146), 94, marks=pytest.mark.long),
    ],
)
def test_arrays_are_proved(case: tuple[int, ...], cost: int | None) -> None:
    schedule = build("optimal", CommunicationGrid(*case), time_limit=120)
    schedule.validate()
    assert schedule.certificate in PROVED
    assert cost is None or schedule.total_cost == cost


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "seconds", "cost"),
    [
        # takes the numbers of steps of a program
        ((60, 64, 32, 29, 1000007), 30, 24203 * 1.01),
        # the program of few types comes before long searches
        ((791, 989, 43, 53, 1303568), 15, 2400),
        ((546, 487, 19, 7, 83188459), 15, 180000),
    ],
)
def test_programs_are_used_where_they_pay(case: tuple[int, ...], seconds: float, cost: float) -> None:
    grid = CommunicationGrid(*case)
    schedule = build("optimal", grid, time_limit=seconds)
    schedule.validate()
    assert grid.cost_bound < schedule.total_cost <= cost


@pytest.mark.parametrize(
    ("name", "case", "options"),
    [
        ("stepwise", (642, 140, 21, 4, 1043409), {}),
        ("optimal", (481, 904, 53, 33, 8319380), {"objective": "steps"}),
        ("optimal", (49, 20, 19, 30, 41504), {"objective": "steps"}),
        ("stepwise", (60, 64, 32, 29), {"time_limit": 1e-9}),  # however little time there is
        ("stepwise", (60, 64, 32, 29, 1000007), {"time_limit": 1e-9}),
        ("stepwise", (127, 128, 37, 64, 1562499), {"time_limit": 1e-9}),
    ],
)
def test_fewest_steps_of_large_arrays(name: str, case: tuple[int, ...], options: dict[str, Any]) -> None:
    grid = CommunicationGrid(*case)
    schedule = build(name, grid, **options)
    schedule.validate()
    assert schedule.number_of_steps == grid.step_bound
