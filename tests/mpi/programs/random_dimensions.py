"""Random pairs of layouts of 1 to 6 dimensions, each compared byte by byte with the oracle. Arguments: number of cases, seed,
and what `force` of random_layouts.py takes, if arrays shall go the way of large ones.

Grids have their own dimensions, spread over the array's by `axes=`, and some hold copies. Cases take turns at everything
that `redistribute` does not refuse, as in random_layouts.py.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from layouts import block_sizes
from mpi4py import MPI
from oracle import Layout, random_axes, random_irregular, random_layout, random_shape
from random_layouts import ATTEMPTS, DTYPES, OPTIONS, force, grown, numbered, placed, same

import pyscalapack_redist as psr


def descriptor(rng: np.random.Generator, layout: Layout, comm: MPI.Intracomm, lld: int) -> psr.Descriptor:
    """The layout over a grid with dimensions of its own; a single block for each process is sometimes left to be found."""
    ranks, axes = random_axes(rng, layout)
    grid = psr.ProcessGrid(ranks.shape, comm, ranks=ranks)
    single = [max(1, -(-n // p)) for n, p in zip(layout.shape, layout.processes, strict=True)]
    block = [
        None if cut == whole and rng.random() < 0.5 else cut
        for cut, whole in zip(block_sizes(layout), single, strict=True)
    ]
    whole = psr.Descriptor(layout.shape, block, grid, source=layout.source, axes=axes)
    whole = psr.Descriptor(layout.shape, block, grid, source=layout.source, axes=axes, lld=whole.lld + lld)
    assert np.array_equal(whole.places.ravel(), layout.ranks.ravel())
    assert whole.copies == layout.copies
    return whole if layout.size == layout.shape else whole[layout.window()]


def pair(rng: np.random.Generator, dims: int, ranks: int, keywords: dict[str, Any]) -> tuple[Layout, Layout]:
    """Two layouts: any, the same places dealt out otherwise, or one grid whose dimensions move over the array."""
    size = random_shape(rng, dims)
    needs_formula = keywords.get("schedule") in ("walker-otto", "phases", "classes")
    needs_one_size = needs_formula or keywords.get("via") in ("lcm", "gcd")
    margin = max(2, 11 - 2 * dims)
    draw = functools.partial(random_layout, irregular=not needs_one_size, copies=not needs_formula)
    a, b = (draw(rng, size, ranks, margin=margin) for _ in range(2))
    kind = rng.random()
    if needs_formula:  # they apply to few others
        b = replace(a, block=grown(rng, a.block))
        return (a, b) if rng.random() < 0.5 else (b, a)
    if kind < 0.08:
        return a, a
    if kind < 0.4:
        order = [int(k) for k in rng.permutation(dims)]
        moved = a.ranks.transpose([*order, *range(dims, a.ranks.ndim)])
        block = tuple(
            cut if isinstance(cut, int) else random_irregular(rng, n, p)
            for cut, n, p in zip(b.block, a.shape, moved.shape, strict=False)
        )
        source = tuple(
            int(rng.integers(p)) if isinstance(cut, int) else 0 for cut, p in zip(block, moved.shape, strict=False)
        )
        return a, replace(a, ranks=moved, source=source, block=block)
    return a, b


def check_case(comm: MPI.Intracomm, rng: np.random.Generator, keywords: dict[str, Any]) -> int:
    """Draw and check one case; every rank draws the same. Its number of dimensions, 0 where the schedule does not apply."""
    dims = int(rng.integers(1, 7))
    a, b = pair(rng, dims, comm.Get_size(), keywords)
    dtype = DTYPES[rng.integers(len(DTYPES))]
    salt = int(rng.integers(2**31))
    whole_a, whole_b = numbered(a.shape, dtype, salt), numbered(b.shape, dtype, salt + 1)
    expected = whole_b.copy()
    expected[b.window()] = whole_a[a.window()]
    give_out = b.size != b.shape or bool(rng.integers(2))
    lld = int(rng.integers(3))
    desc_a, desc_b = descriptor(rng, a, comm, lld), descriptor(rng, b, comm, 0)
    own = np.random.default_rng([salt, comm.Get_rank()])

    mine, wanted = a.local(whole_a, comm.Get_rank()), b.local(expected, comm.Get_rank())
    local_a = out = None
    if mine is not None:
        assert desc_a.local_shape == mine.shape
        rows = (desc_a.lld,) if lld and mine.size else mine.shape[:1]
        local_a = (
            np.empty((*rows, *mine.shape[1:]), dtype, order="F")
            if rows != mine.shape[:1]
            else placed(own, mine.shape, dtype)
        )
        local_a[: mine.shape[0]] = mine
        local_a.flags.writeable = False
    if wanted is not None and give_out:
        out = placed(own, wanted.shape, dtype)
        out[...] = b.local(whole_b, comm.Get_rank())
    try:
        plan = psr.redistribute(desc_a, desc_b, dtype=dtype, **keywords)
    except psr.ScheduleError:
        return 0
    result = plan(local_a, out) if rng.random() < 0.7 else plan.start(local_a, out).wait()
    what = f"{a} -> {b}, {dtype}, {keywords}"
    if wanted is None:
        assert result is None, what
    else:
        assert result is not None, what
        assert result is out or not give_out, what
        assert result.dtype == dtype, what
        assert same(result, wanted), what
    if mine is not None and local_a is not None:
        assert same(local_a[: mine.shape[0]], mine), what
    return dims


def main() -> None:
    cases, seed, *forced = map(int, sys.argv[1:])
    if forced:
        force(*forced)
    world = MPI.COMM_WORLD
    if world.Get_rank() == 0:
        print(f"{cases} cases, seed {seed}", flush=True)
    done: Counter[int] = Counter()
    left = OPTIONS.copy()
    for case in range(cases):
        keywords = OPTIONS[case % len(OPTIONS)]
        for attempt in range(ATTEMPTS):
            dims = check_case(world, np.random.default_rng([seed, case, attempt]), keywords)
            if dims and keywords in left:
                left.remove(keywords)
            if world.allreduce(dims, MPI.MIN):
                break
        done[dims] += 1
    assert all(done[dims] > cases // 15 for dims in range(1, 7)) or cases < 100, done
    assert cases < 3 * len(OPTIONS) or not left, f"never run: {left}"
    if world.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
