"""What the benchmark says of all cases together, of where time goes, and of two runs; and its pictures."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from variations.suites import VARIATIONS

from pyscalapack_redist.tools.bench.results import CaseResult, Column, MethodResult, Results, fastest, ratios
from pyscalapack_redist.tools.bench.suites import SUITES as INSTALLED
from pyscalapack_redist.tools.bench.tables import (
    changes,
    comparison_lines,
    extreme,
    library,
    means,
    profile_table,
    summary_table,
)
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.text import console, print_table

SUITES = INSTALLED | VARIATIONS
ENVIRONMENT = {
    "ranks": 2,
    "cores": 2,
    "mpi": "an MPI",
    "flag_round_trip_ns": 123.4,
    "plans": "made before timing and reused",
}


def result(case: Case, **seconds: float) -> CaseResult:
    """Minimum times by the names of methods; medians are one and a half times as long."""
    return CaseResult(case, tuple(MethodResult(name, (t, 1.5 * t, 9 * t), 0, True) for name, t in seconds.items()))


def three_cases(auto: float = 2.0) -> Results:
    cases = SUITES["demo"].cases
    return Results(
        ENVIRONMENT,
        (
            result(cases[0], auto=auto, pxgemr2d=16.0, memcpy=1.0),
            result(cases[1], auto=8.0, pxgemr2d=16.0, memcpy=1.0),
            result(cases[2], auto=4.0, memcpy=1.0),  # pxgemr2d does not apply
        ),
    )


def rows(table: Any) -> dict[str, list[str]]:
    out = console()
    with out.capture() as text:
        print_table(out, table)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.get().splitlines()]
    return {line[0]: line[1:] for line in lines[2:]}


# -- all cases together


def least(column: Column) -> dict[int, float]:
    return {number: times.least for number, times in column.items()}


def test_geometric_means_leave_out_what_did_not_run() -> None:
    times = three_cases().times
    to_library = ratios(library(times), times["auto"])
    assert least(to_library) == {1: 8.0, 2: 2.0}
    assert means(to_library) == "4.00 / 4.00"
    assert extreme(to_library, min) == "2.00 (case 2)"
    to_memcpy = ratios(times["auto"], times["memcpy"])
    assert means(to_memcpy) == "4.00 / 4.00"
    assert extreme(to_memcpy, max) == "8.00 (case 2)"
    assert means(ratios(library(times), {})) == extreme({}, max) == "-"


def test_the_library_in_use_comes_before_those_that_are_named() -> None:
    cases = SUITES["demo"].cases
    second, third = "pxgemr2d=/second.so", "pxgemr2d=/third.so"
    some = [{second: 2.0, third: 3.0, "pxgemr2d": 1.0}, {second: 2.0, third: 3.0}, {third: 3.0}]
    run = Results(ENVIRONMENT, tuple(result(case, **times) for case, times in zip(cases, some, strict=True)))
    assert least(library(run.times)) == {1: 1.0, 2: 2.0, 3: 3.0}
    assert list(map(len, rows(summary_table(run)).values())) == [6, 6, 6]


def test_the_fastest_of_several_is_found_for_each_statistic() -> None:
    times = three_cases().times
    assert least(fastest([times["auto"], times["pxgemr2d"]])) == {1: 2.0, 2: 8.0, 3: 4.0}
    assert fastest([]) == {}


def test_the_summary_has_a_row_for_each_method() -> None:
    assert rows(summary_table(three_cases())) == {
        "auto": ["3", "4.00 / 4.00", "8.00 (case 2)", "2", "4.00 / 4.00", "2.00 (case 2)"],
        "pxgemr2d": ["2", "16.0 / 16.0", "16.0 (case 1)", "-", "-", "-"],
        "memcpy": ["3", "1.00 / 1.00", "1.00 (case 1)", "-", "-", "-"],
    }


# -- where time goes


def profiled() -> CaseResult:
    first = three_cases().cases[0]
    parts = (("packed", (0.001, 0.003, 0.002)), ("waited", (0.5, 0.0, 0.25)))
    return dataclasses.replace(
        first, methods=(dataclasses.replace(first.methods[0], profile=parts), *first.methods[1:])
    )


def test_a_profile_is_shown_over_the_ranks() -> None:
    assert profile_table(three_cases().cases[0]) is None
    out = console()
    with out.capture() as text:
        print_table(out, profile_table(profiled()))  # type: ignore[arg-type]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.get().splitlines()]
    assert lines[2:] == [
        ["auto", "packed", "1.00 ms", "2.00 ms", "3.00 ms"],
        ["auto", "waited", "0.00 us", "250 ms", "500 ms"],
    ]


def test_a_profile_is_in_the_json() -> None:
    results = Results(ENVIRONMENT, (profiled(),))
    assert Results.from_json(results.to_json()) == results
    assert '"packed": [' in results.to_json()
    assert "profile" not in three_cases().to_json()


# -- two runs


def test_a_comparison_sums_up_each_method() -> None:
    lines = list(comparison_lines(three_cases(), three_cases(4.0)))
    assert f"auto: 1 slower, 2 same; now / then in geometric mean: {2 ** (1 / 3):.2f}" in lines
    assert "pxgemr2d: 2 same; now / then in geometric mean: 1.00" in lines
    assert not any("not the same is timed" in line for line in lines)


def test_a_comparison_of_plans_reused_and_plans_made_anew_says_so() -> None:
    once = dataclasses.replace(three_cases(), environment={**ENVIRONMENT, "plans": SUITES["once"].plans})
    (line,) = [line for line in comparison_lines(three_cases(), once) if "not the same is timed" in line]
    assert line.endswith(f"plans were made before timing and reused then, and are {SUITES['once'].plans} now")


@pytest.mark.parametrize("suite", ["broad", "sizes", "blocks", "ranks", "dtypes", "once"])
def test_cases_of_an_earlier_run_are_found_again(suite: str) -> None:
    old = filled(suite)
    back = Results.from_json(old.to_json())
    assert back == old
    slower = dataclasses.replace(
        old, cases=tuple(result(earlier.case, auto=earlier.methods[0].least * 2, memcpy=1.0) for earlier in old.cases)
    )
    found = changes(back, slower)
    assert len(found) == len(old.cases)
    assert {item.verdict for item in found} == {"slower"}


# -- pictures


def filled(suite: str, ranks: int = 2) -> Results:
    """Times that nobody measured, for the cases of one number of ranks."""
    cases = [case for case in SUITES[suite].cases if case.ranks == ranks]
    wave = itertools.cycle((1.0, 1.3, 0.8))
    return Results(
        ENVIRONMENT,
        tuple(
            result(case, auto=(t := 1e-5 + 1e-9 * case.elements) * 2 * next(wave), pxgemr2d=8 * t, memcpy=1.0)
            for case in cases
        ),
    )


@pytest.mark.parametrize("suite", ["broad", "sizes", "blocks", "ranks", "dtypes", "once"])
def test_every_suite_has_a_picture(tmp_path: Path, suite: str) -> None:
    SUITES[suite].plot(filled(suite), str(tmp_path / "one.png"))
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("suite", ["broad", "sizes", "blocks"])
@pytest.mark.parametrize("methods", [{"auto": 1.0}, {"memcpy": 1.0}, {}])
def test_pictures_of_few_methods(tmp_path: Path, suite: str, methods: dict[str, float]) -> None:
    cases = tuple(result(case, **methods) for case in SUITES[suite].cases[:2])
    SUITES[suite].plot(Results(ENVIRONMENT, cases), str(tmp_path / "one.png"))
    assert (tmp_path / "one.png").stat().st_size > 1000


def test_ratios_are_means_of_logarithms() -> None:
    times = filled("broad").times
    found = ratios(times["auto"], times["memcpy"])
    mean = math.exp(sum(math.log(pair.least) for pair in found.values()) / len(found))
    assert means(found).startswith(f"{mean:.3g}"[:3])
