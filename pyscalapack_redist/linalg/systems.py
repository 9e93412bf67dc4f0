"""Linear systems: what is solved with LU and Cholesky factors, inverses and determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..errors import ArrayError
from ..layout.descriptor import Descriptor
from ..scalapack import pxgetrf, pxgetri, pxgetrs, pxpotrf, pxpotrs
from ..scalapack.operands import diagonal_places
from .layouts import check_rows, routine, shaped_like
from .problem import Layout, Problem

__all__ = [
    "SlogdetResult",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "inv",
    "lu_factor",
    "lu_solve",
    "slogdet",
    "solve",
]

Checked = tuple[tuple[int, ...], Descriptor]


def square(a: DistributedArray) -> Checked:
    if a.shape[0] != a.shape[1]:
        raise ArrayError(f"a has shape {a.shape}: it must be square")
    return a.shape, shaped_like(a.desc, a.shape)


def _system(a: DistributedArray, b: DistributedArray) -> Checked:
    square(a)
    check_rows(a, b)
    return a.shape, shaped_like(b.desc, b.shape)


@routine
def solve(
    a: DistributedArray,
    b: DistributedArray,
    *,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    layout: Layout = None,
    like: Layout = None,
) -> DistributedArray:
    """Solve A X = B by LU factorisation, as `numpy.linalg.solve`. Collective over the communicator of the operands.

    Parameters
    ----------
    a : DistributedArray
        A square matrix, in any layout.
    b : DistributedArray
        Right-hand sides: a matrix, or a vector of one dimension.
    overwrite_a, overwrite_b : bool
        Whether the operand's own memory may be used, which saves a copy where its layout fits; what it then holds is
        undefined. Otherwise no operand is changed.
    layout : Descriptor or DistributedArray, optional
        Layout of A to work in; default: an operand's own where it fits, or that of `layout_for`.
    like : Descriptor or DistributedArray, optional
        Layout of the result; default: that of `b`.

    Returns
    -------
    DistributedArray
        X, on every rank.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is singular; says which pivot is zero. On all ranks.
    ArrayError, DescriptorError, LibraryError
        An argument is wrong on this rank, or there is no ScaLAPACK.
    CollectiveError
        So it is on another rank, or ranks ask for different things.
    """
    problem = Problem("solve", {"a": a, "b": b}, _system, layout=layout, like=like, vectors=("b",))
    matrix = problem.moved("a", overwrite=overwrite_a)
    sides = problem.moved("b", overwrite=overwrite_b)
    pivots = _lu_factored(problem, matrix)
    problem.run(lambda: pxgetrs(matrix, pivots, sides))
    return problem.given_back(sides)


def _lu_factored(problem: Problem, matrix: DistributedArray) -> NDArray[np.intc] | None:
    """Factor in place; the pivots of this rank."""
    found: list[NDArray[np.intc] | None] = []
    problem.run(lambda: found.append(pxgetrf(matrix)))
    return found[0]


@routine
def lu_factor(
    a: DistributedArray, *, overwrite_a: bool = False, layout: Layout = None, like: Layout = None
) -> tuple[DistributedArray, NDArray[np.intp]]:
    """LU factorisation with row exchanges, as `scipy.linalg.lu_factor`. Collective over the communicator of `a`.

    Parameters
    ----------
    a, overwrite_a, layout, like
        As for `solve`.

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
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """
    problem = Problem("lu_factor", {"a": a}, square, layout=layout, like=like)
    matrix = problem.moved("a", overwrite=overwrite_a)
    pivots = _lu_factored(problem, matrix)

    def work() -> tuple[NDArray[Any], NDArray[Any]] | None:
        if pivots is None or matrix.desc.coords is None or matrix.desc.coords[1]:
            return None
        rows = matrix.desc.global_indices(0)
        return rows, pivots[: rows.size]

    def combined(told: list[Any]) -> NDArray[np.intp]:
        exchanged = np.zeros(matrix.shape[0], np.intp)
        for rows, pivots in filter(None, told):
            exchanged[rows] = pivots - 1
        return exchanged

    exchanged: NDArray[np.intp] = problem.run(work, combined)
    return problem.given_back(matrix), exchanged


@routine
def lu_solve(
    lu_and_piv: tuple[DistributedArray, NDArray[Any]],
    b: DistributedArray,
    trans: int = 0,
    *,
    overwrite_b: bool = False,
    layout: Layout = None,
    like: Layout = None,
) -> DistributedArray:
    """Solve A X = B with what `lu_factor` returned, as `scipy.linalg.lu_solve`. Collective over their communicator.

    Parameters
    ----------
    lu_and_piv : tuple
        What `lu_factor` returned; it is not changed.
    trans : {0, 1, 2}
        Solve with A, its transpose or its conjugate transpose.
    b, overwrite_b, layout, like
        As for `solve`.

    Raises
    ------
    ValueError
        `trans` is none of these.
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """
    lu, piv = _two("lu_and_piv", lu_and_piv)

    def check(lu: DistributedArray, b: DistributedArray) -> Checked:
        if not isinstance(trans, int | np.integer) or trans not in (0, 1, 2):
            raise ValueError(f"trans = {trans!r} must be 0, 1 or 2")
        n = lu.shape[0]
        if not isinstance(piv, np.ndarray) or piv.shape != (n,) or piv.dtype.kind not in "iu":
            raise ArrayError(f"piv = {piv!r} must be what lu_factor returned, {n} integers")
        if n and not 0 <= piv.min() <= piv.max() < n:
            raise ArrayError(f"piv has {piv.min()} to {piv.max()}: it must have rows, 0 to {n - 1}")
        return _system(lu, b)

    options = ("trans", trans)
    problem = Problem("lu_solve", {"lu": lu, "b": b}, check, layout=layout, like=like, vectors=("b",), options=options)
    matrix, sides = problem.moved("lu", read_only=True), problem.moved("b", overwrite=overwrite_b)

    def work() -> None:
        desc = matrix.desc
        pivots = np.zeros(desc.local_shape[0] + desc.block[0], np.intc)
        pivots[: desc.local_shape[0]] = piv[desc.global_indices(0)] + 1
        pxgetrs(matrix, pivots, sides, "NTC"[trans])

    problem.run(work)
    return problem.given_back(sides)


def _two(name: str, given: Any) -> tuple[Any, Any]:
    """Both parts of factors; what is no pair has no part that passes the checks."""
    return (given[0], given[1]) if isinstance(given, tuple | list) and len(given) == 2 else (given, name)


def _factored(
    name: str, a: DistributedArray, lower: bool, overwrite_a: bool, layout: Layout, like: Layout, clean: bool
) -> DistributedArray:
    """The Cholesky factor; with `clean`, zeros in the other triangle."""
    problem = Problem(name, {"a": a}, square, layout=layout, like=like, options=("lower", bool(lower)))
    matrix = problem.moved("a", overwrite=overwrite_a)
    problem.run(lambda: pxpotrf(matrix, "L" if lower else "U"))
    if clean:
        keep_triangle(matrix, lower)
    return problem.given_back(matrix)


def keep_triangle(matrix: DistributedArray, lower: bool) -> None:
    """Write zeros outside one triangle, or trapezoid. Not collective."""
    local, desc = matrix.local, matrix.desc
    if local is not None and desc.coords is not None:
        below = desc.global_indices(0)[:, None] - desc.global_indices(1)[None, :]
        local[below < 0 if lower else below > 0] = 0


def diagonal_of(matrix: DistributedArray) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """What this rank has of the diagonal: global indices, ascending, and elements. Not collective."""
    indices, rows, columns = diagonal_places(matrix.desc)
    return indices, np.zeros(0) if matrix.local is None else matrix.local[rows, columns]


@routine
def cholesky(
    a: DistributedArray,
    lower: bool = False,
    *,
    overwrite_a: bool = False,
    layout: Layout = None,
    like: Layout = None,
) -> DistributedArray:
    """Cholesky factor of a Hermitian positive definite matrix, as `scipy.linalg.cholesky`. Collective, as `solve`.

    Parameters
    ----------
    a, overwrite_a, layout, like
        As for `solve`; only one triangle is read.
    lower : bool
        A = L L^H, or by default A = U^H U.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is not positive definite; says which leading minor. On all ranks.
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """
    return _factored("cholesky", a, lower, overwrite_a, layout, like, True)


@routine
def cho_factor(
    a: DistributedArray,
    lower: bool = False,
    *,
    overwrite_a: bool = False,
    layout: Layout = None,
    like: Layout = None,
) -> tuple[DistributedArray, bool]:
    """Cholesky factor for `cho_solve`, as `scipy.linalg.cho_factor`. Collective, as `solve`.

    Parameters and errors are those of `cholesky`.

    Returns
    -------
    c : DistributedArray
        The factor in one triangle; what is in the other one means nothing.
    lower : bool
        Which one it is.
    """
    return _factored("cho_factor", a, lower, overwrite_a, layout, like, False), bool(lower)


@routine
def cho_solve(
    c_and_lower: tuple[DistributedArray, bool],
    b: DistributedArray,
    *,
    overwrite_b: bool = False,
    layout: Layout = None,
    like: Layout = None,
) -> DistributedArray:
    """Solve A X = B with what `cho_factor` returned, as `scipy.linalg.cho_solve`. Collective, as `solve`.

    Parameters
    ----------
    c_and_lower : tuple
        What `cho_factor` returned, or (`cholesky`'s result, lower); it is not changed.
    b, overwrite_b, layout, like
        As for `solve`.

    Raises
    ------
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """
    c, lower = _two("c_and_lower", c_and_lower)
    operands, options = {"c": c, "b": b}, ("lower", bool(lower))
    problem = Problem("cho_solve", operands, _system, layout=layout, like=like, vectors=("b",), options=options)
    matrix, sides = problem.moved("c", read_only=True), problem.moved("b", overwrite=overwrite_b)
    problem.run(lambda: pxpotrs(matrix, sides, "L" if lower else "U"))
    return problem.given_back(sides)


@routine
def inv(
    a: DistributedArray, *, overwrite_a: bool = False, layout: Layout = None, like: Layout = None
) -> DistributedArray:
    """Inverse of a matrix, as `numpy.linalg.inv`. Collective, as `solve`.

    Parameters and errors are those of `solve`; by default the result is in the layout of `a`.
    """
    problem = Problem("inv", {"a": a}, square, layout=layout, like=like)
    matrix = problem.moved("a", overwrite=overwrite_a)
    pivots = _lu_factored(problem, matrix)
    problem.run(lambda: pxgetri(matrix, pivots))
    return problem.given_back(matrix)


class SlogdetResult(NamedTuple):
    """What `slogdet` returns, on every rank.

    Attributes
    ----------
    sign : number
        Of the determinant; of a complex one its value divided by its absolute value. 0 for a singular matrix.
    logabsdet : float
        Natural logarithm of its absolute value; -inf for a singular matrix.
    """

    sign: Any
    logabsdet: Any


@routine
def slogdet(a: DistributedArray, *, overwrite_a: bool = False, layout: Layout = None) -> SlogdetResult:
    """Sign and logarithm of the determinant, as `numpy.linalg.slogdet`. Collective, as `solve`.

    Parameters
    ----------
    a, overwrite_a, layout
        As for `solve`.

    Returns
    -------
    SlogdetResult
        `sign` and `logabsdet`, on every rank.

    Raises
    ------
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """
    return _slogdet("slogdet", a, overwrite_a, layout)


@routine
def det(a: DistributedArray, *, overwrite_a: bool = False, layout: Layout = None) -> Any:
    """Determinant, as `numpy.linalg.det`, on every rank. Collective, as `solve`.

    Parameters and errors are those of `slogdet`.
    """
    sign, logarithm = _slogdet("det", a, overwrite_a, layout)
    with np.errstate(over="ignore"):
        return sign * np.exp(logarithm)


def _slogdet(name: str, a: DistributedArray, overwrite_a: bool, layout: Layout) -> SlogdetResult:
    problem = Problem(name, {"a": a}, square, layout=layout)
    matrix = problem.moved("a", overwrite=overwrite_a)
    number, real = problem.dtype.type, np.zeros(0, problem.dtype).real.dtype.type

    def work() -> tuple[Any, Any] | None:
        desc = matrix.desc
        if pivots is None or desc.coords is None:
            return None
        rows, (_, diagonal) = desc.global_indices(0), diagonal_of(matrix)
        exchanges = np.count_nonzero(pivots[: rows.size] != rows + 1) if desc.coords[1] == 0 else 0
        sizes = np.abs(diagonal)
        with np.errstate(invalid="ignore"):  # of infs, with NaN for a sign
            signs = diagonal / sizes
        return (-1) ** int(exchanges) * np.prod(signs), np.sum(np.log(sizes.astype(np.float64)))

    def is_zero() -> bool:
        return matrix.local is not None and 0 in diagonal_of(matrix)[1]

    def is_finite() -> bool:
        return matrix.local is None or bool(np.isfinite(matrix.local).all())

    try:
        pivots = _lu_factored(problem, matrix)
    except np.linalg.LinAlgError:
        told = problem.run(lambda: (is_zero(), is_finite()), lambda values: values)
        if any(zero for zero, _ in told) or all(finite for _, finite in told):
            return SlogdetResult(number(0), real(-np.inf))
        return SlogdetResult(number(np.nan), real(np.nan))
    told = problem.run(work, lambda values: [part for part in values if part is not None])
    return SlogdetResult(number(np.prod([part[0] for part in told])), real(sum(part[1] for part in told)))
