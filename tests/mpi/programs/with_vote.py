"""Small messages between nodes travel with the vote: few for each rank, however many peers it has.

Arguments: the radix of the links' latency, and the messages of a vote that a rank then sends. Each rank is a node.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm.log_steps import work_of


def main() -> None:
    radix, expected = map(int, sys.argv[1:])
    comm = MPI.COMM_WORLD
    size = comm.Get_size()
    a = psr.Descriptor((60, 40), (2, 3), psr.ProcessGrid((size, 1), comm))
    b = psr.Descriptor((60, 40), (3, 2), psr.ProcessGrid((1, size), comm))
    plan = psr.redistribute(a, b)
    group = plan._group
    assert group is not None
    assert group.radix == radix
    assert "bruck" in str(plan.report()), plan.report()
    assert work_of(size, radix).messages == expected
    sent = [0]
    send = group.channel.send

    def counted(*arguments: Any) -> Any:
        sent[0] += 1
        return send(*arguments)

    group.channel.send = counted  # type: ignore[method-assign]

    def local(desc: psr.Descriptor, k: int) -> np.ndarray:
        return desc.from_function(lambda i, j: k + i * 40.0 + j, np.float64)

    out = b.empty(np.float64)
    for k in range(5):
        sent[0] = 0
        order = "C" if k == 3 and comm.rank == 1 else "F"  # packed in another order than by the others
        assert plan(np.array(local(a, k), order=order), out) is out
        assert np.array_equal(out, local(b, k)), k
        assert sent[0] == 0, (k, sent)  # all goes in the messages of the vote, which are persistent requests
    for _ in range(2):
        before = out.copy()
        wrong = comm.rank == 1
        with pytest.raises(psr.ArrayError if wrong else psr.CollectiveError, match="float32" if wrong else "rank 1"):
            plan(local(a, 7), out.astype(np.float32) if wrong else out)
        assert np.array_equal(out, before)
        plan(local(a, 8), out)
        assert np.array_equal(out, local(b, 8))
    both = [plan.start(local(a, k)) for k in (10, 11)]
    for k, transfer in reversed(list(enumerate(both))):
        assert np.array_equal(transfer.wait(), local(b, 10 + k))
    large = psr.redistribute(
        psr.Descriptor((800, 900), (2, 3), a.grid), psr.Descriptor((800, 900), (3, 2), b.grid), exchange="bruck"
    )
    result = large(large.desc_a.from_function(lambda i, j: i * 900.0 + j, np.float64))
    assert np.array_equal(result, large.desc_b.from_function(lambda i, j: i * 900.0 + j, np.float64))
    comm.Barrier()
    if comm.rank == 0:
        print("OK", flush=True)


main()
