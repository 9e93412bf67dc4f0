"""With a limit of time: if one rank does not call the others raise TimeoutError, and their group is aborted; if it works in
the call they wait. Arguments: a folder. Three ranks or more.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import waiting
from pyscalapack_redist.engine import build as building
from pyscalapack_redist.files import binary_file, replacement

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
LATE = 1
ONE_NODE = "PYSCALAPACK_REDIST_NODES" not in os.environ
TAG = 5
LIMIT, WORK = 0.2, 0.6  # seconds


def layouts(comm: MPI.Intracomm) -> tuple[psr.Descriptor, psr.Descriptor]:
    grids = psr.ProcessGrid((SIZE, 1), comm), psr.ProcessGrid((1, SIZE), comm)
    return psr.Descriptor((40, 30), (4, 4), grids[0]), psr.Descriptor((40, 30), (9, 5), grids[1])


def use(plan: Any) -> None:
    a, wanted = (desc.from_function(lambda i, j: 100.0 * i + j) for desc in (plan.desc_a, plan.desc_b))
    assert np.array_equal(plan(a), wanted)


def used_plan(seconds: float) -> Any:
    """A plan that has been used on a new communicator, whose ranks wait so long."""
    comm = WORLD.Dup()
    plan: Any = psr.redistribute(*layouts(comm))
    use(plan)
    plan.plan.group._waiting._limit = seconds
    WORLD.Barrier()
    return plan


def late(call: Callable[[Any], Any]) -> None:
    """The others raise in time, the late rank when it calls, and the group is of no more use.

    The first of the others that has waited for so long says so; one that hears of it before it has raises as well.
    """
    plan = used_plan(0.5)
    if RANK == LATE:
        have_waited = [WORLD.recv(source=rank, tag=TAG) for rank in range(SIZE) if rank != LATE]
        assert any(have_waited)
        with contextlib.suppress(psr.CollectiveError):  # or in the next call, where all that it needs is there
            call(plan)
    else:
        with pytest.raises(psr.CollectiveError) as caught:
            call(plan)
        has_waited = isinstance(caught.value, TimeoutError)
        assert has_waited or "has aborted a redistribution" in str(caught.value)
        if has_waited:
            assert isinstance(caught.value, psr.WaitTimeoutError)
            assert re.search(r"has waited for [\d.]+ s \(PYSCALAPACK_REDIST_TIMEOUT=0.5\) in", str(caught.value))
        if has_waited and ONE_NODE:
            assert f": rank {LATE} has not called it" in str(caught.value)
        WORLD.send(has_waited, LATE, TAG)
    with pytest.raises(psr.CollectiveError):
        use(plan)
    WORLD.Barrier()
    use(psr.redistribute(*layouts(WORLD)))
    WORLD.Barrier()


def works(place: Any, name: str, worker: int, call: Callable[[Any], Any]) -> None:
    """One rank works for longer than the limit in a function that all may call; nobody reports it, and all goes on."""
    plan, original, output = used_plan(LIMIT), getattr(place, name), io.StringIO()
    plan.plan.group._waiting._timeout = LIMIT
    calls = []

    def slow(*arguments: Any, **options: Any) -> Any:
        calls.append(RANK)
        time.sleep(WORK if worker == RANK else 0)
        return original(*arguments, **options)

    with mock.patch.object(place, name, slow), contextlib.redirect_stderr(output):
        call(plan)
    assert worker in WORLD.allgather(calls and RANK)
    assert output.getvalue() == ""
    use(plan)


def at_work() -> None:
    folder = Path(sys.argv[1])
    path, other = (folder / f"{name}-{SIZE}-{ONE_NODE}.npy" for name in ("a", "b"))

    def load(plan: Any) -> None:
        assert np.array_equal(psr.load(plan.desc_a, path), plan.desc_a.from_function(lambda i, j: 100.0 * i + j))

    def save(plan: Any) -> None:
        psr.save(plan.desc_a, plan.desc_a.from_function(lambda i, j: 100.0 * i + j), other)

    def search(plan: Any) -> None:
        assert psr.redistribute(plan.desc_a, plan.desc_b, schedule="stepwise").schedule.name == "stepwise"

    save(used_plan(0))
    other.rename(path) if RANK == 0 else None
    WORLD.Barrier()
    works(replacement, "_place", 0, save)
    works(building, "search_steps", 0, search)
    if ONE_NODE:  # what each rank does for itself is not told to other nodes
        works(binary_file, "write_bytes", LATE, save)
        works(binary_file, "read_bytes", LATE, load)


def main() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for text, seconds in (("", 0.0), ("2 min", 0.0), ("600", 600.0)):
            os.environ["PYSCALAPACK_REDIST_TIMEOUT"] = text
            assert waiting.read_limit() == seconds
    assert [str(warning.message) for warning in caught] == [
        "PYSCALAPACK_REDIST_TIMEOUT='2 min' must be a number of seconds, 0 for no limit: there is none"
    ]
    late(use)
    late(lambda plan: plan.start(plan.desc_a.zeros()).wait())
    late(lambda plan: psr.redistribute(plan.desc_a, plan.desc_b, schedule="natural"))
    at_work()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
