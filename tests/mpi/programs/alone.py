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
from typing import Any

import pytest
from collective_calls import ALWAYS_FIRST, FIRST, TABLE, Row, Scene, call_between, folder_of, make_two_sides
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import waiting

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
PATIENCE, LIMIT, ANSWER = 0.2, 0.6, 0.1
OTHERS = ", ".join(f"rank {rank}" for rank in range(SIZE) if rank != RANK)
SOME = ("linalg.solve", "scalapack.pxgetrf")
HAVE = "has" if SIZE == 2 else "have"


def waits(name: str, row: Row, scene: Scene, value: Any, rest: str) -> None:
    """The call is reported, and raises."""
    output = io.StringIO()
    with contextlib.redirect_stderr(output), pytest.raises(psr.WaitTimeoutError) as caught:
        row.call(scene, value)
    words = row.words or f"{name}()"
    for text in (output.getvalue(), str(caught.value)):
        assert f"rank {RANK} has waited for " in text, (name, text)
        assert words in text, (name, text)
        assert rest in text, (name, text)
    assert output.getvalue().count("\n") == 1, (name, output.getvalue())
    assert isinstance(caught.value, TimeoutError)


def limited(on: bool) -> None:
    """Set the limits of groups that are made from now on."""
    os.environ["PYSCALAPACK_REDIST_PATIENCE"] = str(PATIENCE if on else 30)
    os.environ["PYSCALAPACK_REDIST_TIMEOUT"] = str(LIMIT if on else 0)


def later_calls(rows: dict[str, Row]) -> None:
    """Calls over ranks that have made others."""
    scenes = []
    for number, row in enumerate(rows.values()):
        scene = Scene(WORLD.Dup(), folder_of(sys.argv), number)
        scenes.append((scene, row.before(scene)))
    for scene, _ in scenes:
        group_waiting = scene.plan.inside.group._waiting
        group_waiting._timeout, group_waiting._limit = PATIENCE, LIMIT
    WORLD.Barrier()
    for (name, row), (scene, value) in itertools.islice(zip(rows.items(), scenes, strict=True), RANK, None, SIZE):
        waits(name, row, scene, value, f": {OTHERS} {HAVE} not called it")
        if name != "ProcessGrid.close":
            with pytest.raises(psr.RedistributionError, match=r"cannot redistribute any more|has aborted"):
                row.call(scene, value)
    WORLD.Barrier()


def first_calls(rows: dict[str, Row]) -> None:
    """Rank 0 gives up; the others come later, and hear of it."""
    for number, (name, row) in enumerate(rows.items()):
        scene = Scene(WORLD.Dup(), folder_of(sys.argv), number)
        value = row.before(scene)
        WORLD.Barrier()
        limited(RANK == 0)
        if RANK == 0:
            waits(name, row, scene, value, "rank 1 has not called it")
            with pytest.raises(psr.CollectiveError, match="cannot redistribute any more"):
                row.call(scene, value)
        WORLD.Barrier()
        if RANK:
            with pytest.raises(psr.CollectiveError, match=r"rank \d has (aborted|ended)"):
                row.call(scene, value)
        WORLD.Barrier()
        limited(False)


def two_sides() -> None:
    """The first call between two sides, by one rank."""
    scene = Scene(WORLD.Dup(), folder_of(sys.argv), 0)
    sides = make_two_sides(scene)
    row = Row(lambda _, sides: call_between(sides))
    limited(True)
    WORLD.Barrier()
    if RANK == 0:
        waits("redistribute", row, scene, sides, "not all of them have called it")
        with pytest.raises(psr.CollectiveError, match="these two sides cannot redistribute any more"):
            row.call(scene, sides)
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
    first_calls(FIRST)
    if SIZE % 2 == 0:
        two_sides()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
