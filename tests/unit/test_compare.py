"""What `ci/compare` makes of launches in turn, and which cases it times."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "ci" / "comparing"))
from case_list import BROAD, WAYS, TimedCase, all_cases, selection
from table import markdown, rows_of, summary
from verdicts import ALLOWED_IN, Launch, compare

CASES = all_cases()


def launches(*milliseconds: float) -> list[Launch]:
    return [Launch(n / 1e3, n / 1e3) for n in milliseconds]


@pytest.mark.parametrize(
    ("today", "before", "value", "low", "high", "mark", "fails"),
    [
        ([17.0, 16.5], [10.0, 10.0], 1.675, 1.65, 1.7, "SLOWER", True),
        ([10.3, 10.2], [10.0, 10.0], 1.025, 1.02, 1.03, "slower", False),  # in all launches, but not by 5 %
        ([12.0, 9.9], [10.0, 10.0], 1.095, 0.99, 1.2, "", False),  # by more than 5 %, but not in all launches
        ([8.0, 8.1], [10.0, 10.0], 0.805, 0.8, 0.81, "faster", False),
        ([10.0, 10.0], [10.0, 10.0], 1.0, 1.0, 1.0, "", False),
        ([20.0, 11.0], [20.0, 10.0], 1.05, 1.0, 1.1, "", False),  # a slow moment of both versions
        ([12.0] * 9 + [5.0], [10.0] * 10, 1.2, 1.2, 1.2, "SLOWER", True),  # without the outermost
        ([12.0] * 8 + [5.0] * 2, [10.0] * 10, 1.2, 0.5, 1.2, "", False),
    ],
)
def test_a_case_is_slower_where_it_is_so_in_most_neighbouring_launches_and_by_5_percent(
    today: list[float], before: list[float], value: float, low: float, high: float, mark: str, fails: bool
) -> None:
    verdict = compare(launches(*today), launches(*before))
    assert verdict.minima[:3] == pytest.approx((value, low, high))
    assert (verdict.mark, verdict.fails) == (mark, fails)


def test_medians_alone_may_tell() -> None:
    before, today = [Launch(1.0, 1.0), Launch(1.0, 1.1)], [Launch(1.0, 1.5), Launch(1.0, 1.65)]
    verdict = compare(today, before)
    assert verdict.minima[:3] == (1, 1, 1)
    assert verdict.medians[:3] == pytest.approx((1.5, 1.5, 1.5))
    assert verdict.fails


def test_ways_to_use_a_plan_fail_from_3_percent_on() -> None:
    today, before = launches(10.4, 10.4), launches(10.0, 10.0)
    assert not compare(today, before).fails
    assert compare(today, before, ALLOWED_IN["uses"]).fails
    uses = [case for case in CASES if case.suite == "uses"]
    assert {case.way for case in uses if case.nodes} == set(WAYS)
    assert {case.way for case in uses if not case.nodes} == set(WAYS[2:])


def test_there_are_thirty_cases_of_broad_and_all_survive_json() -> None:
    assert sum(BROAD.values()) == sum(case.suite == "broad" for case in CASES) == 30
    assert len({case.key for case in CASES}) == len(CASES)
    assert [TimedCase.from_json(json.loads(json.dumps(case.as_json()))) for case in CASES] == CASES
    for case in CASES:
        assert all(np.prod(side.grid) == case.ranks for side in (case.before, case.after)), case.key


def test_cases_are_selected_by_suite_text_and_ranks() -> None:
    facts = selection(CASES, ["facts"], [8, 16])
    assert {(case.suite, case.ranks) for case in facts} == {("facts", 8), ("facts", 16)}
    assert {case.dtype for case in selection(CASES, ["V24"], [])} == {"|V24"}
    assert selection(CASES, [], []) == CASES


def test_the_table_has_times_on_few_ranks_and_ratios_on_all() -> None:
    few, many, failed = (selection(CASES, ["facts"], [ranks])[0] for ranks in (2, 8, 16))
    results = {case.key: (launches(17.0, 16.5), launches(10.0, 10.0)) for case in (few, many)}
    verdicts = {key: compare(*both) for key, both in results.items()}
    rows = rows_of([few, many, failed], verdicts, results, {failed.key: "4dd6fd9: the result is wrong"})
    assert rows[0][1:] == ["2", "16.5", "10", "1.68", "2%", "1.68", "2%", "SLOWER"]
    assert rows[1][1:] == ["8", "", "", "1.68", "2%", "1.68", "2%", "SLOWER"]
    assert rows[2][1:] == ["16", *[""] * 6, "4dd6fd9: the result is wrong"]
    lines = markdown(["Case", *"abcdefgh"], rows).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert len(lines) == 5
    assert summary([few, many, failed], verdicts)[-3:] == [
        "2 slower in most launches, by more than is allowed:",
        f"  {few.key}",
        f"  {many.key}",
    ]
