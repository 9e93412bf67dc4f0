"""`pyscalapack-redist bench` without MPI: results and their tables, suites, the limit of links."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from variations import VARIATIONS

from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.tools.bench.rank_case import values
from pyscalapack_redist.tools.bench.results import (
    CaseResult,
    MethodResult,
    Results,
    comparison_lines,
    comparison_table,
    environment_lines,
    extreme,
    fastest,
    means,
    plot,
)
from pyscalapack_redist.tools.bench.suites import LEAST, MOST, MOST_IN_ALL
from pyscalapack_redist.tools.bench.suites import SUITES as INSTALLED
from pyscalapack_redist.tools.bench.timing import links_limit
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.text import console, print_table, ratio_text, size_text, time_text

SUITES = INSTALLED | VARIATIONS
DEMO = SUITES["demo"].cases
RATE = 6.25e6


def test_elements_differ_from_their_neighbours() -> None:
    for dtype in ("float64", "float16", "complex64", "int8", "?", "V3", "S5"):
        made = values(np.arange(64 * 256), np.dtype(dtype))
        assert made.dtype == dtype
        assert np.mean([x.tobytes() != y.tobytes() for x, y in itertools.pairwise(made)]) > 0.3


# -- suites


@pytest.mark.parametrize("name", SUITES)
def test_suites_are_well_formed(name: str) -> None:
    suite = SUITES[name]
    assert len(set(suite.cases)) == len(suite.cases) > 0
    assert {case.ranks for case in suite.quick} <= {case.ranks for case in suite.cases}
    assert all(case.elements * case.dtype.itemsize < 2**21 for case in suite.quick)
    for case in (*suite.cases, *suite.quick):
        for layout in (case.before, case.after):
            assert LayoutText.parse_operand(str(layout)) == layout
            assert layout.descriptor(case.shape, None).shape == case.shape


def test_broad_is_the_same_for_everybody_and_fits_into_memory() -> None:
    broad = SUITES["broad"].cases
    assert hashlib.sha256("\n".join(map(str, broad)).encode()).hexdigest()[:16] == "b595de4e5192bfb7"
    for case in broad:
        assert case.before.size == case.after.size == case.ranks
        total = case.elements * case.dtype.itemsize
        assert case.elements <= 200**2 or LEAST * 0.95 <= total / case.ranks <= MOST
        assert total <= MOST_IN_ALL


def test_orders_have_a_line_for_each_dtype_and_layouts() -> None:
    cases = SUITES["orders"].cases
    assert len(cases) == 4 * 3 * 4
    some = [result(case, auto=k + 2.0, memcpy=2.0) for k, case in enumerate(cases[:6])]
    ((_, table),) = SUITES["orders"].tables(Results(ENVIRONMENT, tuple(some)))
    head, _, *lines = cells(table)
    assert head == ["dtype", "from", "to", "FF", "FC", "CF", "CC"]
    assert lines == [
        ["int8", "2x1:balanced", "1x2:64x64", "1.00 / 1.00", "1.50 / 1.50", "2.00 / 2.00", "2.50 / 2.50"],
        ["int8", "1x2:64x64", "2x1:balanced", "3.00 / 3.00", "3.50 / 3.50", "-", "-"],
    ]


# -- the limit of links


def limit(size: int) -> dict[str, float]:
    return {"bytes": size, "rate": RATE, "seconds": size / RATE}


def test_the_limit_is_that_of_the_busiest_host() -> None:
    gathered = Case(
        (30, 20), LayoutText.parse("1x4:5x5"), LayoutText.parse("1x1:8x8+3")
    )  # 30 x 5 elements on each of 4 ranks
    scattered = dataclasses.replace(gathered, before=gathered.after, after=gathered.before)
    environment = {"link_rate": RATE, "host_of_rank": [0, 1, 2, 3]}
    assert links_limit(gathered, environment) == links_limit(scattered, environment) == limit(3600)
    assert links_limit(gathered, {**environment, "host_of_rank": [0, 0, 1, 1]}) == limit(2400)
    same = dataclasses.replace(gathered, after=gathered.before)
    for case, other in (
        (gathered, {"host_of_rank": [0] * 4}),
        (gathered, {"link_rate": None}),
        (same, {}),
    ):
        assert links_limit(case, {**environment, **other}) is None
    assert links_limit(gathered, {}) is None


# -- results

ENVIRONMENT = {
    "ranks": 4,
    "cores": 2,
    "processor": "a processor",
    "node_of_rank": [0, 0, 0, 0],
    "host_of_rank": [0, 1, 2, 3],
    "link_rate": RATE,
    "link_rate_origin": "as given",
    "scalapack": None,
    "flag_round_trip_ns": 123.4,
    "mpi": "an MPI",
    "time": "the time",
    "plans": "made before timing and reused",
    **dict.fromkeys(("pyscalapack_redist", "python", "numpy", "mpi4py"), "1"),
}


def result(case: Case, links: dict[str, float] | None = None, **seconds: float) -> CaseResult:
    """Minimum times by the names of methods; medians are one and a half times as long."""
    methods = (MethodResult(name, (t, 1.5 * t, 9 * t), 2**24, True) for name, t in seconds.items())
    return CaseResult(case, tuple(methods), {"natural/sendrecv": "no\nmore"}, limit=links)


def results(auto: float = 2.0) -> Results:
    """Three cases; in the third pxgemr2d does not apply, and nothing is sent."""
    return Results(
        ENVIRONMENT,
        (
            result(DEMO[0], limit(2_000_000), auto=auto, pxgemr2d=16.0, memcpy=1.0),
            result(DEMO[1], limit(200_000), auto=8.0, pxgemr2d=16.0, memcpy=1.0),
            result(DEMO[2], auto=4.0, memcpy=1.0),
        ),
    )


def cells(table: Any) -> list[list[str]]:
    out = console()
    with out.capture() as text:
        print_table(out, table)
    assert "\x1b" not in text.get()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.get().splitlines()]


def rows(table: Any) -> dict[str, list[str]]:
    return {line[0]: line[1:] for line in cells(table)}


def test_json_has_the_documented_form_and_is_read_back() -> None:
    first, *rest = results().cases
    parts = {"packed": (0.001, 0.003, 0.002), "waited": (0.5, 0.0, 0.25)}
    auto = dataclasses.replace(first.methods[0], profile=parts)
    run = Results(ENVIRONMENT, (dataclasses.replace(first, methods=(auto, *first.methods[1:])), *rest))
    assert Results.from_json(run.to_json()) == run
    case = json.loads(run.to_json())["cases"][0]
    assert (case["shape"], case["from"], case["to"]) == ([4096, 4096], "1x2:64x64", "2x1:64x64")
    assert (case["dtype"], case["ranks"]) == ("float64", 2)
    assert case["methods"][0] == {
        "name": "auto",
        "seconds": [2.0, 3.0, 18.0],
        "min": 2.0,
        "median": 3.0,
        "extra_bytes": 2**24,
        "verified": True,
        "profile": {"packed": [0.001, 0.003, 0.002], "waited": [0.5, 0.0, 0.25]},
    }
    assert run.to_json().count("profile") == 1
    assert case["links_limit"]["bytes"] == 2_000_000
    assert run.to_json().count("links_limit") == 2


def test_other_json_is_refused() -> None:
    for text in ("", "[]", "{}", '{"environment": {}, "cases": [3]}', '{"environment": 1, "cases": []}'):
        with pytest.raises(ValueError, match=r"\w"):
            Results.from_json(text)


def test_the_table_of_a_case() -> None:
    case = results().cases[0]
    table = rows(case.table())
    assert table["method"][2:5] == ["x memcpy", "faster than pxgemr2d", "x limit"]
    assert table["auto"][2:5] == ["2.00 / 2.00", "8.00 / 8.00", "6.25 / 9.37"]
    assert "16.0 MiB" in table["auto"]
    assert table["the links' limit"][:2] == ["320 ms", "320 ms"]
    assert "x limit" not in rows(results().cases[2].table())["method"]
    assert list(case.lines()) == ["natural/sendrecv not run: no (`pyscalapack-redist info` says more)"]
    assert any("123 ns" in line for line in environment_lines(ENVIRONMENT))
    wrong = dataclasses.replace(case, methods=(dataclasses.replace(case.methods[0], verified=False), *case.methods[1:]))
    assert not wrong.verified
    assert "NO" in rows(wrong.table())["auto"]


def test_geometric_means_leave_out_what_did_not_run() -> None:
    run = results()
    nothing = run.library() / run.column("natural/sendrecv")
    assert means(nothing) == extreme(nothing, np.nanargmax) == "-"
    assert fastest([run.times["auto"], run.times["pxgemr2d"]])[:, 0].tolist() == [2, 8, 4]
    summary = rows(results().summary_table())
    assert summary["auto"] == ["3", "4.00 / 4.00", "8.00 (case 2)", "2", "4.00 / 4.00", "2.00 (case 2)"]
    assert summary["pxgemr2d"] == ["2", "16.0 / 16.0", "16.0 (case 1)", "-", "-", "-"]


def test_comparisons_are_relative_to_memcpy_where_it_ran() -> None:
    _, _, first, *_ = cells(comparison_table(results(), results(4.0)))
    assert first == [str(DEMO[0]), "auto", "slower", "2.00", "3.00 s", "6.00 s", "2.00", "4.00"]
    assert cells(comparison_table(results(4.0), results()))[-1][1:4] == ["auto", "faster", "0.50"]
    lines = list(comparison_lines(results(), results(4.0)))
    assert f"auto: 1 slower, 2 same; now / then in geometric mean: {2 ** (1 / 3):.2f}" in lines
    assert "pxgemr2d: 2 same; now / then in geometric mean: 1.00" in lines
    alone = (Results(ENVIRONMENT, (result(DEMO[0], auto=seconds),)) for seconds in (1.0, 3.0))
    assert cells(comparison_table(*alone))[-1][2:] == ["slower", "3.00", "1.50 s", "4.50 s", "-", "-"]


def test_comparisons_say_what_is_missing_and_what_is_not_the_same() -> None:
    once = dataclasses.replace(results(), environment={**ENVIRONMENT, "plans": SUITES["once"].plans})
    (line,) = [line for line in comparison_lines(results(), once) if "not the same is timed" in line]
    assert line.endswith(f"plans were made before timing and reused then, and are {SUITES['once'].plans} now")
    ran = (Results(ENVIRONMENT, (result(DEMO[0], **{name: 1.0}),)) for name in ("auto", "pxgemr2d"))
    lines = list(comparison_lines(*ran))
    assert any(line.startswith("only in the earlier run") and line.endswith("auto") for line in lines)
    assert any(line.startswith("only in this run") and line.endswith("pxgemr2d") for line in lines)


def test_figures() -> None:
    seconds = (2.5e-7, 9.996e-6, 1.12e-3, 0.9996, 12.3)
    assert [*map(time_text, (*seconds, np.nan))] == ["0.25 us", "10.0 us", "1.12 ms", "1.00 s", "12.3 s", "-"]
    assert [size_text(n) for n in (None, 12, 2**20, 3 * 2**29)] == ["?", "12 B", "1.0 MiB", "1.5 GiB"]
    assert [ratio_text(r) for r in (None, np.nan, 1.05, 12.34, 100.2)] == ["-", "-", "1.05", "12.3", "100"]


# -- pictures


def test_a_suite_without_times_has_a_picture(tmp_path: Path) -> None:
    run = Results(ENVIRONMENT, tuple(result(case) for case in DEMO))
    plot(run, str(tmp_path / "one.png"))
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
