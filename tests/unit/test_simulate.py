"""`benchmarks/simulate.py`: flows on links, the messages and the exchanges' rules, and what the command writes."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulate import DEFAULT_METHODS, EXCHANGES, Machine, simulated, study
from simulate.flow import Pieces, lock_step, max_min, simulate
from simulate.rules import AnySource, Stages, Window
from simulate.study import messages_of

import pyscalapack_redist as psr
from pyscalapack_redist import ScheduleError, schedules
from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.tools.cases import Case

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "simulate.py"  # the package of that name comes first
MEGA = 1e6
SMALL = ["--shape", "2400", "--from", "8:3", "--to", "8:5", "--rate", "10mbit"]


def pieces(*rows: tuple[int, int, float]) -> Pieces:
    sender, receiver, nbytes = zip(*rows, strict=True)
    return Pieces(np.array(sender), np.array(receiver), np.array(nbytes, float))


def ends(machine: Machine, *rows: tuple[int, int, float], window: int | None = None) -> list[float]:
    """When each message is there, `window` of them under way at a time."""
    some = pieces(*rows)
    return simulate(machine, some, Window(some.sender, some.receiver, window or len(rows))).ends.tolist()


def case(shape: tuple[int, ...], before: str, after: str) -> Case:
    return Case(shape, LayoutText.parse(before), LayoutText.parse(after))


# -- flows


def test_rates_are_fair_and_fill_a_port_of_each_flow() -> None:
    """Max-min fairness: the flows of the fullest port share it, and others have what is left."""
    source, target = np.array([0, 0, 1, 2]), np.array([3, 4, 4, 4])
    rates = max_min(source, target, np.array([5.0, 0.5, 5, 5, 5]), np.array([5.0, 5, 5, 2, 4]))
    assert rates.tolist() == [2, 1.75, 0.5, 1.75]


def test_messages_share_links_windows_and_processors() -> None:
    machine = Machine(9, rate=MEGA)
    start_up = Machine(2, rate=5 * MEGA, latency=50e-6, overhead=10e-6, efficiency=0.8)
    assert ends(start_up, (0, 1, MEGA)) == pytest.approx([60e-6 + 0.25])
    assert ends(replace(start_up, burst=MEGA), (0, 1, MEGA)) == pytest.approx([60e-6 + 0.05], rel=1e-3)
    assert ends(machine, (0, 1, MEGA), (0, 2, MEGA / 2)) == pytest.approx([1.5, 1])
    assert ends(machine, (1, 0, MEGA), (2, 0, MEGA)) == pytest.approx([2, 2])
    both = (0, 1, MEGA), (1, 0, MEGA)
    for turns_after, seconds in ((math.inf, 1), (0, 2), (MEGA / 4, 1.75)):
        assert max(ends(replace(machine, turns_after=turns_after), *both)) == pytest.approx(seconds)
    shared = Machine(2, 2, rate=MEGA, latency=0.5)
    assert max(ends(shared, (0, 2, MEGA), (1, 3, MEGA))) == pytest.approx(2.5)
    assert ends(shared, (0, 1, MEGA)) == pytest.approx([0.5])
    assert ends(machine, *((0, q, MEGA) for q in range(1, 5)), window=2) == pytest.approx([2, 2, 4, 4])
    steps = pieces((0, 1, 1), (1, 2, 3), (1, 0, 2), (2, 1, 5))
    stage, machine = np.array([0, 0, 1, 1]), Machine(3, rate=1, latency=0.5)
    exact = simulate(machine, steps, Stages(steps.sender, steps.receiver, stage)).seconds
    assert lock_step(machine, steps, stage) == pytest.approx(exact)


def test_what_cannot_be_simulated_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    some = pieces((0, 1, 1), (1, 0, 1))
    with pytest.raises(AssertionError, match="wait for each other"):
        simulate(Machine(2, rate=1), some, AnySource(some.sender, some.receiver, np.array([1, 1])))
    with pytest.raises(ValueError, match="slots = 2"):
        lock_step(Machine(1, 2, rate=1), some, np.array([0, 0]))
    wrong = {"hosts": 0, "slots": 0, "rate": 0, "latency": -1, "overhead": math.nan, "efficiency": 0, "burst": -1}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=f"{name} = {value}"):
            Machine(**{"hosts": 2, "rate": 1.0, name: value})  # type: ignore[arg-type]
    monkeypatch.setattr(study, "MOST_MESSAGES", 10)
    with pytest.raises(ScheduleError, match="more messages than the 10 that"):
        messages_of(case((64,), "4:1", "4:4"), "ring")


# -- messages and exchanges


@pytest.mark.parametrize(
    ("shape", "before", "after"),
    [
        ((720,), "3:40@1", "6:4"),
        ((31, 26), "2x2:4x4", "2x1:3x5+4"),
        ((6, 7, 8), "1x2x3:2x2x1", "3x2x1:1x3x2"),
    ],
)
def test_messages_are_those_of_plans(shape: tuple[int, ...], before: str, after: str) -> None:
    """On every rank, in order and size, for every schedule."""
    simulated_case = case(shape, before, after)
    a, b = (layout.descriptor(shape, None) for layout in (simulated_case.before, simulated_case.after))
    compared = 0
    for name in schedules.NAMES:
        try:
            plan = psr.redistribute(a, b, schedule=name)
            found = messages_of(simulated_case, name)
        except psr.ScheduleError:
            continue
        compared += 1
        for rank in range(simulated_case.ranks):
            for way, own, other in (("send", found.sender, found.receiver), ("receive", found.receiver, found.sender)):
                mine, messages = own == rank, plan.messages_of(rank)[way]
                expected = [(message.peer, message.size) for message in messages]
                pairs = list(zip(other[mine].tolist(), found.size[mine].tolist(), strict=True))
                assert pairs == expected, (name, way, rank)
    assert compared > 5


def test_no_method_beats_the_links() -> None:
    shifted = case((48, 60), "3x2:4x4", "2x2:3x1+6")
    machine = Machine(math.ceil(shifted.ranks / 2), 2, 1e6, 1e-4, 1e-5, 0.9, 1024, 2048)
    of_steps = [exchange for exchange in EXCHANGES if not exchange.startswith("alltoall")]
    methods = [f"caterpillar/{exchange}" for exchange in of_steps]
    found = simulated(shifted, machine, (*methods, "auto/alltoallv", "natural/windowed"))
    assert found.limit > 0
    assert all(prediction.seconds is not None and prediction.seconds > found.limit for prediction in found.predictions)


def test_steps_cost_what_the_schedule_says() -> None:
    # Each step of `classes` is full and its messages are of one length, so no process is ever ahead of another.
    grid = schedules.CommunicationGrid(8, 8, 3, 5)
    moved, machine = case((grid.slice_length,), "8:3", "8:5+8"), Machine(16, rate=100.0, latency=0.125)
    plan = schedules.build("classes", grid)
    (found,) = simulated(moved, machine, ("classes/sendrecv",)).predictions
    assert machine.vote == 0.5
    assert found.seconds == pytest.approx(0.5 + plan.total_cost * 8 / 100 + plan.number_of_steps * 0.125)
    idle = simulated(case((64,), "4:2", "4:2"), Machine(4, rate=1.0, latency=1.0), ("ring/sendrecv",))
    assert (idle.limit, idle.predictions[0].seconds) == (0.0, 2.0)


# -- the command


def run(*words: str) -> None:
    spec = importlib.util.spec_from_file_location("simulate_program", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    program.main(words)


def written(tmp_path: Path, *words: str) -> dict[str, Any]:
    file = tmp_path / "simulated.json"
    run(*SMALL, *words, "--json", str(file), "--plot", str(tmp_path / "simulated.png"))
    assert (tmp_path / "simulated.png").read_bytes().startswith(b"\x89PNG")
    read: dict[str, Any] = json.loads(file.read_text())
    return read


def test_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = written(tmp_path, "--latency", "50us", "--efficiency", "0.8", "--burst", "1kib", "--turns-after", "2kib")
    text = capsys.readouterr().out
    assert "simulated: 2400 float64, 8:3 -> 8:5, 8 ranks" in text
    assert "8 hosts, 10 Mbit/s each way, start-up 50 us" in text
    assert [method["name"] for method in found["methods"]] == list(DEFAULT_METHODS)
    assert found["machine"]["rate"] == 1.25e6
    assert found["limit"] == pytest.approx((found["busiest_bytes"] - 0.8 * 1024) / 1e6)
    for method in found["methods"]:
        assert method["seconds"] > found["limit"]
        assert f"| {method['name']} " in text


def test_hosts_windows_and_methods_that_do_not_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    methods = ["--methods", "ring/sendrecv,ring/windowed"]
    alone = written(tmp_path, *methods)["methods"]
    assert written(tmp_path, *methods, "--hosts", "100")["methods"][0]["seconds"] == alone[0]["seconds"]
    shared = written(tmp_path, *methods, "--slots", "4")
    assert shared["machine"]["hosts"] == 2
    assert all(slow["seconds"] > other["seconds"] for slow, other in zip(shared["methods"], alone, strict=True))
    few = ["--methods", "ring/windowed,ring/nonblocking,walker-otto/sendrecv", "--window", "1", "--piece", "80"]
    windowed, nonblocking, left_out = written(tmp_path, *few)["methods"]
    assert windowed["pieces"] > nonblocking["pieces"] == nonblocking["messages"]
    assert left_out["seconds"] is None
    assert "walker-otto/sendrecv: left out: schedule = 'walker-otto' needs r -> K r" in capsys.readouterr().out
    balanced = written(tmp_path, "--shape", "2401", "--from", "8:balanced", "--methods", "ring/sendrecv")
    assert (balanced["methods"][0]["messages"], bool(balanced["methods"][0]["seconds"])) == (56, True)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], ["required: --shape, --from, --to"]),
        (["--shape", "9", "--from", "3:1", "--to", "3:2"], ["--rate missing", "--rate 10gbit"]),
        (
            ["--shape", "20", "8", "--from", "2x1x2c:5x4", "--to", "2x2:3x3", "--rate", "1gbit"],
            ["--from 2x1x2c:5x4", "simulate is for layouts without replicas"],
        ),
        ([*SMALL, "--rate", "10"], ["argument --rate", "'10'", "50mbit"]),
        ([*SMALL, "--latency", "50"], ["argument --latency", "'50'", "50us"]),
        ([*SMALL, "--efficiency", "1.2"], ["argument --efficiency", "'1.2'", "at most 1"]),
        ([*SMALL, "--turns-after", "1.5b"], ["argument --turns-after", "'1.5b'", "64kib"]),
        ([*SMALL, "--hosts", "2", "--slots", "3"], ["--hosts 2", "--slots 3", "6 ranks", "needs 3 hosts"]),
        ([*SMALL, "--piece", "0"], ["argument --piece", "'0'", "at least 1 byte"]),
        ([*SMALL, "--methods", "auto"], ["argument --methods", "'auto'", "SCHEDULE/EXCHANGE"]),
        ([*SMALL, "--methods", "ring/ready"], ["argument --methods", "'ready'", "sendrecv"]),
        ([*SMALL, "--methods", "ring/alltoallv"], ["argument --methods", "ring", "windowed"]),
    ],
)
def test_bad_input_is_named(capsys: pytest.CaptureFixture[str], words: list[str], parts: list[str]) -> None:
    with pytest.raises(SystemExit):
        run(*words)
    err = capsys.readouterr().err
    assert [part for part in parts if part not in err] == []
