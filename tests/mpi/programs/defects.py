"""Small programs that once gave wrong elements, hung, or lost a communicator without need, on two or four ranks. Where an error
is made on one rank, the plan is called once more afterwards.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE, LAST = WORLD.rank, WORLD.size, WORLD.size - 1


def by(dimension: str, n: int, block: int, ranks: int = SIZE) -> psr.Descriptor:
    """A square matrix by rows or by columns."""
    shape = (ranks, 1) if dimension == "rows" else (1, ranks)
    return psr.Descriptor((n, n), block, psr.ProcessGrid(shape, WORLD, ranks=np.arange(ranks).reshape(shape)))


def numbered(desc: psr.Descriptor, dtype: DTypeLike = float, salt: int = 0, order: Any = "F") -> NDArray[Any]:
    """This rank's local array of an array that is the same for all layouts; every byte of large elements tells them apart."""
    weights = [int(np.prod(desc.shape[k + 1 :])) for k in range(desc.ndim)]
    local = desc.from_function(lambda *index: salt + sum(w * i for w, i in zip(weights, index, strict=True)), np.int64)
    kind = np.dtype(dtype)
    if kind.kind != "V":
        return np.array(local.astype(kind), order=order)
    pattern = (local[..., None] * 7 + np.arange(kind.itemsize)) % 251
    return np.array(pattern.astype(np.uint8).view(kind)[..., 0], order=order)


class Move:
    """A plan, and arrays for it."""

    def __init__(self, a: psr.Descriptor, b: psr.Descriptor, dtype: DTypeLike = float, **options: Any) -> None:
        self.a, self.b, self.dtype, self.plan = a, b, dtype, psr.redistribute(a, b, **options)

    def source(self, salt: int = 0, order: str = "F") -> NDArray[Any]:
        return numbered(self.a, self.dtype, salt, order)

    def out(self, order: Any = "F") -> NDArray[Any]:
        return np.zeros(self.b.local_shape, self.dtype, order=order)  # type: ignore[call-overload]

    def check(self, found: Any, salt: int = 0) -> None:
        assert found.tobytes() == numbered(self.b, self.dtype, salt).tobytes(), salt

    def works(self, times: int = 3) -> None:
        for salt in range(1, 1 + times):
            self.check(self.plan(self.source(salt), self.out()), salt)


def turned(n: int = 64, **options: Any) -> Move:
    """Every rank has something for every other."""
    return Move(by("rows", n, 8), by("columns", n, 8), **options)


def datatypes_in_either_order() -> None:
    """Rank 0 has A now by rows, now by columns, and the others by rows: a run may begin in one order and go in the other."""
    for exchange in "nonblocking", "windowed", "synchronized", "sendrecv", "ready", "alltoallw":
        move = turned(exchange=exchange, buffers="datatypes")
        for salt, order in enumerate("CFCFCF"):
            move.check(move.plan(move.source(salt, "C" if RANK else order), move.out()), salt)


def factors_with_signs_of_zeros() -> None:
    """Equal factors on all ranks, one of which has an array of another kind than before."""
    move = turned()
    a, b = (numbered(desc) + 1j for desc in (move.a, move.b))
    for first, second in ((2 + 0j, 2 - 0j), (0.0, -0.0), (-0.0, 0)):
        for factor, order in ((first, "F"), (first, "F"), (second, "C" if RANK else "F")):
            assert np.array_equal(move.plan(np.array(a, order=order), alpha=factor), factor.real * b)
    assert not move.plan(a, alpha=-0.0 if RANK else 0.0).any()
    with pytest.raises(psr.ArrayError, match="alpha is beyond the numbers of float64"):
        move.plan(a, alpha=10**400)


def tiles_and_copies_that_no_rank_knows_both() -> None:
    if SIZE < 3:
        return
    others = np.arange(1, SIZE)
    tiles = psr.Tiles([0, 4], [0, 3, 6], [[0, 0]], WORLD)
    copies = psr.Descriptor((4, 6), 2, psr.ProcessGrid(others.shape, WORLD, ranks=others), axes=(None, None))
    tiled, copied = (layout.from_function(lambda i, j: 10.0 * i + j) for layout in (tiles, copies))
    for schedule in "auto", "natural", "optimal":
        for mine in ((tiles, None), (None, copies)), ((None, tiles), (copies, None)):
            plan = psr.redistribute(*mine[min(RANK, 1)], comm=WORLD, dtype=float, schedule=schedule)  # type: ignore[call-overload]
            if mine[0][0] is tiles:
                found = plan(tiled if RANK == 0 else None)
                assert found is None if RANK == 0 else np.array_equal(found, copied)
            else:
                found = plan(None if RANK == 0 else copied)
                assert RANK != 0 or all(map(np.array_equal, found, tiled))
    mine = (None, tiles) if RANK == 0 else (copies, None)
    with pytest.raises(psr.ScheduleError, match="reduce = 'sum' with tiles"):
        psr.redistribute(*mine, comm=WORLD, dtype=float, reduce="sum")  # type: ignore[call-overload]
    turned().works()


def large_elements() -> None:
    """Elements larger than a rank's share of the memory for messages, also in a batch with small ones."""
    kind = np.dtype([("bytes", "u1", ({2: 3_000_000, 4: 800_000}[SIZE],))])
    move, small = Move(by("rows", SIZE, 1), by("columns", SIZE, 1), kind), turned()
    found = psr.batch(move.plan, small.plan)([move.source(), small.source()], [move.out(), small.out()])
    move.check(move.plan(move.source(), move.out()))
    move.check(found[0])
    small.check(found[1])


def just_enough_memory() -> None:
    """An element of 130 bytes for each other rank here, and as much for other nodes; it may be refused."""
    most = 130 * (SIZE if "PYSCALAPACK_REDIST_NODES" in os.environ else SIZE - 1)
    move = Move(by("rows", 12, 1), by("columns", 12, 1), "V130", memory_limit=most)
    found = None
    with contextlib.suppress(psr.RedistributionError):
        found = move.plan(move.source(3), move.out())
    assert WORLD.allreduce(found is None) in (0, SIZE)
    if found is not None:
        move.check(found, 3)
    move.dtype = "V100"
    move.works()


def in_place_on_one_rank_only() -> None:
    move = Move(by("rows", 64, 8), by("rows", 64, 8), via="dimensions")
    a = move.source(3)
    move.check(move.plan(a, a if RANK == 0 else None), 3)
    move.works()


def another_call_while_in_flight() -> None:
    """Two ranks have a transfer in flight; one calls something of all before it waits, the other waits before it calls."""
    desc = by("rows", 64, 8)
    with folder() as path:
        calls: list[Callable[[], object]] = [
            lambda: Move(by("rows", 64, 4), by("columns", 64, 4)).works(1),  # for the first time
            lambda: psr.save(desc, numbered(desc), path / "array.npy"),
            lambda: np.testing.assert_array_equal(psr.load(desc, path / "array.npy"), numbered(desc)),
        ]
        for call in calls:
            if RANK < 2:
                move = Move(by("rows", 600, 8, 2), by("columns", 600, 8, 2), memory_limit=2**16)
                transfer = move.plan.start(move.source(1), move.out())
            if RANK != 1:
                call()
            if RANK < 2:
                move.check(transfer.wait(), 1)
            if RANK == 1:
                call()


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A directory that all ranks see, until all are done with it."""
    made = tempfile.TemporaryDirectory() if RANK == 0 else None
    yield Path(WORLD.bcast(None if made is None else made.name))
    WORLD.Barrier()
    if made is not None:
        made.cleanup()


def test_does_not_wait_for_the_one_that_failed() -> None:
    """The last rank has a wrong array, and is in a barrier before it waits; the others test, then come to the barrier."""
    move = turned()
    out = move.out()
    transfer = move.plan.start(np.zeros((3, 3)) if RANK == LAST else move.source(), out)
    with contextlib.suppress(psr.CollectiveError):
        for _ in range(0 if RANK == LAST else 300):
            assert not transfer.test()
    WORLD.Barrier()
    with pytest.raises(psr.ArrayError if RANK == LAST else psr.CollectiveError):
        transfer.wait()
    assert not out.any()
    move.works()


def no_file_left_while_waiting() -> None:
    """A process that can open no file is not taken for one that sees another's death."""
    move = turned()
    move.works()
    if RANK == LAST:
        time.sleep(0.5)
        move.works(1)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 3, hard))
    files = []
    with contextlib.suppress(OSError):
        while True:
            files.append(os.open("/dev/null", os.O_RDONLY))
    move.works(1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for file in files:
        os.close(file)


def a_forked_process() -> None:
    """The child of the last rank may call nothing; the others get the elements of its parent."""
    for options in {}, {"exchange": "windowed"}:
        move = turned(**options)
        move.works()
        transfer = move.plan.start(move.source(1), move.out())
        if RANK == LAST:
            child = os.fork()
            if not child:
                os._exit(calls_of_a_forked_process(move, transfer))
            assert os.waitpid(child, 0)[1] == 0
        move.check(transfer.wait(), 1)
        move.works()


def calls_of_a_forked_process(move: Move, transfer: Any) -> int:
    """0 where each is refused."""
    text = f"was forked .* from rank {LAST} of COMM_WORLD, which alone may use MPI: redistribute there"
    calls: list[Callable[[], object]] = [
        transfer.wait,
        lambda: move.plan(move.source(9), move.out()),
        lambda: move.plan.start(move.source(9)),
        lambda: psr.redistribute(move.a, move.b),
        lambda: psr.gather(move.a, move.source(9)),
    ]
    try:
        for call in calls:
            with pytest.raises(psr.CollectiveError, match=text):
                call()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


ALONE = (no_file_left_while_waiting,)  # what else a process has open matters
DEFECTS = (
    datatypes_in_either_order,
    factors_with_signs_of_zeros,
    tiles_and_copies_that_no_rank_knows_both,
    large_elements,
    just_enough_memory,
    in_place_on_one_rank_only,
    another_call_while_in_flight,
    test_does_not_wait_for_the_one_that_failed,
    a_forked_process,
)


def main() -> None:
    for defect in ALONE if "alone" in sys.argv else DEFECTS:
        defect()
        WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
