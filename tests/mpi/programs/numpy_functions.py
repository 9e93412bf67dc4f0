"""Each row of the table of NumPy's functions beside NumPy: values, dtypes, shapes, layouts, memory; errors on all ranks.

With an argument, also layouts, memory and dtypes one by one.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hostile.operands import DTYPES, LAYOUTS, MEMORY, OF_ONE_DIMENSION, Setting, made, numbers
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.numpy_functions import REMEDIES, TABLE

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
IS_LONG = len(sys.argv) > 1
Call = Callable[..., Any]

# For each function its calls, of an array x and another one of its shape, y; w is y, as a NumPy array that all ranks have.
ANY: dict[str, list[Call]] = {  # of any number of dimensions and any dtype
    "transpose": [lambda x, y, w: np.transpose(x), lambda x, y, w: np.transpose(x, range(x.ndim)[::-1])],
    "moveaxis": [lambda x, y, w: np.moveaxis(x, 0, -1)],
    "swapaxes": [lambda x, y, w: np.swapaxes(x, 0, -1), lambda x, y, w: x.swapaxes(-1, 0) + x.swapaxes(-1, 0)],
    "rollaxis": [lambda x, y, w: np.rollaxis(x, -1)],
    "expand_dims": [lambda x, y, w: np.expand_dims(x, 1), lambda x, y, w: np.expand_dims(x.T, (0, -1))],
    "zeros_like": [lambda x, y, w: np.zeros_like(x), lambda x, y, w: np.zeros_like(x, dtype=np.float32)],
    "ones_like": [lambda x, y, w: np.ones_like(x)],
    "empty_like": [lambda x, y, w: np.empty_like(x) * 0],
    "full_like": [lambda x, y, w: np.full_like(x, 1), lambda x, y, w: np.full_like(x, 1.5, np.float64)],
    "size": [lambda x, y, w: np.size(x)],
    "shape": [lambda x, y, w: np.shape(x)],
    "ndim": [lambda x, y, w: np.ndim(x)],
    "copy": [lambda x, y, w: np.copy(x)],
    "reshape": [
        lambda x, y, w: np.reshape(x, (-1,)),
        lambda x, y, w: x.reshape(*x.shape[::-1]),
        lambda x, y, w: np.reshape(x, (1, x.size, 1), order="F"),
        lambda x, y, w: np.reshape(x, x.shape[::-1], order="F"),
    ],
    "ravel": [lambda x, y, w: np.ravel(x), lambda x, y, w: x.ravel("F")],
    "concatenate": [
        lambda x, y, w: np.concatenate([x, y, x]),
        lambda x, y, w: np.concatenate([y, w], axis=-1),
        lambda x, y, w: np.concatenate((w, x), axis=None),
        lambda x, y, w: np.concatenate([x, x.astype(np.complex64)]),
        lambda x, y, w: np.concatenate([x], dtype=np.complex128),
    ],
    "stack": [lambda x, y, w: np.stack([x, y]), lambda x, y, w: np.stack([x, w, y], axis=-1)],
    "vstack": [lambda x, y, w: np.vstack((x, y))],
    "hstack": [lambda x, y, w: np.hstack((x, w))],
    "column_stack": [lambda x, y, w: np.column_stack((x, y))],
    "isclose": [lambda x, y, w: np.isclose(x, x + 1e-9), lambda x, y, w: np.isclose(x, w, atol=1)],
    "allclose": [
        lambda x, y, w: np.allclose(x, y),
        lambda x, y, w: np.allclose(x, w, atol=99),
        lambda x, y, w: np.allclose(w, y),
        lambda x, y, w: np.allclose(x - x, 0),
    ],
    "array_equal": [
        lambda x, y, w: np.array_equal(x, y),
        lambda x, y, w: np.array_equal(y, w),
        lambda x, y, w: np.array_equal(x, x[:-1] if x.ndim == 1 else x[:, :-1]),
        lambda x, y, w: np.array_equal(x, x * 1, equal_nan=True),
    ],
    "sum": [
        lambda x, y, w: np.sum(x, where=y > 0),
        lambda x, y, w: np.sum(x, axis=0, where=w > 0, keepdims=True),
        lambda x, y, w: np.sum(x, initial=3),
        lambda x, y, w: x[y > 0].sum(),
        lambda x, y, w: np.sum(x[x != x]),
        lambda x, y, w: x.sum(where=(y > 0)[0]),
        lambda x, y, w: len(x[y > 0]),
    ],
    "prod": [
        lambda x, y, w: np.prod(x),
        lambda x, y, w: np.prod(x * 0 + 1 + (y > 0)),
        lambda x, y, w: (x * 0 + 1 + (y > 0)).prod(axis=-1, where=y > 0, initial=2),
        lambda x, y, w: (x * 0 + 1 + (y > 0))[y > 0].prod(),
    ],
    "mean": [
        lambda x, y, w: np.mean(x, where=y == y),
        lambda x, y, w: x.mean(0, where=w == w, keepdims=True),
        lambda x, y, w: x[y == y].mean(),
    ],
    "var": [lambda x, y, w: x[y == y].var(ddof=1), lambda x, y, w: np.var(x, axis=0)],
    "std": [lambda x, y, w: x[y == y].std(), lambda x, y, w: np.std(x, axis=-1, keepdims=True)],
    "min": [
        lambda x, y, w: np.min(x, where=y > 0, initial=1),
        lambda x, y, w: np.min(x, axis=0, initial=0),
        lambda x, y, w: x[y == y].min(initial=2),
    ],
    "max": [lambda x, y, w: x.max(axis=-1, where=w > 0, initial=0), lambda x, y, w: x[y == y].max(initial=0)],
    "amin": [lambda x, y, w: np.amin(x, initial=0)],
    "amax": [lambda x, y, w: np.amax(x, initial=0)],
    "any": [lambda x, y, w: np.any(x > 1, where=y > 0), lambda x, y, w: (x > 3)[y > 0].any()],
    "all": [lambda x, y, w: np.all(x > 1, axis=0, where=y > 0), lambda x, y, w: (x > 0)[y > 0].all()],
    "argmin": [lambda x, y, w: np.argmin(x)],
    "argmax": [lambda x, y, w: np.argmax(x, axis=0)],
    "count_nonzero": [lambda x, y, w: np.count_nonzero(x), lambda x, y, w: np.count_nonzero(x, axis=0, keepdims=True)],
    "ptp": [lambda x, y, w: np.ptp(x), lambda x, y, w: np.ptp(x, axis=-1)],
    "sort": [
        lambda x, y, w: np.sort(x),
        lambda x, y, w: np.sort(x, axis=0, kind="stable"),
        lambda x, y, w: np.sort(x, axis=None),
    ],
    "cumsum": [
        lambda x, y, w: np.cumsum(x),
        lambda x, y, w: x.cumsum(0),
        lambda x, y, w: np.cumsum(x, axis=-1, dtype=np.complex128),
    ],
    "cumprod": [
        lambda x, y, w: np.cumprod(x * 0 + 1 + (y > 0)),
        lambda x, y, w: np.cumprod(x * 0 + 1 + (y > 0), axis=0),
    ],
    "median": [
        lambda x, y, w: np.median(x),
        lambda x, y, w: np.median(x, axis=0),
        lambda x, y, w: np.median(x, axis=-1, keepdims=True),
        lambda x, y, w: np.median(x, keepdims=True),
    ],
    "quantile": [
        lambda x, y, w: np.quantile(x, 0.3),
        lambda x, y, w: np.quantile(x, [0, 0.25, 1]),
        lambda x, y, w: np.quantile(x, [0.1, 0.5], axis=0),
        lambda x, y, w: np.quantile(x, 0.7, axis=-1, keepdims=True),
        lambda x, y, w: np.quantile(x, 0.7, axis=0, method="nearest"),
    ],
    "percentile": [lambda x, y, w: np.percentile(x, 30), lambda x, y, w: np.percentile(x, (5, 95), axis=0)],
    "histogram": [
        lambda x, y, w: np.histogram(x),
        lambda x, y, w: np.histogram(x, bins=[-4, 0, 1, 4]),
        lambda x, y, w: np.histogram(x, 5, (-3, 3), density=True),
    ],
    "vdot": [lambda x, y, w: np.vdot(x, y), lambda x, y, w: np.vdot(x, w), lambda x, y, w: np.vdot(x, y.T)],
    "dot": [lambda x, y, w: np.dot(x, 2), lambda x, y, w: np.dot(x, y.T)],
    "inner": [lambda x, y, w: np.inner(x, y)],
    "outer": [lambda x, y, w: np.outer(x, y)],
    "tensordot": [
        lambda x, y, w: np.tensordot(x, y, ([0], [0])),
        lambda x, y, w: np.tensordot(x, y, x.ndim),
        lambda x, y, w: np.tensordot(x, y, 0),
        lambda x, y, w: np.tensordot(x, w, (-1, -1)),
    ],
    "len": [lambda x, y, w: len(x)],
    "broadcast": [
        lambda x, y, w: x - x[0] if x.ndim > 1 else x,
        lambda x, y, w: x[0] - x if x.ndim > 1 else x,
        lambda x, y, w: x * x[:, :1] if x.ndim > 1 else x * x[:1],
        lambda x, y, w: x > y[:1],
    ],
}
MATRICES: dict[str, list[Call]] = {
    "matmul": [
        lambda x, y, w: x @ y.T,
        lambda x, y, w: x @ w.T,
        lambda x, y, w: w.T @ x,
        lambda x, y, w: np.matmul(x, w[0]),
        lambda x, y, w: w[:, 0] @ x,
        lambda x, y, w: x[:, 0] @ x,
        lambda x, y, w: x @ y[0],
        lambda x, y, w: x[0] @ y[0],
    ],
    "einsum": [
        lambda x, y, w: np.einsum("ij,kj->ik", x, y),
        lambda x, y, w: np.einsum("ij,kj->ki", x, w),
        lambda x, y, w: np.einsum("ij,ij", x, y),
        lambda x, y, w: np.einsum("ij,ij->ji", x, y),
        lambda x, y, w: np.einsum("ij->j", x),
        lambda x, y, w: np.einsum("ij->", x),
        lambda x, y, w: np.einsum("ji", x),
        lambda x, y, w: np.einsum("ij,j->i", x, y[0]),
        lambda x, y, w: np.einsum("i,j->ij", x[0], y[0]),
        lambda x, y, w: np.einsum("ii", x @ y.T),
        lambda x, y, w: np.einsum("ii->i", x @ y.T),
    ],
    "cov": [
        lambda x, y, w: np.cov(x),
        lambda x, y, w: np.cov(x, rowvar=False, bias=True),
        lambda x, y, w: np.cov(x[0], ddof=0),
    ],
    "corrcoef": [lambda x, y, w: np.corrcoef(x), lambda x, y, w: np.corrcoef(x, rowvar=False)],
    "trace": [lambda x, y, w: np.trace(x, -1)],
    "diagonal": [lambda x, y, w: np.diagonal(x, 1)],
    "matrix_transpose": [lambda x, y, w: x.T if np.__version__ < "2" else np.matrix_transpose(x)],
}
SQUARE: dict[str, Call] = {  # of A with a large diagonal, and B
    "solve": lambda a, b: np.linalg.solve(a, b),
    "inv": lambda a, b: np.linalg.inv(a),
    "det": lambda a, b: np.linalg.det(a),
    "slogdet": lambda a, b: tuple(np.linalg.slogdet(a)),
    "cholesky": lambda a, b: np.linalg.cholesky(a @ a.T),
    "eigh": lambda a, b: np.linalg.eigh(a + a.T)[0],
    "eigvalsh": lambda a, b: np.linalg.eigvalsh(a + a.T, UPLO="U"),
    "eig": lambda a, b: np.abs(np.linalg.eig(a)[0]).sum(),
    "eigvals": lambda a, b: np.linalg.eigvals(a).sum(),
    "svd": lambda a, b: np.linalg.svd(a, compute_uv=False),
    "svdvals": lambda a, b: np.linalg.svd(a)[1],
    "qr": lambda a, b: abs(np.linalg.qr(a)[1]),
    "pinv": lambda a, b: np.linalg.pinv(a),
    "lstsq": lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0],
    "cond": lambda a, b: np.linalg.cond(a),
    "matrix_rank": lambda a, b: np.linalg.matrix_rank(a),
    "norm": lambda a, b: np.linalg.norm(a, axis=1),
    "matmul": lambda a, b: a @ b,
}
NUMERIC = ("float64", "float32", "complex128", "complex64", "int64", "int8", "uint8", "bool", "float16", "float128")


def outcome(call: Call, *operands: Any) -> tuple[Any, BaseException | None]:
    """What a call returns, or raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = call(*operands)
        except Exception as error:
            return None, error
        return result if isinstance(result, tuple) else (result,), None


def compare(what: str, call: Call, distributed: list[Any], wholes: list[Any], may_refuse: str = "") -> None:
    """See that a call has NumPy's result, or an error where NumPy has one, on all ranks."""
    ours, error = outcome(call, *distributed)
    theirs, expected = outcome(call, *wholes)
    failed = WORLD.allgather(error is not None)
    assert len({*failed}) == 1, f"{what}: errors on some ranks: {failed}: {error}"
    if expected is not None or error is not None:
        assert error is not None, f"{what}: no error, but NumPy has {expected!r}"
        words = f"{type(error).__name__}: {error}"
        is_fair = expected is not None or any(each in words for each in REFUSED)
        assert is_fair, f"{what}: {words}"
        return
    for mine, right in zip(ours, theirs, strict=True):
        x, y = np.asarray(mine.gather(None) if isinstance(mine, psr.DistributedArray) else mine), np.asarray(right)
        assert x.shape == y.shape, f"{what}: shape {x.shape}, not {y.shape}"
        assert x.dtype == y.dtype, f"{what}: dtype {x.dtype}, not {y.dtype}"
        if y.dtype.kind in "fc":
            eps = float(np.finfo(y.dtype).eps)
            size = float(np.abs(y[np.isfinite(y)]).max(initial=1))
            assert np.allclose(x, y, rtol=300 * eps, atol=300 * eps * size, equal_nan=True), f"{what}: {x}, not {y}"
        else:
            assert np.array_equal(x, y), f"{what}: {x}, not {y}"


# What is refused on purpose, though NumPy has a result
REFUSED = (
    "ScaLAPACK does not have",
    "has no sub-arrays",
    "has no dimensions in another order",
    "has no views of more dimensions",
    "is not one product",
    "must be one of 'linear'",
    "bring both into one",  # NumPy's functions of elements move nothing
    "so there is no",
    "has no index",
    "takes numbers and NumPy arrays only",
)


def operands(setting: Setting, shape: tuple[int, ...], beside: str = "") -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(7)
    dtype = np.dtype(DTYPES[setting.dtype])
    wholes = [numbers(rng, shape, dtype) for _ in range(2)]
    settings = setting, setting._replace(layout=beside or setting.layout)
    arrays = [made(each, whole, WORLD).array for each, whole in zip(settings, wholes, strict=True)]
    return [*arrays, wholes[1]], [*wholes, wholes[1]]


def settings() -> Iterator[tuple[Setting, tuple[int, ...], str]]:
    """Arrays to try each row with: layouts, memory, dtypes, shapes, and the layout of the second one."""
    for shape in ((7, 5), (12,), (4, 3, 5), (0, 3), (3, 0), (1, 1), (1, 6), (6, 1), (0,), (1,)):
        yield Setting("rows", "C order"), shape, "columns" if len(shape) > 1 else "balanced blocks"
    for dtype in NUMERIC[1:]:
        yield Setting("columns", dtype=dtype), (5, 4), "rows"
    for layout in LAYOUTS:
        yield Setting(layout), (9, 7), ""
        if "offsets" not in layout:
            yield Setting(layout), (11,), "rows"
        yield Setting(layout, dtype="complex64"), (5, 6), "blocks"
    for memory in MEMORY:
        yield Setting("blocks", memory), (6, 5), ""
        if memory in OF_ONE_DIMENSION:
            yield Setting("irregular blocks", memory), (13,), ""


def rows() -> None:
    """Each row with each of these arrays; in the default tier with one, in turn."""
    every = [*settings()]
    calls = [(name, k, call) for table in (ANY, MATRICES) for name, row in table.items() for k, call in enumerate(row)]
    for number, (setting, shape, beside) in enumerate(every):
        some = calls if IS_LONG else calls[number :: len(every)]
        arrays, wholes = operands(setting, shape, beside)
        for name, k, call in some:
            if name in ANY or len(shape) == 2:
                compare(f"{name}, call {k}, {shape}, {setting}", call, arrays, wholes)


def special_values() -> None:
    """NaN, infinities and zeros of both signs, in what orders and compares elements."""
    rng = np.random.default_rng(3)
    for special in ((np.nan,), (np.inf, -np.inf), (-0.0, 0.0), (np.inf, np.nan)):
        whole = numbers(rng, (8, 6), np.dtype(float))
        whole.flat[rng.integers(0, 48, 2 * len(special))] = special * 2
        arrays = [made(Setting("blocks"), whole, WORLD).array, made(Setting("columns"), whole, WORLD).array, whole]
        ordering = ("sort", "median", "quantile", "cumsum", "sum", "min", "max", "ptp", "histogram")
        for name in (*ordering, "allclose", "array_equal"):
            for k, call in enumerate(ANY[name][: None if IS_LONG else 1]):
                compare(f"{name}, call {k}, {special}", call, arrays, [whole] * 3)
    same = np.full(1000, 2.0)
    same[::7] = 1
    line = made(Setting("rows"), same, WORLD).array
    compare("sort of equal elements", lambda x: np.sort(x), [line], [same])
    texts = np.array(["b", "", "aa", "a"] * 5)
    compare("sort of texts", lambda x: np.sort(x), [made(Setting("blocks"), texts, WORLD).array], [texts])


def arguments() -> None:
    """Arguments by their place and of other kinds, with NumPy's values and dtypes."""
    rng = np.random.default_rng(11)
    whole, other = rng.normal(size=(6, 2)), rng.normal(size=(6, 2))
    x, y = (made(Setting("rows"), each, WORLD).array for each in (whole, other))
    tolerances = np.array([[2.0, 2], [0.5, 0.5]] * 3)
    big = np.array([[2**62 + 1, 2**62 + 3], [5, 2**62 + 5]])
    endless = np.array([[-np.inf, 1.0], [2.0, np.inf]])
    some: list[tuple[str, Call, list[Any], list[Any]]] = [
        ("isclose", lambda a, b: np.isclose(a, a + 1, 0, b), [x, tolerances], [whole, tolerances]),
        ("isclose, rows", lambda a, b: np.isclose(a, a + 1, 0, b), [x, tolerances[:2]], [whole, tolerances[:2]]),
        ("allclose", lambda a, b: np.allclose(a, a + 1, 0, b), [x, tolerances * 4], [whole, tolerances * 4]),
        ("allclose, wrong", lambda a, b: np.allclose(a, a + 1, 0, b), [x, tolerances[:2] * 4], [whole, tolerances[:2]]),
        ("cov, ddof", lambda a: np.cov(a, ddof=1.5), [x], [whole]),
        ("cov, dtype", lambda a: np.cov(a, dtype=np.float32), [x], [whole]),
        *((f"{f.__name__}, y", f, [x, y], [whole, other]) for f in (np.cov, np.corrcoef)),
        *((f"{f.__name__}, y of NumPy", f, [x, other], [whole, other]) for f in (np.cov, np.corrcoef)),
        ("cov, columns", lambda a, b: np.cov(a, b, False), [x, y], [whole, other]),
    ]
    for kind in (big, endless, endless > 1):
        a = made(Setting("rows"), kind, WORLD).array
        for q in (0, 1, [0, 1], True):
            some.append((f"quantile, q={q!r}, {kind.dtype}", lambda a, q=q: np.quantile(a, q), [a], [kind]))  # type: ignore[misc]
    for dtype in ("S3", "U3", "f8"):
        for value in (0, False):
            some.append((f"full_like, {dtype}", lambda a, v=value, d=dtype: np.full_like(a, v, d), [x], [whole]))  # type: ignore[misc]
        some.append((f"zeros_like, {dtype}", lambda a, d=dtype: np.zeros_like(a, d), [x], [whole]))  # type: ignore[misc]
    swapped = whole.astype(">f8")
    some.append(
        ("a[mask], big-endian", lambda a: a[a > 1].sum(), [made(Setting("rows"), swapped, WORLD).array], [swapped])
    )
    for what, call, distributed, wholes in some:
        compare(what, call, distributed, wholes)
    on_first = psr.Descriptor(big.shape, None, psr.ProcessGrid((1, 1), WORLD))
    few = psr.DistributedArray(on_first, np.asfortranarray(big) if RANK == 0 else None)
    assert np.zeros_like(few).gather(None).dtype == np.full_like(few, 3).gather(None).dtype == big.dtype
    assert type(np.median(few)) is np.float64
    assert (np.zeros_like(few) | few).redistribute("rows").sum() == big.sum()


def linear_algebra() -> None:
    rng = np.random.default_rng(5)
    wholes = [rng.normal(size=(8, 8)) + 9 * np.eye(8), rng.normal(size=(8, 3))]
    arrays = [made(Setting("rows"), whole, WORLD).array for whole in wholes]
    for name, call in SQUARE.items():
        compare(name, call, arrays, wholes)


def all_rows_are_tried() -> None:
    tried = {*ANY, *MATRICES, *SQUARE, "astype"}
    assert not {function.__name__ for function in TABLE} - tried
    for name in REMEDIES:
        assert not any(f"{each.__module__}.{each.__name__}" == f"numpy.{name}" for each in TABLE), name


def refused() -> None:
    """Errors say what to write, on all ranks; arguments of ranks that differ are an error."""
    x = made(Setting("rows"), np.arange(35.0).reshape(7, 5), WORLD).array
    here = r"; here <DistributedArray of shape \(7, 5\) and dtype float64>$"
    remedies: list[tuple[Call, str]] = [
        (lambda: np.save("a.npy", x), r"write a\.save\('a\.npy'\)"),
        (lambda: np.flip(x), r"write a\[::-1\]"),
        (lambda: np.diff(x), r"a\[1:\] - a\[:-1\]"),
        (lambda: np.fft.fft(x), r"one axis after the other.*docs/fourier\.md"),
        (lambda: np.interp(x, [0, 1], [0, 1]), r"a\.gather\(\) is the whole array on one rank"),
        (lambda: np.linalg.multi_dot([x, x]), "write a @ b @ c"),
        (lambda: np.unique(x), r"np\.sort\(a, axis=None\)"),
    ]
    for call, words in remedies:
        with pytest.raises(TypeError, match=words + ".*" + here if "@" not in words else words):
            call()
    with pytest.raises(AttributeError, match=r"no attribute 'argsort': numpy\.argsort\(a\) works, or says"):
        x.argsort()
    with pytest.raises(TypeError, match="is no array: it has all, any, max"):
        np.sort(x[x > 3])
    for refused in (lambda: x[x > 0] * 2, lambda: 2 - x[x > 0], lambda: x[x > 0] == 3):
        with pytest.raises(TypeError, match=r"which is no array: .*np\.where\(mask, a, 0\) is an array"):
            refused()
    with pytest.raises(ValueError, match="has no truth value"):
        bool(x[x > 3])
    both = (psr.ArrayError, psr.CollectiveError, TypeError, ValueError)
    wrong: list[tuple[Call, Call, str]] = [
        (lambda: np.sort(x, order="f"), lambda: np.sort(x), r"unexpected keyword argument 'order'"),
        (lambda: np.sort(x, axis=2), lambda: np.sort(x, axis=1), "axis"),
        (lambda: np.reshape(x, (5, 5)), lambda: np.reshape(x, (5, 7)), r"shape"),
        (lambda: np.concatenate([x, x[:3]]), lambda: np.concatenate([x, x]), "layout"),
        (lambda: np.concatenate([x, x], axis=1), lambda: np.concatenate([x, x]), "axis"),
        (lambda: x @ np.ones((5, 2)), lambda: x @ np.zeros((5, 2)), "x2"),
        (lambda: np.median(x), lambda: np.cumsum(x), "median|cumsum"),
        (lambda: np.quantile(x, 2), lambda: np.quantile(x, 0.2), "q"),
        (lambda: x.sum(where=x[:2] > 0), lambda: x.sum(where=x > 0), "shapes|must be the same|the layout|the call"),
        (lambda: x[x > 1].sum(), lambda: x[x > 1].mean(), "sum|mean"),
        (lambda: x[x > 1].sum(foo=1), lambda: x[x > 1].sum(), "foo"),
        (lambda: x.sum(where=np.arange(5) > 1), lambda: x.sum(where=np.arange(5) > 2), "where"),
        (lambda: x.mean(where=np.arange(5) > 1), lambda: x.mean(where=np.arange(5) > 2), "where"),
        (lambda: np.sum(x, out=0), lambda: np.sum(x), "out"),
        (lambda: np.linalg.svd(x, hermitian=True), lambda: np.linalg.svd(x), "hermitian"),
    ]
    for one, other, words in wrong:
        if SIZE > 1:
            with pytest.raises(both, match=words):
                (one if RANK == 0 else other)()
        assert x.sum() == 35 * 17
    moving: tuple[Call, str] = (lambda: np.quantile(x, 0.5, method="hazen"), "method = 'hazen' must be one of")
    for call, words in (
        *([moving] if SIZE > 1 else []),
        (lambda: np.reshape(x, (5, 5)), r"of shape \(7, 5\) has 35 elements, and cannot be of shape \(5, 5\)"),
        (lambda: np.reshape(x, 35, order="A"), "order = 'A' must be 'C'"),
        (lambda: np.concatenate([x, x[:, 1:]]), r"arrays\[1\] has shape \(7, 4\)"),
        (lambda: np.einsum("ij,jk,kl->il", x, x.T, x), r"np\.einsum\('ij,jk->ik', a, b\)"),
        (lambda: np.einsum("ij,jk->ikj", x, x.T), "is not one product"),
        (lambda: np.einsum("ij,kj->k", x, x), "is not one product"),
        (lambda: np.einsum("ijk->i", x), "has 3 letters"),
        (lambda: np.histogram(x, "auto"), "bins = 'auto' must be"),
        (lambda: np.histogram(x, bins=x[0]), r"no distributed array for bins.*bins\.gather\(None\)"),
        (lambda: np.quantile(x, x[0]), "no distributed array for q"),
        (lambda: np.full_like(x, x), "no distributed array for fill_value"),
        (lambda: np.array([1.0], like=x), r"psr\.distribute\(array, a\)"),
        (lambda: np.linalg.eigh(x[:5], UPLO="X"), "UPLO = 'X' must be"),
        (lambda: np.cov(x, False), "rowvar= is given by its name"),
        (lambda: np.cov(x, dtype=int), "dtype = .* must be of real or complex numbers"),
        (lambda: np.tensordot(x, x, 1), "must have equal sizes"),
        (lambda: x - x[:3], r"the shapes \(7, 5\) and \(3, 5\) differ"),
        (lambda: x[x[:3] > 0].sum(), "the shapes|a mask of shape"),
        (lambda: x[x].sum(), "must be of bool"),
        (lambda: x.sum(where=[True]), r"where = \[True\] must be"),
        (lambda: x @ 2, "must be a distributed array, or a NumPy array"),
        (lambda: np.stack([x, x], axis=5), "axis = 5 must be a dimension of the result"),
    ):
        with pytest.raises(both, match=words):
            call()
    assert x.sum() == 35 * 17


if __name__ == "__main__":
    all_rows_are_tried()
    rows()
    special_values()
    linear_algebra()
    arguments()
    refused()
    if RANK == 0:
        print("OK", flush=True)
