"""Communicators of every kind: several transfers in flight, scatter and gather, plans that are kept, layouts on duplicates
and relabelled ones.
"""

from __future__ import annotations

import copy
import functools
import itertools
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from layouts import descriptor
from mpi4py import MPI
from oracle import random_layout, random_shape

import pyscalapack_redist as psr
from pyscalapack_redist.comm import caches, channel, groups
from pyscalapack_redist.engine.transfer import State
from pyscalapack_redist.exchanges import BUFFERS, EXCHANGES

WORLD = MPI.COMM_WORLD
SHAPE = (37, 29)


def value(i: Any, j: Any) -> Any:
    return 1000.0 * i + j


WHOLE = value(*np.ogrid[: SHAPE[0], : SHAPE[1]])


def communicators() -> Iterator[MPI.Intracomm]:
    """Each kind on which everything must hold."""
    yield WORLD
    for color, key in ((WORLD.rank % 2, WORLD.rank), (0, -WORLD.rank), (WORLD.rank, 0)):
        comm = WORLD.Split(color, key)
        yield comm
        comm.Free()


def layouts(comm: MPI.Intracomm) -> list[psr.Descriptor]:
    """Over all ranks by rows and by columns, over half of them, and on one."""
    n = comm.size
    some = max(1, n // 2)
    grids = [
        psr.ProcessGrid((n, 1), comm),
        psr.ProcessGrid((1, n), comm, order="column"),
        psr.ProcessGrid((some, 1), comm, ranks=np.arange(n)[::-1][:some, None]),
        psr.ProcessGrid((1, 1), comm, ranks=[[n - 1]]),
    ]
    blocks = (4, 4), (None, None), (3, 50), (1, 1)
    return [psr.Descriptor(SHAPE, block, grid) for grid, block in zip(grids, blocks, strict=True)]


def numbers(desc: psr.Descriptor) -> Any:
    return None if desc.coords is None else desc.from_function(value)


def check(result: Any, desc: psr.Descriptor, scale: float = 1.0) -> None:
    assert (result is None) == (desc.coords is None)
    assert result is None or np.array_equal(result, scale * numbers(desc))


def in_flight(comm: MPI.Intracomm) -> None:
    """Transfers by all exchanges at once, also of one plan, finished in another order on each rank, do not mix."""
    every = layouts(comm)
    kinds = itertools.cycle((x, b) for x in EXCHANGES for b in BUFFERS if b in EXCHANGES[x].supported_buffers)
    running = []
    for a, b in itertools.product(every, every):
        exchange, buffers = next(kinds)
        plan = psr.redistribute(a, b, dtype=float, exchange=exchange, buffers=buffers, memory_limit=3000)
        for scale in (1.0, -2.0):
            local = None if a.coords is None else scale * numbers(a)
            running.append((plan.start(local), b, scale, local))
    for number, k in enumerate(np.random.default_rng(comm.rank).permutation(len(running))):
        transfer, b, scale, _ = running[k]
        while number % 2 and not transfer.test():
            pass
        check(transfer.wait(), b, scale)


def scatter_and_gather(comm: MPI.Intracomm) -> None:
    for desc in layouts(comm):
        for root in {0, comm.size - 1}:
            here = comm.rank == root
            local = psr.scatter(desc, WHOLE.astype(np.float32) if here else None, root=root)
            check(local, desc)
            assert local is None or local.dtype == np.float32
            for window in (desc, desc[3:20, 1:]):
                found = psr.gather(window, local, root=root)
                assert (found is not None) == here
                wanted = WHOLE if window is desc else WHOLE[3:20, 1:]
                assert found is None or np.array_equal(found, wanted)


def kept(comm: MPI.Intracomm) -> None:
    """The same request gives the same plan; its report counts what moves."""
    a, b = layouts(comm)[:2]
    plan = psr.redistribute(a, b)
    assert psr.redistribute(a, b) is plan
    by_dtype = [psr.redistribute(a, b, dtype=dtype) for dtype in ("f4", "f8", "f4", "f8")]
    assert by_dtype[0] is by_dtype[2] is not by_dtype[1]
    assert by_dtype[1] is by_dtype[3]
    assert psr.redistribute(a, b) is plan
    for other in (psr.redistribute(b, a), psr.redistribute(a, b, schedule="natural")):
        assert other is not plan
    assert "extra memory" in str(plan.report())
    assert plan.report().extra_bytes <= plan.report().memory_limit
    moved = plan.report(np.float64)
    for count in (moved.bytes_sent, moved.bytes_received):
        assert comm.allreduce(count + moved.bytes_copied) == 8 * WHOLE.size
    assert sum(message.size for message in plan.messages["send"]) * 8 == moved.bytes_sent


def legs(comm: MPI.Intracomm) -> None:
    """The report of a plan through layouts in between sets them beside the direct way; a rank in between has messages."""
    every = layouts(comm)
    for a, b, between in ((0, 1, [2]), (2, 3, [0, 1]), (1, 0, [])):
        via = [every[k] for k in between]
        plan: Any = psr.redistribute(every[a], every[b], via=via, dtype=float)
        out = every[b].zeros() if every[b].coords else None
        profile = plan.profile(numbers(every[a]), out)
        check(out, every[b])
        for way, what in (("send", "packed"), ("receive", "unpacked")):
            timed = profile.seconds[what] > 0 or "PYSCALAPACK_REDIST_NODES" in os.environ
            assert timed or not plan.messages[way], (profile, plan.messages)
        assert [leg.desc_b for leg in plan.legs] == [*via, every[b]]
        report = plan.report(float)
        assert report.bytes_sent == sum(leg.report(float).bytes_sent for leg in plan.legs)
        for way in ("send", "receive"):
            assert len(plan.messages[way]) == sum(len(leg.messages[way]) for leg in plan.legs)
        assert "direct" in str(report)


def on_others(comm: MPI.Intracomm) -> None:
    """Grids may be on other communicators than the plan, and layouts are moved to that of the plan, else of A."""
    turned = comm.Split(0, -comm.rank)
    there = psr.Descriptor(SHAPE, (5, 6), psr.ProcessGrid((1, comm.size), turned))
    first = layouts(comm)[0]
    check(psr.redistribute(first, there, comm=comm)(numbers(first)), there)
    turned.Free()
    other = comm.Dup()
    a, b = layouts(comm)[:2]
    assert a.on(comm) is a
    assert a.grid.on(comm) is a.grid
    for view in (a, a[3:20, 1:], a.T):
        moved = view.on(other)
        assert moved.grid.comm is moved.T.grid.comm is other
        assert view.grid.comm is comm
        assert moved.parent is None or moved.parent.grid is moved.grid
        assert (moved, moved.grid, hash(moved)) == (view, view.grid, hash(view))
        assert (moved.coords, moved.local_shape, moved.lld) == (view.coords, view.local_shape, view.lld)
        assert moved.on(comm).grid.comm is comm
    ways = (a, b, other, other), (a, b, None, comm), (a, b.on(other), None, comm), (a.on(other), b, None, other)
    for before, after, chosen, expected in ways:
        for via in (None, "lcm"):
            plan = psr.redistribute(before, after, comm=chosen, via=via)
            for leg in (plan, *getattr(plan, "legs", [])):
                assert leg.desc_a.grid.comm is leg.desc_b.grid.comm is expected
            check(plan(numbers(a)), b)
    assert psr.redistribute(a, b, comm=other) is psr.redistribute(a.on(other), b.on(other))
    assert psr.redistribute(a, b, comm=other) is not psr.redistribute(a, b)
    other.Free()


def relabelled(comm: MPI.Intracomm) -> None:
    """Plans to and from random layouts move what the report says."""
    for seed in range(6):
        rng = np.random.default_rng([seed, comm.size])
        size = random_shape(rng, int(rng.integers(1, 4)), 2000)
        a, b = (descriptor(random_layout(rng, size, comm.size, copies=True), comm) for _ in range(2))
        report = psr.relabel_report(a, b)
        made = report.descriptor
        assert made.grid.comm is comm
        assert comm.allgather(made.layout_digest) == [made.layout_digest] * comm.size
        for target, moved in ((b, report.moved_before), (made, report.moved_after)):
            plan = psr.redistribute(a, target, dtype=float)
            assert comm.allreduce(plan.report().bytes_sent) == moved, (seed, a, target)


def relabelled_on_others() -> None:
    """A's ranks are renumbered as B's communicator numbers them; the environment tells the nodes of COMM_WORLD's ranks."""
    size, turned = WORLD.size, WORLD.Split(0, -WORLD.rank)
    falling = np.arange(size)[::-1]
    a, b = (psr.Descriptor((2 * size,), 2, psr.ProcessGrid((size,), comm)) for comm in (WORLD, turned))
    made = psr.relabel_report(a, b)
    assert made.moved_after == 0
    assert made.descriptor.grid.ranks.tolist() == falling.tolist()
    assert made.descriptor.grid.comm is turned
    found = psr.redistribute(a, made.descriptor, comm=WORLD)(a.from_function(lambda i: i))
    assert np.array_equal(found, a.from_function(lambda i: i))
    paper, far = (psr.Descriptor((2 * size,), 2, psr.ProcessGrid((size,), ranks=falling + k)) for k in (0, 1))
    assert psr.relabel(paper, a).grid.ranks.tolist() == falling.tolist()
    with pytest.raises(psr.DescriptorError, match=f"desc_a has rank {size} of a grid on paper"):
        psr.relabel(far, a)
    nodes = [0, 1, 1, 0][:size]
    c, d = (psr.Descriptor((24,), block, b.grid) for block in (1, None))
    told = psr.relabel_report(c, d, nodes=nodes[::-1])
    with mock.patch.dict(os.environ, {"PYSCALAPACK_REDIST_NODES": ",".join(map(str, nodes))}):
        assert psr.relabel_report(c, d) == told
    assert told.between_nodes_after is not None
    turned.Free()


def pickled() -> None:
    """A layout goes to other ranks: on COMM_WORLD as it is, from any other communicator as ranks of COMM_WORLD."""
    half, turned = WORLD.Split(WORLD.rank % 2, WORLD.rank), WORLD.Split(0, -WORLD.rank)
    for comm in (WORLD, turned, half):
        desc = layouts(comm)[0]
        told = WORLD.bcast(desc if WORLD.rank == 0 else None)
        if comm is half:
            assert told.grid.ranks.ravel().tolist() == list(range(0, WORLD.size, 2))
            whole = psr.gather(told, numbers(told))
            assert WORLD.rank or np.array_equal(whole, WHOLE)
        else:
            assert told.grid.comm == WORLD
            assert told.on(comm) == desc
            assert (told == desc) == (comm is WORLD or comm.size == 1)
            assert told.coords == desc.coords
            tiles = psr.Tiles([0, 3, 37], [0, 29], [[comm.size - 1], [0]], comm)
            told = WORLD.bcast(tiles if WORLD.rank == 0 else None)
            assert told.on(comm) == tiles
            assert np.array_equal(told.own, tiles.own)
    half.Free()
    turned.Free()


def freed() -> None:
    """What a communicator was for says so once it is freed, and what to do, wherever it stands in a call."""
    comm = WORLD.Dup()
    (a, b, *_), (c, d, *_) = layouts(WORLD), layouts(comm)
    tiles, lost_tiles = (psr.Tiles([0, 37], [0, 29], [[0]], some) for some in (WORLD, comm))
    plan, lost = psr.redistribute(a, b), psr.redistribute(c, d)
    comm.Free()
    calls = [
        *(lambda: a == c, lambda: c.grid == a.grid, lambda: tiles == lost_tiles),
        *(lambda: a.on(comm), lambda: c.on(WORLD), lambda: lost_tiles.on(WORLD)),
        *(lambda: psr.batch(lost), lambda: psr.batch(plan, lost), lambda: psr.batch(lost, plan)),
        *(lambda: pickle.dumps(c), lambda: pickle.dumps(lost_tiles), lambda: lost.report(all_ranks=True)),
        *(lambda: psr.scatter(c, None), lambda: psr.relabel(c, d), c.grid.make_context),
    ]
    for call in calls:
        with pytest.raises(psr.CollectiveError, match=r"has been freed.*(make them on one that is not|use another)"):
            call()
    with pytest.raises(
        psr.CollectiveError, match=r"^Redistribution\(.* cannot be pickled: .*; pickle its layouts, desc_a"
    ):
        pickle.dumps(plan)
    assert copy.deepcopy(plan) is copy.copy(plan) is plan


def in_two_threads() -> None:
    """Each with a duplicate of its own: they make and use plans at the same time, more often in one than in the other."""
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        return
    duplicates, errors = [WORLD.Dup(), WORLD.Dup()], []
    ends = layouts(WORLD)[:2]

    def work(k: int) -> None:
        try:
            for number in range(20 * (k + 1)):
                a, b = (desc.on(duplicates[k]) for desc in ends[:: 1 if number % 2 else -1])
                plan = psr.redistribute(
                    a, b, exchange="windowed" if number % 3 else "shared", memory_limit=9000 + number
                )
                check(plan((number + k) * numbers(a)), b, number + k)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    for duplicate in duplicates:
        duplicate.Free()


def without_staging_memory() -> None:
    """A rank that gets no memory for its messages says so in the vote, and the ranks stay usable."""
    a, b = layouts(WORLD)[:2]
    plan = psr.redistribute(a, b, exchange="windowed")
    take = mock.Mock(side_effect=MemoryError("none left")) if WORLD.rank == 0 else caches.Staging.take
    expected = MemoryError if WORLD.rank == 0 else psr.CollectiveError
    with mock.patch.object(caches.Staging, "take", take), pytest.raises(expected, match="none left"):
        plan(numbers(a))
    check(plan(numbers(a)), b)


def tags_come_again() -> None:
    """More transfers in flight than there are tickets with tags of their own, and ranks that wait for them in other orders."""
    comm = WORLD.Dup()
    a, b = (psr.Descriptor((700, 600), 8, psr.ProcessGrid(shape, comm)) for shape in ((comm.size, 1), (1, comm.size)))
    with mock.patch.object(
        channel.MPIChannel, "__init__", functools.partialmethod(few_tags, channel.MPIChannel.__init__)
    ):
        plans = [psr.redistribute(a, b, exchange=name) for name in ("synchronized", "windowed", "nonblocking")]
    assert plans[0].plan.group is None or plans[0].plan.group.channel.tags == 16
    for _ in range(3):
        outs = [plan.start((k + 1) * numbers(a)) for k, plan in enumerate(plans * 4)]
        for k in range(len(outs))[:: -1 if WORLD.rank % 2 else 1]:
            assert np.array_equal(outs[k].wait(), (k + 1) * numbers(b)), k
    comm.Free()


def few_tags(made: Any, make: Any, comm: MPI.Intracomm) -> None:
    make(made, comm)
    made.tags = 16


def one_thread_after_another() -> None:
    """What a thread has started, and what is left of it as the thread ends, goes on in calls of another thread, and first."""
    comm = WORLD.Dup()
    a, b = (psr.Descriptor((1200, 1200), 8, psr.ProcessGrid(shape, comm)) for shape in ((comm.size, 1), (1, comm.size)))
    plan = psr.redistribute(a, b)
    source, result = numbers(a), plan(numbers(a))
    for is_moving in (False, True):
        transfers: list[Any] = []

        def start(is_moving: bool = is_moving, transfers: list[Any] = transfers) -> None:
            transfers.append(plan.start(source))
            while is_moving and transfers[0].state < State.MOVING:
                transfers[0].test()

        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
        assert np.array_equal(plan(3 * source), 3 * result)
        other = plan.start(5 * source)
        for transfer, factor in ((transfers[0], 1), (other, 5))[:: -1 if WORLD.rank % 2 else 1]:
            assert np.array_equal(transfer.wait(), factor * result)
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    comm.Free()
    assert np.array_equal(transfers[-1].wait(), result)
    assert not groups._never_freed


def goes_on_in_another_thread() -> None:
    """With the transfers in flight on its communicator, while the thread that has started them calls a plan on another one."""
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        return
    duplicates, errors, interval = [WORLD.Dup(), WORLD.Dup()], [], sys.getswitchinterval()
    ends = [[desc.on(duplicate) for desc in layouts(WORLD)[:2]] for duplicate in duplicates]
    ways: list[dict[str, Any]] = [{}, {"exchange": "nonblocking"}, {"exchange": "windowed", "memory_limit": 9000}]
    plans = [psr.redistribute(*ends[0], **way) for way in ways]
    other = psr.redistribute(*ends[1])
    source = numbers(ends[0][0])

    def work(transfers: list[Any]) -> None:
        try:
            transfers.extend(plan.start((k + 4) * source) for k, plan in enumerate(plans))
            check(plans[0](9 * source), ends[0][1], 9)
            for k in range(6)[:: -1 if WORLD.rank % 2 else 1]:
                check(transfers[k].wait(), ends[0][1], k + 1)
        except BaseException as error:
            errors.append(error)
            raise

    sys.setswitchinterval(1e-6)  # seconds: they get in each other's way all the time
    for _ in range(10):
        transfers = [plan.start((k + 1) * source) for k, plan in enumerate(plans)]
        thread = threading.Thread(target=work, args=(transfers,))
        thread.start()
        for _ in range(5):
            check(other(numbers(ends[1][0])), ends[1][1])
        thread.join()
        assert not errors, errors
    sys.setswitchinterval(interval)
    for duplicate in duplicates:
        duplicate.Free()


def one_thread_at_a_time() -> None:
    """While a thread makes progress on the operations of some ranks, no other one posts or counts their votes."""
    group = groups.group_of(WORLD)
    other = threading.Thread(target=group.count)
    with group.lock:
        other.start()
        other.join(0.1)
        assert other.is_alive()
    other.join()


def main() -> None:
    for comm in communicators():
        for part in (in_flight, scatter_and_gather, kept, legs, on_others, relabelled):
            part(comm)
    relabelled_on_others()
    pickled()
    freed()
    in_two_threads()
    one_thread_after_another()
    goes_on_in_another_thread()
    one_thread_at_a_time()
    tags_come_again()
    without_staging_memory()
    WORLD.Barrier()
    if WORLD.rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
