"""Rank 0 ends before a call that the others wait in, or in the middle of it. Argument: how."""

from __future__ import annotations

import os
import sys

from mpi4py import MPI

import pyscalapack_redist as psr


def main() -> None:
    comm, how = MPI.COMM_WORLD, sys.argv[1]
    size, n = comm.Get_size(), 60
    a = psr.Descriptor((n, n), (n // size, n), psr.ProcessGrid((size, 1), comm))
    b = psr.Descriptor((n, n), (n, n // size), psr.ProcessGrid((1, size), comm))
    plan, local = psr.redistribute(a, b), a.zeros()
    for _ in range(3):
        plan(local)
    if comm.Get_rank() == 0:
        if how == "raise":
            raise ValueError("an error of the program")
        if how == "finalize":
            MPI.Finalize()
        if how == "started":
            plan.start(local)
        sys.exit()
    try:
        plan(local)
    except psr.CollectiveError as error:
        text = str(error)
        # where ranks tell one another by messages, one that has noticed it may be named
        if "PYSCALAPACK_REDIST_NODES" not in os.environ:
            assert text.startswith("rank 0 has "), text
        assert "has ended, or has freed the communicator" in text or "has left a redistribution" in text, text
        print("OK\n", end="", flush=True)


if __name__ == "__main__":
    main()
