"""Random tiles to and from tiles and descriptors of every kind, against NumPy on the whole matrix; and bad input.

Arguments: number of cases, seed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from layouts import block_sizes
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import random_layout

import pyscalapack_redist as psr
from pyscalapack_redist.engine.scheduling import is_one_port
from pyscalapack_redist.exchanges import EXCHANGES, check_combination
from pyscalapack_redist.schedules import NAMES

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
ROWS = psr.ProcessGrid((SIZE, 1), WORLD)
DTYPES = [np.dtype(t) for t in "?bhifdFD"] + [np.dtype("S5"), np.dtype(">f8"), np.dtype([("x", "i2"), ("y", "f8")])]


@dataclass
class Side:
    """A layout of a window of a matrix, and which elements of the window each local array of this rank has."""

    layout: Any
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    shapes: list[tuple[int, int]]
    inside: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    tiled: bool
    storage: tuple[list[int], list[int]] | None = None

    def arrays(self, rng: np.random.Generator, matrix: NDArray[Any], around: NDArray[Any] | None) -> list[NDArray[Any]]:
        """The local arrays, of any strides; elements around a window, or all without a matrix, come from `around`."""
        made = []
        for (i, j), shape, (x, y) in zip(self.parts, self.shapes, self.inside, strict=True):
            array = strided(rng, shape, matrix.dtype)
            if around is not None:
                array[...] = np.resize(around, shape)
            array[np.ix_(x, y)] = matrix[np.ix_(i, j)]
            made.append(array)
        return made

    def given(self, arrays: list[NDArray[Any]], dtype: np.dtype[Any]) -> Any:
        """As a plan takes them."""
        if not self.tiled:
            return arrays[0] if arrays else None
        if self.storage is None:
            return arrays
        flat = np.zeros(50 + 4 * sum(array.size for array in arrays) + 200 * len(arrays), dtype)
        for array, view in zip(arrays, self.layout.views(flat), strict=True):
            view[...] = array
        return flat

    def taken(self, local: Any) -> list[NDArray[Any]]:
        """The arrays of what a plan gives."""
        if not self.tiled:
            return [] if local is None else [local]
        if self.storage is None:
            return list(local)
        if local is None:
            return [np.zeros(shape) for shape in self.shapes]
        return [  # not by `views`, which is tested by this
            np.array([[local[first + r + c * leading] for c in range(n)] for r in range(m)], local.dtype).reshape(m, n)
            for (m, n), first, leading in zip(self.shapes, *self.storage, strict=True)
        ]


def strided(rng: np.random.Generator, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    kind = rng.integers(4)
    if kind == 0:
        return np.zeros(shape, dtype)
    if kind == 1:
        return np.zeros((2 * shape[0] + 1, 3 * shape[1] + 1), dtype)[1::2, 1::3]
    if kind == 2:
        return np.zeros(shape, dtype)[::-1, ::-1]
    return np.zeros(shape, dtype, order="F")


def drawn_tiles(rng: np.random.Generator, comm: MPI.Intracomm, size: tuple[int, int]) -> Side:
    """Edges with and without empty tiles; owners any ranks, a few of them, or one."""
    cuts = int(rng.choice((1, 2, 5, 9)))
    edges = [np.sort(np.r_[0, rng.integers(0, n + 1, int(rng.integers(cuts))), n]) for n in size]
    if rng.random() < 0.1:
        edges = [np.arange(n + 1) for n in size]  # tiles of single elements
    ranks = rng.permutation(comm.Get_size())[: int(rng.integers(1, comm.Get_size() + 1))]
    owners = rng.choice(ranks, [len(some) - 1 for some in edges])
    stored = rng.random() < 0.4
    own = [(i, j) for i, j in np.ndindex(*owners.shape) if owners[i, j] == comm.Get_rank()]
    parts = [(np.arange(*edges[0][i : i + 2]), np.arange(*edges[1][j : j + 2])) for i, j in own]
    shapes = [(len(i), len(j)) for i, j in parts]
    storage: tuple[list[int], list[int]] | None = None
    if stored:  # in a random order, with gaps
        mine = np.random.default_rng(comm.Get_rank())
        offsets, leading, place = [0] * len(own), [max(1, m) + int(mine.integers(3)) for m, _ in shapes], 3
        for k in mine.permutation(len(own)):
            offsets[k] = place
            place += leading[k] * shapes[k][1] + 2
        storage = offsets, leading
    keywords = {} if storage is None else dict(zip(("offsets", "leading_dimensions"), storage, strict=True))
    layout = psr.Tiles(edges[0], edges[1], owners, comm, **keywords)
    assert layout.own.tolist() == [list(place) for place in own]
    assert layout.local_shapes == shapes
    inside = [(np.arange(m), np.arange(n)) for m, n in shapes]
    return Side(layout, parts, shapes, inside, True, storage)


def drawn_descriptor(rng: np.random.Generator, comm: MPI.Intracomm, size: tuple[int, int]) -> Side:
    """Block-cyclic or irregular, a whole array or a part of one."""
    drawn = random_layout(rng, size, comm.Get_size())
    grid = psr.ProcessGrid(drawn.ranks.shape, comm, ranks=drawn.ranks)
    desc = psr.Descriptor(drawn.shape, block_sizes(drawn), grid, source=drawn.source)[drawn.window()]
    coords = drawn.coords(comm.Get_rank())
    if coords is None:
        return Side(desc, [], [], [], False)
    held = [np.array(some[p], np.int64) for some, p in zip(drawn.held, coords, strict=True)]
    within = [
        np.flatnonzero((some >= start) & (some < start + n))
        for some, start, n in zip(held, drawn.start, drawn.size, strict=True)
    ]
    i, j = (some[x] - start for some, x, start in zip(held, within, drawn.start, strict=True))
    return Side(desc, [(i, j)], [(len(held[0]), len(held[1]))], [(within[0], within[1])], False)


def numbered(shape: tuple[int, int], dtype: np.dtype[Any], salt: int) -> NDArray[Any]:
    if dtype.kind in "fc":
        values = (1 + salt + np.arange(shape[0] * shape[1]) % 1000).reshape(shape).astype(dtype)
        return values * (1 - 2j) if dtype.kind == "c" else values
    some = np.random.default_rng(salt).bytes(shape[0] * shape[1] * dtype.itemsize)
    if dtype == np.bool_:
        return (np.frombuffer(some, np.uint8) % 2 == 1).reshape(shape)
    return np.frombuffer(some, dtype).reshape(shape)


def same(x: NDArray[Any], y: NDArray[Any]) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and np.array(x).tobytes() == np.array(y).tobytes()


def options() -> list[dict[str, Any]]:
    """Schedules and exchanges that go together, with much memory and with little."""
    found: list[dict[str, Any]] = [{}]
    for schedule, exchange in itertools.product((*NAMES, "auto"), EXCHANGES):
        if schedule in ("walker-otto", "phases", "classes"):
            continue
        try:
            check_combination(schedule, schedule == "auto" or is_one_port(schedule), exchange, "packed")
        except psr.ScheduleError:
            continue
        small = 4000 if exchange == "bruck" else 2000 if EXCHANGES[exchange].collective else 300
        found += [{"schedule": schedule, "exchange": exchange, **more} for more in ({}, {"memory_limit": small})]
    return found


OPTIONS = options()


def check_case(comm: MPI.Intracomm, rng: np.random.Generator, keywords: dict[str, Any]) -> None:
    """Draw and check one case; every rank draws the same."""
    size = int(rng.choice((0, 1, 3, 20, 60))), int(rng.choice((0, 1, 2, 17, 50)))
    op = str(rng.choice(["N", "N", "T", "C"]))
    kinds = [(drawn_tiles, drawn_tiles), (drawn_tiles, drawn_descriptor), (drawn_descriptor, drawn_tiles)][
        rng.integers(3)
    ]
    a = kinds[0](rng, comm, size)
    b = kinds[1](rng, comm, size if op == "N" else size[::-1])
    uplo = [None, None, "U", "L"][rng.integers(4)]
    dtype = DTYPES[rng.integers(len(DTYPES))]
    blended = dtype.char in "fdFD" and dtype.isnative
    alpha, beta = (2, 3) if blended and rng.random() < 0.5 else (1, 0)
    if op == "C" and dtype.kind == "c" and not blended:
        dtype = np.dtype("D")
    matrix, before = numbered(size, dtype, 0), numbered(size if op == "N" else size[::-1], dtype, 7)
    kept = np.ones(size, bool) if uplo is None else trapezoid(uplo, size)
    moved, mask = (x if op == "N" else x.T for x in (matrix, kept))
    moved = moved.conj() if op == "C" and dtype.kind == "c" else moved
    give_out = (beta != 0) or bool(rng.integers(2)) or (not b.tiled and b.layout.parent is not None)
    base = before if give_out else np.zeros_like(before)
    result = alpha * moved + beta * before if (alpha, beta) != (1, 0) else moved
    expected = np.where(mask, result, base).astype(dtype)

    own = np.random.default_rng([int(rng.integers(2**31)), comm.Get_rank()])
    around = numbered((50, 50), dtype, 3)
    sources = a.arrays(own, matrix, around)
    given = a.given(sources, dtype)
    copies = [array.copy() for array in a.taken(given)]
    out = b.given(b.arrays(own, before, around), dtype) if give_out else None
    what = f"{a} -> {b}, {dtype}, {op}, {uplo}, {alpha}, {beta}, {keywords}"
    plan = psr.redistribute(a.layout, b.layout, dtype=dtype, op=op, uplo=uplo, comm=comm, **keywords)
    for again in range(2):
        if again and give_out:
            out = b.given(b.arrays(own, before, around), dtype)
        if rng.random() < 0.5:
            found = plan(given, out, alpha=alpha, beta=beta)
        else:
            found = plan.start(given, out, alpha=alpha, beta=beta).wait()
        if out is not None:
            assert found is out, what
        wanted = b.arrays(own, expected, around if give_out else None)
        for x, y in zip(b.taken(found), wanted, strict=True):
            assert x.size == 0 or same(x, y), what
        assert all(same(x, y) for x, y in zip(a.taken(given), copies, strict=True)), what
    moves = plan.messages
    assert sum(m.size for some in moves.values() for m in some) * dtype.itemsize == (
        (report := plan.report(dtype)).bytes_sent + report.bytes_received + report.bytes_copied
    ), what


def trapezoid(uplo: str, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """As in the documentation of `redistribute`."""
    m, n = shape
    i, j = np.ogrid[:m, :n]
    return i <= j + max(m - n, 0) if uplo == "U" else i >= j - max(n - m, 0)


def random_cases(cases: int, seed: int) -> None:
    if RANK == 0:
        print(f"{cases} cases, seed {seed}", flush=True)
    half, reordered = WORLD.Split(RANK % 2, RANK), WORLD.Split(0, -RANK)
    for case in range(cases):
        rng = np.random.default_rng([seed, case])
        check_case((WORLD, WORLD, half, reordered)[rng.integers(4)], rng, OPTIONS[case % len(OPTIONS)])
    half.Free()
    reordered.Free()


# -- single points

M, N = 9, 7
OWNERS = np.arange(6).reshape(3, 2) % SIZE


def value(i: Any, j: Any) -> Any:
    return 100.0 * i + j


def tiles(**changed: Any) -> psr.Tiles:
    arguments: dict[str, Any] = {"row_edges": [0, 2, 2, M], "column_edges": [0, 3, N], "owners": OWNERS, "comm": WORLD}
    return psr.Tiles(**{**arguments, **changed})


def desc() -> psr.Descriptor:
    return psr.Descriptor((M, N), (2, 2), ROWS)


def equal(x: Any, y: Any) -> bool:
    return len(x) == len(y) and all(map(np.array_equal, x, y))


def in_place() -> None:
    t = tiles()
    mine = t.from_function(value)
    plan = psr.redistribute(t, t)
    assert plan(mine, mine) is mine
    assert equal(mine, t.from_function(value))
    plan(mine, mine, alpha=2.0)
    assert equal(mine, t.from_function(lambda i, j: 2 * value(i, j)))


def disjoint_processes() -> None:
    """Ranks that know only their own layout; ranks of neither."""
    if SIZE < 3:
        return
    t = tiles(owners=np.zeros((3, 2), int))
    b = psr.Descriptor((M, N), (2, 2), psr.ProcessGrid((1, 1), WORLD, ranks=[[1]]))
    plan = psr.redistribute(t if RANK == 0 else None, b if RANK == 1 else None, comm=WORLD, dtype=float)
    found = plan(t.from_function(value) if RANK == 0 else None)
    assert found is None if RANK != 1 else np.array_equal(found, b.from_function(value))
    found = psr.redistribute(b, t, dtype=float)(b.from_function(value) if RANK == 1 else None)
    assert equal(found, t.from_function(value))


def two_sides() -> None:
    """An inter-communicator: tiles on one side, a descriptor on the other."""
    if SIZE < 2:
        return
    side = int(RANK >= SIZE // 2)
    half = WORLD.Split(side, RANK)
    inter = half.Create_intercomm(0, WORLD, SIZE // 2 if side == 0 else 0, 5)
    t = psr.Tiles([0, 2, M], [0, 3, N], np.arange(4).reshape(2, 2) % half.Get_size(), half)
    d = psr.Descriptor((M, N), (2, 3), psr.ProcessGrid((half.Get_size(), 1), half))
    for sends in (True, False):
        first = (side == 0) == sends
        mine = (t if side == 0 else d) if first else None
        plan = psr.redistribute(mine, None if first else (t if side == 0 else d), comm=inter, dtype=float)
        if first:
            plan((t if side == 0 else d).from_function(value))
        elif side == 0:
            assert equal(plan(None), t.from_function(value))
        else:
            assert np.array_equal(plan(None), d.from_function(value))
    inter.Free()
    half.Free()


def several_in_flight() -> None:
    t, d = tiles(), desc()
    there, back = psr.redistribute(t, d, dtype=float), psr.redistribute(d, t, dtype=float)
    started = [plan.start(layout.from_function(value)) for plan, layout in ((there, t), (back, d)) * 2]
    found = [transfer.wait() for transfer in reversed(started)][::-1]
    assert all(np.array_equal(some, d.from_function(value)) for some in found[::2])
    assert all(equal(some, t.from_function(value)) for some in found[1::2])


def plans_are_kept() -> None:
    """One plan for one layout, whatever the storage."""
    d = desc()
    shapes = tiles().local_shapes
    offsets = np.cumsum([0, *(m * n for m, n in shapes)])[:-1].tolist()
    listed, stored = tiles(), tiles(offsets=offsets)
    for t in (listed, stored, listed):
        found = psr.redistribute(d, t, dtype=float)(d.from_function(value))
        assert type(found) is type(t.zeros())
        assert equal(found, t.from_function(value))
    assert stored.layout_digest == listed.layout_digest


def distributed_arrays() -> None:
    d, t = desc(), tiles()
    array = psr.DistributedArray.from_function(d, value)
    assert equal(psr.redistribute(array, t)(array), t.from_function(value))
    psr.redistribute(t, array)(t.from_function(lambda i, j: -value(i, j)), array)
    assert np.array_equal(array.local, d.from_function(lambda i, j: -value(i, j)))


# -- bad input


def refused(call: Callable[[], object], kind: type[Exception], words: str, culprit: int | None = None) -> None:
    """`kind` with these words on the culprit, or on all ranks; CollectiveError elsewhere."""
    here = culprit is None or culprit == RANK
    with pytest.raises(kind if here else psr.CollectiveError, match=words):
        call()
    still_good()


def still_good() -> None:
    d, t = desc(), tiles()
    found = psr.redistribute(t, d, dtype=float)(t.from_function(value))
    assert np.array_equal(found, d.from_function(value))


def bad_layouts() -> None:
    t, d, last = tiles(), desc(), SIZE - 1
    redistribute = psr.redistribute
    larger = psr.Descriptor((M, N + 1), (2, 2), ROWS)
    refused(lambda: redistribute(t, larger), psr.DescriptorError, r"desc_a has shape \(9, 7\) and desc_b \(9, 8\)")
    refused(
        lambda: redistribute(t, larger if last == RANK else d),
        psr.DescriptorError,
        "keeps the global shape",
        culprit=last,
    )
    refused(lambda: redistribute(t, d, fill="zero", uplo="U"), psr.DescriptorError, "fill = 'zero' is not for tiles")
    refused(lambda: redistribute(t, d, buffers="datatypes"), psr.ScheduleError, "datatypes' with tiles")
    refused(lambda: redistribute(t, d, via="dimensions"), psr.ScheduleError, "via = 'dimensions' is not for tiles")
    refused(lambda: redistribute(t, d, schedule="walker-otto"), psr.ScheduleError, "walker-otto")
    refused(lambda: psr.batch(redistribute(t, d)), psr.ScheduleError, "plan 0 is of tiles")
    paper = psr.Tiles([0, M], [0, N], [[0]])
    refused(lambda: redistribute(paper, d), psr.DescriptorError, "on paper: give it a communicator")
    if SIZE > 1:
        copies = psr.Descriptor((M, N), (2, 2), ROWS, axes=(None, 1))
        refused(
            lambda: redistribute(t, copies), psr.DescriptorError, "has copies, to and from which tiles are not moved"
        )
        other = tiles(owners=(OWNERS + 1) % SIZE) if last == RANK else t
        refused(lambda: redistribute(other, d), psr.CollectiveError, "desc_a must be the same on every rank")
        edges = tiles(row_edges=[0, 3, 3, M]) if last == RANK else t
        refused(lambda: redistribute(d, edges), psr.CollectiveError, "desc_b must be the same on every rank")


def bad_arrays() -> None:
    """Of the last rank that has a tile with elements; outputs stay as they are."""
    t, d = tiles(), desc()
    culprit = int(max(t.owner(i, j) for i in range(M) for j in range(N)))
    there, back = psr.redistribute(t, d, dtype=float), psr.redistribute(d, t, dtype=float)
    good = t.from_function(value)
    k = next((k for k, shape in enumerate(t.local_shapes) if 0 not in shape), -1)
    masked = [np.ma.masked_array(some) if some.size else some for some in good]
    changes: list[tuple[Any, str]] = [
        (None, r"a is None, but this rank has \d+ tile"),
        ([None] * len(good), rf"a\[{k}\] is None: it must be a NumPy array of shape"),
        (masked, rf"a\[{k}\] is a MaskedArray"),
        (good[:-1], r"a has \d+ entries: it must be a list with a NumPy array"),
        (np.zeros(5), "a is a ndarray: it must be a list"),
        ([some[:-1] if some.size else some for some in good], rf"a\[{k}\] has shape"),
        ([some.astype(object) for some in good], "dtype object"),
    ]
    for bad, words in changes:
        out = np.full_like(d.zeros(), 5)
        mine = bad if culprit == RANK else good
        words = words if culprit == RANK else "could not take part"
        refused(lambda mine=mine, out=out: there(mine, out), psr.ArrayError, words, culprit)
        assert (out == 5).all()
    # B's: of the culprit bad, of the others full of 5
    shared = np.zeros(M * N)
    on_top = [shared[: m * n].reshape(m, n) for m, n in t.local_shapes]
    read_only = t.zeros()
    for some in read_only:
        some.flags.writeable = False
    whole = d.from_function(value)
    several = WORLD.bcast(sum(some.size > 0 for some in good) > 1, culprit)
    wrong: list[tuple[Any, str]] = [(read_only, rf"out\[{k}\] is read-only")]
    wrong += [(on_top, r"out\[\d\] and out\[\d\] share elements: give each tile memory")] if several else []
    for bad, words in wrong:
        out = bad if culprit == RANK else [some + 5 for some in t.zeros()]
        words = words if culprit == RANK else "could not take part"
        refused(lambda out=out: back(whole, out), psr.ArrayError, words, culprit)
        assert all((some == (0 if culprit == RANK else 5)).all() for some in out)
    if several:
        mixed = [some.astype("f4") if j == k and culprit == RANK else some for j, some in enumerate(good)]
        words = "all must be of one dtype" if culprit == RANK else "could not take part"
        refused(lambda: there(mixed), psr.ArrayError, words, culprit)
    flat = tiles(offsets=np.cumsum([0, *(some.size for some in good)])[:-1])
    with_offsets = psr.redistribute(d, flat)
    short = np.zeros(1) if culprit == RANK else np.zeros(M * N)
    text = "out has shape .* at least" if culprit == RANK else "could not take part"
    refused(lambda: with_offsets(whole, short), psr.ArrayError, text, culprit)
    square = psr.Tiles([0, 2, 4], [0, 2, 4], np.zeros((2, 2), int), WORLD)
    turned, mine = psr.redistribute(square, square, op="T"), square.zeros()
    if RANK == 0:
        refused(lambda: turned(mine, mine), psr.ArrayError, "out is a: .* identical layouts")
    else:
        still_good()
    array = psr.DistributedArray.from_function(d, value)
    refused(lambda: there(array), psr.ArrayError, "pass a list of its tiles")


def main() -> None:
    random_cases(*map(int, sys.argv[1:]))
    for check in (
        in_place,
        disjoint_processes,
        two_sides,
        several_in_flight,
        plans_are_kept,
        distributed_arrays,
        bad_layouts,
        bad_arrays,
    ):
        check()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
