"""Each public collective call by one rank alone: it says which call waits, and for whom, and raises after the limit of time.

Each rank makes other calls than the rest, on a communicator for each. Arguments: a folder; "some" for one routine of linalg
and of scalapack. Two ranks or more.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import sys
from collections.abc import Callable

import pytest
from collective_calls import ALWAYS_FIRST, FIRST, TABLE, call_between, call_on, folder_of, make_two_sides, scene_of
from mpi4py import MPI
from operations import Operation

import pyscalapack_redist as psr
from pyscalapack_redist.comm import waiting
from pyscalapack_redist.comm.groups import group_of

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
PATIENCE, LIMIT, ANSWER = 0.2, 0.6, 0.1
OTHERS = ", ".join(f"rank {rank}" for rank in range(SIZE) if rank != RANK)
SOME = ("linalg.solve", "scalapack.pxgetrf")
HAVE = "has" if SIZE == 2 else "have"


def waits(name: str, call: Callable[[], object], words: str, rest: str) -> None:
    """The call is reported, and raises."""
    output = io.StringIO()
    with contextlib.redirect_stderr(output), pytest.raises(psr.WaitTimeoutError) as caught:
        call()
    for text in (output.getvalue(), str(caught.value)):
        assert f"rank {RANK} has waited for " in text, (name, text)
        assert (words or f"{name}()") in text, (name, text)
        assert rest in text, (name, text)
    assert output.getvalue().count("\n") == 1, (name, output.getvalue())
    assert isinstance(caught.value, TimeoutError)


def limited(on: bool) -> None:
    """Set the limits of groups that are made from now on."""
    os.environ["PYSCALAPACK_REDIST_PATIENCE"] = str(PATIENCE if on else 30)
    os.environ["PYSCALAPACK_REDIST_TIMEOUT"] = str(LIMIT if on else 0)


def later_calls(rows: dict[str, Operation]) -> None:
    """Calls over ranks that have made others."""
    scenes = []
    for number, row in enumerate(rows.values()):
        comm = WORLD.Dup()
        call_on(comm)
        scenes.append(scene_of(row, comm, folder_of(sys.argv), number))
    for scene in scenes:
        group_waiting = group_of(scene.comm)._waiting
        group_waiting._timeout, group_waiting._limit = PATIENCE, LIMIT
    WORLD.Barrier()
    for (name, row), scene in itertools.islice(zip(rows.items(), scenes, strict=True), RANK, None, SIZE):
        waits(name, lambda row=row, scene=scene: row.call(scene), row.words, f": {OTHERS} {HAVE} not called it")  # type: ignore[misc]
        if name != "ProcessGrid.close":
            with pytest.raises(psr.RedistributionError, match=r"cannot redistribute any more|has aborted"):
                row.call(scene)
    WORLD.Barrier()


def first_calls() -> None:
    """Rank 0 gives up; the others come later, and hear of it."""
    path = folder_of(sys.argv) / "0.npy"
    for name, row in FIRST.items():
        value = row.before(WORLD.Dup())
        WORLD.Barrier()
        limited(RANK == 0)
        if RANK == 0:
            waits(name, lambda row=row, value=value: row.call(path, value), "", "rank 1 has not called it")  # type: ignore[misc]
            with pytest.raises(psr.CollectiveError, match="cannot redistribute any more"):
                row.call(path, value)
        WORLD.Barrier()
        if RANK:
            with pytest.raises(psr.CollectiveError, match=r"rank \d has (aborted|ended)"):
                row.call(path, value)
        WORLD.Barrier()
        limited(False)


def two_sides() -> None:
    """The first call between two sides, by one rank."""
    sides = make_two_sides(WORLD.Dup())
    limited(True)
    WORLD.Barrier()
    if RANK == 0:
        waits("redistribute", lambda: call_between(sides), "", "not all of them have called it")
        with pytest.raises(psr.CollectiveError, match="these two sides cannot redistribute any more"):
            call_between(sides)
    limited(False)
    WORLD.Barrier()
    if RANK:
        sides[0].Ibarrier().Wait()  # so that nothing is left
    WORLD.Barrier()


def main() -> None:
    waiting.ANSWER_SECONDS = ANSWER
    left_out = set(ALWAYS_FIRST)
    if sys.argv[2:] == ["some"]:
        left_out |= {name for name in TABLE if name.startswith(("linalg.", "scalapack."))} - {*SOME}
    later_calls({name: row for name, row in TABLE.items() if name not in left_out})
    first_calls()
    if SIZE % 2 == 0:
        two_sides()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
