"""What random cases do not draw: plans of one array in turn, windows, many transfers at once, storage, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.engine.choose import FAST_PIECE, LONGEST_PIECE, SHORTEST_PIECE, SMALLEST_WINDOW
from pyscalapack_redist.exchanges import EXCHANGES
from pyscalapack_redist.layout.axis import MOST_DIMENSIONS

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
ROWS, COLUMNS = (psr.ProcessGrid(shape, WORLD) for shape in ((SIZE, 1), (1, SIZE)))
M, N = 9, 7
OWNERS = np.arange(6).reshape(3, 2) % SIZE


def value(i: Any, j: Any) -> Any:
    return 100.0 * i + j


def tiles(**changed: Any) -> psr.Tiles:
    arguments: dict[str, Any] = {"row_edges": [0, 2, 2, M], "column_edges": [0, 3, N], "owners": OWNERS, "comm": WORLD}
    return psr.Tiles(**{**arguments, **changed})


def equal(x: Any, y: Any) -> bool:
    return len(x) == len(y) and all(map(np.array_equal, x, y))


# -- plans


def in_place_by_way_of_two_layouts() -> None:
    """What stays on a rank in the first leg must be there in the second."""
    a = psr.Descriptor((12, 8), 2, ROWS)
    stops = [psr.Descriptor((12, 8), 2, ROWS), psr.Descriptor((12, 8), 3, COLUMNS)]
    local = a.from_function(value)
    assert psr.redistribute(a, a, via=stops)(local, local) is local
    assert np.array_equal(local, a.from_function(value))


def dtypes_by_way_of_other_ranks() -> None:
    """Ranks that have only arrays in between learn the dtype of each call, after calls of other dtypes too."""
    first, every = psr.ProcessGrid((1, 1), WORLD, ranks=[[0]]), psr.ProcessGrid((SIZE, 1), WORLD)
    whole, parts = psr.Descriptor((24, 24), 24, first), psr.Descriptor((24, 24), 4, every)
    plan = psr.redistribute(whole, whole, via=[parts], comm=WORLD)
    for dtype in (np.float64, np.float64, np.float32, np.complex128, np.int16, np.float64):
        a = None if RANK else whole.from_function(lambda i, j: 24 * i + j).astype(dtype)
        out = None if RANK else whole.zeros(dtype)
        plan(a, out)
        assert RANK or np.array_equal(a, out)


def slots_of_two_plans_in_turn() -> None:
    """A sender that is ahead must not overwrite what is still in the slots of another plan."""
    n = 120
    rows, columns = psr.Descriptor((n, n), 4, ROWS), psr.Descriptor((n, n), (7, 9), COLUMNS)
    squares = psr.Descriptor((n, n), 64, ROWS)
    there, back = psr.redistribute(rows, columns), psr.redistribute(columns, squares, memory_limit=3000)
    a, b, c = (desc.from_function(lambda i, j: i * n + j, np.int32) for desc in (rows, columns, squares))
    for k in range(100):
        assert np.array_equal(there(a + k), b + k)
        if k % SIZE == RANK:
            sum(range(20_000))  # late
        assert np.array_equal(back(b + k), c + k)


def arrays_that_overlap() -> None:
    """A compiled call sees it as well, though such arrays are of the kind that it knows."""
    desc = psr.Descriptor((8 * SIZE, 8), 8, ROWS)
    plan = psr.redistribute(desc, desc)
    memory = np.arange(200.0)
    a, disjoint, overlapping = (memory[k : k + 64].reshape(8, 8).T for k in (0, 100, 63))
    for _ in range(3):
        plan(a, disjoint)
    before = memory.copy()
    with pytest.raises(psr.ArrayError, match="shares memory"):
        plan(a, overlapping)
    assert np.array_equal(memory, before)


def factors_that_are_remembered() -> None:
    """Few of them, however many there were."""
    a, b = psr.Descriptor((9, 8), 2, ROWS), psr.Descriptor((9, 8), 3, COLUMNS)
    plan, local = psr.redistribute(a, b), a.from_function(value)
    for k in range(20):
        out = b.from_function(value)
        plan(local, out, alpha=np.float64(k), beta=np.array(2.0))
        assert np.array_equal(out, b.from_function(lambda i, j, k=k: (k + 2) * value(i, j)))
    assert sum(map(len, plan.bounds.by_factors.values())) <= 8
    for agree in ("always", "first"):
        plan = psr.redistribute(a, b, dtype=float, agree=agree)
        for _ in range(3):  # NaN, which is not equal to itself
            assert np.isnan(plan(local, alpha=float("nan"))).all()
        assert sum("nan" in repr(key) for key in plan.bounds.by_factors) == 1


def factors_of_kinds_that_numpy_has() -> None:
    """A bool counts as 0 or 1, as in Python; what the kernels let overflow does so in the rest of B too."""
    a, b = psr.Descriptor((9, 8), 2, ROWS), psr.Descriptor((9, 8), 3, COLUMNS)
    plan, local = psr.redistribute(a, b), a.from_function(value)
    for true, false in ((True, False), (np.True_, np.False_), (np.array(True), np.array(False))):
        for alpha, beta, factor in ((true, false, 1), (true, true, 2), (false, true, 1), (2.0, true, 3)):
            out = b.from_function(value)
            plan(local, out, alpha=alpha, beta=beta)
            assert np.array_equal(out, b.from_function(lambda i, j, factor=factor: factor * value(i, j)))
    batch, out = psr.batch(plan, plan), [b.from_function(value), b.from_function(value)]
    batch([local, local], out, alpha=np.True_, beta=[np.True_, 2])
    assert np.array_equal(out[1], b.from_function(lambda i, j: 3 * value(i, j)))
    square, other = psr.Descriptor((9, 9), 2, ROWS), psr.Descriptor((9, 9), 3, COLUMNS)
    triangle, huge = psr.redistribute(square, other, uplo="L", fill="zero"), other.from_function(lambda i, j: 1e200 + 0 * i)
    with np.errstate(all="raise"):
        triangle(square.zeros(), huge, beta=1e200)
    assert np.isinf(huge).all()


def plans_that_are_kept() -> None:
    """One plan for one layout, whatever the leading dimensions and the storage of tiles; options in either case."""
    for lld in (20, 25):
        a, b = psr.Descriptor((20, 20), 2, ROWS, lld=lld), psr.Descriptor((20, 20), 3, ROWS, lld=lld + 1)
        local, out = np.zeros((lld, 20), order="F"), np.zeros((lld + 1, 20), order="F")
        local[: a.local_shape[0]] = a.from_function(value)
        psr.redistribute(a, b, via="lcm")(local, out)
        assert np.array_equal(out[: b.local_shape[0]], b.from_function(value))
    d, listed = psr.Descriptor((M, N), 2, ROWS), tiles()
    stored = tiles(offsets=np.cumsum([0, *(m * n for m, n in listed.local_shapes)])[:-1].tolist())
    for t in (listed, stored, listed):
        found = psr.redistribute(d, t, dtype=float)(d.from_function(value))
        assert type(found) is type(t.zeros())
        assert equal(found, t.from_function(value))
    assert stored.layout_digest == listed.layout_digest
    mixed = psr.redistribute(d, d, op="N" if RANK else "n", uplo="L" if RANK else "l", diag="U" if RANK else "u")
    assert mixed.part == ("L", "U")


def as_many_dimensions_as_an_array_can_have() -> None:
    """Most of them of one element; by each exchange, and again with arrays that are known by then."""

    def number(*indices: Any) -> Any:
        large = (0, 3, len(indices) // 2, -3, -1)
        return sum(5**k * indices[place] for k, place in enumerate(large)) + 0 * sum(indices)

    line = psr.ProcessGrid((SIZE,), WORLD)
    shape = [1] * MOST_DIMENSIONS
    shape[0], shape[3], shape[MOST_DIMENSIONS // 2], shape[-3], shape[-1] = 5, 2, 3, 3, 4
    last: list[int | None] = [None] * (MOST_DIMENSIONS - 1) + [0]
    a, b = psr.Descriptor(shape, 2, line), psr.Descriptor(shape, 1, line, axes=last)
    for exchange in EXCHANGES:
        plan = psr.redistribute(a, b, exchange=exchange)
        for _ in range(2):
            assert np.array_equal(plan(a.from_function(number)), b.from_function(number)), exchange
    tiles = psr.Tiles.from_edges(
        [[0, 2, 5], *([0, n] for n in shape[1:])], np.arange(2).reshape(2, *[1] * (len(shape) - 1)) % SIZE, WORLD
    )
    for schedule in "auto", "greedy":
        found = psr.redistribute(a, tiles, dtype=float, schedule=schedule)(a.from_function(number, float))
        assert equal(found, tiles.from_function(number))
        assert np.array_equal(
            psr.redistribute(tiles, b, schedule=schedule, dtype=float)(found), b.from_function(number)
        )


def merged_dimensions() -> None:
    """The same redistribution in two dimensions instead of three, without a copy."""
    line = psr.ProcessGrid((SIZE,), WORLD)
    for shape in ((8, 6, 10), (7, 3, 11)):
        a, b = (psr.Descriptor(shape, None, line, axes=axes) for axes in ((0, None, None), (None, None, 0)))
        x, y = (desc.from_function(lambda i, j, k: 100 * i + 10 * j + k) for desc in (a, b))
        flat = psr.redistribute(a.merge(1, 2), b.merge(1, 2))
        found = flat(x.reshape(a.merge(1, 2).local_shape, order="F"))
        assert found is not None
        assert np.array_equal(found.reshape(b.local_shape, order="F"), y)


def blocks_beyond_all_integers() -> None:
    """By way of a block size of 2^80."""
    line = psr.ProcessGrid((SIZE,), WORLD)
    a, b = (psr.Descriptor((7,), block, line) for block in (2**40, 2**40 - 1))
    found = psr.redistribute(a, b, via="lcm")(a.from_function(lambda i: i))
    assert np.array_equal(found, b.from_function(lambda i: i))


# -- batches


def windows_of_an_array() -> None:
    """Plans read windows of one array, write windows of one, and triangles of one; overlapping is an error on all ranks."""
    rows, columns = psr.Descriptor((30, 20), 3, ROWS), psr.Descriptor((30, 20), 4, COLUMNS)
    a, out = rows.from_function(value), columns.zeros()
    corners = [(slice(0, 11), slice(0, 20)), (slice(11, 30), slice(0, 7)), (slice(11, 30), slice(7, 20))]
    plans = [psr.redistribute(rows[corner], columns[corner]) for corner in corners]
    batch = psr.batch(*plans)
    if batch.plan.group is not None and batch.plan.group.links is not None:
        cutting = batch.plan.stages[0].options.cutting
        short = SHORTEST_PIECE <= (cutting.nbytes or 0) <= LONGEST_PIECE
        assert short if cutting.spread else cutting.nbytes == FAST_PIECE, cutting
        assert (cutting.window or 0) >= SMALLEST_WINDOW, cutting
    for k in range(3):
        batch([a + k] * 3, [out] * 3)
        assert np.array_equal(out, columns.from_function(value) + k)
    square, into = psr.Descriptor((20, 20), 3, ROWS), psr.Descriptor((20, 20), 4, COLUMNS)
    low, high = square.from_function(value), square.from_function(lambda i, j: -value(i, j))
    triangles = psr.batch(psr.redistribute(square, into, uplo="L"), psr.redistribute(square, into, uplo="U", diag="U"))
    out = into.zeros()
    triangles([low, high], [out, out])
    assert np.array_equal(out, into.from_function(lambda i, j: np.where(i >= j, 1, -1) * value(i, j)))
    both = psr.batch(psr.redistribute(square, into, uplo="L"), psr.redistribute(square, into, uplo="U"))
    refused(lambda: both([low, high], [out, out]), psr.ArrayError, "share elements")
    chained = psr.batch(psr.redistribute(square, square), psr.redistribute(square, into))
    middle = square.zeros()
    for _ in range(2):  # the second time as well, when the kinds of the arrays are known
        chained([low, low], [middle, None])
        refused(lambda: chained([low, middle], [middle, None]), psr.ArrayError, "share elements")


def processes_of_batches() -> None:
    """Two plans that no process has in common, and one that all have; one that the other ranks know nothing of."""
    if SIZE < 2:
        return
    a, b = (
        psr.Descriptor((17, 9), (2, 3), psr.ProcessGrid((len(some), 1), WORLD, ranks=some[:, None]))
        for some in (np.arange(k, SIZE, 2) for k in range(2))
    )
    columns = psr.Descriptor((17, 9), 3, COLUMNS)
    batch = psr.batch(psr.redistribute(a, a), psr.redistribute(b, b), psr.redistribute(a, columns, dtype="i4"))
    arrays = a.from_function(value), b.from_function(value), a.from_function(value, np.int32)
    for k in range(3):
        for desc, result in zip((a, b, columns), batch([v + k for v in arrays]), strict=True):
            assert (result is None) == (desc.coords is None)
            assert result is None or np.array_equal(result, desc.from_function(value) + k)
    if RANK < 2:
        few = psr.Descriptor((4, 4), (1, 1), psr.ProcessGrid((1, 2), WORLD))
        (result,) = psr.batch(psr.redistribute(few, few))([few.from_function(value)])
        assert np.array_equal(result, few.from_function(value))


def many_in_flight() -> None:
    """Batches, plans and tiles started together and waited for in any order, with arrays of ever other kinds."""
    rows, columns, cut = psr.Descriptor((M, N), 3, ROWS), psr.Descriptor((M, N), 2, COLUMNS), tiles()
    plan, to_tiles = psr.redistribute(rows, columns), psr.redistribute(rows, cut, dtype=float)
    batches = [psr.batch(plan, plan), psr.batch(plan, plan, plan, exchange="nonblocking")]
    own = np.random.default_rng([5, RANK])
    for turn in range(8):
        started: list[tuple[Any, Any]] = []
        for k in range(4):
            dtype = "fdD"[(turn + k) // 3 % 3]
            a, wanted = (desc.from_function(lambda i, j, k=k: value(i, j) + k, dtype) for desc in (rows, columns))
            a = np.ascontiguousarray(a) if own.random() < 0.3 else a
            started.append((plan.start(a) if k == 2 else batches[k % 2].start([a] * len(batches[k % 2])), wanted))
        started.append((to_tiles.start(rows.from_function(value)), cut.from_function(value)))
        for k in own.permutation(5):
            transfer, wanted = started[k]
            while own.random() < 0.5 and not transfer.test():
                pass
            found = transfer.wait()
            if k == 4:
                assert equal(found, wanted)
            else:
                assert all(np.array_equal(result, wanted) for result in (found if isinstance(found, list) else [found]))


def reports_of_batches() -> None:
    """Messages of many chunks; one message of a batch for each peer."""
    pairs = [(psr.Descriptor((n, 200), 16, ROWS), psr.Descriptor((n, 200), 64, COLUMNS)) for n in (300, 133, 300)]
    dtypes = ("f8", "i4", "D")
    arrays = [a.from_function(value, dtype) for (a, _), dtype in zip(pairs, dtypes, strict=True)]
    for options in ({}, {"exchange": "nonblocking"}, {"memory_limit": 20_000}):
        batch = psr.batch(*(psr.redistribute(*pair) for pair in pairs), **options)  # type: ignore[arg-type]
        for (_, b), dtype, result in zip(pairs, dtypes, batch(arrays), strict=True):
            assert np.array_equal(result, b.from_function(value, dtype))
        report = batch.report([np.dtype(d) for d in dtypes])
        assert report.extra_bytes <= report.memory_limit
        assert report.bytes_sent == sum(leg.bytes_sent for leg in report.legs)
        assert (report.sends, report.receives, report.sends_apart) == (SIZE - 1, SIZE - 1, 3 * (SIZE - 1))


# -- what is refused


def refused(call: Callable[[], object], kind: type[Exception], words: str, culprit: int | None = None) -> None:
    """`kind` with these words on the culprit, or on all ranks; CollectiveError elsewhere. Afterwards all is well."""
    here = culprit is None or culprit == RANK
    with pytest.raises(kind if here else psr.CollectiveError, match=words if here else "could not take part"):
        call()
    d, t = psr.Descriptor((M, N), 2, ROWS), tiles()
    assert np.array_equal(psr.redistribute(t, d, dtype=float)(t.from_function(value)), d.from_function(value))


def factors_and_operations_that_are_refused() -> None:
    a, b = psr.Descriptor((8, 6), 2, ROWS), psr.Descriptor((6, 8), 3, COLUMNS)
    plan = psr.redistribute(a, b, op="T")
    real, whole, out = a.zeros(np.float64), a.zeros(np.int32), b.zeros(np.float64)
    for factors, arrays, text in (
        ({"alpha": 1j}, (real, out), "a complex factor needs a complex array"),
        ({"alpha": 2}, (whole, None), "convert the array"),
        ({"beta": 1}, (real, None), "out is missing: with beta"),
        ({"alpha": "2"}, (real, out), "alpha = '2' must be a number"),
        ({"beta": np.array([2.0])}, (real, out), r"beta = array\(\[2.\]\) must be a number"),
    ):
        refused(lambda u=arrays, v=factors: plan(*u, **v), psr.RedistributionError, text)  # type: ignore[misc]
    assert not out.any()
    conjugated = psr.redistribute(a, b, op="C", buffers="datatypes")
    refused(lambda: conjugated(a.zeros(complex)), psr.ScheduleError, "MPI moves elements as they are")
    if SIZE > 1:
        refused(lambda: psr.redistribute(a, a, uplo="UL"[RANK % 2]), psr.CollectiveError, "ask for different things")
        sizes = np.full(100, 2)
        sizes[:2] += [1, -1] if RANK == SIZE - 1 else [0, 0]
        many = psr.Descriptor((200, 2), (psr.Blocks(sizes, np.arange(100) % SIZE), None), ROWS)
        other = psr.Descriptor((200, 2), "balanced", ROWS)
        refused(lambda: psr.redistribute(many, other), psr.RedistributionError, "desc_a")


def batches_that_are_refused() -> None:
    rows, columns = psr.Descriptor((12, 8), 1, ROWS), psr.Descriptor((12, 8), 1, COLUMNS)
    plan, chain = psr.redistribute(rows, columns), psr.redistribute(rows, columns, via="lcm")
    batch = psr.batch(plan, plan)
    error = psr.RedistributionError
    for text, call in (
        (r"batch\(\) needs at least one plan", lambda: psr.batch()),
        ("plan 1 is a ndarray: it must be a plan made by redistribute", lambda: psr.batch(plan, np.zeros(3))),  # type: ignore[arg-type]
        ("plan 0 is a batch itself", lambda: psr.batch(batch, plan)),
        (r"plan 1 goes through layouts on the way \(via=\)", lambda: psr.batch(plan, chain)),
        ("exchange of a batch = 'ready' is unknown", lambda: psr.batch(plan, exchange="ready")),
        ("memory_limit = 0 must be", lambda: psr.batch(plan, memory_limit=0)),
    ):
        refused(call, error, text)
    a, b = rows.from_function(value), columns.zeros()
    for text, arguments, factors in (
        ("arrays is a ndarray: it must be a list", (a,), {}),
        ("arrays has 1 entries: it must have one for each of 2 plans", ([a],), {}),
        ("plan 1: a has shape", ([a, a[1:, 1:]],), {}),
        ("plan 1: out has dtype", ([a, a.astype(complex)], [None, b]), {}),
        ("alpha = \\[1, 2, 3\\] must be a number, or a list of 2", ([a, a],), {"alpha": [1, 2, 3]}),
        ("plan 1: alpha = 'x' must be a number", ([a, a],), {"alpha": [1, "x"]}),
        ("plan 0: out is missing: with beta", ([a, a],), {"beta": [1, 0]}),
    ):
        refused(lambda u=arguments, v=factors: batch(*u, **v), error, text)  # type: ignore[misc]
        assert not b.any()
    if SIZE == 1:
        return
    stranger = WORLD.Split(0, -RANK)
    there = psr.Descriptor((12, 8), 1, psr.ProcessGrid((SIZE, 1), stranger))
    elsewhere = psr.redistribute(there, there)
    mixed = (plan, psr.redistribute(columns, rows))[:: 1 if RANK else -1]
    other = psr.batch(plan, plan, exchange="nonblocking")
    tight = psr.batch(plan, plan, memory_limit=2)
    for text, call in (
        ("plan 1 is on another communicator than plan 0", lambda: psr.batch(plan, elsewhere)),
        ("number of plans must be the same", lambda: psr.batch(*[plan] * (1 + RANK % 2))),
        ("the options must be the same", lambda: psr.batch(plan, memory_limit=99 + RANK)),
        ("plan 0 must be the same on every rank", lambda: psr.batch(*mixed)),
        ("memory_limit = 2 bytes is too small for a batch", lambda: tight([a, a])),
        ("the dtype of plan 1 must be the same", lambda: batch([a, a.astype(complex) if RANK else a])),
        ("ask for different things", lambda: batch([a, a], alpha=2 + RANK)),
        ("ask for different things", lambda: batch([a, a]) if RANK else plan(a)),
        ("the batch must be the same", lambda: (other if RANK else batch)([a, a])),
    ):
        refused(call, error, text)
    refused(lambda: psr.batch(plan, chain if RANK == 1 else plan), psr.ScheduleError, "plan 1 goes", culprit=1)
    stranger.Free()


def tiles_that_are_refused() -> None:
    t, d, last = tiles(), psr.Descriptor((M, N), 2, ROWS), SIZE - 1
    for kind, text, call in (
        (psr.DescriptorError, "'zero' is not for tiles", lambda: psr.redistribute(t, d, fill="zero", uplo="U")),
        (psr.ScheduleError, "datatypes' with tiles", lambda: psr.redistribute(t, d, buffers="datatypes")),
        (psr.ScheduleError, "'dimensions' is not for tiles", lambda: psr.redistribute(t, d, via="dimensions")),
        (psr.ScheduleError, "walker-otto", lambda: psr.redistribute(t, d, schedule="walker-otto")),
        (psr.ScheduleError, "plan 0 is of tiles", lambda: psr.batch(psr.redistribute(t, d))),
        (psr.DescriptorError, "on paper: give it", lambda: psr.redistribute(psr.Tiles([0, M], [0, N], [[0]]), d)),
    ):
        refused(call, kind, text)
    if SIZE > 1:
        other = tiles(owners=(OWNERS + 1) % SIZE) if last == RANK else t
        refused(lambda: psr.redistribute(other, d), psr.CollectiveError, "desc_a must be the same on every rank")


def tiled_arrays_that_are_refused() -> None:
    """On the last rank that has a tile with elements; outputs stay as they are."""
    t, d = tiles(), psr.Descriptor((M, N), 2, ROWS)
    culprit = int(max(t.owner(i, j) for i in range(M) for j in range(N)))
    there, back = psr.redistribute(t, d, dtype=float), psr.redistribute(d, t, dtype=float)
    good, whole = t.from_function(value), d.from_function(value)
    k = next((k for k, shape in enumerate(t.local_shapes) if 0 not in shape), -1)
    for bad, words in (
        (None, r"a is None, but this rank has \d+ tile"),
        ([None] * len(good), rf"a\[{k}\] is None: it must be a NumPy array of shape"),
        ([np.ma.masked_array(some) if some.size else some for some in good], rf"a\[{k}\] is a MaskedArray"),
        (good[:-1], r"a has \d+ entries: it must be a list with a NumPy array"),
        (np.zeros(5), "a is a ndarray: it must be a list"),
        ([some[:-1] if some.size else some for some in good], rf"a\[{k}\] has shape"),
        ([some.astype(object) for some in good], "dtype object"),
        (psr.DistributedArray(d, whole), "a has the layout Descriptor.*, but the plan is for Tiles"),
    ):
        out = np.full_like(d.zeros(), 5)
        mine = bad if culprit == RANK else good
        refused(lambda mine=mine, out=out: there(mine, out), psr.ArrayError, words, culprit)  # type: ignore[misc]
        assert (out == 5).all()
    shared, read_only = np.zeros(M * N), t.zeros()
    for some in read_only:
        some.flags.writeable = False
    wrong: list[tuple[Any, str]] = [(read_only, rf"out\[{k}\] is read-only")]
    if WORLD.bcast(sum(some.size > 0 for some in good) > 1, culprit):
        on_top = [shared[: m * n].reshape(m, n) for m, n in t.local_shapes]
        wrong.append((on_top, r"out\[\d\] and out\[\d\] share elements: give each tile memory"))
        mixed = [some.astype("f4") if j == k and culprit == RANK else some for j, some in enumerate(good)]
        refused(lambda: there(mixed), psr.ArrayError, "has dtype float32, but .* dtype = float64: convert it", culprit)
    for bad, words in wrong:
        out = bad if culprit == RANK else [some + 5 for some in t.zeros()]
        refused(lambda out=out: back(whole, out), psr.ArrayError, words, culprit)  # type: ignore[misc]
        assert all((some == (0 if culprit == RANK else 5)).all() for some in out)
    flat = tiles(offsets=np.cumsum([0, *(some.size for some in good)])[:-1])
    short, with_offsets = np.zeros(1 if culprit == RANK else M * N), psr.redistribute(d, flat)
    refused(lambda: with_offsets(whole, short), psr.ArrayError, "out has shape .* at least", culprit)


CHECKS = (
    in_place_by_way_of_two_layouts,
    dtypes_by_way_of_other_ranks,
    slots_of_two_plans_in_turn,
    arrays_that_overlap,
    factors_that_are_remembered,
    factors_of_kinds_that_numpy_has,
    plans_that_are_kept,
    as_many_dimensions_as_an_array_can_have,
    merged_dimensions,
    blocks_beyond_all_integers,
    windows_of_an_array,
    processes_of_batches,
    many_in_flight,
    reports_of_batches,
    factors_and_operations_that_are_refused,
    batches_that_are_refused,
    tiles_that_are_refused,
    tiled_arrays_that_are_refused,
)


def main() -> None:
    for check in CHECKS:
        check()
        WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
