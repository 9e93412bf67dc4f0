"""Which kind of store writes B is found by trial; here with times that are made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyscalapack_redist._kernels.bundle import Bundle
from pyscalapack_redist._kernels.stores import SizeClass, Stores, Trials
from pyscalapack_redist.comm import node as cores
from pyscalapack_redist.exchanges.exchange import stores_for

NBYTES = 1000
Cost = Callable[[int, bool], float]  # nanoseconds per byte of a use, by its number and kind


def uses(number: int, cost: Cost, *plans: Stores) -> list[bool]:
    """The kinds in which so many uses of plans in turn write."""
    kinds = []
    for k in range(number):
        stores = plans[k % len(plans)]
        kinds.append(stores.begin())
        stores.add(NBYTES, round(cost(k, kinds[-1]) * NBYTES))
    return kinds


def plan(size_class: SizeClass | None = None) -> Stores:
    return Stores(NBYTES, True, Trials(size_class or SizeClass()))


@pytest.mark.parametrize("slower", [1.2, 1.4, 3])
@pytest.mark.parametrize("faster", [False, True])
def test_the_faster_kind_is_taken(slower: float, faster: bool) -> None:
    noise = np.random.default_rng(3).uniform(1, 1.1, 10_000)
    kinds = uses(10_000, lambda k, past: noise[k] * (1 if past == faster else slower), plan())
    assert kinds[20:].count(not faster) <= 9980 / 40
    assert kinds[20:200].count(not faster) == 0


def test_a_machine_that_changes_is_followed_within_200_uses() -> None:
    for changes in range(300, 500, 7):
        kinds = uses(changes + 1000, lambda k, past: 1 + (past == (k > changes)), plan())  # noqa: B023
        assert kinds[100:changes].count(False) <= (changes - 100) / 40 + 1
        assert kinds[changes + 200 :].count(True) <= 800 / 40


def test_plans_in_turn_are_each_tried() -> None:
    """What one takes is no measure of the other, which is slower either way."""
    shared = SizeClass()
    plans = plan(shared), plan(shared)
    kinds = uses(1000, lambda k, past: (1 + k % 2) * (1 + past), *plans)
    assert sum(kinds[400:]) <= 600 / 40


def test_a_new_plan_begins_with_what_was_found() -> None:
    shared = SizeClass()
    uses(20, lambda k, past: 1 + past, plan(shared))
    assert not shared.past
    assert not any(uses(50, lambda k, past: 1, plan(shared)))


def test_moves_of_parts_are_timed_together() -> None:
    """As messages that come by MPI are unpacked: the last part ends the use."""
    stores, cost = plan(), {False: 1, True: 2}
    for _ in range(20):
        kind = stores.begin()
        for part in (100, 400, 500):
            stores.add(part, part * cost[kind])
    assert not stores.begin()


@pytest.mark.parametrize(
    ("reported", "sharing", "ranks", "first"),
    [(260, 2, 2, 2), (32, 8, 8, 2), (8, 8, 8, 0.5), (32, 2, 1, 2), (260, 120, 2, 2)],
)
def test_the_first_use_goes_by_a_few_mib_for_each_rank(
    monkeypatch: pytest.MonkeyPatch, reported: int, sharing: int, ranks: int, first: float
) -> None:
    cache = cores.LastCache(reported * 2**20, sharing)
    monkeypatch.setattr("pyscalapack_redist.exchanges.exchange.last_cache", lambda: cache)
    nothing: Any = Bundle([], "")
    for size, past in ((first * 2**20 - 8, False), (first * 2**20, True)):
        arriving: Any = _Sized(int(size))
        assert stores_for([arriving], nothing, ranks).past == past


class _Sized:
    """A bundle of many bytes, of which only these are asked for."""

    pattern = True, False, 9

    def __init__(self, size: int) -> None:
        self.size = size
