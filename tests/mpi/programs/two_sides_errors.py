"""Bad input on one side of an inter-communicator, and jobs that cannot meet: a named error on every rank, and the next is good.

Argument: a folder. Run on at least three ranks: two on one side.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.connection import connect as connection
from pyscalapack_redist.connection import rendezvous

WORLD = MPI.COMM_WORLD
FIRST = WORLD.Get_rank() < 2
COMM = WORLD.Split(int(FIRST), WORLD.Get_rank())
INTER = COMM.Create_intercomm(0, WORLD, 2 if FIRST else 0, 3)
RANK = COMM.Get_rank()
SHAPE = (13, 11)


def layout(shape: tuple[int, int] = SHAPE, block: int = 2) -> psr.Descriptor:
    return psr.Descriptor(shape, block, psr.ProcessGrid((COMM.Get_size(), 1), COMM))


def plan(desc: Any, sends: bool, **options: Any) -> psr.Redistribution:
    return psr.redistribute(*((desc, None) if sends else (None, desc)), comm=INTER, **options)


def expect(call: Callable[[], object], *words: str) -> None:
    with pytest.raises(psr.RedistributionError) as caught:
        call()
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in {caught.value}"


def still_good() -> None:
    mine = layout().from_function(lambda i, j: 100 * i + j, np.float64)
    got = plan(layout(), FIRST, dtype=np.float64)(mine if FIRST else None)
    assert (got is None) == FIRST
    assert FIRST or np.array_equal(got, mine)
    sides = (psr.DistributedArray(layout(), mine), None) if FIRST else (None, layout())
    array = psr.redistribute(*sides, comm=INTER)  # one side passes an array, so both get one
    assert isinstance(array, psr.DistributedArray)
    assert array.dtype == np.float64
    assert FIRST or np.array_equal(array.local, mine)


def which_descriptors() -> None:
    neither = "neither desc_a nor desc_b is given: give desc_a alone on the side that has the array"
    both = "both desc_a and desc_b are given: give desc_a alone"
    expect(lambda: psr.redistribute(None, None, comm=INTER), neither)
    expect(lambda: psr.redistribute(layout(), layout(), comm=INTER), both)
    expect(lambda: psr.redistribute(layout(), layout(), comm=INTER) if FIRST else plan(layout(), False), both)
    alone = FIRST and RANK == 1
    where = "" if alone else "rank 1 could not take part" if FIRST else "remote rank 1 could not take part"
    expect(lambda: psr.redistribute(None, None, comm=INTER) if alone else plan(layout(), FIRST), where, neither)
    for sends in (True, False):
        expect(
            lambda sends=sends: plan(layout(), sends),
            "the direction must be the same on every rank",
            f"rank 0 has {'desc_a alone, so its side sends' if sends else 'desc_b alone, so its side receives'}",
            f"remote rank 0 has {'desc_a' if sends else 'desc_b'} alone",
        )


def what_must_agree() -> None:
    larger = (13, 12) if FIRST else SHAPE
    shapes = "desc_a has shape (13, 12) and desc_b (13, 11)", "keeps the global shape"
    expect(lambda: plan(layout(larger), FIRST), *shapes)
    dtypes = "dtype must be the same on every rank", "float32", "float64", "remote rank"
    expect(lambda: plan(layout(), FIRST, dtype=np.float32 if FIRST else np.float64), *dtypes)
    options = "the options must be the same on every rank", "exchange='windowed'"
    expect(lambda: plan(layout(), FIRST, exchange="windowed" if FIRST else "nonblocking"), *options)
    desc, alone = psr.Descriptor(SHAPE, 3, psr.ProcessGrid((1, 1), COMM)), FIRST and RANK == 1
    expect(lambda: plan(desc if alone else layout(), FIRST), "desc_a must be the same on every rank")
    paper = psr.Descriptor(SHAPE, 2, psr.ProcessGrid((1, 1)))
    expect(lambda: plan(paper if not FIRST else layout(), FIRST), "on paper: give it a communicator")
    expect(lambda: plan(layout(), FIRST, via=[layout()]), "comm is an inter-communicator", "give via by name")


def arrays() -> None:
    untold, mine = plan(layout(), FIRST), layout().zeros(np.float64)
    expect(lambda: untold(mine if FIRST else None), "pass out, or redistribute(..., dtype=)")
    told = plan(layout(), FIRST, dtype=None if FIRST else np.float64)
    assert (told(mine if FIRST else None) is None) == FIRST
    expect(lambda: told(mine.astype(np.float32) if FIRST else None), "float32", "for dtype = float64")
    bad = mine[1:] if FIRST and RANK == 0 else mine
    expect(lambda: told(bad if FIRST else None), "a has shape")
    other = None if FIRST else mine.astype(np.int64)
    expect(lambda: untold(mine if FIRST else None, other), "the dtype must be", "int64")


def interrupted(*arguments: Any) -> Any:
    """Rank 0 waits for the other job, and an alarm rings."""
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    return rendezvous.wait_for(*arguments)


def jobs_that_do_not_meet(folder: Path) -> None:
    """Every rank raises, and nothing is left at the meeting place but what was there; an interrupt is one of rank 0."""
    path = folder / "meeting"

    def expect_all(call: Callable[..., object], place: Path, words: str, **options: Any) -> None:
        with pytest.raises(psr.ConnectError) as caught:
            call(place, WORLD, **options)
        assert words in str(caught.value), str(caught.value)
        WORLD.Barrier()

    for call, other in ((psr.accept, "connect"), (psr.connect, "accept")):
        expect_all(call, folder / "nowhere" / "meeting", "there is no such directory", timeout=1)
        words = f"no other job at {path} within 0.05 s: start the other job, which calls psr.{other} with this path"
        expect_all(call, path, words, timeout=0.05)
        assert not list(folder.iterdir())
        WORLD.Barrier()
        handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection, "wait_for", interrupted)
            words, error = r"rank 0 was interrupted \(KeyboardInterrupt\)", psr.ConnectError
            with pytest.raises(
                error if WORLD.Get_rank() else KeyboardInterrupt, match=words if WORLD.Get_rank() else ""
            ):
                call(path, WORLD, timeout=30)
        signal.signal(signal.SIGALRM, handler)
        WORLD.Barrier()  # rank 0 may still be removing its file
        assert not list(folder.iterdir())
        WORLD.Barrier()
        if WORLD.Get_rank() == 0:
            os.mkfifo(f"{path}.accept")
        WORLD.Barrier()
        expect_all(call, path, f"{path}.accept is not a regular file: remove it, or use another path", timeout=1)
        assert [file.name for file in folder.iterdir()] == ["meeting.accept"]
        WORLD.Barrier()
        if WORLD.Get_rank() == 0:
            os.unlink(f"{path}.accept")
        WORLD.Barrier()


def main() -> None:
    for group in (which_descriptors, what_must_agree, arrays, lambda: jobs_that_do_not_meet(Path(sys.argv[1]))):
        group()
        still_good()
    WORLD.Barrier()
    INTER.Disconnect()
    if WORLD.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
