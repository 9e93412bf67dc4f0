"""One rank comes late: one of those that wait says so, once, and then all goes on; what they have told one another is no
message of a later communicator. Nobody sleeps: the late rank comes when another has said so. Four ranks.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import threading
import time
import warnings
from collections.abc import Collection, Iterator
from typing import Any
from unittest import mock

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import waiting
from pyscalapack_redist.engine import build as building

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
SAID = 77  # a tag
TICK = 0.01
report = waiting._report
said: list[str] = []


class Clock:
    """Stands for `time`: a tick passes when all of these ranks have asked for the time again."""

    def __init__(self, ranks: Collection[int]) -> None:
        self.asked, self.ticks, self._begin = RANK in ranks, 0, time.monotonic()
        self._comm, self._round = WORLD.Split(self.asked), MPI.REQUEST_NULL
        self._started = 0

    def monotonic(self) -> float:
        if self.asked and self._round.Test():
            self.ticks = self._started
            self._begin_round()
        return self._begin + TICK * self.ticks

    def wait_until(self, ticks: int) -> None:
        while self.ticks < ticks:
            self.monotonic()

    def _begin_round(self) -> None:
        self._round, self._started = self._comm.Ibarrier(), self._started + 1

    def end(self) -> None:
        """All ranks join the round that some have begun."""
        last = WORLD.allreduce(self._started, MPI.MAX)
        self._round.Wait()
        if self.asked and self._started < last:
            self._begin_round()
            self._round.Wait()
        self._comm.Free()


@contextlib.contextmanager
def heard(late: tuple[int, ...], **changed: Any) -> Iterator[Clock]:
    """Keep what would be on standard error, and let the late ranks come. The others' time passes together."""
    said.clear()
    clock = Clock([rank for rank in range(SIZE) if rank not in late])

    def tell(name: str, seconds: float, text: str) -> None:
        output = io.StringIO()
        with contextlib.redirect_stderr(output):
            report(name, seconds, text)
        said.append(output.getvalue())
        for rank in late:
            WORLD.send(None, rank, SAID)

    changed = {"CHECK_SECONDS": TICK / 2, "ANSWER_SECONDS": 20 * TICK, "_report": tell, "time": clock, **changed}
    with contextlib.ExitStack() as patches:
        for name, value in changed.items():
            patches.enter_context(mock.patch.object(waiting, name, value))
        yield clock
        clock.end()


def layouts(comm: MPI.Intracomm) -> tuple[psr.Descriptor, psr.Descriptor]:
    grids = psr.ProcessGrid((SIZE, 1), comm), psr.ProcessGrid((1, SIZE), comm)
    return psr.Descriptor((40, 30), (4, 4), grids[0]), psr.Descriptor((40, 30), (9, 5), grids[1])


def use(plan: Any) -> None:
    a, wanted = (desc.from_function(lambda i, j: 100.0 * i + j) for desc in (plan.desc_a, plan.desc_b))
    assert np.array_equal(plan(a), wanted)


def plan_on(nodes: str) -> tuple[MPI.Intracomm, Any]:
    """A plan that has been used on a new communicator, whose ranks have a short timeout from now on."""
    os.environ["PYSCALAPACK_REDIST_NODES"] = nodes
    comm = WORLD.Dup()
    plan: Any = psr.redistribute(*layouts(comm))
    use(plan)
    use(plan)
    plan.plan.group._waiting._timeout = 20 * TICK
    WORLD.Barrier()
    return comm, plan


def late_to_a_call(nodes: str, late: tuple[int, ...], speaker: int, behind: int | None = None, **changed: Any) -> None:
    """One that comes `behind` the others has waited too shortly to speak up, and is not missing."""
    comm, plan = plan_on(nodes)
    with heard(late, **changed) as clock:
        if RANK in late:
            WORLD.recv(source=speaker, tag=SAID)
        if behind == RANK:
            clock.wait_until(15)
        use(plan)
    comm.Free()
    assert len(said) == (speaker == RANK), (RANK, said)
    for text in said:
        assert text.startswith(f"pyscalapack_redist: rank {speaker} has waited for 0.2 s in call "), text
        assert (
            f"Redistribution(Descriptor(40 x 30, blocks 4 x 4, ProcessGrid({SIZE} x 1, ranks 0 to 3)) -> Desc" in text
        )
        missing, has = ", ".join(f"rank {rank}" for rank in late), "has" if len(late) == 1 else "have"
        assert f": {missing} {has} not called it. Look for a rank that has raised an exception" in text, text
        assert text.endswith("(PYSCALAPACK_REDIST_PATIENCE=0 turns this message off.)\n")


class Told:
    """Stands for `Timer`: the late rank is told at once what would be said later, and that it would not."""

    late: int

    def __init__(self, _: float, report: Any, given: tuple[str, float, str]) -> None:
        self._text, number = re.subn(r" at patience\.py:\d+:", ":", given[2])
        assert number == 1, given

    def start(self) -> None:
        WORLD.send((RANK, self._text), self.late, SAID)

    def cancel(self) -> None:
        WORLD.send((RANK, None), self.late, SAID)


def late_to_the_first_call(late: tuple[int, ...], absent: dict[int, str]) -> None:
    """Those that wait in MPI name it, or some that it is among; no other rank would say anything."""
    comm, texts, end = WORLD.Dup(), {}, time.monotonic() + 60
    first = "in the first call that is collective over rank 0, rank 1, rank 2, rank 3, redistribute(): "
    wanted = {
        rank: f"{first}{text} called it{'' if 'together' in text else ', and perhaps others'}"
        for rank, text in absent.items()
    }
    Told.late = late[0]
    with contextlib.nullcontext() if RANK in late else mock.patch.object(waiting, "Timer", Told):
        while late[0] == RANK and texts != wanted:
            if WORLD.iprobe(tag=SAID):
                rank, text = WORLD.recv(tag=SAID)
                texts = {**texts, rank: text} if text else {other: texts[other] for other in texts if other != rank}
            assert time.monotonic() < end, (texts, wanted)
        if RANK in late:
            both = comm.Create_group(comm.Get_group().Incl(late))
            both.Barrier()
            both.Free()
        use(psr.redistribute(*layouts(comm)))
    WORLD.Barrier()
    while WORLD.iprobe(tag=SAID):
        WORLD.recv(tag=SAID)
    comm.Free()


def reported_in_time() -> None:
    came = threading.Event()
    with (
        mock.patch.dict(os.environ, {"PYSCALAPACK_REDIST_PATIENCE": "0.001"}),
        mock.patch.object(waiting, "_report", side_effect=lambda *_: came.set()),
        waiting.WaitInMPI("rank 0", "rank 0, rank 1").reported(),
    ):
        assert came.wait(100)


def at_work() -> None:
    """Rank 0 searches a schedule in a call that all have made, for longer than the timeout: nobody says that it is missing."""
    _, plan = plan_on("0,0,0,0")
    search_steps, check_others, is_told = building.search_steps, waiting.Waiting._check_others, False

    def slow(*given: Any) -> Any:
        WORLD.recv(source=1, tag=SAID)
        return search_steps(*given)

    def check(self: waiting.Waiting) -> bool:
        nonlocal is_told
        if RANK == 1 and clock.ticks > 60 and not is_told:
            WORLD.send(None, 0, SAID)
            is_told = True
        return check_others(self)

    with (
        heard((0,)) as clock,
        mock.patch.object(building, "search_steps", slow),
        mock.patch.object(waiting.Waiting, "_check_others", check),
    ):
        assert psr.redistribute(plan.desc_a, plan.desc_b, schedule="stepwise").schedule.name == "stepwise"
    assert not said


def endless() -> None:
    """With a timeout of 0 no rank reports."""
    comm, plan = plan_on("0,0,0,0")
    plan.plan.group._waiting._timeout = 0
    with heard(()) as clock:
        if RANK == 2:
            clock.wait_until(60)
        use(plan)
    assert not said
    comm.Free()


def main() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        os.environ["PYSCALAPACK_REDIST_PATIENCE"] = "2 min"
        assert waiting.read_timeout() == 30
    os.environ["PYSCALAPACK_REDIST_PATIENCE"] = "1e9"
    (warning,) = told
    words = "PYSCALAPACK_REDIST_PATIENCE='2 min' must be a number of seconds, 0 for no message"
    assert words in str(warning.message)
    for nodes in "0,0,0,0", "0,0,1,1", "0,1,2,3":
        late_to_a_call(nodes, (0,), 1)
        late_to_a_call(nodes, (2,), 0, behind=1)
    late_to_a_call("0,1,2,3", (1,), 0, WATCHERS=2)  # only the lowest two ask all others
    late_to_a_call("0,1,2,2", (0, 1), 2, WATCHERS=2)
    together = "it waits for rank {} together, and at least one of these has not"
    late_to_the_first_call((1,), {0: "rank 1 has not", 2: together.format("0, rank 1")})
    late_to_the_first_call((0,), {1: "rank 0 has not", 2: together.format("0, rank 1")})
    late_to_the_first_call((3,), {2: "rank 3 has not", 0: together.format("2, rank 3")})
    late_to_the_first_call((2, 3), {0: together.format("2, rank 3")})
    reported_in_time()
    at_work()
    endless()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
