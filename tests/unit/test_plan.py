"""`pyscalapack-redist plan` without MPI: the examples of Desprez et al., large grids, pictures, bad input."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import deal

from pyscalapack_redist import ScheduleError, cli, schedules
from pyscalapack_redist.plan.closed_forms import cost_of_slice, pairs_with_messages

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


def lengths(P: int, Q: int, r: int, s: int, n: int) -> list[list[int]]:
    after = [set(held) for held in deal(n, s, Q)]
    return [[len(after[q] & set(held)) for q in range(Q)] for held in deal(n, r, P)]


@pytest.mark.parametrize("number", EXAMPLES)
def test_examples_in_json(tmp_path: Path, number: int) -> None:
    P, Q, r, s = EXAMPLES[number]
    plan = planned(tmp_path, *arguments(P, Q, r, s))
    (axis,) = plan["dimensions"]
    n = math.lcm(P * r, Q * s)
    table = lengths(P, Q, r, s, n)
    assert axis["lengths"] == table
    assert (axis["slice_length"], axis["slices"]) == (n, 3)
    assert plan["bytes"] == 8 * 3 * n
    assert plan["messages"] == np.count_nonzero(table)
    kept = sum(table[p][p] for p in range(min(P, Q)))
    assert plan["bytes_between_ranks"] == 8 * 3 * (n - kept)
    assert {one["name"] for one in axis["algorithms"]} == set(schedules.NAMES)
    figures = {one["name"]: (one["steps"], one["cost"]) for one in axis["algorithms"]}
    assert figures["optimal"] == (axis["steps"], axis["cost"]) == STEPS_AND_COSTS.get(number, figures["optimal"])
    assert figures["optimal"][1] >= axis["cost_bound"]
    assert figures["stepwise"][0] == axis["step_bound"]
    assert figures["caterpillar"][0] == max(P, Q)
    for one in axis["algorithms"]:
        assert (one["steps"] is None) == (one["reason"] is not None)
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
    assert "optimal: NS = 4 steps, TC = 8; " in text
    (row,) = [line for line in text.splitlines() if line.startswith("| ring ")]
    assert row.split("|")[2].strip() == "12"
    assert "walker-otto: " in text


def test_another_schedule_with_empty_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*arguments(*EXAMPLES[4]), "--schedule", "ring"]) == 0
    text = capsys.readouterr().out
    assert "ring: NS = 12 steps" in text
    assert "steps 3 to 5, each: empty" in text


def test_two_dimensions_multiply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(tmp_path, "plan", "--shape", "480", "600", "--from", "4x2:3x4", "--to", "2x4:5x3", "--dtype", "int8")
    product = next(one for one in plan["products"] if one["name"] == "optimal")
    assert product["steps"] == math.prod(axis["steps"] for axis in plan["dimensions"])
    assert product["cost"] == math.prod(axis["cost"] for axis in plan["dimensions"])
    assert plan["bytes"] == 480 * 600
    before = [deal(480, 3, 4), deal(600, 4, 2)]
    after = [deal(480, 5, 2), deal(600, 3, 4)]
    places = [((k // 2, k % 2), (k // 4, k % 4)) for k in range(8)]
    kept = sum(math.prod(len({*before[d][p[d]]} & {*after[d][q[d]]}) for d in range(2)) for p, q in places)
    assert plan["bytes_between_ranks"] == 480 * 600 - kept
    assert "products of the dimensions' schedules" in capsys.readouterr().out


def test_all_dimensions_at_once_may_cost_less_than_a_product(tmp_path: Path) -> None:
    words = ["plan", "--shape", "120", "80", "--from", "3x4:4x4", "--to", "2x2:3x1+12", "--time-limit", "5"]
    plan = planned(tmp_path, *words)
    product = next(one for one in plan["products"] if one["name"] == "optimal")
    assert (product["cost"], plan["whole"]["cost"]) == (56, 48)


@pytest.mark.parametrize("shape", ["0", "1", "50"])
def test_less_than_a_slice(tmp_path: Path, shape: str) -> None:
    plan = planned(tmp_path, "plan", "--shape", shape, "--from", "4:3@1", "--to", "3:5+2")
    assert plan["bytes"] == 8 * int(shape)
    (axis,) = plan["dimensions"]
    assert sum(map(sum, axis["lengths"])) == int(shape)


def test_a_large_machine_is_quick(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = time.monotonic()
    plan = planned(tmp_path, "plan", "--shape", "4800000000", "--from", "100000:4", "--to", "100000:3")
    assert time.monotonic() - start < 20
    (axis,) = plan["dimensions"]
    figures = {one["name"]: one for one in axis["algorithms"]}
    assert figures["ring"]["steps"] == 100000
    assert plan["messages"] == 600000
    assert axis["cost_bound"] >= 4800000000 // 4000 // 100000
    assert "needs a table of all pairs" in figures["greedy"]["reason"]
    assert "too many to schedule them all here" in capsys.readouterr().out


def test_a_machine_of_ten_billion_processes(tmp_path: Path) -> None:
    plan = planned(
        tmp_path, "plan", "--shape", "1000000", "1000000", "--from", "100000x100000:1x1", "--to", "100x100:7x7"
    )
    assert plan["bytes"] == 8 * 10**12


@given(sizes, sizes, sizes, sizes, st.integers(0, 30))
def test_closed_forms_count_what_the_table_has(P: int, Q: int, r: int, s: int, offset: int) -> None:
    shifted = schedules.CommunicationGrid(P, Q, r, s, offset=offset)
    assert pairs_with_messages(P, Q, r, s, shifted.shift) == np.count_nonzero(shifted.lengths)
    grid = schedules.CommunicationGrid(P, Q, r, s)
    for name in ("classes", "walker-otto"):
        with contextlib.suppress(ScheduleError):
            assert schedules.build(name, grid).total_cost == cost_of_slice(name, P, Q, r, s)


@pytest.mark.parametrize(
    "words",
    [
        arguments(*EXAMPLES[4]),
        [*arguments(*EXAMPLES[1]), "--schedule", "natural"],
        ["plan", "--shape", "480", "600", "--from", "4x2:3x4", "--to", "2x4:5x3"],
        ["plan", "--shape", "9000", "--from", "90:3", "--to", "70:5", "--schedule", "caterpillar"],
    ],
)
def test_pictures(tmp_path: Path, words: list[str]) -> None:
    picture = tmp_path / "plan.png"
    assert cli.run([*words, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


SMALL = ["plan", "--shape", "64", "--from", "4:3", "--to", "3:5"]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["plan"], ["--shape, --from, --to"]),
        ([*SMALL, "--schedule", "optimum"], ["argument --schedule: unknown schedule 'optimum': there are optimal, "]),
        ([*SMALL, "--schedule", "walker-otto"], ["--schedule walker-otto: dimension 0: "]),
        ([*SMALL, "--time-limit", "0"], ["argument --time-limit", "'0'", "above 0"]),
        ([*SMALL, "--shape", "-1"], ["--shape"]),
        (["plan", "--shape", "8", "8", *SMALL[3:]], ["--shape, --from, --to", "2"]),
        (["plan", "--shape", "8", "--from", "0:3", "--to", "3:5"], ["argument --from", "'0'"]),
        ([*SMALL, "--dtype", "quux"], ["argument --dtype", "'quux'"]),
        ([*SMALL, "--json", "/nowhere/plan.json"], ["--json /nowhere/plan.json"]),
        ([*SMALL, "--plot", "plan.xyz"], ["--plot plan.xyz"]),
        (["plan", "--shape", "8", "--from", "600:3", "--to", "3:5", "--plot", "plan.png"], ["--plot", "600 x 3"]),
    ],
)
def test_bad_input_is_named(capsys: pytest.CaptureFixture[str], words: list[str], parts: list[str]) -> None:
    assert cli.run(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pyscalapack-redist: error: ")
    for part in parts:
        assert part in err


def test_it_needs_no_mpi(tmp_path: Path) -> None:
    words = [*arguments(*EXAMPLES[4]), "--json", str(tmp_path / "plan.json"), "--plot", str(tmp_path / "plan.png")]
    code = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "from pyscalapack_redist.cli import run\n"
        f"assert run({words!r}) == 0 and run(['plan', '--help']) == 0 and run(['plan']) == 2"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
