"""Random pairs of layouts: the data arrive in the relabelled layout, and what the plans move is what the report says.

Arguments: number of cases, seed.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from layouts import descriptor
from mpi4py import MPI
from oracle import random_layout, random_shape

import pyscalapack_redist as psr


def moved(plan: psr.Redistribution, comm: MPI.Intracomm) -> int:
    return comm.allreduce(plan.report().bytes_sent)


def check_case(comm: MPI.Intracomm, rng: np.random.Generator) -> bool:
    size = random_shape(rng, int(rng.integers(1, 4)), 2000)
    a, b = (random_layout(rng, size, comm.Get_size(), copies=True) for _ in range(2))
    desc_a, desc_b = descriptor(a, comm), descriptor(b, comm)
    report = psr.relabel_report(desc_a, desc_b)
    made = report.descriptor
    assert made.grid.comm is comm
    assert comm.allgather(made.layout_digest) == [made.layout_digest] * comm.Get_size()
    c = replace(b, ranks=made.places.reshape(b.ranks.shape))
    whole_a, whole_c = rng.random(a.shape), rng.random(c.shape)
    expected = whole_c.copy()
    expected[c.window()] = whole_a[a.window()]
    local, out, wanted = (
        layout.local(whole, comm.Get_rank()) for layout, whole in ((a, whole_a), (c, whole_c), (c, expected))
    )
    plan = psr.redistribute(desc_a, made, dtype="d")
    result = plan(local, out)
    assert (result is None) == (wanted is None)
    assert wanted is None or np.array_equal(result, wanted)
    assert moved(plan, comm) == report.moved_after
    assert moved(psr.redistribute(desc_a, desc_b, dtype="d"), comm) == report.moved_before
    return report.saved > 0


def node_map(world: MPI.Intracomm) -> None:
    """The environment tells the nodes of COMM_WORLD's ranks, whatever the communicator."""
    nodes = [int(text) for text in os.environ["PYSCALAPACK_REDIST_NODES"].split(",")]
    comm = world.Split(0, -world.Get_rank())
    size = comm.Get_size()
    a = psr.Descriptor((24,), (1,), psr.ProcessGrid((size,), comm))
    b = psr.Descriptor((24,), None, psr.ProcessGrid((size,), comm))
    told = psr.relabel_report(a, b, nodes=nodes[::-1])
    assert psr.relabel_report(a, b) == told
    assert told.between_nodes_after is not None
    comm.Free()


def two_communicators(world: MPI.Intracomm) -> None:
    """A's ranks are renumbered as B's communicator numbers them."""
    size = world.Get_size()
    turned = world.Split(0, -world.Get_rank())
    a = psr.Descriptor((2 * size,), (2,), psr.ProcessGrid((size,), world))
    b = psr.Descriptor((2 * size,), (2,), psr.ProcessGrid((size,), turned))
    made = psr.relabel_report(a, b)
    assert made.moved_after == 0
    assert made.descriptor.grid.ranks.tolist() == list(range(size))[::-1]
    assert made.descriptor.grid.comm is turned
    paper = psr.Descriptor((2 * size,), (2,), psr.ProcessGrid((size,), ranks=np.arange(size)[::-1]))
    assert psr.relabel(paper, a).grid.ranks.tolist() == list(range(size))[::-1]
    far = psr.Descriptor((2 * size,), (2,), psr.ProcessGrid((size,), ranks=np.arange(size) + 1))
    with pytest.raises(psr.DescriptorError, match=f"desc_a has rank {size} of a grid on paper"):
        psr.relabel(far, a)
    turned.Free()


def main() -> None:
    cases, seed = int(sys.argv[1]), int(sys.argv[2])
    world = MPI.COMM_WORLD
    two_communicators(world)
    if "PYSCALAPACK_REDIST_NODES" in os.environ:
        node_map(world)
        cases = 0
    saved = sum(check_case(world, np.random.default_rng([seed, case])) for case in range(cases))
    assert saved or world.Get_size() == 1 or not cases, "no case in which anything was saved"
    if world.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
