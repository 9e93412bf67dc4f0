"""The engine in schedules of its ranks, its network and its rings; what fails prints a token, and how to run it again."""

from __future__ import annotations

import pytest

pytest.importorskip("greenlet")
from interleavings.cases import CASES
from interleavings.explore import Failure, explore_case, replay

FEW = -(-5_000 // len(CASES))  # schedules by seeds of each case in the default tier
FEWEST = {"many in flight, packed, mixed": 50}  # where a fault has been found that fewer do not show
SMALLEST = ("all calls, two", "all in flight, two", "all errors, two")  # of what is explored one by one
SHARES = [  # of the long tier, by words in the name: more where they take less time
    (("copies", "tiles"), 300),
    (("stages", "many", "freed", "connection ends", "a rank ends"), 500),
    (("more",), 1000),  # of 730 one finds a ring that is too small
    (("mixed", "while elements move"), 900),
    (("three", "apart", "in pieces", "by "), 1400),
    (("",), 2600),
]


def few(name: str) -> int:
    """Schedules by seeds of a case in the default tier."""
    return max(FEW, FEWEST.get(name, 0))


def many(name: str) -> int:
    """Schedules by seeds of a case in the long tier."""
    return next(number for words, number in SHARES if any(word in name for word in words))


def explored(name: str, first_seed: int, seeds: int, whole: bool) -> None:
    """Explore a case, and its exhaustive part where it is `whole`, in a process of its own."""
    case = CASES[name]
    bound = case.bound if whole else None
    try:
        report = explore_case(case, exhaustive_bound=bound, first_seed=first_seed, seeds=seeds, processes=1)
    except Failure as failure:
        again = f"in tests/: python -m interleavings.explore --only {name!r} --replay {failure.token!r}"
        pytest.fail(f"{failure}\nAgain, {again}", pytrace=False)
    assert report.finished
    assert report.seeded == seeds
    assert (report.exhaustive > 100) == (bound is not None)


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    explored(name, 0, few(name), name in SMALLEST)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_more_of_a_case(name: str) -> None:
    explored(name, few(name), many(name), name not in SMALLEST)


@pytest.mark.parametrize("token", ["s1", "s7", "x1:3=1"])
def test_a_token_gives_the_same_schedule_again(token: str) -> None:
    case = CASES["all errors, apart"]
    logs = [replay(case.make_world, case.checks, token).log for _ in range(2)]
    assert logs[0] == logs[1]
