"""Random distributed arrays against the oracle and NumPy, byte by byte. Arguments: number of cases, seed.

Arrays of 1 to 4 dimensions and every dtype, in C or Fortran order or with gaps, on some of the ranks in any places: from
one rank and to another, to another layout, as views, through plans, batches and files.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import Layout, random_layout, random_shape
from random_layouts import DTYPES, descriptor, numbered, placed, same

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()


def held(layout: Layout, whole: NDArray[Any], own: np.random.Generator) -> psr.DistributedArray:
    """A distributed array with this rank's part anywhere in memory; outside the grid None, or an empty array."""
    desc, mine = descriptor(layout, WORLD, 0), layout.local(whole, RANK)
    if mine is None:
        return psr.DistributedArray(desc, desc.empty(whole.dtype) if own.integers(2) else None)
    local = placed(own, mine.shape, mine.dtype)
    local[...] = mine
    made = psr.DistributedArray(desc, local)
    assert made.local is local
    return made


def check(
    array: psr.DistributedArray, layout: Layout, whole: NDArray[Any], equal: Callable[[Any, Any], bool] = same
) -> None:
    """Every rank has what the oracle deals out to it."""
    wanted = layout.local(whole, RANK)
    assert type(array) is psr.DistributedArray
    if wanted is None:
        assert array.local is None or not array.local.size, layout
    else:
        assert array.local is not None
        assert array.dtype == whole.dtype
        assert equal(array.local, wanted), layout


def to_another_layout(rng: np.random.Generator, own: np.random.Generator) -> None:
    size = random_shape(rng, int(rng.integers(1, 5)), 500)
    a, b = (random_layout(rng, size, SIZE, copies=True) for _ in range(2))
    dtype = DTYPES[rng.integers(len(DTYPES))]
    salt = int(rng.integers(2**31))
    whole_a, whole_b = numbered(a.shape, dtype, salt), numbered(b.shape, dtype, salt + 1)
    before, after = held(a, whole_a, own), held(b, whole_b, own)
    kept = None if before.local is None else before.local.copy()
    expected = whole_b.copy()
    expected[b.window()] = whole_a[a.window()]
    into_new = b.size == b.shape and rng.random() < 0.5
    into = None if into_new else after
    how = rng.integers(5)
    if how == 0:
        made = before.redistribute(after.desc if into_new else None, out=into)
    elif how == 1:
        made = psr.redistribute(before, after, dtype=dtype)(before, into)
    elif how == 2:
        made = psr.redistribute(before.desc, after, dtype=dtype).start(before, into).wait()
    elif how == 3:
        plan = psr.redistribute(before, after.desc, dtype=dtype)
        (made,) = psr.batch(plan)([before], [into])
    else:  # arrays again, which come back as arrays
        local = psr.redistribute(before, after, dtype=dtype)(before.local, None if into_new else after.local)
        assert not isinstance(local, psr.DistributedArray)
        made = psr.DistributedArray(after.desc, local)
    assert into_new or made is after or how == 4
    assert made.desc == after.desc
    check(made, b, expected)
    assert kept is None or same(before.local, kept)

    # a slice is gathered alone; the result is of the same bytes on any rank
    root = int(rng.integers(SIZE))
    for found in (made.gather(root), psr.gather(made, root), psr.gather(made, root=root)):
        assert (found is None) == (root != RANK)
        assert found is None or same(found, expected[b.window()])


def from_one_rank(rng: np.random.Generator, own: np.random.Generator) -> None:
    size = random_shape(rng, int(rng.integers(1, 5)), 300)
    layout = random_layout(rng, size, SIZE, sub_arrays=False, copies=True)
    dtype = DTYPES[rng.integers(len(DTYPES))]
    whole, root = numbered(size, dtype, int(rng.integers(2**31))), int(rng.integers(SIZE))
    given: Any = "not looked at"
    if root == RANK:
        given = placed(own, whole.shape, dtype)
        given[...] = whole
    made = psr.distribute(given, descriptor(layout, WORLD, 0), root=root)
    check(made, layout, whole)
    assert made.dtype == dtype  # on every rank
    twin = made.copy()
    if made.local is not None and made.local.size:
        assert not np.shares_memory(twin.local, made.local)
    check(twin, layout, whole)
    to = int(rng.integers(SIZE))
    found = made.gather(to)
    assert (found is None) == (to != RANK)
    assert found is None or same(found, whole)


def views(rng: np.random.Generator, own: np.random.Generator) -> None:
    """Transposes and slices of slices are NumPy's, share the memory, and are written through."""
    size = random_shape(rng, int(rng.integers(1, 4)), 300)
    layout = random_layout(rng, size, SIZE, sub_arrays=False, copies=True)
    dtype = np.dtype("bhilfdFD"[rng.integers(8)])
    whole = rng.integers(-50, 50, size).astype(dtype)
    if dtype.kind == "c":
        whole += 1j * rng.integers(-50, 50, size)
    array = held(layout, whole, own)
    expected: Any = whole
    chain = array
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.4:
            chain, expected = chain.T, expected.T
        elif rng.random() < 0.3 and dtype.kind != "c":
            chain, expected = chain.H, expected.T
        else:
            bounds = [sorted(int(k) for k in rng.integers(0, n + 1, 2)) for n in chain.shape]
            key = tuple(slice(*pair) for pair in bounds)[: int(rng.integers(1, chain.ndim + 1))]
            chain, expected = chain[key], expected[key]
    assert chain.shape == expected.shape
    if chain.local is not None and chain.local.size:
        assert np.shares_memory(chain.local, array.local)
    root = int(rng.integers(SIZE))
    found = chain.gather(root)
    assert found is None or np.array_equal(found, expected)
    turned = array.H.gather(root)
    assert turned is None or np.array_equal(turned, whole.T.conj())
    grid = psr.ProcessGrid((1,) * (chain.ndim - 1) + (SIZE,), WORLD)
    moved = chain.redistribute(block=2, grid=grid)
    assert np.array_equal(moved.gather(root), expected) or root != RANK
    one_size = all(isinstance(block, int) for block in chain.desc.block)  # the owners of others are of a grid
    wide = chain.astype(np.complex128)
    wider = (wide.redistribute(grid=grid) if one_size else wide.redistribute(block=1, grid=grid)).gather(root)
    assert wider is None or (wider.dtype == np.complex128 and np.array_equal(wider, expected))
    # what is written into the view is in the array
    expected[...] = 7
    psr.distribute(np.full(chain.shape, 7, dtype), psr.Descriptor(chain.shape, 3, grid), root).redistribute(out=chain)
    check(array, layout, whole)


def operations(rng: np.random.Generator, own: np.random.Generator) -> None:
    m, n = (int(k) for k in rng.integers(1, 30, 2))
    a, b = (random_layout(rng, size, SIZE, copies=True) for size in ((m, n), (n, m)))
    whole_a, whole_b = (rng.integers(-9, 9, layout.shape) + 1j * rng.integers(-9, 9, layout.shape) for layout in (a, b))
    source, target = held(a, whole_a, own), held(b, whole_b, own)
    op = "TC"[rng.integers(2)]
    window = whole_a[a.window()].T
    moved = window.conj() if op == "C" else window
    beta = int(rng.integers(0, 3))
    whole_b[b.window()] = 2 * moved + beta * whole_b[b.window()]
    assert source.redistribute(out=target, op=op, alpha=2, beta=beta) is target
    check(target, b, whole_b, np.array_equal)  # 0 and -0 are equal
    grid = psr.ProcessGrid((SIZE, 1), WORLD)
    found = source.redistribute(block=(3, 2), grid=grid, op=op).gather()
    assert found is None or np.array_equal(found, moved)
    found = (source.H if op == "C" else source.T).redistribute(block=(3, 2), grid=grid).gather()
    assert found is None or np.array_equal(found, moved)


def files(rng: np.random.Generator, own: np.random.Generator, folder: Path) -> None:
    size = random_shape(rng, int(rng.integers(1, 4)), 200)
    a, b = (random_layout(rng, size, SIZE, sub_arrays=k == 0, copies=True) for k in range(2))
    whole = numbered(a.shape, np.dtype("i8"), int(rng.integers(2**31)))
    part = whole[a.window()]
    array, path = held(a, whole, own), folder / "array.npy"
    array.save(path, order="CF"[rng.integers(2)])
    assert same(np.load(path), part)
    check(psr.DistributedArray.load(descriptor(b, WORLD, 0), path), b, part)
    background = np.zeros_like(whole)
    target = held(a, background, own)
    assert psr.load(target, path) is target
    background[a.window()] = part
    check(target, a, background)
    WORLD.Barrier()
    psr.save(target.T, path)
    assert same(np.load(path), part.T)
    WORLD.Barrier()


def corners() -> None:
    """One row, no elements, disjoint sets of processes, and a layout written in any of its ways."""
    first, last = (psr.ProcessGrid((1, 1), WORLD, ranks=[[k]]) for k in (0, SIZE - 1))
    row = psr.distribute([range(9)], psr.Descriptor((1, 9), 2, first), root=SIZE - 1)
    assert row.dtype == np.dtype(int)
    plan = psr.redistribute(row, psr.Descriptor((1, 9), 4, last))  # only the arrays tell the dtype to the last rank
    for moved in (plan(row), plan.start(row).wait(), *psr.batch(plan, plan)([row, row])):
        assert np.array_equal(moved.gather(), [range(9)]) or RANK
    moved = row.redistribute(grid=last)
    assert moved.desc == psr.Descriptor((1, 9), 2, last)
    assert moved.redistribute(row).desc is row.desc
    column = moved.T.redistribute(block=None, grid=psr.ProcessGrid((SIZE, 1), WORLD), source=(SIZE - 1, 0))
    assert column.desc.source == (SIZE - 1, 0)
    found = column.gather(SIZE - 1)
    assert found is None or found.tolist() == [[k] for k in range(9)]
    turned = psr.distribute(np.eye(4, 6), psr.Descriptor((4, 6), (2, 3), first)).redistribute(grid=last, op="T")
    assert turned.desc.block == (3, 2)
    nothing = psr.distribute(np.empty((0, 3), "f4"), psr.Descriptor((0, 3), 2, first))
    assert nothing.redistribute(grid=last).gather().__class__ is (np.ndarray if RANK == 0 else type(None))
    for given in (((1, 2), (3, 4)), np.array([[1, 2], [3, 4]])[::-1][::-1], np.matrix([[1, 2], [3, 4]])):
        two = psr.distribute(given, psr.Descriptor((2, 2), 1, last)).gather()
        assert two is None or two.tolist() == [[1, 2], [3, 4]]
    made = psr.DistributedArray.from_function(psr.Descriptor((5, 4), 2, last), lambda i, j: 10 * i + j, np.float32)
    found = made[1:3, 2:].gather()
    assert found is None or (found.dtype == np.float32 and found.tolist() == [[12, 13], [22, 23]])


def two_sides() -> None:
    """From one side of an inter-communicator to the other."""
    if SIZE < 2:
        return
    sends = RANK < SIZE // 2
    comm = WORLD.Split(int(sends), RANK)
    inter = comm.Create_intercomm(0, WORLD, SIZE // 2 if sends else 0, 5)
    desc = psr.Descriptor((7, 5), 2, psr.ProcessGrid((1, comm.Get_size()), comm))
    array = psr.DistributedArray.from_function(desc, lambda i, j: 10.0 * i + j)
    if sends:
        made = psr.redistribute(array, None, comm=inter)(array)
        assert made.local is None or not made.local.size
    else:
        target = psr.DistributedArray(desc, desc.zeros())
        assert psr.redistribute(None, target, comm=inter)(None, target) is target
        assert np.array_equal(target.local, array.local)
    inter.Free()
    comm.Free()


def slice_of_irregular_blocks() -> None:
    """By default it keeps what the slice has of each block."""
    grid = psr.ProcessGrid((SIZE, 1), WORLD)
    blocks = psr.Blocks([2, 3, 4], [0, SIZE - 1, 0])
    array = psr.DistributedArray.from_function(psr.Descriptor((9, 4), (blocks, 2), grid), lambda i, j: 10.0 * i + j)
    moved = array[1:7].redistribute(grid=grid)
    assert moved.desc.block == (psr.Blocks([1, 3, 2], [0, SIZE - 1, 0]), 2)
    found = moved.gather()
    assert found is None or np.array_equal(found, 10.0 * np.arange(1, 7)[:, None] + np.arange(4))


def main() -> None:
    slice_of_irregular_blocks()
    cases, seed = int(sys.argv[1]), int(sys.argv[2])
    rng, own = np.random.default_rng(seed), np.random.default_rng([seed, RANK])
    corners()
    two_sides()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(WORLD.bcast(name))
        for _ in range(cases):
            for check_case in (to_another_layout, from_one_rank, views, operations):
                check_case(rng, own)
            files(rng, own, folder)
        WORLD.Barrier()
    if RANK == 0:
        print(f"{cases} cases, seed {seed} OK", flush=True)


if __name__ == "__main__":
    main()
