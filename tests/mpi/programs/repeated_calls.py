"""Plans called again and again, with arrays of another kind on some rank now and then. Arguments: plans, calls of each, seed.

A call with arrays as in the one before is one compiled call, in which a rank packs before it knows of the others: so
kinds change on one rank alone, ranks start and call, and a rank's array is wrong in between.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import Layout, random_layout, random_size
from random_layouts import descriptor, numbered, placed, same

import pyscalapack_redist as psr
from pyscalapack_redist.engine import plan as plan_module

DTYPES = [np.dtype(t) for t in ("f8", "f4", "i1", "D", "M8[s]")]
EXCHANGES = ["auto", "auto", "shared", "nonblocking"]


class Kinds:
    """Arrays of this rank, kept from call to call, so that calls in a row have arrays of one kind."""

    def __init__(self, rng: np.random.Generator, like: NDArray[Any] | None) -> None:
        self.kept = None if like is None else placed(rng, like.shape, like.dtype)

    def holding(self, values: NDArray[Any] | None) -> NDArray[Any] | None:
        if self.kept is None or values is None:
            return None
        self.kept.flags.writeable = True
        self.kept[...] = values
        return self.kept


def holds(layout: Layout, rank: int) -> bool:
    """Whether a rank holds any element of the whole array."""
    coords = layout.coords(rank)
    return coords is not None and all(held[p] for held, p in zip(layout.held, coords, strict=True))


def check_plan(comm: MPI.Intracomm, rng: np.random.Generator, calls: int) -> int:
    """Draw a plan and call it; every rank draws the same, but for the kinds of its own arrays. Returns how many failed."""
    size = random_size(rng)
    a, b = (random_layout(rng, size, comm.Get_size(), copies=True) for _ in range(2))
    dtype = DTYPES[rng.integers(len(DTYPES))]
    salt, me = int(rng.integers(2**31)), comm.Get_rank()
    whole_a, whole_b = numbered(a.shape, dtype, salt), numbered(b.shape, dtype, salt + 1)
    expected = whole_b.copy()
    expected[b.window()] = whole_a[a.window()]
    mine, wanted, before = a.local(whole_a, me), b.local(expected, me), b.local(whole_b, me)
    exchange = EXCHANGES[rng.integers(len(EXCHANGES))]
    limit = int(rng.choice((300, 2000, 2**20)))
    plan = psr.redistribute(
        descriptor(a, comm, 0), descriptor(b, comm, 0), dtype=dtype, exchange=exchange, memory_limit=limit
    )
    own = np.random.default_rng([salt, me])
    source, target = Kinds(own, mine), Kinds(own, wanted)
    failed, idle = 0, me not in {*a.ranks.flat, *b.ranks.flat}
    for _ in range(calls):
        if own.random() < 0.2:
            source, target = Kinds(own, mine), Kinds(own, wanted)
        bad = rng.integers(comm.Get_size()) if rng.random() < 0.15 else -1
        start = own.random() < 0.3
        local_a, out = source.holding(mine), target.holding(before)
        if mine is not None and bad == me and mine.size:
            local_a = np.empty(tuple(n + 1 for n in mine.shape), dtype)
        try:
            result = plan.start(local_a, out).wait() if start else plan(local_a, out)
        except psr.RedistributionError:
            failed += 1
            assert out is None or before is None or same(out, before), "a failed call has written to out"
            continue
        assert idle or bad < 0 or not holds(a, int(bad)), "an array that does not fit was accepted"
        assert result is out
        assert wanted is None or same(np.asarray(result), wanted), f"{a} -> {b}, {dtype}, {exchange}, {limit}"
        assert mine is None or same(np.asarray(local_a), mine)
    return failed


def used_once(comm: MPI.Intracomm, rng: np.random.Generator) -> bool:
    """Draw a plan that nobody made before and call it once, on most ranks with ordinary arrays, for which the first call is
    a compiled one. Returns whether it failed.
    """
    size, me = random_size(rng), comm.Get_rank()
    a, b = (random_layout(rng, size, comm.Get_size(), copies=True) for _ in range(2))
    dtype, other = (DTYPES[k] for k in rng.permutation(len(DTYPES))[:2])
    salt = int(rng.integers(2**31))
    whole_a, whole_b = numbered(a.shape, dtype, salt), numbered(b.shape, dtype, salt + 1)
    expected = whole_b.copy()
    expected[b.window()] = whole_a[a.window()]
    mine, wanted, before = a.local(whole_a, me), b.local(expected, me), b.local(whole_b, me)
    told = rng.random() < 0.5
    plan = psr.redistribute(descriptor(a, comm, 0), descriptor(b, comm, 0), dtype=dtype if told else None)
    own = np.random.default_rng([salt, me])
    bad, how = rng.integers(4 * comm.Get_size()), rng.integers(3)
    give_out = b.size != b.shape or bad < comm.Get_size() or own.random() < 0.7
    local_a, out = (
        None
        if values is None
        else np.asfortranarray(values)
        if own.random() < 0.9
        else placed(own, values.shape, dtype)
        for values in (mine, before)
    )
    for local, values in ((local_a, mine), (out, before)):
        if local is not None and values is not None:
            local[...] = values
    given = local_a
    if bad == me and mine is not None:
        wrong = (
            np.empty(tuple(n + 1 for n in mine.shape), dtype, order="F"),
            np.zeros(mine.shape, other, order="F"),
            None,
        )
        given = wrong[how]
    give_out = give_out or (mine is None and not told)  # nothing else tells this rank the dtype
    idle = me not in {*a.ranks.flat, *b.ranks.flat}
    try:
        result = plan(given, out if give_out else None)
    except psr.RedistributionError:
        assert bad < comm.Get_size(), "right arrays were refused"
        assert out is None or before is None or same(out, before), "a failed call has written to out"
        return True
    assert idle or bad >= comm.Get_size() or not holds(a, int(bad)), "an array that does not fit was accepted"
    assert wanted is None or same(np.asarray(result), wanted), f"{a} -> {b}, {dtype}"
    return False


def two_plans_in_turn(comm: MPI.Intracomm) -> None:
    """The slots of one plan lie where those of another did: a sender that is ahead must not overwrite what is still there."""
    n, p = 300, comm.Get_size()
    rows, columns, squares = (
        psr.Descriptor((n, n), block, psr.ProcessGrid(shape, comm))
        for shape, block in (((p, 1), (4, 4)), ((1, p), (7, 9)), ((p, 1), (64, 64)))
    )
    there, back = psr.redistribute(rows, columns), psr.redistribute(columns, squares, memory_limit=3000)
    a, b, c = (desc.from_function(lambda i, j: i * n + j, np.int32) for desc in (rows, columns, squares))
    for k in range(200):
        assert np.array_equal(there(a + k), b + k)
        if comm.Get_rank() == k % p:
            sum(range(20_000))  # late
        assert np.array_equal(back(b + k), c + k)


def arrays_that_overlap(comm: MPI.Intracomm) -> None:
    """A compiled call sees it as well, though such arrays are of the kind that it knows."""
    desc = psr.Descriptor((8 * comm.Get_size(), 8), (8, 8), psr.ProcessGrid((comm.Get_size(), 1), comm))
    plan = psr.redistribute(desc, desc)
    memory = np.arange(200.0)
    a, disjoint, overlapping = (memory[k : k + 64].reshape(8, 8).T for k in (0, 100, 63))
    for _ in range(3):
        plan(a, disjoint)
    before = memory.copy()
    with pytest.raises(psr.ArrayError, match="shares memory"):
        plan(a, overlapping)
    assert np.array_equal(memory, before)


def main() -> None:
    plans, calls, seed = (int(text) for text in sys.argv[1:4])
    comm = MPI.COMM_WORLD
    failed = 0
    for number in range(plans):
        failed += check_plan(comm, np.random.default_rng([seed, number]), calls)
    assert plans * calls < 400 or failed
    first_call = plan_module.first_call
    compiled = []

    def counted(plan: psr.Redistribution, a: object, out: object) -> object:
        compiled.append(first_call(plan, a, out))
        return compiled[-1]

    plan_module.first_call = counted  # type: ignore[assignment]
    failed = sum(used_once(comm, np.random.default_rng([seed, plans + number])) for number in range(10 * plans))
    on_one_node = comm.Get_size() > 1 and "PYSCALAPACK_REDIST_NODES" not in os.environ
    assert plans < 10 or (failed and (any(compiled) or not on_one_node))
    two_plans_in_turn(comm)
    arrays_that_overlap(comm)
    if comm.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
