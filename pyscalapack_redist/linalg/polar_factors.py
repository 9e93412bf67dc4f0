"""Polar decomposition, by singular values: a factor with orthonormal columns or rows, and a positive semidefinite one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from .attempt import Problem
from .bidiagonal import Triplets
from .call import MatrixOptions, RoutineCall, routine
from .check import Check, Claim
from .decompositions import copy_corner, order_claim, orthogonal_claim, product_claim
from .kernels import pxgemm
from .matrix_parts import local_elements
from .operands import ShapeAndLayout, shaped_like
from .place import Place
from .singular_values import Decompose, attempt
from .systems import scale_back
from .tall import Slabs, polar_by_tree

SIDES = ("right", "left")


class PolarResult(NamedTuple):
    """Result of `polar`.

    Attributes
    ----------
    U : DistributedArray
        Of the shape of A, with orthonormal columns, or rows where A is wide.
    P : DistributedArray
        Hermitian and positive semidefinite: A = U P, or A = P U with `side="left"`.
    """

    U: DistributedArray
    P: DistributedArray


class Polar(NamedTuple):
    """Both factors, with the singular values and vectors by which the Hermitian one is made: V^H, or U with the left side."""

    unitary: DistributedArray
    hermitian: DistributedArray
    values: NDArray[Any]
    vectors: DistributedArray


@routine
def polar(
    call: RoutineCall,
    a: DistributedArray,
    side: Literal["right", "left"] = "right",
    **options: Unpack[MatrixOptions],
) -> PolarResult:
    """Polar decomposition, as `scipy.linalg.polar`. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        A matrix of m x n elements, in any layout.
    side : {"right", "left"}
        A = U P with P of n x n, or A = P U with P of m x m. For m >= n the right one is thin, and computed by QR where
        `svd` without full matrices is.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`: as for all routines of `linalg`.

    Returns
    -------
    PolarResult
        `U` and `P`, in the blocks and on the grid of `a`.

    Raises
    ------
    numpy.linalg.LinAlgError
        A singular value did not converge.
    ValueError
        `side` is not one of these.
    """

    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        if side not in SIDES:
            raise ValueError(f"side = {side!r} must be one of {', '.join(SIDES)}")
        order = a.shape[side == "right"]
        return a.shape, shaped_like(a.desc, (order, order))

    problem = Problem(call, {"a": a}, check_arguments)
    exponent, is_right = problem.operands.exponent("a"), side == "right"

    def work(place: Place, decompose: Decompose) -> tuple[DistributedArray, DistributedArray]:
        verify = Check(place, scaled=True)
        y = verify.vectors(a.shape[1])
        verify.add_operand("a", right=y, exponent=exponent)
        matrix = place.move("a", exponent=exponent)
        if isinstance(place, Slabs):
            factors = Polar(*polar_by_tree(place, matrix))
        else:
            factors = _from_triplets(place, decompose(place, matrix, False), is_right)
        _require_polar(verify, factors, is_right, y)
        scale_back(place, factors.hermitian, np.full(factors.hermitian.shape[1], exponent))
        return factors.unitary, factors.hermitian

    u, p = attempt(problem, a.shape, work, " and p?gemm", complete=not is_right)
    return PolarResult(problem.to_result(u, shaped_like(a.desc, a.shape)), problem.to_result(p))


def _from_triplets(place: Place, triplets: Triplets, is_right: bool) -> Polar:
    u, values, vh = triplets
    vectors, order = (vh, vh.shape[1]) if is_right else (u, u.shape[0])
    unitary, hermitian = place.zeros((u.shape[0], vh.shape[1])), place.zeros((order, order))
    scaled = place.zeros((vectors.shape[0], vectors.shape[1]))

    def work() -> None:
        copy_corner(vectors, scaled)
        rows, columns, local = local_elements(scaled)
        pxgemm(u, vh, unitary)
        if is_right:
            local *= values[rows, None]
            pxgemm(vh, scaled, hermitian, trans_a="C")
        else:
            local *= values[columns]
            pxgemm(scaled, u, hermitian, trans_b="C")

    place.run(work)
    return Polar(unitary, hermitian, values, vectors)


def _require_polar(check: Check, factors: Polar, is_right: bool, y: NDArray[Any]) -> None:
    """Require A y by both factors, that they are orthogonal and Hermitian, and that the values are not negative. Collective.

    The product "a" of A y must have been added.
    """
    if not check.active:
        return
    unitary, hermitian, values, vectors = factors
    is_thin = unitary.shape[0] >= unitary.shape[1]
    few = check.vectors(min(unitary.shape), 1)
    z, of_values = check.vectors(hermitian.shape[0], 2), check.vectors(values.size, 3)

    # first products
    _add(check, "orthogonal", unitary, few, adjoint=not is_thin)
    check.add("p", hermitian, right=z)
    check.add("vectors", vectors, *((z, of_values) if is_right else (of_values, z)))
    check.add("inner", hermitian if is_right else unitary, right=y)
    first = check.sums()

    # products with these
    _add(check, "orthogonal", unitary, first["orthogonal"].product, adjoint=is_thin)
    check.add("outer", unitary if is_right else hermitian, right=first["inner"].right)
    parts, back = (first["vectors"].right, first["vectors"].left) if is_right else first["vectors"][1::-1]
    _add(check, "scaled", vectors, values[:, None] * parts, adjoint=is_right)
    _add(check, "vectors", vectors, back, adjoint=not is_right)
    product, shape = "U (P y) = A y" if is_right else "P (U y) = A y", unitary.shape

    def make_claims(sums: Any) -> Iterator[Claim]:
        yield product_claim(check, product, sums["outer"].right, first["a"], shape)
        yield product_claim(
            check, "P is made of the singular values", sums["scaled"].product, first["p"]._replace(norm=first["a"].norm), shape
        )
        yield orthogonal_claim(check, "U^H (U y) = y", sums["orthogonal"].product, few)
        yield orthogonal_claim(check, "the singular vectors are orthogonal", sums["vectors"].product, of_values)
        yield order_claim("the singular values descend from a number that is not negative", -values, values)

    check.require(make_claims)


def _add(check: Check, name: str, matrix: DistributedArray, x: NDArray[Any], *, adjoint: bool) -> None:
    """Add the product of a matrix, or of its adjoint, with vectors."""
    check.add(name, matrix, right=None if adjoint else x, left=x if adjoint else None)
