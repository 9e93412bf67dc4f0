"""The explorer itself: right protocols pass in all schedules, mistakes are found, and a token repeats what was found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("greenlet")
from interleavings import explore as exploring
from interleavings.explore import Failure, explore, explore_case, replay
from interleavings.toys import CASES, WRONG
from interleavings.world import EAGER, Channel, World, pause


@pytest.mark.parametrize("name", CASES)
def test_right_protocols_pass(name: str) -> None:
    report = explore_case(CASES[name], seeds=300)
    assert report.finished
    assert report.seeded == 300
    assert (report.exhaustive > 50) == (CASES[name].bound is not None)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("way", ["exhaustive", "seeds"])
def test_mistakes_are_found_and_replayed(name: str, way: str) -> None:
    case, text = WRONG[name]
    options = {} if way == "exhaustive" else {"exhaustive_bound": None, "seeds": 3000}
    with pytest.raises(Failure) as caught:
        explore_case(case, **options)
    assert text in str(caught.value)
    assert "DID NOT FAIL" not in str(caught.value)
    errors = []
    for _ in range(2):
        with pytest.raises(AssertionError) as again:
            replay(case.make_world, case.checks, caught.value.token)
        errors.append((type(again.value), str(again.value), again.value.__notes__))
    assert errors[0] == errors[1]


def test_an_enumeration_comes_to_every_schedule_once() -> None:
    seen: list[str] = []

    def make_world(choices: Any) -> World:
        seen.append("")
        return CASES["token"].make_world(choices)

    def checks(world: World) -> None:
        seen[-1] = world._choices.token

    assert explore(make_world, checks, exhaustive_bound=1).exhaustive == len(seen) == len(set(seen)) > 50
    assert explore(make_world, checks, exhaustive_bound=1, processes=2).exhaustive == len(seen)


def test_deaths_and_interrupts_come_at_every_step() -> None:
    killed, interrupted, after_death = set(), set(), set()
    progress = [0]

    def program(rank: int, channel: Channel) -> int:
        turns = 0
        try:
            for turns in range(3):
                channel.world.changed()
                try:
                    pause()
                except KeyboardInterrupt:
                    interrupted.add((rank, turns))
                if rank == 1:
                    progress[0] = turns + 1
        finally:
            if rank in channel.world.dead:
                after_death.add(channel.world._live)
        return turns

    def make_world(choices: Any) -> World:
        progress[0] = 0
        return World(2, choices, program, deaths=1, interrupts=1, victims=[1], weak=False, mode=EAGER)

    def checks(world: World) -> None:
        if world.dead:
            killed.add(progress[0])
        assert world.errors == [None, None]
        assert world.dead or world.returned() == [2, 2]

    explore(make_world, checks, exhaustive_bound=0)
    assert killed == {0, 1, 2}
    assert interrupted == {(1, 0), (1, 1), (1, 2)}
    assert after_death == {0}  # what it does as it is unwound comes after all others have ended


@pytest.mark.parametrize("how", ["dies", "never pauses"])
def test_a_process_that_ends_is_reported(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "STUCK_SECONDS", 0.2)

    def program(rank: int, channel: Channel) -> None:
        if how == "dies" and channel.world.choose(3) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        while how == "never pauses":
            pass

    with pytest.raises(
        Failure, match=rf"schedule s\d+ failed(?s:.*)ended process \d with {-9 if how == 'dies' else 1}"
    ):
        explore(lambda choices: World(4, choices, program), seeds=500, processes=2)


def test_command_line() -> None:
    command = [sys.executable, "-m", "interleavings.explore", "--cases", "interleavings.toys", "--only", "token"]
    where = Path(__file__).parents[1]
    for arguments, text in ((["--seconds", "0.2"], "token: "), (["--replay", "s3"], "rank 2 ends")):
        result = subprocess.run([*command, *arguments], cwd=where, capture_output=True, text=True, check=True)
        assert text in result.stdout
