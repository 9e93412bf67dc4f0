"""Singular value decomposition, singular values alone, and the routines that others compute by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from .attempt import Problem, Work
from .bidiagonal import (
    Triplets,
    by_divide_and_conquer,
    by_rotations,
    fits_one_rank,
    values_by_dqds,
    values_by_rotations,
)
from .call import MatrixOptions, RoutineCall, routine
from .check import Check, Claim, Sums
from .decompositions import SQUARES, order_claim, orthogonal_claim, product_claim, scale_by_power
from .largest_values import STEPS, default_tolerance, largest_triplets
from .operands import ShapeAndLayout, check_any_matrix, shaped_like
from .place import Place
from .tall import decompose, in_slabs, values_alone

R = TypeVar("R")
Decompose = Callable[[Place, DistributedArray, bool], Triplets]
DRIVERS = ("gesdd", "gesvd")


class SVDResult(NamedTuple):
    """Result of `svd`.

    Attributes
    ----------
    U : DistributedArray
        Left singular vectors, its columns.
    S : ndarray
        Singular values, descending, on every rank.
    Vh : DistributedArray
        Right singular vectors, its rows.
    """

    U: DistributedArray
    S: NDArray[np.floating[Any]]
    Vh: DistributedArray


class SVDOptions(MatrixOptions, total=False):
    """Keyword arguments of `svd`, for its overloads."""

    k: int | None
    tol: float | None
    driver: Literal["gesdd", "gesvd"]


def _argument_check(driver: str, k: object = None, tol: object = None) -> Callable[[DistributedArray], ShapeAndLayout]:
    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        if driver not in DRIVERS:
            raise ValueError(f"driver = {driver!r} must be one of {', '.join(DRIVERS)}")
        few = min(a.shape)
        if k is not None and (not isinstance(k, int | np.integer) or isinstance(k, bool) or not 0 <= k <= few):
            raise ValueError(f"k = {k!r} must be None or an integer from 0 to {few}, the number of singular values")
        check_tolerance("tol", tol)
        if tol is not None and (k is None or float(tol) < 0):  # type: ignore[arg-type]
            raise ValueError(f"tol = {tol!r} must not be negative, and is for the largest k values: pass k= with it")
        return check_any_matrix(a)

    return check_arguments


@overload
def svd(
    a: DistributedArray,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    **options: Unpack[SVDOptions],
) -> SVDResult: ...


@overload
def svd(
    a: DistributedArray, full_matrices: bool = ..., *, compute_uv: Literal[False], **options: Unpack[SVDOptions]
) -> NDArray[np.floating[Any]]: ...


@routine
def svd(
    call: RoutineCall,
    a: DistributedArray,
    full_matrices: bool = True,
    compute_uv: bool = True,
    *,
    k: int | None = None,
    tol: float | None = None,
    driver: Literal["gesdd", "gesvd"] = "gesdd",
    **options: Unpack[MatrixOptions],
) -> Any:
    """Singular value decomposition, as `numpy.linalg.svd`. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        A matrix of m x n elements, in any layout, or a stack of them, which NumPy decomposes with any `driver`.
    full_matrices : bool
        Whether U is of m x m and Vh of n x n; otherwise of m x min(m, n) and min(m, n) x n.
    compute_uv : bool
        Whether vectors are computed.
    k : int, optional
        Only the k largest singular values are found, with their vectors: U is of m x k, and Vh of k x n, whatever
        `full_matrices` is. By products with a block of random vectors, in up to 12 steps, which takes little of the time of all
        values where they decay; otherwise all are computed, with a warning.
    tol : float, optional
        With `k`: the norm of A v - s u, for each of them, relative to the largest value; default: eps**(2 / 3).
    driver : {"gesdd", "gesvd"}
        As SciPy's `lapack_driver`. "gesdd": divide and conquer, on one rank for the bidiagonal matrix; from order 26,000 on,
        and where 5 min(m, n)² real numbers are more than 64 MiB and a quarter of the least free memory, it is "gesvd". "gesvd":
        p?gesvd, which is slower; tiny singular values of graded matrices have a smaller relative error.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`: as for all routines of `linalg`. Values
        without vectors are checked by the sum of their squares, their order and their being finite, which is weaker.

    Returns
    -------
    SVDResult, or ndarray without `compute_uv`
        `U`, `S` on every rank, and `Vh`; U and Vh in the blocks and on the grid of `a`.

    Raises
    ------
    numpy.linalg.LinAlgError
        A singular value did not converge.
    ValueError
        `driver` is not one of these, or `k` or `tol` not such a number.
    """
    problem = Problem(call, {"a": a}, _argument_check(driver, k, tol))
    exponent = problem.operands.exponent("a")
    if k is not None:
        found = _largest(problem, a, int(k), tol)
        if found is None:
            every = svd(a, False, True, driver=driver, **options)
            found = every.U[:, :k], every.S[:k], every.Vh[:k]
        return _result(problem, a, *found) if compute_uv else found[1]
    if not compute_uv:
        return scale_by_power(singular_values(problem, driver), exponent)

    def work(place: Place, decompose: Decompose) -> Triplets:
        verify = Check(place, scaled=True)
        y = verify.vectors(a.shape[1])
        verify.add_operand("a", right=y, exponent=exponent)
        matrix = place.move("a", exponent=exponent)
        u, values, vh = decompose(place, matrix, full_matrices)
        require_triplets(verify, u, values, vh, y)
        return u, values, vh

    u, values, vh = attempt(problem, a.shape, work, driver=driver, complete=full_matrices)
    return _result(problem, a, u, scale_by_power(values, exponent), vh)


def _result(
    problem: Problem, a: DistributedArray, u: DistributedArray, values: NDArray[Any], vh: DistributedArray
) -> SVDResult:
    """The result in the blocks and on the grid of the operand. Collective."""
    u, vh = (problem.to_result(each, shaped_like(a.desc, each.shape)) for each in (u, vh))
    return SVDResult(u, values, vh)


def _largest(problem: Problem, a: DistributedArray, k: int, tol: float | None) -> Triplets | None:
    """The k largest values and their vectors, by steps; None if all are to be computed. Collective."""
    if not k or problem.operands.exponent("a") or 2 * k > min(a.shape) or not problem.operands.are_finite:
        return None
    tolerance = default_tolerance(problem.dtype) if tol is None else float(tol)
    found = largest_triplets(problem.call, a, problem.dtype, k, tolerance)
    if found is None:
        problem.call.warn(
            f"svd: the {k} largest singular values have not been found in {STEPS} steps, to the tolerance {tolerance:.3g}, and "
            "all are computed: they do not decay, or tol is too small"
        )
    return found


@routine
def svdvals(
    call: RoutineCall,
    a: DistributedArray,
    *,
    driver: Literal["gesdd", "gesvd"] = "gesdd",
    **options: Unpack[MatrixOptions],
) -> NDArray[np.floating[Any]]:
    """Singular values, as `numpy.linalg.svdvals` and `scipy.linalg.svdvals`. Collective, as `solve`.

    Computed and checked as by `svd` without `compute_uv`.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout, or a stack of them.
    driver : {"gesdd", "gesvd"}
        "gesdd": p?gebrd, and LAPACK's dqds on one rank; "gesvd": p?gesvd.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`: as for all routines of `linalg`.

    Returns
    -------
    ndarray
        Descending, on every rank.

    Raises
    ------
    numpy.linalg.LinAlgError
        A singular value did not converge.
    ValueError
        `driver` is not one of these.
    """
    problem = Problem(call, {"a": a}, _argument_check(driver))
    return scale_by_power(singular_values(problem, driver), problem.operands.exponent("a"))


def attempt(
    problem: Problem,
    shape: tuple[int, ...],
    work: Callable[[Place, Decompose], R],
    more_routines: str = "",
    driver: str = "gesdd",
    complete: bool = False,
) -> R:
    """As `Problem.attempt`, with the way to decompose a matrix of this shape as an argument of the work. Collective.

    `complete`: U and V^H are square.
    """

    def by(decompose: Decompose) -> Work[R]:
        return lambda place: work(place, decompose)

    if driver == "gesvd" or not fits_one_rank(problem, min(shape)):
        return problem.attempt(by(by_rotations), f"gesvd{more_routines}")
    names = f"gebrd and p?{'un' if problem.dtype.kind == 'c' else 'or'}mbr{more_routines}"
    first = None if complete else in_slabs(problem, by(decompose), by_values=True)
    return problem.attempt(by(by_divide_and_conquer), names, first=first, other_work=by(by_rotations))


def singular_values(problem: Problem, driver: str = "gesdd") -> NDArray[Any]:
    """Singular values of the operand a divided by 2**exponent. Collective."""

    def by(solve: Callable[[Place, DistributedArray], NDArray[Any]]) -> Work[NDArray[Any]]:
        return lambda place: _checked_values(place, solve)

    if driver == "gesvd":
        return problem.attempt(by(values_by_rotations), "gesvd")
    first = in_slabs(problem, by(values_alone), by_values=True)
    return problem.attempt(by(values_by_dqds), "gebrd", first=first, other_work=by(values_by_rotations))


def _checked_values(place: Place, solve: Callable[[Place, DistributedArray], NDArray[Any]]) -> NDArray[Any]:
    verify, exponent = Check(place, scaled=True), place.facts.exponent("a")
    verify.add_operand("a", exponent=exponent)
    matrix = place.move("a", exponent=exponent)
    values, size = solve(place, matrix), max(matrix.shape)

    def make_claims(sums: dict[str, Sums]) -> list[Claim]:
        square = sums["a"].norm ** 2
        error = np.abs((values.astype(verify.real) ** 2).sum() - square)
        return [
            Claim("the sum of s² is norm(A)²", error, verify.bound(size, SQUARES) * square),
            order_claim("the singular values descend from a number that is not negative", -values, values),
        ]

    verify.require(make_claims)
    return values


def require_triplets(
    check: Check, u: DistributedArray, values: NDArray[Any], vh: DistributedArray, y: NDArray[Any]
) -> dict[str, Sums]:
    """Require U (s * (Vh y)) = A y, and that U and Vh are orthogonal. Collective.

    The product "a" of A y must have been added. Returns the sums of the first round, with Vh y as "vh".
    """
    if not check.active:
        return {}
    left, right = check.vectors(u.shape[1], 1), check.vectors(vh.shape[0], 2)
    check.add("u", u, right=left)
    check.add("vh", vh, right=y, left=right)
    first = check.sums()
    few = values.size
    product = np.zeros((u.shape[1], y.shape[1]), first["a"].right.dtype)
    product[:few] = values[:, None] * first["vh"].right[:few]
    check.add("u", u, right=product, left=first["u"].right)
    check.add("vh", vh, right=first["vh"].left)
    shape = (u.shape[0], vh.shape[1])
    check.require(
        lambda sums: [
            product_claim(check, "U (s * (Vh y)) = A y", sums["u"].right, first["a"], shape),
            orthogonal_claim(check, "U^H (U y) = y", sums["u"].left, left),
            orthogonal_claim(check, "Vh (Vh^H y) = y", sums["vh"].right, right),
            order_claim("the singular values descend from a number that is not negative", -values, values),
        ]
    )
    return first


def check_tolerance(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, float | int | np.floating) and np.isfinite(value)):
        raise ValueError(f"{name} = {value!r} must be a finite number, or None")


def relative_tolerance(value: float | None, dtype: np.dtype[Any], shape: tuple[int, ...]) -> float:
    """Singular values up to this times the largest count as zero; by default those that are zero but for rounding."""
    return float(np.finfo(dtype).eps) * max(shape) if value is None or value < 0 else value
