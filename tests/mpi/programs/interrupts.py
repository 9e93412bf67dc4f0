"""Rank 0 is interrupted in what it waits in; the others come when it has been. Then all goes on, as after communicators were
freed while a transfer is in flight there, or by one rank when the other waits no more.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
import pytest
from launch import limit
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import caches, channel, groups, progress, waiting
from pyscalapack_redist.engine import batch as batches
from pyscalapack_redist.engine import use as uses
from pyscalapack_redist.engine.bound import Lent
from pyscalapack_redist.engine.transfer import Transfer

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
SOON = 0.02  # seconds


class Moves:
    """A plan from rows to columns, used a few times."""

    def __init__(self, n: int = 64, comm: MPI.Intracomm = WORLD, **options: Any) -> None:
        self.a = psr.Descriptor((n, n), 8, psr.ProcessGrid((SIZE, 1), comm))
        self.b = psr.Descriptor((n, n), 8, psr.ProcessGrid((1, SIZE), comm))
        self.plan: Any = psr.redistribute(self.a, self.b, **options)
        self.source, self.wanted = (desc.from_function(lambda i, j: 1000.0 * i + j) for desc in (self.a, self.b))
        self.works()

    def check(self, found: Any) -> None:
        assert np.array_equal(found, self.wanted)

    def works(self) -> None:
        for _ in range(3):
            self.check(self.plan(self.source))


@contextlib.contextmanager
def interrupted() -> Iterator[None]:
    """On rank 0: what is in its body is interrupted soon, and the interrupt comes out at once."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, SOON)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert time.monotonic() - start < limit(2.0)


def in_a_call() -> None:
    """For the others nothing has happened but that it took long; what was interrupted ends."""
    move, out = Moves(), Moves().b.zeros()
    if RANK == 0:
        with interrupted():
            move.plan(move.source, out)
        WORLD.Barrier()
    else:
        WORLD.Barrier()
        move.check(move.plan(move.source, out))
    move.works()
    move.check(out)


def again_at_any_line() -> None:
    """A second interrupt of a call, before any line that this package executes after the first one."""
    move = Moves()
    for late in itertools.count():
        out, lines = move.b.zeros(), 0
        if RANK == 0:
            lines = lines_after_an_interrupt(lambda: move.plan(move.source, out), late)  # noqa: B023 - called here
            WORLD.Barrier()
        else:
            WORLD.Barrier()
            move.plan(move.source, out)
        move.works()
        move.check(out)
        if WORLD.bcast(lines) <= late:
            break
    assert late > 5 or move.plan.plan.group.voting_ring is None, late  # of a compiled call


def lines_after_an_interrupt(call: Callable[[], object], late: int) -> int:
    """How many lines this package executes after an interrupt of a call; with another one after so many."""
    lines, is_over = 0, False

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if is_over or "pyscalapack_redist" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines += 1
            if lines == late + 1:
                os.kill(os.getpid(), signal.SIGALRM)
        return trace

    def interrupt(_: int, frame: FrameType | None) -> None:
        while frame is not None and not lines:
            frame.f_trace, frame = trace, frame.f_back
        sys.settrace(trace)
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, SOON)
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
    finally:
        is_over = True
        sys.settrace(None)
    return lines


def while_planning() -> None:
    """In a vote on a plan that is there. What MPI still writes to is nobody else's then."""
    move = Moves()
    if RANK == 0:
        with interrupted():
            psr.redistribute(move.a, move.b)
        probes = [np.full(n, 12345, np.int64) for n in range(1, 41) for _ in range(50)]
        WORLD.Barrier()
        move.works()
        assert all((probe == 12345).all() for probe in probes), "numbers of other arrays were written by MPI"
    else:
        WORLD.Barrier()
        psr.redistribute(move.a, move.b)
        move.works()


def plans_are_kept_in_one_order() -> None:
    """After an interrupt in an agreement, and the next one whose votes arrive with it, all ranks drop the same plans later."""
    comm = WORLD.Dup()
    grids = [psr.ProcessGrid(shape, comm) for shape in ((SIZE, 1), (1, SIZE))]

    def has_arrived(ranks: Any) -> bool:
        """Whether a vote of the next agreement has."""
        by_messages = len(ranks.voters) == SIZE
        return not by_messages or ranks.channel.comm.Iprobe(MPI.ANY_SOURCE, ranks._notices - 1)

    def agree(n: int) -> Any:
        return psr.redistribute(*(psr.Descriptor((n, 8), 4, grid) for grid in grids)).plan.group

    with mock.patch.object(caches, "MOST_PLANS", 2):
        for _ in range(3):
            agree(8)
            ranks = agree(9)
            if RANK == 0:
                with interrupted():
                    agree(8)
                WORLD.Barrier()
                last = time.monotonic() + limit(1.0)
                ranks.count()  # that alone: nothing follows from it yet
                while not has_arrived(ranks) and time.monotonic() < last:
                    ranks.count()
            else:
                WORLD.Barrier()
                agree(8)
            for n in (9, 10, 8, 9, 10):
                agree(n)
    comm.Free()


def while_batching() -> None:
    """The ranks know one another already, so that a vote that is good seemed to be all."""
    move = Moves()
    back = psr.redistribute(move.b, move.a)
    if RANK == 0:
        with interrupted():
            psr.batch(move.plan, back)
        WORLD.Barrier()
    else:
        WORLD.Barrier()
        with pytest.raises(psr.CollectiveError, match="rank 0 could not take part: KeyboardInterrupt"):
            psr.batch(move.plan, back)
    there, here = psr.batch(move.plan, back)([move.source, move.wanted])
    move.check(there)
    assert np.array_equal(here, move.source)


def before_a_batch_is_agreed() -> None:
    """While a rank looks at its plans, which takes long where there are many."""
    move, check = Moves(), batches._check

    def interrupted_there(*given: Any) -> None:
        check(*given)
        if RANK == 0:
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    with (
        mock.patch.object(batches, "_check", interrupted_there),
        pytest.raises(psr.CollectiveError if RANK else KeyboardInterrupt),
    ):
        psr.batch(move.plan, move.plan)
    for part in psr.batch(move.plan, move.plan)([move.source] * 2):
        move.check(part)


def another_thread_goes_on() -> None:
    """A call in another thread takes part in what is left of an agreement that was interrupted in this one: in its followup."""
    move = Moves()
    if RANK == 0:
        with interrupted():
            psr.batch(move.plan)
        WORLD.Barrier()
        (agreement,) = move.plan.plan.group.interrupted
        while move.plan.plan.group.count(agreement._voting) is None:
            pass
    else:
        WORLD.Barrier()
        with pytest.raises(psr.CollectiveError, match="rank 0 could not take part: KeyboardInterrupt"):
            psr.batch(move.plan)
    thread = threading.Thread(target=move.works)
    thread.start()
    thread.join()
    assert not move.plan.plan.group.interrupted
    move.works()


def tags_come_again() -> None:
    """Those of an interrupted agreement, while its reply is on the way: the transfer that would have them waits."""
    comm, is_interrupted = WORLD.Dup(), RANK == SIZE - 1
    with mock.patch.object(
        channel.MPIChannel, "__init__", functools.partialmethod(few_tags, channel.MPIChannel.__init__)
    ):
        move = Moves(comm=comm)
    ranks, transfers = move.plan.plan.group, []
    assert ranks._most_tickets == 5

    def start(source: Any) -> None:
        transfers.append(move.plan.start(source))

    if is_interrupted:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, SOON)
        with pytest.raises(KeyboardInterrupt):
            psr.batch(move.plan)
        WORLD.Barrier()
        (agreement,) = ranks.interrupted
        while agreement._followup is None:  # then it has sent what it has to
            agreement.advance()
    else:
        WORLD.Barrier()
        with pytest.raises(psr.CollectiveError, match=f"rank {SIZE - 1} could not take part: KeyboardInterrupt"):
            psr.batch(move.plan)
    for k in range(5):
        start(np.zeros((3, 3)) if k == 4 and RANK == 0 else move.source)
    WORLD.Barrier()
    with pytest.raises(psr.RedistributionError, match="3"):
        transfers.pop().wait()
    for transfer in transfers:
        move.check(transfer.wait())
    comm.Free()


def few_tags(made: Any, make: Any, comm: MPI.Intracomm) -> None:
    make(made, comm)
    made.tags = 16


def in_the_first_of_several_votes() -> None:
    """Of a call of a distributed array: it goes into the next vote, so no rank is left alone in the rest of the call."""
    move, voted = Moves(), groups.MPIGroup.cast_vote
    array = psr.DistributedArray(move.a, move.source)

    def interrupted_there(*given: Any) -> Any:
        patched.stop()
        voting = voted(*given)
        os.kill(os.getpid(), signal.SIGINT)
        return voting

    signal.signal(signal.SIGINT, signal.default_int_handler)
    patched = mock.patch.object(groups.MPIGroup, "cast_vote", interrupted_there)
    if RANK == 0:
        patched.start()
    else:
        time.sleep(5 * SOON)
    with (
        mock.patch.object(progress.hold_interrupts, "force"),  # however long it takes
        pytest.raises(psr.CollectiveError if RANK else KeyboardInterrupt),
    ):
        array.redistribute(move.b)
    move.check(array.redistribute(move.b).local)


def as_calls_end() -> None:
    """An alarm at any moment of a call, compiled or by MPI: it comes out when the call is over, or before the vote."""
    move = Moves(1000)
    a, out = move.source, move.b.zeros()
    came = sweeps = 0
    while sweeps < 2 or (WORLD.bcast(came) < 10 and sweeps < 20):  # few come where others use the cores
        sweeps += 1
        seconds = shortest_call(move.plan, a, out)
        for k in range(40):
            move.plan(a, out)  # all are here, and what an interrupt has left under way has ended
            if RANK:
                with contextlib.suppress(psr.CollectiveError):  # where it came before the vote
                    move.plan(a, out)
            else:
                came += came_within(move.plan, a, out, seconds * (k + 1) / 30)
    assert came or RANK, "no interrupt came in a call"
    move.works()


def shortest_call(plan: Any, a: Any, out: Any) -> float:
    """Seconds of the shortest of six calls: one may take a hundred times as long."""
    seconds = math.inf
    for _ in range(6):
        start = time.perf_counter()
        plan(a, out)
        seconds = min(seconds, time.perf_counter() - start)
    return seconds


def came_within(plan: Any, a: Any, out: Any, after: float) -> bool:
    """A call of a plan, and an alarm that raises only in it; whether it did."""

    def raising(number: int, interrupted: FrameType | None) -> None:
        frame: FrameType | None = sys._getframe()  # what was interrupted may have ended, if the interrupt was held back
        while frame is not None and frame.f_code is not type(plan).__call__.__code__:
            frame = frame.f_back
        if frame is not None and "drawn" in frame.f_locals:  # not as it enters the call, which is as before
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, raising)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        plan(a, out)
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return False


def while_messages_are_planned(exchange: str, blocks: int = 20_000) -> None:
    """Before the vote, which then tells the others, or after it, when all ranks keep the plan: long lists of blocks."""
    grid = psr.ProcessGrid((SIZE,), WORLD)
    lengths, ends = np.tile([1, 3], blocks // 2), psr.Descriptor((2 * blocks,), 5, grid)
    seconds = 0.0

    def raising(number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code is not psr.redistribute.__code__:
            frame = frame.f_back
        if frame is not None:  # not as the call has just returned
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, raising)
    for k in range(5):
        owners = np.random.default_rng(k).integers(0, SIZE, blocks)
        begins = psr.Descriptor((2 * blocks,), (psr.Blocks(lengths, owners),), grid)
        WORLD.Barrier()
        start = time.perf_counter()
        if RANK == 0:
            signal.setitimer(signal.ITIMER_REAL, seconds * (k and 0.2 * k + 0.1))
        with contextlib.suppress(KeyboardInterrupt, psr.CollectiveError):
            psr.redistribute(begins, ends, exchange=exchange)
        signal.setitimer(signal.ITIMER_REAL, 0)
        seconds = seconds or WORLD.bcast(time.perf_counter() - start)
        plan = psr.redistribute(begins, ends, exchange=exchange)
        before, after = (desc.from_function(lambda i: 1.0 * i) for desc in (begins, ends))
        assert np.array_equal(plan(before), after)


def while_freeing(number: int) -> None:
    """What was called raises the interrupt after all is freed; no private communicator is kept."""
    move = Moves(600, WORLD.Dup(), memory_limit=2**16)
    comm = move.plan.desc_a.grid.comm
    if RANK:
        WORLD.Barrier()
        comm.Free()
        return

    def interrupt() -> None:
        os.kill(os.getpid(), number)
        WORLD.Barrier()

    signal.signal(number, signal.default_int_handler)
    timer = threading.Timer(SOON, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        comm.Free()
    timer.join()
    assert comm == MPI.COMM_NULL
    assert not groups._never_freed


def in_flight_while_freeing() -> None:
    """What was started on a communicator ends when it is freed, if not before."""
    move = Moves(600, WORLD.Dup(), memory_limit=2**16)
    transfer = move.plan.start(move.source)
    if RANK == 0:
        move.check(transfer.wait())
    move.a.grid.comm.Free()
    move.check(transfer.wait())
    assert not groups._never_freed


def after_the_vote_is_counted() -> None:
    """A call like the last one that is interrupted as its elements move goes on, and what is started next comes after it."""
    for exchange in ("nonblocking", "alltoallv", "ready"):
        left_moving(exchange)


def left_moving(exchange: str) -> None:
    """An interrupted call that waits for long, so a transfer has taken over; it leaves no vote behind when it has ended."""
    comm = WORLD.Dup()
    a, b = (psr.Descriptor((40, 30), 3, psr.ProcessGrid(shape, comm)) for shape in ((SIZE, 1), (1, SIZE)))
    plan = psr.redistribute(a, b, exchange=exchange, dtype=np.float64, memory_limit=2000)
    local, out = a.from_function(lambda i, j: i + 0.5 * j), b.zeros()
    advance, interrupts = Lent.advance, list[int]()

    def is_soon(done: Callable[[], object]) -> bool:
        while done.__name__ == "test" and not done():
            progress.pause()
        return done.__name__ == "test"

    def interrupt(*_: object) -> None:
        interrupts.append(RANK)
        raise KeyboardInterrupt

    for _ in range(3):
        plan(local, out)
    out[...] = 0
    if RANK == 0:
        with (
            pytest.raises(KeyboardInterrupt),
            mock.patch.object(uses, "_is_soon", is_soon),
            mock.patch.object(Lent, "advance", lambda lent, block: bool(interrupts) and advance(lent, block)),
            mock.patch.object(Transfer, "poll", interrupt),
        ):
            plan(local, out)
    else:
        plan(local, out)
    assert len(interrupts) == (RANK == 0)
    following = plan.start(local + 1)
    assert np.array_equal(following.wait(), b.from_function(lambda i, j: i + 0.5 * j + 1))
    group = plan.plan.group
    assert group is not None
    while group.transfers:
        progress.advance_others()
    assert np.array_equal(out, b.from_function(lambda i, j: i + 0.5 * j))
    assert not group.in_flight
    comm.Free()


def by_one_rank_late() -> None:
    """Rank 0 waits no more: it keeps its private communicator, and the next one is freed as usual."""
    comm = Moves(40, WORLD.Dup()).a.grid.comm
    with mock.patch.object(waiting, "SETTLE_SECONDS", 1000.0 if RANK else 0.02):
        if RANK == 0:
            comm.Free()
        WORLD.Barrier()
        if RANK:
            comm.Free()
    Moves(40, WORLD.Dup()).a.grid.comm.Free()
    assert len(groups._never_freed) == (RANK == 0)
    groups._never_freed.clear()


def main() -> None:
    waiting.SETTLE_SECONDS = 1000.0
    calls: list[Callable[[], None]] = [
        in_a_call,
        again_at_any_line,
        while_planning,
        plans_are_kept_in_one_order,
        while_batching,
        before_a_batch_is_agreed,
        in_the_first_of_several_votes,
        another_thread_goes_on,
        tags_come_again,
        as_calls_end,
        lambda: while_messages_are_planned("auto"),
        lambda: while_messages_are_planned("nonblocking"),
        lambda: while_freeing(signal.SIGALRM),
        lambda: while_freeing(signal.SIGINT),
        in_flight_while_freeing,
        after_the_vote_is_counted,
        by_one_rank_late,
    ]
    for call in calls:
        call()
        WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
