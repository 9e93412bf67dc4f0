"""Run as many schedules of a case as are wanted, in several processes; what fails prints a token that replays it.

From the command line, in tests/: python -m interleavings.explore --seconds 3600 [--cases MODULE] [--only NAME ...]
One schedule again, with all that happened in it: python -m interleavings.explore --only NAME --replay TOKEN
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import importlib
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .world import Choices, Enumerated, Seeded, World, from_token

BLOCK = 50  # schedules between two looks at the clock
STUCK_SECONDS = 60  # that a block may take
LOOK_SECONDS = 0.01  # between two looks at processes
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
        return (
            f"{self.schedules} schedules in {self.seconds:.1f} s: {self.exhaustive} one by one ({part} within the bound), "
            f"{self.seeded} by seeds"
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
    seconds: float = float("inf"),
    first_seed: int = 0,
    processes: int = 0,
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
    seconds : float
        When to end, finished or not. Where there are seeds too, the exhaustive part has half of it.
    processes : int
        The first one runs the exhaustive part. 0: everything runs in this process, which a rank that never pauses stops.

    Raises
    ------
    Failure
        With the token and the text of a schedule that failed, as it fails when it is replayed.
    """
    begun = time.monotonic()
    share = seconds if seeds == 0 else seconds / 2
    work = _Work(make_world, checks, exhaustive_bound, begun + share, begun + seconds, max(1, processes))
    every = range(first_seed, sys.maxsize if seeds is None else first_seed + seeds)
    failed = work.spread(every) if processes else work.run(0, every)
    report = Report(sum(work.exhaustive), sum(work.seeded), bool(work.finished.value), time.monotonic() - begun)
    if failed:
        token, text = failed
        raise Failure(f"schedule {token} failed, after {report}\nreplay(..., {token!r})\n{text}", token)
    return report


class _Work:
    """What the processes do; each takes one of so many seeds."""

    def __init__(
        self, make_world: Any, checks: Any, bound: int | None, half: float, deadline: float, processes: int
    ) -> None:
        self.make_world, self.checks, self.bound, self.processes = make_world, checks, bound, processes
        self.half, self.deadline = half, deadline
        self.stop = _fork.Value("b", 0, lock=False)
        self.finished = _fork.Value("b", 1, lock=False)
        self.exhaustive = _fork.Array("q", processes, lock=False)
        self.seeded = _fork.Array("q", processes, lock=False)
        self.at = _fork.Array(
            "q", [-1] * processes, lock=False
        )  # which seed each one is at; -1: in the exhaustive part

    def run(self, me: int, seeds: range) -> tuple[str, str] | None:
        """One process's share; the token and the text of a schedule that fails."""
        with _collected_at_times():
            return (me == 0 and self.bound is not None and self.enumerate_all()) or self.draw(me, seeds) or None

    def enumerate_all(self) -> tuple[str, str] | None:
        """All schedules within the bound."""
        assert self.bound is not None
        choices = Enumerated(self.bound)
        more = True
        while more:
            if self.exhaustive[0] % BLOCK == 0:
                self.breathe()
            if self.late(self.half):
                self.finished.value = 0
                return None
            choices.begin()
            if failed := self.attempt(choices):
                return failed
            self.exhaustive[0] += 1
            more = choices.advance()
        return None

    def draw(self, me: int, seeds: range) -> tuple[str, str] | None:
        """Schedules by seeds."""
        choices = Seeded()
        for seed in seeds[me :: self.processes]:
            if self.seeded[me] % BLOCK == 0:
                self.breathe()
                if self.late(self.deadline):
                    return None
            self.at[me] = seed
            choices.restart(seed)
            if failed := self.attempt(choices):
                return failed
            self.seeded[me] += 1
        return None

    def attempt(self, choices: Choices) -> tuple[str, str] | None:
        """Run one schedule; its token, and the text with which it fails when it is replayed, if it fails."""
        try:
            run_schedule(self.make_world, self.checks, choices)
            if isinstance(choices, Enumerated):
                choices.end()
            return None
        except Exception:
            first = traceback.format_exc()
        try:
            replay(self.make_world, self.checks, choices.token)
        except Exception as error:
            return choices.token, "".join(traceback.format_exception(error))
        text = "REPLAYED, IT DID NOT FAIL. The program depends on something besides the choices. At first:\n"
        return choices.token, text + first

    def late(self, deadline: float) -> bool:
        return bool(self.stop.value) or time.monotonic() > deadline

    def breathe(self) -> None:
        """Collect garbage, and give the next block its time."""
        gc.collect(1)
        if multiprocessing.parent_process() is not None:
            faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True, file=sys.__stderr__)

    def spread(self, seeds: range) -> tuple[str, str] | None:
        """Work in several processes, until one of them has failed or all are done."""
        results = [_fork.Pipe(duplex=False) for _ in range(self.processes)]
        workers = [_fork.Process(target=self.child, args=(me, seeds, results[me][1])) for me in range(self.processes)]
        sys.stdout.flush()
        sys.stderr.flush()
        for worker in workers:
            worker.start()
        failed = None
        try:
            while failed is None and any(worker.is_alive() for worker in workers):
                failed = self.failure(results, workers)
                time.sleep(LOOK_SECONDS)
            return failed or self.failure(results, workers)
        finally:
            self.stop.value = 1
            for worker in workers:
                worker.join(0 if failed else 10)
                if worker.is_alive():
                    worker.kill()
                    worker.join()

    def failure(self, results: Sequence[Any], workers: Sequence[Any]) -> tuple[str, str] | None:
        """What a process has told, or what has ended one."""
        for me, worker in enumerate(workers):
            if results[me][0].poll():
                return results[me][0].recv()
            if worker.exitcode:
                token = f"s{self.at[me]}" if self.at[me] >= 0 else f"x{self.bound}:"
                where = "this schedule" if self.at[me] >= 0 else "one of those that begin as this schedule"
                return token, f"{where} ended process {me} with {worker.exitcode}; with 1 if it took {STUCK_SECONDS} s"
        return None

    def child(self, me: int, seeds: range, result: Any) -> None:
        """The main function of a process. SIGINT ends it, so that nothing handles that in Python."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        failed = self.run(me, seeds)
        faulthandler.cancel_dump_traceback_later()
        if failed:
            result.send(failed)


@contextlib.contextmanager
def _collected_at_times() -> Iterator[None]:
    """A world's cycles of references are collected when that is asked for."""
    collecting = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if collecting:
            gc.enable()


def explore_case(case: Case, **options: Any) -> Report:
    """Explore a case with its own bound."""
    return explore(case.make_world, case.checks, **{"exhaustive_bound": case.bound, **options})


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: all cases of a module, each for its share of the time."""
    parser = argparse.ArgumentParser(prog="python -m interleavings.explore", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all cases together (60)")
    parser.add_argument("--cases", default="interleavings.cases", help="module with a dict CASES (interleavings.cases)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of these cases")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
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
    for done, name in enumerate(names):
        share = max(0.0, deadline - time.monotonic()) / (len(names) - done)
        try:
            report = explore_case(
                cases[name], seeds=None, seconds=share, first_seed=options.first_seed, processes=options.processes
            )
        except Failure as failure:
            print(f"{name}: {failure}\n\nAgain: --cases {options.cases} --only {name!r} --replay {failure.token}")
            return 1
        print(f"{name}: {report}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
