"""What messages between nodes cost: measured, or read from a file.

Argument: what must come of it, "measured", "file" or "error".
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.exchanges.nonblocking import HEADER


def main() -> None:
    comm = MPI.COMM_WORLD
    n = 300
    a = psr.Descriptor((n, n), (7, 7), psr.ProcessGrid((comm.size, 1), comm))
    b = psr.Descriptor((n, n), (7, 7), psr.ProcessGrid((1, comm.size), comm))
    if sys.argv[1] == "error":
        expected = psr.CollectiveError if comm.rank else psr.RedistributionError
        with pytest.raises(expected, match="PYSCALAPACK_REDIST_LINKS"):
            psr.redistribute(a, b)
    else:
        plan = psr.redistribute(a, b)
        before = plan.report(np.float64)
        assert before.links is not None
        assert before.links.nodes == 2
        assert before.last_seconds is None
        assert before.predicted_seconds is not None
        if sys.argv[1] == "file":
            assert before.links[:2] == (0.5, 8000.0), before.links
            away = [
                2 * sum(message.size for message in plan.messages[way] if message.peer // 2 != comm.rank // 2)
                for way in ("send", "receive")
            ]
            busiest = comm.allreduce(max(away), MPI.MAX)
            # The vote of four ranks, in one step, and the start of a message are twice the latency.
            assert np.isclose(before.predicted_seconds, 2 * 0.5 + 8 * busiest / 8000)
            check_log_steps(comm)
        else:
            assert before.links.latency > 0
            assert before.links.rate > 0
        local = a.from_function(lambda i, j: i * n + j, np.float64)
        assert np.array_equal(plan(local), b.from_function(lambda i, j: i * n + j, np.float64))
        after = plan.report(np.float64)
        assert after.last_seconds is not None
        assert after.last_seconds > 0
        assert "last run" in str(after)
        assert psr.redistribute(b, a).report().links == before.links  # not measured again
    comm.Barrier()
    if comm.rank == 0:
        print("OK", flush=True)


def check_log_steps(comm: MPI.Intracomm) -> None:
    """Four elements, one for each rank, travel with the vote of one step: a block for each other rank."""
    a = psr.Descriptor((4, 4), (1, 4), psr.ProcessGrid((comm.size, 1), comm))
    b = psr.Descriptor((4, 4), (4, 1), psr.ProcessGrid((1, comm.size), comm))
    report = psr.redistribute(a, b, exchange="bruck").report(np.float64)
    block = 8 + HEADER
    assert np.isclose(report.predicted_seconds, 0.5 + 2 * 3 * block / 8000), report.predicted_seconds


if __name__ == "__main__":
    main()
