"""Reductions and functions of elements of distributed arrays: special numbers, errors, and layouts and memory of results."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import numpy as np
import pytest
from hostile.operands import LAYOUTS, Setting, made
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size


def same(ours: Any, theirs: Any, what: str, has_dtype: bool = True) -> None:
    assert np.shape(ours) == np.shape(theirs), what
    if has_dtype:
        dtypes = np.asarray(ours).dtype, np.asarray(theirs).dtype
        assert dtypes[0] == dtypes[1], (what, dtypes)
    assert np.allclose(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True), (what, ours, theirs)


def made_of_any() -> None:
    """Results are in the layout of the array, of a part in one without a parent, and in memory of their own."""
    for layout in LAYOUTS:
        whole = np.arange(143.0).reshape(13, 11)
        array = made(Setting(layout), whole, WORLD).array
        result = array + array
        if isinstance(array.desc, psr.Tiles):
            assert result.desc == array.desc
            continue
        assert result.desc.parent is None
        assert result.desc == array.copy().desc == np.abs(array).desc
        if array.desc.parent is None:
            assert result.desc == array.desc
        if array.desc.coords is not None:
            own = whole[np.ix_(*(array.desc.global_indices(k) for k in range(array.ndim)))]
            same(array.own, own, layout)
            same(array.copy().local, own, layout)
            assert array.own.size == 0 or np.shares_memory(array.own, array.local)
            assert not np.shares_memory(array.copy().local, array.local)
        for name in ("argmin", "argmax"):
            assert type(getattr(array, name)()) is int


def elementwise(block: int | None) -> None:
    """Functions of elements, on arrays of one layout and numbers."""
    desc = psr.Descriptor((9, 7), block, psr.ProcessGrid((SIZE, 1), WORLD))
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
        lambda a, b: np.round(b / 7, decimals=1) + np.clip(a, a_min=-1, a_max=1),
    ]
    for call in calls:
        result = call(x, y)
        assert result.desc == desc
        assert np.array_equal(result.gather(None), call(*wholes))
    refused: list[tuple[Any, str]] = [
        (lambda: np.add.reduce(x), "are methods of the array"),
        (lambda: np.add(x, y, out=x), r"write b\[\.\.\.\] ="),
        (lambda: np.where(x > y), r"np\.where\(a > 0, a, 0\)"),
        (lambda: np.clip(x, 0, 1, out=x), r"write b\[\.\.\.\] ="),
        (lambda: x == "x", "must be numbers or arrays"),
    ]
    for wrong, words in refused:
        with pytest.raises(TypeError, match=words + r".*; here <DistributedArray of shape \(9, 7\) and dtype (float64|bool)>$"):
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
    for each, right in zip(divmod(x + 1, np.full((9, 1), 3)), divmod(wholes[0] + 1, 3), strict=True):
        assert np.array_equal(each.gather(None), right)
    for each, right in zip(np.divmod(np.arange(7), x + 1), np.divmod(np.arange(7), wholes[0] + 1), strict=True):
        assert np.array_equal(each.gather(None), right, equal_nan=True)
    with pytest.raises(psr.ArrayError, match=r"the shapes \(9, 7\) and \(5, 7\) differ: they must be equal"):
        np.add(x, y[:5])
    other = y.redistribute(block=1)
    assert np.maximum(x, other).desc == x.desc
    assert np.array_equal(np.maximum(x, other).gather(None), np.maximum(*wholes))
    assert np.array_equal(np.where(other > 3, x, other).gather(None), np.where(wholes[1] > 3, *wholes))
    assert np.array_equal(np.maximum(x, y[0].redistribute(block=1)).gather(None), np.maximum(wholes[0], wholes[1][0]))


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


def dtypes_that_differ() -> None:
    """Local arrays of other dtypes than other ranks' are an error on all ranks; a rank may not know the dtype."""
    desc = psr.Descriptor((9, 7), 2, psr.ProcessGrid((SIZE, 1), WORLD))
    whole = np.add.outer(np.arange(9) * 1e6, np.arange(7) / 3)
    x = psr.distribute(whole if RANK == 0 else None, desc)
    mixed = psr.DistributedArray(desc, x.local.astype("f4")) if RANK == SIZE - 1 else x
    calls: list[Any] = [
        *(operator.methodcaller("sum"), operator.methodcaller("max", axis=1), operator.methodcaller("gather")),
        *(lambda a: a.__setitem__(0, x[1]), lambda a: x.copy().__setitem__(0, a[1]), operator.itemgetter(0)),
    ]
    for call in calls if SIZE > 1 else []:
        with pytest.raises((psr.ArrayError, psr.CollectiveError), match=r"float(32|64).*float(64|32)"):
            call(mixed)
        assert np.array_equal(x.gather(None), whole)  # type: ignore[arg-type]
    swapped = psr.DistributedArray(desc, x.local.astype(">f8"))
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


def of_texts() -> None:
    """The extreme one of texts of several lengths."""
    whole = np.array([["8", "7", "99", "9", "98", "6"]])
    desc = psr.Tiles([0, 1], range(7), np.arange(6)[None] % SIZE, WORLD)
    x = psr.DistributedArray(desc, [whole[window].copy() for window in desc.windows])
    assert (x.argmax(), x.argmin()) == (2, 5) == (whole.argmax(), whole.argmin())


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
    for name in ("min", "max", "argmin", "argmax"):
        with pytest.raises((psr.ArrayError, psr.CollectiveError), match=f"{name} of an array"):
            getattr(x[:0], name)()
    with pytest.raises((psr.ArrayError, psr.CollectiveError), match="must be one dimension"):
        x.argmin((0, 1))  # type: ignore[arg-type]
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
    made_of_any()
    for block in (2, 3, None):
        elementwise(block)
    stored_otherwise()
    dtypes_that_differ()
    of_texts()
    variances()
    of_foreign_types()
    refused()
    if RANK == 0:
        print("OK", flush=True)
