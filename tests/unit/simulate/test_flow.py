"""Flows: fair rates against progressive filling, what single messages take, and what no simulation may do."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscalapack_redist.tools.simulate.flow import Pieces, max_min, simulate
from pyscalapack_redist.tools.simulate.lock_step import lock_step
from pyscalapack_redist.tools.simulate.machine import Machine
from pyscalapack_redist.tools.simulate.rules import AnySource, Rule, Spread, Stages, Window

MEGA = 1e6
machines = st.builds(
    Machine,
    hosts=st.just(6),
    rate=st.sampled_from([1.0, 3.0]),
    latency=st.sampled_from([0.0, 0.25, 2.0]),
    overhead=st.sampled_from([0.0, 0.5]),
    efficiency=st.sampled_from([1.0, 0.5]),
    turns_after=st.sampled_from([math.inf, 0.0, 2.0]),
)
pairs = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda p: p[0] != p[1]), min_size=1, max_size=30
)


def pieces(*rows: tuple[int, int, float]) -> Pieces:
    sender, receiver, nbytes = zip(*rows, strict=True)
    return Pieces(np.array(sender), np.array(receiver), np.array(nbytes, float))


def at_once(some: Pieces) -> Rule:
    return Window(some.sender, some.receiver, some.count)


def seconds(machine: Machine, *rows: tuple[int, int, float]) -> float:
    some = pieces(*rows)
    return simulate(machine, some, at_once(some)).seconds


def filled(source: list[int], target: list[int], out: list[float], into: list[float]) -> list[float]:
    """All rates rise together, step by step; those at a full port stay."""
    ports = [*out, *into]
    users = [[k for k, p in enumerate(source) if p == port] for port in range(len(out))]
    users += [[k for k, q in enumerate(target) if q == port] for port in range(len(into))]
    rates, rising = [0.0] * len(source), set(range(len(source)))
    while rising:
        growth = min(
            (room - sum(rates[k] for k in some)) / len(rising & {*some})
            for room, some in zip(ports, users, strict=True)
            if rising & {*some}
        )
        for k in rising:
            rates[k] += growth
        for room, some in zip(ports, users, strict=True):
            if sum(rates[k] for k in some) >= room * (1 - 1e-12):
                rising -= {*some}
    return rates


@given(pairs, st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=12, max_size=12))
def test_rates_are_those_of_progressive_filling(flows: list[tuple[int, int]], room: list[float]) -> None:
    source, target = (list(side) for side in zip(*flows, strict=True))
    found = max_min(np.array(source), np.array(target), np.array(room[:6]), np.array(room[6:]))
    assert found == pytest.approx(filled(source, target, room[:6], room[6:]))


def test_a_flow_that_is_held_back_leaves_its_share_to_others() -> None:
    # Three into port 3 get a third each; the fourth takes what is left of port 0.
    found = max_min(np.array([0, 1, 2, 0]), np.array([3, 3, 3, 4]), np.ones(5), np.ones(5))
    assert found == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2 / 3])


def test_one_message_takes_its_start_up_and_its_bytes() -> None:
    machine = Machine(2, rate=5 * MEGA, latency=50e-6, overhead=10e-6, efficiency=0.8)
    assert seconds(machine, (0, 1, MEGA)) == pytest.approx(60e-6 + 0.25)
    assert seconds(replace(machine, burst=MEGA), (0, 1, MEGA)) == pytest.approx(60e-6 + 0.05, rel=1e-3)


def test_two_that_share_a_port_get_half() -> None:
    machine = Machine(3, rate=MEGA)
    for rows in ([(0, 1, MEGA), (0, 2, MEGA)], [(1, 0, MEGA), (2, 0, MEGA)]):
        some = pieces(*rows)
        assert simulate(machine, some, at_once(some)).ends == pytest.approx([2, 2])
    some = pieces((0, 1, MEGA), (0, 2, MEGA / 2))
    assert simulate(machine, some, at_once(some)).ends == pytest.approx([1.5, 1])


def test_both_ways_at_once_or_in_turns() -> None:
    machine = Machine(2, rate=MEGA)
    both = (0, 1, MEGA), (1, 0, MEGA)
    assert seconds(machine, *both) == pytest.approx(1)
    assert seconds(replace(machine, turns_after=0), *both) == pytest.approx(2)
    assert seconds(replace(machine, turns_after=MEGA / 4), *both) == pytest.approx(1.75)


def test_ranks_of_a_host_share_its_link_and_talk_among_themselves_for_nothing() -> None:
    machine = Machine(2, 2, rate=MEGA, latency=0.5)
    assert seconds(machine, (0, 2, MEGA), (1, 3, MEGA)) == pytest.approx(2.5)
    assert seconds(machine, (0, 1, MEGA)) == pytest.approx(0.5)


def test_messages_of_one_pair_go_one_behind_the_other() -> None:
    some = pieces((0, 1, 1), (0, 1, 1), (2, 1, 2))
    ends = simulate(Machine(3, rate=1), some, at_once(some)).ends
    assert ends == pytest.approx([2, 4, 4])


def test_a_process_has_time_for_one_message_after_another() -> None:
    rows = [(0, q, 1.0) for q in range(1, 9)]
    assert seconds(Machine(9, rate=1e9, overhead=1.0), *rows) == pytest.approx(8)
    assert seconds(Machine(9, rate=1e9, latency=1.0), *rows) == pytest.approx(1)


def test_a_window_keeps_the_rest_waiting() -> None:
    some = pieces(*[(0, q, 1.0) for q in range(1, 5)])
    ends = simulate(Machine(5, rate=1), some, Window(some.sender, some.receiver, 2)).ends
    assert ends == pytest.approx([2, 2, 4, 4])
    into = pieces(*[(q, 0, 1.0) for q in range(1, 5)])
    ends = simulate(Machine(5, rate=1), into, Window(into.sender, into.receiver, 1, posted_receives=2)).ends
    assert ends == pytest.approx([2, 2, 4, 4])


def test_a_spread_window_has_a_few_pieces_of_many_messages() -> None:
    some = pieces((0, 1, 1), (0, 1, 1), (0, 2, 1), (0, 2, 1), (0, 3, 2))
    message = np.array([0, 0, 1, 1, 2])
    ends = simulate(Machine(4, rate=1), some, Spread(some.sender, some.receiver, message, 2, 1)).ends
    assert ends == pytest.approx([2, 4, 2, 4, 6])
    ends = simulate(Machine(4, rate=1), some, Spread(some.sender, some.receiver, message, 2, 2)).ends
    assert ends == pytest.approx([1, 3, 3, 5, 6])  # of one message, pieces go one behind the other
    ends = simulate(Machine(4, rate=1), some, Spread(some.sender, some.receiver, message, 3, 1)).ends
    assert ends == pytest.approx([3, 6, 3, 6, 6])


@given(pairs, st.data())
def test_nothing_is_faster_than_the_links_and_all_comes_through(
    flows: list[tuple[int, int]], data: st.DataObject
) -> None:
    machine = replace(data.draw(machines), slots=data.draw(st.sampled_from([1, 2])))
    sizes = data.draw(st.lists(st.integers(1, 8), min_size=len(flows), max_size=len(flows)))
    some = pieces(*[(p, q, size) for (p, q), size in zip(flows, sizes, strict=True)])
    stage = np.arange(some.count)
    message = np.cumsum(np.diff(some.sender, prepend=-1).astype(bool) | np.diff(some.receiver, prepend=-1).astype(bool))
    rules: list[Rule] = [
        at_once(some),
        Window(some.sender, some.receiver, 2),
        Spread(some.sender, some.receiver, message, 3, 2),
        Stages(some.sender, some.receiver, stage),
        AnySource(some.sender, some.receiver, np.zeros(some.count, int)),
    ]
    rule = data.draw(st.sampled_from(rules))
    resolution = data.draw(st.sampled_from([0.0, 0.1]))
    done = simulate(machine, some, rule, resolution)
    assert done.ends.shape == (some.count,)
    assert done.seconds == done.ends.max()
    own = done.ends - machine.overhead - machine.latency
    away = some.sender // machine.slots != some.receiver // machine.slots
    assert (own >= np.where(away, some.nbytes, 0) / machine.goodput - 1e-9).all()
    for host in range(machine.hosts):
        for side in (some.sender, some.receiver):
            mine = away & (side // machine.slots == host)
            if mine.any():
                assert done.ends[mine].max() >= machine.limit(some.nbytes[mine].sum()) * (1 - 1e-9)


steps = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 6)), max_size=6), min_size=1, max_size=6
)


@given(machines, steps, st.sampled_from([0.0, 3.0]))
def test_lock_step_in_closed_form_is_that_of_the_events(
    machine: Machine, wanted: list[list[tuple[int, int, int]]], burst: float
) -> None:
    if burst:  # which of two goes first may hang on how fast a burst is, so here none take turns
        machine = replace(machine, burst=burst, turns_after=math.inf)
    rows, stage = [], []
    for number, step in enumerate(wanted):
        used: set[tuple[str, int]] = set()
        for p, q, size in step:
            if p != q and not used & {("out", p), ("in", q)}:
                used |= {("out", p), ("in", q)}
                rows.append((p, q, float(size)))
                stage.append(number)
    if not rows:
        return
    some, places = pieces(*rows), np.array(stage)
    exact = lock_step(machine, some, places)
    assert simulate(machine, some, Stages(some.sender, some.receiver, places)).seconds == pytest.approx(
        exact,
        rel=0.02 if burst else 1e-6,
        abs=0.05 if burst else 0,  # a burst goes at a thousand times the rate
    )


@given(st.lists(st.tuples(st.permutations(range(6)), st.integers(1, 9)), min_size=1, max_size=8))
def test_lock_step_of_equal_messages_is_the_sum_of_the_steps(wanted: list[tuple[list[int], int]]) -> None:
    machine = Machine(12, rate=2.0, latency=0.5)
    rows = [(p, 6 + q, float(size)) for step, size in wanted for p, q in enumerate(step)]
    stage = np.repeat(np.arange(len(wanted)), 6)
    assert lock_step(machine, pieces(*rows), stage) == pytest.approx(sum(0.5 + size / 2 for _, size in wanted))


def test_events_taken_together_end_late_and_never_early() -> None:
    rng = np.random.default_rng(7)
    rows = [(p, q, float(rng.integers(1, 1000))) for p in range(12) for q in range(12) if p != q]
    some, machine = pieces(*rows), Machine(12, rate=1000.0)
    exact = simulate(machine, some, Window(some.sender, some.receiver, 3))
    coarse = simulate(machine, some, Window(some.sender, some.receiver, 3), 0.3)
    assert coarse.events < exact.events / 2.5
    assert exact.seconds * 0.9 < coarse.seconds < exact.seconds * 1.2


def test_a_rule_that_never_ends_is_told() -> None:
    some = pieces((0, 1, 1), (1, 0, 1))
    with pytest.raises(AssertionError, match="wait for each other"):
        simulate(Machine(2, rate=1), some, AnySource(some.sender, some.receiver, np.array([1, 1])))


def test_a_tiny_burst_late_in_time_is_used_up() -> None:
    machine = Machine(3, rate=1e9, latency=1e6, burst=1)
    some = pieces((0, 1, 1e6), (2, 1, 1e6), (0, 2, 1e6))
    done = simulate(machine, some, Window(some.sender, some.receiver, 1))
    assert done.seconds == pytest.approx(2e6)


def test_closed_form_refuses_shared_ports() -> None:
    with pytest.raises(ValueError, match="slots = 2"):
        lock_step(Machine(1, 2, rate=1), pieces((0, 1, 1)), np.array([0]))
