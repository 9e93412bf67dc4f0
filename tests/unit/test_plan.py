"""`pyscalapack-redist plan` without MPI: its figures are those of plans on paper, in every order and by every way."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import deal

from pyscalapack_redist import redistribute, schedules
from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.tools import cli

EXAMPLES = {1: (16, 16, 3, 5), 2: (16, 16, 7, 11), 3: (15, 15, 3, 5), 4: (12, 8, 4, 3), 5: (15, 6, 2, 3)}
STEPS_AND_COSTS = {1: (7, 15), 2: (16, 77), 4: (4, 8)}  # of the optimal schedule between disjoint sets, for a slice


def planned(tmp_path: Path, *words: str) -> dict[str, Any]:
    file = tmp_path / "plan.json"
    assert cli.run(["plan", *words, "--orders", "--json", str(file)]) == 0
    read: dict[str, Any] = json.loads(file.read_text())
    return read


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=() if number > 3 else pytest.mark.long) for number in EXAMPLES]
)
def test_examples(tmp_path: Path, number: int) -> None:
    P, Q, r, s = EXAMPLES[number]
    n, slices = math.lcm(P * r, Q * s), 3
    plan = planned(tmp_path, "--shape", str(slices * n), "--from", f"{P}:{r}", "--to", f"{Q}:{s}+{P}")
    after = [set(held) for held in deal(n, s, Q)]
    table = np.array([[slices * len(after[q] & set(held)) for q in range(Q)] for held in deal(n, r, P)])
    assert plan["bytes"] == plan["bytes_between_ranks"] == 8 * slices * n
    assert plan["messages_between_ranks"] == np.count_nonzero(table)
    assert plan["busiest_bytes"] == 8 * max(table.sum(axis=side).max() for side in (0, 1))
    assert plan["most_messages"] == max(np.count_nonzero(table, axis=side).max() for side in (0, 1))
    orders = {order["name"]: order for order in plan["orders"]}
    assert list(orders) == list(schedules.NAMES)
    steps, cost = STEPS_AND_COSTS.get(number, (orders["optimal"]["steps"], orders["optimal"]["cost"] // (8 * slices)))
    assert (orders["optimal"]["steps"], orders["optimal"]["cost"]) == (steps, 8 * slices * cost)
    assert orders["optimal"]["cost"] >= plan["busiest_bytes"]
    assert orders["stepwise"]["steps"] == plan["most_messages"]
    assert orders["caterpillar"]["steps"] == max(P, Q)
    assert all((order["steps"] is None) == (order["reason"] is not None) for order in plan["orders"])
    (shown,) = plan["steps"]
    messages = sorted((p, q, length) for step in shown for p, q, length in step)
    assert messages == [(p, q, int(table[p, q])) for p, q in np.argwhere(table).tolist()]


def test_example_4_in_text(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--shape", "144", "--from", "12:4", "--to", "8:3+12", "--rate", "8mbit", "--latency", "1ms"]
    assert cli.run([*words, "--slots", "2"]) == 0
    verdict = capsys.readouterr().out.splitlines()
    assert verdict[:5] == [
        "plan: 144 float64, 12:4 -> 8:3+12, 20 ranks",
        "time: 4.29 ms to 4.43 ms",
        "limited by: the latency of messages: a rank has up to 4",
        "memory of a rank: 480 B: A 96 B, B 144 B, staging about 240 B",
        "memory of a node with 2 ranks: 960 B",
    ]
    assert "between ranks: 1,152 bytes in 24 messages; copied on their rank: 0 bytes" in verdict
    assert not any("|" in line for line in verdict)
    assert cli.run([*words, "--overwrite"]) == 0
    assert "393 B: A 96 B, B 144 B, staging about 240 B, as B takes the place of A" in capsys.readouterr().out
    assert cli.run([*words, "--slots", "2", "--orders"]) == 0
    text = capsys.readouterr().out
    assert "links' limit: 288 us, for the 288 bytes of the busiest node to or from others" in text
    rows = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:8]]
        for line in text.splitlines()
        if "|" in line
    }
    assert rows["optimal"] == ["24", "4", "192", "1.33", "yes", "4.38 ms"]
    assert rows["ring"][:3] == ["24", "12", "432"]
    assert "\noptimal: 4 steps, cost 24 elements; equals the lower bound" in text
    assert cli.run([*words, "--schedule", "ring"]) == 0
    text = capsys.readouterr().out
    assert "ring: 12 steps" in text
    assert "steps 3 to 5, each: empty" in text


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
    words = ["--shape", "x".join(map(str, shape)), "--from", before, "--to", after]
    plan = planned(tmp_path, *words, "--rate", "1MB/s", "--latency", "1ms")
    ways = {way["via"]: way for way in plan["ways"]}
    assert list(ways) == [None, "dimensions", "lcm", "gcd"]
    sides = [LayoutText.parse(layout).descriptor(shape, None) for layout in (before, after)]
    for name in (None, via):
        way, report = ways[name], redistribute(*sides, via=name).report()
        legs = report.legs or [report]
        assert way["legs"] == len(legs)
        assert way["messages"] == sum(leg.sends for leg in legs)
        assert way["bytes"] == sum(leg.bytes_sent for leg in legs)
        assert way["fewest_steps"] == sum(leg.most_messages for leg in legs)
        assert way["busiest_bytes"] == sum(max(leg.most_sent, leg.most_received) for leg in legs)
        assert way["seconds"] == pytest.approx(1e-3 * way["fewest_steps"] + 1e-6 * way["busiest_bytes"])
    assert ways[None]["bytes"] == plan["bytes_between_ranks"]
    text = capsys.readouterr().out
    (row,) = [line for line in text.splitlines() if line.startswith(f'| via "{via}" ')]
    assert row.split("|")[3].strip() == f"{ways[via]['messages']:,}"


def test_balanced_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(tmp_path, "--shape", "1001", "60", "--from", "4x1:balanced", "--to", "2x2:32x8")
    reasons = {order["name"]: order["reason"] for order in plan["orders"]}
    assert "use stepwise or optimal" in reasons["classes"]
    assert reasons["stepwise"] is None
    assert "via = 'lcm' is for blocks of one size" in {way["via"]: way["reason"] or "" for way in plan["ways"]}["lcm"]
    assert plan["memory"]["a"] == 8 * 251 * 60
    assert "memory of a rank: 432.2 KiB: A 117.7 KiB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "time", "limited_by"),
    [
        (["--rate", "8mbit"], "144 us to 216 us", "the link of a node: 144 bytes of the busiest rank"),
        ([], "unknown: give --rate, what a node can send", "the link of a node: 144 bytes of the busiest rank"),
        (["--slots", "20"], "that of one to two copies of the local arrays", "the memory of the node"),
        (["--from", "8:3+12"], "that of copies: nothing goes between ranks", "the memory of each rank"),
    ],
)
def test_verdict(capsys: pytest.CaptureFixture[str], words: list[str], time: str, limited_by: str) -> None:
    assert cli.run(["plan", "--shape", "144", "--from", "12:4", "--to", "8:3+12", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(f"time: {time}"), lines
    assert lines[2] == f"limited by: {limited_by}"


def test_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """The links carry what leaves a node; where the pairs are too many to know that, the time is a bound."""
    few, many = (["--shape", "144", "4", "--from", "4x1:36x4", "--to", to] for to in ("2x2:72x2", "4x1:18x4"))
    paper = ["--shape", "9600", "96", "--from", "40x40:2x2", "--to", "40x40:3x4"]
    link = "the link of a node, which 2 ranks share: "
    for words, time, limited_by in (
        (few, "that of one to two copies of the local arrays, all at once: no message", "the memory of the node"),
        (many, "1.15 ms to 1.73 ms", link + "the 1,152 bytes of the busiest node to or from others"),
        (paper, "at most ", link + "at most 2 times the "),
    ):
        assert cli.run(["plan", *words, "--slots", "2", "--rate", "8mbit"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[1].startswith(f"time: {time}"), lines
        assert lines[2].startswith(f"limited by: {limited_by}"), lines


def test_large_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(tmp_path, "--shape", "4800000000", "--from", "100000:4", "--to", "100000:3")
    orders = {order["name"]: order for order in plan["orders"]}
    assert (orders["ring"]["steps"], orders["ring"]["cost"]) == (100_000, None)
    assert "needs a table of all pairs" in orders["greedy"]["reason"]
    assert "between ranks: not counted: left out: 100,000 x 100,000 pairs" in capsys.readouterr().out
    words = ["plan", "--orders", "--shape", "10", "12", "--from", f"1x1:{2**62}x1", "--to", "1x1:1x1"]
    assert cli.run(words) == 2
    assert "messages, more than" in capsys.readouterr().err


def test_a_certificate_says_of_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a product each dimension's; else the whole's."""
    note = '"each dimension": the order is a product'
    rows = ["--shape", "8000", "8000", "--from", "96x1:balanced", "--to", "8x12:64x64"]
    orders = {order["name"]: order for order in planned(tmp_path, *rows)["orders"]}
    assert orders["optimal"]["cost"] > orders["stepwise"]["cost"]
    assert orders["optimal"]["certificate"] == "each dimension: equals the lower bound"
    assert note in capsys.readouterr().out
    plan = planned(tmp_path, "--shape", "144", "--from", "12:4", "--to", "8:3+12")
    orders = {order["name"]: order for order in plan["orders"]}
    assert orders["optimal"]["certificate"] == "equals the lower bound"
    assert note not in capsys.readouterr().out
