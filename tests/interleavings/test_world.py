"""The explorer itself: right protocols pass in all schedules, mistakes are found, and a token repeats what was found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("greenlet")
from interleavings import explore as exploring
from interleavings.explore import Failure, explore, explore_case, replay
from interleavings.toys import CASES, DATA, WRONG, finish, make, token, wait
from interleavings.world import (
    BUFFERED,
    EAGER,
    RENDEZVOUS,
    Channel,
    Enumerated,
    Hang,
    Livelock,
    Seeded,
    TransportError,
    World,
    from_token,
    pause,
)


def run(size: int, program: Any, choices: Any = None, **options: Any) -> World:
    """One schedule, without delays unless choices are given."""
    options.setdefault("weak", False)
    options.setdefault("mode", EAGER)
    world = World(size, choices or Enumerated(0), program, **options)
    try:
        world.run()
    finally:
        world.close()
    return world


@pytest.mark.parametrize("name", CASES)
def test_right_protocols_pass(name: str) -> None:
    report = explore_case(CASES[name], seeds=2000)
    assert report.finished
    assert report.seeded == 2000
    assert (report.exhaustive > 50) == (CASES[name].bound is not None)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("way", ["exhaustive", "seeds"])
def test_mistakes_are_found_and_replayed(name: str, way: str) -> None:
    case, text = WRONG[name]
    options = {"exhaustive_bound": case.bound} if way == "exhaustive" else {"seeds": 3000}
    with pytest.raises(Failure) as caught:
        explore(case.make_world, case.checks, **options)
    assert text in str(caught.value)
    assert "DID NOT FAIL" not in str(caught.value)
    said = []
    for _ in range(2):
        with pytest.raises(AssertionError) as again:
            replay(case.make_world, case.checks, caught.value.token)
        said.append((type(again.value), str(again.value), again.value.__notes__))
    assert said[0] == said[1]


def test_a_hang_tells_where_each_rank_is() -> None:
    with pytest.raises(Hang, match=r"(?s)rank 0 waits at.*in circle\n.*rank 2 waits at.*in circle"):
        run(3, WRONG["circle"][0].make_world(Enumerated(0)).program)


def test_ranks_may_be_expected_to_wait() -> None:
    def program(rank: int, channel: Channel) -> str:
        if rank:
            wait(channel.receive(bytearray(1), 0, DATA))
        return "never called"

    world = run(3, program, expected_to_wait=[1, 2])
    assert world.waiting == {1, 2}
    assert world.outcomes() == ["returned", "waiting", "waiting"]
    with pytest.raises(Hang):
        run(3, program, expected_to_wait=[1])


def test_an_error_is_told_with_the_hang_that_it_leads_to() -> None:
    def program(rank: int, channel: Channel) -> None:
        if rank:
            wait(channel.receive(bytearray(1), 0, DATA))
        raise ValueError("no message for you")

    with pytest.raises(Hang, match="rank 0 has ended with ValueError") as caught:
        run(2, program)
    assert isinstance(caught.value.__cause__, ValueError)


def test_ranks_that_go_on_for_ever_are_stopped() -> None:
    def program(rank: int, channel: Channel) -> None:
        while True:
            channel.send(b"", 1 - rank, DATA)
            pause()

    with pytest.raises(Livelock, match="no end after 501 turns"):
        run(2, program, limit=500)


def test_an_enumeration_comes_to_every_schedule_once_however_it_is_divided() -> None:
    seen: list[str] = []

    def make_world(choices: Any) -> World:
        world = CASES["token"].make_world(choices)
        seen.append("")
        return world

    def checks(world: World) -> None:
        seen[-1] = world._choices.token

    alone = explore(make_world, checks, exhaustive_bound=2, processes=1)
    assert len(seen) == len(set(seen)) == alone.exhaustive
    divided = explore(make_world, checks, exhaustive_bound=2, processes=3)
    assert divided.exhaustive == alone.exhaustive


def test_tokens_lead_to_the_same_schedule() -> None:
    make_world = make(3, token)
    for mark in ("s5", "s77", "x2:1=1,4=3"):
        first, second = (replay(make_world, None, mark) for _ in range(2))
        assert first.log == second.log
    choices = from_token("x2:1=1,4=3")
    assert choices.token == "x2:1=1,4=3"
    assert (Seeded(5).token, from_token("s5").token) == ("s5", "s5")


def test_what_enumerated_schedules_differ_in() -> None:
    """Two senders and one receiver: the messages come in either order, and each sender's in its own."""
    orders = set()

    def program(rank: int, channel: Channel) -> list[tuple[int, int]]:
        came: list[tuple[int, int]] = []
        if rank:
            finish(channel, [channel.send(bytes([k]), 0, DATA) for k in range(2)])
        while not rank and len(came) < 4:
            found = channel.probe(None, DATA)
            if found is None:
                pause()
            else:
                data = bytearray(found.nbytes)
                wait(found.receive(data))
                came.append((found.peer, data[0]))
        return came

    def checks(world: World) -> None:
        orders.add(tuple(world.returned()[0]))

    explore(lambda choices: World(3, choices, program), checks, exhaustive_bound=2, processes=1)
    assert len(orders) == 6
    assert all([k for peer, k in order if peer == sender] == [0, 1] for order in orders for sender in (1, 2))


@pytest.mark.parametrize(("mode", "done"), [(EAGER, True), (BUFFERED, True), (RENDEZVOUS, False)])
def test_when_sends_complete(mode: int, done: bool) -> None:
    def program(rank: int, channel: Channel) -> None:
        if rank == 0:
            request = channel.send(b"x", 1, DATA)
            assert request.Test() == done
            assert channel.first_done([None, request]) is None  # after Test has said so
            if not done:
                wait(channel.receive(bytearray(1), 1, DATA))
                assert channel.first_done([None, request]) == 1
                assert channel.first_done([None, request]) is None
                assert request.Test()
        else:
            wait(channel.receive(bytearray(1), 0, DATA))
            channel.send(b"", 0, DATA)

    world = run(2, program, mode=mode)
    world.returned()


def test_buffers_of_every_kind() -> None:
    sent = [
        b"abc",
        bytearray(b"abcd"),
        [bytes(10), 4, None],
        (np.arange(3),),
        np.zeros((2, 0)),
        np.ones(2, complex),
        None,
    ]
    sizes = [3, 4, 4, 24, 0, 32, 0]

    def program(rank: int, channel: Channel) -> None:
        for data, size in zip(sent, sizes, strict=True):
            if rank == 0:
                channel.send(data, 1, DATA)
                continue
            while (found := channel.probe(0, DATA)) is None:
                pause()
            assert found.nbytes == size
            into = np.full(size // 8 + 1, -1)
            wait(found.receive([into, size, None]))

    run(2, program).returned()


def test_a_message_that_is_too_long_is_an_error_of_the_receiver() -> None:
    def program(rank: int, channel: Channel) -> None:
        if rank == 0:
            channel.send(b"abc", 1, DATA)
        else:
            wait(channel.receive([bytearray(5), 2, None], 0, DATA))

    world = run(2, program)
    assert isinstance(world.errors[1], TransportError)
    assert world.outcomes() == ["returned", "TransportError"]


def test_collectives_out_of_order_break_a_rule() -> None:
    def program(rank: int, channel: Channel) -> None:
        wait(channel.barrier() if rank else channel.reduce(np.zeros(1, np.int64), np.zeros(1, np.int64)))

    with pytest.raises(AssertionError, match="rank 1 starts a barrier where others have a reduce"):
        run(2, program)


def test_groups_have_collectives_and_messages_of_their_own() -> None:
    def program(rank: int, channel: Channel) -> tuple[int, int]:
        group = channel.split(1 + rank % 2, range(rank % 2, 4, 2))
        largest = np.zeros(1, np.int64)
        wait(group.reduce(np.array([rank]), largest))
        data = bytearray(1)
        wait(channel.send(b"w", (rank + 1) % 4, DATA))
        finish(group, [group.send(b"g", 1 - group.rank, DATA), group.receive(data, 1 - group.rank, DATA)])
        assert data == b"g"
        wait(channel.receive(data, (rank - 1) % 4, DATA))
        assert data == b"w"
        return group.rank, int(largest[0])

    assert run(4, program).returned() == [(0, 2), (0, 3), (1, 2), (1, 3)]


def test_late_ranks_begin_last() -> None:
    order = []

    def program(rank: int, channel: Channel) -> None:
        order.append(rank)
        wait(channel.barrier())

    run(3, program, late=[0])
    assert order == [1, 2, 0]


def test_deaths_and_interrupts_come_at_every_step() -> None:
    killed, interrupted = set(), set()

    def program(rank: int, channel: Channel) -> int:
        turns = 0
        for turns in range(3):
            channel.world.changed()
            try:
                pause()
            except KeyboardInterrupt:
                interrupted.add((rank, turns))
            if rank == 1:
                progress[0] = turns + 1
        return turns

    progress = [0]

    def make_world(choices: Any) -> World:
        progress[0] = 0
        return World(2, choices, program, deaths=1, interrupts=1, victims=[1], weak=False, mode=EAGER)

    def checks(world: World) -> None:
        if world.dead:
            killed.add(progress[0])
        assert world.outcomes() == ["returned", "dead" if world.dead else "returned"]

    explore(make_world, checks, exhaustive_bound=0, processes=1)
    assert killed == {0, 1, 2}
    assert interrupted == {(1, 0), (1, 1), (1, 2)}


def test_a_rank_can_die_before_each_call() -> None:
    came = set()

    def program(rank: int, channel: Channel) -> None:
        finish(channel, [channel.send(bytes([k]), 1, DATA) for k in range(3)])

    def receiver(rank: int, channel: Channel) -> None:
        for k in range(3):
            request = channel.receive(bytearray(1), 0, DATA)
            while not request.Test():
                if channel.world.dead:
                    came.add(k)
                    return
                pause()

    def make_world(choices: Any) -> World:
        return World(2, choices, [program, receiver], deaths=1, victims=[0], preempt=True, delays=(1,))

    explore(make_world, lambda world: None, exhaustive_bound=1, processes=1)
    assert came == {0, 1, 2}


def test_what_a_rank_leaves_behind_is_sent_only_if_it_calls_again() -> None:
    def program(rank: int, channel: Channel) -> None:
        if rank == 0:
            channel.send(b"x", 1, DATA)
        else:
            wait(channel.receive(bytearray(1), 0, DATA))

    with pytest.raises(Hang):
        run(2, program, mode=RENDEZVOUS, weak=True)
    assert run(2, program, mode=RENDEZVOUS, weak=True, progress_after_end=True).outcomes() == ["returned"] * 2


def test_faults_are_injected_where_a_program_asks() -> None:
    failed = set()

    def program(rank: int, channel: Channel) -> None:
        for place in range(3):
            try:
                channel.world.fault_point(MemoryError("injected"))
            except MemoryError:
                failed.add((rank, place))
            pause()

    report = explore(
        lambda choices: World(2, choices, program, errors=1, weak=False, mode=EAGER), exhaustive_bound=0, processes=1
    )
    assert failed == {(rank, place) for rank in range(2) for place in range(3)}
    assert report.exhaustive == 7


def test_a_killed_rank_does_nothing_more_before_the_end() -> None:
    done = []

    def program(rank: int, channel: Channel) -> None:
        try:
            for _ in range(4):
                channel.world.changed()
                pause()
        finally:
            if rank in channel.world.dead:
                done.append(channel.world._live)

    explore(
        lambda choices: World(2, choices, program, deaths=1, victims=[0]),
        lambda world: None,
        exhaustive_bound=0,
        processes=1,
    )
    assert set(done) == {0}


def test_a_rank_that_will_not_be_unwound_is_left() -> None:
    def program(rank: int, channel: Channel) -> None:
        while True:
            try:
                pause()
            except BaseException:
                continue

    run(1, program, expected_to_wait=[0])
    assert run(2, token).returned() == [3, 3]


def test_who_enters_is_told() -> None:
    entered: list[int] = []
    world = run(3, token, enter=entered.append)
    assert len(entered) == world.turns
    assert set(entered) == {0, 1, 2}


@pytest.mark.parametrize("how", ["exhaustive", "seeds"])
def test_a_process_that_dies_is_reported(how: str) -> None:
    parent = os.getpid()

    def program(rank: int, channel: Channel) -> None:
        if channel.world.choose(3) == 2 and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(Failure, match=r"ended process \d with -9"):
        explore(
            lambda choices: World(4, choices, program),
            exhaustive_bound=1 if how == "exhaustive" else None,
            seeds=0 if how == "exhaustive" else 500,
            processes=2,
        )


def test_a_rank_that_never_pauses_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()
    monkeypatch.setattr(exploring, "STUCK_SECONDS", 1)

    def program(rank: int, channel: Channel) -> None:
        while os.getpid() != parent:
            pass

    with pytest.raises(Failure, match=r"(?s)no end after 1 s.*in program"):
        explore(lambda choices: World(2, choices, program), seeds=100, processes=2)


def test_programs_that_depend_on_something_else_are_told_so() -> None:
    calls = []

    def program(rank: int, channel: Channel) -> None:
        calls.append(rank)
        assert len(calls) != 9
        pause()

    with pytest.raises(Failure, match="DID NOT FAIL"):
        explore(lambda choices: World(1, choices, program), seeds=100, processes=1)


def test_time_is_kept() -> None:
    report = explore(make(3, token), exhaustive_bound=50, seeds=None, seconds=0.5)
    assert not report.finished
    assert report.exhaustive
    assert report.seeded
    assert report.seconds < 5


def test_command_line() -> None:
    command = [sys.executable, "-m", "interleavings.explore", "--cases", "interleavings.toys"]
    where = Path(__file__).parents[1]
    result = subprocess.run(
        [*command, "--seconds", "1", "--only", "token", "kept"], cwd=where, capture_output=True, text=True, check=True
    )
    assert "kept: " in result.stdout
    result = subprocess.run(
        [*command, "--only", "token", "--replay", "s3"], cwd=where, capture_output=True, text=True, check=True
    )
    assert "rank 2 ends" in result.stdout
