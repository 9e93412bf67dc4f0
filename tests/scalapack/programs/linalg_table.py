"""Every routine of linalg, from a table of shapes and options, beside NumPy and SciPy. Arguments: first round, rounds, stride.

In each round every row meets all its shapes and options, each routine every dtype; layouts are drawn anew. With a stride
only each such case of a round is run, others on other numbers of ranks. A row is added to `TABLE`; a new routine needs a
function beside it that makes operands, calls `case.call` and checks the equations of the result.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.linalg
from linalg_cases import (
    LAST,
    RANK,
    ROWS,
    SIZE,
    SQUARE,
    WORLD,
    copied,
    layouts,
    near,
    put,
    random,
    slabs,
    untouched,
    whole_of,
)
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist import blacs, linalg
from pyscalapack_redist.linalg import operands, place
from pyscalapack_redist.linalg.solver_rules import FUNCTIONS, OF_ONE_PROCESS

DTYPES = "fdFD"
FEW_BLOCKS = ("cond", "eigh", "eigvalsh", "lstsq", "matrix_rank", "norm", "pinv", "polar", "svd", "svdvals", *FUNCTIONS)
LEAST = 4  # decompositions of matrices up to this size choose their layout, since they need several blocks


@dataclass
class Case:
    """One call of a routine: shape, options and random choices, equal on every rank."""

    name: str
    shape: tuple[int, ...]
    options: dict[str, Any]
    dtype: str
    seed: list[int]
    layouts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def random(self, *shape: int) -> NDArray[Any]:
        return random(shape, self.dtype, self.rng)

    def dtype_of(self, number: float) -> Any:
        return np.dtype(self.dtype).type(number)

    def regular(self, n: int) -> NDArray[Any]:
        matrix = self.random(n, n) + 3 * np.eye(n, dtype=self.dtype)
        return matrix if n == 0 or np.linalg.cond(matrix) < 100 else self.regular(n)

    def hermitian(self, n: int) -> NDArray[Any]:
        half = self.random(n, n)
        return ((half + half.conj().T) / 2).astype(self.dtype)

    def positive(self, n: int) -> NDArray[Any]:
        half = self.random(n, n)
        return (half @ half.conj().T + (n + 1) * np.eye(n)).astype(self.dtype)

    def triangle(self, whole: NDArray[Any]) -> NDArray[Any]:
        """The triangle that is read; nonsense in the other one."""
        lower = self.options.get("lower", self.name in ("cholesky", "eigh"))
        unread = np.triu(np.full_like(whole, 99), 1)
        return np.tril(whole) + unread if lower else np.triu(whole) + unread.T

    def structured(self, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """A matrix as the option `assume_a` has it, and what is passed for it."""
        name, general = self.options.get("assume_a", "gen"), self.regular(n)
        if name.startswith("gen"):
            return general, general
        if name.startswith(("upper", "lower")):
            keep, general = (np.tril if name.startswith("lower") else np.triu), general + 3 * np.eye(n, dtype=self.dtype)
            return keep(general), np.where(keep(np.ones((n, n))) == 0, 99, general).astype(self.dtype)
        turned = general.T if name.startswith("sym") else general.conj().T
        matrix = self.positive(n) if name.startswith("pos") else (general + turned).astype(self.dtype)
        if not name.startswith("pos") and n and np.linalg.cond(matrix) > 1000:
            return self.structured(n)
        return matrix, self.triangle(matrix)

    def put(self, whole: NDArray[Any]) -> psr.DistributedArray:
        possible = layouts(whole.shape)
        desc = possible[self.rng.integers(len(possible))]
        self.layouts.append(f"{desc!r}")
        return put(whole, desc, "CF"[self.rng.integers(2)])

    def call(self, *operands: Any, work: tuple[int, ...], like: tuple[int, ...] | None = None, **options: Any) -> Any:
        """The result, from operands that stay as they are; `work` and `like` are the shapes of the layouts of those names."""
        keywords: dict[str, Any] = {**self.options, **options}
        if self.rng.integers(3) == 0:
            keywords["check"] = False
        few = self.name in FEW_BLOCKS and max(work) <= LEAST
        possible = [None, psr.Descriptor(work, 2, SQUARE), psr.Descriptor(work, 4, ROWS)]
        if self.name in OF_ONE_PROCESS or (self.name in FUNCTIONS and "assume_a" not in self.options):
            few, possible[1:] = False, [psr.Descriptor(work, 2, LAST)] * 2
        keywords["layout"] = None if few else possible[self.rng.integers(3)]
        if like is not None:
            wanted = [None, slabs(like), copied(like), slabs(like) if len(like) == 1 else psr.Descriptor(like, 2, LAST)]
            keywords["like"] = wanted[self.rng.integers(4)]
        arrays = [operand[0] if isinstance(operand, tuple) else operand for operand in operands]
        with untouched(*arrays):
            result = getattr(linalg, self.name)(*operands, **keywords)
        if like is not None:
            self.check_layout(result, arrays, keywords["like"])
        return result

    def check_layout(self, result: Any, operands: list[psr.DistributedArray], asked: psr.Descriptor | None) -> None:
        """The result's array is in the layout that was asked for; otherwise in that of an operand, as far as it fits."""
        array = (
            result
            if isinstance(result, psr.DistributedArray)
            else next(part for part in result if hasattr(part, "desc"))
        )
        usual = operands[0 if self.name in ("eigh", "matmul") and array.ndim == 2 else -1].desc
        if asked is not None:
            assert array.desc == asked or ("subset_by_value" in self.options and array.desc.grid == asked.grid)
        elif array.shape == usual.shape and usual.parent is None and self.name != "matmul":
            assert array.desc == usual
        else:
            assert array.desc.grid == usual.grid
            assert self.name != "matmul" or array.desc.axes != (1, 0), "ScaLAPACK does not take it"


# -- functions that make operands, call, and check the equations of the result


def solve(case: Case) -> None:
    (matrix, stored), sides = case.structured(case.shape[0]), case.random(*case.shape)
    x = case.call(case.put(stored), case.put(sides), work=matrix.shape, like=sides.shape)
    near(matrix @ whole_of(x), sides)


def lu_factor(case: Case) -> None:
    matrix = case.regular(case.shape[0])
    factors, piv = case.call(case.put(matrix), work=matrix.shape, like=matrix.shape)
    expected = scipy.linalg.lu_factor(matrix) if matrix.size else (matrix, np.zeros(0, int))
    near(whole_of(factors), expected[0])
    assert np.array_equal(piv, expected[1])


def lu_solve(case: Case) -> None:
    matrix, sides = case.regular(case.shape[0]), case.random(*case.shape)
    x = case.call(linalg.lu_factor(case.put(matrix)), case.put(sides), work=matrix.shape, like=sides.shape)
    turned = (matrix, matrix.T, matrix.conj().T)[case.options.get("trans", 0)]
    near(turned @ whole_of(x), sides)


def cholesky(case: Case) -> None:
    matrix = case.positive(case.shape[0])
    factor = whole_of(case.call(case.put(case.triangle(matrix)), work=matrix.shape, like=matrix.shape))
    lower = case.options.get("lower", True)
    near(factor, np.linalg.cholesky(matrix) if lower else np.linalg.cholesky(matrix).conj().T)


def cho_solve(case: Case) -> None:
    """The factor of `cho_factor`, one triangle of which means nothing."""
    matrix, sides = case.positive(case.shape[0]), case.random(*case.shape)
    factor = linalg.cho_factor(case.put(case.triangle(matrix)), **case.options)
    assert factor[1] == case.options.get("lower", False)
    whole = whole_of(factor[0])
    near((np.tril if factor[1] else np.triu)(whole), whole_of(linalg.cholesky(case.put(matrix), factor[1])))
    case.options = {}
    near(matrix @ whole_of(case.call(factor, case.put(sides), work=matrix.shape, like=sides.shape)), sides)


def solve_triangular(case: Case) -> None:
    n, trans = case.shape[0], {"N": 0, "T": 1, "C": 2}.get(case.options.get("trans", 0), case.options.get("trans", 0))
    keep = np.tril if case.options.get("lower") else np.triu
    matrix, sides = keep(case.regular(n) + 3 * np.eye(n, dtype=case.dtype)), case.random(*case.shape)
    unread = np.where(keep(np.ones((n, n))) == 0, 99, 0)
    x = case.call(case.put((matrix + unread).astype(case.dtype)), case.put(sides), work=(n, n), like=sides.shape)
    near((matrix, matrix.T, matrix.conj().T)[trans] @ whole_of(x), sides)
    if n > 1:
        matrix[n // 2, n // 2] = matrix[n - 1, n - 1] = 0
        with pytest.raises(np.linalg.LinAlgError, match=rf"singular: element {n // 2 + 1} \(counted from 1\)"):
            linalg.solve_triangular(case.put(matrix), case.put(sides), **case.options)


def inv(case: Case) -> None:
    matrix, stored = case.structured(case.shape[0])
    result = whole_of(case.call(case.put(stored), work=matrix.shape, like=matrix.shape))
    near(matrix @ result, np.eye(*matrix.shape, dtype=case.dtype))


def det(case: Case) -> None:
    matrix, stored = case.structured(case.shape[0])
    near(case.call(case.put(stored), work=matrix.shape), np.linalg.det(matrix))


def slogdet(case: Case) -> None:
    matrix, stored = case.structured(case.shape[0])
    for result, expected in zip(case.call(case.put(stored), work=matrix.shape), np.linalg.slogdet(matrix), strict=True):
        near(result, expected)


def matmul(case: Case) -> None:
    """Of m x k, k x n; a vector without n; and a matrix with its own transpose."""
    m, k, *n = case.shape
    left, right = case.random(m, k), case.random(k, *n)
    a, b = case.put(left), case.put(right)
    near(whole_of(case.call(a, b, work=(m, *n, 1)[:2], like=(m, *n))), left @ right)
    near(whole_of(a.H @ a), left.conj().T @ left)
    near(whole_of((2 * a - a / 4) @ b), ((2 * left - left / 4) @ right))


def norm(case: Case) -> None:
    matrix = case.random(*case.shape)
    if case.options.get("ord") == -2 and not matrix.size:
        with pytest.raises(
            ValueError, match=r"ord = -2 is the least singular value, and a, of shape \(0, 3\), has none"
        ):
            case.call(case.put(matrix), work=(*case.shape, 1)[:2])
        return
    result = case.call(case.put(matrix), work=(*case.shape, 1)[:2])
    if "axis" in case.options or matrix.size:
        near(
            result, np.linalg.norm(matrix, **case.options) if matrix.size else np.zeros(result.shape, matrix.real.dtype)
        )
    else:
        assert result == 0
        assert result.dtype == matrix.real.dtype


def cond(case: Case) -> None:
    p = case.options["p"]
    matrix = case.regular(case.shape[0]) if p in ("fro", 1, np.inf) else case.random(*case.shape)
    near(case.call(case.put(matrix), work=matrix.shape), matrix.real.dtype.type(np.linalg.cond(matrix, p)))


def of_rank(case: Case, rank: int | None) -> NDArray[Any]:
    m, n = case.shape
    if rank is None or rank >= min(m, n):
        return case.random(m, n)
    left, right = (np.linalg.qr(case.random(size, max(1, rank)))[0] for size in (m, n))
    return (left[:, :rank] @ right[:, :rank].conj().T).astype(case.dtype)


def matrix_rank(case: Case) -> None:
    options = dict(case.options)
    rank = options.pop("rank", None)
    matrix, case.options = of_rank(case, rank), options
    expected = min(matrix.shape) if rank is None else min(rank, *matrix.shape)
    if "tol" in options or "rtol" in options:  # above all singular values, and below none
        expected = 0
    assert case.call(case.put(matrix), work=matrix.shape) == expected


def pinv(case: Case) -> None:
    options = dict(case.options)
    matrix = of_rank(case, options.pop("rank", None))
    case.options = options
    result = whole_of(case.call(case.put(matrix), work=matrix.shape, like=matrix.shape[::-1]))
    near(result, np.linalg.pinv(matrix, options.get("rcond", 1e-4 if case.dtype in "fF" else 1e-12)))


def polar(case: Case) -> None:
    (m, n), matrix = case.shape, spectrum(case)
    u, p = map(whole_of, case.call(case.put(matrix), work=(m, n)))
    is_right = case.options.get("side", "right") == "right"
    near(u @ p if is_right else p @ u, matrix)
    near(p, p.conj().T)
    near(u.conj().T @ u if m >= n else u @ u.conj().T, np.eye(min(m, n), dtype=case.dtype))
    if min(m, n):
        near(p, scipy.linalg.polar(matrix, side="right" if is_right else "left")[1].astype(case.dtype))


def eigvalsh(case: Case) -> None:
    matrix, triangle = case.hermitian(case.shape[0]), case.options.get("UPLO", "L")
    read = {**case.options, "lower": triangle.upper() == "L"}
    a = case.put(Case("eigh", case.shape, read, case.dtype, case.seed).triangle(matrix))
    near(case.call(a, work=matrix.shape), np.linalg.eigvalsh(matrix))


def clusters(case: Case, n: int) -> NDArray[Any]:
    """Groups of four eigenvalues that are nearly equal."""
    basis = np.linalg.qr(case.random(n, n))[0]
    values = np.arange(n) // 4 + 1e-9 * np.arange(n)
    matrix = (basis * values) @ basis.conj().T
    return ((matrix + matrix.conj().T) / 2).astype(case.dtype)


def wilkinson(case: Case, n: int) -> NDArray[Any]:
    """Pairs of eigenvalues that are equal but for rounding."""
    off_diagonal = np.ones(n - 1)
    matrix = np.diag(np.abs(np.arange(n) - (n - 1) / 2)) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)
    return matrix.astype(case.dtype)


SPECIAL: dict[str, Callable[[Case, int], NDArray[Any]]] = {
    "clusters": clusters,
    "wilkinson": wilkinson,
    "identity": lambda case, n: np.eye(n, dtype=case.dtype),
    "zeros": lambda case, n: np.zeros((n, n), case.dtype),
}


def eigh(case: Case) -> None:
    """A standard or, with a type, a generalized problem."""
    n = case.shape[0]
    kind, subset, interval = (case.options.get(name) for name in ("type", "subset_by_index", "subset_by_value"))
    special, factored = case.options.get("kind"), case.options.get("factored")
    case.options = {k: v for k, v in case.options.items() if k not in ("kind", "factored")}
    matrix = SPECIAL[special](case, n) if special else case.hermitian(n)
    positive = case.positive(n) if kind else np.eye(n, dtype=case.dtype)
    operands: list[Any] = [case.put(case.triangle(whole)) for whole in (matrix, positive)[: 2 if kind else 1]]
    if factored is not None:  # the factor of either triangle, beside what it means nothing
        operands[1] = linalg.cho_factor(case.put(positive), lower=factored)
    if subset is not None:
        case.options = {**case.options, "subset_by_index": (subset[0], n - 1 + min(0, subset[1]))}
        subset = case.options["subset_by_index"]
    expected = scipy.linalg.eigvalsh(matrix, positive, type=kind or 1, subset_by_index=subset) if n else np.zeros(0)
    if interval is not None:
        middle = np.array([-np.inf, *(expected[:-1] + expected[1:]) / 2, np.inf])
        ends = [middle[min(k, n)] if np.isfinite(k) else k for k in interval]
        ends[1] += ends[0] == ends[1] and 1e-6
        case.options = {**case.options, "subset_by_value": tuple(ends)}
        expected = expected[(expected > ends[0]) & (expected <= ends[1])]
    near(case.call(*operands, work=(n, n), eigvals_only=True), expected.astype(matrix.real.dtype))
    values, vectors = case.call(*operands, work=(n, n), like=(n, expected.size if interval is None else n))
    assert vectors.shape == (n, expected.size)
    near(values, expected.astype(matrix.real.dtype))
    x = whole_of(vectors)
    left = {2: matrix @ positive @ x, 3: positive @ matrix @ x}.get(kind, matrix @ x)
    near(left, ((positive @ x if kind in (None, 1) else x) * values).astype(case.dtype))
    unit = np.linalg.inv(positive).astype(case.dtype) if kind == 3 else positive
    near(x.conj().T @ unit @ x, np.eye(values.size, dtype=case.dtype))


def eig(case: Case) -> None:
    matrix = case.hermitian(case.shape[0]) if case.options else case.random(case.shape[0], case.shape[0])
    case.options = {}
    expected = np.linalg.eig(matrix)
    values, vectors = case.call(case.put(matrix), work=matrix.shape, like=matrix.shape)
    x = whole_of(vectors)
    assert values.dtype == x.dtype == expected.eigenvectors.dtype
    near(np.sort(values), np.sort(expected.eigenvalues))
    near(matrix @ x, x * values)
    near(np.linalg.norm(x, axis=0), np.ones(len(x), x.real.dtype))


def eigvals(case: Case) -> None:
    matrix = case.random(case.shape[0], case.shape[0])
    result = case.call(case.put(matrix), work=matrix.shape)
    assert result.dtype == np.linalg.eigvals(matrix).dtype
    near(np.sort(result), np.sort(np.linalg.eigvals(matrix)))


def schur(case: Case) -> None:
    matrix = case.random(case.shape[0], case.shape[0])
    form, basis, *first = case.call(case.put(matrix), work=matrix.shape, like=matrix.shape)
    t, z, *expected = scipy.linalg.schur(matrix, **case.options) if matrix.size else (matrix, matrix, 0)
    assert whole_of(form).dtype == t.dtype or not matrix.size
    assert not np.tril(whole_of(form), -1 if t.dtype.kind == "c" else -2).any()
    near(whole_of(basis) @ whole_of(form) @ whole_of(basis).conj().T, matrix.astype(whole_of(form).dtype))
    near(whole_of(basis).conj().T @ whole_of(basis), np.eye(len(z), dtype=whole_of(basis).dtype))
    assert not first or first == expected


def function_of(
    case: Case, general: Callable[[NDArray[Any]], NDArray[Any]], function: Callable[..., Any], **options: Any
) -> None:
    """A function of a matrix, beside SciPy's; with assume_a beside that of the eigenvalues."""
    n = case.shape[0]
    if "assume_a" not in case.options:
        matrix = (case.random(n, n) / (n + 1) ** 0.5 + 3 * np.eye(n)).astype(case.dtype)
        with warnings.catch_warnings(action="ignore"):  # of float32
            result = whole_of(case.call(case.put(matrix), work=(n, n), like=(n, n), **options))
            expected = general(matrix) if n else matrix
            assert result.dtype == expected.dtype  # which may be of double precision, with the errors of single precision
            digits = np.result_type(case.dtype, "F") if expected.dtype.kind == "c" else case.dtype
            near(result.astype(digits), expected.astype(digits))
        return
    for matrix in (case.positive(n) / case.dtype_of(n + 1), case.hermitian(n)):
        values, vectors = np.linalg.eigh(matrix)
        a = case.put(Case("eigh", case.shape, case.options, case.dtype, case.seed).triangle(matrix))
        numbers = np.asarray(function(values)) if n else values
        dtype = np.result_type(case.dtype, "F") if numbers.dtype.kind == "c" else np.dtype(case.dtype)
        result = case.call(a, work=(n, n), like=(n, n), **options)
        near(whole_of(result), ((vectors * numbers) @ vectors.conj().T).astype(dtype))


def expm(case: Case) -> None:
    function_of(case, scipy.linalg.expm, np.exp)


def sqrtm(case: Case) -> None:
    function_of(case, scipy.linalg.sqrtm, np.emath.sqrt)


def logm(case: Case) -> None:
    function_of(case, scipy.linalg.logm, np.emath.log)


def fractional_matrix_power(case: Case) -> None:
    t = case.options["t"]
    general = functools.partial(scipy.linalg.fractional_matrix_power, t=t)
    function_of(case, general, lambda w: w**t if t == int(t) else np.emath.power(w, t))


def funm(case: Case) -> None:
    for func in (np.sin, lambda w: np.exp(1j * w)):
        general = functools.partial(scipy.linalg.funm, func=func, disp=False)
        function_of(case, lambda a: general(a)[0], func, func=func)  # noqa: B023


def qr(case: Case) -> None:
    m, n = case.shape
    matrix, mode = case.random(m, n), case.options.get("mode", "reduced")
    result = case.call(case.put(matrix), work=(m, n))
    if case.options.get("pivoting"):
        *factors, order = result
        assert sorted(order) == list(range(n))
        matrix, result = matrix[:, order], factors[0] if mode == "r" else linalg.QRResult(*factors)
        descends = np.abs(whole_of(result if mode == "r" else result.R).diagonal())
        assert np.all(descends[1:] <= descends[:-1] * (1 + 1e-4) + 1e-6)
    few = m if mode in ("complete", "full") else min(m, n)
    r = whole_of(result if mode == "r" else result.R)
    assert r.shape == (few, n)
    assert np.array_equal(r, np.triu(r))
    near(r.conj().T @ r, matrix.conj().T @ matrix)
    if mode != "r":
        q = whole_of(result.Q)
        assert q.shape == (m, few)
        near(q @ r, matrix)
        near(q.conj().T @ q, np.eye(few, dtype=case.dtype))


def spectrum(case: Case) -> NDArray[Any]:
    """A matrix with singular values of the kind that the case has as an option, which is taken from it."""
    kind = case.options.get("values", "random")
    case.options = {key: option for key, option in case.options.items() if key != "values"}
    (m, n), few, rng = case.shape, min(case.shape), case.rng
    if kind == "random":
        return case.random(m, n)
    if kind in ("identity", "zeros"):
        return np.eye(m, n, dtype=case.dtype) * (kind == "identity")
    values = {
        "graded": np.logspace(0, -5 if case.dtype in "fF" else -14, few),
        "clustered": np.where(np.arange(few) < few // 2, 1, 1e-3) * (1 + 1e-7 * rng.standard_normal(few)),
        "deficient": np.where(np.arange(few) < few // 2, 1.0, 0),
    }[kind]
    left, right = (np.linalg.qr(case.random(size, few))[0] for size in (m, n))
    return ((left * values) @ right.conj().T).astype(case.dtype)


def svd(case: Case) -> None:
    m, n = case.shape
    matrix, few = spectrum(case), min(m, n)
    a, expected = case.put(matrix), np.linalg.svd(matrix, compute_uv=False)
    if not case.options.get("compute_uv", True):
        near(case.call(a, work=(m, n)), expected)
        return
    few = case.options.get("k", few)
    u, s, vh = case.call(a, work=(m, n))
    if "k" in case.options:
        residual = matrix @ whole_of(vh).conj().T - whole_of(u) * s
        most = (1e-4 if case.dtype in "fF" else case.options.get("tol", 1e-9)) * expected[0]
        assert np.abs(s - expected[:few]).max() <= most
        assert np.linalg.norm(residual, axis=0).max() <= most
        near(whole_of(vh) @ whole_of(vh).conj().T, np.eye(few, dtype=case.dtype))
        near(whole_of(u).conj().T @ whole_of(u), np.eye(few, dtype=case.dtype))
        return
    assert u.desc.copies == vh.desc.copies == a.desc.copies, "they are laid out as the operand"
    near(s, expected)
    left, right = whole_of(u), whole_of(vh)
    assert (left.shape, right.shape) == (
        ((m, m), (n, n)) if case.options.get("full_matrices", True) else ((m, few), (few, n))
    )
    near((left[:, :few] * s).astype(case.dtype) @ right[:few], matrix)
    near(left.conj().T @ left, np.eye(left.shape[1], dtype=case.dtype))
    near(right @ right.conj().T, np.eye(right.shape[0], dtype=case.dtype))


def svdvals(case: Case) -> None:
    matrix = spectrum(case)
    near(case.call(case.put(matrix), work=matrix.shape), np.linalg.svd(matrix, compute_uv=False))


def lstsq(case: Case) -> None:
    """Of m x n and k sides, a vector without k; the option `rank` is of the matrix."""
    m, n, *k = case.shape
    options = dict(case.options)
    rank = min(m, n, options.pop("rank", m))
    case.options = options
    matrix = case.random(m, n) if rank == min(m, n) else case.random(m, rank) @ case.random(rank, n)
    sides = case.random(m, *k)
    rcond = options.get("rcond")  # NumPy takes float64's eps for float32 too
    cut = np.finfo(matrix.dtype).eps * max(m, n) if rcond is None or rcond < 0 else rcond
    expected = np.linalg.lstsq(matrix, sides, cut)
    x, residuals, numeric_rank, values = case.call(case.put(matrix), case.put(sides), work=(m, n), like=(n, *k))
    near(whole_of(x), expected[0])
    near(residuals, expected[1])
    assert numeric_rank == expected[2]
    assert values is None if options.get("method", "qr") == "qr" else np.allclose(values, expected[3], 1e-3, 1e-5)


BOTH = [{"lower": False}, {"lower": True}]
SYSTEMS = [(19, 4), (1, 1), (2, 3), (0, 2), (3, 0), (17,), (14, 14)]
SQUARES = [(19,), (1,), (2,), (0,), (14,)]
ASSUMED = [{}, {"assume_a": "her"}, {"assume_a": "hermitian", "lower": False}]
SPECTRA = [(16,), (0,), (1,), (2,), (3,)]
MATRICES = [(13, 6), (5, 11), (1, 1), (0, 3), (3, 0), (2, 2), (1, 9), (9, 1), (14, 14)]
# Around the ratio of sides from which on a QR factorisation comes first, and beyond; 25 is LAPACK's least order that it divides
SLENDER = [(16, 10), (15, 10), (10, 16), (60, 26), (26, 60), (90, 2), (2, 90)]
GENERALIZED = [{"type": 1}, {"type": 2, "lower": False}, {"type": 3}, {"type": 3, "lower": False}]
AXES = [{"ord": order, "axis": axis} for order in (None, 1, 2, np.inf) for axis in (0, 1)] + [{"ord": 2, "axis": -1}]
# The last index is counted back from the end.
SUBSETS = [{"subset_by_index": part} for part in ((1, -1), (0, -8), (8, 0))]
ENDS = [{"subset_by_index": part} for part in ((0, -15), (15, 0), (7, -8), (0, 0), (7, -6), (3, -3))]
# Between indices: the eigenvalues above the first one, up to the last one; without both ends none
VALUES = [
    {"subset_by_value": part} for part in ((3, 6), (-np.inf, 1), (14, np.inf), (5, 5), (-np.inf, np.inf), (0, 12))
]

STRUCTURES = [
    *({"assume_a": name, "lower": True} for name in ("sym", "hermitian", "pos")),
    *({"assume_a": name} for name in ("symmetric", "her", "positive definite", "upper triangular", "lower triangular")),
]
TABLE: list[tuple[Callable[[Case], None], Sequence[tuple[int, ...]], Sequence[dict[str, Any]]]] = [
    (solve, SYSTEMS, [{}, *STRUCTURES]),
    (lu_factor, SQUARES, [{}]),
    (lu_solve, SYSTEMS, [{"trans": 0}, {"trans": 1}, {"trans": 2}]),
    (cholesky, SQUARES, [{}, *BOTH]),
    (cho_solve, SYSTEMS, [{}, *BOTH]),
    (solve_triangular, SYSTEMS, [{}, {"trans": 1}, {"trans": 2, "lower": True}, {"trans": "C"}, {"lower": True}]),
    (inv, SQUARES, [{}, *STRUCTURES]),
    (det, SQUARES, [{}, *STRUCTURES]),
    (slogdet, SQUARES, [{}, *STRUCTURES]),
    (matmul, [(11, 7, 9), (1, 1, 1), (0, 3, 2), (3, 0, 2), (2, 3, 0), (9, 14)], [{}]),
    (norm, [(11, 7), (1, 1), (0, 3), (5, 12)], [{"ord": order} for order in (None, "fro", 1, np.inf, 2, -2, "nuc")]),
    (norm, [(14,), (1,), (0,), (9,)], [{"ord": order} for order in (None, 1, 2, np.inf)]),
    (norm, [(11, 7), (1, 5), (0, 3), (3, 0), (5, 12)], AXES),
    (norm, [(14,), (0,)], [{"ord": 2, "axis": 0}, {"ord": np.inf, "axis": -1}]),
    (cond, [(7, 12), (1, 9), (9, 4), (6, 6)], [{"p": p} for p in (None, 2, -2)]),
    (cond, [(11, 11), (1, 1)], [{"p": p} for p in ("fro", 1, np.inf)]),
    (matrix_rank, MATRICES, [{}, {"rank": 2}, {"tol": 1e3}, {"rtol": 1.5}]),
    (pinv, MATRICES, [{}, {"rank": 2}, {"rank": 1, "rcond": 1e-3}]),
    (polar, MATRICES, [{}, {"side": "left"}]),
    (polar, [(70, 17), (33, 40)], [{"values": values} for values in ("graded", "deficient", "zeros")]),
    (eigvalsh, SPECTRA, [{}, {"UPLO": "U"}, {"UPLO": "l"}]),
    (eigh, SPECTRA, BOTH),
    (eigh, [(13,), (9,)], SUBSETS),
    (eigh, [(16,)], ENDS),
    (eigh, [(16,), (17,)], VALUES),
    (eigh, [(16,), (17,)], [{"kind": kind, "subset_by_index": (5, -9)} for kind in SPECIAL]),
    (eigh, [(19,)], [{"kind": kind, "subset_by_index": (0, -17)} for kind in SPECIAL]),
    (eigh, [(1,), (2,), (3,)], [{"subset_by_value": (-np.inf, 1)}, {"subset_by_index": (0, 0)}]),
    (
        eigh,
        [(16,)],
        [{**kind, **part} for kind in GENERALIZED for part in (ENDS[0], ENDS[2], ENDS[4], VALUES[0], VALUES[3])],
    ),
    (eigh, [(13,), (3,)], GENERALIZED),
    (
        eigh,
        [(13,)],
        [{**kind, "factored": lower, **part} for kind in GENERALIZED for lower in (True, False) for part in ({}, SUBSETS[0])],
    ),
    (eigh, [(12,)], [{**kind, **part} for kind, part in zip(GENERALIZED, SUBSETS, strict=False)]),
    (eig, SQUARES, [{}, {"hermitian": True}]),
    (eigvals, SQUARES, [{}]),
    (schur, SQUARES, [{}, {"output": "complex"}, {"sort": "rhp"}]),
    *((function, SQUARES, ASSUMED) for function in (expm, sqrtm, logm, funm)),
    (fractional_matrix_power, SQUARES, [{"t": t, **its} for t in (0.5, -0.3, 2) for its in ASSUMED]),
    (qr, MATRICES, [{"mode": "reduced"}, {"mode": "full"}, {"mode": "r"}]),
    (qr, MATRICES, [{"mode": mode, "pivoting": True} for mode in ("reduced", "full", "r")]),
    (svd, MATRICES, [{}, {"full_matrices": False}, {"compute_uv": False}]),
    (svd, MATRICES, [{"driver": "gesvd"}, {"driver": "gesvd", "full_matrices": False}]),
    (
        svd,
        [(1, 2)] * 4,
        [{"full_matrices": False, "driver": "gesvd"}],
    ),  # over a row of processes it is not right for it
    (svd, SLENDER, [{}, {"full_matrices": False, "values": "clustered"}]),
    (svd, [(40, 33), (33, 40), (24, 24), (60, 5)], [{"k": 2, "values": "graded"}, {"k": 1, "tol": 1e-5, "values": "graded"}]),
    (
        svd,
        [(40, 33), (33, 40)],
        [{"values": values} for values in ("graded", "clustered", "deficient", "identity", "zeros")],
    ),
    (svdvals, MATRICES, [{}, {"driver": "gesvd"}]),
    (
        svdvals,
        [(70, 31), (31, 33)],
        [{"values": values} for values in ("random", "graded", "clustered", "deficient", "zeros")],
    ),
    (lstsq, [(14, 5, 3), (5, 12, 2), (1, 1, 2), (2, 2, 2), (11, 4), (30, 1, 2), (1, 7, 2), (4, 4, 0)], [{}]),
    (lstsq, [(3, 0, 2), (5, 0), (0, 3, 2), (0, 0, 2)], [{}, {"method": "svd"}]),
    (
        lstsq,
        [(11, 6, 3), (5, 9, 3), (1, 5, 3), (8, 3)],
        [{"method": "svd"}, {"method": "svd", "rank": 3, "rcond": 1e-3}],
    ),
    (qr, [(70, 17), (24, 2), (9, 1)], [{"mode": "economic"}, {"mode": "r"}]),
    (lstsq, [(70, 17, 3), (24, 2, 5), (9, 1)], [{}, {"method": "svd"}]),
    (pinv, [(70, 17), (24, 2), (9, 1)], [{}, {"rank": 1, "rcond": 1e-3}]),
    (lstsq, [(9, 4, 2), (4, 9, 2)], [{"method": "svd", "rank": 2}, {"method": "svd", "rank": 0, "rcond": -1}]),
]


def run(first: int, rounds: int, stride: int) -> None:
    met: set[tuple[str, str]] = set()
    for number in range(first, first + rounds):
        count = 0
        for check, shapes, options in TABLE:
            for row, shape in enumerate(shapes):
                for column, its in enumerate(options):
                    dtype, count = DTYPES[(row + column + number + SIZE) % 4], count + 1
                    if (count + SIZE // 2) % stride:
                        continue
                    case = Case(check.__name__, shape, dict(its), dtype, [SIZE, number, count])
                    met.add((case.name, dtype))
                    try:
                        check(case)
                    except BaseException as error:
                        error.add_note(f"{case}: {sys.argv[0]} {number} 1 1")
                        raise
    names = {check.__name__ for check, _, _ in TABLE}
    assert stride > 1 or met == {(name, dtype) for name in names for dtype in DTYPES}, (
        "a routine has not met each dtype"
    )
    untested = (
        {name for name in linalg.__all__ if name[0].islower()} - names - {"check_layout", "layout_for", "cho_factor"}
    )
    assert not untested, f"not in the table: {untested}"


def overwritten() -> None:
    """With overwrite_a and overwrite_b the operand's memory is used where it fits; elsewhere the result is the same."""
    n = 17
    matrix, sides = random((n, n), "d") + 3 * np.eye(n), random((n, 2), "d")
    matrix = matrix @ matrix.T
    fits, fits_b = psr.Descriptor((n, n), 4, SQUARE), psr.Descriptor((n, 2), 4, SQUARE)
    for name in (
        "solve",
        "lu_factor",
        "cholesky",
        "cho_factor",
        "inv",
        "slogdet",
        "det",
        "eigh",
        "eigvalsh",
        "qr",
        "svd",
        "svdvals",
        "lstsq",
        "pinv",
        "polar",
    ):
        arrays = [put(matrix, fits)] + ([put(sides, fits_b)] if name in ("solve", "lstsq") else [])
        getattr(linalg, name)(*arrays, overwrite_a=True, layout=fits)
        assert not np.array_equal(whole_of(arrays[0]), matrix), f"{name} has copied its operand"
    a, b = put(matrix, fits), put(matrix, fits)
    linalg.eigh(a, b, overwrite_b=True, layout=fits)
    assert not np.array_equal(whole_of(b), matrix)
    assert np.array_equal(whole_of(a), matrix)
    for call in (
        lambda b: linalg.solve(a, b, overwrite_b=True, layout=fits),
        lambda b: linalg.lu_solve(linalg.lu_factor(a), b, overwrite_b=True, layout=fits),
        lambda b: linalg.cho_solve(linalg.cho_factor(a), b, overwrite_b=True, layout=fits),
        lambda b: linalg.solve_triangular(
            linalg.cholesky(a), linalg.solve_triangular(linalg.cholesky(a), b, overwrite_b=True, layout=fits, lower=True),
            "C", True, overwrite_b=True, layout=fits,
        ),
    ):
        b = put(sides, fits_b)
        x = call(b)
        assert x.local is None or x.local.size == 0 or np.shares_memory(x.local, b.local)
        near(whole_of(x), np.linalg.solve(matrix, sides))
    near(whole_of(linalg.solve(a, a, overwrite_a=True, overwrite_b=True)), np.eye(n), "one array two times")
    a = put(matrix, fits, "C")
    near(whole_of(linalg.inv(a, overwrite_a=True)), np.linalg.inv(matrix), "in an order that ScaLAPACK cannot take")


def consumed() -> None:
    """Operands that make room as they move keep what is no other's, and what may not be written."""
    n = 512
    matrix = np.random.default_rng(n).standard_normal((n, n)) + 3 * np.sqrt(n) * np.eye(n)
    spd, work = matrix @ matrix.T, psr.Descriptor((n, n), 64, SQUARE)
    with mock.patch.object(operands, "CONSUMED", 0):
        a = put(matrix, slabs((n, n)))
        sides = a[:, 1:3]
        near(whole_of(linalg.solve(a, sides, overwrite_a=True, layout=work)), np.eye(n)[:, 1:3], "a side within the matrix")
        near(whole_of(a), matrix, "a matrix that is a side, too")
        a = put(spd, slabs((n, n)))
        a.local.flags.writeable = RANK != SIZE - 1
        near(whole_of(linalg.cholesky(a, overwrite_a=True, layout=work)), np.linalg.cholesky(spd), "read-only")
        near(whole_of(a), spd, "what is read-only on one rank")


def spread_results() -> None:
    """Of a result that is smaller than the operand every process has a part, and norms move nothing."""
    n, few = 40, 6
    matrix = random((n, n), "d")
    for grid in (ROWS, psr.ProcessGrid((1, SIZE), WORLD)):
        a = put(matrix + matrix.T, psr.Descriptor((n, n), None, grid))
        results = [linalg.eigh(a, subset_by_index=(0, few - 1)).eigenvectors, linalg.qr(a[:, :few]).R]
        results += [linalg.matmul(a, put(matrix[:, :few], slabs((n, few)))), linalg.pinv(a[:few])]
        for result in results:
            shares = WORLD.allgather(0 if result.local is None else result.local.size)
            assert SIZE == 1 or max(shares) * SIZE < 2 * sum(shares), (result, shares)
        cyclic = put(matrix + matrix.T, psr.Descriptor((n, n), 2, grid))
        assert linalg.eigh(cyclic, subset_by_index=(0, n // 2)).eigenvectors.desc.block == (2, 2)
        with psr.timings() as phases:
            for order, axis in ((None, None), (1, None), (np.inf, None), (2, 0), (1, 1)):
                linalg.norm(a, order, axis=axis)
        assert {phase.name for phase in phases} == {"agree"}


def not_regular() -> None:
    """Singular, indefinite and rank-deficient matrices: the same error on all ranks."""
    for n, at in ((1, 0), (12, 0), (12, 7), (12, 11)):
        zero, negative = np.eye(n), np.eye(n)
        zero[at, at], negative[at, at] = 0, -1
        for grid in (SQUARE, LAST, ROWS):
            a, bad = (put(matrix, psr.Descriptor((n, n), 2, grid)) for matrix in (zero, negative))
            for call in (linalg.inv, linalg.lu_factor, lambda a: linalg.solve(a, a)):
                with pytest.raises(np.linalg.LinAlgError, match=f"singular: pivot {at + 1} "):
                    call(a)
            assert linalg.det(a) == 0
            assert linalg.cond(a) == linalg.cond(a, 1) == np.inf
            assert linalg.matrix_rank(a) == n - 1
            assert linalg.slogdet(a) == (0, -np.inf)
            for lower in (False, True):
                with pytest.raises(np.linalg.LinAlgError, match=f"its leading minor of order {at + 1} is not"):
                    linalg.cholesky(bad, lower)
            if n > 1:
                with pytest.raises(np.linalg.LinAlgError, match=rf"b: .*leading minor of order {at + 1} is not"):
                    linalg.eigh(put(zero, psr.Descriptor((n, n), 2, SQUARE)), bad)
    for m, n in ((6, 4), (4, 6), (5, 5)):
        matrix = random((m, n), "d")
        matrix[:, 1] = matrix[:, 0] if m >= n else matrix[:, 1]
        matrix[1] = matrix[0] if m < n else matrix[1]
        full = np.roll(np.eye(m, n), 1, axis=0)  # zeros on its diagonal tell nothing of its rank
        for columns in (3, 0):
            sides = put(random((m, columns), "d"), slabs((m, columns)))
            assert linalg.lstsq(put(full, slabs((m, n))), sides).x.shape == (n, columns)
            for deficient in (matrix, 0 * matrix):
                with pytest.raises(np.linalg.LinAlgError, match=r'a is not of full rank .* method="svd" solves it'):
                    linalg.lstsq(put(deficient, slabs((m, n))), sides)


def no_numbers() -> None:
    """NaNs and infs: the same error on all ranks, or NumPy's result if they are accepted."""
    desc = psr.Descriptor((8, 8), 2, SQUARE)
    for row, column, value in ((0, 0, np.nan), (6, 5, np.nan), (7, 7, np.nan), (7, 2, np.inf)):
        matrix = np.eye(8)
        matrix[row, column] = matrix[column, row] = value
        a, regular = put(matrix, desc), put(np.eye(8), desc)
        for order in (None, 1, np.inf):
            expected = np.linalg.norm(matrix, order, axis=1)
            assert np.array_equal(linalg.norm(a, order, axis=1), expected, equal_nan=True)
        for order in (None, "fro", 1, np.inf):
            assert np.isnan(linalg.norm(a, order)) if np.isnan(value) else linalg.norm(a, order) == value, (row, order)
        single = (
            linalg.inv,
            linalg.lu_factor,
            linalg.cholesky,
            linalg.cho_factor,
            linalg.qr,
            linalg.svd,
            linalg.eigh,
            linalg.svdvals,
        )
        single = (*single, linalg.eig, linalg.eigvals, linalg.schur, linalg.expm, linalg.sqrtm, linalg.logm)
        single = (*single, linalg.eigvalsh, linalg.cond, linalg.matrix_rank, linalg.pinv, linalg.polar)
        double = linalg.solve, linalg.lstsq, linalg.eigh
        calls: list[Callable[[], Any]] = [
            *(functools.partial(call, a) for call in single),
            *(functools.partial(call, *pair) for call in double for pair in ((a, regular), (regular, a))),
            functools.partial(linalg.norm, a, 2),
            functools.partial(linalg.lu_solve, (regular, np.arange(8)), a),
            functools.partial(linalg.cho_solve, (a, True), regular),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=r"[ablc]u? must not contain infs or NaNs"):
                call()
        assert not np.isfinite(whole_of(linalg.solve(regular, a, check_finite=False))).all()
        options: dict[str, Any] = {"check_finite": False}
        iterating: list[Callable[[], Any]] = [
            *(functools.partial(linalg.eigh, a, subset_by_index=some, **options) for some in (None, (0, 0), (0, 6))),
            functools.partial(linalg.eigh, a, eigvals_only=True, **options),
            functools.partial(linalg.eigh, a, regular, **options),
            *(functools.partial(call, a, **options) for call in (linalg.eigvalsh, linalg.matrix_rank, linalg.cond)),
            *(functools.partial(linalg.svd, a, driver=driver, **options) for driver in ("gesdd", "gesvd")),
            *(functools.partial(linalg.svdvals, a, driver=driver, **options) for driver in ("gesdd", "gesvd")),
            *(functools.partial(call, a, **options) for call in (linalg.pinv, linalg.polar)),
            *(functools.partial(linalg.lstsq, a, regular, method=method, **options) for method in ("qr", "svd")),
            *(functools.partial(call, a, **options) for call in (linalg.eig, linalg.schur, linalg.expm, linalg.sqrtm)),
            *(functools.partial(call, a, assume_a="her", **options) for call in (linalg.expm, linalg.logm)),
        ]
        for call in iterating:
            with pytest.raises(np.linalg.LinAlgError, match=r"has infs or NaNs|did not converge"):
                call()
    for rows in ([[np.nan, 1], [2, 3]], [[np.inf, np.inf], [2, 3]], [[-np.inf, np.inf], [np.inf, 1]]):
        for block in (1, 64):
            a = put(np.array(rows), psr.Descriptor((2, 2), block, SQUARE))
            assert np.isnan(linalg.det(a)), rows
            assert np.isnan(linalg.slogdet(a)).all(), rows
            try:
                assert np.isnan(whole_of(linalg.inv(a, check_finite=False))).any()
            except np.linalg.LinAlgError as caught:
                assert "was not found: the matrix has infs, NaNs" in str(caught)  # noqa: PT017 (no error is fine too)
    assert linalg.slogdet(put(np.diag([0, np.nan]), psr.Descriptor((2, 2), 1, SQUARE))) == (0, -np.inf)


def extremes() -> None:
    """Numbers whose squares and sums overflow or vanish, and pivots that cannot be divided by."""
    for dtype, sizes in (("d", (4e307, 1e-300)), ("F", (5e37, 1e-37)), ("D", (3e307, 1e-300)), ("f", (7e37, 1e-37))):
        for size in sizes:
            small = (random((40, 6), dtype) / 4).astype(dtype)
            matrix, sides = small * np.dtype(dtype).type(size), random((40, 2), dtype)
            a, b = put(matrix, psr.Descriptor((40, 6), 2, SQUARE)), put(sides, slabs((40, 2)))
            unit = small.real.dtype.type(size)
            values = np.linalg.svd(small, compute_uv=False)
            near(linalg.svd(a, compute_uv=False) / unit, values)
            near(linalg.norm(a, 2) / unit, values[0])
            near(linalg.norm(a) / unit, np.linalg.norm(small).astype(unit.dtype))
            for axis in (0, 1):
                near(linalg.norm(a, axis=axis) / unit, np.linalg.norm(small, axis=axis))
            near(linalg.cond(a), values[0] / values[-1])
            assert linalg.matrix_rank(a) == linalg.matrix_rank(a, values[-1] / 2 * size) == 6
            near(whole_of(linalg.pinv(a)) * unit, np.linalg.pinv(small))
            near(whole_of(linalg.polar(a).P) / unit, scipy.linalg.polar(small)[1])
            u, s, vh = linalg.svd(a, False)
            near(s / unit, values)
            near((whole_of(u) * values) @ whole_of(vh), small)
            for method in ("qr", "svd"):
                x = linalg.lstsq(a, b, method=method)
                near(whole_of(x.x) * unit, np.linalg.lstsq(small, sides, None)[0])
                near(x.residuals, np.linalg.lstsq(small, sides, None)[1])
            hermitian = small[:6] + small[:6].conj().T
            h = put(hermitian * unit, psr.Descriptor((6, 6), 2, SQUARE))
            near(linalg.eigvalsh(h) / unit, np.linalg.eigvalsh(hermitian))
            near(linalg.eigh(h).eigenvalues / unit, np.linalg.eigvalsh(hermitian))
            right = put(sides[:6], slabs((6, 2)))
            if dtype in "fd" or blacs.load().vendor != "MKL":  # whose complex divisions overflow: that is refused
                near(whole_of(linalg.solve(h, right)) * unit, np.linalg.solve(hermitian, sides[:6]))
    for dtype, size in (("f", 1e30), ("d", 1e200), ("F", 1e30), ("D", 1e200)):
        desc, order = psr.Descriptor((12, 12), 2, SQUARE), np.diag(np.arange(1.0, 13))
        a, b = (put((order * factor).astype(dtype), desc) for factor in (size, 1 / size))
        for options in ({}, {"subset_by_index": (0, 1)}, {"subset_by_index": (0, 10)}, {"eigvals_only": True}):
            with pytest.raises(np.linalg.LinAlgError, match=r"standard problem has infs .* divide operands by powers"):
                linalg.eigh(a, b, **options)
        near(linalg.eigh(a, a).eigenvalues, np.ones(12, a.dtype).real)
    uneven = random((7, 3), "d") * [1e300, 1, 1e-300]
    lengths = linalg.norm(put(uneven, slabs((7, 3))), axis=0)
    near(lengths / [1e300, 1, 1e-300], np.linalg.norm(uneven / [1e300, 1, 1e-300], axis=0))
    sides = random((7, 2), "d") * [1, 1e300]
    tall = random((7, 3), "d")
    residuals = linalg.lstsq(put(tall, slabs((7, 3))), put(sides, slabs((7, 2)))).residuals
    near(residuals[:1], np.linalg.lstsq(tall, sides[:, :1], None)[1])
    tiny = np.finfo("d").tiny
    matrix = np.diag([1, 1, tiny / 8, 1, 1]) + np.eye(5, k=-1) * tiny / 16
    a = put(matrix, psr.Descriptor((5, 5), 2, SQUARE))
    results_overflow = (linalg.inv, lambda a, layout: linalg.solve(a, a, layout=layout))
    divided = linalg.lu_factor, linalg.slogdet
    is_tried_on_one = SIZE < 4  # where LAPACK divides by it
    for call in (*results_overflow, *(() if is_tried_on_one else divided)) if SIZE > 1 else ():
        with pytest.raises(np.linalg.LinAlgError, match=r"pivot 3 .* is so small that ScaLAPACK cannot divide by it"):
            call(a, layout=a)
    for routine in divided if is_tried_on_one else ():
        with warnings.catch_warnings(record=True, action="always") as caught:
            result = routine(a, layout=a)
        assert ["divide by it" in str(warning.message) for warning in caught] == [True] * (SIZE > 1)
        if routine is linalg.slogdet:
            assert np.allclose(result, np.linalg.slogdet(matrix))
        else:
            assert np.allclose(np.diagonal(whole_of(result[0])), np.diagonal(matrix))


def determinants() -> None:
    """Of pivots whose absolute values overflow, or are subnormal."""
    for dtype, turn in (("f", -1), ("d", -1), ("F", 1 + 1j), ("D", 1 + 1j)):
        numbers = np.finfo(dtype)
        most, least = numbers.max, numbers.tiny
        for sizes in ([most, 1], [most] * 3, [least / 8, 1], [most, least], [most / 2, -1, 3]):
            diagonal = np.array(sizes, dtype) * np.dtype(dtype).type(turn)
            logarithm = sum(np.log(np.abs(np.array(sizes, "d"))) + np.log(abs(turn)))
            sign = np.prod([turn / abs(turn) * np.sign(size) for size in sizes])
            desc = psr.Descriptor((len(sizes),) * 2, 1, SQUARE)
            for layout in (None, desc):
                with warnings.catch_warnings(action="ignore"):  # LAPACK on one process divides by subnormal numbers
                    result = linalg.slogdet(put(np.diag(diagonal), desc), layout=layout)
                assert abs(result.sign - sign) < 8 * numbers.eps, (dtype, sizes, result)
                assert abs(result.logabsdet - logarithm) < 8 * numbers.eps * abs(logarithm), (dtype, sizes, result)
        large = np.kron(np.eye(2), [[0.75, 0.75], [-0.75, 0.75]]) * most
        overflowing = linalg.slogdet(put(large.astype(dtype), psr.Descriptor((4, 4), 2, SQUARE)))
        assert overflowing.sign == 1
        assert np.isclose(overflowing.logabsdet, 4 * np.log(most * 0.75) + 2 * np.log(2))


def out_of_range() -> None:
    """Numbers on the way to a result overflow, or elements of it do: these are infs, with a warning, and the others right."""
    for dtype in DTYPES:
        number = np.dtype(dtype).type
        most = 0.75 * np.finfo(dtype).max
        turn = np.kron(np.eye(3), [[1, 1], [-1, 1]]).astype(dtype)
        lower = np.eye(6, dtype=dtype)
        lower[2, :2] = -1, 1
        desc = psr.Descriptor((6, 6), 2, SQUARE)
        sides = np.stack([np.tile([most, most], 3), np.arange(6)], 1).astype(dtype)
        b, a, large = put(sides, slabs((6, 2))), put(turn, desc), put(turn * number(most), desc)
        expected = np.stack([np.tile([0, most], 3), np.linalg.solve(turn, sides[:, 1])], 1).astype(dtype)
        by_rows = np.stack([[most] * 6, sides[:, 1] + [0, 0, -1, 0, 0, 0]], 1).astype(dtype)
        for x, right in (
            (linalg.solve(a, b), expected),
            (linalg.lu_solve(linalg.lu_factor(a), b), expected),
            (linalg.solve_triangular(put(lower, desc), b, lower=True), by_rows),
            (linalg.solve_triangular(put(lower.T.copy(), desc), b, "T"), by_rows),
        ):
            near(whole_of(x)[:, 0] / number(most), right[:, 0] / number(most))
            near(whole_of(x)[:, 1], right[:, 1])
        near(whole_of(linalg.inv(large)) * number(most), np.linalg.inv(turn))
        near(whole_of(linalg.solve(large, b))[:, 0], np.tile([0, 1], 3).astype(dtype))
        small = np.finfo(dtype).tiny * 4
        uneven, root = (np.diag([1, value, 1, 1, 1, 1]).astype(dtype) for value in (small, small**0.5))
        u, right = put(uneven, desc), sides[:, :1] / number(4)
        infinite = np.where(np.arange(6) == 1, np.inf, right[:, 0])
        side = put(right, slabs((6, 1)))
        for call in (
            lambda: linalg.solve(u, side),  # noqa: B023
            lambda: linalg.lu_solve((u, np.arange(6)), side),  # noqa: B023
            lambda: linalg.solve_triangular(u, side),  # noqa: B023
            lambda: linalg.cho_solve((put(root, desc), True), side),  # noqa: B023
            lambda: linalg.lstsq(u, side, 0.0, method="svd").x,  # noqa: B023
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                x = whole_of(call())[:, 0]
            assert np.isinf(x[1].real), (dtype, x)
            near(np.delete(x, 1) / number(most), np.delete(infinite, 1).astype(dtype) / number(most))
            texts = [str(warning.message) for warning in caught]
            assert [("1 elements of the result are beyond" in text) for text in texts] == [True], texts
        for call in (linalg.qr, linalg.lu_factor):
            with pytest.raises(np.linalg.LinAlgError, match=r"infs or NaNs, as where numbers overflow .* divide operands"):
                call(large)


def on_one_process() -> None:
    """Routines of one process go where there is room, and say what they take; functions differ from rank to rank."""
    a = put(random((9, 9), "d"), psr.Descriptor((9, 9), 2, SQUARE))
    with mock.patch.object(place, "NEGLIGIBLE", 0):
        with mock.patch.object(place, "free_memory", return_value=10**6 if RANK == SIZE - 1 else 1000):
            assert linalg.eigvals(a).shape == (9,)
        with mock.patch.object(place, "free_memory", return_value=1000 + RANK):
            for call, remedy in ((linalg.eig, "take eigh"), (linalg.expm, 'take assume_a="her"')):
                with pytest.raises(psr.ArrayError, match=rf"rank {SIZE - 1} has .* GiB free: start fewer .*{remedy}"):
                    call(a)
    if SIZE > 1:
        with pytest.raises(psr.DescriptorError, match=r"is on .* processes, and eig works on one"):
            linalg.eig(a, layout=psr.Descriptor((9, 9), 2, ROWS))
        with pytest.raises(psr.RedistributionError, match="func returns other values on rank 1 than on rank 0"):
            linalg.funm(a, lambda w: w + RANK, assume_a="her")
        with pytest.raises((ZeroDivisionError, psr.CollectiveError), match="division by zero"):
            linalg.funm(a, lambda w: w if RANK else 1 / 0, assume_a="her")
    with pytest.raises(ValueError, match=r"func returns .* of shape \(2,\).* for eigenvalues of shape \(9,\)"):
        linalg.funm(a, lambda w: w[:2], assume_a="her")
    with pytest.raises(np.linalg.LinAlgError, match="the function of the eigenvalue 0 is -inf"):
        linalg.logm(put(np.zeros((9, 9)), slabs((9, 9))), assume_a="her")
    with pytest.warns(scipy.linalg.LinAlgWarning, match="singular"):
        linalg.sqrtm(put(np.eye(9, k=1), slabs((9, 9))))


def graded() -> None:
    """Tiny singular values of a graded matrix: p?gesvd and dqds have each right, ?bdsdc relative to the largest."""
    n = 60
    matrix = np.logspace(0, -30, n)[:, None] * random((n, n), "d")
    # By Jacobi's method, which has each right; without the default options, by which tiny ones become 0
    sizes, _, _, scales, *_ = scipy.linalg.lapack.dgejsv(matrix, joba=2, jobu=3, jobv=3)
    expected = sizes * scales[0] / scales[1]
    a = put(matrix, psr.Descriptor((n, n), 8, SQUARE))
    for values in (linalg.svd(a, driver="gesvd").S, linalg.svdvals(a, driver="gesvd"), linalg.svdvals(a)):
        assert np.abs(values / expected - 1).max() < 1e-11
    near(linalg.svd(a).S, expected)


def main() -> None:
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ResourceWarning)
    run(*map(int, sys.argv[1:]))
    overwritten()
    consumed()
    spread_results()
    not_regular()
    no_numbers()
    extremes()
    determinants()
    out_of_range()
    on_one_process()
    graded()
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
