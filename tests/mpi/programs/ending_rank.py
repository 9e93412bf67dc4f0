"""Rank 0 ends before a call that the others wait in, or in the middle of it: an error on them. Argument: how it ends."""

from __future__ import annotations

import os
import sys

import pytest
from mpi4py import MPI

import pyscalapack_redist as psr


def main() -> None:
    comm, how = MPI.COMM_WORLD, sys.argv[1]
    size, n = comm.size, 60
    a = psr.Descriptor((n, n), (n // size, n), psr.ProcessGrid((size, 1), comm))
    b = psr.Descriptor((n, n), (n, n // size), psr.ProcessGrid((1, size), comm))
    plan, local, out = psr.redistribute(a, b), a.zeros(), b.zeros()
    both = psr.batch(plan, plan)
    for _ in range(3):
        plan(local, out)
        both([local, local])
    if comm.rank == 0:
        if how == "raise":
            raise ValueError("an error of the program")
        if how == "finalize":
            with psr.ProcessGrid((1, 1), MPI.COMM_SELF) as grid:
                if psr.blacs.available():
                    grid.make_context()
                MPI.Finalize()
            for call in (
                lambda: plan(local, out),
                lambda: plan.start(local, out),
                lambda: plan(local),
                lambda: both([local, local]),
                lambda: psr.redistribute(a, b),
                a.grid.make_context,
                lambda: psr.ProcessGrid((1, 1), MPI.COMM_WORLD),
            ):
                with pytest.raises(psr.RedistributionError):
                    call()
            print("OK\n", end="", flush=True)
        if how == "started":
            plan.start(local)
        sys.exit()
    with pytest.raises(psr.CollectiveError) as caught:
        plan(local, out)
    text = str(caught.value)
    if "PYSCALAPACK_REDIST_NODES" not in os.environ:  # else one that has noticed it may be named
        assert text.startswith(("rank 0 ended ", "rank 0 has aborted ")), text
    assert "ended without this call, which all ranks must make" in text or "has aborted a redistribution" in text, text
    print("OK\n", end="", flush=True)


if __name__ == "__main__":
    main()
