"""The bound of messages that may be divided among levels, against the linear program itself and against schedules."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from pyscalapack_redist.schedules import CommunicationGrid, LengthMatrix, build, search
from pyscalapack_redist.schedules.fractional import Fractional
from pyscalapack_redist.schedules.nested import Messages

NEVER = np.inf


def played(lengths: np.ndarray, weigh: float = 0.0, rounds: int = 0, most: float = NEVER) -> Fractional:
    """The game of some lengths, ended where its bound hardly rises; steps weigh their cost and something."""
    messages = Messages(lengths)
    costs = np.unique(messages.length)[::-1].copy()
    fractional = Fractional(messages, costs, weigh + costs)
    fractional._game.advance(rounds)
    fractional.run(most, time.monotonic() + 60)
    return fractional


def program(lengths: np.ndarray, weigh: float = 0.0) -> float:
    """The least weight of steps where a message may be in several, by SciPy."""
    messages = Messages(lengths)
    costs, senders = np.unique(messages.length)[::-1], lengths.shape[0]
    count, levels, processes = len(messages.length), len(costs), sum(lengths.shape)
    objective = np.concatenate([np.zeros(count * levels), weigh + costs])
    places = np.zeros((count, count * levels + levels))
    loads = np.zeros((processes * levels, count * levels + levels))
    for e in range(count):
        places[e, e * levels : e * levels + int(np.searchsorted(-costs, -messages.length[e])) + 1] = 1
        for v in (messages.sender[e], senders + messages.receiver[e]):
            loads[v * levels + np.arange(levels), e * levels + np.arange(levels)] = 1
    loads[:, count * levels :] = np.tile(-np.eye(levels), (processes, 1))
    solved = linprog(objective, A_ub=loads, b_ub=np.zeros(processes * levels), A_eq=places, b_eq=np.ones(count))
    assert solved.status == 0
    return float(solved.fun)


def random_lengths(seed: int, P: int, Q: int, longest: int) -> np.ndarray:
    lengths = np.random.default_rng(seed).integers(0, longest + 1, (P, Q))
    lengths[0, 0] = max(1, lengths[0, 0])
    return lengths


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 7), st.integers(1, 9), st.sampled_from([0.0, 0.37]))
def test_the_bound_against_the_linear_program(seed: int, P: int, Q: int, longest: int, weigh: float) -> None:
    lengths = random_lengths(seed, P, Q, longest)
    value = program(lengths, weigh)
    bound = played(lengths, weigh, rounds=1000).bound
    assert bound <= (value + 1e-6 if weigh else np.ceil(value - 1e-6))
    assert bound >= 0.99 * value


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_any_prices_give_a_bound(rounds: int) -> None:
    lengths = random_lengths(rounds, 9, 8, 5)
    fractional = played(lengths, 0.5, rounds, most=0.0)  # one look, after few rounds
    assert 0 < fractional.bound <= program(lengths, 0.5) + 1e-6


def test_equal_lengths_and_single_messages() -> None:
    assert played(np.full((4, 6), 3)).bound == 18
    assert played(np.array([[7]])).bound == 7
    assert played(np.diag([5, 4, 3])).bound == 5


def test_lengths_of_very_different_sizes() -> None:
    least = 10**12 + 1  # both messages of length 1 in a step
    assert 0.999 * least < played(np.array([[10**12, 1], [1, 0]])).bound <= least
    assert 0.999 * least < played(np.array([[10**12, 1], [1, 10**12]])).bound <= least


def test_it_proves_what_the_level_sets_and_small_programs_do_not() -> None:
    # 45 -> 22 processes, blocks of 47 and 15: the level sets leave 0.7 % open.
    grid = CommunicationGrid(45, 22, 47, 15, 33439)
    assert grid.cost_bound < 1640
    assert played(grid.lengths, rounds=2000).bound == 1645


def test_the_search_takes_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    class Watched(Fractional):
        def run(self, most: float, deadline: float) -> None:
            super().run(most, deadline + 60)
            seen.append(self.bound)

    monkeypatch.setattr(search, "Fractional", Watched)
    lengths = random_lengths(5, 24, 20, 30)
    schedule = build("optimal", LengthMatrix(lengths), time_limit=5)
    assert len(seen) == 1
    assert seen[0] <= schedule.total_cost
    assert seen[0] > LengthMatrix(lengths).cost_bound


def test_large_programs_are_left_alone() -> None:
    few, many = Messages(np.ones((3, 3), np.int64)), Messages(np.ones((900, 900), np.int64))
    cost = np.array([1])
    assert Fractional.seconds(few, cost) < 1e-5 < 0.05 < Fractional.seconds(many, cost)
    all_differ = Messages(np.arange(1, 90_001).reshape(300, 300))
    assert Fractional.seconds(all_differ, np.arange(90_000, 0, -1)) == np.inf  # half of 8.1e9 places
