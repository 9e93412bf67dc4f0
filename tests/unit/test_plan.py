"""`pyscalapack-redist plan` without MPI: the examples of Desprez et al., large machines, ways, and the model of sweeps."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import deal

from pyscalapack_redist import ScheduleError, redistribute, schedules
from pyscalapack_redist.engine.totals import Totals
from pyscalapack_redist.tools import cli
from pyscalapack_redist.tools.layouts import Layout
from pyscalapack_redist.tools.plan.birkeland_model import Model, moves, sweep
from pyscalapack_redist.tools.plan.closed_forms import cost_of_slice, pairs_with_messages

EXAMPLES = {1: (16, 16, 3, 5), 2: (16, 16, 7, 11), 3: (15, 15, 3, 5), 4: (12, 8, 4, 3), 5: (15, 6, 2, 3)}
STEPS_AND_COSTS = {1: (7, 15), 2: (16, 77), 4: (4, 8)}  # of the optimal schedule
sizes = st.integers(1, 12)


def arguments(P: int, Q: int, r: int, s: int, slices: int = 3) -> list[str]:
    return ["plan", "--shape", str(slices * math.lcm(P * r, Q * s)), "--from", f"{P}:{r}", "--to", f"{Q}:{s}"]


def planned(tmp_path: Path, *words: str) -> dict[str, Any]:
    file = tmp_path / "plan.json"
    assert cli.run([*words, "--json", str(file)]) == 0
    read: dict[str, Any] = json.loads(file.read_text())
    return read


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=() if number > 3 else pytest.mark.long) for number in EXAMPLES]
)
def test_examples_in_json(tmp_path: Path, number: int) -> None:
    P, Q, r, s = EXAMPLES[number]
    plan = planned(tmp_path, *arguments(P, Q, r, s))
    (axis,) = plan["dimensions"]
    n = math.lcm(P * r, Q * s)
    after = [set(held) for held in deal(n, s, Q)]
    table = [[len(after[q] & set(held)) for q in range(Q)] for held in deal(n, r, P)]
    assert axis["lengths"] == table
    assert (axis["slice_length"], axis["slices"]) == (n, 3)
    assert plan["bytes"] == 8 * 3 * n
    assert plan["messages"] == np.count_nonzero(table)
    kept = sum(table[p][p] for p in range(min(P, Q)))
    assert plan["bytes_between_ranks"] == 8 * 3 * (n - kept)
    assert {algorithm["name"] for algorithm in axis["algorithms"]} == set(schedules.NAMES)
    figures = {algorithm["name"]: (algorithm["steps"], algorithm["cost"]) for algorithm in axis["algorithms"]}
    assert figures["optimal"] == (axis["steps"], axis["cost"]) == STEPS_AND_COSTS.get(number, figures["optimal"])
    assert figures["optimal"][1] >= axis["cost_bound"]
    assert figures["stepwise"][0] == axis["step_bound"]
    assert figures["caterpillar"][0] == max(P, Q)
    for algorithm in axis["algorithms"]:
        assert (algorithm["steps"] is None) == (algorithm["reason"] is not None)
    steps = axis["step_of_pair"]
    assert all(bool(steps[p][q]) == bool(table[p][q]) for p in range(P) for q in range(Q))


def test_example_4_in_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(arguments(*EXAMPLES[4])) == 0
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines()]
    assert "plan: 144 float64, 12:4 -> 8:3, 12 ranks" in text
    assert "bounds: at least 4 steps, cost at least 8 elements" in text
    assert ["0", "|", "3", "1", *"......", "2", "4"] in lines
    assert ["sum", "|", *"66666666", "48"] in lines
    assert "optimal: 4 steps, cost 8; " in text
    (row,) = [line for line in text.splitlines() if line.startswith("| ring ")]
    assert row.split("|")[2].strip() == "12"
    assert cli.run([*arguments(*EXAMPLES[4]), "--schedule", "ring"]) == 0
    text = capsys.readouterr().out
    assert "ring: 12 steps" in text
    assert "steps 3 to 5, each: empty" in text


def test_dimensions_multiply_and_may_cost_more_than_all_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "--shape", "120", "80", "--from", "3x4:4x4", "--to", "2x2:3x1+12", "--dtype", "int8"]
    plan = planned(tmp_path, *words)
    product = next(product for product in plan["products"] if product["name"] == "optimal")
    assert product["steps"] == math.prod(axis["steps"] for axis in plan["dimensions"])
    assert product["cost"] == math.prod(axis["cost"] for axis in plan["dimensions"])
    assert (product["cost"], plan["whole"]["cost"]) == (56, 48)
    assert plan["bytes"] == plan["bytes_between_ranks"] == 120 * 80
    assert "products of the dimensions' schedules" in capsys.readouterr().out


# -- ways


@pytest.mark.parametrize(
    ("shape", "before", "after", "via"),
    [
        ((31, 26), "4x2:3x4", "2x4:5x3", "lcm"),
        ((31, 26), "4x2:3x4", "2x4:5x3", "dimensions"),
        ((31, 26, 9), "2x3x1:2x2x9", "1x2x3:3x3x2", "dimensions"),
    ],
)
def test_ways_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: tuple[int, ...], before: str, after: str, via: str
) -> None:
    words = ["plan", "--shape", "x".join(map(str, shape)), "--from", before, "--to", after]
    plan = planned(tmp_path, *words, "--model", "ts=1e-3,tw=1e-6")
    ways = {way["via"]: way for way in plan["ways"]}
    assert list(ways) == [None, "dimensions", "lcm", "gcd"]
    sides = [Layout.parse(layout).descriptor(shape, None) for layout in (before, after)]
    for name in (None, via):
        way, report = ways[name], redistribute(*sides, via=name).report()
        legs = [report] if isinstance(report, Totals) else report.legs
        assert way["legs"] == len(legs)
        assert way["messages"] == sum(leg.sends for leg in legs)
        assert way["bytes"] == sum(leg.bytes_sent for leg in legs)
        assert way["fewest_steps"] == sum(leg.most_messages for leg in legs)
        assert way["busiest_bytes"] == sum(max(leg.most_sent, leg.most_received) for leg in legs)
        assert way["steps"] >= way["fewest_steps"]
        assert way["cost"] >= way["busiest_bytes"]
        assert way["seconds"] == pytest.approx(1e-3 * way["fewest_steps"] + 1e-6 * way["busiest_bytes"])
    assert ways[None]["bytes"] == plan["bytes_between_ranks"]
    assert ways[None]["messages"] == plan["messages_between_ranks"]
    text = capsys.readouterr().out
    (row,) = [line for line in text.splitlines() if line.startswith(f'| via "{via}" ')]
    assert row.split("|")[3].strip() == f"{ways[via]['messages']:,}"
    assert "time by the model ts=0.001,tw=1e-06" in text


def test_ways_that_are_not_worked_out_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(tmp_path, "plan", "--shape", "60", "--from", "3:2", "--to", "3:6", "--schedule", "walker-otto")
    assert [(way["reason"], way["seconds"]) for way in plan["ways"]] == [(None, None)] * 4
    plan = planned(tmp_path, "plan", "--shape", "9000000", "--from", "3000:3", "--to", "2000:5")
    assert [way["bytes"] for way in plan["ways"]] == [None] * 4
    assert "direct: left out: 3,000 x 2,000 pairs along a dimension" in capsys.readouterr().out


# -- sizes of all kinds


def test_balanced_blocks_are_taken_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(tmp_path, "plan", "--shape", "1001", "60", "--from", "4x1:balanced", "--to", "2x2:32x8")
    rows = plan["dimensions"][0]
    assert [rows[name] for name in ("r", "s", "slice_length", "slices")] == [None, 32, None, 1]
    held = [deal(1001, ((251, 250, 250, 250), (0, 1, 2, 3)), 4), deal(1001, 32, 2)]
    assert rows["lengths"] == [[len(set(mine) & set(theirs)) for theirs in held[1]] for mine in held[0]]
    reasons = {algorithm["name"]: algorithm["reason"] for algorithm in rows["algorithms"]}
    assert "use stepwise or optimal" in reasons["classes"]
    assert reasons["stepwise"] is None
    assert "via = 'lcm' is for blocks of one size" in {way["via"]: way["reason"] or "" for way in plan["ways"]}["lcm"]
    text = capsys.readouterr().out
    assert "block size irregular -> 32" in text
    assert "irregular blocks do not repeat" in text
    assert cli.run(["plan", "--shape", "100000000", "--from", "2000:balanced", "--to", "3000:64"]) == 0
    assert "bounds: not worked out" in capsys.readouterr().out


def test_a_large_machine_needs_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(tmp_path, "plan", "--shape", "4800000000", "--from", "100000:4", "--to", "100000:3")
    (axis,) = plan["dimensions"]
    figures = {algorithm["name"]: algorithm for algorithm in axis["algorithms"]}
    assert (figures["ring"]["steps"], plan["messages"]) == (100000, 600000)
    assert axis["cost_bound"] >= 4800000000 // 4000 // 100000
    assert "needs a table of all pairs" in figures["greedy"]["reason"]
    assert "too many to schedule them all here" in capsys.readouterr().out
    assert cli.run(["plan", "--shape", "10", "12", "--from", f"1x1:{2**62}x1", "--to", "1x1:1x1"]) == 2
    assert "messages, more than" in capsys.readouterr().err


@given(sizes, sizes, sizes, sizes, st.integers(0, 30))
def test_closed_forms_count_what_the_table_has(P: int, Q: int, r: int, s: int, offset: int) -> None:
    shifted = schedules.CommunicationGrid(P, Q, r, s, offset=offset)
    assert pairs_with_messages(P, Q, r, s, shifted.shift) == np.count_nonzero(shifted.lengths)
    grid = schedules.CommunicationGrid(P, Q, r, s)
    for name in ("classes", "walker-otto"):
        with contextlib.suppress(ScheduleError):
            assert schedules.build(name, grid).total_cost == cost_of_slice(name, P, Q, r, s)


# -- the model of Birkeland and Sorevik


def test_sweeps_by_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(tmp_path, "plan", "--shape", *["512"] * 3, "--model", "ts=1e-5,tw=1e-9")
    assert plan["crossovers"] == [{"r": 2, "processes": pytest.approx(math.sqrt(1e-9 * 8 * 512**3 / 1e-5))}]
    rows = {row["processes"]: row for row in plan["sweeps"]}
    assert max(rows) == 100_000
    (line, plane) = rows[256]["grids"]
    assert (line["grid"], plane["grid"], rows[256]["best_r"]) == ([256], [16, 16], 1)
    assert line["seconds"] == pytest.approx(255 * (1e-5 + 1e-9 * 8 * 512**3 / 256**2))
    assert plane["seconds"] == pytest.approx(2 * 15 * (1e-5 + 1e-9 * 8 * 512**3 / 16**3))
    assert [rows[processes]["best_r"] for processes in (512, 1024)] == [2, 2]
    assert rows[1024]["grids"][0]["seconds"] is None
    text = capsys.readouterr().out
    assert "one grid dimension can have at most 512 processes here" in text
    assert "r = 2: faster than r = 1 from 328 processes on" in text


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 4), st.sampled_from((1, 8, 16)))
def test_the_papers_equations_where_all_divides(P: int, r: int, factor: int, item: int) -> None:
    N, ts, tw = P * factor, 3e-6, 2e-9
    shape, model = (N,) * (r + 1), Model(ts, tw)
    one = (P - 1) * (ts + tw * item * N ** (r + 1) / P ** (r + 1))
    assert [model.seconds(leg) for leg in moves(shape, (P,) * r, item)] == pytest.approx([one] * r)  # (5.1)
    assert model.seconds(sweep(shape, (P,) * r, item)) == pytest.approx(r * one)  # (5.2)
    total = P**r
    whole = (total * factor, total * factor)
    expected = (total - 1) * (ts + tw * item * math.prod(whole) / total**2)
    assert model.seconds(sweep(whole, (total,), item)) == pytest.approx(expected)  # (5.3)


def test_a_model_that_cannot_be_read() -> None:
    for text in ("", "ts=1,tw=x", "ts=-1,tw=1", "ts=0,tw=0", "ts=1,tw=1,tx=1", "tw=inf,ts=1", "ts=1e308,tw=1"):
        with pytest.raises(ValueError, match=r"must be ts=SECONDS,tw=SECONDS"):
            Model.parse(text)
    assert Model.parse("tw=1e-9, ts=2e-6") == Model(2e-6, 1e-9)
