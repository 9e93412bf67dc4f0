"""Messages of all ranks and the exchanges' rules: nothing is lost, sizes are the engine's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import deal

from pyscalapack_redist import ScheduleError, schedules
from pyscalapack_redist.exchanges.nonblocking import Windowed
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.layouts import Layout
from pyscalapack_redist.tools.simulate import traffic
from pyscalapack_redist.tools.simulate.exchange_rules import EXCHANGES, Sizes, work_of
from pyscalapack_redist.tools.simulate.machine import Machine
from pyscalapack_redist.tools.simulate.study import simulated
from pyscalapack_redist.tools.simulate.traffic import messages_of, volumes


def case(shape: tuple[int, ...], before: str, after: str) -> Case:
    return Case(shape, Layout.parse(before), Layout.parse(after))


sides = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(0, 3))


@given(st.integers(0, 90), sides, sides, st.sampled_from(schedules.NAMES))
def test_every_element_that_moves_is_in_one_message(
    n: int, before: tuple[int, int, int], after: tuple[int, int, int], name: str
) -> None:
    layouts = [f"{p}:{r}+{first}" for p, r, first in (before, after)]
    try:
        found = messages_of(case((n,), *layouts), name)
    except ScheduleError:
        assert name in ("walker-otto", "phases", "classes")
        return
    held = [deal(n, r, p) for p, r, _ in (before, after)]
    table = {
        (p + before[2], q + after[2]): len({*held[0][p]} & {*held[1][q]})
        for p in range(before[0])
        for q in range(after[0])
    }
    moved: dict[tuple[int, int], int] = {}
    for p, q, size in zip(found.sender.tolist(), found.receiver.tolist(), found.size.tolist(), strict=True):
        moved[p, q] = moved.get((p, q), 0) + size
    assert moved == {pair: size for pair, size in table.items() if size and pair[0] != pair[1]}
    assert (np.diff(found.step) >= 0).all()
    sent, received = volumes(found, 1, 10)
    assert sent.sum() == received.sum() == found.size.sum()


def test_steps_are_those_of_the_schedule() -> None:
    moved = case((240 * 3,), "16:3", "16:5+16")
    made = schedules.build("stepwise", schedules.CommunicationGrid(16, 16, 3, 5, 720))
    found = messages_of(moved, "stepwise")
    assert found.step[-1] + 1 == made.number_of_steps
    for number, step in enumerate(made.steps):
        mine = found.step == number
        rows = np.stack([found.sender[mine], found.receiver[mine] - 16, found.size[mine]], axis=1)
        assert rows.tolist() == sorted(step.tolist())


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_pieces_are_the_messages(exchange: str) -> None:
    messages = messages_of(case((2**22, 3), "4x1:16384x3", "2x3:65536x1"), "caterpillar")
    pieces = work_of(exchange, messages, 8, Sizes()).pieces
    assert pieces.nbytes.sum() == messages.size.sum() * 8
    longest = messages.size.max() * 8
    if exchange == "windowed":
        assert pieces.nbytes.max() == Windowed.piece < longest
    else:
        assert pieces.nbytes.max() == min(longest, 512 * 1024 if exchange == "nonblocking" else longest)
    small = work_of("windowed", messages, 8, Sizes(window=2, piece=1000)).pieces
    assert small.nbytes.max() == 1000
    assert small.nbytes.sum() == pieces.nbytes.sum()


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize(("before", "after"), [("4x2:3x4", "2x4:5x3"), ("3x2:4x4", "2x2:3x1+6")])
def test_no_method_beats_the_links(before: str, after: str, slots: int) -> None:
    moved = case((480, 600), before, after)
    machine = Machine(math.ceil(moved.ranks / slots), slots, 1e6, 1e-4, 1e-5, 0.9, 1024, 2048)
    methods = [
        f"{name}/{exchange}"
        for name in ("caterpillar", "ring", "optimal", "stepwise")
        for exchange in EXCHANGES
        if not exchange.startswith("alltoall")
    ]
    found = simulated(moved, machine, (*methods, "auto/alltoallv", "natural/windowed"), Sizes())
    assert found.limit > 0
    for prediction in found.predictions:
        assert prediction.seconds is not None
        assert prediction.seconds > found.limit


@pytest.mark.parametrize(
    ("before", "after", "order"),
    [("16x1:4x64", "4x4:2x2", "caterpillar"), ("32x1:4x64", "4x8:2x2", "stepwise"), ("300:1", "300:2", "ring")],
)
def test_auto_is_the_order_that_the_engine_chooses(before: str, after: str, order: str) -> None:
    moved = case((6400, 64) if "x" in before else (120_000,), before, after)
    exchanges = ("windowed", "sendrecv", "synchronized")
    names = [f"{schedule}/{exchange}" for exchange in exchanges for schedule in ("auto", order, "natural")]
    found = simulated(moved, Machine(moved.ranks, rate=1e6, latency=1e-6), tuple(names), Sizes(piece=4096)).predictions
    for auto, named, natural in zip(found[::3], found[1::3], found[2::3], strict=True):
        assert auto.seconds is not None
        assert (auto.seconds, auto.steps) == (named.seconds, named.steps)
        assert auto.steps != natural.steps


def test_lock_step_is_the_sum_of_the_steps_costs() -> None:
    # Each step of `classes` is full and its messages are of one length, so no process is ever ahead of another.
    grid = schedules.CommunicationGrid(8, 8, 3, 5)
    moved = case((grid.slice_length,), "8:3", "8:5+8")
    machine = Machine(16, rate=100.0, latency=0.125)
    made = schedules.build("classes", grid)
    (found,) = simulated(moved, machine, ("classes/sendrecv",), Sizes()).predictions
    lock = made.total_cost * 8 / 100 + made.number_of_steps * 0.125
    assert found.seconds == pytest.approx(machine.vote + lock)
    assert machine.vote == 0.5


@pytest.mark.parametrize("name", ["caterpillar", "stepwise", "optimal", "open-shop"])
@pytest.mark.parametrize(("before", "after"), [((15, 3), (15, 5)), ((9, 7), (4, 2)), ((4, 3), (9, 2))])
def test_one_message_at_a_time_takes_the_time_without_barriers(
    name: str, before: tuple[int, int], after: tuple[int, int]
) -> None:
    grid = schedules.CommunicationGrid(before[0], after[0], before[1], after[1])
    (P, r), (Q, s) = before, after
    moved = case((grid.slice_length,), f"{P}:{r}", f"{Q}:{s}+{P}")
    startup = 0.75  # in elements of 8 bytes
    machine = Machine(P + Q, rate=8.0, latency=startup)
    one_port = Sizes(window=1, piece=2**30, receives=1)
    (found,) = simulated(moved, machine, (f"{name}/windowed",), one_port).predictions
    whole = schedules.CommunicationGrid(P, Q, r, s, grid.slice_length)
    time = schedules.completion_time(schedules.build(name, whole), startup)
    if name in ("optimal", "open-shop"):  # a search need not find the same schedule twice
        assert found.seconds is not None
        assert found.seconds >= machine.vote + schedules.port_bound(whole, startup) * (1 - 1e-9)
    else:
        assert found.seconds == pytest.approx(machine.vote + time)
    (many,) = simulated(moved, machine, (f"{name}/windowed",), Sizes(window=1, piece=2**30, receives=32)).predictions
    assert many.seconds != found.seconds or many.seconds == pytest.approx(machine.vote + time)


def test_too_many_messages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MOST_MESSAGES", 10)
    with pytest.raises(ScheduleError, match="16 messages; at most 10"):
        messages_of(case((64,), "4:1", "4:4"), "ring")


def test_nothing_to_do_takes_the_vote() -> None:
    found = simulated(case((64,), "4:2", "4:2"), Machine(4, rate=1.0, latency=1.0), ("ring/sendrecv",), Sizes())
    assert (found.limit, found.predictions[0].seconds) == (0.0, 2.0)
    found = simulated(case((64,), "4:2", "4:2"), Machine(4, rate=1.0), ("ring/windowed",), Sizes())
    assert found.predictions[0].seconds == 0.0
