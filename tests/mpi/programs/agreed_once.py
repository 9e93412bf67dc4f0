"""Plans with agree="first": later calls need no vote between nodes, and what fails on one rank ends the plan on all."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import groups, progress, series, waiting

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
ALL_APART = len(set(os.environ.get("PYSCALAPACK_REDIST_NODES", "").split(","))) > 1
MOST = 2 * series.PERIOD  # calls after which all know of a failure


class Moves:
    """A plan from rows to columns, or from the first rank to the last."""

    def __init__(self, n: int = 24, comm: MPI.Intracomm = WORLD, one_way: bool = False, **options: Any) -> None:
        grids = [(SIZE, 1), (1, SIZE)]
        first, last = ([[rank]] if one_way else None for rank in (0, SIZE - 1))
        if one_way:
            grids = [(1, 1), (1, 1)]
        self.a = psr.Descriptor((n, n), 4, psr.ProcessGrid(grids[0], comm, ranks=first))
        self.b = psr.Descriptor((n, n), 4, psr.ProcessGrid(grids[1], comm, ranks=last))
        self.plan: Any = psr.redistribute(self.a, self.b, comm=comm, **{"agree": "first", **options})

    def numbers(self, desc: psr.Descriptor, use: int, dtype: Any) -> Any:
        return (
            desc.from_function(lambda i, j: 100.0 * i + j + 7 * use).astype(dtype) if desc.coords is not None else None
        )

    def source(self, use: int, dtype: Any = np.float64) -> Any:
        return self.numbers(self.a, use, dtype)

    def check(self, found: Any, use: int, dtype: Any = np.float64) -> None:
        wanted = self.numbers(self.b, use, dtype)
        assert wanted is None if found is None else np.array_equal(found, wanted) and found.dtype == dtype

    def works(self, calls: int = 4, first: int = 0) -> None:
        for use in range(first, first + calls):
            self.check(self.plan(self.source(use), self.b.empty(np.float64)), use)


def arrays_may_be_others() -> None:
    """In another order, with gaps, left out, on a rank that holds nothing; for as many calls as have several votes."""
    for dtype in (np.float64, np.int16, np.complex128):
        for one_way in (False, True):
            move = Moves(one_way=one_way)
            for use in range(3 * series.PERIOD + 5):
                a, out = move.source(use, dtype), move.b.empty(dtype)
                if use % 5 == 1 and a is not None:
                    a = np.asarray(a, order="C")
                if use % 5 == 2 and a is not None:
                    a = np.repeat(a, 2, axis=1)[:, ::2]
                if use % 5 == 3:
                    out = np.asfortranarray(out)
                move.check(move.plan(a, None if use % 5 == 4 else out), use, dtype)
            assert (move.plan.bounds.series is not None) == ALL_APART
            calls = 3 * series.PERIOD + 4  # since the first
            assert not ALL_APART or move.plan.bounds.series.calls == calls


def several_are_in_flight() -> None:
    move = Moves()
    for count in (1, 5, 40):
        outs = [move.b.empty(np.float64) for _ in range(count)]
        sources = [move.source(use) for use in range(count)]
        transfers = [move.plan.start(a, out) for a, out in zip(sources, outs, strict=True)]
        for transfer in transfers[:: 1 if RANK % 2 else -1]:
            transfer.wait()
        for use, out in enumerate(outs):
            move.check(out, use)


def first_calls_of_several_plans() -> None:
    """Each plan moves its own elements, in whichever order ranks wait for the first calls, and however late a rank is."""
    for count, late in ((2, 0), (2, SIZE - 1), (3, None)):
        moves = [Moves(40) for _ in range(count)]
        outs = [move.b.empty(np.float64) for move in moves]
        transfers = [
            move.plan.start(move.source(100 * k), out) for k, (move, out) in enumerate(zip(moves, outs, strict=True))
        ]
        if late == RANK:
            time.sleep(0.2)
        for transfer in transfers[:: -1 if RANK % 2 else 1]:
            transfer.wait()
        for use in range(MOST):
            for k, (move, out) in enumerate(zip(moves, outs, strict=True)):
                move.check(out, 100 * k + use)
                move.plan(move.source(100 * k + use + 1), out)
        first, second = Moves(40), Moves(40)
        out = first.b.empty(np.float64)
        transfer = first.plan.start(first.source(1), out)
        second.works(1, 2)
        transfer.wait()
        first.check(out, 1)
        second.works(MOST)
        first.works(MOST)


def starts_across_communicators() -> None:
    """Ranks start the first calls of plans on two communicators, and those after them, in different orders."""
    comms = [WORLD.Dup() for _ in range(2)]
    for wrong in (None, 0, 1):  # the plan whose first call is refused
        moves = [Moves(comm=comm) for comm in comms]
        uses = [(k, use) for k in range(2)[:: 1 if RANK == 0 else -1] for use in range(3)]
        transfers = {}
        for k, use in uses:
            is_wrong = (k, use, RANK) == (wrong, 0, SIZE - 1)
            array = np.zeros((1, 1)) if is_wrong and moves[k].a.coords is not None else moves[k].source(use)
            transfers[k, use] = moves[k].plan.start(array, moves[k].b.empty(np.float64))
        for k, use in sorted(transfers, key=lambda each: (each[1], each[0])[:: 1 if RANK == 0 else -1]):
            if (k, use) == (wrong, 0):
                with pytest.raises((psr.ArrayError, psr.CollectiveError), match=r"shape|rank"):
                    transfers[k, use].wait()
            else:
                moves[k].check(transfers[k, use].wait(), use)
    for comm in comms:
        comm.Free()


def other_operations_after_a_queued_start() -> None:
    """On some ranks the second call votes at once, since they know that the first was refused, and on others it is queued."""
    for early in range(SIZE):
        move = Moves()
        first = move.plan.start(np.zeros((1, 1)) if RANK == SIZE - 1 else move.source(0), move.b.empty(np.float64))
        if early == RANK:
            with contextlib.suppress(psr.ArrayError, psr.CollectiveError):
                first.wait()
        second = move.plan.start(move.source(1), move.b.empty(np.float64))
        assert move.plan.plan.group.combine(RANK) == list(range(SIZE))
        move.check(second.wait(), 1)


def queued_before_the_dtype_is_known() -> None:
    """A second call begins after the first, which has bound the dtype: B may be missing, and must not be of another."""
    a = psr.Descriptor((40, 40), (40, 40), psr.ProcessGrid((1, 1), WORLD))
    b = psr.Descriptor((40, 40), (40, 3), psr.ProcessGrid((1, SIZE), WORLD))
    source = a.from_function(lambda i, j: 40.0 * i + j)
    for wrong in (None, np.dtype("S5"), np.dtype(np.complex128)):
        plan = psr.redistribute(a, b, agree="first")
        first = plan.start(source, b.empty(np.float64))
        out = None if wrong is None else b.empty(wrong if RANK == SIZE - 1 else np.float64)
        second = plan.start(source, out)
        assert np.array_equal(first.wait(), b.from_function(lambda i, j: 40.0 * i + j))
        if wrong is None:
            assert np.array_equal(second.wait(), b.from_function(lambda i, j: 40.0 * i + j))
        elif RANK == SIZE - 1:
            with pytest.raises(psr.ArrayError, match="has dtype"):
                second.wait()
        else:
            with contextlib.suppress(psr.CollectiveError):  # it may hear of that in a later call
                second.wait()


def queued_with_an_array_to_consume() -> None:
    """A start of another plan, behind a call that is queued, may consume its array: only it has that."""
    move = Moves(comm=WORLD.Dup())
    consuming = Moves(comm=move.a.comm, agree="always", overwrite=True)
    WORLD.Barrier()
    if RANK:
        time.sleep(0.2)  # the first rank queues what follows
    transfers = [move.plan.start(move.source(use), move.b.empty(np.float64)) for use in range(2)]
    transfers.append(consuming.plan.start(consuming.source(2), None))
    for use, transfer in enumerate(transfers):
        move.check(transfer.wait(), use)


def refused_first_calls() -> None:
    """A first call that is refused, before or after another plan's: the later series are the same on all ranks."""
    for order in (1, -1):
        moves = [Moves(40) for _ in range(2)]
        wrong = np.zeros((3, 3)) if RANK == 0 else moves[0].source(0)
        outs = [move.b.empty(np.float64) for move in moves]
        starts = [(moves[0], wrong, outs[0]), (moves[1], moves[1].source(7), outs[1])][::order]
        transfers = [move.plan.start(a, out) for move, a, out in starts][::order]
        for k in (0, 1) if RANK % 2 else (1, 0):
            if k:
                transfers[1].wait()
            else:
                with pytest.raises(psr.ArrayError if RANK == 0 else psr.CollectiveError):
                    transfers[0].wait()
        moves[1].check(outs[1], 7)
        for move in moves:
            move.works(MOST)


def a_failed_rank_does_something_else() -> None:
    """The others compute for longer than a failed rank waits for them, and call later: they are told all the same."""
    first, second = WORLD.Dup(), WORLD.Dup()
    before, waiting.FAILURE_SECONDS = waiting.FAILURE_SECONDS, 0.1
    move, other = Moves(comm=first, one_way=True), Moves(comm=second)
    move.works(5)
    if RANK == SIZE - 1:
        wait_until, waits = progress.wait_until, []

        def noted(is_over: Callable[[], bool], check: Callable[[], object]) -> None:
            waits.append(is_over())
            wait_until(is_over, check)

        *good, failing = [move.plan.start(move.source(5 + k), move.b.empty(np.float64), alpha=1 + k // 2) for k in range(3)]
        with mock.patch.object(progress, "wait_until", noted), pytest.raises(psr.ArrayError, match="alpha"):
            failing.wait()
        assert waits in ([], [False]), waits  # it waits for them, if there is a series, but not for long
        for k, transfer in enumerate(good):
            move.check(transfer.wait(), 5 + k)  # what the others send
    else:
        time.sleep(0.4)
        with pytest.raises(psr.CollectiveError, match=f"rank {SIZE - 1} failed|cannot be used any more"):
            move.works(MOST + 1, 5)
    other.works(3)  # only now: until then the failed rank waits in it
    first.Free()
    second.Free()
    waiting.FAILURE_SECONDS = before
    assert not groups._never_freed


def calls_are_counted_alike() -> None:
    """Notices of ranks that wait compare the numbers of calls, as soon as all know of a failure."""
    comm = WORLD.Dup()
    move, other = Moves(comm=comm), Moves(comm=comm)
    before, waiting.FAILURE_SECONDS = waiting.FAILURE_SECONDS, 0.0  # no rank waits for the others to end the series
    move.works(4)
    if RANK:
        time.sleep(0.2)
    with pytest.raises(psr.RedistributionError):
        another_factor(move, 4) if RANK == 0 else move.works(MOST, 4)
    count = move.plan.plan.group.call_count
    assert len(set(WORLD.allgather(count))) == 1
    other.works(3)
    assert move.plan.plan.group.call_count == count + 3
    waiting.FAILURE_SECONDS = before
    comm.Free()
    assert not groups._never_freed


def interrupts_while_a_series_ends() -> None:
    """A failed rank takes part in the end of the series whenever it waits; an interrupt in that leaves the ranks usable."""
    comm = WORLD.Dup()
    move, other = Moves(comm=comm, one_way=True), Moves(comm=comm, agree="always")
    move.works(5)
    if RANK == SIZE - 1:
        advance, came = series.Settling._try_to_end, []

        def interrupted_advance(settling: series.Settling) -> bool:
            if progress.current_hold() is None and not came:
                came.append(os.kill(os.getpid(), signal.SIGINT))
                time.sleep(0)  # Python handles it here
            return advance(settling)

        with mock.patch.object(waiting, "FAILURE_SECONDS", 0.1), pytest.raises(psr.ArrayError, match="alpha"):
            another_factor(move, 5)
        with mock.patch.object(series.Settling, "_try_to_end", interrupted_advance):
            tested(other)
        WORLD.Barrier()
    else:
        time.sleep(0.4)
        tested(other)
        WORLD.Barrier()
    other.works(3)
    comm.Free()
    assert not groups._never_freed


def tested(move: Moves) -> None:
    """A use that is polled by the caller: between two polls the package holds no interrupts back."""
    transfer = move.plan.start(move.source(0), move.b.empty(np.float64))
    while not transfer.test():
        time.sleep(0.001)
    move.check(transfer.wait(), 0)


def failing(wrong: Callable[[Moves, int], Any], one_way: bool = False, of: int = 0, call: int = 5) -> None:
    """A call that is wrong on one rank. All fail in that one or a later one, and then at once; another plan works."""
    comm = WORLD.Dup()
    move = Moves(comm=comm, one_way=one_way)
    error, failed = None, 0
    while error is None:
        source = move.source(failed)
        kept = None if source is None else source.copy()
        try:
            if failed == call and of == RANK:
                wrong(move, failed)
            else:
                move.check(move.plan(source, move.b.empty(np.float64)), failed)
            failed += 1
        except psr.RedistributionError as caught:
            error = caught
        assert kept is None or np.array_equal(source, kept)
    assert type(error) is (psr.ArrayError if of == RANK else psr.CollectiveError), error
    assert failed <= call + MOST
    assert of != RANK or failed == call
    assert ALL_APART or failed == call  # they have agreed
    receives = of in [message.peer for message in move.plan.messages["receive"]]
    assert not receives or failed <= call
    WORLD.Barrier()
    with pytest.raises(psr.CollectiveError, match="cannot be used any more"):
        move.plan(move.source(0), move.b.empty(np.float64))
    Moves(comm=comm, one_way=one_way).works(MOST)
    comm.Free()
    assert not groups._never_freed


def another_dtype(move: Moves, use: int) -> None:
    move.plan(move.source(use, np.float32), move.b.empty(np.float32))


def another_factor(move: Moves, use: int) -> None:
    move.plan(move.source(use), move.b.empty(np.float64), alpha=2)


def another_shape(move: Moves, use: int) -> None:
    move.plan(np.zeros((3, 3)), move.b.empty(np.float64))


def the_last_call_fails() -> None:
    """The others may call no more, and communicators are freed all the same."""
    for one_way in (False, True):
        comm = WORLD.Dup()
        move = Moves(comm=comm, one_way=one_way)
        move.works(5)
        try:
            if RANK == SIZE - 1:
                another_factor(move, 5)
            else:
                move.works(1)
        except psr.RedistributionError:
            assert RANK == SIZE - 1 or not one_way or not ALL_APART
        comm.Free()
        assert not groups._never_freed


def good_calls_before_an_error() -> None:
    """What a rank has in flight when it fails in a later call ends well, on that rank too."""
    for of in range(SIZE):
        move = Moves()
        move.works(1)
        transfers = [move.plan.start(move.source(use), move.b.empty(np.float64)) for use in range(5)]
        failing = move.plan.start(np.zeros((1, 1)) if of == RANK else move.source(5), move.b.empty(np.float64))
        for use, transfer in enumerate(transfers):
            move.check(transfer.wait(), use)
        with pytest.raises(psr.ArrayError if of == RANK else psr.CollectiveError):
            failing.wait()


def errors_before_the_first() -> None:
    """The first call is agreed on, and binds nothing where it fails."""
    move = Moves()
    for _ in range(2):
        source = np.zeros((3, 3)) if RANK == 0 else move.source(0)
        with pytest.raises(psr.ArrayError if RANK == 0 else psr.CollectiveError):
            move.plan(source, move.b.empty(np.float64))
    move.works()


def arguments() -> None:
    a, b = Moves().a, Moves().b
    for option in ({"exchange": name} for name in ("alltoallv", "alltoallw", "ready", "bruck")):
        with pytest.raises(psr.ScheduleError, match="'nonblocking'"):
            psr.redistribute(a, b, agree="first", **option)
    with pytest.raises(psr.ScheduleError, match="buffers='packed'"):
        psr.redistribute(a, b, agree="first", buffers="datatypes")
    with pytest.raises(psr.ScheduleError, match="always"):
        psr.redistribute(a, b, agree="never")
    if SIZE > 1:
        with pytest.raises(psr.CollectiveError, match="agree='first'"):
            psr.redistribute(a, b, agree="first" if RANK else "always")
    for exchange in ("shared", "node-packed", "nonblocking", "windowed", "sendrecv", "synchronized"):
        Moves(exchange=exchange).works(MOST)
    Moves(memory_limit=300).works()  # too little for messages to go at once: each call votes
    Moves(via="dimensions").works()
    assert Moves().plan is not psr.redistribute(a, b, agree="first")


def main() -> None:
    arguments()
    arrays_may_be_others()
    several_are_in_flight()
    first_calls_of_several_plans()
    starts_across_communicators()
    other_operations_after_a_queued_start()
    queued_before_the_dtype_is_known()
    queued_with_an_array_to_consume()
    refused_first_calls()
    if ALL_APART:
        a_failed_rank_does_something_else()
        interrupts_while_a_series_ends()
        calls_are_counted_alike()
    errors_before_the_first()
    good_calls_before_an_error()
    for of in range(SIZE):
        for one_way in (False, True):
            failing(another_factor, one_way, of)
    for wrong in (another_dtype, another_shape):
        failing(wrong, call=series.PERIOD)
    the_last_call_fails()
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
