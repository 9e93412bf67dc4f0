"""The suite between hosts: its cases, the links' limit, and what is said of all cases together."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscalapack_redist.tools import cli
from pyscalapack_redist.tools.bench.command import for_size
from pyscalapack_redist.tools.bench.environment import Limit, between_hosts, limit_of
from pyscalapack_redist.tools.bench.hosts import (
    ALL_AT_ONCE,
    COMPARISONS,
    HOSTS,
    MACHINES,
    against_limit,
    short_label,
    tables,
)
from pyscalapack_redist.tools.bench.results import CaseResult, Column, MethodResult, Results
from pyscalapack_redist.tools.bench.stage import Part
from pyscalapack_redist.tools.bench.tables import case_table, extreme, means
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.layouts import Layout
from pyscalapack_redist.tools.text import console, print_table
from pyscalapack_redist.tools.usage import UsageError

RATE = 6.25e6


def a_case(before: str, after: str, shape: tuple[int, ...] = (30, 20), dtype: str = "f8") -> Case:
    return Case(shape, Layout.parse_operand(before), Layout.parse_operand(after), np.dtype(dtype))


def owners(case: Case, layout: Layout) -> np.ndarray:
    """The rank of each element, from ScaLAPACK's formulas."""
    found = np.full(case.shape, -1)
    for rank in range(layout.first, layout.end):
        found[np.ix_(*Part(case, layout, rank).indices)] = rank
    assert (found >= 0).all()
    return found


# -- the limit


LAYOUTS = ["2x2:3x4", "1x4:5x5", "4x1:1x7@2,0", "1x3:4x5+1", "2x1:6x2+2", "2x2:3x4/40x30@7,9", "1x1:8x8+3", "2x2:5x3/C"]


@given(
    st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.sampled_from(["f8", "i1", "V24"]),
)
def test_bytes_between_hosts_are_those_of_a_count(before: str, after: str, hosts: list[int], dtype: str) -> None:
    case = a_case(before, after, dtype=dtype)
    expected = np.zeros((max(hosts) + 1,) * 2, int)
    host = np.array(hosts)
    np.add.at(expected, (host[owners(case, case.before)], host[owners(case, case.after)]), case.dtype.itemsize)
    np.fill_diagonal(expected, 0)
    assert np.array_equal(between_hosts(case, hosts), expected)


def test_the_limit_is_that_of_the_busiest_host() -> None:
    gathered = a_case("1x4:5x5", "1x1:8x8+3")  # 30 x 5 elements on each of 4 ranks, all to the last
    environment = {"link_rate": RATE, "host_of_rank": [0, 1, 2, 3]}
    assert limit_of(gathered, environment) == Limit(3 * 150 * 8, RATE)
    assert limit_of(gathered, {**environment, "host_of_rank": [0, 0, 1, 1]}) == Limit(2 * 150 * 8, RATE)
    scattered = dataclasses.replace(gathered, before=gathered.after, after=gathered.before)
    found = limit_of(scattered, environment)
    assert found == Limit(3 * 150 * 8, RATE)
    assert found.seconds == 3600 / RATE


def test_there_is_no_limit_without_links() -> None:
    case = a_case("1x4:5x5", "4x1:5x5")
    assert limit_of(case, {"link_rate": RATE, "host_of_rank": [0, 0, 0, 0]}) is None
    assert limit_of(case, {"link_rate": None, "host_of_rank": [0, 1, 2, 3]}) is None
    assert limit_of(case, {}) is None
    assert limit_of(a_case("1x4:5x5", "1x4:5x5"), {"link_rate": RATE, "host_of_rank": [0, 1, 2, 3]}) is None


# -- the cases


def test_each_case_runs_on_one_machine_size() -> None:
    cases = (*HOSTS.cases, *HOSTS.quick)
    assert set(map(HOSTS.ranks_for, cases)) == set(MACHINES)
    chosen = {ranks: for_size(HOSTS.cases, "hosts", ranks)[0] for ranks in MACHINES}
    assert sum(map(len, chosen.values())) == len(HOSTS.cases)
    assert {case.ranks for case in chosen[16]} == {12, 15, 16}
    assert {case.ranks for case in chosen[4]} == {4}
    with pytest.raises(UsageError, match="4, 8 or 16 ranks, none for 12"):
        for_size(HOSTS.cases, "hosts", 12)


def test_sizes_are_those_that_the_suite_promises() -> None:
    limits = [limit_of(case, {"link_rate": RATE, "host_of_rank": list(range(16))}) for case in HOSTS.cases]
    assert all(limits)
    sixteen = [case for case in HOSTS.cases if HOSTS.ranks_for(case) == 16]
    grown = [case for case in sixteen if case.dtype == np.int32]
    assert [case.after.block[0] // 4 for case in grown] == [2, 4, 8, 12] * 2
    assert {case.elements // 16 * 4 for case in grown} == {12_800, 2_096_640}
    for size in (76_800, 1_228_800, 4_915_200):
        assert sum(case.elements == pytest.approx(size, rel=0.01) for case in sixteen) == 4
    assert {case.shape for case in sixteen if min(case.shape) > 1} == {(512, 512), (2048, 2048)}


def test_gather_and_scatter_is_left_out_where_it_would_take_all_the_time() -> None:
    (method,) = [HOSTS.variant(method) for method in HOSTS.methods if method.name == "gather-scatter"]
    small, large = a_case("1x4:5x5", "4x1:5x5"), a_case("1x4:5x5", "4x1:5x5", (1000, 1000))
    assert method.obstacle(small) is None
    assert "all 8 MB would go through one host's link" in (method.obstacle(large) or "")


# -- all cases together


def results() -> Results:
    """Two cases with 2 MB and 0.2 MB to send on the busiest host, one without a limit."""
    cases = HOSTS.cases[:3]
    times = (
        {"auto": 0.4, "pxgemr2d": 1.6, "mpi-waitall": 0.6, "mpi-alltoallv": 0.5, "auto/alltoallw": 0.7},
        {"auto": 0.1, "pxgemr2d": 0.1, "mpi-waitall": 0.08, "auto/alltoallw": 0.05, "caterpillar/sendrecv": 0.2},
        {"auto": 1.0},
    )
    limits = (Limit(2_000_000, RATE), Limit(200_000, RATE), None)
    made = []
    for case, seconds, limit in zip(cases, times, limits, strict=True):
        methods = tuple(MethodResult(name, (t, 2 * t, 9 * t), 0, True) for name, t in seconds.items())
        made.append(CaseResult(case, methods, limit=limit))
    environment = {
        "ranks": 4,
        "host_of_rank": [0, 1, 2, 3],
        "link_rate": RATE,
        "link_rate_origin": "as given",
        "mpi": "an MPI",
    }
    return Results(environment, tuple(made))


def lines(table: object) -> dict[str, list[str]]:
    out = console()
    with out.capture() as text:
        print_table(out, table)  # type: ignore[arg-type]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.get().splitlines()]
    return {row[0]: row[1:] for row in rows}


def least(column: Column) -> list[float]:
    return [times.least for times in column.values()]


def test_the_best_of_several_is_found_in_each_case() -> None:
    by_name = {comparison.short: comparison.compared(results()) for comparison in COMPARISONS}
    assert least(by_name["pxgemr2d"]) == [4.0, 1.0]
    assert means(by_name["pxgemr2d"]) == "2.00 / 2.00"
    assert least(by_name["plain"]) == pytest.approx([1.25, 0.8])
    assert least(by_name["at once"]) == pytest.approx([1.25, 0.5])
    assert extreme(by_name["at once"], min) == "0.50 (case 2)"
    assert list(by_name["caterpillar"].items()) == [(2, (2.0, 2.0))]
    assert means(by_name["windowed"]) == "-"


def test_medians_have_a_best_of_their_own() -> None:
    case = HOSTS.cases[0]
    methods = [MethodResult("auto", (1.0, 1.0, 1.0), 0, True)]
    methods += [
        MethodResult(ALL_AT_ONCE[0], (2.0, 8.0, 8.0), 0, True),
        MethodResult(ALL_AT_ONCE[1], (3.0, 3.0, 3.0), 0, True),
    ]
    (plain,) = [comparison for comparison in COMPARISONS if comparison.short == "plain"]
    assert plain.compared(Results({}, (CaseResult(case, tuple(methods)),))) == {1: (2.0, 3.0)}


def test_ratios_to_the_limit() -> None:
    assert least(against_limit(results(), "auto")) == pytest.approx([0.4 / 0.32, 0.1 / 0.032])
    large = against_limit(results(), "auto", 10**6)
    assert large == {1: pytest.approx((1.25, 2.5))}
    assert against_limit(results(), "auto", 10**7) == {}


def test_the_tables_show_it() -> None:
    (_, each), (_, together) = tables(results())
    rows = lines(each)
    assert rows["case"] == [
        "limit",
        "auto",
        "median",
        "x limit",
        "pxgemr2d",
        "caterpillar",
        "lock step",
        "plain",
        "at once",
    ]
    assert rows[f"1: {short_label(HOSTS.cases[0])}"] == [
        "320 ms",
        "400 ms",
        "800 ms",
        "1.25",
        "4.00",
        "-",
        "-",
        "1.25",
        "1.25",
    ]
    assert rows[f"3: {short_label(HOSTS.cases[2])}"] == ["-", "1.00 s", "2.00 s", *"------"]
    summed = lines(together)
    assert summed["pxgemr2d / auto"] == ["2", "2.00 / 2.00", "1.00 (case 2)", "4.00 (case 1)"]
    assert summed["best of all at once / auto"] == ["2", "0.79 / 0.79", "0.50 (case 2)", "1.25 (case 1)"]
    assert summed["auto / the links' limit, 1 MB a host and more"] == [
        "1",
        "1.25 / 2.50",
        "1.25 (case 1)",
        "1.25 (case 1)",
    ]


def test_a_case_has_the_limit_as_a_column_and_a_row() -> None:
    rows = lines(case_table(results().cases[0]))
    assert rows["method"][2:5] == ["x auto", "faster than pxgemr2d", "x limit"]
    assert rows["mpi-alltoallv"][2:5] == ["1.25 / 1.25", "3.20 / 3.20", "1.56 / 3.12"]
    assert rows["the links' limit"][:2] == ["320 ms", "320 ms"]
    assert "x limit" not in lines(case_table(results().cases[2]))["method"]


def test_the_limit_is_in_the_json() -> None:
    assert Results.from_json(results().to_json()) == results()
    assert '"links_limit": {\n    "bytes": 2000000' in results().to_json()
    assert results().to_json().count("links_limit") == 2


def test_the_picture(tmp_path: Path) -> None:
    for some in (results().cases, results().cases[2:], ()):
        HOSTS.plot(dataclasses.replace(results(), cases=some), str(tmp_path / "one.png"))
        assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_a_link_rate_needs_a_unit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli, "_speaks", lambda: True)
    assert cli.run(["bench", "--suite", "hosts", "--link-rate", "50"]) == 2
    assert "argument --link-rate: '50' must be a rate with its unit, such as 50mbit" in capsys.readouterr().err
