"""What exchanges do that no array tells: few messages, short pieces, links' costs, stores, shared memory, datatypes.

Arguments: the name of a function below, and its own.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist._kernels.boxes import Box
from pyscalapack_redist._kernels.ring import RULES
from pyscalapack_redist._kernels.runs import Runs
from pyscalapack_redist.comm import node
from pyscalapack_redist.comm.channel import MPIChannel
from pyscalapack_redist.comm.group import DATA, TAGS
from pyscalapack_redist.comm.groups import group_of
from pyscalapack_redist.comm.log_steps import LogSteps, Rows, work_of
from pyscalapack_redist.comm.progress import wait_until
from pyscalapack_redist.engine import make
from pyscalapack_redist.engine.choose import SHORTEST_PIECE
from pyscalapack_redist.exchanges import message as datatypes
from pyscalapack_redist.exchanges import node_packed
from pyscalapack_redist.exchanges.message import memory_at
from pyscalapack_redist.exchanges.pipeline import FEW, HEADER
from pyscalapack_redist.schedules import layout_orders

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()


def value(i: Any, j: Any) -> Any:
    return 1000.0 * i + j


def pair(
    shape: tuple[int, int], block_a: Any, block_b: Any, comm: Any = WORLD
) -> tuple[psr.Descriptor, psr.Descriptor]:
    """Rows of processes, then columns of them."""
    rows, columns = psr.ProcessGrid((SIZE, 1), comm), psr.ProcessGrid((1, SIZE), comm)
    return psr.Descriptor(shape, block_a, rows), psr.Descriptor(shape, block_b, columns)


def moves(plan: psr.Redistribution) -> None:
    out = plan(plan.desc_a.from_function(value))
    assert np.array_equal(out, plan.desc_b.from_function(value))


# -- LogSteps: maxima and blocks of all ranks, in few steps


def content(source: int, target: int, nbytes: int) -> np.ndarray:
    return np.random.default_rng([source, target]).integers(0, 256, nbytes).astype(np.uint8)


def few_steps() -> None:
    """For several radices, with and without blocks on each rank, used several times."""
    comm = WORLD.Dup()
    channel, ranks = MPIChannel(comm), tuple(range(SIZE))
    for radix, block in itertools.product((2, 3, 4, SIZE, SIZE + 3), (8, 1000)):
        for without in ((), (SIZE - 1,), ranks[1:], ranks[::2], ranks):
            for tag in (None, 7):
                check_steps(channel, max(2, radix), block, without, tag)
    for radix in (2, 3, 4, SIZE):
        work = work_of(SIZE, max(2, radix))
        assert (work.messages == 0) == (SIZE == 1)
        assert radix < SIZE or work.messages == work.blocks == SIZE - 1
    comm.Free()


def check_steps(channel: MPIChannel, radix: int, block: int, without: tuple[int, ...], tag: int | None) -> None:
    steps = LogSteps(channel, radix, 3, tag=tag)
    for use in range(3):
        steps.largest[:] = RANK, -RANK, use * (RANK == SIZE // 2)
        rows = None
        if RANK not in without:
            blocks = np.zeros((SIZE, block), np.uint8)
            lengths = [0] + [block - use] * (SIZE - 1)
            for j, length in enumerate(lengths):
                blocks[j, :length] = content(RANK, (RANK + j) % SIZE, length)
            rows = Rows(blocks, lengths)
        steps.start(rows, use)
        wait_until(steps.advance)
        assert steps.largest.tolist() == [SIZE - 1, 0, use], (radix, steps.largest)
        for j in range(1, SIZE if rows is not None else 1):
            source = (RANK - j) % SIZE
            if source not in without:
                came = rows.blocks[j, : block - use]
                assert np.array_equal(came, content(source, RANK, block - use)), (radix, block, source)
    steps.free()


def with_vote(radix: int, messages: int) -> None:
    """Small messages between nodes travel with the vote: few for each rank, however many peers it has. Each is a node."""
    plan = psr.redistribute(*pair((60, 40), (2, 3), (3, 2)))
    group = plan.plan.group
    assert group is not None
    assert group.radix == radix
    assert "bruck" in str(plan.report()), plan.report()
    assert work_of(SIZE, radix).messages == messages
    sent, send = [0], group.channel.send

    def counted(*arguments: Any) -> Any:
        sent[0] += 1
        return send(*arguments)

    group.channel.send = counted  # type: ignore[method-assign]
    a, b = plan.desc_a, plan.desc_b

    def local(desc: psr.Descriptor, k: int) -> np.ndarray:
        return desc.from_function(lambda i, j: k + value(i, j))

    out = b.empty(np.float64)
    for k in range(5):
        order = "C" if k == 3 and RANK == 1 else "F"  # packed in another order than by the others
        assert plan(np.array(local(a, k), order=order), out) is out
        assert np.array_equal(out, local(b, k)), k
        assert sent[0] == 0, (k, sent)  # all goes in the messages of the vote, which are persistent requests
    refused_and_right(plan, local, out)
    both = [plan.start(local(a, k)) for k in (10, 11)]
    for k, transfer in reversed(list(enumerate(both))):
        assert np.array_equal(transfer.wait(), local(b, 10 + k))
    moves(psr.redistribute(*pair((800, 900), (2, 3), (3, 2)), exchange="bruck"))


def refused_and_right(plan: Any, local: Callable[[psr.Descriptor, int], np.ndarray], out: np.ndarray) -> None:
    """Calls that rank 1 makes with another dtype, which leave `out` as it was, and right ones after them."""
    for _ in range(2):
        before, wrong = out.copy(), RANK == 1
        with pytest.raises(psr.ArrayError if wrong else psr.CollectiveError, match="float32" if wrong else "rank 1"):
            plan(local(plan.desc_a, 7), out.astype(np.float32) if wrong else out)
        assert np.array_equal(out, before)
        plan(local(plan.desc_a, 8), out)
        assert np.array_equal(out, local(plan.desc_b, 8))


def packed(most: int) -> None:
    """One message from node to node, and at most so many from a rank, for all that goes; as before where that is too much."""
    plan = psr.redistribute(*pair((60, 40), (2, 3), (3, 2)), exchange="node-packed")
    group = plan.plan.group
    assert group is not None
    assert group.node is not None
    assert "node-packed" in str(plan.report()), plan.report()
    node_of, sent = group.node.leaders.tolist(), list[tuple[int, int]]()
    channel: Any = group.channel

    def counted(send: Any, buffer: Any, peer: int, tag: int) -> Any:
        sent.append((node_of[RANK], node_of[peer]))
        return send(buffer, peer, tag)

    for name in ("send", "send_synchronously"):
        setattr(channel, name, functools.partial(counted, getattr(channel, name)))
    a, b = plan.desc_a, plan.desc_b

    def local(desc: psr.Descriptor, k: int) -> np.ndarray:
        return desc.from_function(lambda i, j: k + value(i, j))

    out, nodes = b.empty(np.float64), sorted(set(node_of))
    once = Counter(itertools.permutations(nodes, 2))
    for k in range(5):
        order = "C" if k == 3 and RANK == 1 else "F"  # in another order than by the others
        assert plan(np.array(local(a, k), order=order), out) is out
        assert np.array_equal(out, local(b, k)), k
        assert len(sent) <= most, (k, sent)
        assert sum(map(Counter, WORLD.allgather(sent)), Counter()) == once, k
        sent.clear()
    refused_and_right(plan, local, out)
    several = [plan.start(local(a, k)) for k in (10, 11, 12)]
    for k, transfer in reversed(list(enumerate(several))):
        assert np.array_equal(transfer.wait(), local(b, 10 + k))
    sent.clear()
    moves(psr.redistribute(*pair((800, 900), (2, 3), (3, 2)), exchange="node-packed"))
    assert len(sent) > most, "too much to be packed, and goes from rank to rank"
    moves(psr.redistribute(*pair((60, 40), (2, 3), (3, 2)), exchange="node-packed", memory_limit=1000))
    once_agreed = psr.redistribute(a, b, exchange="node-packed", agree="first")
    for k in range(40):
        assert np.array_equal(once_agreed(local(a, k)), local(b, k)), k


def chosen_if_faster() -> None:
    """By auto where a rank has many small messages to other nodes, of which two nodes of four ranks have few."""
    moves(plan := psr.redistribute(*pair((66, 66), (2, 2), (3, 3))))
    assert plan.report().exchange == "shared"
    node_packed.FEWEST = 4
    for shape, exchange in (((64, 64), "node-packed"), ((16, 16), "node-packed"), ((4000, 100), "shared"), ((0, 5), "shared")):
        plan = psr.redistribute(*pair(shape, (2, 2), (3, 3)))
        assert plan.report().exchange == exchange, (shape, plan.report())
        moves(plan)
        assert psr.redistribute(*pair(shape, (2, 2), (3, 3)), agree="first").report().exchange == "shared"


# -- messages and pieces


def cut_messages() -> None:
    """Two ranks with several steps in a schedule have a message in each, and nothing is lost."""
    grid = psr.ProcessGrid((3, 1), WORLD)
    a, b = psr.Descriptor((85, 4), (1, 4), grid), psr.Descriptor((85, 4), (7, 4), grid)
    ways = [(exchange, "packed") for exchange in ("nonblocking", "sendrecv", "windowed", "shared")]
    for exchange, buffers in (*ways, ("nonblocking", "datatypes"), ("windowed", "datatypes")):
        plan = psr.redistribute(a, b, dtype=np.float64, schedule="walker-otto", exchange=exchange, buffers=buffers)
        out = plan(a.from_function(value) if a.coords is not None else None)
        assert out is None if b.coords is None else np.array_equal(out, b.from_function(value)), (exchange, buffers)
        peers = [message.peer for message in plan.messages_of(RANK)["send"]]
        assert len(peers) > len(set(peers)) or RANK == 3, "no message is cut"


def one_search(exchange: str) -> None:
    """Where each rank would find other steps "auto" takes those of one rank: both ends of a message have it in one step."""

    def shuffled(steps: list[Any]) -> list[Any]:
        return steps[RANK % len(steps) :] + steps[: RANK % len(steps)]

    with mock.patch.object(layout_orders, "_shuffle", shuffled):
        plan = psr.redistribute(*pair((500, 400), (7, 5), (8, 3)), exchange=exchange, schedule="auto")
    assert plan.schedule.name == "stepwise", plan.report()
    sends, receives, _ = plan.plan.stages[0].moves[0].messages
    steps_of_sends = [(RANK, message.peer, message.key) for message in sends]
    sent = {step for steps in WORLD.allgather(steps_of_sends) for step in steps if step[1] == RANK}
    assert sent == {(message.peer, RANK, message.key) for message in receives}
    moves(plan)
    failure = mock.patch.object(make, "choose", mock.Mock(side_effect=MemoryError("none left")))
    with (
        failure if RANK == 1 else contextlib.nullcontext(),  # while the others search
        pytest.raises(MemoryError if RANK == 1 else psr.CollectiveError, match="none left"),
    ):
        psr.redistribute(*pair((500, 400), (7, 6), (8, 3)), exchange=exchange, schedule="auto")
    moves(plan)


def short_pieces() -> None:
    """On slow links all messages are under way at once, in short pieces and in synchronous mode. Each rank is a node."""
    n, peers = 512, SIZE - 1
    plan = psr.redistribute(*pair((n, n), (1, n), (n, 1)), dtype=np.float64)
    assert plan.report().exchange in ("windowed", "shared"), plan.report()
    assert plan.plan.group is not None
    channel: Any = plan.plan.group.channel
    sent: list[tuple[int, int]] = []
    synchronous = channel.send_synchronously

    def send(buffer: Any, peer: int, tag: int) -> MPI.Request:
        sent.append((peer, buffer[1]))
        return synchronous(buffer, peer, tag)

    channel.send_synchronously = send
    moves(plan)
    message = (n // SIZE) ** 2 * 8
    others = (peer for peer in range(SIZE) if peer != RANK)
    assert Counter(peer for peer, _ in sent) == dict.fromkeys(others, -(-message // SHORTEST_PIECE))
    assert sum(nbytes for _, nbytes in sent) == peers * message
    assert max(nbytes for _, nbytes in sent) <= SHORTEST_PIECE
    at_first = Counter(peer for peer, _ in sent[: FEW * peers])  # before any is through
    assert set(at_first.values()) == {FEW}, sent


def elements_alone() -> None:
    """All elements are 0 and all new memory is not: no more than the order of elements, 1 or 2, goes beside them."""
    comm, exchange, sent = WORLD.Dup(), "", []
    channel, vote = group_of(comm).channel, 8 * (2 * len(RULES) + 1)

    def record(buffer: Any, first: int) -> None:
        memory = buffer[0][: buffer[1]] if isinstance(buffer, tuple) else buffer
        sent.append(np.frombuffer(memory, np.uint8)[first:].copy())

    def recorded(send: Any) -> Any:
        def call(buffer: Any, peer: int, tag: int) -> Any:
            if tag % TAGS == DATA:
                record(buffer, 8 if exchange == "bruck" else 0)  # the bytes of a block
            return send(buffer, peer, tag)

        return call

    class Vote:
        def __init__(self, buffer: Any, *ends: int) -> None:
            self.buffer, request = buffer, send_init(buffer, *ends)
            self.request, self.Test, self.Free = request, request.Test, request.Free

        def Start(self) -> None:  # noqa: N802 - as MPI's requests have it
            record(self.buffer, vote)
            self.request.Start()

    def filled(*arguments: Any, **options: Any) -> Any:
        array = empty(*arguments, **options)
        if array.dtype == np.uint8:
            array.fill(255)
        return array

    empty, send_init = np.empty, channel.send_init
    channel.send, channel.send_synchronously = recorded(channel.send), recorded(channel.send_synchronously)
    channel.send_init = Vote
    for exchange, shape, limit in itertools.product(
        ("nonblocking", "windowed", "synchronized", "sendrecv", "bruck"), ((9, 7), (90, 70)), (8000, 2**20)
    ):
        a, b = pair(shape, (2, 3), (5, 1), comm)
        plan = psr.redistribute(a, b, exchange=exchange, memory_limit=limit)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(np, "empty", filled)
            for _ in range(3):
                assert not plan(a.zeros(), b.zeros()).any()
        assert max(map(np.max, filter(len, sent)), default=0) <= 2, (exchange, shape, limit)
    comm.Free()


def links(what: str) -> None:
    """What messages between nodes cost: "measured", read from a "file", or an "error" on all ranks. Two nodes of two ranks."""
    a, b = pair((300, 300), 7, 7)
    if what == "error":
        with pytest.raises(psr.CollectiveError if RANK else psr.RedistributionError, match="PYSCALAPACK_REDIST_LINKS"):
            psr.redistribute(a, b)
        return
    plan = psr.redistribute(a, b)
    before = plan.report(np.float64)
    assert before.links is not None
    assert before.links.nodes == 2
    assert before.last_seconds is None
    assert before.predicted_seconds is not None
    if what == "measured":
        assert before.links.latency > 0
        assert before.links.rate > 0
    else:
        assert before.links[:2] == (0.5, 8000.0), before.links
        away = [
            2 * sum(message.size for message in plan.messages[way] if message.peer // 2 != RANK // 2)
            for way in ("send", "receive")
        ]
        busiest = WORLD.allreduce(max(away), MPI.MAX)
        # The vote of two nodes, in one step, and the start of a message are twice the latency.
        assert np.isclose(before.predicted_seconds, 2 * 0.5 + 8 * busiest / 8000)
        # Four elements, one for each rank, travel in one step after the vote: a block for each other rank.
        few = psr.redistribute(*pair((4, 4), (1, 4), (4, 1)), exchange="bruck").report(np.float64)
        assert np.isclose(few.predicted_seconds, 2 * 0.5 + 2 * 3 * (8 + HEADER) / 8000), few.predicted_seconds
    moves(plan)
    after = plan.report(np.float64)
    assert after.last_seconds is not None
    assert after.last_seconds > 0
    assert "last run" in str(after)
    assert psr.redistribute(b, a).report().links == before.links  # not measured again


def last_run() -> None:
    """Ordinary calls that move enough are timed, each."""
    a, b = pair((400, 300), 7, 11)
    plan = psr.redistribute(a, b)
    local, out = a.from_function(lambda i, j: i + 0.5 * j), b.zeros()
    assert plan.report().last_seconds is None
    times = []
    for _ in range(6):
        plan(local, out=out)
        times.append(plan.report().last_seconds)
    assert min(times) > 0
    assert len(set(times)) > 2, times
    assert psr.redistribute(a, b, agree="first").report().last_seconds is None


# -- memory


def large_chunks(calls: int) -> None:
    """Chunks so large that they are written past the cache in turn with others, while every call is checked."""
    for block, dtype, op in (
        (64, "f8", "N"),
        (8, "f4", "N"),
        (7, "f8", "N"),
        (31, "D", "N"),
        (1, "f8", "N"),
        (40, "f8", "T"),
    ):
        plan = psr.redistribute(*pair((1210, 1210), block, (block + 5, block)), exchange="shared", op=op)
        before = plan.desc_a.from_function(lambda i, j: (1001 * i + j) % 30011, dtype)
        wanted = plan.desc_b.from_function(
            lambda i, j, op=op: (1001 * (i if op == "N" else j) + (j if op == "N" else i)) % 30011, dtype
        )
        for _ in range(calls):
            out = np.zeros_like(wanted)
            assert np.array_equal(plan(before, out), wanted), f"blocks of {block}, {dtype}, {op}"
            again = plan(before, out, alpha=2, beta=-1)
            assert np.array_equal(again, wanted), f"blocks of {block}, {dtype}, {op}: a sum"
    assert plan.plan.group is not None
    assert plan.plan.group.node is not None
    ring = plan.plan.group.node.ring
    assert ring is not None
    ways = [way for rank, way in enumerate(ring.streams_by_rank()) if rank != ring.rank]
    assert None not in ways, f"how the other ranks of the node write chunks was not tried: {ways}"


def shared_memory() -> None:
    """Which memory the ranks of a node share, and what happens where they may not."""
    memory_file = node._memory_file

    def refused(size: int, at_end: contextlib.ExitStack) -> tuple[int, str]:
        raise OSError("not permitted here")

    def elsewhere(size: int, at_end: contextlib.ExitStack) -> tuple[int, str]:
        """A file that the others take for another one, as where processes do not see one another."""
        descriptor, _ = memory_file(size, at_end)
        return descriptor, f"/proc/self/fd/{os.open('/dev/zero', os.O_RDWR)}"

    for first, second, says in (
        (None, None, r"\(memfd\)"),
        (refused, None, r"\(/dev/shm\)"),
        (refused, refused, "no shared memory: not permitted here; not permitted here, so by MPI"),
        (elsewhere, None, r"\(/dev/shm\)"),
        (elsewhere, refused, "no shared memory: [^;]*; not permitted here, so by MPI"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            for name, function in (("_memory_file", first), ("_shm_file", second)):
                if function is not None and RANK == 0:
                    patch.setattr(node, name, function)
            duplicate = WORLD.Dup()  # memory is asked for again
            plan = psr.redistribute(*pair((90, 70), 4, (9, 5), duplicate), exchange="shared")
            for _ in range(2):
                moves(plan)
            assert re.search(says, str(plan.report())), plan.report()
            duplicate.Free()
    with pytest.MonkeyPatch.context() as patch:  # which file, and what to do
        patch.setattr(node, "SHARED_FOLDER", "/dev/shm/absent")
        if RANK == 0:
            patch.setattr(node, "_memory_file", refused)
        duplicate = WORLD.Dup()
        plan = psr.redistribute(*pair((90, 70), 4, (9, 5), duplicate), exchange="shared")
        moves(plan)
        says = "/dev/shm/absent/pyscalapack_redist-[0-9a-f]*: No such file or directory: mount a tmpfs at /dev/shm"
        assert re.search(says, str(plan.report())), plan.report()
        duplicate.Free()
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("pyscalapack_redist")] or RANK


# -- derived datatypes of random boxes list the elements that the packing loops list, in order


def random_runs(rng: np.random.Generator) -> Runs:
    """Runs of equal or of different lengths and distances, over whole periods or not."""
    n = int(rng.integers(1, 6))
    length = rng.integers(1, 5, n) if rng.random() < 0.6 else np.full(n, rng.integers(1, 4))
    gaps = rng.integers(0, 4, (2, n)) if rng.random() < 0.6 else np.repeat(rng.integers(0, 4, (2, 1)), n, axis=1)
    x, y = (rng.integers(0, 4) + np.cumsum(length + gap) - length - gap for gap in gaps)
    periods = [int(side[-1] + length[-1] + rng.integers(0, 3)) for side in (x, y)]
    return Runs(x, y, length, *periods, int(rng.integers(1, 3 * length.sum() + 1)))


def check_box(rng: np.random.Generator) -> None:
    dimensions = int(rng.integers(1, 5))
    box = Box([random_runs(rng) for _ in range(dimensions)])
    item, order = int(rng.integers(1, 30)), tuple(rng.permutation(dimensions).tolist())
    for target in (False, True):
        extent = tuple(int(runs.expand()[:, int(target)].max()) + 1 for runs in box.runs)
        room = tuple(n * int(rng.integers(1, 3)) for n in extent)
        layout = rng.permutation(dimensions)
        whole = rng.integers(0, 256, (*np.array(room)[layout], item), np.uint8).view(f"V{item}")[..., 0]
        whole = whole.transpose(np.argsort(layout))
        array = whole[tuple(slice(None, None, sign) for sign in rng.choice([1, -1], dimensions))]
        address = array.__array_interface__["data"][0]
        packed = np.empty(box.size * item, np.uint8)
        made = datatypes.box_type(box, target, array.strides, item, order)
        assert made.Get_size() == packed.size
        MPI.COMM_SELF.Sendrecv((memory_at(address), 1, made), 0, 0, (packed, packed.size, MPI.BYTE), 0, 0)
        made.Free()
        places = [runs.expand()[:, int(target)] for runs in box.runs]
        expected = array[np.ix_(*places)].transpose(order[::-1]).tobytes()
        assert packed.tobytes() == expected, (box.shape(), item, order, array.strides, target)


def boxes(cases: int, seed: int) -> None:
    """Elements side by side are a contiguous type: MPICH copies the elements of a vector singly, 15 times slower."""
    every = [Runs(np.array([0]), np.array([0]), np.array([n]), n, n, n) for n in (7, 4)]
    column = [every[0], Runs(*np.zeros((2, 1), int), np.array([1]), 1, 1, 1)]
    contiguous, vector = MPI.COMBINER_CONTIGUOUS, MPI.COMBINER_HVECTOR
    for runs, strides, combiner in (
        (column, (1, 7), contiguous),
        (every, (1, 7), contiguous),
        (every, (2, 14), vector),
    ):
        made = datatypes.box_type(Box(runs), False, strides, 1, (0, 1))
        assert made.combiner == combiner
        made.Free()
    for largest in (datatypes.LARGEST_COUNT, 3):  # the second as if counts ended there
        datatypes.LARGEST_COUNT = largest
        for case in range(cases):
            check_box(np.random.default_rng([seed, case]))


def main() -> None:
    name, *arguments = sys.argv[1:]
    globals()[name](*(int(word) if word.isdecimal() else word for word in arguments))
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
