"""The engine in schedules of its ranks, its network and its rings; what fails prints a token, and how to run it again."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

pytest.importorskip("greenlet")
from interleavings.cases import CASES
from interleavings.explore import Case, Failure, Report, explore_case, replay

pytestmark = pytest.mark.xdist_group("interleavings")  # the fixture counts over all of them
AT_LEAST = 100_000  # schedules of all cases


def share_of(name: str) -> int:
    """Schedules by seeds: more where they take less time."""
    if "copies" in name or "tiles" in name:
        return 300
    if "stages" in name or "many" in name:
        return 500
    if name.startswith(("freed", "connection ends", "a rank ends")):
        return 500
    if "more" in name:
        return 1000  # of 730 one finds a ring that is too small
    if "two nodes" in name or "while elements move" in name:
        return 1200
    if any(words in name for words in ("three", "apart", "overlapping", "in pieces", "by ")):
        return 1800
    return 4100


@pytest.fixture(scope="module")
def reports() -> Iterator[dict[str, Report]]:
    """Of each case. In the end it is said what there was."""
    found: dict[str, Report] = {}
    begun = time.monotonic()
    yield found
    total = sum(result.schedules for result in found.values())
    print(f"\n{total} schedules of {len(found)} cases in {time.monotonic() - begun:.0f} s")
    assert len(found) < len(CASES) or total >= AT_LEAST


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, reports: dict[str, Report]) -> None:
    try:
        reports[name] = explore_case(CASES[name], seeds=share_of(name))
    except Failure as failure:
        again = f"in tests/: python -m interleavings.explore --only {name!r} --replay {failure.token!r}"
        pytest.fail(f"{failure}\nAgain, {again}", pytrace=False)
    assert reports[name].finished


@pytest.mark.parametrize("token", ["s1", "s7", "x1:3=1"])
def test_a_token_gives_the_same_schedule_again(token: str) -> None:
    case: Case = CASES["all errors apart"]
    logs = [replay(case.make_world, case.checks, token).log for _ in range(2)]
    assert logs[0] == logs[1]
