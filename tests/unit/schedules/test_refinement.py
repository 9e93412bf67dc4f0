"""Exact searches among few messages, what they tell of the steps, and arrays that are proved by it."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyscalapack_redist._kernels.fitting import FITS, TOO_MANY, fits, minimal
from pyscalapack_redist.schedules import CommunicationGrid, LengthMatrix, build
from pyscalapack_redist.schedules.conflicts import Conflict, Conflicts
from pyscalapack_redist.schedules.levels import EACH_SECOND, Levels
from pyscalapack_redist.schedules.nested import Attempt, Messages
from pyscalapack_redist.schedules.refinement import Refinement
from pyscalapack_redist.schedules.relaxation import Grouped, part
from pyscalapack_redist.schedules.schedule import ListedSchedule
from pyscalapack_redist.schedules.shortage import Cut, shortage
from pyscalapack_redist.schedules.vicinity import Neighbours, Vicinity

PROVED = ("equals the lower bound", "proved by integer program")


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


def small(seed: int, P: int, Q: int, longest: int) -> LengthMatrix:
    lengths = np.random.default_rng(seed).integers(0, longest + 1, (P, Q))
    lengths[0, 0] = max(1, lengths[0, 0])
    return LengthMatrix(lengths)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 3))
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


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 3), st.integers(2, 3), st.integers(2, 4))
@example(75, 2, 2, 2)  # one cost, and nothing is found
def test_findings_hold_for_all_steps_that_have_room(seed: int, P: int, Q: int, longest: int) -> None:
    grid = small(seed, P, Q, longest)
    messages = Messages(grid.lengths)
    costs, rng = np.unique(messages.length)[::-1], np.random.default_rng(seed)
    possible = all_steps(messages, costs, 4)
    nobody = np.zeros(len(costs), dtype=np.int64)
    conflicts = Conflicts(costs, nobody, costs.astype(float))
    everything = np.arange(len(messages.length))
    graphs = [
        Grouped(messages, everything, rng.integers(0, 2, P), rng.integers(0, 2, Q)),
        part(messages, everything[: 1 + len(everything) // 2]),
        part(messages, everything),
    ]
    for _ in range(6):
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
    least, bound = conflicts.least(time.monotonic() + 20)
    assert least is not None
    assert bound == conflicts.value(least)
    assert all(heeds(least, finding) for finding in conflicts.found)
    assert bound <= min((conflicts.value(steps) for steps in possible), default=np.inf)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(2, 6), st.integers(2, 9))
def test_refined_steps_against_the_program_of_the_whole(seed: int, P: int, Q: int, longest: int) -> None:
    grid = small(seed, P, Q, longest)
    messages = Messages(grid.lengths)
    costs = np.unique(messages.length)[::-1]
    fewest = np.cumsum([np.count_nonzero(grid.profile == cost) for cost in costs])
    whole = part(messages, np.arange(len(messages.length)))
    exact = Levels(whole, time.monotonic() + 20, costs).least(costs.astype(float), [], whole=True)
    assert exact.steps is not None
    attempts: list[Attempt] = []
    bounds = [float(grid.cost_bound)]
    refinement = Refinement(messages, costs, fewest, costs.astype(float), None, attempts.append, bounds.append)
    refinement.run(fewest, fewest + len(messages.length), float(grid.cost_bound), time.monotonic() + 20)
    least = int(exact.steps @ costs)
    assert max(bounds) <= least
    assert attempts[-1].cost >= least
    schedule = ListedSchedule("refined", grid, messages.listed(attempts[-1]))
    schedule.validate()
    assert least <= schedule.total_cost <= attempts[-1].cost


@pytest.mark.parametrize(
    ("case", "cost"),
    [
        ((115, 161, 59, 63, 1230), 118),
        ((241, 883, 50, 47, 1146), 94),
        ((607, 625, 61, 63, 31785), 122),
        ((656, 364, 47, 24, 36589), 151),  # takes the weights of a program
        ((858, 754, 25, 53, 263604), 407),  # the bound of the level sets, with messages put anew
        ((808, 870, 23, 39, 162818), 248),
    ],
)
def test_short_arrays_are_proved(case: tuple[int, ...], cost: int) -> None:
    schedule = build("optimal", CommunicationGrid(*case), time_limit=30)
    schedule.validate()
    assert schedule.certificate in PROVED
    assert schedule.total_cost == cost


def test_messages_near_one_come_from_it_outwards() -> None:
    messages = Messages(CommunicationGrid(115, 161, 59, 63, 1230).lengths)
    among = np.ones(len(messages.length), dtype=bool)
    among[3] = False
    near = Neighbours(messages).nearest(3, 20, among)
    assert near[0] == 3
    assert len(set(near.tolist())) == len(near) == 20
    for place in range(1, len(near)):
        before = near[:place]
        alike = (messages.sender[before] == messages.sender[near[place]]) | (
            messages.receiver[before] == messages.receiver[near[place]]
        )
        assert alike.any()


@pytest.mark.parametrize("longest", [1000, 10**6])
def test_programs_are_small_for_the_time_that_is_left(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Solvers look at the clock once in a while only; with lengths that all differ a program has rows above all."""
    begun: list[float] = []
    solve = scipy.optimize.linprog

    def measured(*arguments: Any, **options: Any) -> Any:
        entries = options["A_eq"].nnz + options["A_ub"].nnz
        begun.append(entries / options["options"]["time_limit"])
        return solve(*arguments, **options)

    clock = itertools.count(time.monotonic(), 1e-3)  # a look takes a millisecond, all else no time
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(scipy.optimize, "linprog", measured)
    grid = LengthMatrix(np.random.default_rng(0).integers(1, longest + 1, (64, 64)))
    schedule = build("optimal", grid)
    schedule.validate()
    assert schedule.total_cost < 1.1 * grid.cost_bound
    assert max(begun, default=0.0) < 8 * EACH_SECOND
