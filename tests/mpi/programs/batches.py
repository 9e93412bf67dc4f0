"""Random batches against the oracle, byte by byte where elements only move. Arguments: batches, calls of each, seed.

Plans differ in layouts, sets of processes, dtypes, operations and parts. Between calls some ranks take arrays of another
kind, start instead of calling, or have an array that does not fit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray
from operations import whole_numbers
from oracle import Layout, random_layout, random_shape, random_size
from random_layouts import DTYPES, descriptor, numbered, placed, same
from trapezoids import inside

import pyscalapack_redist as psr
from pyscalapack_redist.engine.model import FAST_PIECE, LONGEST_PIECE, SHORTEST_PIECE, SMALLEST_WINDOW

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
OPTIONS: list[dict[str, Any]] = [
    {},
    {"exchange": "shared"},
    {"exchange": "nonblocking"},
    {"memory_limit": "3kB"},
    {"exchange": "shared", "memory_limit": 5000},
    {"exchange": "nonblocking", "memory_limit": 2000},
]


@dataclass
class Member:
    """One plan of a batch, and what its arrays hold before and after; every rank draws the same."""

    plan: psr.Redistribution
    a: Layout
    b: Layout
    whole_a: NDArray[Any]
    before: NDArray[Any]
    after: NDArray[Any]
    alpha: complex
    beta: complex
    new: bool
    exact: bool

    def arrays(self, own: np.random.Generator) -> list[NDArray[Any] | None]:
        """This rank's local arrays, anywhere in memory."""
        made = []
        for values in (self.a.local(self.whole_a, RANK), None if self.new else self.b.local(self.before, RANK)):
            array = None if values is None else placed(own, values.shape, values.dtype)
            if array is not None and values is not None:
                array[...] = values
            made.append(array)
        return made

    def check(self, result: NDArray[Any] | None) -> None:
        wanted = self.b.local(self.after, RANK)
        if wanted is None:
            assert result is None, self
        else:
            assert result is not None, self
            assert (same if self.exact else np.array_equal)(result, wanted), self

    def holds(self, rank: int) -> bool:
        """Whether a rank has anything of the whole A."""
        coords = self.a.coords(rank)
        return coords is not None and all(held[p] for held, p in zip(self.a.held, coords, strict=True))


def drawn(rng: np.random.Generator, number: int) -> Member:
    """A plan: of any number of dimensions, or of a matrix with an operation or a part."""
    multiplied = rng.random() < 0.3
    dtype = np.dtype("fdFD"[rng.integers(4)]) if multiplied else DTYPES[rng.integers(len(DTYPES))]
    op, part, fill = "N", {}, None
    if rng.random() < 0.3:
        size: tuple[int, ...] = random_shape(rng, int(rng.integers(1, 5)), 2000)
    else:
        size = random_size(rng)
        op = "NNTC"[rng.integers(4)]
        if op == "C" and dtype.kind == "c" and dtype.char not in "FD":
            op = "T"
        if rng.random() < 0.5:
            part = {"uplo": "UL"[rng.integers(2)], "diag": "NU"[rng.integers(2)]}
            fill = (None, "zero", "symmetric", "hermitian")[rng.integers(4)]
    if fill in ("symmetric", "hermitian"):
        size = (max(size) % 61,) * 2
        op = "N" if rng.random() < 0.5 else {"symmetric": "T", "hermitian": "C"}[fill]
        dtype = np.dtype("f8") if dtype.char == "G" else dtype
    a, b = (random_layout(rng, some, SIZE, copies=True) for some in (size, size if op == "N" else size[::-1]))
    if op == "N" and rng.random() < 0.1:
        b = replace(a)
    alpha, beta = (int(rng.integers(-1, 4)), int(rng.integers(0, 3))) if multiplied else (1, 0)
    if multiplied or dtype.kind == "c":
        whole_a, before = (whole_numbers(rng, desc.shape, dtype) for desc in (a, b))
    else:
        whole_a, before = (numbered(desc.shape, dtype, 2 * number + k) for k, desc in enumerate((a, b)))
    new = b.size == b.shape and beta == 0 and rng.random() < 0.4
    after = np.zeros_like(before) if new else before.copy()
    _expect(after[b.window()], whole_a[a.window()], op, part, fill, alpha if multiplied else None, beta)
    plan = psr.redistribute(descriptor(a, WORLD, 0), descriptor(b, WORLD, 0), dtype=dtype, op=op, fill=fill, **part)
    return Member(plan, a, b, whole_a, before, after, alpha, beta, new, not multiplied and dtype.kind != "c")


def _expect(
    window: NDArray[Any],
    given: NDArray[Any],
    op: str,
    part: dict[str, str],
    fill: str | None,
    alpha: complex | None,
    beta: complex,
) -> None:
    """Write into a window of B what a plan must write there."""
    values = given if op == "N" else given.T.conj() if op == "C" and given.dtype.kind == "c" else given.T
    kept = np.full(values.shape, True)
    if part:
        kept = inside(given.shape, part["uplo"], part["diag"])  # type: ignore[arg-type]
        kept = kept if op == "N" else kept.T
    if fill == "zero":
        values, kept = np.where(kept, values, np.zeros((), values.dtype)), np.full(kept.shape, True)
    elif fill is not None:
        mirror = values.T.conj() if fill == "hermitian" and values.dtype.kind == "c" else values.T
        above = np.triu(np.full(kept.shape, True), 1)
        off = above if kept[above].all() else above.T
        values, kept = np.where(off.T, mirror, values), kept | off.T
    moved = values if alpha is None else alpha * values + beta * window
    window[kept] = moved[kept]


def check_batch(rng: np.random.Generator, number: int, calls: int) -> int:
    """Draw a batch and call it; returns how many calls failed, as they had to."""
    members = [drawn(rng, 100 * number + k) for k in range(rng.integers(1, 7))]
    options = OPTIONS[number % len(OPTIONS)]
    batch = psr.batch(*(member.plan for member in members), **options)
    own = np.random.default_rng([number, RANK])
    factors: dict[str, Any] = {}
    if any((member.alpha, member.beta) != (1, 0) for member in members):
        factors = {"alpha": [member.alpha for member in members], "beta": [member.beta for member in members]}
    pairs = [member.arrays(own) for member in members]
    idle = batch._group is None
    failed = 0
    for _ in range(calls):
        for k, member in enumerate(members):
            if own.random() < 0.05:
                pairs[k] = member.arrays(own)
            if pairs[k][1] is not None:
                pairs[k][1][...] = member.b.local(member.before, RANK)  # type: ignore[index]
        arrays, outs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        bad, which = (int(rng.integers(SIZE)), int(rng.integers(len(members)))) if rng.random() < 0.15 else (-1, 0)
        there = bad >= 0 and members[which].holds(bad)
        if there and bad == RANK:
            arrays[which] = np.empty((1,) * 7, "V5")
        try:
            if own.random() < 0.3:
                results = batch.start(arrays, outs, **factors).wait()
            else:
                results = batch(tuple(arrays), outs, **factors)
        except psr.RedistributionError:
            failed += 1
            assert there
            for member, out in zip(members, outs, strict=True):
                assert out is None or same(out, member.b.local(member.before, RANK)), "a failed call has written to out"  # type: ignore[arg-type]
            continue
        assert idle or not there, "an array that does not fit was accepted"
        assert results is not None
        for member, result, (a, out) in zip(members, results, pairs, strict=True):
            assert out is None or result is out or member.b.coords(RANK) is None
            member.check(result)
            assert a is None or same(a, member.a.local(member.whole_a, RANK)), "A was written"  # type: ignore[arg-type]
    return failed


def whole(comm: MPI.Intracomm, shape: tuple[int, ...], grid: tuple[int, ...], block: int = 3) -> psr.Descriptor:
    return psr.Descriptor(shape, (block,) * len(shape), psr.ProcessGrid(grid, comm))


def disjoint_sets() -> None:
    """Two plans that no process has in common, and one that all have: each process gives all three."""
    if SIZE < 2:
        return
    even, odd = (np.arange(k, SIZE, 2) for k in range(2))
    a, b = (
        psr.Descriptor((17, 9), (2, 3), psr.ProcessGrid((len(some), 1), WORLD, ranks=some[:, None]))
        for some in (even, odd)
    )
    columns = whole(WORLD, (17, 9), (1, SIZE))
    there = [psr.redistribute(a, a), psr.redistribute(b, b, op="N"), psr.redistribute(a, columns, dtype="i4")]
    batch = psr.batch(*there)
    value: Callable[..., Any] = lambda i, j: 10.0 * i + j  # noqa: E731
    x, y, z = a.from_function(value), b.from_function(value), a.from_function(value, np.int32)
    for k in range(5):
        found = batch([None if v is None else v + k for v in (x, y, z)])
        for desc, result in zip((a, b, columns), found, strict=True):
            assert (result is None) == (desc.coords is None)
            assert result is None or np.array_equal(result, desc.from_function(value) + k)
    assert len(batch) == 3
    if RANK >= 2:
        return
    few = psr.ProcessGrid((1, 2), WORLD)  # a batch that the others know nothing of
    d = psr.Descriptor((4, 4), (1, 1), few)
    (result,) = psr.batch(psr.redistribute(d, d))([d.from_function(value)])
    assert result is not None
    assert np.array_equal(result, d.from_function(value))


def windows_of_an_array() -> None:
    """Plans read windows of one array, write windows of one, and triangles of one; overlapping is an error on all ranks."""
    value: Callable[..., Any] = lambda i, j: 1000.0 * i + j  # noqa: E731
    rows, columns = whole(WORLD, (30, 20), (SIZE, 1)), whole(WORLD, (30, 20), (1, SIZE), 4)
    a = rows.from_function(value)
    corners = [(slice(0, 11), slice(0, 20)), (slice(11, 30), slice(0, 7)), (slice(11, 30), slice(7, 20))]
    plans = [psr.redistribute(rows[corner], columns[corner]) for corner in corners]
    out = columns.zeros()
    batch = psr.batch(*plans)
    if batch._group is not None and batch._group.links is not None:
        cutting = batch._stages[0].options.cutting
        short = SHORTEST_PIECE <= (cutting.nbytes or 0) <= LONGEST_PIECE
        assert short if cutting.spread else cutting.nbytes == FAST_PIECE, cutting
        assert (cutting.window or 0) >= SMALLEST_WINDOW, cutting
    for k in range(4):
        batch([a + k] * 3, [out] * 3)
        assert np.array_equal(out, columns.from_function(value) + k)
    square, into = whole(WORLD, (20, 20), (SIZE, 1)), whole(WORLD, (20, 20), (1, SIZE), 4)
    low, high = square.from_function(value), square.from_function(lambda i, j: -value(i, j))
    triangles = psr.batch(psr.redistribute(square, into, uplo="L"), psr.redistribute(square, into, uplo="U", diag="U"))
    out = into.zeros()
    for _ in range(3):
        triangles([low, high], [out, out])
        assert np.array_equal(out, into.from_function(lambda i, j: np.where(i >= j, 1, -1) * value(i, j)))
    clash = (psr.RedistributionError, "share elements")
    out = columns.zeros()
    overlapping = psr.batch(*plans, psr.redistribute(rows[5:12, :], columns[5:12, :]))
    fails(clash, lambda: overlapping([a] * 4, [out] * 4))
    both = psr.batch(psr.redistribute(square, into, uplo="L"), psr.redistribute(square, into, uplo="U"))
    out = into.zeros()
    fails(clash, lambda: both([low, high], [out, out]))
    chained = psr.batch(psr.redistribute(square, square), psr.redistribute(square, into))
    middle = square.zeros()
    for _ in range(3):  # the second time as well, when the kinds of the arrays are known
        chained([low, low], [middle, None])
        fails(clash, lambda: chained([low, middle], [middle, None]))
    in_place = psr.batch(psr.redistribute(square, square), psr.redistribute(square, into))
    for _ in range(2):
        here, _ = in_place([low, high], [low, None])
        assert here is low
    separate = in_place([low, low], [square.zeros(), None])[0]
    assert separate is not None
    assert np.array_equal(separate, low)


def fails(error: tuple[type[Exception], str], call: Callable[[], object]) -> None:
    with pytest.raises(error[0], match=error[1]):
        call()


def wrong_arguments() -> None:
    """A named error on every rank, at once."""
    rows, columns = whole(WORLD, (12, 8), (SIZE, 1), 1), whole(WORLD, (12, 8), (1, SIZE), 1)
    plan = psr.redistribute(rows, columns)
    chain = psr.redistribute(rows, columns, via="lcm")
    filled = psr.redistribute(
        whole(WORLD, (8, 8), (SIZE, 1)), whole(WORLD, (8, 8), (1, SIZE)), uplo="L", fill="symmetric", via="lcm"
    )
    duplicate = WORLD.Dup()
    other = psr.redistribute(whole(duplicate, (12, 8), (SIZE, 1)), whole(duplicate, (12, 8), (1, SIZE)))
    stranger = WORLD.Split(0, -RANK)
    elsewhere = psr.redistribute(whole(stranger, (12, 8), (SIZE, 1)), whole(stranger, (12, 8), (1, SIZE)))
    batch = psr.batch(plan, plan)
    for text, call in (
        (r"batch\(\) needs at least one plan", lambda: psr.batch()),
        ("plan 1 is a ndarray: it must be a plan made by redistribute", lambda: psr.batch(plan, np.zeros(3))),  # type: ignore[arg-type]
        ("plan 0 is a batch itself", lambda: psr.batch(batch, plan)),  # type: ignore[arg-type]
        (r"plan 1 goes through layouts on the way \(via=\)", lambda: psr.batch(plan, chain)),
        ("plan 0 goes through layouts on the way", lambda: psr.batch(filled)),
        ("exchange of a batch = 'ready' is unknown", lambda: psr.batch(plan, exchange="ready")),
        ("memory_limit = 0 must be", lambda: psr.batch(plan, memory_limit=0)),
    ):
        fails((psr.RedistributionError, text), call)  # type: ignore[arg-type]
    if SIZE > 1:
        fails(
            (psr.DescriptorError, "plan 1 is on another communicator than plan 0"), lambda: psr.batch(plan, elsewhere)
        )
        fails(
            (psr.RedistributionError, "number of plans must be the same"), lambda: psr.batch(*[plan] * (1 + RANK % 2))
        )
        fails(
            (psr.RedistributionError, "the options must be the same"), lambda: psr.batch(plan, memory_limit=99 + RANK)
        )
        back = psr.redistribute(columns, rows)
        mixed = (plan, back) if RANK else (back, plan)
        fails((psr.RedistributionError, "plan 0 must be the same on every rank"), lambda: psr.batch(*mixed))
        bad = (psr.ScheduleError, "plan 1 goes") if RANK == 1 else (psr.CollectiveError, "rank 1 could not take part")
        fails(bad, lambda: psr.batch(plan, chain if RANK == 1 else plan))
    assert len(psr.batch(plan, other)) == 2  # its communicator numbers the same processes alike
    _wrong_arrays(batch, rows, columns)
    duplicate.Free()
    stranger.Free()


def _wrong_arrays(batch: psr.Redistribution, rows: psr.Descriptor, columns: psr.Descriptor) -> None:
    a, b = rows.from_function(lambda i, j: i + 10.0 * j), columns.zeros()
    complex_a = a.astype(complex)
    for text, arguments, factors in (
        ("arrays is a ndarray: it must be a list", (a,), {}),
        ("arrays has 1 entries: it must have one for each of 2 plans", ([a],), {}),
        ("outs has 3 entries", ([a, a], [None] * 3), {}),
        ("plan 1: a has shape", ([a, a[1:, 1:]],), {}),
        ("plan 0: a is None", ([None, a],), {}),
        ("plan 1: out has dtype", ([a, complex_a], [None, b]), {}),
        ("plan 0: out is read-only", ([a, a], [_read_only(b), None]), {}),
        ("alpha = \\[1, 2, 3\\] must be a number, or a list of 2", ([a, a],), {"alpha": [1, 2, 3]}),
        ("plan 1: alpha = 'x' must be a number", ([a, a],), {"alpha": [1, "x"]}),
        ("plan 0: out is missing: with beta", ([a, a],), {"beta": [1, 0]}),
    ):
        for _ in range(2):
            fails((psr.RedistributionError, text), lambda u=arguments, v=factors: batch(*u, **v))  # type: ignore[misc]
        assert not b.any()
        first, second = batch([a, complex_a])
        assert first is not None
        assert second is not None
        assert np.array_equal(first, columns.from_function(lambda i, j: i + 10.0 * j))
        assert np.array_equal(second, first)
    tight = psr.batch(*batch.plans, memory_limit=2)
    if SIZE > 1:
        fails((psr.RedistributionError, "memory_limit = 2 bytes is too small for a batch"), lambda: tight([a, a]))
        mine = complex_a if RANK == SIZE - 1 else a
        fails((psr.CollectiveError, "the dtype of plan 1 must be the same on every rank"), lambda: batch([a, mine]))
        fails((psr.CollectiveError, "ask for different things"), lambda: batch([a, a], alpha=2 + RANK))
        fails((psr.CollectiveError, "ask for different things"), lambda: batch([a, a]) if RANK else batch.plans[0](a))
        other = psr.batch(*batch.plans, exchange="nonblocking")
        for _ in range(2):  # the same plans, but another way of moving
            fails((psr.CollectiveError, "the batch must be the same"), lambda: (other if RANK else batch)([a, a]))
            assert len(other([a, a])) == len(batch([a, a])) == 2
    assert all(np.array_equal(array, columns.from_function(lambda i, j: i + 10.0 * j)) for array in batch([a, a]))  # type: ignore[arg-type]


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def many_in_flight() -> None:
    """Batches and plans started together and waited for in any order, with arrays of ever other kinds."""
    rows, columns = whole(WORLD, (40, 30), (SIZE, 1)), whole(WORLD, (40, 30), (1, SIZE))
    value: Callable[..., Any] = lambda i, j: 1.0 * i + 100 * j  # noqa: E731
    plan = psr.redistribute(rows, columns)
    batches = [psr.batch(plan, plan), psr.batch(plan, plan, plan, exchange="nonblocking")]
    own = np.random.default_rng([5, RANK])
    for turn in range(12):
        started: list[tuple[Any, NDArray[Any]]] = []
        for k in range(4):
            dtype = "fdD"[(turn + k) // 3 % 3]
            a = rows.from_function(lambda i, j, k=k: value(i, j) + k, dtype)
            a = np.ascontiguousarray(a) if own.random() < 0.3 else a
            wanted = columns.from_function(lambda i, j, k=k: value(i, j) + k, dtype)
            transfer = plan.start(a) if k == 2 else batches[k % 2].start([a] * len(batches[k % 2]))
            started.append((transfer, wanted))
        for k in own.permutation(4):
            flight, wanted = started[k]
            if own.random() < 0.5:
                while not flight.test():
                    pass
            found = flight.wait()
            for result in found if isinstance(found, list) else [found]:
                assert np.array_equal(result, wanted)


def two_sides() -> None:
    """One batch over an inter-communicator goes both ways at once."""
    if SIZE < 2:
        return
    first = RANK < SIZE // 2
    mine = WORLD.Split(int(first), RANK)
    both = mine.Create_intercomm(0, WORLD, SIZE // 2 if first else 0, 7)
    value: Callable[..., Any] = lambda i, j: 100.0 * i + j  # noqa: E731
    a = whole(mine, (20, 15), (mine.Get_size(), 1))
    b = whole(mine, (20, 15), (1, mine.Get_size()), 4)
    here, there = (a, None) if first else (None, b), (None, a) if first else (b, None)
    batch = psr.batch(psr.redistribute(*here, comm=both, dtype="f8"), psr.redistribute(*there, comm=both, dtype="i4"))
    for k in range(4):
        given = a.from_function(value) + k if first else b.from_function(value, np.int32) - np.int32(k)
        out, back = batch([given, None] if first else [None, given])
        if first:
            assert out is None
            assert np.array_equal(back, a.from_function(value) - k)  # type: ignore[arg-type]
        else:
            assert back is None
            assert np.array_equal(out, b.from_function(value) + k)  # type: ignore[arg-type]
    both.Free()
    mine.Free()


def large() -> None:
    """Messages of many chunks, by way of the ring and by MPI."""
    rows = [psr.Descriptor((n, 700), (16, 16), psr.ProcessGrid((SIZE, 1), WORLD)) for n in (900, 333)]
    columns = [psr.Descriptor((n, 700), (64, 64), psr.ProcessGrid((1, SIZE), WORLD)) for n in (900, 333)]
    plans = [psr.redistribute(a, b) for a, b in zip(rows, columns, strict=True)]
    value: Callable[..., Any] = lambda i, j: 1000 * i + j  # noqa: E731
    for options in ({}, {"exchange": "nonblocking"}, {"memory_limit": 100_000}):
        batch = psr.batch(*plans, plans[0], **options)  # type: ignore[arg-type]
        dtypes = ("f8", "i4", "D")
        arrays = [desc.from_function(value, d) for desc, d in zip((*rows, rows[0]), dtypes, strict=True)]
        for _ in range(2):
            for desc, d, result in zip((*columns, columns[0]), dtypes, batch(arrays), strict=True):
                assert result is not None
                assert np.array_equal(result, desc.from_function(value, d))
        report = batch.report([np.dtype(d) for d in dtypes])
        assert report.extra_bytes <= report.memory_limit
        assert report.bytes_sent == sum(plan.bytes_sent for plan in report.plans)
        assert (report.sends, report.receives) == (SIZE - 1, SIZE - 1)
        assert report.sends_apart == 3 * (SIZE - 1)


def main() -> None:
    batches, calls, seed = map(int, sys.argv[1:])
    failed = 0
    for number in range(batches):
        failed += check_batch(np.random.default_rng([seed, number]), number, calls)
    assert batches * calls < 400 or failed or SIZE == 1
    for special in (disjoint_sets, windows_of_an_array, wrong_arguments, many_in_flight, two_sides, large):
        special()
        WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
