"""start(), test() and wait(); several transfers in flight; scatter and gather; communicators of every kind."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.exchanges import BUFFERS, EXCHANGES

WORLD = MPI.COMM_WORLD
SHAPE = (37, 29)


def value(i: Any, j: Any) -> Any:
    return 1000.0 * i + j


def communicators() -> Iterator[tuple[str, MPI.Intracomm]]:
    """Each kind of communicator on which everything must hold."""
    rank = WORLD.Get_rank()
    yield "world", WORLD
    for name, color, key in (("split", rank % 2, rank), ("reordered", 0, -rank), ("self", rank, 0)):
        comm = WORLD.Split(color, key)
        yield name, comm
        comm.Free()


def layouts(comm: MPI.Intracomm) -> list[psr.Descriptor]:
    n = comm.Get_size()
    some = max(1, n // 2)
    grids = [
        psr.ProcessGrid((n, 1), comm),
        psr.ProcessGrid((1, n), comm, order="column"),
        psr.ProcessGrid((some, 1), comm, ranks=np.arange(n)[::-1][:some, None]),
        psr.ProcessGrid((1, 1), comm, ranks=[[n - 1]]),
    ]
    return [
        psr.Descriptor(SHAPE, block, grid)
        for grid, block in zip(grids, ((4, 4), (None, None), (3, 50), (1, 1)), strict=True)
    ]


def check(result: np.ndarray | None, desc: psr.Descriptor, scale: float = 1.0) -> None:
    if desc.coords is None:
        assert result is None
    else:
        assert result is not None
        assert np.array_equal(result, scale * desc.from_function(value))


def in_flight(comm: MPI.Intracomm) -> None:
    """Several transfers at once, also of one plan, finished in another order on each rank, do not mix."""
    every = layouts(comm)
    kinds = itertools.cycle((x, b) for x in EXCHANGES for b in BUFFERS if b in EXCHANGES[x].understands)
    running = []
    for a, b in itertools.product(every, every):
        exchange, buffers = next(kinds)
        plan = psr.redistribute(a, b, dtype=float, exchange=exchange, buffers=buffers, memory_limit=3000)
        for scale in (1.0, -2.0):
            local = scale * a.from_function(value) if a.coords is not None else None
            running.append((plan.start(local), b, scale, local))
    rng = np.random.default_rng(comm.Get_rank())
    for number, k in enumerate(rng.permutation(len(running))):
        transfer, b, scale, _ = running[k]
        while number % 2 and not transfer.test():
            pass
        check(transfer.wait(), b, scale)


def a_call_while_another_is_waited_for(comm: MPI.Intracomm) -> None:
    """Rank 0 waits at once, the others call another plan first: the call lets the first transfer go on."""
    a, b = layouts(comm)[:2]
    plan, back = psr.redistribute(a, b, memory_limit=3000), psr.redistribute(b, a, memory_limit=3000)
    local = a.from_function(value)
    transfer = plan.start(local)
    if comm.Get_rank() == 0:
        check(transfer.wait(), b)
    check(back(b.from_function(value)), a)
    check(transfer.wait(), b)


def scatter_and_gather(comm: MPI.Intracomm) -> None:
    whole = value(*np.ogrid[: SHAPE[0], : SHAPE[1]])
    for desc in layouts(comm):
        for root in {0, comm.Get_size() - 1}:
            here = comm.Get_rank() == root
            local = psr.scatter(desc, whole.astype(np.float32) if here else None, root=root)
            if desc.coords is None:
                assert local is None
            else:
                assert local is not None
                assert local.dtype == np.float32
                assert np.array_equal(local, desc.from_function(value, np.float32))
            back = psr.gather(desc, local, root=root)
            assert (back is not None) == here
            assert back is None or np.array_equal(back, whole)
            part = psr.gather(desc[3:20, 1:], local, root=root)
            assert part is None or np.array_equal(part, whole[3:20, 1:])


def outside(comm: MPI.Intracomm) -> None:
    """Ranks outside both grids may call, or stay away."""
    desc_a, desc_b = layouts(comm)[3], layouts(comm)[2]
    involved = desc_a.coords is not None or desc_b.coords is not None
    local = desc_a.from_function(value) if desc_a.coords is not None else None
    if involved or comm.Get_rank() % 2:
        check(psr.redistribute(desc_a, desc_b, dtype=float)(local), desc_b)


def cached(comm: MPI.Intracomm) -> None:
    a, b = layouts(comm)[:2]
    plan = psr.redistribute(a, b)
    assert psr.redistribute(a, b) is plan
    assert psr.redistribute(b, a) is not plan
    assert psr.redistribute(a, b, schedule="natural") is not plan
    report = str(plan.report())
    assert "extra memory" in report
    assert plan.report().extra_bytes <= plan.report().memory_limit
    moved = plan.report(np.float64)
    sizes = (
        comm.allreduce(moved.bytes_sent + moved.bytes_copied),
        comm.allreduce(moved.bytes_received + moved.bytes_copied),
    )
    assert sizes == (8 * SHAPE[0] * SHAPE[1],) * 2
    assert sum(message.size for message in plan.messages["send"]) * 8 == moved.bytes_sent


def in_legs(comm: MPI.Intracomm) -> None:
    """Through layouts in between, chosen by name or given; the report sets the legs beside the direct way."""
    every = layouts(comm)
    for a, b, between in ((0, 1, [2]), (2, 3, [0, 1]), (3, 0, "lcm"), (0, 3, "gcd"), (1, 0, []), (0, 0, "dimensions")):
        via = between if isinstance(between, str) else [every[k] for k in between]
        plan = psr.redistribute(every[a], every[b], via=via, dtype=float)
        local = every[a].from_function(value) if every[a].coords is not None else None
        check(plan(local), every[b])
        check(plan.start(local).wait(), every[b])
        assert isinstance(via, str) or [leg.desc_b for leg in plan.legs] == [*via, every[b]]
        report = plan.report(float)
        assert report.bytes_sent == sum(leg.report(float).bytes_sent for leg in plan.legs)
        assert "direct" in str(report)
    for wrong in ("sideways", 5, [5]):
        with pytest.raises(psr.ScheduleError, match=r"via = .* must be None, 'dimensions', 'lcm', 'gcd', or a list"):
            psr.redistribute(every[0], every[1], via=wrong)
    other = psr.Descriptor((3, 3), 1, every[0].grid)
    with pytest.raises(psr.ScheduleError, match=r"via\[0\] has shape \(3, 3\), but the array has shape"):
        psr.redistribute(every[0], every[1], via=[other])


def partial_knowledge(comm: MPI.Intracomm) -> None:
    """A rank outside a grid need not know its layout; grids may be on other communicators than `comm`."""
    a, b = layouts(comm)[2], layouts(comm)[3]
    plan = psr.redistribute(
        a if a.coords is not None else None, b if b.coords is not None else None, comm=comm, dtype=float
    )
    check(plan(a.from_function(value) if a.coords is not None else None), b)
    turned = comm.Split(0, -comm.Get_rank())
    there = psr.Descriptor(SHAPE, (5, 6), psr.ProcessGrid((1, comm.Get_size()), turned))
    first = layouts(comm)[0]
    check(psr.redistribute(first, there, comm=comm)(first.from_function(value)), there)
    turned.Free()


def main() -> None:
    for name, comm in communicators():
        for part in (
            in_flight,
            a_call_while_another_is_waited_for,
            scatter_and_gather,
            outside,
            cached,
            in_legs,
            partial_knowledge,
        ):
            part(comm)
        if WORLD.Get_rank() == 0:
            print(name, flush=True)
    if WORLD.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
