"""A plan that was used and is no longer kept ends with its last reference: nothing waits for the garbage collector."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm.groups import group_of
from pyscalapack_redist.exchanges import EXCHANGES

WAYS: list[dict[str, Any]] = [
    *({"exchange": name} for name in EXCHANGES),
    {"exchange": "nonblocking", "buffers": "datatypes"},
    {"schedule": "stepwise"},
    {"via": "lcm"},
    {"uplo": "U", "fill": "zero"},
]


def ends(desc_a: psr.Descriptor, desc_b: psr.Descriptor, way: dict[str, Any]) -> bool:
    plan, a = psr.redistribute(desc_a, desc_b, **way), desc_a.zeros()
    for _ in range(3):
        plan(a)
    if way.get("buffers") != "datatypes":
        plan(a, desc_b.zeros(), alpha=2, beta=1)
    plan.start(a).wait()
    last = weakref.ref(plan)
    del plan
    group_of(MPI.COMM_WORLD).plans.clear()
    return last() is None


def main() -> None:
    comm = MPI.COMM_WORLD
    desc_a = psr.Descriptor((40, 30), (4, 4), psr.ProcessGrid((comm.size, 1), comm))
    desc_b = psr.Descriptor((40, 30), (9, 5), psr.ProcessGrid((1, comm.size), comm))
    gc.collect()
    gc.disable()
    left = [way for way in WAYS if not ends(desc_a, desc_b, way)]
    assert not left, left
    comm.Barrier()
    if comm.rank == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
