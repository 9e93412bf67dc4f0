"""Least squares: by QR factors for matrices of full rank, by singular values for any."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..scalapack.calls import NotFiniteError
from .attempt import Problem, assemble
from .call import ResultOptions, RoutineCall, routine
from .check import Check, Claim, Sums
from .decompositions import copy_corner, scale_by_power
from .kernels import pxgels, pxgemm
from .matrix_parts import local_elements
from .operands import ShapeAndLayout, check_rows, shaped_like
from .place import Place
from .random_vectors import VECTORS
from .singular_values import Decompose, attempt, check_tolerance, relative_tolerance, require_triplets
from .systems import column_exponents, diagonal_of, moved_sides, scale_back, scale_columns
from .tall import SlabFactors, Slabs, in_slabs, project

METHODS = ("qr", "svd")
NORMAL = 8.0  # as in `systems`
Squares = tuple[NDArray[np.int64], NDArray[np.float64]]


class LstsqResult(NamedTuple):
    """Result of `lstsq`.

    Attributes
    ----------
    x : DistributedArray
        The solution.
    residuals : ndarray
        For each right-hand side the sum of squares of B - A X, on every rank; empty where A is not tall, or not of full
        rank.
    rank : int
        Rank of A.
    singular_values : ndarray or None
        Singular values of A, descending, on every rank; None with the method "qr", which does not compute them.
    """

    x: DistributedArray
    residuals: NDArray[Any]
    rank: int
    singular_values: NDArray[Any] | None


@routine
def lstsq(
    call: RoutineCall,
    a: DistributedArray,
    b: DistributedArray,
    rcond: float | None = None,
    *,
    method: str = "qr",
    **options: Unpack[ResultOptions],
) -> LstsqResult:
    """Least squares, as `numpy.linalg.lstsq`. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        Of m x n elements. If there are many solutions, x is the one of least norm.
    b : DistributedArray
        Right-hand sides: a matrix, or a vector of one dimension.
    rcond : float, optional
        With the method "svd", singular values up to `rcond` times the largest count as zero; default, or if negative:
        the dtype's eps times max(m, n).
    method : {"qr", "svd"}
        "qr": by p?gels, or by QR of each process' rows, for matrices of full rank; others are an error. "svd": by singular
        values, for any rank, as NumPy; it takes several times as long, and memory for U and V^H.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`, `like`: as for all routines of `linalg`; by default the
        solution is in the blocks and on the grid of `b`.

    Returns
    -------
    LstsqResult
        `x`, and what NumPy returns beside it.

    Raises
    ------
    numpy.linalg.LinAlgError
        "qr": the matrix is not of full rank, a diagonal element of its factor being zero but for rounding. "svd": a
        singular value did not converge.
    ValueError
        `method` is not one of these, or `rcond` is not a number, or is used with "qr".
    """

    def check_arguments(a: DistributedArray, b: DistributedArray) -> ShapeAndLayout:
        if method not in METHODS:
            raise ValueError(f"method = {method!r} must be one of {', '.join(METHODS)}")
        if rcond is not None and method == "qr":
            raise ValueError(f'rcond = {rcond!r} is for singular values: pass method="svd" with it')
        check_tolerance("rcond", rcond)
        check_rows(a, b)
        return a.shape, shaped_like(b.desc, (a.shape[1], *b.shape[1:]))

    problem = Problem(call, {"a": a, "b": b}, check_arguments)
    if method == "qr":
        solution, *rest = problem.attempt(_by_qr, "gels", first=in_slabs(problem, _by_qr))
    else:
        solution, *rest = attempt(problem, a.shape, functools.partial(_by_svd, rcond=rcond), " and p?gemm")
    return LstsqResult(problem.to_result(solution), *rest)


def _by_qr(place: Place) -> tuple[Any, ...]:
    """Solve by p?gels, with each right-hand side scaled to 1: p?gels scales all by the largest, and not all of them back."""
    exponent = place.facts.exponent("a")
    (m, n), count = place.operands["a"].shape, place.facts.columns("b")
    check, wide = Check(place, scaled=True), m < n
    exponents = column_exponents(place)
    real = np.zeros(0, place.dtype).real.dtype
    y, z = check.vectors(n), check.vectors(m, 1)
    check.add_operand("a", right=y, left=z if wide else None, exponent=exponent)
    before = check.sums()
    if check.active:
        if not wide:
            z = before["a"].right
            check.add_operand("a", left=z, name="normal", exponent=exponent)
        check.add_operand("b", left=z, columns=True, exponent=exponents)
        before |= check.sums()
    matrix = place.move("a", exponent=exponent)
    sides = place.move("b", rows=max(m, n), columns=count + VECTORS if wide and check.active else count)
    scale_columns(place, sides, -exponents)
    if check.active and wide:
        # The solution of A X = A y of least norm is the part of y outside of the null space
        products, b = before["a"].right.astype(place.dtype), before["b"]
        _fill(place, sides, count, products)
        norms = np.concatenate([b.norms, np.linalg.norm(products, axis=0)])
        before["b"] = Sums(left=np.vstack([b.left, products.conj().T @ z]), norms=norms)

    factors = SlabFactors(place, matrix, sides) if isinstance(place, Slabs) else None

    def work() -> tuple[Squares, NDArray[Any]]:
        if factors is not None:
            return (np.arange(count), factors.squares), np.abs(factors.solve())
        # Without a column p?gels factors nothing.
        pxgels(matrix, sides if sides.shape[1] else place.zeros((max(m, n), 1)))
        return _squares(sides, n), np.abs(diagonal_of(matrix))

    def combined(replies: list[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        squares, diagonals = zip(*replies, strict=True)
        return assemble(sides.shape[1], np.float64)(squares), np.concatenate(diagonals)

    squares, diagonal = place.run(work, combined)
    if not np.isfinite(diagonal).all():
        raise NotFiniteError("the factor of a has infs or NaNs")
    if min(m, n) and not diagonal.min() > np.finfo(real).eps * max(m, n) * diagonal.max():
        raise np.linalg.LinAlgError(
            f"a is not of full rank {min(m, n)}: its factor has {diagonal.min():.2g} on the diagonal, beside "
            f'{diagonal.max():.2g}; method="svd" solves it'
        )
    if check.active and wide:
        _require_least_norm(check, sides, before, diagonal.max() / diagonal.min() if m else 1.0, y)
    solution = place.zeros((n, count))
    copy_corner(sides if factors is None else factors.sides, solution)
    if check.active and not wide:
        check.add("x", solution, left=before["normal"].left, columns=True)

        def make_claims(sums: dict[str, Sums]) -> list[Claim]:
            x, b, norm = sums["x"], before["b"], before["a"].norm
            bound = check.bound(m, NORMAL) * norm * (norm * x.norms + b.norms)
            return [Claim.equal_sides("(A^H (A y))^H x = (A y)^H b", x.product, b.product, bound)]

        check.require(make_claims)
    scale_back(place, solution, exponents[:count] - exponent)
    residuals = scale_by_power(squares[:count], 2 * exponents[:count]) if m > n else np.zeros(0, real)
    return solution, residuals.astype(real), min(m, n), None


def _require_least_norm(
    check: Check, sides: DistributedArray, before: dict[str, Sums], condition: float, y: NDArray[Any]
) -> None:
    """Require A x = b, and that x is orthogonal to vectors of the null space: y minus the solution of A X = A y. Collective."""
    (n, count), a, b = sides.shape, before["a"], before["b"]
    last = np.eye(count, VECTORS, VECTORS - count)
    check.add("x", sides, right=last, left=a.left, columns=True)
    x = check.sums()["x"]
    check.add("null", sides, left=y - x.right)
    bound = check.bound(n, NORMAL)
    system = Claim.equal_sides("(A^H y)^H x = y^H b", x.left, b.product, bound * (a.norm * x.norms + b.norms))
    scale, text = bound * condition * n**0.5 * x.norms, "x^H (y - pinv(A) (A y)) = 0"
    check.require(lambda sums: [system, Claim.equal_sides(text, sums["null"].product, 0, scale)])


def _by_svd(place: Place, decompose: Decompose, rcond: float | None) -> tuple[Any, ...]:
    """Solve by X = V inv(S) U^H B with the singular values that are not zero; the residual is B - U U^H B."""
    exponent = place.facts.exponent("a")
    exponents = column_exponents(place)
    (m, n), count = place.operands["a"].shape, place.facts.columns("b")
    few = min(m, n)
    parts, solution = place.zeros((few, count)), place.zeros((n, count))
    real = np.zeros(0, place.dtype).real.dtype
    check = Check(place, scaled=True)
    y = check.vectors(n)
    check.add_operand("a", right=y, exponent=exponent)
    matrix = place.move("a", exponent=exponent)
    left, values, right = decompose(place, matrix, False)
    used = values > values.max(initial=0) * relative_tolerance(rcond, place.dtype, (m, n))
    inverse = np.divide(1, values, out=np.zeros_like(values), where=used)
    first = require_triplets(check, left, values, right, y)
    if check.active:
        check.add("u", left, right=inverse[:, None] * first["vh"].right)
        check.add_operand("b", left=check.sums()["u"].right, columns=True, exponent=exponents)
    sides = moved_sides(place, exponents)

    def work() -> Squares:
        pxgemm(left, sides, parts, trans_a="C")
        pxgemm(left, parts, sides, alpha=-1, beta=1)
        check.add("parts", parts, columns=True)
        rows, _, local = local_elements(parts)
        local *= inverse[rows, None]
        pxgemm(right, parts, solution, trans_a="C")
        return _squares(sides, 0)

    def work_in_slabs(place: Slabs) -> Squares:
        whole = project(place, left, sides)
        with place.collect_errors():
            if place.is_root:
                parts.local[...] = whole
                np.matmul(right.local.conj().T, inverse[:, None] * whole, out=solution.local)
        check.add("parts", parts, columns=True)
        return _squares(sides, 0)

    mine = work_in_slabs(place) if isinstance(place, Slabs) else None
    squares = place.run(work if mine is None else lambda: mine, assemble(count, np.float64))
    check.add("x", solution, left=y, columns=True)

    def make_claims(sums: dict[str, Sums]) -> list[Claim]:
        b, x, whole = sums["b"], sums["x"], sums["parts"].norms
        bound = check.bound(max(m, n), NORMAL)
        scale = bound * (inverse.max(initial=0) * b.norms + x.norms) * float(n) ** 0.5
        rest = np.abs(b.norms**2 - whole**2 - squares)
        return [
            Claim.equal_sides("y^H x = (U inv(S) (Vh y))^H b", x.product, b.product, scale),
            Claim("norm(b)² = norm(U^H b)² + residual", rest, bound * b.norms**2),
        ]

    check.require(make_claims)
    rank = int(np.count_nonzero(used))
    scale_back(place, solution, exponents - exponent)
    residuals = scale_by_power(squares, 2 * exponents) if m > n == rank else np.zeros(0, real)
    return solution, residuals.astype(real), rank, scale_by_power(values, exponent)


def _squares(sides: DistributedArray, first: int) -> Squares:
    """This rank's columns, and their sums of squares from a row on."""
    rows, columns, local = local_elements(sides)
    return columns, (np.abs(local[rows >= first]).astype(np.float64) ** 2).sum(axis=0)


def _fill(place: Place, sides: DistributedArray, first: int, columns: Any) -> None:
    """Write columns, which all ranks have, into `sides` from column `first` on."""
    with place.collect_errors():
        rows, across, local = local_elements(sides)
        inside, over = rows < columns.shape[0], across >= first
        local[np.ix_(inside, over)] = columns[np.ix_(rows[inside], across[over] - first)]
