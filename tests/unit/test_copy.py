"""The compiled kernels: runs and boxes against plain NumPy indexing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launch import SEED
from moves_in_threads import run_lists, runs_of
from numpy.lib.stride_tricks import sliding_window_view

from pyscalapack_redist._kernels.boxes import Blend, Box, Trapezoid
from pyscalapack_redist._kernels.runs import Runs
from pyscalapack_redist.engine.panels import cut

MANY = settings(max_examples=4 * settings.default.max_examples)  # of moves of a few elements each
SEEDS = st.integers(0, 2**32)
ITEMS = st.sampled_from([1, 2, 3, 4, 8, 12, 16, 24])
ORDERS = st.sampled_from("FCR")
PARTS = st.tuples(st.floats(0, 1), st.floats(0, 1))
DENSE = "", "", "source", "target"
FEW_OR_MANY = [8, pytest.param(48, marks=pytest.mark.long)]


def line(n: int, start: int = 0) -> Runs:
    """`n` elements in a row, from `start` on in the source and from 0 on in the target."""
    return Runs(*np.array([[start], [0], [n]]), n, n, n)


@MANY
@given(SEEDS, st.integers(1, 60))
def test_runs_keep_every_pair(seed: int, total: int) -> None:
    lists = run_lists(np.random.default_rng(seed))
    x, y, lengths, *periods = (np.asarray(some).tolist() for some in lists)
    each = [(a + k, b + k) for a, b, length in zip(x, y, lengths, strict=True) for k in range(length)]
    runs = Runs(*lists, total)
    assert runs.total == total
    pairs = [[a + turn * periods[0], b + turn * periods[1]] for turn in range(total) for a, b in each]
    assert runs.expand().tolist() == pairs[:total]
    for first, last in ((0, total), (total // 3, total // 2), (total // 2, total), (total // 2, total // 2)):
        for kind, shift in (("copied", (0, 0)), ("packed", (0, first)), ("unpacked", (first, 0))):
            part = cut(runs, first, last, kind)
            assert part.total == last - first
            assert part.expand().tolist() == [[a - shift[0], b - shift[1]] for a, b in pairs[first:last]]


def test_cyclic_elements_become_one_run() -> None:
    k = np.arange(32, dtype=np.int64)
    runs = Runs(k, 2 * k, np.ones(32, np.int64), 32, 64, 320)
    assert runs.size == 1
    assert runs.expand().tolist() == [[i, 2 * i] for i in range(320)]


def strides_of(shape: Sequence[int], item: int, order: str) -> tuple[int, ...]:
    """Of an array in C or Fortran order, or of one that runs backwards ("R")."""
    strides = np.empty(shape, f"V{item}", order="C" if order == "C" else "F").strides
    return tuple(-step for step in strides) if order == "R" else strides


def check_move(
    axes: list[Runs],
    item: int,
    strides: Sequence[tuple[int, ...]],
    order: tuple[int, ...],
    part: Sequence[float] = (0, 1),
    stream: bool = False,
    before: int = 0,
) -> None:
    """A box moves the bytes that indexing moves, and no others; the target begins `before` bytes into its memory."""
    rng, box, pairs = np.random.default_rng(SEED), Box(axes), [axis.expand() for axis in axes]
    first, last = sorted(int(share * box.size) for share in part)
    rest, index = np.arange(first, last), {}
    for k in order:
        rest, index[k] = np.divmod(rest, len(pairs[k]))
    memory, places, origins = [], [], []
    for side, steps in enumerate(strides):
        ends = [step * int(axis[:, side].max()) for step, axis in zip(steps, pairs, strict=True)]
        origins.append(side * before - sum(min(end, 0) for end in ends))
        memory.append(rng.integers(0, 256, origins[side] + sum(max(end, 0) for end in ends) + item + 70, np.uint8))
        places.append(origins[side] + sum(steps[k] * pairs[k][index[k], side] for k in order))
    (source, target), expected = memory, memory[1].copy()
    windows = [sliding_window_view(array, item, writeable=True) for array in (source, expected)]
    windows[1][places[1]] = windows[0][places[0]]
    addresses = [array.ctypes.data + origin for array, origin in zip(memory, origins, strict=True)]
    box.move(addresses[0], strides[0], addresses[1], strides[1], item, order, first, last, stream)
    assert np.array_equal(target, expected)


@MANY
@given(SEEDS, st.integers(1, 4), ITEMS, ORDERS, ORDERS, PARTS, st.booleans())
def test_a_box_moves_what_indexing_moves(
    seed: int, dimensions: int, item: int, order_x: str, order_y: str, part: tuple[float, float], stream: bool
) -> None:
    rng = np.random.default_rng(seed)
    most = {1: 200, 2: 40, 3: 9, 4: 5}[dimensions]
    axes = [runs_of(rng, int(rng.integers(1, most + 1))) for _ in range(dimensions)]
    sizes = np.array([axis.expand().max(axis=0) for axis in axes]) + np.array([1, 2])
    strides = [strides_of(sizes[:, side].tolist(), item, order) for side, order in enumerate((order_x, order_y))]
    check_move(axes, item, strides, tuple(rng.permutation(dimensions).tolist()), part, stream)


@pytest.mark.parametrize("item", [1, 2, 8, 12])
@pytest.mark.parametrize("columns", [1, 3, 40])
@pytest.mark.parametrize("number", FEW_OR_MANY)
def test_many_short_runs(item: int, columns: int, number: int) -> None:
    """Of one length or of several, of more than are told apart, with gaps and without; in few long lines or in many."""
    for seed in range(number):
        rng = np.random.default_rng([SEED, item, columns, seed])
        kinds = int(rng.choice([1, 2, 5, 14]))
        lengths = rng.choice(rng.permutation(16)[:kinds] + 1, int(rng.integers(1, 50)))
        x, y = starts = np.cumsum(lengths + rng.integers(0, 4, (2, len(lengths))), axis=1) - lengths
        periods = (int(side[-1] + lengths[-1]) + int(rng.integers(0, 3)) for side in starts)
        rows = Runs(x, y, lengths, *periods, int(rng.integers(3000, 12_000)))
        strides = [(item, item * int(last + 1)) for last in rows.expand()[-1]]
        check_move([rows, line(columns)], item, strides, (0, 1), rng.random(2).tolist() if seed % 2 else (0, 1))


@MANY
@given(st.integers(1, 900), st.integers(1, 3), st.integers(0, 70), st.sampled_from([1, 3, 8, 24]), st.booleans())
def test_long_runs_written_past_the_cache(n: int, lines: int, before: int, item: int, gap: bool) -> None:
    strides = (item, n * item), (item, n * item + gap)
    check_move([line(n), line(lines)], item, strides, (0, 1), stream=True, before=before)


@MANY
@given(
    SEEDS, st.integers(-90, 90), st.booleans(), st.sampled_from([(0, 1), (1, 0)]), st.tuples(ORDERS, ORDERS), PARTS,
    st.sampled_from(["", "source", "target"]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_a_trapezoid_is_what_triu_and_tril_keep(
    seed: int,
    diagonal: int,
    upper: bool,
    order: tuple[int, int],
    layouts: tuple[str, str],
    part: tuple[float, float],
    dense: str,
    stream: bool,
    blends: bool,
) -> None:
    rng = np.random.default_rng(seed)
    axes = [runs_of(rng, int(rng.integers(1, rng.choice([10, 151]))), dense) for _ in range(2)]
    pairs = [axis.expand() for axis in axes]
    rows, columns = (np.cumsum(np.resize(rng.integers(1, 6, 3), len(some))) - rng.integers(0, 6) for some in pairs)
    # of a global matrix the box is the rows and columns of these indices, which are at least -4
    behind = columns[None, :] - rows[:, None]
    in_part = behind >= diagonal if upper else behind <= diagonal
    places = [tuple(p) for p in np.argwhere(in_part if order == (1, 0) else in_part.T)]
    if order == (0, 1):
        places = [(i, j) for j, i in places]
    box = Trapezoid(axes, rows, columns, upper, diagonal, dense)
    assert box.size == len(places)
    first, last = sorted(int(box.size * share) for share in part)
    arrays = []
    for side, layout in enumerate(layouts):
        if dense == ("source", "target")[side]:
            arrays.append(np.zeros(box.size))
        else:
            made = np.zeros([int(some[:, side].max()) + 2 for some in pairs], order="C" if layout == "C" else "F")
            arrays.append(made[::-1, ::-1] if layout == "R" else made)
    source, target = arrays
    source[...] = np.arange(1, source.size + 1).reshape(source.shape)
    target[...] = -np.arange(1, target.size + 1).reshape(target.shape)
    expected = target.copy()
    for number in range(first, last):
        at = [tuple(pairs[k][places[number][k], side] for k in range(2)) for side in range(2)]
        x, y = (number if array.ndim == 1 else place for array, place in zip(arrays, at, strict=True))
        expected[y] = 3 * source[x] + 2 * target[y] if blends else source[x]
    shape, steps = box.shape(), [0, 0]
    steps[order[0]], steps[order[1]] = 8, 8 * shape[order[0]]
    strides = [steps if array.ndim == 1 else array.strides for array in arrays]
    box.move(
        source.ctypes.data, strides[0], target.ctypes.data, strides[1],
        8, order, first, last, stream, Blend("d", 3, 2, False) if blends else None,
    )  # fmt: skip
    assert np.array_equal(target, expected)


@pytest.mark.parametrize("item", [1, 2, 4, 8, 12, 16, 24])
@pytest.mark.parametrize("orders", ["FC", "CF"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_dense_arrays_are_transposed_by_squares(item: int, orders: str, order: tuple[int, int]) -> None:
    strides = [strides_of((24, 22), item, kind) for kind in orders]
    check_move([line(21, 3), line(19, 3)], item, strides, order)  # some squares and what is left over, along both


@pytest.mark.parametrize("item", [1, 2, 4, 8, 12, 16])
@pytest.mark.parametrize("number", FEW_OR_MANY)
def test_lines_that_cross_are_written_past_the_cache(item: int, number: int) -> None:
    """Wherever they begin in a cache line, alike or not; lines longer than a tile, and tiles of more lines than that."""
    for seed in range(3 * number):
        rng = np.random.default_rng([SEED, item, seed])
        totals = [int(rng.integers(1, most)) for most in rng.permutation([700, 90])]
        axes = [Runs(*run_lists(rng, DENSE[rng.integers(4)], (1, 5, 40, 100, n)), n) for n in totals]
        sizes, lines = (
            np.array([axis.expand().max(axis=0) + 1 for axis in axes])[:, side].tolist() for side in range(2)
        )
        across = int(rng.integers(0, 2))  # the dimension along which lines of the target run
        apart = item * (lines[across] + int(rng.integers(0, 3)))
        if seed % 3:  # the next multiple of a cache line and of the element
            apart += -apart % int(np.lcm(64, item))
        source = strides_of(sizes, item, "FC"[1 - across])
        target = (apart, item) if across else (item, apart)
        before = int(rng.integers(0, 8)) * item if seed % 4 else int(rng.integers(0, 64))
        part = (0, 1) if seed % 5 else rng.random(2).tolist()
        check_move(axes, item, (source, target), (0, 1) if seed % 2 else (1, 0), part, True, before)


@pytest.mark.parametrize("kind", ["f", "d", "F", "D"])
@pytest.mark.parametrize("beta", [0, 2])
@pytest.mark.parametrize("extra", [0, 1, 8])
def test_lines_that_cross_with_factors(kind: str, beta: int, extra: int) -> None:
    """Of whole cache lines each or not: what is not added to goes past the cache, and is not read."""
    rows, columns, item = 200, 136, np.dtype(kind).itemsize
    rng = np.random.default_rng(extra)
    values = rng.integers(-9, 9, (2, rows, columns))
    a = np.asfortranarray(values[0] + 1j * values[1] if kind in "FD" else values[0], dtype=kind)
    memory = np.full(rows * (columns + extra) + 64, np.nan if beta == 0 else 3, kind)
    start = -memory.ctypes.data % 64 // item
    out = memory[start : start + rows * (columns + extra)].reshape(rows, columns + extra)
    alpha = 2 + 1j if kind in "FD" else 2
    Box([line(rows), line(columns)]).move(
        a.ctypes.data, a.strides, out.ctypes.data, out.strides, item, (0, 1), 0, a.size, True,
        Blend(kind, alpha, beta, kind in "FD"),
    )  # fmt: skip
    assert np.array_equal(out[:, :columns], alpha * a.conj() + 3 * beta)
    assert np.array_equal(out[:, columns:], np.full((rows, extra), np.nan if beta == 0 else 3, kind), equal_nan=True)


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("orders", ["FF", "FC", "CF", "FR", "RC"])
@pytest.mark.parametrize("stream", [False, True])
def test_integers_are_added(kind: str, orders: str, stream: bool) -> None:
    """Along lines, across them and with gaps; sums overflow as NumPy's."""
    dtype, rng = np.dtype(kind), np.random.default_rng(SEED)
    bounds = np.iinfo(dtype)
    shape = 201, 137
    a, out = (rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True) for _ in range(2))
    a, out = (
        np.array(x, order="F" if order == "R" else order)[:: -1 if order == "R" else 1]  # type: ignore[call-overload]
        for x, order in zip((a, out), orders, strict=True)
    )
    with np.errstate(over="ignore"):
        expected = out + a
    Box([line(n) for n in shape]).move(
        a.ctypes.data, a.strides, out.ctypes.data, out.strides, dtype.itemsize, (0, 1), 0, a.size, stream,
        Blend("BHIQ"[dtype.itemsize.bit_length() - 1], 1, 1, False),
    )  # fmt: skip
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("dimensions", [32, 33, 64])
def test_as_many_dimensions_as_an_array_can_have(dimensions: int) -> None:
    """Most of one element; the others in reverse order in the target, so that no two can be joined."""
    shape, step = [1] * dimensions, dimensions // 8
    shape[step - 1 :: step] = [2] * len(shape[step - 1 :: step])
    forward = np.cumprod([1, *shape[:-1]])
    backward = np.cumprod([1, *shape[:0:-1]])[::-1]
    box = Box(line(n) for n in shape)
    source, target = np.arange(box.size), np.zeros(box.size, int)
    strides = [tuple((8 * indices).tolist()) for indices in (forward, backward)]
    order = tuple(range(dimensions))
    for first, last in ((0, 5), (5, box.size)):
        box.move(source.ctypes.data, strides[0], target.ctypes.data, strides[1], 8, order, first, last)
    large = [n for n in shape if n > 1]
    assert np.array_equal(target.reshape(large, order="C").ravel(order="F"), source)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Box([line(4)]).move(0, (8,), 0, (8,), 8, (0,), 2, 5), "elements 2 to 5 are not in a box of 4"),
        (lambda: Box([line(1)] * 65), "a box has 1 to 64 dimensions, not 65"),
        (lambda: Blend("I", 2, 1, False), r"integers are only added, not multiplied by \(2\+0j\) and \(1\+0j\)"),
        (
            lambda: Trapezoid([line(4)] * 2, np.arange(4), np.arange(3), True, 0, ""),
            r"a box of \(4, 4\) elements needs as many indices, not 4 and 3",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
