"""Random distributed arrays against the oracle and NumPy. Arguments: number of cases, seed.

To another layout, and views; plans and batches take them in random_cases.py.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import draw_case
from layouts import descriptor, local_array
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import Layout, random_layout, random_shape, same_bytes, same_numbers

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
FEATURES = frozenset({"copies", "irregular", "dimensions", "operations", "factors"})


def held(layout: Layout, whole: NDArray[Any], own: np.random.Generator) -> psr.DistributedArray:
    """A distributed array with this rank's part anywhere in memory; outside the grid None, or an empty array."""
    desc, local = descriptor(layout, WORLD), local_array(layout, RANK, whole.dtype, own)
    if local.given is None:
        return psr.DistributedArray(desc, desc.empty(whole.dtype) if own.integers(2) else None)
    local.views[0][...] = layout.local(whole, RANK)
    made = psr.DistributedArray(desc, local.given)
    assert made.local is local.given or local.views[0] is not local.given
    return made


def check(array: psr.DistributedArray, layout: Layout, whole: NDArray[Any]) -> None:
    """Every rank has what the oracle deals out to it."""
    wanted = layout.local(whole, RANK)
    if wanted is None:
        assert array.local is None or not array.local.size, layout
    else:
        assert array.local is not None
        assert array.dtype == whole.dtype
        assert same(array.local[: len(wanted)], wanted), layout


def same(x: Any, y: NDArray[Any]) -> bool:
    return same_numbers(x, y) if y.dtype.kind in "fc" else same_bytes(x, y)


def gathered(array: psr.DistributedArray, wanted: NDArray[Any], root: int) -> None:
    """One rank has it all, whoever asks."""
    for found in (array.gather(root), psr.gather(array, root=root)):
        assert (found is None) == (root != RANK)
        assert found is None or same(found, wanted)


def to_another_layout(rng: np.random.Generator, own: np.random.Generator) -> None:
    case = draw_case(rng, SIZE, {}, FEATURES, most=500)
    assert isinstance(case.a, Layout)
    assert isinstance(case.b, Layout)
    call = case.calls[0]
    before, after = case.before(call)
    a, b = held(case.a, before, own), held(case.b, after, own)
    how = {"op": case.op, "alpha": call.alpha, "beta": call.beta}
    if case.uplo is None and call.new:
        made = a.redistribute(b.desc, op=case.op, alpha=call.alpha)
    elif case.uplo is None:
        made = a.redistribute(out=b, **how)  # type: ignore[arg-type]
        assert made is b
    else:
        plan = psr.plan(a, b, **{**case.options, "dtype": case.dtype})
        (made,) = psr.batch(plan)([a], [b], alpha=[call.alpha], beta=[call.beta])
    check(made, case.b, case.after(call))
    gathered(made, case.after(call)[case.b.window()], int(rng.integers(SIZE)))


def views(rng: np.random.Generator, own: np.random.Generator) -> None:
    """Transposes and slices of slices are NumPy's, share the memory, and are written through."""
    size = random_shape(rng, int(rng.integers(1, 4)), 300)
    layout = random_layout(rng, size, SIZE, sub_arrays=False, copies=True)
    dtype = np.dtype("bhilfdFD"[rng.integers(8)])
    whole = rng.integers(-50, 50, size).astype(dtype)
    if dtype.kind == "c":
        whole += 1j * rng.integers(-50, 50, size)
    array, expected = held(layout, whole, own), whole
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
    gathered(chain, expected, root)
    gathered(array.H, whole.T.conj(), root)
    grid = psr.ProcessGrid((1,) * (chain.ndim - 1) + (SIZE,), WORLD)
    wide = chain.astype(np.complex128).redistribute(block=2, grid=grid)
    gathered(wide, expected.astype(np.complex128), root)
    # what is written into the view is in the array
    expected[...] = 7
    psr.distribute(np.full(chain.shape, 7, dtype), psr.Descriptor(chain.shape, 3, grid), root).redistribute(out=chain)
    check(array, layout, whole)


def corners() -> None:
    """One row, no elements, disjoint sets of processes, tiles, and layouts written in any of their ways."""
    first, last = (psr.ProcessGrid((1, 1), WORLD, ranks=[[k]]) for k in (0, SIZE - 1))
    row = psr.distribute([range(9)], psr.Descriptor((1, 9), 2, first), root=SIZE - 1)
    assert row.dtype == np.dtype(int)
    plan = psr.plan(row, psr.Descriptor((1, 9), 4, last))  # only the arrays tell the dtype to the last rank
    for moved in (plan(row), plan.start(row).wait(), *psr.batch(plan, plan)([row, row])):
        gathered(moved, np.array([range(9)]), 0)
    if RANK in (0, SIZE - 1):
        out = np.zeros((1, 9), "f4") if RANK == SIZE - 1 else None
        with pytest.raises(psr.RedistributionError, match=f"out has dtype float32, but a has dtype {row.dtype}"):
            plan(row, out)
    moved = row.redistribute(grid=last)
    assert moved.desc == psr.Descriptor((1, 9), 2, last)
    assert moved.redistribute(row).desc is row.desc
    column = moved.T.redistribute(block=None, grid=psr.ProcessGrid((SIZE, 1), WORLD), source=(SIZE - 1, 0))
    assert column.desc.source == (SIZE - 1, 0)
    gathered(column, np.arange(9)[:, None], SIZE - 1)
    turned = psr.distribute(np.eye(4, 6), psr.Descriptor((4, 6), (2, 3), first)).redistribute(grid=last, op="T")
    assert turned.desc.block == (3, 2)
    nothing = psr.distribute(np.empty((0, 3), "f4"), psr.Descriptor((0, 3), 2, first))
    assert nothing.redistribute(grid=last).gather().__class__ is (np.ndarray if RANK == 0 else type(None))
    for given in (((1, 2), (3, 4)), np.matrix([[1, 2], [3, 4]])):
        gathered(psr.distribute(given, psr.Descriptor((2, 2), 1, last)), np.array([[1, 2], [3, 4]]), 0)
    grid = psr.ProcessGrid((SIZE, 1), WORLD)
    blocks = psr.Blocks([2, 3, 4], [0, SIZE - 1, 0])
    array = psr.DistributedArray.from_function(psr.Descriptor((9, 4), (blocks, 2), grid), lambda i, j: 10.0 * i + j)
    part = array[1:7].redistribute(grid=grid)
    assert part.desc.block == (psr.Blocks([1, 3, 2], [0, SIZE - 1, 0]), 2)  # what the slice has of each
    gathered(part, 10.0 * np.arange(1, 7)[:, None] + np.arange(4), 0)
    tiles = psr.Tiles([0, 4, 9], [0, 4], [[0], [SIZE - 1]], WORLD)
    wanted = tiles.from_function(lambda i, j: 10.0 * i + j)
    for in_tiles in (psr.plan(array, tiles)(array), psr.redistribute(array, tiles), array.redistribute(tiles)):
        assert in_tiles.desc == tiles
        assert all(map(np.array_equal, in_tiles.local, wanted))
    psr.plan(tiles, array)([-some for some in wanted], array)
    gathered(array, -(10.0 * np.arange(9)[:, None] + np.arange(4)), 0)
    copies = psr.DistributedArray.from_function(psr.Descriptor((5, 7), 2, grid, axes=(None, 0)), lambda i, j: i + j)
    everywhere = copies.T.redistribute(block=3, grid=grid, axes=(None, None))
    assert (f", {SIZE} replicas" in repr(everywhere)) == (SIZE > 1)
    assert np.array_equal(everywhere.local, np.add.outer(np.arange(7), np.arange(5)))


def what_calls_return() -> None:
    """An array for an array, a plan for two layouts; a rank that passes None gets what the others ask for."""
    column, row = psr.ProcessGrid((SIZE, 1), WORLD), psr.ProcessGrid((1, SIZE), WORLD)
    desc_a, desc_b = psr.Descriptor((7, 5), (2, 2), column), psr.Descriptor((7, 5), (None, 1), row)
    a = psr.DistributedArray.from_function(desc_a, lambda i, j: 10.0 * i + j)
    wanted = 10.0 * np.arange(7)[:, None] + np.arange(5)
    plan = psr.plan(desc_a, desc_b)
    assert psr.redistribute(desc_a, desc_b) is plan
    assert psr.plan(a, psr.DistributedArray(desc_b, desc_b.empty())).desc_b == desc_b
    moved = psr.redistribute(a, desc_b)
    assert type(moved) is psr.DistributedArray
    assert moved.desc == desc_b
    gathered(moved, wanted, 0)
    gathered(psr.redistribute(a, psr.Descriptor((5, 7), 2, row), op="T", dtype=float), wanted.T, SIZE - 1)
    gathered(psr.redistribute(moved[1:5], psr.Descriptor((4, 5), 3, column), comm=WORLD), wanted[1:5], 0)
    first, last = (psr.ProcessGrid((1, 1), WORLD, ranks=[[k]]) for k in (0, SIZE - 1))
    single = psr.DistributedArray(
        one := psr.Descriptor((2, 3), None, first), one.from_function(lambda i, j: i + 1.5 * j)
    )
    there = psr.redistribute(
        single, other := psr.Descriptor((2, 3), None, last)
    )  # the last rank does not know the dtype
    gathered(there, np.add.outer(np.arange(2), 1.5 * np.arange(3)), 0)
    if SIZE == 1:
        return
    for _ in range(2):  # a new plan, and one that is kept
        alone = RANK == SIZE - 1
        there = psr.redistribute(None if alone else single, other, comm=WORLD)
        assert type(there) is psr.DistributedArray
        assert there.dtype == float  # on every rank
        gathered(there, np.add.outer(np.arange(2), 1.5 * np.arange(3)), 0)
        there = psr.redistribute(single, None if RANK == 0 else other, comm=WORLD)
        assert there.desc == other
        assert isinstance(psr.redistribute(one, None if alone else other, comm=WORLD), psr.Redistribution)
        assert isinstance(psr.redistribute(None if alone else one, other, comm=WORLD), psr.Redistribution)
    different = "what the call returns must be the same on every rank", "rank 0 has an array: desc_a is one"
    all_raise(lambda: psr.redistribute(a if RANK == 0 else desc_a, desc_b), *different)
    all_raise(lambda: psr.redistribute(a, desc_b) if RANK == 0 else psr.plan(a, desc_b), *different)
    all_raise(
        lambda: psr.redistribute(single, other, comm=WORLD) if RANK == 0 else psr.plan(None, other, comm=WORLD),
        *different,
    )
    for call, line in (
        (lambda: psr.redistribute(a, moved if RANK == 0 else desc_b), "desc_a.redistribute(out=desc_b)"),
        (lambda: psr.redistribute(desc_a, moved if RANK == 0 else desc_b), "plan(desc_a, desc_b) gives a plan"),
        (lambda: psr.redistribute(desc_a, desc_b, *[a.local] * (RANK == 0)), "redistribute(desc_a, desc_b)(a)"),
        (lambda: psr.redistribute(a, desc_b, like=moved), "like= has the layout to reach"),
        (lambda: psr.redistribute(a, psr.Descriptor((7, 6), 2, row)), "desc_b must have shape (7, 5)"),
        (lambda: psr.redistribute(a, desc_b, dtype="f4"), "a has dtype float64"),
    ):
        all_raise(call, line)
    gathered(psr.redistribute(a, desc_b), wanted, 0)  # as usual


def from_and_to_all_ranks() -> None:
    """`scatter` takes its first two arguments in either order; `gather` without a root gives the array to all ranks."""
    desc = psr.Descriptor((7, 5), (2, 3), psr.ProcessGrid((1, SIZE), WORLD))
    whole = 10.0 * np.arange(7)[:, None] + np.arange(5)
    given = whole if RANK == 0 else None
    integers = np.array([1, -1 if desc.coords is None else 0, 7, 5, 2, 3, 0, 0, 7])
    for local in (psr.scatter(desc, given), psr.scatter(given, desc), psr.scatter(array=desc, desc=given)):
        assert np.array_equal(local, desc.from_function(lambda i, j: 10.0 * i + j))
        for everywhere in (psr.gather(desc, local, None), psr.DistributedArray(desc, local).gather(None)):
            assert same(everywhere, whole)
            assert everywhere.flags.f_contiguous
    line = psr.Descriptor((9,), 2, psr.ProcessGrid((SIZE,), WORLD))  # nine numbers in a line may be an array
    for numbers in ((1, *range(8)), integers):
        local = psr.scatter(line, np.array(numbers) if RANK == 0 else None)
        assert np.array_equal(psr.gather(line, local, root=None), numbers)
        assert np.array_equal(psr.scatter(np.array(numbers), line), local)
    part = psr.gather(desc[2:5, 1:4], desc.from_function(lambda i, j: 10.0 * i + j), None)
    assert same(part, whole[2:5, 1:4])
    if SIZE > 1:
        all_raise(lambda: psr.gather(desc, desc.zeros(), None if RANK else 0), "root must be the same", "rank 0 has 0")
        all_raise(lambda: psr.scatter(desc, whole, root=None), "root = None")  # type: ignore[arg-type]


def arrays_of_tiles(folder: Path) -> None:
    """An array of tiles is taken as one of blocks is: by operators, files, gather, linalg; some ranks have no tile."""
    tiles = psr.Tiles([0, 2, 2, 5], [0, 3, 5], [[0, SIZE - 1], [0, 0], [SIZE - 1, 0]], WORLD)
    whole = 10.0 * np.arange(5)[:, None] + np.arange(5) + 50 * np.eye(5)
    array = psr.redistribute(psr.distribute(whole, psr.Descriptor((5, 5), 2, psr.ProcessGrid((1, SIZE), WORLD))), tiles)
    assert array.desc == tiles
    assert array.dtype == float  # also without a tile
    assert all(same(tile, whole[window]) for tile, window in zip(array.local, tiles.windows, strict=True))
    gathered(2 * array - array.astype("f4").astype(float) + array.copy() - -array.T.H, 3 * whole, SIZE - 1)
    psr.save(array, folder / "tiles.npy")
    assert same(np.load(folder / "tiles.npy"), whole)
    loaded = psr.load(psr.DistributedArray(tiles, tiles.zeros()), folder / "tiles.npy")
    assert all(map(same, loaded.local, array.local))
    x = psr.linalg.solve(array, array)
    assert x.desc == tiles
    assert np.allclose(psr.gather(x, None), np.eye(5), atol=1e-13)
    assert psr.linalg.eigh(array, like=array).eigenvectors.desc == tiles
    all_raise(lambda: array[1:3, :], "has no sub-arrays")
    all_raise(lambda: array.redistribute(block=3), "give a Descriptor")


def pairs_of_layout_and_array() -> None:
    """A pair (layout, local array) is taken as an array, and results are pairs; nine integers are known to their grid only."""
    desc = psr.Descriptor((7, 5), (2, 2), psr.ProcessGrid((SIZE, 1), WORLD))
    tiles = psr.Tiles([0, 3, 7], [0, 5], [[SIZE - 1], [0]], WORLD)
    a, b = (desc, desc.from_function(lambda i, j: 10.0 * i + j)), (tiles, tiles.zeros())
    whole = 10.0 * np.arange(7)[:, None] + np.arange(5)
    assert psr.layout_of(a) == desc
    assert psr.as_distributed(a).local is a[1]
    layout, local = psr.redistribute(a, like=b)
    assert layout is tiles
    assert all(same(tile, whole[window]) for tile, window in zip(local, tiles.windows, strict=True))
    assert not np.shares_memory(psr.redistribute(a, like=a)[1], a[1])
    psr.copy_to(a, b)
    gathered(psr.as_distributed(b), whole, 0)
    gathered(psr.redistribute(b, desc), whole, 0)
    assert same(psr.plan(a, desc)(a), a[1])
    for pair in (a, b):  # the result of another shape is a pair as well
        u, values, vh = psr.linalg.svd(pair, full_matrices=False)
        assert u[0] is pair[0]
        assert np.allclose(psr.gather(u, None) * values @ psr.gather(vh, None), whole, atol=1e-12)
    square = psr.Descriptor((2 * SIZE - 1,) * 2, 2, desc.grid)  # the last rank's row is contiguous in both orders
    by_rows = np.ascontiguousarray(square.from_function(lambda i, j: 1.0 + 9 * (i == j)))
    inverse = psr.linalg.inv((square, by_rows))
    identity = psr.gather(inverse, None) @ psr.gather(square, by_rows, None)
    assert np.allclose(identity, np.eye(2 * SIZE - 1), atol=1e-13)
    grid = psr.ProcessGrid((1, max(1, SIZE - 1)), WORLD)
    inside = grid.coords is not None
    nine = [1, grid.make_context() if inside else -1, 7, 5, 3, 2, 0, 0, 7]
    moved = psr.redistribute(b, like=(nine, None))
    assert moved[0] is nine
    gathered(psr.redistribute(moved, desc), whole, 0)
    assert same(psr.gather(moved, None), whole)
    turned = psr.redistribute(a, like=(desc.T, a[1].T), op="T")
    assert same(turned[1], a[1].T)
    assert turned[1].flags.c_contiguous or 1 in turned[1].shape  # as the other local array
    if inside:
        grid.close()
    outside = psr.as_distributed((desc, a[1]), WORLD.Dup())
    assert outside.desc == desc.on(outside.desc.comm)
    for call, text in (
        (lambda: psr.as_distributed(a if RANK else (desc, np.zeros(1))), "local has shape (1,)"),
        (lambda: psr.as_distributed(np.zeros(3) if RANK == 0 else a), "the layout of a local array is not known"),
        (lambda: psr.redistribute(a, like=(psr.Descriptor((7, 6), 2, desc.grid), None)), "an array of shape (7, 5)"),
        (lambda: psr.copy_to(a, (desc, np.broadcast_to(0.0, a[1].shape))), "read-only" if a[1].size else ""),
        (lambda: psr.as_distributed(a if RANK == 0 else b), "the layout of x must be the same" if SIZE > 1 else None),
    ):
        if text is not None:
            all_raise(call, text)
    if RANK == 0:  # with nothing on one side the communicator is that of the other, and not COMM_WORLD, whose ranks do not call
        own = psr.Descriptor((2, 2), 1, psr.ProcessGrid((1, 1), MPI.COMM_SELF))
        with pytest.raises(psr.ArrayError, match="x is a NoneType"):
            psr.copy_to(None, psr.DistributedArray(own, own.zeros()))


def all_raise(call: Callable[[], object], *texts: str) -> None:
    """Every rank raises, with these texts."""
    result, message = "", ""
    try:
        result = repr(call())
    except psr.RedistributionError as error:
        message = str(error)
    assert not any(WORLD.allgather(result)), result
    assert all(text in message for text in texts), message


def main() -> None:
    cases, seed = int(sys.argv[1]), int(sys.argv[2])
    rng, own = np.random.default_rng(seed), np.random.default_rng([seed, RANK])
    corners()
    what_calls_return()
    from_and_to_all_ranks()
    pairs_of_layout_and_array()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(WORLD.bcast(name))
        arrays_of_tiles(folder)
        for _ in range(cases):
            to_another_layout(rng, own)
            views(rng, own)
        WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
