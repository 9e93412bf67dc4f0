"""Run as many schedules of a case as are wanted, in several processes; what fails prints a token that replays it.

From the command line, in tests/: python -m interleavings.explore --seconds 3600 [--cases MODULE] [--only NAME ...]
One schedule again, with all that happened in it: python -m interleavings.explore --only NAME --replay TOKEN
"""

from __future__ import annotations

import argparse
import gc
import importlib
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .world import Choices, Enumerated, Seeded, World, from_token

__all__ = ["Case", "Failure", "Report", "explore", "explore_case", "replay"]

BLOCK = 50  # schedules between two looks at the clock
STUCK_SECONDS = 60  # that a block may take
_fork = multiprocessing.get_context("fork")


class Failure(AssertionError):  # noqa: N818 - the name says it
    """A schedule in which something went wrong."""

    def __init__(self, message: str, token: str) -> None:
        super().__init__(message)
        self.token = token


@dataclass(frozen=True)
class Case:
    """What is explored.

    Parameters
    ----------
    make_world : callable
        make_world(choices) returns a World with its program; it may draw more choices, what is redistributed for example.
    checks : callable or None
        checks(world) raises after a schedule that went wrong; None: all ranks must return, and nothing be left over.
    bound : int or None
        The preemption bound of the exhaustive part; None for none.
    """

    make_world: Callable[[Choices], World]
    checks: Callable[[World], object] | None = None
    bound: int | None = None


@dataclass
class Report:
    """What has been run."""

    exhaustive: int = 0
    seeded: int = 0
    finished: bool = True  # whether all schedules within the bound have been run
    seconds: float = 0.0

    @property
    def schedules(self) -> int:
        return self.exhaustive + self.seeded

    def __str__(self) -> str:
        part = "all" if self.finished else "not all"
        rate = self.schedules / self.seconds * 60 if self.seconds else 0
        return (
            f"{self.schedules} schedules in {self.seconds:.1f} s ({rate:.0f} a minute): {self.exhaustive} one by one"
            f" ({part} within the bound), {self.seeded} by seeds"
        )


def nothing_left(world: World) -> None:
    """All ranks have returned, and no message is left over."""
    world.returned()
    left = world.unreceived()
    assert not left, left


def run_schedule(make_world: Callable[[Choices], World], checks: Any, choices: Choices) -> World:
    """One schedule and its checks."""
    world = make_world(choices)
    try:
        world.run()
        (checks or nothing_left)(world)
    except BaseException as error:
        if world.log is not None:
            error.add_note("\n".join([*world.log, world.where()]))
        if isinstance(error, KeyboardInterrupt) and error.args:
            raise AssertionError("a rank has raised the interrupt that was injected") from error
        raise
    finally:
        world.close()
    return world


def replay(make_world: Callable[[Choices], World], checks: Callable[[World], object] | None, token: str) -> World:
    """Run one schedule again, here; `log` of the world that it returns has what happened, as have an error's notes."""
    choices = from_token(token)
    choices.traced = True
    return run_schedule(make_world, checks, choices)


def explore(
    make_world: Callable[[Choices], World],
    checks: Callable[[World], object] | None = None,
    *,
    exhaustive_bound: int | None = None,
    seeds: int | None = 0,
    seconds: float | None = None,
    first_seed: int = 0,
    processes: int | None = None,
) -> Report:
    """Run all schedules within a preemption bound, then schedules by seeds.

    Parameters
    ----------
    make_world, checks : callable
        As for `Case`.
    exhaustive_bound : int or None
        Preemption bound; None for no exhaustive part.
    seeds : int or None
        How many seeds; None for as many as there is time for.
    seconds : float or None
        When to end, finished or not; None for no limit. Where there are seeds too, the exhaustive part has half of it.
    processes : int or None
        None for as many as there are cores. With 1, everything runs in this process.

    Raises
    ------
    Failure
        With the token and the text of a schedule that failed, as it fails when it is replayed.
    """
    if seeds is None and seconds is None:
        raise ValueError("either the number of seeds or the time must be limited")
    begun = time.monotonic()
    shared = _Shared(
        make_world,
        checks,
        -1 if exhaustive_bound is None else exhaustive_bound,
        sys.maxsize if seeds is None else seeds,
        first_seed,
        float("inf") if seconds is None else begun + seconds,
        float("inf") if seconds is None else begun + (seconds if seeds == 0 else seconds / 2),
        processes or os.cpu_count() or 1,
    )
    failed = shared.split() or (shared.work(0) if shared.processes == 1 else shared.spread())
    report = Report(sum(shared.exhaustive), sum(shared.seeded), bool(shared.whole.value), time.monotonic() - begun)
    if failed:
        token, text = failed
        raise Failure(f"schedule {token} failed, after {report}\nreplay(..., {token!r})\n{text}", token)
    return report


class _Shared:
    """What the processes share. They take prefixes, then blocks of seeds, until none are left."""

    def __init__(
        self,
        make_world: Any,
        checks: Any,
        bound: int,
        seeds: int,
        first: int,
        deadline: float,
        half: float,
        processes: int,
    ) -> None:
        self.make_world, self.checks, self.bound = make_world, checks, bound
        self.deadline, self.half = deadline, half
        self.seeds, self.first, self.processes = seeds, first, processes
        self.prefixes: list[list[int]] = []
        self.drawn = _fork.Value("q", 0)
        self.stop = _fork.Value("b", 0, lock=False)
        self.whole = _fork.Value("b", 1, lock=False)
        self.exhaustive = _fork.Array("q", processes + 1, lock=False)  # the last one: while splitting
        self.seeded = _fork.Array("q", processes, lock=False)
        self.at = _fork.Array("q", processes, lock=False)  # which seed, or -1 - which prefix, each one is at

    def split(self) -> tuple[str, str] | None:
        """Make prefixes, many times as many as processes; the first schedule of each that is split up is run here."""
        if self.bound < 0:
            return None
        waiting = [[]]
        while waiting and len(waiting) < (1 if self.processes == 1 else 40 * self.processes):
            choices = Enumerated(self.bound, waiting.pop(0))
            if failed := self.attempt(choices):
                return failed
            self.exhaustive[self.processes] += 1
            waiting += choices.children()
            if self.late(self.half):
                self.whole.value = 0
                return None
        self.prefixes = waiting
        return None

    def attempt(self, choices: Choices) -> tuple[str, str] | None:
        """Run one schedule; its token and text if it fails."""
        try:
            run_schedule(self.make_world, self.checks, choices)
            if choices.exhaustive:
                choices.end()
            return None
        except Exception:
            first = traceback.format_exc()
        return choices.token, self.again(choices.token, first)

    def again(self, token: str, first: str) -> str:
        """What a schedule fails with when it is replayed."""
        try:
            replay(self.make_world, self.checks, token)
        except Exception as error:
            return "".join(traceback.format_exception(error))
        return f"REPLAYED, IT DID NOT FAIL. The program depends on something besides the choices. At first:\n{first}"

    def late(self, deadline: float) -> bool:
        return bool(self.stop.value) or time.monotonic() > deadline

    def work(self, me: int) -> tuple[str, str] | None:
        """One process's share."""
        collecting = gc.isenabled()
        gc.disable()  # a world's cycles of references are collected from time to time
        gc.freeze()
        try:
            return self._work(me)
        finally:
            gc.unfreeze()
            if collecting:
                gc.enable()

    def _work(self, me: int) -> tuple[str, str] | None:
        blocks = -(-self.seeds // BLOCK)
        seeded = Seeded()
        while True:
            with self.drawn.get_lock():
                number = self.drawn.value
                if number >= len(self.prefixes) + blocks:
                    return None
                self.drawn.value = number + 1
            if number < len(self.prefixes):
                self.at[me] = -1 - number
                choices = Enumerated(self.bound, self.prefixes[number])
                more = True
                while more:
                    if self.exhaustive[me] % BLOCK == 0:
                        self.pause_for_breath()
                    if self.late(self.half):
                        self.whole.value = 0
                        break
                    choices.begin()
                    if failed := self.attempt(choices):
                        return failed
                    self.exhaustive[me] += 1
                    more = choices.advance()
                continue
            if self.late(self.deadline):
                return None
            block = number - len(self.prefixes)
            for seed in range(block * BLOCK, min(self.seeds, block * BLOCK + BLOCK)):
                seeded.restart(self.first + seed)
                self.at[me] = self.first + seed
                if failed := self.attempt(seeded):
                    return failed
                self.seeded[me] += 1
            self.pause_for_breath()

    def pause_for_breath(self) -> None:
        gc.collect(1)
        if self.processes > 1:
            signal.alarm(STUCK_SECONDS)

    def spread(self) -> tuple[str, str] | None:
        """Work in several processes, until one of them has failed or all are done."""
        receiving, sending = _fork.Pipe(duplex=False)
        guard = _fork.Lock()
        workers = [_fork.Process(target=self.child, args=(me, sending, guard)) for me in range(self.processes)]
        sys.stdout.flush()
        sys.stderr.flush()
        for worker in workers:
            worker.start()
        sending.close()
        failed = None
        try:
            while any(worker.is_alive() for worker in workers):
                if receiving.poll(0.02):
                    failed = failed or self.told(receiving)
                if failed or any(worker.exitcode for worker in workers):
                    break
            if failed is None and receiving.poll(0):
                failed = self.told(receiving)
            if failed is None:
                for me, worker in enumerate(workers):
                    worker.join(0.1 if worker.exitcode is None else None)
                    if worker.exitcode:
                        at = self.at[me]
                        token = f"s{at}" if at >= 0 else Enumerated(self.bound, self.prefixes[-1 - at]).token
                        where = "" if at >= 0 else "one of those that begin as "
                        failed = token, f"{where}this schedule ended process {me} with {worker.exitcode}"
        finally:
            self.stop.value = 1
            for worker in workers:
                worker.join(0 if failed else 10)
                if worker.is_alive():
                    worker.kill()
                    worker.join()
        return failed

    def told(self, receiving: Any) -> tuple[str, str] | None:
        try:
            return receiving.recv()
        except EOFError:
            time.sleep(0.02)
            return None

    def child(self, me: int, sending: Any, guard: Any) -> None:
        """The main function of a process. SIGINT ends it, so that nothing handles that in Python."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

        def stuck(number: int, frame: Any) -> None:
            at = self.at[me]
            token = f"s{at}" if at >= 0 else Enumerated(self.bound, self.prefixes[-1 - at]).token
            text = f"no end after {STUCK_SECONDS} s" + " in the schedules that begin so" * (at < 0)
            with guard:
                sending.send((token, f"{text}\n" + "".join(traceback.format_stack(frame))))
            os._exit(0)

        signal.signal(signal.SIGALRM, stuck)
        signal.alarm(STUCK_SECONDS)
        failed = self.work(me)
        signal.alarm(0)
        if failed:
            with guard:
                sending.send(failed)


def explore_case(case: Case, **options: Any) -> Report:
    """Explore a case with its own bound."""
    return explore(case.make_world, case.checks, exhaustive_bound=case.bound, **options)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: all cases of a module, each for its share of the time."""
    parser = argparse.ArgumentParser(prog="python -m interleavings.explore", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all cases together (60)")
    parser.add_argument("--cases", default="interleavings.cases", help="module with a dict CASES (interleavings.cases)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of these cases")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--replay", metavar="TOKEN", help="run one schedule of one case, and tell what happened in it")
    options = parser.parse_args(arguments)
    cases: dict[str, Case] = importlib.import_module(options.cases).CASES
    if unknown := [name for name in options.only or () if name not in cases]:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(cases)}")
    names = options.only or list(cases)
    if options.replay:
        if len(names) != 1:
            parser.error("--replay needs one case: --only NAME")
        world = replay(cases[names[0]].make_world, cases[names[0]].checks, options.replay)
        print("\n".join(world.log or ()))
        return 0

    deadline = time.monotonic() + options.seconds
    total = 0
    for done, name in enumerate(names):
        share = max(0.0, deadline - time.monotonic()) / (len(names) - done)
        try:
            report = explore_case(
                cases[name], seeds=None, seconds=share, first_seed=options.first_seed, processes=options.processes
            )
        except Failure as failure:
            print(f"{name}: {failure}\n\nAgain: --cases {options.cases} --only {name} --replay {failure.token}")
            return 1
        total += report.schedules
        print(f"{name}: {report}", flush=True)
    print(f"{total} schedules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
