"""Searches for least cost: levels of messages, the bounds and programs that say when to stop, and what is near a schedule."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
from graphs import random_lengths, seeds
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from pyscalapack_redist._kernels.ejection import ejected
from pyscalapack_redist._kernels.fitting import FITS, TOO_MANY, fits, minimal
from pyscalapack_redist.schedules import CommunicationGrid, LengthMatrix, MessageGraph, build
from pyscalapack_redist.schedules.conflicts import Conflict, Conflicts
from pyscalapack_redist.schedules.fractional import Fractional
from pyscalapack_redist.schedules.levels import Levels
from pyscalapack_redist.schedules.nested import Attempt, Messages, Targets
from pyscalapack_redist.schedules.relaxation import Grouped, part
from pyscalapack_redist.schedules.schedule import ListedSchedule
from pyscalapack_redist.schedules.shortage import Cut, shortage
from pyscalapack_redist.schedules.vicinity import Neighbours, Vicinity

PROVED = ("equals the lower bound", "proved by integer program")
NEVER = np.inf


def late() -> float:
    return time.monotonic() + 200


def costs_of(messages: Messages) -> np.ndarray:
    """Lengths of messages, each once, the longest first."""
    return np.unique(messages.length)[::-1].copy()


def check_listed(grid: MessageGraph, messages: Messages, attempt: Attempt) -> ListedSchedule:
    """Levels are a schedule, which costs no more than they say."""
    schedule = ListedSchedule("levels", grid, messages.listed(attempt))
    schedule.validate()
    assert schedule.number_of_steps <= attempt.steps
    assert grid.cost_bound <= schedule.total_cost <= attempt.cost
    return schedule


# -- messages in levels


@given(seeds, st.integers(1, 12), st.integers(1, 12), st.integers(1, 9), st.booleans(), st.booleans())
def test_levels_are_schedules(seed: int, P: int, Q: int, longest: int, hasty: bool, wished: bool) -> None:
    grid = random_lengths(seed, P, Q, longest)
    messages = Messages(grid)
    targets = profile_of(grid, messages)
    wish = np.random.default_rng(seed).integers(0, len(targets.costs), len(messages.length)) if wished else None
    deadline = time.monotonic() - 1 if hasty else late()
    for order in (None, seed):
        attempt = messages.attempt(targets, deadline, wish, order)
        assert check_listed(grid, messages, attempt).number_of_steps == attempt.steps
        if not len(attempt.raised):
            assert attempt.cost <= grid.cost_bound
        fewest = messages.within(grid.step_bound, targets, deadline, wish, order)
        assert check_listed(grid, messages, fewest).number_of_steps == grid.step_bound


def profile_of(grid: MessageGraph, messages: Messages) -> Targets:
    costs = costs_of(messages)
    return Targets(costs, np.array([np.count_nonzero(grid.profile == cost) for cost in costs]))


@given(seeds, st.integers(2, 6), st.integers(2, 6), st.integers(2, 9))
def test_searches_against_the_program_of_the_whole(seed: int, P: int, Q: int, longest: int) -> None:
    """Whatever is tried within the time: what is proved is the least cost, and the bound of what is not is one."""
    grid = random_lengths(seed, P, Q, longest)
    messages = Messages(grid)
    costs = costs_of(messages)
    whole = part(messages, np.arange(len(messages.length)))
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
        ((115, 161, 59, 63, 1230), 118),
        ((241, 883, 50, 47, 1146), 94),
        ((656, 364, 47, 24, 36589), 151),  # takes the weights of a program
        ((858, 754, 25, 53, 263604), 407),  # the bound of the level sets, with messages put anew
        pytest.param((607, 625, 61, 63, 31785), 122, marks=pytest.mark.long),
        pytest.param((808, 870, 23, 39, 162818), 248, marks=pytest.mark.long),
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


# -- the bound of messages that may be divided among levels


def played(lengths: np.ndarray, weigh: float = 0.0, rounds: int = 0, most: float = NEVER) -> Fractional:
    """The game of some lengths, ended where its bound hardly rises; steps weigh their cost and something."""
    messages = Messages(LengthMatrix(lengths))
    costs = costs_of(messages)
    fractional = Fractional(messages, costs, weigh + costs)
    fractional._game.advance(rounds)
    fractional.run(most, late())
    return fractional


def program(lengths: np.ndarray, weigh: float = 0.0) -> float:
    """The least weight of steps where a message may be in several, by SciPy."""
    messages = Messages(LengthMatrix(lengths))
    costs, senders = costs_of(messages), lengths.shape[0]
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


@given(seeds, st.integers(1, 7), st.integers(1, 7), st.integers(1, 9), st.sampled_from([0.0, 0.37]))
def test_the_bound_against_the_linear_program(seed: int, P: int, Q: int, longest: int, weigh: float) -> None:
    """Any prices give a bound."""
    lengths = random_lengths(seed, P, Q, longest).lengths
    value = program(lengths, weigh)
    hasty, bound = played(lengths, weigh, seed % 4, most=0.0).bound, played(lengths, weigh, rounds=1000).bound
    assert 0 < hasty <= (value + 1e-6 if weigh else np.ceil(value - 1e-6))
    assert 0.99 * value <= bound <= (value + 1e-6 if weigh else np.ceil(value - 1e-6))


def test_it_proves_what_the_level_sets_and_small_programs_do_not() -> None:
    # 45 -> 22 processes, blocks of 47 and 15: the level sets leave 0.7 % open.
    grid = CommunicationGrid(45, 22, 47, 15, 33439)
    assert grid.cost_bound < 1640
    assert played(grid.lengths, rounds=2000).bound == 1645


# -- edges put into levels while others are put out


@given(seeds, st.integers(1, 60), st.integers(1, 60), st.integers(1, 900), st.integers(1, 90))
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


# -- exact searches among few messages, and what they tell of the steps


def fitting(left: np.ndarray, right: np.ndarray, widest: np.ndarray, room: np.ndarray) -> bool:
    """Whether edges fit, by trying all levels of each."""
    for levels in itertools.product(*(range(int(last) + 1) for last in widest)):
        used = np.zeros_like(room)
        for end in (left, right):
            np.add.at(used, (end, np.array(levels, dtype=int)), 1)
        if (used <= room).all():
            return True
    return not len(widest)


def all_steps(messages: Messages, costs: np.ndarray, most: int) -> list[np.ndarray]:
    """Every number of steps of each cost or more, up to some number, into which all messages fit."""
    places = np.searchsorted(-costs, -messages.length)
    ends = messages.sender, messages.shape[0] + messages.receiver
    return [
        np.array(steps)
        for steps in itertools.combinations_with_replacement(range(most + 1), len(costs))
        if fitting(*ends, places, np.tile(np.diff(steps, prepend=0), (sum(messages.shape), 1)))
    ]


def heeds(steps: np.ndarray, finding: Conflict | Cut) -> bool:
    if isinstance(finding, Cut):
        return int(finding.weights @ np.diff(steps, prepend=0)) >= finding.least
    return bool((steps[finding.levels] > finding.most).any())


@given(seeds, st.integers(1, 7), st.integers(1, 3))
def test_the_search_against_trying_all(seed: int, edges: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.integers(0, 3, edges), 3 + rng.integers(0, 3, edges)
    widest, room = rng.integers(0, levels, edges), rng.integers(0, 3, (6, levels))
    level = rng.integers(-1, levels, edges)
    answer = fits(left, right, widest, room, 10**6, level)
    assert answer == (FITS if fitting(left, right, widest, room) else TOO_MANY)
    mask = minimal(left, right, widest, room, 10**6) > 0
    if answer == FITS:
        used = np.zeros_like(room)
        np.add.at(used, (left, level), 1)
        np.add.at(used, (right, level), 1)
        assert (used <= room).all()
        assert (level <= widest).all()
        assert not mask.any()
    else:
        assert not fitting(left[mask], right[mask], widest[mask], room)
        for edge in np.flatnonzero(mask):
            fewer = mask.copy()
            fewer[edge] = False
            assert fitting(left[fewer], right[fewer], widest[fewer], room)


@given(seeds, st.just(2), st.integers(2, 3), st.integers(2, 4))
@example(75, 2, 2, 2)  # one cost, and nothing is found
def test_findings_hold_for_all_steps_that_have_room(seed: int, P: int, Q: int, longest: int) -> None:
    grid = random_lengths(seed, P, Q, longest)
    messages = Messages(grid)
    costs, rng = costs_of(messages), np.random.default_rng(seed)
    possible = all_steps(messages, costs, 3)
    nobody = np.zeros(len(costs), dtype=np.int64)
    conflicts = Conflicts(costs, nobody, costs.astype(float))
    everything = np.arange(len(messages.length))
    graphs = [
        Grouped(messages, everything, rng.integers(0, 2, P), rng.integers(0, 2, Q)),
        part(messages, everything[: 1 + len(everything) // 2]),
        part(messages, everything),
    ]
    for _ in range(2):
        steps = np.sort(rng.integers(0, 4, len(costs)))
        found = [shortage(graph, costs, np.diff(steps, prepend=0), 10.0) for graph in graphs]
        near = Vicinity(messages, Neighbours(messages).nearest(0, 6, np.ones(len(messages.length), dtype=bool)))
        at = np.searchsorted(-costs, -near.lengths)
        findings: list[Conflict | Cut] = [cut for cut in found if cut is not None]
        if near.fit(steps[at]) == TOO_MANY:
            findings.append(conflicts.lifted(near.smallest(steps[at]), steps))
        for finding in findings:
            assert not heeds(steps, finding)
            assert heeds(conflicts.heeded(steps, finding), finding)
            assert all(heeds(other, finding) for other in possible)
        conflicts.found += findings
    least, bound = conflicts.least(late())
    assert least is not None
    assert bound == conflicts.value(least)
    assert all(heeds(least, finding) for finding in conflicts.found)
    assert bound <= min((conflicts.value(steps) for steps in possible), default=np.inf)
