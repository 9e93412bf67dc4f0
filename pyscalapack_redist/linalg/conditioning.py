"""Condition numbers, ranks and pseudo-inverses, of matrices of any shape by their singular values."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from ..distributed_array import DistributedArray
from ..scalapack.calls import SingularError
from .attempt import Problem
from .call import ReadOptions, ResultOptions, RoutineCall, routine
from .check import Check, Claim, Sums
from .kernels import pxgemm
from .matrix_parts import local_elements
from .operands import ShapeAndLayout, check_any_matrix, check_square_matrix, shaped_like
from .place import Place
from .products import PRODUCT, norm
from .singular_values import (
    Decompose,
    attempt,
    check_tolerance,
    relative_tolerance,
    require_triplets,
    singular_values,
)
from .systems import inv, scale_back
from .tall import Slabs, times_adjoint

BY_INVERSE = ("fro", 1, np.inf)


@routine
def cond(call: RoutineCall, a: DistributedArray, p: Any = None, **options: Unpack[ReadOptions]) -> np.floating[Any]:
    """Condition number of a matrix, as `numpy.linalg.cond`, on every rank. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout; square with "fro", 1 and inf.
    p : {None, 2, -2, "fro", 1, inf}
        Which norm. None and 2: the largest singular value divided by the least, -2 the inverse of that; the others: the
        norms of `a` and of its inverse multiplied.
    **options
        `check_finite`, `check`, `layout`: as for all routines of `linalg`.

    Returns
    -------
    number
        inf for a singular matrix.

    Raises
    ------
    numpy.linalg.LinAlgError
        `a` has no elements, or a singular value did not converge.
    ValueError
        `p` is not one of these.
    """

    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        if p not in (None, 2, -2, *BY_INVERSE):
            raise ValueError(f"p = {p!r} must be one of None, 2, -2, {', '.join(map(repr, BY_INVERSE))}")
        if 0 in a.shape:
            raise np.linalg.LinAlgError(f"a has shape {a.shape}: an array without elements has no condition number")
        return check_square_matrix(a) if p in BY_INVERSE else check_any_matrix(a)

    problem = Problem(call, {"a": a}, check_arguments)
    real: type[np.floating[Any]] = np.zeros(0, problem.dtype).real.dtype.type
    if p in BY_INVERSE:
        work: dict[str, Any] = {name: value for name, value in options.items() if name != "check_finite"}
        try:
            inverse = inv(a, **options)
        except SingularError:
            return real(np.inf)
        return real(norm(a, p, **work) * norm(inverse, p, **work))
    values = singular_values(problem)
    ratio = values[-1] / values[0] if p == -2 else values[0] / values[-1]
    return real(np.inf if np.isnan(ratio) and np.isfinite(values).all() else ratio)


@routine
def matrix_rank(
    call: RoutineCall,
    a: DistributedArray,
    tol: float | None = None,
    *,
    rtol: float | None = None,
    **options: Unpack[ReadOptions],
) -> int:
    """Rank of a matrix by its singular values, as `numpy.linalg.matrix_rank`, on every rank. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout.
    tol : float, optional
        Singular values up to `tol` count as zero.
    rtol : float, optional
        In place of `tol`, relative to the largest singular value; default, or if negative: the dtype's eps times
        max(m, n).
    **options
        `check_finite`, `check`, `layout`: as for all routines of `linalg`.

    Raises
    ------
    numpy.linalg.LinAlgError
        A singular value did not converge.
    ValueError
        `tol` or `rtol` is not a number, or both are used.
    """

    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        if tol is not None and rtol is not None:
            raise ValueError(f"tol = {tol!r} and rtol = {rtol!r}: give one of them")
        check_tolerance("tol", tol)
        check_tolerance("rtol", rtol)
        return check_any_matrix(a)

    problem = Problem(call, {"a": a}, check_arguments)
    values = singular_values(problem)
    if tol is None:
        least = values.max(initial=0) * relative_tolerance(rtol, problem.dtype, a.shape)
    else:
        least = np.ldexp(float(tol), -problem.operands.exponent("a"))
    return int(np.count_nonzero(values > least))


@routine
def pinv(
    call: RoutineCall, a: DistributedArray, rcond: float | None = None, **options: Unpack[ResultOptions]
) -> DistributedArray:
    """Pseudo-inverse by singular values, as `numpy.linalg.pinv`. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        A matrix of m x n elements, in any layout, or a stack of them.
    rcond : float, optional
        Singular values up to `rcond` times the largest count as zero; default, or if negative: the dtype's eps times
        max(m, n), as SciPy's.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`, `like`: as for all routines of `linalg`.
        By default the result is in the blocks and on the grid of `a`.

    Returns
    -------
    DistributedArray
        Of n x m elements.

    Raises
    ------
    numpy.linalg.LinAlgError
        A singular value did not converge.
    ValueError
        `rcond` is not a number.
    """

    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        check_tolerance("rcond", rcond)
        return a.shape, shaped_like(a.desc, a.shape[::-1])

    problem = Problem(call, {"a": a}, check_arguments)
    exponent = problem.operands.exponent("a")

    def work(place: Place, decompose: Decompose) -> DistributedArray:
        verify = Check(place, scaled=True)
        (m, n), x = a.shape, verify.vectors(a.shape[1])
        verify.add_operand("a", right=x, exponent=exponent)
        matrix = place.move("a", exponent=exponent)
        y = verify.vectors(m, 3)
        u, values, vh = decompose(place, matrix, False)
        used = values > values.max(initial=0) * relative_tolerance(rcond, place.dtype, a.shape)
        inverses = np.divide(1, values, out=np.zeros_like(values), where=used)
        require_triplets(verify, u, values, vh, x)
        verify.add("u", u, left=y)
        before = verify.sums()
        if verify.active:
            verify.add("vh", vh, left=inverses[:, None] * before["u"].left)

        with place.collect_errors():
            rows, _, local = local_elements(vh)
            local *= inverses[rows, None]
        if isinstance(place, Slabs):
            pseudo_inverse, sums = times_adjoint(place, vh, u), verify.sums()
        else:
            pseudo_inverse = place.zeros((n, m))
            _, sums = verify.run(lambda: pxgemm(vh, u, pseudo_inverse, trans_a="C", trans_b="C"))
        verify.add("x", pseudo_inverse, right=y)

        def make_claims(last: dict[str, Sums]) -> list[Claim]:
            bound = verify.bound(max(m, n), PRODUCT) * np.linalg.norm(inverses) * max(1, before["u"].norm)
            return [Claim.equal("pinv(A) y = V (inv(S) (U^H y))", last["x"].right, sums["vh"].left, bound)]

        verify.require(make_claims)
        scale_back(place, pseudo_inverse, np.full(m, -exponent))
        return pseudo_inverse

    return problem.to_result(attempt(problem, a.shape, work, " and p?gemm"))
