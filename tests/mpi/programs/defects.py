"""Small programs that once gave wrong elements, hung, or lost a communicator without need. Argument: a name in DEFECTS;
one has more.

Wherever an error is made on one rank, the plan is called once more afterwards: plan and communicator must be usable. Rank 0
prints OK; where a rank is killed, each of the others does.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
import pytest
from launch import limit
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

import pyscalapack_redist as psr
from pyscalapack_redist.engine import batch as batches
from pyscalapack_redist.engine import states
from pyscalapack_redist.engine.fast_path import Remembered

N = 64
UNTOUCHED = -1.0
SOON = limit(10.0)  # seconds in which a death is noticed


# -- layouts, and arrays whose elements say where they belong


def on_rank(comm: MPI.Intracomm, rank: int, n: int = N, block: int = 8) -> psr.Descriptor:
    return psr.Descriptor((n, n), (block, block), psr.ProcessGrid((1, 1), comm, ranks=[[rank]]))


def by_rows(comm: MPI.Intracomm, n: int = N, block: int = 8, ranks: Sequence[int] | None = None) -> psr.Descriptor:
    places = np.arange(comm.Get_size()) if ranks is None else np.array(ranks)
    return psr.Descriptor((n, n), (block, block), psr.ProcessGrid((len(places), 1), comm, ranks=places[:, None]))


def by_columns(comm: MPI.Intracomm, n: int = N, block: int = 8, ranks: Sequence[int] | None = None) -> psr.Descriptor:
    places = np.arange(comm.Get_size()) if ranks is None else np.array(ranks)
    return psr.Descriptor((n, n), (block, block), psr.ProcessGrid((1, len(places)), comm, ranks=places[None, :]))


def numbered(
    desc: psr.Descriptor, dtype: DTypeLike = np.float64, salt: int = 0, order: str = "F"
) -> NDArray[Any] | None:
    """This rank's local array of an array that is the same for all layouts; None outside the grid."""
    if desc.coords is None:
        return None
    kind = np.dtype(dtype)
    if kind.kind != "V":
        weights = [int(np.prod(desc.shape[k + 1 :])) for k in range(desc.ndim)]
        made = desc.from_function(
            lambda *index: (10_000 * salt + sum(w * i for w, i in zip(weights, index, strict=True))) % 2**24, np.int64
        )
        return np.array(made.astype(kind), order=order)  # type: ignore[call-overload,no-any-return]
    local: NDArray[Any] = np.empty(desc.local_shape, kind, order=order)  # type: ignore[call-overload]
    whole = [desc.global_indices(k) for k in range(desc.ndim)]
    for place in np.ndindex(local.shape):
        seed = [salt, *(int(move[k]) for move, k in zip(whole, place, strict=True))]
        local[place] = np.frombuffer(np.random.default_rng(seed).bytes(kind.itemsize), kind)[0]
    return local


def blank(desc: psr.Descriptor, dtype: DTypeLike = np.float64, order: str = "F") -> NDArray[Any] | None:
    """A local array that nothing has come to yet; None outside the grid."""
    if desc.coords is None:
        return None
    made: NDArray[Any] = np.zeros(desc.local_shape, dtype, order=order)  # type: ignore[call-overload]
    if made.dtype.kind != "V":
        made[...] = np.array(UNTOUCHED).astype(dtype)
    return made


def untouched(out: NDArray[Any] | None) -> bool:
    return out is None or bool((out == UNTOUCHED).all())


def same(found: NDArray[Any] | None, wanted: NDArray[Any] | None, what: object = "") -> None:
    """Raise if elements are wrong, and say how many."""
    if wanted is None:
        assert found is None, f"{what}: an array outside the grid"
        return
    assert found is not None, f"{what}: no array"
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), what
    if found.dtype.kind == "V":
        wrong = sum(a.tobytes() != b.tobytes() for a, b in zip(found.ravel(), wanted.ravel(), strict=True))
    else:
        wrong = int((found != wanted).sum())
    assert not wrong, f"{what}: {wrong} of {wanted.size} elements are wrong"


class Move:
    """A plan, with arrays for it."""

    def __init__(self, a: psr.Descriptor, b: psr.Descriptor, kind: DTypeLike = np.float64, **options: Any) -> None:
        self.a, self.b, self.kind = a, b, np.dtype(kind)
        self.plan: Any = psr.redistribute(a, b, **options)

    def source(self, salt: int = 0, order: str = "F") -> NDArray[Any] | None:
        return numbered(self.a, self.kind, salt, order)

    def out(self, order: str = "F") -> NDArray[Any] | None:
        return blank(self.b, self.kind, order)

    def check(self, found: NDArray[Any] | None, salt: int = 0, what: object = "") -> None:
        same(found, numbered(self.b, self.kind, salt), what)

    def works(self, times: int = 3) -> None:
        """Call the plan, with `out`, and see what comes."""
        for salt in range(1, 1 + times):
            self.check(self.plan(self.source(salt), self.out()), salt, "afterwards")


def turned(comm: MPI.Intracomm, n: int = N, **options: Any) -> Move:
    """From rows to columns over all ranks: every rank has something for every other."""
    return Move(by_rows(comm, n), by_columns(comm, n), **options)


# -- what goes wrong, and what is to come of it


@contextlib.contextmanager
def raises_on(rank: int, *errors: type[BaseException], comm: MPI.Intracomm = MPI.COMM_WORLD) -> Iterator[None]:
    """One of these errors on one rank, a CollectiveError on the others."""
    with pytest.raises(errors if comm.Get_rank() == rank else psr.CollectiveError):
        yield


def outcome_of(comm: MPI.Intracomm, call: Callable[[], None]) -> psr.RedistributionError | None:
    """What this rank's call raises. All raise, or none does."""
    found = None
    try:
        call()
    except psr.RedistributionError as error:
        found = error
    told = comm.allgather(None if found is None else repr(found))
    assert all(told) or not any(told), told
    return found


class Allocation:
    """Making arrays by descriptors, and what goes wrong with that on this rank."""

    fails: type[BaseException] | None = None

    @classmethod
    def watch(cls) -> None:
        """From now on `fails` counts; before the first plan, for plans may keep the method."""

        def guarded(make: Any) -> Callable[..., Any]:
            @functools.wraps(make)
            def method(desc: psr.Descriptor, *args: Any, **options: Any) -> Any:
                if cls.fails is not None:
                    raise cls.fails("for this test")
                return make(desc, *args, **options)

            return method

        for name in ("empty", "zeros"):
            setattr(psr.Descriptor, name, guarded(getattr(psr.Descriptor, name)))

    @classmethod
    @contextlib.contextmanager
    def failing(cls, here: bool, error: type[BaseException] = MemoryError) -> Iterator[None]:
        cls.fails = error if here else None
        try:
            yield
        finally:
            cls.fails = None


@contextlib.contextmanager
def interrupted(after: float, surely: bool = True) -> Iterator[None]:
    """KeyboardInterrupt after some seconds, which must come out at once; without `surely`, what it is in may end before."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        assert time.monotonic() - start < after + limit(2.0), "the interrupt took long to come out"
    else:
        assert not surely, "no interrupt came out"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def no_file_can_be_opened() -> Iterator[None]:
    """All file descriptors up to the limit are taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 3, hard))
    files = []
    try:
        with contextlib.suppress(OSError):
            while True:
                files.append(os.open("/dev/null", os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for file in files:
            os.close(file)


@contextlib.contextmanager
def stopped(pid: int, seconds: float) -> Iterator[None]:
    """Another rank does nothing for a while."""
    os.kill(pid, signal.SIGSTOP)
    timer = threading.Timer(seconds, os.kill, (pid, signal.SIGCONT))
    timer.start()
    yield
    timer.join()


def test_until_done(transfer: Any) -> None:
    while not transfer.test():
        time.sleep(0.001)


def die() -> None:
    time.sleep(0.3)  # what MPI has to tell the others of a barrier is told
    os.kill(os.getpid(), signal.SIGKILL)


def survived() -> None:
    """End without MPI, which would wait for the dead."""
    print("OK\n", end="", flush=True)
    os._exit(0)


class Tensor:
    """An array of another library: it has a shape and a dtype, but not NumPy's."""

    dtype = "float64 of somebody else"

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.size = shape, int(np.prod(shape))


class Nothing:
    """Of no elements, and nothing else is known of it."""

    size = 0


# -- 1 to 3: who packs in which order


def order_that_only_one_rank_knows(comm: MPI.Intracomm) -> None:
    """Rank 0 has seen arrays by rows; rank 1, whose plan was told a dtype, expects them by columns, and is the faster one."""
    me = comm.Get_rank()
    pids = comm.allgather(os.getpid())
    move = Move(on_rank(comm, 0), on_rank(comm, 1))
    for salt in (1, 2, 3):
        move.check(move.plan(move.source(salt, "C"), move.out("C")), salt, "by rows")
    other = psr.redistribute(move.a, move.b, dtype=move.kind if me == 1 else None)
    comm.Barrier()
    a = move.source(4, "C")
    if me == 1:
        time.sleep(0.3)  # rank 0 has packed
        with stopped(pids[0], 0.3):
            move.check(other(), 4, "without out")
    else:
        move.check(other(a), 4)
    for salt in (5, 6, 7):
        move.check(other(move.source(salt, "C")), salt, "without out")
    move.works()


def one_rank_short_one_long(comm: MPI.Intracomm) -> None:
    """By messages that are kept ready: ranks whose plans have seen other arrays do not agree on what is usual."""
    me = comm.Get_rank()
    move = Move(on_rank(comm, 0), on_rank(comm, 1), exchange="nonblocking")
    for salt in (1, 2, 3):
        move.check(move.plan(move.source(salt, "C"), move.out("C")), salt, "by rows")
    other = psr.redistribute(move.a, move.b, dtype=move.kind if me == 1 else None, exchange="nonblocking")
    for salt in (4, 5, 6):
        move.check(other(move.source(salt, "C")), salt, "without out")
    for salt in (7, 8, 9):
        move.check(move.plan(move.source(salt, "C"), move.out("C")), salt, "by rows again")
    move.works()


def waited_for_in_another_order(comm: MPI.Intracomm) -> None:
    """Ten transfers of one plan, the last of them by columns on one rank only."""
    me = comm.Get_rank()
    move = turned(comm)
    started = []
    if me == 1:
        comm.Barrier()  # no vote is complete before rank 0 waits
    for k in range(10):
        order = "F" if me == 1 and k == 9 else "C"
        a, out = move.source(k, order), move.out(order)
        started.append((move.plan.start(a, out), a, out))
    if me == 0:
        comm.Barrier()
    for k in [8, *range(8), 9] if me == 0 else range(10):
        move.check(started[k][0].wait(), k, f"transfer {k}")
    move.works()


def ten_plans_waited_for_in_another_order(comm: MPI.Intracomm) -> None:
    me = comm.Get_rank()
    moves = [Move(by_rows(comm, block=k), by_columns(comm, block=k)) for k in range(1, 11)]
    if me == 1:
        comm.Barrier()
    started = [(move.plan.start(move.source(k), move.out()), move) for k, move in enumerate(moves)]
    if me == 0:
        comm.Barrier()
    for k in [8, *range(8), 9] if me == 0 else range(10):
        started[k][1].check(started[k][0].wait(), k, f"transfer {k}")
    moves[0].works()


# -- 4: a rank is killed


def killed_while_others_test(comm: MPI.Intracomm) -> None:
    move = turned(comm)
    move.works()
    comm.Barrier()
    if comm.Get_rank() == comm.Get_size() - 1:
        die()
    began = time.monotonic()
    transfer = move.plan.start(move.source())
    with pytest.raises(psr.CollectiveError):
        test_until_done(transfer)
    assert time.monotonic() - began < SOON
    survived()


def killed_while_others_test_in_the_middle(comm: MPI.Intracomm) -> None:
    move = turned(comm, 600, memory_limit=2**16)
    move.works(1)
    comm.Barrier()
    transfer = move.plan.start(move.source())
    if comm.Get_rank() == comm.Get_size() - 1:
        transfer.test()
        die()
    with pytest.raises(psr.CollectiveError):
        test_until_done(transfer)
    survived()


def killed_while_two_are_in_flight(comm: MPI.Intracomm) -> None:
    move = turned(comm)
    move.works()
    comm.Barrier()
    if comm.Get_rank() == comm.Get_size() - 1:
        die()
    began = time.monotonic()
    started = [move.plan.start(move.source(k)) for k in range(2)]
    for transfer in started:
        with pytest.raises(psr.CollectiveError):
            transfer.wait()
    assert time.monotonic() - began < SOON
    survived()


def killed_while_a_batch_is_tested(comm: MPI.Intracomm) -> None:
    move = turned(comm)
    both = psr.batch(move.plan, move.plan)
    for _ in range(3):
        both([move.source(), move.source()])
    comm.Barrier()
    if comm.Get_rank() == comm.Get_size() - 1:
        die()
    transfer = both.start([move.source(), move.source()])
    with pytest.raises(psr.CollectiveError):
        test_until_done(transfer)
    survived()


def job_killed_while_the_other_tests(comm: MPI.Intracomm) -> None:
    """Two more arguments: accept:PATH or connect:PATH, and an exchange. The job that accepts is killed."""
    role, path = sys.argv[2].split(":")
    other = (psr.accept if role == "accept" else psr.connect)(path, comm, timeout=10)
    desc = by_rows(comm, 300)
    pair = (desc, None) if role == "accept" else (None, desc)
    plan = psr.redistribute(*pair, comm=other, exchange=sys.argv[3])
    arrays = (numbered(desc), None) if role == "accept" else (None, blank(desc))
    for _ in range(2):
        plan(*arrays)
    if role == "accept":
        die()
    transfer = plan.start(*arrays)
    with pytest.raises(psr.CollectiveError):
        test_until_done(transfer)
    survived()


# -- 5 and 6: an error on one rank that is none of the package's, before anything has moved


def no_memory_for_a_new_array(comm: MPI.Intracomm, exchange: str) -> None:
    Allocation.watch()
    move = turned(comm, dtype=np.float64, exchange=exchange)
    for salt in range(4):
        move.check(move.plan(move.source(salt)), salt, "before")
    a = move.source(9)
    with Allocation.failing(comm.Get_rank() == 1), raises_on(1, MemoryError):
        move.plan(a)
    for salt in range(4):
        move.check(move.plan(move.source(salt)), salt, "afterwards")
    move.works()


def no_memory_for_new_arrays_of_a_batch(comm: MPI.Intracomm) -> None:
    Allocation.watch()
    move = turned(comm, dtype=np.float64)
    both = psr.batch(move.plan, move.plan)

    def works() -> None:
        for salt in range(4):
            for k, found in enumerate(both([move.source(salt), move.source(salt + 1)])):
                move.check(found, salt + k)

    works()
    arrays = [move.source(), move.source()]
    with Allocation.failing(comm.Get_rank() == 1), raises_on(1, MemoryError):
        both(arrays)
    works()
    move.works()


def no_memory_in_the_first_call(comm: MPI.Intracomm) -> None:
    Allocation.watch()
    move = turned(comm, dtype=np.float64)
    a = move.source()
    with Allocation.failing(comm.Get_rank() == 1), raises_on(1, MemoryError):
        move.plan(a)
    move.check(move.plan(a))
    move.works()


def no_memory_to_go_on_after_a_vote(comm: MPI.Intracomm) -> None:
    """Rank 1 has another dtype, which the vote of a first call tells; rank 0 has no memory for what follows such a vote."""
    lost = comm.Dup()
    move = turned(lost)
    kind = np.float32 if comm.Get_rank() == 1 else np.float64
    a, out = numbered(move.a, kind), blank(move.b, kind)
    failing = mock.patch.object(Remembered, "binding", side_effect=MemoryError("nothing left"))
    with failing if comm.Get_rank() == 0 else contextlib.nullcontext(), raises_on(0, MemoryError):
        move.plan(a, out)
    assert untouched(out)
    with pytest.raises(psr.CollectiveError, match="use another communicator"):
        move.plan(move.source(), move.out())
    turned(comm).works()


def factor_that_no_float_holds(comm: MPI.Intracomm) -> None:
    me = comm.Get_rank()
    move = turned(comm)
    move.works(1)
    out = move.out()
    with raises_on(1, OverflowError, psr.ArrayError):
        move.plan(move.source(), out, alpha=10**400 if me == 1 else 2)
    assert untouched(out)
    move.works()
    both = psr.batch(move.plan, move.plan)
    outs = [move.out(), move.out()]
    with raises_on(1, OverflowError, psr.ArrayError):
        both([move.source(), move.source()], outs, alpha=10**400 if me == 1 else 2)
    assert all(untouched(each) for each in outs)
    for k, found in enumerate(both([move.source(1), move.source(2)])):
        move.check(found, 1 + k)


def datatypes_in_either_order(comm: MPI.Intracomm) -> None:
    """Rank 0 has A now by rows, now by columns, and the others by rows: a run may begin in one order and go in the other."""
    for exchange in "nonblocking", "windowed", "synchronized", "sendrecv", "ready", "alltoallw":
        move = turned(comm, exchange=exchange, buffers="datatypes")
        for salt, order in enumerate("CFCFCF"):
            source = move.source(salt, order if comm.Get_rank() == 0 else "C")
            move.check(move.plan(source, move.out()), salt, f"{exchange}, {order}")


def factors_with_signs_of_zeros(comm: MPI.Intracomm) -> None:
    """Equal factors on all ranks, one of which has an array of another kind than before."""
    d, e = by_rows(comm), by_columns(comm)
    plan = psr.redistribute(d, e)
    for first, second in ((2 + 0j, 2 - 0j), (0.0, -0.0), (-0.0, 0)):
        for factor, order in ((first, "F"), (first, "F"), (second, "C" if comm.Get_rank() else "F")):
            a = np.array(d.from_function(lambda i, j: i + 1j * j), order=order)
            wanted = e.from_function(lambda i, j, factor=factor: factor.real * (i + 1j * j))
            assert np.array_equal(plan(a, alpha=factor), wanted), (factor, order)
    mixed = -0.0 if comm.Get_rank() else 0.0
    assert not plan(a, alpha=mixed).any()
    with pytest.raises(psr.ArrayError, match="alpha is beyond the numbers of float64"):
        plan(a, alpha=10**400)


def tiles_and_copies_that_no_rank_knows_both(comm: MPI.Intracomm) -> None:
    rank, others = comm.Get_rank(), np.arange(1, comm.Get_size())
    tiles, copies = psr.Tiles([0, 4], [0, 3, 6], [[0, 0]], comm), psr.ProcessGrid(others.shape, comm, ranks=others)
    desc = psr.Descriptor((4, 6), 2, copies, axes=(None, None))
    for schedule in "auto", "natural", "optimal":
        for mine in ((tiles, None) if rank == 0 else (None, desc)), ((None, tiles) if rank == 0 else (desc, None)):
            with pytest.raises(psr.RedistributionError, match="has copies, to and from which tiles are not moved"):
                psr.redistribute(*mine, comm=comm, dtype=float, schedule=schedule)
    turned(comm).works()


def conversations_that_fail(comm: MPI.Intracomm) -> None:
    """A rank has no memory to tell the others something, or the first one to answer them: all raise, and can go on."""
    me, last = comm.Get_rank(), comm.Get_size() - 1
    move = turned(comm)
    group = move.plan._group
    assert group is not None
    none_left = MemoryError("none left")

    class Large:
        def __reduce__(self) -> tuple[Any, ...]:
            raise none_left

    def answer(told: list[Any]) -> Any:
        raise none_left

    answers = [(0, lambda: group.combine(me, answer)), (0, lambda: group.combine(me, lambda told: Large()))]
    for bad, ask in [
        *((rank, lambda rank=rank: group.combine(Large() if me == rank else 0)) for rank in (0, last)),
        *answers,
    ]:
        with pytest.raises(MemoryError if me == bad else psr.CollectiveError, match="none left"):
            ask()
        assert group.combine(me) == list(range(last + 1))
    far = Move(on_rank(comm, 0), on_rank(comm, 0))
    both = psr.batch(move.plan, psr.redistribute(far.a, far.b, comm=comm))
    failing = mock.patch.object(states, "dtype_digest", side_effect=none_left)
    sources = [move.source(), far.source()]
    outs = [move.out(), far.out()]
    with failing if me == 0 else contextlib.nullcontext(), raises_on(0, MemoryError):
        both(sources, outs)
    assert all(untouched(out) for out in outs if out is not None)
    for found, part in zip(both(sources, outs), (move, far), strict=True):
        part.check(found)
    lost = turned(comm.Dup())  # the first rank cannot say why nothing may move, nor what is to be received
    failing = mock.patch("pyscalapack_redist.comm.group.verdict", side_effect=none_left)
    with failing if me == 0 else contextlib.nullcontext(), pytest.raises((psr.ArrayError, psr.CollectiveError)):
        lost.plan(lost.source(), 3 if me == last else lost.out())
    with pytest.raises(psr.CollectiveError, match=r"cannot redistribute any more.*use another communicator"):
        lost.plan(lost.source(), lost.out())
    move.works()


# -- 7: elements larger than a rank's share of the memory for messages


def large_elements(comm: MPI.Intracomm) -> None:
    size = comm.Get_size()
    kind = np.dtype([("bytes", "u1", ({2: 3_000_000, 4: 800_000}[size],))])
    move = Move(by_rows(comm, size, 1), by_columns(comm, size, 1), kind)
    move.works(2)


def large_elements_in_a_batch(comm: MPI.Intracomm) -> None:
    kind = np.dtype([("bytes", "u1", (3_000_000,))])
    move = Move(by_rows(comm, 2, 1), by_columns(comm, 2, 1), kind)
    small = turned(comm)
    found = psr.batch(move.plan, small.plan)([move.source(), small.source()], [move.out(), small.out()])
    move.check(found[0])
    small.check(found[1])
    small.works()


# -- 8 and 20: interrupts


def interrupted_while_planning(comm: MPI.Intracomm) -> None:
    """Rank 0 asks for a plan that is there, is interrupted, and asks again. What MPI still writes to is nobody else's then."""
    move = turned(comm)
    move.works()
    comm.Barrier()
    if comm.Get_rank() == 0:
        with interrupted(0.3):
            psr.redistribute(move.a, move.b)
        probes = [np.full(n, 12345, np.int64) for n in range(1, 41) for _ in range(50)]
        until = time.monotonic() + 1
        while time.monotonic() < until:
            MPI.COMM_WORLD.Iprobe()
        changed = sum(int((probe != 12345).sum()) for probe in probes)
        assert not changed, f"{changed} numbers of other arrays were written by MPI"
    else:
        time.sleep(0.6)
        psr.redistribute(move.a, move.b)
    again = psr.redistribute(move.a, move.b)
    move.check(again(move.source(4)), 4)
    move.works()


def all_interrupted_while_planning(comm: MPI.Intracomm) -> None:
    """As in a notebook: each rank is interrupted in the same call, or has just ended it."""
    me = comm.Get_rank()
    move = turned(comm)
    comm.Barrier()
    time.sleep(0.5 * me)
    with interrupted(0.3, surely=me < comm.Get_size() - 1):
        psr.redistribute(move.a, move.b)
    time.sleep(0.5 * (comm.Get_size() - me))
    again = psr.redistribute(move.a, move.b)
    move.check(again(move.source(4)), 4)
    move.works()


def interrupted_as_calls_end(comm: MPI.Intracomm) -> None:
    """An alarm at any moment of a compiled call, which Python delivers when the call is over on both ranks."""
    move = turned(comm, 1000)
    a, out = move.source(1), move.out()
    for _ in range(3):
        move.plan(a, out)
    start = time.perf_counter()
    move.plan(a, out)
    seconds = comm.bcast(time.perf_counter() - start)
    came: list[int] = []
    for k in range(40):
        move.plan(a, out)  # all are here, and what an interrupt has left under way has ended
        if comm.Get_rank():
            with contextlib.suppress(psr.CollectiveError):  # where it came before the vote
                move.plan(a, out)
        elif interrupted_within(move.plan, a, out, seconds * (k + 1) / 30):
            came.append(k)
    assert came or comm.Get_rank(), "no interrupt came in a call"
    move.works()


def interrupted_within(plan: Any, a: Any, out: Any, after: float) -> bool:
    """A call of a plan, and an alarm that raises only in it; whether it did."""

    def raising(number: int, frame: FrameType | None) -> None:
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


def interrupted_while_batching(comm: MPI.Intracomm) -> None:
    """The ranks know one another already, so that a vote that is good seemed to be all."""
    move = turned(comm)
    back = psr.redistribute(move.b, move.a)
    comm.Barrier()
    if comm.Get_rank() == 0:
        with interrupted(0.3):
            psr.batch(move.plan, back)
    else:
        time.sleep(0.6)
        with pytest.raises(psr.CollectiveError, match="rank 0 could not take part: KeyboardInterrupt"):
            psr.batch(move.plan, back)
    both = psr.batch(move.plan, back)
    there, here = both([move.source(3), numbered(move.b, salt=4)])
    move.check(there, 3)
    same(here, numbered(move.a, salt=4))


def interrupted_before_a_batch_is_agreed(comm: MPI.Intracomm) -> None:
    """While a rank looks at its plans, which takes long where there are many."""
    me, move = comm.Get_rank(), turned(comm)
    check = batches._check

    def interrupted_there(*given: Any) -> None:
        check(*given)
        os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    with mock.patch.object(batches, "_check", interrupted_there if me == 0 else check), raises_on(0, KeyboardInterrupt):
        psr.batch(move.plan, move.plan)
    for part in psr.batch(move.plan, move.plan)([move.source(3)] * 2):
        move.check(part, 3)


def way_that_is_wrong_on_one_rank(comm: MPI.Intracomm) -> None:
    """The ranks of the layout in between are those of the call too, also of a list in which something else is wrong."""
    me, last = comm.Get_rank(), comm.Get_size() - 1
    a, b, between = on_rank(comm, 0), on_rank(comm, 1), on_rank(comm, last)
    for wrong in [between, None], [between, 3], iter([between, "x"]):
        with raises_on(0, psr.ScheduleError):
            psr.redistribute(a, b, via=wrong if me == 0 else [between])
    plan = psr.redistribute(a, b, via=iter([between]) if me == 0 else [between], dtype=float)
    same(plan(numbered(a)), numbered(b))


class Nameless:
    def __repr__(self) -> str:
        raise ValueError("no words")


def dtype_that_cannot_be_shown(comm: MPI.Intracomm) -> None:
    move = turned(comm)
    with raises_on(0, psr.ArrayError):
        psr.redistribute(move.a, move.b, dtype=Nameless() if comm.Get_rank() == 0 else float)
    move.works()


def interrupted_while_messages_are_planned(comm: MPI.Intracomm, exchange: str) -> None:
    """Before the vote, which then tells the others, or after it, when all ranks keep the plan: long lists of blocks."""
    me, processes, blocks = comm.Get_rank(), comm.Get_size(), 100_000
    grid = psr.ProcessGrid((processes,), comm)

    def layouts(seed: int) -> tuple[psr.Descriptor, psr.Descriptor]:
        owners = np.random.default_rng(seed).integers(0, processes, blocks)
        irregular = psr.Blocks(np.tile([1, 3], blocks // 2), owners)
        return psr.Descriptor((2 * blocks,), (irregular,), grid), psr.Descriptor((2 * blocks,), 5, grid)

    pairs = [layouts(k) for k in range(6)]
    psr.redistribute(*pairs[0], exchange=exchange)
    comm.Barrier()
    start = time.perf_counter()
    psr.redistribute(*pairs[1], exchange=exchange)
    seconds = comm.bcast(time.perf_counter() - start)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    for k, pair in enumerate(pairs[2:]):
        comm.Barrier()
        if me == 0:
            signal.setitimer(signal.ITIMER_REAL, seconds * (0.1 + 0.25 * k))
        with contextlib.suppress(KeyboardInterrupt, psr.CollectiveError):
            psr.redistribute(*pair, exchange=exchange)
        signal.setitimer(signal.ITIMER_REAL, 0)
        plan = psr.redistribute(*pair, exchange=exchange)
        same(plan(numbered(pair[0])), numbered(pair[1]))


def interrupted_on_the_way(comm: MPI.Intracomm) -> None:
    """The vote of a plan that goes through layouts in between."""
    me = comm.Get_rank()
    move = turned(comm, via=[by_rows(comm, block=4)])
    move.works()
    comm.Barrier()
    a, out = move.source(1), move.out()
    if me == 0:
        with interrupted(0.3):
            move.plan(a, out)
        time.sleep(0.5)
    else:
        time.sleep(0.6)
        move.check(move.plan(a, out), 1)
    move.works()


def all_interrupted_in_a_call(comm: MPI.Intracomm) -> None:
    """Each is in the call alone when it is interrupted; the next calls find both there."""
    me = comm.Get_rank()
    move = turned(comm, dtype=np.float64)
    for salt in range(3):
        move.check(move.plan(move.source(salt)), salt, "before")
    comm.Barrier()
    a, out = move.source(5), move.out()
    time.sleep(0.5 * me)
    with interrupted(0.3, surely=me < comm.Get_size() - 1):
        move.plan(a, out)
    time.sleep(0.5 * (comm.Get_size() - me))
    for salt in range(3):
        move.check(move.plan(move.source(salt)), salt, "afterwards")
    move.works()
    move.check(out, 5, "what was interrupted")


def interrupted_in_a_call(comm: MPI.Intracomm) -> None:
    """Only rank 0 is: for the others nothing has happened but that it took long."""
    me = comm.Get_rank()
    move = turned(comm)
    move.works()
    comm.Barrier()
    a, out = move.source(5), move.out()
    if me == 0:
        with interrupted(0.3):
            move.plan(a, out)
    else:
        time.sleep(0.6)
        move.check(move.plan(a, out), 5)
    move.works()
    move.check(out, 5, "what was interrupted")


def interrupted_while_elements_move(comm: MPI.Intracomm) -> None:
    """All have voted and begun; then rank 0 waits, is interrupted, and waits again."""
    move = turned(comm, 600, memory_limit=2**16)
    move.works(1)
    comm.Barrier()
    transfer = move.plan.start(move.source(5), move.out())
    if comm.Get_rank() == 0:
        time.sleep(0.6)  # the others have stopped looking
        with interrupted(0.3):
            transfer.wait()
    else:
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            assert not transfer.test(), "it ends without rank 0: make it larger"
        time.sleep(1)
    move.check(transfer.wait(), 5)
    move.works()


def interrupted_before_the_vote(comm: MPI.Intracomm) -> None:
    """While rank 1 makes `out`: an error like any other."""
    Allocation.watch()
    move = turned(comm, dtype=np.float64)
    for _ in range(2):  # the first call, and one that has been made like before
        a = move.source(9)
        with Allocation.failing(comm.Get_rank() == 1, KeyboardInterrupt), raises_on(1, KeyboardInterrupt):
            move.plan(a)
        for salt in range(3):
            move.check(move.plan(move.source(salt)), salt, "afterwards")
    move.works()


# -- 9: a transfer in flight, and calls that ranks make in another order than they wait


def in_flight_while(comm: MPI.Intracomm, call: Callable[[], None]) -> None:
    """Ranks 0 and 1 have a transfer in flight; rank 0 calls before it waits, rank 1 waits before it calls."""
    me = comm.Get_rank()
    move = Move(by_rows(comm, 600, ranks=(0, 1)), by_columns(comm, 600, ranks=(0, 1)), memory_limit=2**16)
    transfer = move.plan.start(move.source(1), move.out()) if me < 2 else None
    if me != 1:
        call()
    if transfer is not None:
        move.check(transfer.wait(), 1)
    if me == 1:
        call()
    if me < 2:
        move.works(1)


def new_ranks_while_in_flight(comm: MPI.Intracomm) -> None:
    in_flight_while(comm, lambda: turned(comm).works())


def save_while_in_flight(comm: MPI.Intracomm) -> None:
    desc = by_rows(comm)
    with folder(comm) as path:
        in_flight_while(comm, lambda: psr.save(desc, numbered(desc), path / "array.npy"))
        if comm.Get_rank() == 0:
            assert np.array_equal(np.load(path / "array.npy"), np.arange(N * N).reshape(N, N))


def load_while_in_flight(comm: MPI.Intracomm) -> None:
    desc = by_rows(comm)
    with folder(comm) as path:
        if comm.Get_rank() == 0:
            np.save(path / "array.npy", np.arange(1.0 * N * N).reshape(N, N))
        comm.Barrier()
        in_flight_while(comm, lambda: same(psr.load(desc, path / "array.npy"), numbered(desc)))


@contextlib.contextmanager
def folder(comm: MPI.Intracomm) -> Iterator[Path]:
    """A directory that all ranks see, until all are done with it."""
    made = tempfile.TemporaryDirectory() if comm.Get_rank() == 0 else None
    yield Path(comm.bcast(None if made is None else made.name))
    comm.Barrier()
    if made is not None:
        made.cleanup()


# -- 10: things that are no arrays


def tensor_on_one_rank(comm: MPI.Intracomm) -> None:
    me = comm.Get_rank()
    move = turned(comm)
    tensor: Any = Tensor(move.a.local_shape)
    for _ in range(2):
        out = move.out()
        with raises_on(1, psr.ArrayError):
            move.plan(tensor if me == 1 else move.source(), out)
        assert untouched(out)
        move.works()
    out = move.out()
    with raises_on(0, psr.ArrayError):
        move.plan(move.source(), tensor if me == 0 else out)
    assert untouched(out)
    move.works()


def empty_thing_that_is_no_array(comm: MPI.Intracomm) -> None:
    """Taken for nothing, or refused; the same on all ranks."""
    me = comm.Get_rank()
    move = Move(on_rank(comm, 0), on_rank(comm, 1))
    out = move.out()
    nothing: Any = Nothing()
    if outcome_of(comm, lambda: move.plan(nothing if me == 1 else move.source(3), out)) is None:
        same(out, numbered(move.b, salt=3))
    else:
        assert untouched(out)
    move.works()


# -- 11 and 19: votes that fail


def test_does_not_wait_for_the_one_that_failed(comm: MPI.Intracomm) -> None:
    """Rank 1 has a wrong array, and is in a barrier before it waits; rank 0 tests for a while, then comes to the barrier."""
    me = comm.Get_rank()
    move = turned(comm)
    move.works(1)
    wrong = np.zeros((3, 3))
    out = move.out()
    transfer = move.plan.start(wrong if me == 1 else move.source(), out)
    until = time.monotonic() + (0.5 if me == 0 else 0)
    with contextlib.suppress(psr.CollectiveError):
        while time.monotonic() < until:
            assert not transfer.test()
    comm.Barrier()
    with raises_on(1, psr.ArrayError):
        transfer.wait()
    assert untouched(out)
    move.works()


def two_that_fail_waited_for_in_another_order(comm: MPI.Intracomm) -> None:
    """One among ranks 0 and 1, where rank 0 has a wrong array; one among all, where rank 1 has one."""
    me = comm.Get_rank()
    few = Move(by_rows(comm, ranks=(0, 1)), by_columns(comm, ranks=(0, 1)))
    many = turned(comm)
    if me < 2:
        few.works(1)
    many.works(1)
    wrong = np.zeros((3, 3))
    outs = few.out(), many.out()
    first = few.plan.start(wrong if me == 0 else few.source(), outs[0])
    second = many.plan.start(wrong if me == 1 else many.source(), outs[1])
    comm.Barrier()
    for transfer in (first, second) if me == 0 else (second, first):
        if transfer is first and me > 1:
            continue
        with raises_on(0 if transfer is first else 1, psr.ArrayError):
            transfer.wait()
    assert untouched(outs[0])
    assert untouched(outs[1])
    if me < 2:
        few.works()
    many.works()


# -- 12: what looks like a death


def no_file_left_while_waiting(comm: MPI.Intracomm) -> None:
    move = turned(comm)
    move.works()
    comm.Barrier()
    a, out = move.source(5), move.out()
    if comm.Get_rank() == 1:
        time.sleep(1)
        move.check(move.plan(a, out), 5)
    else:
        with no_file_can_be_opened():
            found = move.plan(a, out)
        move.check(found, 5)
    move.works()


# -- 13 and 21: communicators that are gone, and others of the same ranks


def communicator_that_was_freed(comm: MPI.Intracomm) -> None:
    other = comm.Dup()
    move, kept = turned(other), turned(comm)
    move.works()
    a, out = move.source(5), move.out()
    other.Free()
    time.sleep(0.5 * comm.Get_rank())
    calls: list[Callable[[], object]] = [lambda: move.plan(a, out), lambda: move.plan.start(a, out).wait()]
    for op in "N", "T":  # a request that is kept, and another
        calls.append(lambda op=op: psr.redistribute(move.a, move.b, op=op))
    for call in calls:
        with pytest.raises(psr.RedistributionError):
            call()
        assert untouched(out)
    kept.works()


def descriptor_on_another_communicator(comm: MPI.Intracomm) -> None:
    other = comm.Dup()
    a, b = by_rows(comm).on(other), by_columns(comm).on(other)
    for desc in (a, b, a[3:, 1:].on(other)):
        assert desc.grid.comm == other
    assert by_rows(comm)[3:, 1:].on(other).grid.comm == other
    Move(a, b).works()
    turned(comm).works()


def threads_with_a_communicator_each(comm: MPI.Intracomm) -> None:
    assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
    a, b = by_rows(comm), by_columns(comm)
    errors: list[BaseException] = []

    def work(mine: MPI.Intracomm) -> None:
        try:
            for k in range(30):
                Move(a.on(mine), b.on(mine), memory_limit=100_000 + k).works(2)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(comm.Dup(),), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def calls_after_finalize(comm: MPI.Intracomm) -> None:
    move = turned(comm)
    move.works()
    a, out = move.source(5), move.out()
    both = psr.batch(move.plan, move.plan)
    both([a, a])
    transfer = move.plan.start(a, move.out())
    transfer.wait()
    MPI.Finalize()
    for call in (
        lambda: move.plan(a, out),
        lambda: move.plan.start(a, out),
        lambda: move.plan(a),
        lambda: both([a, a]),
        lambda: psr.redistribute(move.a, move.b),
    ):
        with pytest.raises(psr.RedistributionError):
            call()
        assert untouched(out)


# -- 14 and 15: several legs


def profile_of_legs(comm: MPI.Intracomm) -> None:
    """What goes by rank 1 takes its time there."""
    me = comm.Get_rank()
    move = Move(on_rank(comm, 0, 1000), on_rank(comm, 2, 1000), via=[on_rank(comm, 1, 1000)])
    out = move.out()
    spent = move.plan.profile(move.source(3), out).seconds
    move.check(out, 3)
    assert me != 1 or min(spent["packed"], spent["unpacked"]) > 1e-4, spent  # of 8 MB
    move.works(1)


def messages_of_legs(comm: MPI.Intracomm) -> None:
    """Rank 1, in between, receives and sends."""
    move = Move(on_rank(comm, 0), on_rank(comm, 2), via=[on_rank(comm, 1)])
    found = move.plan.messages
    assert comm.Get_rank() != 1 or (found["send"] and found["receive"]), found
    move.works(1)


def schedule_that_only_the_legs_allow(comm: MPI.Intracomm) -> None:
    """Blocks of 4 and 6 are no multiples of one another, but 12 is one of both."""
    a, b = (psr.Descriptor((96,), (block,), psr.ProcessGrid((comm.Get_size(),), comm)) for block in (4, 6))
    with pytest.raises(psr.ScheduleError):
        psr.redistribute(a, b, schedule="walker-otto")
    Move(a, b, schedule="walker-otto", via="lcm").works()


def leg_without_enough_memory(comm: MPI.Intracomm) -> None:
    move = Move(on_rank(comm, 0), on_rank(comm, 2), via=[on_rank(comm, 1)], memory_limit=7)
    out = move.out()
    with pytest.raises(psr.RedistributionError):
        move.plan(move.source(), out)
    assert untouched(out)
    move.kind = np.dtype(np.int8)
    move.works()


def leg_that_cannot_multiply(comm: MPI.Intracomm) -> None:
    way: dict[str, Any] = {"via": [on_rank(comm, 1)], "buffers": "datatypes", "exchange": "nonblocking"}
    move = Move(on_rank(comm, 0), on_rank(comm, 2), **way)
    out = move.out()
    with pytest.raises(psr.RedistributionError):
        move.plan(move.source(), out, alpha=2)
    assert untouched(out)
    move.works()


def leg_that_cannot_conjugate(comm: MPI.Intracomm) -> None:
    way: dict[str, Any] = {"via": [on_rank(comm, 1)], "buffers": "datatypes", "exchange": "nonblocking", "op": "C"}
    plan = psr.redistribute(on_rank(comm, 0), on_rank(comm, 2), **way)
    a, out = numbered(on_rank(comm, 0), np.complex128), blank(on_rank(comm, 2), np.complex128)
    with pytest.raises(psr.RedistributionError):
        plan(a, out)
    assert untouched(out)
    real, turned_round = numbered(on_rank(comm, 0)), numbered(on_rank(comm, 2))
    same(plan(real, blank(on_rank(comm, 2))), None if turned_round is None else turned_round.T)


def leg_that_refuses_a_schedule(comm: MPI.Intracomm) -> None:
    """From blocks of 4 to 6 and on to 12: the first leg is refused, in which rank 2 has no part."""
    few, some = ([psr.ProcessGrid((2,), comm, ranks=ranks)] for ranks in ((0, 1), (1, 2)))
    a, between, b = (psr.Descriptor((96,), (k,), *grid) for k, grid in ((4, few), (6, few), (12, some)))
    with pytest.raises(psr.RedistributionError):
        psr.redistribute(a, b, schedule="walker-otto", via=[between])
    Move(a, b, schedule="walker-otto").works()
    Move(a, b, via=[between]).works()


def in_place_on_one_rank_only(comm: MPI.Intracomm) -> None:
    desc = by_rows(comm)
    move = Move(desc, desc, via="dimensions")
    a = move.source(3)
    move.check(move.plan(a, a if comm.Get_rank() == 0 else None), 3)
    move.works()


# -- 16: fills


def fill_with_a_rank_outside(comm: MPI.Intracomm, fill: str) -> None:
    a, b = by_rows(comm, ranks=(0, 1)), by_columns(comm, ranks=(0, 1))
    plan = psr.redistribute(a, b, comm=comm, uplo="U", fill=fill)
    whole = np.arange(1.0 * N * N).reshape(N, N)
    wanted = np.triu(whole) + np.triu(whole, 1).T
    for _ in range(3):
        found = plan(numbered(a), blank(b))
        same(found, None if b.coords is None else wanted[:, b.global_indices(1)])


def fill_with_too_little_memory(comm: MPI.Intracomm) -> None:
    a, b = by_rows(comm), by_columns(comm)
    plan = psr.redistribute(a, b, uplo="U", fill="zero", memory_limit=7)
    out = blank(b)
    with pytest.raises(psr.RedistributionError):
        plan(numbered(a), out)
    assert untouched(out), "out was written, though nothing moved"
    found = plan(numbered(a, np.int8), blank(b, np.int8))
    whole = (np.arange(N * N) % 2**24).astype(np.int8).reshape(N, N)
    same(found, np.triu(whole)[:, b.global_indices(1)])


# -- 17: arguments that one rank cannot read


def dtype_that_is_none(comm: MPI.Intracomm) -> None:
    me = comm.Get_rank()
    a, b = by_rows(comm), by_columns(comm)
    twice: Any = [("x", "f8"), ("x", "f8")]
    for _ in range(2):
        with raises_on(1, ValueError):
            psr.redistribute(a, b, dtype=twice if me == 1 else None)
    Move(a, b).works()


def node_number_that_is_too_large(comm: MPI.Intracomm) -> None:
    """Refused, or taken as any other; the same on all ranks."""
    if outcome_of(comm, lambda: turned(comm).works()) is not None:
        os.environ["PYSCALAPACK_REDIST_NODES"] = "0,1"
        turned(comm).works()


def links_that_no_float_holds(comm: MPI.Intracomm) -> None:
    with folder(comm) as path:
        if comm.Get_rank() == 0:
            (path / "links.json").write_text('{"latency": 1e-6, "rate": 1' + 400 * "0" + "}")
        os.environ["PYSCALAPACK_REDIST_LINKS"] = str(path / "links.json")
        comm.Barrier()
        with pytest.raises(psr.RedistributionError):
            turned(comm)
        comm.Barrier()
        if comm.Get_rank() == 0:
            (path / "links.json").write_text(json.dumps({"latency": 1e-6, "rate": 1e9}))
        comm.Barrier()
        turned(comm).works()


# -- 18: just enough memory


def just_enough_memory(comm: MPI.Intracomm) -> None:
    """Two elements of 130 bytes, one for each of two others on this node, and as much for other nodes. May be refused."""
    kind = np.dtype("V130")
    limit = 260 if comm.Get_size() == 3 else 520
    move = Move(by_rows(comm, 12, 1), by_columns(comm, 12, 1), kind, memory_limit=limit)
    a, out = move.source(3), move.out()
    if outcome_of(comm, lambda: move.plan(a, out)) is None:
        move.check(out, 3)
        move.works()
    move.kind = np.dtype("V100")
    move.works()


# -- 23: arrays of other kinds, and what a set of ranks keeps


def out_that_overlaps_itself(comm: MPI.Intracomm) -> None:
    me = comm.Get_rank()
    move = turned(comm)
    move.works()
    rows, columns = move.b.local_shape
    memory = np.full(8 * (rows + columns), UNTOUCHED)
    folded = np.lib.stride_tricks.as_strided(memory, (rows, columns), (8, 16))
    out = folded if me == 1 else move.out()
    for _ in range(2):
        with raises_on(1, psr.ArrayError):
            move.plan(move.source(), out)
        assert untouched(memory)
        assert untouched(out)
    move.works()


def more_than_32_dimensions(comm: MPI.Intracomm) -> None:
    """Grid dimensions are no problem: there are two. The others are of 1 and 2 elements in turn."""
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        return
    size = comm.Get_size()
    for ndim in (33, 40, 64):
        shape = [2 * size, *(2 if k % 8 == 0 else 1 for k in range(1, ndim - 1)), 2 * size]
        grid = psr.ProcessGrid((size,), comm)
        axes = [[None] * ndim for _ in range(2)]
        axes[0][0], axes[1][-1] = 0, 0  # type: ignore[call-overload]
        a, b = (psr.Descriptor(shape, 1, grid, axes=move) for move in axes)
        Move(a, b).works(2)
        Move(a, b, exchange="nonblocking").works(2)


def files_of_many_sets_of_ranks(comm: MPI.Intracomm) -> None:
    """Each communicator is another set."""

    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    turned(comm.Dup()).works(1)
    before = opened()
    kept = [turned(comm.Dup()) for _ in range(20)]
    for move in kept:
        move.works(1)
    assert opened() <= before + 2, f"{opened() - before} files are open for 20 sets of ranks"
    for move in itertools.chain(kept, [turned(comm)]):
        move.works(1)


DEFECTS: dict[str, tuple[int, Callable[[MPI.Intracomm], None]]] = {
    "order-that-only-one-rank-knows": (1, order_that_only_one_rank_knows),
    "one-rank-short-one-long": (2, one_rank_short_one_long),
    "waited-for-in-another-order": (3, waited_for_in_another_order),
    "ten-plans-waited-for-in-another-order": (3, ten_plans_waited_for_in_another_order),
    "killed-while-others-test": (4, killed_while_others_test),
    "killed-while-others-test-in-the-middle": (4, killed_while_others_test_in_the_middle),
    "killed-while-two-are-in-flight": (4, killed_while_two_are_in_flight),
    "killed-while-a-batch-is-tested": (4, killed_while_a_batch_is_tested),
    "job-killed-while-the-other-tests": (4, job_killed_while_the_other_tests),
    "no-memory-for-out-shared": (5, functools.partial(no_memory_for_a_new_array, exchange="shared")),
    "no-memory-for-out-nonblocking": (5, functools.partial(no_memory_for_a_new_array, exchange="nonblocking")),
    "no-memory-for-outs-of-a-batch": (5, no_memory_for_new_arrays_of_a_batch),
    "no-memory-in-the-first-call": (6, no_memory_in_the_first_call),
    "no-memory-to-go-on-after-a-vote": (6, no_memory_to_go_on_after_a_vote),
    "factor-that-no-float-holds": (6, factor_that_no_float_holds),
    "datatypes-in-either-order": (6, datatypes_in_either_order),
    "factors-with-signs-of-zeros": (6, factors_with_signs_of_zeros),
    "conversations-that-fail": (6, conversations_that_fail),
    "tiles-and-copies-that-no-rank-knows-both": (6, tiles_and_copies_that_no_rank_knows_both),
    "large-elements": (7, large_elements),
    "large-elements-in-a-batch": (7, large_elements_in_a_batch),
    "interrupted-while-planning": (8, interrupted_while_planning),
    "interrupted-as-calls-end": (8, interrupted_as_calls_end),
    "interrupted-before-a-batch-is-agreed": (8, interrupted_before_a_batch_is_agreed),
    "way-that-is-wrong-on-one-rank": (8, way_that_is_wrong_on_one_rank),
    "dtype-that-cannot-be-shown": (8, dtype_that_cannot_be_shown),
    "interrupted-while-batching": (8, interrupted_while_batching),
    "interrupted-while-messages-are-planned": (
        8,
        functools.partial(interrupted_while_messages_are_planned, exchange="auto"),
    ),
    "interrupted-while-messages-are-planned-nonblocking": (
        8,
        functools.partial(interrupted_while_messages_are_planned, exchange="nonblocking"),
    ),
    "interrupted-on-the-way": (8, interrupted_on_the_way),
    "interrupted-in-a-call": (8, interrupted_in_a_call),
    "interrupted-while-elements-move": (8, interrupted_while_elements_move),
    "new-ranks-while-in-flight": (9, new_ranks_while_in_flight),
    "save-while-in-flight": (9, save_while_in_flight),
    "load-while-in-flight": (9, load_while_in_flight),
    "tensor-on-one-rank": (10, tensor_on_one_rank),
    "empty-thing-that-is-no-array": (10, empty_thing_that_is_no_array),
    "test-does-not-wait-for-the-one-that-failed": (11, test_does_not_wait_for_the_one_that_failed),
    "no-file-left-while-waiting": (12, no_file_left_while_waiting),
    "communicator-that-was-freed": (13, communicator_that_was_freed),
    "profile-of-legs": (14, profile_of_legs),
    "messages-of-legs": (14, messages_of_legs),
    "schedule-that-only-the-legs-allow": (14, schedule_that_only_the_legs_allow),
    "leg-without-enough-memory": (15, leg_without_enough_memory),
    "leg-that-cannot-multiply": (15, leg_that_cannot_multiply),
    "leg-that-cannot-conjugate": (15, leg_that_cannot_conjugate),
    "leg-that-refuses-a-schedule": (15, leg_that_refuses_a_schedule),
    "in-place-on-one-rank-only": (15, in_place_on_one_rank_only),
    "symmetric-fill-with-a-rank-outside": (16, functools.partial(fill_with_a_rank_outside, fill="symmetric")),
    "hermitian-fill-with-a-rank-outside": (16, functools.partial(fill_with_a_rank_outside, fill="hermitian")),
    "fill-with-too-little-memory": (16, fill_with_too_little_memory),
    "dtype-that-is-none": (17, dtype_that_is_none),
    "node-number-that-is-too-large": (17, node_number_that_is_too_large),
    "links-that-no-float-holds": (17, links_that_no_float_holds),
    "just-enough-memory": (18, just_enough_memory),
    "two-that-fail-waited-for-in-another-order": (19, two_that_fail_waited_for_in_another_order),
    "all-interrupted-while-planning": (20, all_interrupted_while_planning),
    "interrupted-before-the-vote": (20, interrupted_before_the_vote),
    "all-interrupted-in-a-call": (20, all_interrupted_in_a_call),
    "descriptor-on-another-communicator": (21, descriptor_on_another_communicator),
    "threads-with-a-communicator-each": (21, threads_with_a_communicator_each),
    "calls-after-finalize": (21, calls_after_finalize),
    "out-that-overlaps-itself": (23, out_that_overlaps_itself),
    "more-than-32-dimensions": (23, more_than_32_dimensions),
    "files-of-many-sets-of-ranks": (23, files_of_many_sets_of_ranks),
}


def main() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # MPICH's launcher sends it when another rank has died
    comm = MPI.COMM_WORLD
    rank = comm.Get_rank()
    DEFECTS[sys.argv[1]][1](comm)
    if not MPI.Is_finalized():
        comm.Barrier()
    if rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
