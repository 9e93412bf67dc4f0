"""Stacks of matrices beside NumPy: all routines, dtypes and layouts drawn by chance; matrices that are wrong are named.

Arguments: number of random cases, seed.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from linalg_cases import BACKWARDS, RANK, SIZE, WORLD, near, put, random, untouched, whole_of
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning

import pyscalapack_redist as psr
from pyscalapack_redist import linalg
from pyscalapack_redist.linalg import stacks

Array = NDArray[Any]
Shape = tuple[int, ...]
NORMS = (None, "fro", 1, np.inf, 2, -2, "nuc")
LEADING: list[Shape] = [(9,), (1,), (2,), (3, 2), (2, 1, 4), (0,), (2, 0)]


# -- layouts


def grids(ndim: int) -> Iterator[psr.ProcessGrid]:
    """All processes along each dimension in turn, backwards, and over two dimensions."""
    for k in range(ndim):
        sides = [SIZE if dim == k else 1 for dim in range(ndim)]
        yield psr.ProcessGrid(sides, WORLD, ranks=np.reshape(BACKWARDS, sides))
    if SIZE % 2 == 0:
        yield psr.ProcessGrid([2, SIZE // 2, *[1] * (ndim - 2)], WORLD)


def layouts(shape: Shape, rng: np.random.Generator) -> Iterator[psr.Descriptor]:
    ndim = len(shape)
    for grid in grids(ndim):
        sources = [int(rng.integers(side)) for side in grid.shape]
        yield psr.Descriptor(shape, None, grid)
        yield psr.Descriptor(shape, int(rng.integers(1, 4)), grid, source=sources)
        yield psr.Descriptor(shape, "balanced", grid)
        wider = psr.Descriptor([n + 3 for n in shape], 2, grid)
        yield wider[tuple([slice(k % 3, k % 3 + n) for k, n in enumerate(shape)])]
    line = psr.ProcessGrid((SIZE,), WORLD)
    yield psr.Descriptor(shape, 1, line, axes=[0, *[None] * (ndim - 1)])
    yield psr.Descriptor(shape, 1, line, axes=[None] * ndim)  # a copy on each process
    yield psr.Descriptor(shape, 1, psr.ProcessGrid((1,), WORLD, ranks=[SIZE - 1]), axes=[None] * ndim)


class Scene:
    """Operands of one case, and the layouts that are drawn for them."""

    def __init__(self, number: int, seed: int) -> None:
        self.rng = np.random.default_rng((seed, number))
        self.leading = LEADING[number % len(LEADING)]
        self.dtype = "fdFD"[int(self.rng.integers(4))]
        self.n, self.few = int(self.rng.choice([0, 1, 2, 5, 17])), int(self.rng.choice([0, 1, 3, 6]))
        if number % 5 == 0:
            self.n = 6

    def draw(self, whole: Array) -> psr.DistributedArray:
        desc = [*layouts(whole.shape, self.rng)] if whole.ndim > 1 else [slab(whole.shape)]
        return put(whole, desc[int(self.rng.integers(len(desc)))], "FC"[int(self.rng.integers(2))])

    def random(self, *shape: int) -> Array:
        return random(shape, self.dtype, self.rng)

    def square(self) -> Array:
        return self.random(*self.leading, self.n, self.n) + np.eye(self.n, dtype=self.dtype) * 3  # type: ignore[no-any-return]

    def positive(self) -> Array:
        a = self.square()
        return a @ adjoint(a) + np.eye(self.n, dtype=self.dtype)

    def matrix(self) -> Array:
        return self.random(*self.leading, self.n, self.few)


def slab(shape: Shape) -> psr.Descriptor:
    return psr.Descriptor(shape, None, psr.ProcessGrid((SIZE,), WORLD))


def adjoint(a: Array) -> Array:
    return a.swapaxes(-1, -2).conj()


def equal(result: Any, expected: Any, name: str, shape_alone: bool = False) -> None:
    """A distributed array is NumPy's, but for rounding."""
    assert isinstance(result, psr.DistributedArray), f"{name}: {type(result)}"
    whole, expected = whole_of(result), np.asarray(expected)
    if shape_alone:
        assert (whole.shape, whole.dtype) == (expected.shape, expected.dtype), name
    else:
        near(whole, expected, name)


# -- the routines, each beside NumPy


def garbage(a: Array, lower: bool) -> Array:
    """What is not read may be anything."""
    outside = np.triu(np.ones(a.shape[-2:], bool), 1)
    return np.where(outside if lower else outside.T, np.nan, a)  # type: ignore[no-any-return]


def check_solve(s: Scene) -> None:
    a = s.square()
    sides = [s.random(*s.leading, s.n, s.few), s.random(s.n, s.few), s.random(s.n), s.random(1, s.n, s.few)]
    b = sides[int(s.rng.integers(len(sides)))]
    x, y = s.draw(a), s.draw(b)
    with untouched(x, y):
        result = linalg.solve(x, y)
    equal(result, np.linalg.solve(a, b[:, None])[..., 0] if b.ndim == 1 else np.linalg.solve(a, b), "solve")
    if y.shape == result.shape and y.desc.parent is None:
        assert result.desc == y.desc
    if 0 not in a.shape[:-2]:
        one = a[(0,) * (a.ndim - 2)]
        equal(linalg.solve(s.draw(one), s.draw(sides[0])), np.linalg.solve(one, sides[0]), "solve of one matrix")


def check_square(s: Scene) -> None:
    a = s.square()
    x = s.draw(a)
    with untouched(x):
        inverse = linalg.inv(x)
    equal(inverse, np.linalg.inv(a), "inv")
    assert x.desc.parent is not None or inverse.desc == x.desc
    equal(linalg.det(x), np.linalg.det(a), "det")
    sign, logarithm = linalg.slogdet(x)
    equal(sign, np.linalg.slogdet(a)[0], "sign")
    equal(logarithm, np.linalg.slogdet(a)[1], "logabsdet")
    like = s.draw(a).desc
    if like.parent is None:
        assert linalg.inv(x, like=like).desc == like


def check_hermitian(s: Scene) -> None:
    p, lower = s.positive(), bool(s.rng.integers(2))
    x = s.draw(garbage(p, lower))
    factor = linalg.cholesky(x, lower)
    values, vectors = linalg.eigh(x, lower=lower)
    expected = np.linalg.cholesky(p)
    equal(factor, expected if lower else adjoint(expected), "cholesky")
    w = np.linalg.eigvalsh(p)
    for result in (values, linalg.eigh(x, lower=lower, eigvals_only=True), linalg.eigvalsh(x, "UL"[lower])):
        equal(result, w, "eigenvalues")
    v = whole_of(vectors)
    near(v @ (w[..., None] * adjoint(v)), p, "eigh")


def check_qr(s: Scene) -> None:
    a = s.matrix()
    x = s.draw(a)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(x, mode)
        for result, expected in zip((q, r), np.linalg.qr(a, mode), strict=True):
            equal(result, expected, f"qr {mode}")
    equal(linalg.qr(x, "r"), np.linalg.qr(a, "r"), "qr r")


def check_svd(s: Scene) -> None:
    a = s.matrix()
    x = s.draw(a)
    for full in (False, True):
        u, values, vh = linalg.svd(x, full)
        for number, (result, expected) in enumerate(zip((u, values, vh), np.linalg.svd(a, full), strict=True)):
            equal(result, expected, "svd", shape_alone=number != 1)
        few = values.shape[-1]
        u, vh = whole_of(u), whole_of(vh)
        near(u[..., :few] @ (whole_of(values)[..., None] * vh[..., :few, :]), a, "svd")
    for result in (linalg.svdvals(x), linalg.svd(x, compute_uv=False)):
        equal(result, np.linalg.svd(a, compute_uv=False), "svdvals")
    eps = np.finfo(s.dtype).eps * max(a.shape[-2:])
    equal(linalg.pinv(x), np.linalg.pinv(a, eps), "pinv")


def check_matmul(s: Scene) -> None:
    a, m = s.matrix(), int(s.rng.integers(4))
    rights = [s.random(*s.leading, s.few, m), s.random(s.few, m), s.random(s.few), s.random(s.leading[-1], s.few, m)]
    b = rights[int(s.rng.integers(len(rights)))]
    x, y = s.draw(a), s.draw(b)
    equal(x @ y, a @ b, "matmul")
    left = s.random(5, s.n)
    equal(linalg.matmul(s.draw(left), x), left @ a, "matmul of one matrix")


def check_norm(s: Scene) -> None:
    a = s.matrix()
    x = s.draw(a)
    for axis in range(-a.ndim, a.ndim):
        order = (None, 1, 2, np.inf)[int(s.rng.integers(4))]
        if a.shape[axis] or order != np.inf:
            equal(linalg.norm(x, order, axis), np.linalg.norm(a, order, axis), f"norm {order}, {axis}")
    pair = tuple(int(k) - a.ndim * int(s.rng.integers(2)) for k in s.rng.permutation(a.ndim)[:2])
    for order in NORMS:
        if 0 not in [a.shape[k] for k in pair]:
            equal(linalg.norm(x, order, pair), np.linalg.norm(a, order, pair), f"norm {order}, {pair}")


CHECKS: list[Callable[[Scene], None]] = [
    check_solve, check_square, check_hermitian, check_qr, check_svd, check_matmul, check_norm
]  # fmt: skip


# -- errors, on all ranks alike


def refuses(kind: type[BaseException], text: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind) as caught:
        call()
    texts = WORLD.allgather(str(caught.value))
    assert texts == [texts[0]] * SIZE
    assert text in texts[0], texts[0]


def check_errors() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((4, 3, 6, 6)), rng.standard_normal((4, 3, 6, 2))
    for desc in layouts(a.shape, rng):
        singular, whole_b = a.copy(), put(b, next(layouts(b.shape, rng)))
        singular[3, 1, 2] = singular[3, 2, 4] = singular[2, 2, :, 1] = 0
        x = put(singular, desc)
        refuses(np.linalg.LinAlgError, "solve: matrix [2, 2] is singular", lambda x=x, b=whole_b: linalg.solve(x, b))
        refuses(np.linalg.LinAlgError, "inv: matrix [2, 2] is singular", lambda x=x: linalg.inv(x))
        near(whole_of(linalg.det(x)), np.linalg.det(singular), "det")
        positive = a @ adjoint(a)
        positive[1, 2, 3, 3] = -1
        y = put(positive, desc)
        refuses(np.linalg.LinAlgError, "matrix [1, 2] is not positive definite", lambda y=y: linalg.cholesky(y))
        odd = a.copy()
        odd[3, 2, 0, 5] = np.nan
        z = put(odd, desc)
        refuses(ValueError, "a must not contain infs or NaNs", lambda z=z: linalg.inv(z))
        refuses(ValueError, "a must not contain infs or NaNs", lambda z=z: linalg.svd(z))
        refuses(ValueError, "a must not contain infs or NaNs", lambda z=z: linalg.norm(z, 2, (2, 3)))
        result = whole_of(linalg.inv(z, check_finite=False))
        assert np.array_equal(np.isnan(result), np.isnan(np.linalg.inv(odd)))
        refuses(np.linalg.LinAlgError, "matrix [3, 2] has singular", lambda z=z: linalg.svdvals(z, check_finite=False))
    rows = psr.Descriptor(a.shape, None, psr.ProcessGrid((SIZE, 1, 1, 1), WORLD))
    cut = psr.Descriptor(a.shape, 1, psr.ProcessGrid((1, 1, max(2, SIZE), 1)[:4], WORLD)) if SIZE > 1 else None
    x = put(a, rows)
    assert linalg.inv(x, layout=psr.Descriptor(a.shape, 1, rows.grid)).desc == rows
    if cut is not None:
        refuses(psr.DescriptorError, "cuts matrices", lambda: linalg.inv(x, layout=cut))
    refuses(psr.DescriptorError, "must be of shape", lambda: linalg.inv(x, layout=rows[1:]))
    refuses(psr.ArrayError, "its matrices must be square", lambda: linalg.inv(put(b, rows_of(b))))
    refuses(psr.ArrayError, "must broadcast", lambda: linalg.solve(x, put(b[:3], rows_of(b[:3]))))
    few = b[..., :2, :]
    refuses(psr.ArrayError, "matrices of b must have 6 rows", lambda: linalg.matmul(x, put(few, rows_of(few))))
    refuses(psr.ArrayError, "it must have 2 dimensions", lambda: linalg.lu_factor(x))
    refuses(psr.ArrayError, "it must have 2 dimensions", lambda: linalg.eigh(x, subset_by_index=(0, 1)))
    refuses(ValueError, "mode = 'raw'", lambda: linalg.qr(x, "raw"))
    refuses(ValueError, "axis = None", lambda: linalg.norm(x))
    refuses(ValueError, "has a dimension twice", lambda: linalg.norm(x, axis=(1, -3)))
    refuses(TypeError, "unexpected", lambda: linalg.inv(x, uplo="L"))  # type: ignore[call-arg]
    if SIZE > 1:
        refuse_differences(x)


def rows_of(whole: Array) -> psr.Descriptor:
    return psr.Descriptor(whole.shape, None, psr.ProcessGrid((SIZE, *[1] * (whole.ndim - 1)), WORLD))


def refuse_differences(x: psr.DistributedArray) -> None:
    """One rank has something else than the others."""
    desc = psr.Descriptor((6, 6), 2, psr.ProcessGrid((SIZE, 1), WORLD))
    one = psr.DistributedArray(desc, desc.zeros())
    calls: list[Callable[[], Any]] = [
        lambda: linalg.inv(x if RANK else one),
        lambda: linalg.inv(x if RANK else x[:2]),
        lambda: linalg.det(x) if RANK else linalg.inv(x),
        lambda: linalg.qr(x, "r" if RANK else "complete"),
        lambda: linalg.norm(x, axis=1 if RANK else 2),
        lambda: linalg.eigh(x, subset_by_index=None if RANK else (0, 1)),
        lambda: linalg.inv(x, check=bool(RANK)),
    ]
    for call in calls:
        with pytest.raises((psr.RedistributionError, ValueError)):
            call()


# -- results that the check refuses


@contextlib.contextmanager
def spoiled(name: str, which: set[float], number: int) -> Iterator[None]:
    """NumPy returns wrong results for the matrices whose first element is one of these."""
    right = getattr(np.linalg, name)

    def wrong(a: Any, *arguments: Any, **keywords: Any) -> Any:
        results = right(a, *arguments, **keywords)
        several = isinstance(results, tuple)
        arrays = [np.array(each) for each in results] if several else [np.array(results)]
        for k in range(len(a) if a.ndim > 2 else 0):
            if a[k].size and float(a[k].flat[0].real) in which:
                arrays[number][k].flat[-1] += np.abs(arrays[number][k]).max() / 4 + 1e-3
        return type(results)(*arrays) if several else arrays[0]

    with mock.patch.object(np.linalg, name, wrong):
        yield


class Fault(NamedTuple):
    """A routine, the function of NumPy and the result of it that are wrong."""

    routine: Callable[[Any, Any], Any]
    name: str
    number: int = 0


FAULTS = [
    Fault(linalg.solve, "solve"),
    Fault(lambda a, b: linalg.inv(a), "inv"),
    Fault(lambda a, b: linalg.cholesky(a), "cholesky"),
    Fault(lambda a, b: linalg.eigh(a).eigenvectors, "eigh", 1),
    Fault(lambda a, b: linalg.eigh(a).eigenvalues, "eigh", 0),
    Fault(lambda a, b: linalg.eigvalsh(a), "eigvalsh"),
    Fault(lambda a, b: linalg.qr(a).R, "qr", 1),
    Fault(lambda a, b: linalg.qr(a).Q, "qr", 0),
    Fault(lambda a, b: linalg.svd(a).S, "svd", 1),
    Fault(lambda a, b: linalg.svd(a).U, "svd", 0),
    Fault(lambda a, b: linalg.svdvals(a), "svd"),
    Fault(lambda a, b: linalg.pinv(a), "svd", 2),
    Fault(lambda a, b: linalg.norm(a, 2, (-2, -1)), "svd"),
]


def check_faults() -> None:
    """Wrong results are found, and those matrices computed once more; many of them are an error."""
    rng = np.random.default_rng(5)
    for n, dtype in ((6, "d"), (17, "F")):
        a = random((7, n, n), dtype, rng)
        a = a @ adjoint(a) + n * np.eye(n, dtype=dtype)
        b = random((7, n, 5), dtype, rng)
        for fault in FAULTS:
            x, y = put(a, rows_of(a), "C"), put(b, rows_of(b), "C")
            expected = whole_of(fault.routine(x, y))
            with spoiled(fault.name, {float(a[k, 0, 0].real) for k in (1, 5)}, fault.number):
                with pytest.warns(LinAlgWarning, match="of 2 of 7 matrices are refused: of matrix \\[1\\]"):
                    result = fault.routine(x, y)
                assert whole_of(result).shape == expected.shape
                if fault.name not in ("qr", "eigh") or n == 6:  # where vectors have one sign
                    compared = np.abs if fault.name in ("qr", "svd", "eigh") else np.asarray
                    near(compared(whole_of(result)), compared(expected), fault.name)
                with mock.patch.object(stacks, "MOST_REFUSED", 1):
                    refuses(np.linalg.LinAlgError, "of 2 of 7 matrices are refused", lambda f=fault, x=x, y=y: f.routine(x, y))


def check_far_numbers() -> None:
    """Numbers whose squares overflow or vanish are checked, and not refused."""
    rng = np.random.default_rng(6)
    a = rng.standard_normal((5, 4, 4)) + 4 * np.eye(4)
    for power in (-480, -1000, 480, 1000):
        scaled = np.ldexp(a, power)
        x = put(scaled, rows_of(a))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            equal(linalg.svdvals(x), np.linalg.svd(scaled, compute_uv=False), "svdvals")
            q, r = linalg.qr(x)
            near(np.ldexp(whole_of(q @ r), -power), a, "qr")
            near(np.ldexp(whole_of(linalg.inv(x)), power), np.linalg.inv(a), "inv")
            near(whole_of(linalg.solve(x, x)), np.broadcast_to(np.eye(4), a.shape), "solve")
    zeros = put(np.zeros((3, 4, 4)), rows_of(np.zeros((3, 4, 4))))
    equal(linalg.svdvals(zeros), np.zeros((3, 4)), "zeros")
    equal(linalg.det(zeros), np.zeros(3), "zeros")


def check_few() -> None:
    """Matrices that are not small, fewer than ranks, by the routine for one."""
    rng = np.random.default_rng(8)
    a = rng.standard_normal((1, 2, 12, 12))
    a[:, :] += 6 * np.eye(12)
    b, p = rng.standard_normal((2, 12, 3)), a @ adjoint(a)
    with mock.patch.object(stacks, "SURE", 10), mock.patch.object(stacks.StackWork, "run", None):
        for desc in layouts(a.shape, rng):
            x, y = put(a, desc), put(p, desc)
            equal(linalg.inv(x), np.linalg.inv(a), "inv")
            equal(linalg.solve(x, put(b, rows_of(b))), np.linalg.solve(a, b), "solve")
            equal(linalg.det(x), np.linalg.det(a), "det")
            equal(linalg.cholesky(y), np.linalg.cholesky(p), "cholesky")
            values, vectors = linalg.eigh(y)
            equal(values, np.linalg.eigvalsh(p), "eigh")
            v = whole_of(vectors)
            near(v @ (whole_of(values)[..., None] * adjoint(v)), p, "eigh")
            q, r = linalg.qr(x)
            near(whole_of(q) @ whole_of(r), a, "qr")
            equal(linalg.svd(x).S, np.linalg.svd(a)[1], "svd")
            equal(linalg.matmul(x, put(b, rows_of(b))), a @ b, "matmul")
            equal(linalg.norm(x, 1, (3, 2)), np.linalg.norm(a, 1, (3, 2)), "norm")
        singular = a.copy()
        singular[0, 1, 3] = 0
        z = put(singular, next(layouts(a.shape, rng)))
        refuses(np.linalg.LinAlgError, "inv: matrix [0, 1] is singular", lambda: linalg.inv(z))


def check_kinds() -> None:
    """Arrays of tiles, and pairs."""
    rng = np.random.default_rng(9)
    a = rng.standard_normal((6, 4, 4)) + 4 * np.eye(4)
    x = put(a, rows_of(a))
    value, local = linalg.inv((x.desc, x.local))
    equal(psr.DistributedArray(value, local) if isinstance(value, psr.Descriptor) else value, np.linalg.inv(a), "pair")
    desc, local = linalg.det((x.desc, x.local))
    equal(psr.DistributedArray(desc, local), np.linalg.det(a), "det of a pair")


def main(cases: int, seed: int) -> None:
    for number in range(cases):
        check = CHECKS[number % len(CHECKS)]
        try:
            check(Scene(number // len(CHECKS), seed))
        except Exception as caught:
            raise AssertionError(f"{check.__name__}, case {number}, seed {seed}: {caught}") from caught
    check_errors()
    check_faults()
    check_far_numbers()
    if SIZE > 2:
        check_few()
    check_kinds()
    if RANK == 0:
        print("OK")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
