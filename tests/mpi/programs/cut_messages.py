"""Messages in parts, a step for each: they are cut as the schedule says, nothing is lost, and datatypes are refused."""

from __future__ import annotations

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr

world = MPI.COMM_WORLD
SHAPE = (90, 4)
whole = np.arange(360.0).reshape(SHAPE)
a = psr.Descriptor(SHAPE, (3, 4), psr.ProcessGrid((3, 1), world))
b = psr.Descriptor(SHAPE, (5, 4), psr.ProcessGrid((4, 1), world))
mine = psr.scatter(a, whole if world.Get_rank() == 0 else None)

for exchange in ("nonblocking", "sendrecv", "windowed", "shared"):
    plan = psr.redistribute(a, b, dtype=whole.dtype, schedule="preemptive", exchange=exchange)
    got = psr.gather(b, plan(mine))
    assert world.Get_rank() > 0 or np.array_equal(got, whole)
    sent = world.allgather([message.peer for message in plan.messages_of(world.Get_rank())["send"]])
    assert any(len(peers) > len(set(peers)) for peers in sent), "no message is cut"
with pytest.raises(psr.ScheduleError, match="buffers='packed'"):
    psr.redistribute(a, b, dtype=whole.dtype, schedule="preemptive", buffers="datatypes", exchange="nonblocking")
world.Barrier()
if world.Get_rank() == 0:
    print("OK", flush=True)
