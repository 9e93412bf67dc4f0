"""Reductions and functions of elements of distributed arrays beside NumPy's of the whole array."""

from __future__ import annotations

import copy
import operator
import pickle
import random
import sys
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
DTYPES: list[Any] = [np.float64, np.float32, np.complex128, np.int8, np.uint16, np.bool_]


def drawn(rng: random.Random, shape: tuple[int, ...] | None = None) -> tuple[psr.DistributedArray, Any]:
    """An array, perhaps a part of one, of tiles, transposed or with replicas, and the same on one rank."""
    if shape is None:
        ndim = rng.choice([1, 2, 2, 2, 3])
        shape = tuple(rng.randint(0 if rng.random() < 0.1 else 1, 14) for _ in range(ndim))
    if rng.random() < 0.3:  # a part of a larger one, or its transpose
        turned = rng.random() < 0.4
        margins = [(rng.randint(0, 3), rng.randint(0, 3)) for _ in shape]
        key = tuple(slice(low, low + n) for n, (low, _) in zip(shape, margins, strict=True))
        size = tuple(low + n + high for n, (low, high) in zip(shape, margins, strict=True))
        array, whole = whole_array(rng, size[::-1] if turned else size, has_tiles=False)
        array, whole = (array.T, whole.T) if turned else (array, whole)
        return array[key], whole[key]
    return whole_array(rng, shape)


def whole_array(rng: random.Random, shape: tuple[int, ...], has_tiles: bool = True) -> tuple[psr.DistributedArray, Any]:
    """An array of this shape, perhaps of tiles or with replicas, and the same on one rank."""
    ndim = len(shape)
    dtype, kind = rng.choice(DTYPES), rng.random()
    whole = np.random.default_rng(rng.randrange(2**30)).integers(-9, 9, shape).astype(dtype)
    if dtype in (np.float64, np.float32) and rng.random() < 0.2 and whole.size:
        whole.flat[rng.randrange(whole.size)] = np.nan
    desc: Any
    if kind < 0.2 and ndim == 2 and has_tiles:
        edges = [sorted({0, n, *(rng.randint(0, n) for _ in range(3))}) for n in shape]
        owners = np.array([[rng.randrange(SIZE) for _ in edges[1][1:]] for _ in edges[0][1:]], dtype=int)
        owners = owners.reshape(max(0, len(edges[0]) - 1), max(0, len(edges[1]) - 1))
        desc = psr.Tiles(row_edges=edges[0], column_edges=edges[1], owners=owners, comm=WORLD)
        if rng.random() < 0.3:  # one array for all tiles
            sizes = [int(np.prod(each)) for each in desc.local_shapes]
            offsets = np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(int)
            desc = psr.Tiles(edges[0], edges[1], owners, WORLD, offsets=offsets.tolist())
    elif kind < 0.4 and ndim == 2 and SIZE % 2 == 0:
        desc = psr.Descriptor(shape, 3, psr.ProcessGrid((2, SIZE // 2), WORLD), axes=(0, None))
    else:
        sides = [SIZE if k == rng.randrange(ndim) else 1 for k in range(ndim)]
        if np.prod(sides) > SIZE or 0 in shape:
            sides = [SIZE, *[1] * (ndim - 1)]
        desc = psr.Descriptor(shape, tuple(rng.randint(1, 4) for _ in shape), psr.ProcessGrid(tuple(sides), WORLD))
    if isinstance(desc, psr.Tiles):
        slabs = psr.Descriptor(shape, None, psr.ProcessGrid((SIZE, 1), WORLD))
        array = psr.redistribute(psr.distribute(whole if RANK == 0 else None, slabs), desc)
        return array, whole
    array = psr.distribute(whole if RANK == 0 else None, desc)
    if rng.random() < 0.3:  # in C order
        array = psr.DistributedArray(desc, np.array(array.local, order="C"))
    return array, whole


def same(ours: Any, theirs: Any, what: str, has_dtype: bool = True) -> None:
    assert np.shape(ours) == np.shape(theirs), what
    if has_dtype:
        dtypes = np.asarray(ours).dtype, np.asarray(theirs).dtype
        assert dtypes[0] == dtypes[1], (what, dtypes)
    assert np.allclose(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True), (what, ours, theirs)


def random_case(rng: random.Random) -> None:
    array, whole = drawn(rng)
    axes: list[Any] = [None, *range(-whole.ndim, whole.ndim), *([(0, 1)] if whole.ndim > 1 else [])]
    axis = rng.choice(axes)
    for name in ("sum", "mean", "min", "max", "any", "all"):
        what = f"{name} of {array!r} along {axis}"
        count = np.prod([whole.shape[k] for k in (range(whole.ndim) if axis is None else np.atleast_1d(axis))])
        if name in ("min", "max") and (count == 0 or whole.dtype.kind == "c"):
            if count == 0:
                with pytest.raises((psr.ArrayError, psr.CollectiveError), match=f"{name} of an array"):
                    getattr(array, name)(axis)
            continue
        if name == "mean" and count == 0:
            continue
        expected = getattr(np, name)(whole, axis=axis)
        same(getattr(array, name)(axis), expected, what)
        expected = getattr(np, name)(whole, axis=axis, keepdims=True)
        same(getattr(np, name)(array, axis=axis, keepdims=True), expected, f"numpy.{what}")
    of_extreme(array, whole, axis)
    if whole.ndim == 2:
        same(array.trace(1), np.trace(whole, 1), f"trace of {array!r}")
        same(np.trace(array, offset=-1), np.trace(whole, -1), f"numpy.trace of {array!r}")
        offset = rng.randint(-whole.shape[0], whole.shape[1])
        same(array.diagonal(offset), np.diagonal(whole, offset), f"diagonal {offset} of {array!r}")
        same(np.diagonal(array), np.diagonal(whole), f"numpy.diagonal of {array!r}")
        if whole.dtype.char in "fdD":
            assert np.allclose(np.linalg.norm(array), np.linalg.norm(whole), equal_nan=True)


def of_extreme(array: psr.DistributedArray, whole: Any, axis: Any) -> None:
    """Where the least and the largest elements are; the first of equal ones, and NaN before all."""
    for name in ("argmin", "argmax"):
        what = f"{name} of {array!r} along {axis}"
        if isinstance(axis, tuple):
            with pytest.raises((psr.ArrayError, psr.CollectiveError), match="must be one dimension"):
                getattr(array, name)(axis)
        elif (whole.size if axis is None else whole.shape[axis]) == 0:
            with pytest.raises((psr.ArrayError, psr.CollectiveError), match=f"{name} of an array"):
                getattr(array, name)(axis)
        elif whole.dtype.kind != "c":
            result = getattr(array, name)(axis)
            assert type(result) is (int if np.ndim(result) == 0 else np.ndarray), what
            same(result, getattr(np, name)(whole, axis=axis), what)
            expected = getattr(np, name)(whole, axis=axis, keepdims=True)
            same(getattr(np, name)(array, axis=axis, keepdims=True), expected, f"numpy.{what}")


def operators(rng: random.Random) -> None:
    """Operators redistribute the right array, perhaps; a part has elements of its own, and what is made of it is alone."""
    array, whole = drawn(rng)
    other, other_whole = drawn(rng, whole.shape)
    what = f"of {array!r} and {other!r}"
    calls: list[Any] = [operator.add, operator.mul, operator.lt, operator.ge, operator.eq, operator.ne]
    calls.append(lambda a, b: a.astype("c16") / (b + 40))
    if {whole.dtype, other_whole.dtype} != {np.dtype(np.bool_)}:
        calls.append(operator.sub)
    with np.errstate(all="ignore"):
        call = rng.choice(calls)
        result, expected = call(array, other), call(whole, other_whole)
    assert result.dtype == expected.dtype, what  # also on a rank without a tile
    same(result.gather(None), expected, what)
    assert result.shape == array.shape
    if isinstance(array.desc, psr.Tiles):
        assert result.desc == array.desc
        return
    assert result.desc.parent is None
    assert result.desc == array.copy().desc == np.abs(array).desc
    if array.desc.parent is None:
        assert result.desc == array.desc
    own = whole[np.ix_(*(array.desc.global_indices(k) for k in range(array.ndim)))]
    if array.desc.coords is not None:
        same(array.own, own, what)
        same(array.copy().local, own, what)
        assert array.own.size == 0 or np.shares_memory(array.own, array.local)
        assert not np.shares_memory(array.copy().local, array.local)
    same(abs(array).gather(None), abs(whole), what)
    same(array.astype("f8" if whole.dtype.kind != "c" else "c16").gather(None), whole, what, has_dtype=False)


def with_numpy(rng: random.Random) -> None:
    """Operators with NumPy arrays, which all ranks have whole."""
    array, whole = drawn(rng)
    shape = [rng.choice([1, n]) for n in whole.shape][rng.randrange(len(whole.shape) + 1) :]
    values = np.random.default_rng(rng.randrange(2**30)).integers(1, 9, shape).astype(rng.choice(["f4", "f8", "i2", "D"]))
    call = rng.choice([operator.add, operator.mul, operator.ne, lambda a, b: b * a, lambda a, b: np.where(a == b, b, a)])
    with np.errstate(all="ignore"):
        result, expected = call(array, values), call(whole, values)
    what = f"of {array!r} and an array of shape {shape}"
    assert result.dtype == expected.dtype, what
    same(result.gather(None), expected, what)
    if whole.ndim == 2 and whole.dtype.char == "d" and whole.size and np.isfinite(whole).all():
        centred = array - array.mean(axis=0)
        assert np.allclose(centred.gather(None), whole - whole.mean(axis=0))
        for axis in (None, 0, 1, -1, (0, 1)):
            assert np.allclose(array.std(axis), whole.std(axis))
            with np.errstate(all="ignore"):
                kept = {"axis": axis, "keepdims": True, "ddof": 1}
                same(array.std(**kept), whole.std(**kept), f"std of {array!r} along {axis}, ddof=1")
            assert np.allclose(np.var(array, axis=axis), whole.var(axis))


def elementwise(rng: random.Random) -> None:
    """Functions of elements, on arrays of one layout and numbers."""
    desc = psr.Descriptor((9, 7), rng.choice([2, 3, None]), psr.ProcessGrid((SIZE, 1), WORLD))
    x, y = (psr.DistributedArray.from_function(desc, f) for f in (lambda i, j: i - j + 0.5, lambda i, j: i * j + 1.0))
    wholes = [psr.redistribute(each, desc).gather(None) for each in (x, y)]
    calls: list[Any] = [
        lambda a, b: np.abs(a),
        lambda a, b: abs(a) + b**2,
        lambda a, b: 2**b,
        lambda a, b: np.sqrt(b) * np.cos(-a),
        lambda a, b: np.maximum(a, b),
        lambda a, b: a > b,
        lambda a, b: np.logical_and(a <= 0, b >= 3.0),
        lambda a, b: np.hypot(a, 1.0),
        lambda a, b: +a,
        lambda a, b: np.equal(a, 0.5),
        lambda a, b: (a == b) | ~(b != 3) ^ (a < 1) & (a >= 0),
        lambda a, b: a // b + a % 3 + 7 // b + 7 % b,
        lambda a, b: np.where(a > b, a, 0.0),
        lambda a, b: np.clip(a, -1, 1) + np.round(b / 7, 1),
        lambda a, b: (a + 1j * b).conj() * (a + 2j * b).imag + np.real(a * 1j),
        lambda a, b: True | (a == b),
    ]
    for call in calls:
        result = call(x, y)
        assert result.desc == desc
        assert np.array_equal(result.gather(None), call(*wholes))
    for wrong in (lambda: np.divmod(x, y), lambda: np.add.reduce(x), lambda: np.add(x, y, out=x), lambda: np.sort(x),
                  lambda: np.where(x > y), lambda: np.clip(x, 0, max=1), lambda: x == "x"):
        with pytest.raises(TypeError, match=r"\.local"):
            wrong()
    part = x[2:7, 1:5]
    assert np.array_equal((part * 1j).imag.gather(None), wholes[0][2:7, 1:5])
    assert np.array_equal(part.real.own, part.own)
    with pytest.raises(ValueError, match=r"no truth value: take \.any\(\)"):
        assert x == y
    assert np.allclose(np.matmul(x.T, y).gather(None), wholes[0].T @ wholes[1])
    local = x.local
    x.local *= 2
    assert x.local is local
    x.local /= 2
    with pytest.raises(AttributeError, match="local stays the same array"):
        x.local = np.zeros((9, 7))
    gram = x.T @ x
    assert gram.desc.axes == (0, 1)
    assert np.allclose(
        (gram + gram.T - 2 * psr.DistributedArray.from_function(gram.desc, np.multiply)).gather(None),
        2 * (wholes[0].T @ wholes[0] - np.outer(range(7), range(7))),
    )
    with pytest.raises(psr.ArrayError, match="different layouts"):
        np.maximum(x, y.redistribute(block=1))


def stored_otherwise() -> None:
    """Arrays of tiles in one layout, stored elsewhere: at other offsets, in a longer array, in lists, as transposes."""
    whole, rows, columns = np.arange(24.0).reshape(6, 4), [0, 2, 3, 6], [0, 1, 4]
    owners = np.array([[0, 1], [1, 0], [1, 1]]) % SIZE
    desc = psr.Tiles(rows, columns, owners, WORLD)

    def stored(order: int = 1, gap: int = 0, taller: int = 0, longer: int = 0) -> psr.DistributedArray:
        leading = [m + taller for m, _ in desc.local_shapes]
        sizes = [gap + n * lld for lld, (_, n) in zip(leading, desc.local_shapes, strict=True)][::order]
        offsets = [sum(sizes[:k]) for k in range(len(sizes))][::order]
        tiles = psr.Tiles(rows, columns, owners, WORLD, offsets=offsets, leading_dimensions=leading)
        local = np.full(sum(sizes) + longer, np.nan)
        for view, window in zip(tiles.views(local), tiles.windows, strict=True):
            view[...] = whole[window]
        return psr.DistributedArray(tiles, local)

    turned = psr.Tiles(columns, rows, owners.T, WORLD)
    arrays = [
        stored(),
        stored(-1, 3, 2),
        stored(longer=5),
        psr.DistributedArray(desc, [whole[window].copy() for window in desc.windows]),
        psr.DistributedArray(turned, [whole.T[window].copy() for window in turned.windows]).T,
        stored(-1, 1).T.T,
    ]
    slabs = psr.Descriptor(whole.shape, None, psr.ProcessGrid((SIZE, 1), WORLD))
    for x in arrays:
        assert x.desc == desc == x.T.desc.T
        assert x.T.desc == turned
        of_one: list[tuple[Any, Any]] = [
            (x, whole), (x.T, whole.T), ((x * 1j).H, (whole * 1j).T.conj()), (x.real, whole), (x.copy().T, whole.T),
            (x.redistribute(slabs.T, op="T"), whole.T), (x + whole, 2 * whole), (copy.deepcopy(x) + x, 2 * whole),
            (pickle.loads(pickle.dumps(x)), whole),
        ]  # fmt: skip
        for found, expected in of_one:
            assert np.array_equal(found.gather(None), expected)
        assert type((x + x).local) is type(x.desc.zeros())
        part = x.real
        for own in part.desc.views(part.local):
            own += 1
        assert x.sum() == whole.sum() + 24
        for own in part.desc.views(part.local):
            own -= 1
        for y in arrays:
            changed, out, like = x.copy(), y.copy(), (y.desc, y.local)
            changed[y > 5] = 0
            x.redistribute(out=out)
            of_two: list[tuple[Any, Any]] = [
                (x - y, 0 * whole), (np.maximum(x, y), whole), (np.where(x > 3, x, y), whole), (x == y, whole == whole),
                (changed, np.where(whole > 5, 0, whole)), (x.T - y.T, 0 * whole.T), (x.redistribute(y), whole), (out, whole),
                (psr.plan(x.desc, slabs, dtype=float)(y), whole), (psr.as_distributed(psr.redistribute(x, like=like)), whole),
            ]  # fmt: skip
            for found, expected in of_two:
                assert np.array_equal(found.gather(None), expected)
    two = psr.Tiles([0, 1, 2], [0, 1], [[0], [0]], MPI.COMM_SELF)
    with pytest.raises(psr.ArrayError, match="local has tiles of dtypes float32, float64: they must be of one"):
        psr.DistributedArray(two, [np.zeros((1, 1), "f4"), np.zeros((1, 1))])


def of_few_ranks() -> None:
    """Of an array on one process, all ranks get the same, also those that do not know its dtype."""
    desc = psr.Descriptor((5, 4), 2, psr.ProcessGrid((1, 1), WORLD, ranks=[[SIZE - 1]]))
    for dtype in ("f4", "F", "i2", "D"):
        whole = (np.arange(20).reshape(5, 4) * (1 + (2j if dtype in "FD" else 0))).astype(dtype)
        array = psr.DistributedArray(desc, np.asfortranarray(whole) if SIZE - 1 == RANK else None)
        names = ["sum", "mean", "any", "all", *(["min", "max"] if dtype not in "FD" else [])]
        for name in names:
            for axis in (None, 0):
                same(getattr(array, name)(axis), getattr(whole, name)(axis), f"{name} of {dtype} along {axis}")
        same(array.trace(), whole.trace(), f"trace of {dtype}")
        same(array[2, 3], whole[2, 3], f"element of {dtype}")
        for found, expected in ((array[1:3, 1:].H, whole[1:3, 1:].conj().T), (array[1:4].copy(), whole[1:4])):
            assert len(set(WORLD.allgather(found.desc.layout_digest))) == 1
            same(found.gather(None), expected, f"a part of {dtype}")
    nothing = psr.DistributedArray(
        psr.Descriptor((0, 4), 2, desc.grid), np.zeros((0, 4), "f4") if SIZE - 1 == RANK else None
    )
    same(nothing.sum(), np.float32(0), "sum of nothing")
    same(nothing.sum(0), np.zeros(4, "f4"), "sum of nothing")


def dtypes_that_differ() -> None:
    """Local arrays of other dtypes than other ranks' are an error on all ranks; a rank may not know the dtype."""
    desc = psr.Descriptor((9, 7), 2, psr.ProcessGrid((SIZE, 1), WORLD))
    whole = np.add.outer(np.arange(9) * 1e6, np.arange(7) / 3)
    x = psr.distribute(whole if RANK == 0 else None, desc)
    mixed = psr.DistributedArray(desc, x.local.astype("f4")) if RANK == SIZE - 1 else x
    calls: list[Any] = [
        *map(operator.methodcaller, ("sum", "mean", "var", "std", "min", "max", "any", "all", "argmin", "argmax")),
        *map(operator.methodcaller, ("trace", "diagonal", "gather")),
        *(operator.methodcaller("sum", axis=0), operator.methodcaller("max", axis=1), operator.methodcaller("min", axis=0)),
        *(operator.itemgetter((8, 6)), operator.itemgetter(0), operator.itemgetter(np.s_[::2])),
        *(lambda a: a.__setitem__(0, x[1]), lambda a: x.copy().__setitem__(0, a[1]), lambda a: a.redistribute(block=1)),
        *(np.linalg.norm, lambda a: a @ x.T, lambda a: psr.redistribute(a, like=(desc, x.local))),
    ]  # fmt: skip
    for call in calls if SIZE > 1 else []:
        with pytest.raises((psr.ArrayError, psr.CollectiveError), match=r"float(32|64).*float(64|32)"):
            call(mixed)
        assert np.array_equal(x.gather(None), whole)  # type: ignore[arg-type]
    swapped = psr.DistributedArray(desc, x.local.astype(">f8"))
    for result in (swapped.mean(0), swapped.diagonal(), swapped.max(0), swapped.var(1), swapped.mean()):
        assert len(set(WORLD.allgather(result.dtype.str))) == 1
    assert swapped.diagonal().dtype == np.diagonal(whole.astype(">f8")).dtype
    matrix = psr.DistributedArray(desc, np.asmatrix(x.local) if RANK == 0 else x.local)  # whose * is another product
    for axis in (0, 1):
        same(matrix.var(axis), whole.var(axis), "variance of matrices")
    outside = psr.DistributedArray(
        psr.Descriptor((3, 3), 3, psr.ProcessGrid((1, 1), WORLD)), np.eye(3) if RANK == 0 else None
    )
    for wrong in (lambda: outside ^ 2.5, lambda: np.round(outside, 0.5), lambda: 1j // outside):  # type: ignore[call-overload]
        with pytest.raises(TypeError):
            wrong()
    assert (outside / 2).sum() == 1.5


def variances() -> None:
    """In one vote, and as exact as NumPy's where the mean is much larger; of infinities as NumPy's."""
    desc = psr.Descriptor((200, 3), 3, psr.ProcessGrid((SIZE, 1), WORLD))
    noise = np.random.default_rng(3).standard_normal((200, 3))
    for dtype, precision in (("f8", 1e-15), ("D", 1e-15), ("f4", 1e-7), ("g", 4 * np.finfo("g").eps)):
        whole = (noise + (1e8 if dtype != "f4" else 100)).astype(dtype)
        x = psr.distribute(whole if RANK == 0 else None, desc)
        for call in (operator.methodcaller("var", 0), operator.methodcaller("var", ddof=1), operator.methodcaller("std")):
            result, expected = call(x), call(whole.astype("G" if dtype == "D" else "g"))
            assert result.dtype == whole.real.dtype
            assert (abs(result - expected) <= precision * 8 * expected).all(), (dtype, result, expected)
    for special in (np.inf, np.nan, 1e300):
        whole = noise.copy()
        whole[100, 1] = special
        x = psr.distribute(whole if RANK == 0 else None, desc)
        with np.errstate(all="ignore"):
            same(x.var(0), whole.var(0), f"variance with {special}")
    same(psr.zeros((3, 0), WORLD).var(0), np.zeros(0), "variance of nothing")
    x.own[x.own == 1e300] = np.inf
    is_here = np.isinf(x.own).any()
    with np.errstate(all="raise"):
        with pytest.raises(FloatingPointError if is_here else psr.CollectiveError, match="invalid value"):
            x.var()
        assert psr.ones(desc).mean() == 1
    line = psr.Descriptor((3,), 1, psr.ProcessGrid((SIZE,), WORLD))
    z = psr.distribute(np.array([3, np.nan + 1j, 2j]) if RANK == 0 else None, line)
    with np.errstate(all="raise"):
        assert z.argmin() == z.argmax() == 1


def of_foreign_types() -> None:
    """Means of floating-point numbers are in their precision, and those of integers in double precision."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    desc = psr.Descriptor((6, 4), 1, psr.ProcessGrid((SIZE, 1), WORLD))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"):
        x = psr.DistributedArray.from_function(desc, lambda i, j: i % 3 + j % 2).astype(getattr(ml_dtypes, name))
        whole = np.fromfunction(lambda i, j: i % 3 + j % 2, (6, 4))
        dtype = np.dtype(float) if "int" in name else x.dtype
        for call in ("mean", "var"):
            for axis in (None, 0):
                result, expected = getattr(x, call)(axis), getattr(whole, call)(axis)
                assert result.dtype == dtype
                assert np.array_equal(result, expected.astype(dtype)), (name, call, axis)


def refused() -> None:
    """An error of one rank, and calls that differ, are errors on all."""
    desc = psr.Descriptor((9, 7), 2, psr.ProcessGrid((SIZE, 1), WORLD))
    x = psr.DistributedArray.from_function(desc, lambda i, j: i + 1.0 * j)
    for axis in (2, -3, (0, 0), "rows", 0.5):
        with pytest.raises((psr.ArrayError, psr.CollectiveError), match="axis ="):
            x.sum(axis if RANK == 0 else 0)  # type: ignore[arg-type]
    if SIZE > 1:
        with pytest.raises(psr.CollectiveError, match=r"max|min"):
            (x.max if RANK else x.min)()
        calls: list[tuple[Any, Any, str]] = [
            (lambda: x.sum(0), lambda: x.sum(1), r"sum\(axis=\(\d,\)\)"),
            (lambda: x.sum(), lambda: x.sum(1), r"sum\(axis=\(.*\)\)"),
            (lambda: x.sum(), lambda: x.sum(dtype="f4"), "dtype=float32"),
            (lambda: x.trace(), lambda: x.trace(1), r"trace\(offset=\d\)"),
        ]
        for one, other, words in calls:
            with pytest.raises(psr.CollectiveError, match=words):
                (one if RANK else other)()
        for wrong in (lambda: x.sum(dtype="no dtype"), lambda: x.sum(dtype=object()), lambda: x.trace("rows")):  # type: ignore[arg-type]
            with pytest.raises((TypeError, psr.CollectiveError)):
                wrong() if RANK == 0 else x.sum()
    assert x.sum(dtype="f4" if RANK else np.float32) == x.sum()
    assert x.sum((1, 0)) == x.sum((0, -1)) == x.sum()
    assert x.sum() == 63 * 4 + 63 * 3


if __name__ == "__main__":
    rng = random.Random(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        random_case(rng)
        operators(rng)
        with_numpy(rng)
    elementwise(rng)
    stored_otherwise()
    of_few_ranks()
    dtypes_that_differ()
    variances()
    of_foreign_types()
    refused()
    if RANK == 0:
        print("OK", flush=True)
