"""One rank does not call: with a limit the others raise TimeoutError, and their group is aborted. Three ranks or more."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import waiting

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
LATE = 1
ONE_NODE = "PYSCALAPACK_REDIST_NODES" not in os.environ
TAG = 5


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
    plan.inside.group._waiting._limit = seconds
    WORLD.Barrier()
    return plan


def late(call: Callable[[Any], Any]) -> None:
    """The others raise in time, the late rank when it calls, and the group is of no more use."""
    plan = used_plan(0.5)
    if RANK == LATE:
        for rank in range(SIZE):
            if rank != LATE:
                WORLD.recv(source=rank, tag=TAG)
        with contextlib.suppress(psr.CollectiveError):  # or in the next call, where all that it needs is there
            call(plan)
    else:
        with pytest.raises(
            TimeoutError, match=r"has waited for 0\.\d+ s \(PYSCALAPACK_REDIST_TIMEOUT=0.5\) in"
        ) as caught:
            call(plan)
        assert isinstance(caught.value, psr.WaitTimeoutError)
        assert isinstance(caught.value, psr.CollectiveError)
        if ONE_NODE:
            assert f": rank {LATE} has not called it" in str(caught.value)
        WORLD.send(None, LATE, TAG)
    with pytest.raises(psr.CollectiveError):
        use(plan)
    WORLD.Barrier()
    use(psr.redistribute(*layouts(WORLD)))
    WORLD.Barrier()


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
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
