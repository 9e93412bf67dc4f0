"""Linear systems by LU and Cholesky factors, inverses and determinants."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..errors import ArrayError
from ..scalapack.calls import NotFiniteError, SingularError
from ..scalapack.scaling import times_power
from .attempt import Problem, assemble
from .call import (
    FactorOptions,
    PairOptions,
    ResultOptions,
    RoutineCall,
    SidesOptions,
    WrongResultError,
    routine,
)
from .check import NOT_SCALED, Check, Claim, Sums
from .kernels import pxgetrf, pxgetri, pxgetrs, pxpotrf, pxpotri, pxpotrs, pxtrsm
from .matrix_parts import clear_outside, diagonal_elements, hermitian_part, local_elements, times_powers
from .operands import ShapeAndLayout, check_rows, check_square_matrix, shaped_like
from .place import Place
from .structures import GENERAL, Structure, part_of, require_structure

R = TypeVar("R")
# Bounds of errors of right results, as multiples of eps, a root of the order and norms: see docs/linalg.md.
SYSTEM, FACTORS, CHOLESKY, INVERSE = 8.0, 16.0, 8.0, 8.0
NO_EXCHANGES = np.zeros(0, np.intp)
TRANS: dict[int | str, str] = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


def _check_system(a: DistributedArray, b: DistributedArray) -> ShapeAndLayout:
    check_square_matrix(a)
    check_rows(a, b)
    return a.shape, shaped_like(b.desc, b.shape)


def _problem_and_structure(
    call: RoutineCall,
    arrays: dict[str, DistributedArray],
    check_shapes: Callable[..., ShapeAndLayout],
    structure: Structure | None,
    assume_a: str,
    lower: bool,
    has_layout: bool = True,
) -> tuple[Problem, Structure]:
    """The problem of operands of which `a` has a structure, and that; an error if `assume_a` names none. Collective."""

    def check_arguments(*operands: DistributedArray) -> ShapeAndLayout:
        require_structure(structure, assume_a)
        return check_shapes(*operands)

    parts = part_of(structure)
    problem = Problem(call, arrays, check_arguments, parts=lambda: parts, has_layout=has_layout, lower=bool(lower))
    assert structure is not None
    return problem, structure


@routine
def solve(
    call: RoutineCall,
    a: DistributedArray,
    b: DistributedArray,
    *,
    assume_a: str = "gen",
    lower: bool = False,
    **options: Unpack[PairOptions],
) -> DistributedArray:
    """Solve A X = B, as `numpy.linalg.solve` and `scipy.linalg.solve`. Collective over the communicator of the operands.

    Parameters
    ----------
    a : DistributedArray
        A square matrix, in any layout, or a stack of them.
    b : DistributedArray
        Right-hand sides: a matrix, or a vector of one dimension, which is for all matrices of a stack; or a stack.
    assume_a : {"gen", "sym", "her", "pos", "upper triangular", "lower triangular"}
        What the matrix is, of a stack "gen"; SciPy's long names "general", "symmetric", "hermitian" and "positive definite"
        are accepted as well. "gen": by LU factors. "sym", "her": one triangle is read and completed, then by LU factors.
        "pos": one triangle of a Hermitian positive definite matrix is read, by Cholesky factors, in about half the time. Of
        the triangular ones that triangle is read, as by `solve_triangular`.
    lower : bool
        Which triangle is read with "sym", "her" and "pos".
    **options
        `overwrite_a`, `overwrite_b`, `check_finite`, `check`, `layout`, `like`: as for all routines of `linalg`; by
        default X is in the layout of `b`.

    Returns
    -------
    DistributedArray
        X, on every rank.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is singular, and says which pivot is zero; or, with "pos", not positive definite, and says which leading
        minor.
    ValueError
        `assume_a` is not one of these.
    """
    named = Structure.of(assume_a, lower)
    if named is not None and named.is_triangular:
        of_triangle: Any = {name: value for name, value in options.items() if name != "overwrite_a"}
        return solve_triangular(a, b, lower=named.lower, **of_triangle)

    problem, structure = _problem_and_structure(call, {"a": a, "b": b}, _check_system, named, assume_a, lower)
    is_definite = structure.name == "pos"

    def work(place: Place, scales: Scales) -> DistributedArray:
        verify = Check(place)
        y = verify.vectors(a.shape[0])
        structure.add_products(verify, y, "left", scales.matrix)
        verify.add_operand("b", left=y, columns=True, exponent=scales.sides)
        matrix, sides = structure.move(place, scales.matrix), moved_sides(place, scales.sides)

        def solved() -> None:
            if is_definite:
                pxpotrf(matrix, structure.triangle)
                pxpotrs(matrix, sides, structure.triangle)
            else:
                pxgetrs(matrix, pxgetrf(matrix), sides)

        before = structure.products(verify.run(solved)[1], y, "left")
        require_system(verify, sides, before, None if is_definite else matrix)
        return sides

    routine_names = "potrf and p?potrs" if is_definite else "getrf and p?getrs"
    return problem.to_result(attempt_in_range(problem, work, routine_names, scales_matrix=True))


class Scales(NamedTuple):
    """Exponents of the powers of 2 by which A, and each column of B, are divided."""

    matrix: int = 0
    sides: NDArray[np.int64] = NOT_SCALED


NO_SCALES = Scales()
ScaledWork = Callable[[Place, Scales], R]


def attempt_in_range(
    problem: Problem, work: ScaledWork[DistributedArray], routine_names: str, *, scales_matrix: bool = False
) -> DistributedArray:
    """As `Problem.attempt`, of work that computes inv(A) B for the scaled operands, or inv(A) for one alone. Collective.

    Elements of the result that overflow are infs.
    """

    def attempted(place: Place) -> DistributedArray:
        solution, scales = _in_range(place, work, scales_matrix)
        exponents = np.full(solution.shape[1], -scales.matrix)
        exponents[: scales.sides.size] += scales.sides
        scale_back(place, solution, exponents)
        return solution

    return problem.attempt(attempted, routine_names)


def _in_range(place: Place, work: ScaledWork[R], scales_matrix: bool) -> tuple[R, Scales]:
    """The result of work, for operands as they are; and how they are scaled where that is refused and they are far from 1.

    Numbers on the way to the result may overflow then. Collective inside `Problem.attempt`.
    """
    try:
        return work(place, Scales()), Scales()
    except (NotFiniteError, WrongResultError):
        scales = _scales(place, scales_matrix)
        if scales is None or place.has_overwritten():
            raise
    return work(place, scales), scales


def _scales(place: Place, scales_matrix: bool) -> Scales | None:
    """Powers that bring A to 1, and large columns of B to 1 or A's size; None if they are not far from 1. Collective."""
    a, b = (*place.facts.magnitudes.values(), 1.0)[:2]
    far = 2.0 ** (np.finfo(place.dtype).maxexp / 2)
    if not a or (1 / far < a < far and b < far):
        return None
    exponent = math.frexp(a)[1]
    if "b" not in place.operands:
        return Scales(exponent)
    exponents = column_exponents(place) - (0 if scales_matrix else min(0, exponent))
    return Scales(exponent if scales_matrix else 0, np.maximum(exponents, 0))


def column_exponents(place: Place) -> NDArray[np.int64]:
    """For each right-hand side the exponent of the power of 2 above its largest absolute value. Collective."""

    def largest() -> tuple[NDArray[np.int64], NDArray[Any]]:
        _, columns, local = local_elements(place.operands["b"])
        return columns, np.abs(local).max(axis=0, initial=0)

    sizes = place.run(largest, assemble(place.facts.columns("b"), np.float64, np.maximum))
    return np.frexp(sizes)[1].astype(np.int64)  # type: ignore[no-any-return]


def moved_sides(place: Place, exponents: NDArray[np.int64]) -> DistributedArray:
    """The right-hand sides in the layout of the call, each divided by its power of 2."""
    sides = place.move("b")
    scale_columns(place, sides, -exponents)
    return sides


def scale_columns(place: Place, sides: DistributedArray, exponents: NDArray[np.int64]) -> None:
    """Multiply columns, from the first on, each by a power of 2."""
    with place.collect_errors():
        _, columns, local = local_elements(sides)
        for column, exponent in enumerate(exponents[columns[columns < exponents.size]].tolist()):
            times_power(local[:, column], exponent)


def scale_back(place: Place, result: DistributedArray, exponents: NDArray[np.int64]) -> None:
    """Multiply columns of a finite result by powers of 2, and warn of elements that become infs. Collective."""
    scale_columns(place, result, exponents)
    if exponents.max(initial=0) > 0:
        infinite = place.run(lambda: int(np.count_nonzero(~np.isfinite(local_elements(result)[2]))), sum)
        if infinite:
            place.call.warn(f"{infinite} elements of the result are beyond {place.facts.largest}, and infs")


def require_system(
    check: Check, solution: DistributedArray, before: dict[str, Sums], factors: DistributedArray | None = None
) -> None:
    """Require (A^H y)^H x = y^H b for each right-hand side; the sums "a" are A^H y, "b" B^H y. Collective."""
    if not check.active:
        return
    a, b = before["a"], before["b"]
    check.add("x", solution, left=a.left, columns=True)

    def make_claims(sums: dict[str, Sums]) -> list[Claim]:
        x, size = sums["x"], solution.shape[0]
        bound = check.bound(size, SYSTEM) * (a.norm * check.scale(x.norms, size) + b.norms)
        return [Claim.equal_sides("(A^H y)^H x = y^H b", x.left, b.left, bound)]

    check.require(make_claims, factors, a.norm)


class _LUFactors(NamedTuple):
    """Result of p?getrf: `pivots` are this rank's, `exchanges` those of all rows, from 0, on every rank.

    Other factors, whose diagonal has the determinant too, have no exchanges.
    """

    matrix: DistributedArray
    pivots: NDArray[np.intc] | None = None
    exchanges: NDArray[np.intp] = NO_EXCHANGES


def _factor_lu(place: Place, scales: Scales = NO_SCALES, structure: Structure = GENERAL) -> _LUFactors:
    """Factor the operand a: P L (U y) = A y."""
    check = Check(place)
    y = check.vectors(place.operands["a"].shape[0])
    structure.add_products(check, y, "right", scales.matrix)
    matrix = structure.move(place, scales.matrix)
    pivots: NDArray[np.intc] | None = None

    def work() -> tuple[NDArray[Any], NDArray[Any]] | None:
        nonlocal pivots
        pivots = pxgetrf(matrix)
        if pivots is None or matrix.desc.coords is None or matrix.desc.coords[1]:
            return None
        rows = matrix.desc.global_indices(0)
        return rows, pivots[: rows.size] - 1

    exchanges: NDArray[np.intp]
    exchanges, before = check.run(work, assemble(matrix.shape[0], np.intp))
    before = structure.products(before, y, "right")
    if check.active:
        check.add("U", matrix, right=y, part="U", norm=False)
        check.add("L", matrix, right=check.sums()["U"].product, part="l", norm=False)
        a, n = before["a"], matrix.shape[0]
        expected, bound = a.product[row_order(exchanges)], check.bound(n, FACTORS) * check.scale(a.norm, n)
        check.require(lambda sums: [Claim.equal("P L (U y) = A y", sums["L"].product, expected, bound)], matrix, a.norm)
    return _LUFactors(matrix, pivots, exchanges)


def row_order(exchanges: NDArray[np.intp]) -> list[int]:
    """Rows of A in the order in which L U has them."""
    order = list(range(exchanges.size))
    for row, other in enumerate(exchanges.tolist()):
        order[row], order[other] = order[other], order[row]
    return order


@routine
def lu_factor(
    call: RoutineCall, a: DistributedArray, **options: Unpack[ResultOptions]
) -> tuple[DistributedArray, NDArray[np.intp]]:
    """LU factorisation with row exchanges, as `scipy.linalg.lu_factor`. Collective over the communicator of `a`.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`, `like`: as for all routines of `linalg`.

    Returns
    -------
    lu : DistributedArray
        U in the upper triangle, and L below it, whose diagonal is of ones.
    piv : ndarray of int
        On every rank, for each row the row it was exchanged with, counted from 0.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is singular; SciPy only warns.
    """
    problem = Problem(call, {"a": a}, check_square_matrix)
    factors = problem.attempt(_factor_lu, "getrf")
    return problem.to_result(factors.matrix), factors.exchanges


@routine
def lu_solve(
    call: RoutineCall,
    lu_and_piv: tuple[DistributedArray, NDArray[Any]],
    b: DistributedArray,
    trans: int = 0,
    **options: Unpack[SidesOptions],
) -> DistributedArray:
    """Solve A X = B with the result of `lu_factor`, as `scipy.linalg.lu_solve`. Collective over their communicator.

    Parameters
    ----------
    lu_and_piv : tuple
        Result of `lu_factor`; not changed.
    trans : {0, 1, 2}
        Solve with A, its transpose or its conjugate transpose.
    b : DistributedArray
        Right-hand sides: a matrix, or a vector of one dimension.
    **options
        `overwrite_b`, `check_finite`, `check`, `layout`, `like`: as for `solve`; the result is checked against the
        factors.

    Raises
    ------
    ValueError
        `trans` is not one of these.
    """
    lu, piv = unpack_pair("lu_and_piv", lu_and_piv)

    def check_arguments(lu: DistributedArray, b: DistributedArray) -> ShapeAndLayout:
        if not isinstance(trans, int | np.integer) or trans not in (0, 1, 2):
            raise ValueError(f"trans = {trans!r} must be 0, 1 or 2")
        n = lu.shape[0]
        if not isinstance(piv, np.ndarray) or piv.shape != (n,) or piv.dtype.kind not in "iu":
            raise ArrayError(f"piv = {piv!r} must be what lu_factor returned, {n} integers")
        if n and not 0 <= piv.min() <= piv.max() < n:
            raise ArrayError(f"piv has {piv.min()} to {piv.max()}: it must have rows, 0 to {n - 1}")
        return _check_system(lu, b)

    problem = Problem(call, {"lu": lu, "b": b}, check_arguments, piv=piv)

    def work(place: Place, scales: Scales) -> DistributedArray:
        verify = Check(place)
        y = verify.vectors(lu.shape[0])
        verify.add_operand("b", left=y, columns=True, exponent=scales.sides)
        before: dict[str, Sums] = {}
        if verify.active:  # A^H y, or A y or the conjugate of that where A is not solved with itself
            order = row_order(piv)
            first, then = ("U", "l") if trans else ("l", "U")
            side, x = ("right", y.conj() if trans == 1 else y) if trans else ("left", y[order])
            verify.add("first", place.operands["lu"], **{side: x}, part=first)  # type: ignore[arg-type]
            sums = verify.sums()
            verify.add("then", place.operands["lu"], **{side: sums["first"].product}, part=then)
            product = verify.sums()["then"].product
            if trans:
                product = product[np.argsort(order)]
            norm = np.sqrt((np.abs(product) ** 2).mean(axis=1).sum())
            before = {"b": sums["b"], "a": Sums(left=product.conj() if trans == 1 else product, norm=norm)}
        matrix, sides = place.move("lu", read_only=True), moved_sides(place, scales.sides)

        def solved() -> None:
            desc = matrix.desc
            pivots = np.zeros(desc.local_shape[0] + desc.block[0], np.intc)
            pivots[: desc.local_shape[0]] = piv[desc.global_indices(0)] + 1
            pxgetrs(matrix, pivots, sides, "NTC"[trans])

        place.run(solved)
        require_system(verify, sides, before, matrix)
        return sides

    return problem.to_result(attempt_in_range(problem, work, "getrs"))


def unpack_pair(name: str, factors: Any) -> tuple[Any, Any]:
    """Both parts of a pair of factors. If there is no pair, the parts do not pass the checks."""
    return tuple(factors) if isinstance(factors, tuple | list) and len(factors) == 2 else (factors, name)


def require_cholesky(check: Check, factor: DistributedArray, lower: bool, a: Sums | None, y: NDArray[Any]) -> None:
    """Require L (L^H y) = A y, or U^H (U y) = A y. Collective."""
    if a is None:
        return
    check.add_factor("first", factor, lower, y, adjoint=True)
    check.add_factor("then", factor, lower, check.sums()["first"].product)
    text = "L (L^H y) = A y" if lower else "U^H (U y) = A y"
    bound = check.bound(factor.shape[0], CHOLESKY) * check.scale(a.norm, factor.shape[0])
    check.require(lambda sums: [Claim.equal(text, sums["then"].product, a.product, bound)])


def diagonal_of(matrix: DistributedArray) -> NDArray[Any]:
    """This rank's part of the diagonal."""
    rows, columns, local = local_elements(matrix)
    _, down, across = diagonal_elements(rows, columns)
    return local[down, across]


@routine
def cholesky(
    call: RoutineCall, a: DistributedArray, lower: bool = True, **options: Unpack[ResultOptions]
) -> DistributedArray:
    """Cholesky factor of a Hermitian positive definite matrix, as `numpy.linalg.cholesky`. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout, or a stack of them.
    lower : bool
        By default the lower triangle is read, and A = L L^H; with False the upper one, and A = U^H U, which is the default
        of `scipy.linalg.cholesky` and of `cho_factor`.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`, `like`: as for all routines of `linalg`; only one triangle
        is read.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is not positive definite; says which leading minor.
    """
    return _cholesky(call, a, lower, lambda factor: clear_outside(local_elements(factor), "L" if lower else "U"))


def _cholesky(
    call: RoutineCall, a: DistributedArray, lower: bool, then: Callable[[DistributedArray], object]
) -> DistributedArray:
    """The factor in one triangle; `then` is called with it after p?potrf."""
    problem = Problem(call, {"a": a}, check_square_matrix, parts=lambda: {"a": hermitian_part(lower)})

    def work(place: Place) -> DistributedArray:
        verify = Check(place)
        y = verify.vectors(a.shape[0])
        verify.add_operand("a", right=y)
        matrix = place.move("a")

        def factored() -> None:
            pxpotrf(matrix, "L" if lower else "U")
            then(matrix)

        _, before = verify.run(factored)
        require_cholesky(verify, matrix, lower, before.get("a"), y)
        return matrix

    return problem.to_result(problem.attempt(work, "potrf"))


@routine
def cho_factor(
    call: RoutineCall, a: DistributedArray, lower: bool = False, **options: Unpack[ResultOptions]
) -> tuple[DistributedArray, bool]:
    """Cholesky factor for `cho_solve`, as `scipy.linalg.cho_factor`. Collective, as `solve`.

    Parameters and errors are those of `cholesky`, but for the default of `lower`: SciPy's, A = U^H U.

    Returns
    -------
    c : DistributedArray
        The factor in one triangle; the other triangle is undefined.
    lower : bool
        Which triangle has the factor.
    """
    return _cholesky(call, a, lower, lambda factor: None), bool(lower)


@routine
def cho_solve(
    call: RoutineCall, c_and_lower: tuple[DistributedArray, bool], b: DistributedArray, **options: Unpack[SidesOptions]
) -> DistributedArray:
    """Solve A X = B with the result of `cho_factor`, as `scipy.linalg.cho_solve`. Collective, as `solve`.

    Parameters
    ----------
    c_and_lower : tuple
        Result of `cho_factor`, or (result of `cholesky`, lower); not changed.
    b : DistributedArray
        Right-hand sides: a matrix, or a vector of one dimension.
    **options
        `overwrite_b`, `check_finite`, `check`, `layout`, `like`: as for `solve`; the result is checked against the
        factor.
    """
    c, lower = unpack_pair("c_and_lower", c_and_lower)
    part = "L" if lower else "U"
    problem = Problem(call, {"c": c, "b": b}, _check_system, parts=lambda: {"c": part}, lower=bool(lower))

    def work(place: Place, scales: Scales) -> DistributedArray:
        verify = Check(place)
        y = verify.vectors(c.shape[0])
        verify.add_operand("b", left=y, columns=True, exponent=scales.sides)
        before: dict[str, Sums] = {}
        if verify.active:
            verify.add_factor("first", place.operands["c"], lower, y, adjoint=True, norm=True)
            sums = verify.sums()
            verify.add_factor("then", place.operands["c"], lower, sums["first"].product)
            norm = sums["first"].norm ** 2
            before = {"b": sums["b"], "a": Sums(left=verify.sums()["then"].product, norm=norm)}
        matrix, sides = place.move("c", read_only=True), moved_sides(place, scales.sides)
        place.run(lambda: pxpotrs(matrix, sides, part))
        require_system(verify, sides, before)
        return sides

    return problem.to_result(attempt_in_range(problem, work, "potrs"))


def require_diagonal(place: Place, matrix: DistributedArray) -> None:
    """Require that no element of a triangle's diagonal is zero. Collective."""

    def first_zero() -> int:
        rows, columns, local = local_elements(matrix)
        indices, down, across = diagonal_elements(rows, columns)
        return int(indices[local[down, across] == 0].min(initial=matrix.shape[0]))

    zero = place.run(first_zero, min)
    if zero < matrix.shape[0]:
        raise SingularError(f"the matrix is singular: element {zero + 1} (counted from 1) of its diagonal is zero")


@routine
def solve_triangular(
    call: RoutineCall,
    a: DistributedArray,
    b: DistributedArray,
    trans: int | str = 0,
    lower: bool = False,
    **options: Unpack[SidesOptions],
) -> DistributedArray:
    """Solve A X = B with a triangular matrix, as `scipy.linalg.solve_triangular`. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        A square matrix, of which one triangle is read; not changed.
    trans : {0, 1, 2, "N", "T", "C"}
        Solve with A, its transpose or its conjugate transpose.
    lower : bool
        Whether A is the lower triangle; by default the upper one.
    b : DistributedArray
        Right-hand sides: a matrix, or a vector of one dimension.
    **options
        `overwrite_b`, `check_finite`, `check`, `layout`, `like`: as for `solve`.

    Raises
    ------
    numpy.linalg.LinAlgError
        An element of the diagonal is zero; says which.
    ValueError
        `trans` is not one of these.
    """
    part = "L" if lower else "U"

    def check_arguments(a: DistributedArray, b: DistributedArray) -> ShapeAndLayout:
        if isinstance(trans, bool) or not isinstance(trans, int | np.integer | str) or trans not in TRANS:
            raise ValueError(f"trans = {trans!r} must be 0, 1 or 2, or 'N', 'T' or 'C'")
        return _check_system(a, b)

    problem = Problem(call, {"a": a, "b": b}, check_arguments, parts=lambda: {"a": part}, lower=bool(lower))
    letter = TRANS[trans]

    def work(place: Place, scales: Scales) -> DistributedArray:
        verify = Check(place)
        y = verify.vectors(a.shape[0])
        x = y.conj() if letter == "T" else y  # A^T is the conjugate of A^H
        verify.add_operand("a", *((None, x) if letter == "N" else (x, None)))
        verify.add_operand("b", left=y, columns=True, exponent=scales.sides)
        matrix, sides = place.move("a", read_only=True), moved_sides(place, scales.sides)
        require_diagonal(place, matrix)
        _, before = verify.run(lambda: pxtrsm(matrix, sides, part, letter))
        if verify.active:
            product = before["a"].product
            before["a"] = Sums(left=product.conj() if letter == "T" else product, norm=before["a"].norm)
        require_system(verify, sides, before)
        return sides

    return problem.to_result(attempt_in_range(problem, work, "trsm"))


@routine
def inv(
    call: RoutineCall,
    a: DistributedArray,
    *,
    assume_a: str = "gen",
    lower: bool = False,
    **options: Unpack[ResultOptions],
) -> DistributedArray:
    """Inverse of a matrix, as `numpy.linalg.inv` and `scipy.linalg.inv`. Collective, as `solve`.

    Parameters and errors are those of `solve`, stacks too; by default the result is in the layout of `a`. If the norms of
    A and of its inverse multiply to 1 / eps or more, the check says nothing. The inverse of a triangle is computed
    from the identity, as by `solve_triangular`.
    """
    named = Structure.of(assume_a, lower)
    problem, structure = _problem_and_structure(call, {"a": a}, check_square_matrix, named, assume_a, lower)
    triangle, is_definite = structure.triangle, structure.name == "pos"

    def inverted(matrix: DistributedArray) -> None:
        if is_definite:
            pxpotrf(matrix, triangle)
            pxpotri(matrix, triangle)
        else:
            pxgetri(matrix, pxgetrf(matrix))

    def work(place: Place, scales: Scales) -> DistributedArray:
        verify = Check(place)
        y = verify.vectors(a.shape[0])
        structure.add_products(verify, y, "right", scales.matrix)
        matrix = structure.move(place, scales.matrix)
        if structure.is_triangular:
            matrix, before = _inverse_of_triangle(place, verify, matrix, triangle)
        else:
            before = structure.products(verify.run(lambda: inverted(matrix))[1], y, "right")
        if is_definite:
            place.complete(matrix, triangle)
        if verify.active:
            verify.add("x", matrix, right=before["a"].product)

            def make_claims(sums: dict[str, Sums]) -> list[Claim]:
                x, norm, n = sums["x"], before["a"].norm, matrix.shape[0]
                bound = verify.bound(n, INVERSE) * norm * verify.scale(x.norm, n)
                return [Claim.equal("inv(A) (A y) = y", x.product, y, bound)]

            verify.require(make_claims)
        return matrix

    names = {"pos": "potrf and p?potri"}.get(structure.name, "trsm" if structure.is_triangular else "getrf and p?getri")
    return problem.to_result(attempt_in_range(problem, work, names, scales_matrix=True))


def _inverse_of_triangle(
    place: Place, check: Check, matrix: DistributedArray, triangle: str
) -> tuple[DistributedArray, dict[str, Sums]]:
    """The inverse of a triangle, and the sums of a check. Collective."""
    inverse = place.zeros((matrix.shape[0], matrix.shape[1]))
    with place.collect_errors():
        rows, columns, local = local_elements(inverse)
        _, *diagonal = diagonal_elements(rows, columns)
        local[tuple(diagonal)] = 1
    require_diagonal(place, matrix)
    _, sums = check.run(lambda: pxtrsm(matrix, inverse, triangle))
    return inverse, sums


class SlogdetResult(NamedTuple):
    """Result of `slogdet`, on every rank.

    Attributes
    ----------
    sign : number
        Of the determinant; of a complex one its value divided by its absolute value. 0 for a singular matrix.
    logabsdet : float
        Natural logarithm of its absolute value; -inf for a singular matrix.
    """

    sign: np.inexact[Any]
    logabsdet: np.floating[Any]


@routine
def slogdet(
    call: RoutineCall,
    a: DistributedArray,
    *,
    assume_a: str = "gen",
    lower: bool = False,
    **options: Unpack[FactorOptions],
) -> SlogdetResult:
    """Sign and logarithm of the determinant, as `numpy.linalg.slogdet`. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        A square matrix, in any layout, or a stack of them, whose results are checked by Hadamard's inequality, which is weaker.
    assume_a, lower
        As for `solve`; with "pos" the factors are Cholesky's, and of a triangle the diagonal alone is read.
    **options
        `overwrite_a`, `check`, `layout`: as for all routines of `linalg`; infs and NaNs are accepted, as by NumPy,
        and their factors are not checked.

    Returns
    -------
    SlogdetResult
        `sign` and `logabsdet`, on every rank; of a stack distributed arrays.

    Raises
    ------
    numpy.linalg.LinAlgError
        Numbers of the factors overflow, or the matrix is not positive definite with "pos".
    ValueError
        `assume_a` is not one of those.
    """
    return _slogdet(call, a, assume_a, lower)


@routine
def det(
    call: RoutineCall,
    a: DistributedArray,
    *,
    assume_a: str = "gen",
    lower: bool = False,
    **options: Unpack[FactorOptions],
) -> np.inexact[Any]:
    """Determinant, as `numpy.linalg.det`, on every rank. Collective, as `solve`.

    Parameters and errors are those of `slogdet`.
    """
    sign, logarithm = _slogdet(call, a, assume_a, lower)
    determinant: np.inexact[Any] = sign * np.exp(logarithm)
    return determinant


def _slogdet(call: RoutineCall, a: DistributedArray, assume_a: str, lower: bool) -> SlogdetResult:
    named = Structure.of(assume_a, lower)
    has_factors = named is None or not named.is_triangular
    problem, structure = _problem_and_structure(call, {"a": a}, check_square_matrix, named, assume_a, lower, has_factors)
    number, real = problem.dtype.type, np.zeros(0, problem.dtype).real.dtype.type
    factors, scales = _LUFactors(a), NO_SCALES
    if has_factors:
        is_definite = structure.name == "pos"
        factor = _factor_cholesky if is_definite else _factor_lu

        def work(place: Place) -> tuple[_LUFactors, Scales]:
            return _in_range(place, lambda place, scales: factor(place, scales, structure), True)

        try:
            factors, scales = problem.attempt(work, "potrf" if is_definite else "getrf")
        except SingularError:
            return SlogdetResult(number(0), real(-np.inf))
        except np.linalg.LinAlgError:
            if math.isfinite(problem.operands.magnitudes["a"]):
                raise
            return SlogdetResult(number(np.nan), real(np.nan))

    def diagonal() -> tuple[Any, Any]:
        desc, pivots, exchanges = factors.matrix.desc, factors.pivots, 0
        if pivots is not None and desc.coords is not None and desc.coords[1] == 0:
            rows = desc.global_indices(0)
            exchanges = int(np.count_nonzero(pivots[: rows.size] != rows + 1))
        signs, logarithms = _signs_and_logarithms(diagonal_of(factors.matrix))
        if structure.name == "pos":
            signs, logarithms = signs * signs, 2 * logarithms
        return (-1) ** exchanges * np.prod(signs), np.sum(logarithms)

    parts = call.run(diagonal, list)
    logarithm = sum([size for _, size in parts]) + a.shape[0] * scales.matrix * math.log(2)
    sign = np.nan if np.isnan(logarithm) else np.prod([sign for sign, _ in parts])  # NaN: of 0 times infinity
    return SlogdetResult(number(sign), real(logarithm))


def _factor_cholesky(place: Place, scales: Scales, structure: Structure) -> _LUFactors:
    """Factor the positive definite operand a: L (L^H y) = A y."""
    check, lower = Check(place), structure.lower
    y = check.vectors(place.operands["a"].shape[0])
    structure.add_products(check, y, "right", scales.matrix)
    matrix = structure.move(place, scales.matrix)
    _, before = check.run(lambda: pxpotrf(matrix, structure.triangle))
    require_cholesky(check, matrix, lower, before.get("a"), y)
    return _LUFactors(matrix)


def _signs_and_logarithms(numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Numbers divided by their absolute values, and logarithms of these, which may overflow or be subnormal."""
    if numbers.dtype.kind != "c":
        return np.sign(numbers), np.log(np.abs(numbers.astype(np.float64)))
    exponents = np.frexp(np.maximum(np.abs(numbers.real), np.abs(numbers.imag)))[1]
    moderate = times_powers(numbers.astype(np.complex128), -exponents)
    sizes = np.abs(moderate)
    return np.divide(moderate, sizes, out=moderate, where=sizes != 0), np.log(sizes) + exponents * math.log(2)
