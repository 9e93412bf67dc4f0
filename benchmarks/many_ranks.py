"""Ranks that share cores: where the time of a call goes, in copies of the same bytes by as many ranks.

    mpiexec -n 8 --oversubscribe python -m mpi4py benchmarks/many_ranks.py --order 4096

Three things take turns between barriers. `memcpy`: each rank copies as many bytes as its local A has. `unwaited`: each rank
packs all that it sends, chunk by chunk into memory of its own, unpacks as many chunks from there as it receives, and copies
the rest, so it waits for nobody. `call`: the plan, which waits, but packs and unpacks messages together that share columns.
Shown are the least and the median over rounds of the time between barriers.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist._kernels.bundle import Bundle, Origins, address_of
from pyscalapack_redist.comm.node import AREA
from pyscalapack_redist.engine.stages import ArrayKind
from pyscalapack_redist.exchanges import Shared
from pyscalapack_redist.exchanges.shared import SLOTS

COMM = MPI.COMM_WORLD
LAYOUTS = {
    2: ("1x2:64x64", "2x1:64x64"),
    4: ("2x2:32x32", "1x4:128x128"),
    8: ("2x4:64x64", "4x2:100x100"),
    16: ("4x4:16x16", "2x8:48x48"),
}


def unwaited(plan: Any, a: Any, b: Any) -> Callable[[], None]:
    """A function that moves this rank's messages into and out of memory of its own, as the ring would hold them."""
    stage, item = plan.plan.stages[0], a.itemsize
    kind = ArrayKind((a.strides, b.strides), (item,), ({},), (False,))
    exchange = stage.make_exchange(kind, 2, item, Shared)
    origins = Origins(1)
    origins.put(0, address_of(a), address_of(b))
    memory = np.zeros(AREA, np.uint8)

    def in_chunks(bundles: list[Bundle]) -> list[tuple[Bundle, int, int, int]]:
        """Bundle, its place in the memory, and the ends of each chunk; all advance together."""
        share = AREA // max(1, len(bundles))
        step = share // SLOTS // item * item
        chunks = [
            (bundle, address_of(memory) + k * share + begin // step % SLOTS * step, begin, min(begin + step, bundle.size))
            for k, bundle in enumerate(bundles)
            for begin in range(0, bundle.size, step)
        ]
        return sorted(chunks, key=lambda chunk: chunk[2])

    sends, receives = (in_chunks([m.bundle for m in side]) for side in (exchange.sends, exchange.receives))
    copies = exchange.copies
    for side, messages in ((sends, exchange.sends), (receives, exchange.receives)):
        assert sum(end - begin for *_, begin, end in side) == sum(message.size for message in messages)
    rounds = max(1, len(sends), len(receives))

    def move(memory: object = memory) -> None:
        copied = 0
        for k in range(rounds):
            for chunk in (*sends[k : k + 1], *receives[k : k + 1]):
                bundle, where, begin, end = chunk
                bundle.move(origins, where, begin, end)
            until = copies.size if k == rounds - 1 else copies.size // rounds * (k + 1) // item * item
            if until > copied:
                copies.move(origins, 0, copied, until)
                copied = until

    return move


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--from", dest="before", default=LAYOUTS.get(COMM.size, (None, None))[0])
    parser.add_argument("--to", dest="after", default=LAYOUTS.get(COMM.size, (None, None))[1])
    options = parser.parse_args()
    if options.before is None or options.after is None:
        parser.error(f"{COMM.size} ranks have no layouts of their own: give --from and --to")
    n = options.order
    a = psr.zeros((n, n), COMM, layout=options.before)
    b = psr.zeros((n, n), COMM, layout=options.after)
    plan = psr.redistribute(a.desc, b.desc)
    a.local[...] = COMM.rank + 1
    copy = np.empty_like(a.local)
    ways: dict[str, Callable[[], object]] = {
        "memcpy": lambda: np.copyto(copy, a.local),
        "unwaited": unwaited(plan, a.local, b.local),
        "call": lambda: plan(a.local, out=b.local),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            COMM.Barrier()
            start = time.perf_counter()
            way()
            COMM.Barrier()
            seconds[name].append(COMM.allreduce(time.perf_counter() - start, MPI.MAX))
    if COMM.rank == 0:
        of_call = {name: (min(times), statistics.median(times)) for name, times in seconds.items()}
        memcpy = of_call["memcpy"]
        print(f"{COMM.size} ranks, {n} x {n}, {options.before} -> {options.after}, in memcpys (least / median)")
        print(f"memcpy    {1000 * memcpy[0]:.2f} / {1000 * memcpy[1]:.2f} ms")
        for name in ("unwaited", "call"):
            print(f"{name:9} {of_call[name][0] / memcpy[0]:.2f} / {of_call[name][1] / memcpy[1]:.2f}")


if __name__ == "__main__":
    main()
