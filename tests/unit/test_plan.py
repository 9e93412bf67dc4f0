"""`pyscalapack-redist plan` without MPI: the examples of Desprez et al., large grids, pictures, bad input."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracle import deal

from pyscalapack_redist import ScheduleError, schedules
from pyscalapack_redist.tools import cli
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
    assert "walker-otto: " in text


def test_another_schedule_with_empty_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*arguments(*EXAMPLES[4]), "--schedule", "ring"]) == 0
    text = capsys.readouterr().out
    assert "ring: 12 steps" in text
    assert "steps 3 to 5, each: empty" in text


def test_two_dimensions_multiply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(tmp_path, "plan", "--shape", "480", "600", "--from", "4x2:3x4", "--to", "2x4:5x3", "--dtype", "int8")
    product = next(product for product in plan["products"] if product["name"] == "optimal")
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
    product = next(product for product in plan["products"] if product["name"] == "optimal")
    assert (product["cost"], plan["whole"]["cost"]) == (56, 48)


def owners(shape: tuple[int, ...], grid: tuple[int, ...], block: tuple[int, ...]) -> NDArray[np.int64]:
    """Rank of each element, row by row over the grid."""
    places = []
    for n, size, cut in zip(shape, grid, block, strict=True):
        held = deal(n, cut, size)
        places.append([next(p for p in range(size) if i in held[p]) for i in range(n)])
    return np.arange(math.prod(grid)).reshape(grid)[np.ix_(*places)]


def moved(stops: list[NDArray[np.int64]]) -> tuple[int, int, int, int]:
    """Messages and elements of all legs, and what the busiest rank has in each, counted element by element."""
    figures = [0, 0, 0, 0]
    for before, after in itertools.pairwise(stops):
        pairs = Counter((p, q) for p, q in zip(before.flat, after.flat, strict=True) if p != q)
        figures[0] += len(pairs)
        figures[1] += sum(pairs.values())
        for at, weigh in ((2, lambda count: 1), (3, lambda count: count)):
            loads: Counter[tuple[int, int]] = Counter()
            for (p, q), count in pairs.items():
                loads.update({(0, p): weigh(count), (1, q): weigh(count)})
            figures[at] += max(loads.values(), default=0)
    return tuple(figures)  # type: ignore[return-value]


WAYS: list[tuple[list[tuple[tuple[int, ...], tuple[int, ...]]], str]] = [
    ([((4, 2), (3, 4)), ((4, 2), (15, 12)), ((2, 4), (5, 3))], "lcm"),
    ([((4, 2), (3, 4)), ((2, 2), (5, 4)), ((2, 4), (5, 3))], "dimensions"),
    ([((2, 3, 1), (2, 2, 9)), ((2, 1, 3), (2, 9, 2)), ((1, 2, 3), (3, 3, 2))], "dimensions"),
    ([((2, 2), (3, 4)), ((2, 2), (6, 4)), ((2, 2), (6, 1))], "dimensions"),
    ([((2, 2), (3, 4)), ((2, 2), (6, 4))], "lcm"),
    ([((4, 2), (3, 4)), ((4, 2), (1, 1)), ((2, 4), (5, 3))], "gcd"),
    ([((4, 2), (6, 4)), ((4, 2), (2, 4)), ((2, 4), (4, 8))], "gcd"),
]


@pytest.mark.parametrize(("stops", "via"), WAYS)
def test_ways_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stops: list[tuple[tuple[int, ...], tuple[int, ...]]], via: str
) -> None:
    shape = (31, 26, 9)[: len(stops[0][0])]
    layouts = [f"{'x'.join(map(str, grid))}:{'x'.join(map(str, block))}" for grid, block in stops]
    plan = planned(tmp_path, "plan", "--shape", *map(str, shape), "--from", layouts[0], "--to", layouts[-1])
    ways = {way["via"]: way for way in plan["ways"]}
    assert list(ways) == [None, "dimensions", "lcm", "gcd"]
    held = [owners(shape, *stop) for stop in stops]
    for name, way in ((None, [held[0], held[-1]]), (via, held)):
        figures_of_way = ways[name]
        figures = (
            figures_of_way["messages"],
            figures_of_way["bytes"] // 8,
            figures_of_way["fewest_steps"],
            figures_of_way["busiest_bytes"] // 8,
        )
        assert (figures_of_way["legs"], figures) == (len(way) - 1, moved(way))
        assert figures_of_way["steps"] >= figures_of_way["fewest_steps"]
        assert figures_of_way["cost"] >= figures_of_way["busiest_bytes"]
    assert ways[None]["bytes"] == plan["bytes_between_ranks"]
    assert ways[None]["messages"] == plan["messages_between_ranks"]
    text = capsys.readouterr().out
    (row,) = [line for line in text.splitlines() if line.startswith(f'| via "{via}" ')]
    assert row.split("|")[3].strip() == f"{ways[via]['messages']:,}"


def test_ways_that_are_not_worked_out_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--shape", "60", "--from", "3:2", "--to", "3:6"]
    plan = planned(tmp_path, *words, "--schedule", "walker-otto")
    assert [way["reason"] for way in plan["ways"]] == [None] * 4
    plan = planned(tmp_path, "plan", "--shape", "9000000", "--from", "3000:3", "--to", "2000:5")
    assert [way["bytes"] for way in plan["ways"]] == [None] * 4
    assert "direct: left out: 3,000 x 2,000 pairs along a dimension" in capsys.readouterr().out


def test_sweeps_by_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "sweeps.png"
    words = ["plan", "--shape", *["512"] * 3, "--model", "ts=1e-5,tw=1e-9", "--plot", str(picture)]
    plan = planned(tmp_path, *words)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert plan["crossovers"] == [{"r": 2, "processes": pytest.approx(math.sqrt(1e-9 * 8 * 512**3 / 1e-5))}]
    rows = {row["processes"]: row for row in plan["sweeps"]}
    assert max(rows) == 100_000
    (line, plane) = rows[256]["grids"]
    assert (line["grid"], plane["grid"], rows[256]["best_r"]) == ([256], [16, 16], 1)
    assert line["seconds"] == pytest.approx(255 * (1e-5 + 1e-9 * 8 * 512**3 / 256**2))
    assert plane["seconds"] == pytest.approx(2 * 15 * (1e-5 + 1e-9 * 8 * 512**3 / 16**3))
    assert rows[512]["best_r"] == 2
    assert rows[1024]["grids"][0]["seconds"] is None
    assert rows[1024]["best_r"] == 2
    text = capsys.readouterr().out
    assert "one grid dimension can have at most 512 processes here" in text
    assert "r = 2: faster than r = 1 from 328 processes on" in text


def test_ways_by_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--shape", "48", "60", "--from", "4x2:3x4", "--to", "2x4:5x3"]
    plan = planned(tmp_path, *words, "--model", "ts=1e-3,tw=1e-6")
    for way in plan["ways"]:
        assert way["seconds"] == pytest.approx(1e-3 * way["fewest_steps"] + 1e-6 * way["busiest_bytes"])
    assert "time by the model ts=0.001,tw=1e-06" in capsys.readouterr().out
    assert [way["seconds"] for way in planned(tmp_path, *words)["ways"]] == [None] * 4


@pytest.mark.parametrize("shape", ["0", "1", "50"])
def test_less_than_a_slice(tmp_path: Path, shape: str) -> None:
    plan = planned(tmp_path, "plan", "--shape", shape, "--from", "4:3@1", "--to", "3:5+2")
    assert plan["bytes"] == 8 * int(shape)
    (axis,) = plan["dimensions"]
    assert sum(map(sum, axis["lengths"])) == int(shape)


def test_balanced_blocks_are_taken_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "plan",
        "--shape",
        "1001",
        "60",
        "--from",
        "4x1:balanced",
        "--to",
        "2x2:32x8",
        "--model",
        "ts=1e-6,tw=1e-9",
    ]
    file = tmp_path / "plan.json"
    assert cli.run([*words, "--json", str(file), "--plot", str(tmp_path / "plan.png")]) == 0
    found = json.loads(file.read_text())
    rows = found["dimensions"][0]
    assert (found["from"], rows["r"], rows["s"], rows["slice_length"], rows["slices"]) == (
        "4x1:balanced",
        None,
        32,
        None,
        1,
    )
    held = [deal(1001, ((251, 250, 250, 250), (0, 1, 2, 3)), 4), deal(1001, 32, 2)]
    assert rows["lengths"] == [[len(set(mine) & set(theirs)) for theirs in held[1]] for mine in held[0]]
    reasons = {algorithm["name"]: algorithm["reason"] for algorithm in rows["algorithms"]}
    assert "use stepwise or optimal" in reasons["classes"]
    assert reasons["stepwise"] is None
    assert "via = 'lcm' is for blocks of one size" in {way["via"]: way["reason"] or "" for way in found["ways"]}["lcm"]
    text = capsys.readouterr().out
    assert "block size irregular -> 32" in text
    assert "irregular blocks do not repeat" in text
    large = ["plan", "--shape", "100000000", "--from", "2000:balanced", "--to", "3000:64"]
    assert cli.run(large) == 0
    assert "bounds: not worked out" in capsys.readouterr().out


def test_a_large_machine_needs_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(tmp_path, "plan", "--shape", "4800000000", "--from", "100000:4", "--to", "100000:3")
    (axis,) = plan["dimensions"]
    figures = {algorithm["name"]: algorithm for algorithm in axis["algorithms"]}
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
        (["plan"], ["--shape, --from, --to missing"]),
        (["plan", "--shape", "64", "--from", "4:3"], ["--to missing: give --shape, --from and --to"]),
        (["plan", "--model", "ts=1,tw=1"], ["--shape, --from, --to missing"]),
        (["plan", "--shape", "64", "--model", "ts=1,tw=1"], ["--shape: ", "two dimensions or more"]),
        ([*SMALL, "--model", "ts=1"], ["argument --model: 'ts=1' must be ts=SECONDS,tw=SECONDS"]),
        ([*SMALL, "--processes", "4"], ["--processes: it is for --model without"]),
        (
            [*SMALL, "--schedule", "optimum"],
            ["argument --schedule: schedule = 'optimum' is unknown; there are optimal, "],
        ),
        (["plan", "--shape", "5e9", "5e9", "--from", "4x4:8x8", "--to", "2x8:3x3"], ["has 2^63 bytes or more"]),
        ([*SMALL, "--schedule", "auto"], ["argument --schedule: schedule = 'auto' leaves the choice to redistribute"]),
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
        "from pyscalapack_redist.tools.cli import run\n"
        f"assert run({words!r}) == 0 and run(['plan', '--help']) == 0 and run(['plan']) == 2"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_messages_that_are_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(tmp_path, *arguments(15, 15, 3, 5), "--schedule", "preemptive")
    text = capsys.readouterr().out
    assert "bounds: at least 10 steps, cost at least 21 elements" in text
    assert "where messages are cut: cost at least 15 elements" in text
    assert "preemptive: 15 steps, cost 15; equals the lower bound" in text
    (row,) = [line.split("|") for line in text.splitlines() if line.startswith("| preemptive ")]
    assert [cell.strip() for cell in row[4:6]] == ["15", "1.00"]
    (axis,) = plan["dimensions"]
    steps = axis["step_of_pair"]
    assert sorted(step for q in range(15) for step in steps[1][q]) == list(range(15))  # process 1 is never idle
