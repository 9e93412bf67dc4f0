"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices, and of pairs of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..errors import ArrayError
from ..layout.blockcyclic import whole_number
from ..layout.descriptor import Descriptor
from ..scalapack import pxpotrf, pxsyev, pxsyevd, pxsygst, pxtrmm, pxtrsm
from .layouts import routine, shaped_like
from .problem import Layout, Problem
from .systems import square

__all__ = ["EighResult", "eigh"]


class EighResult(NamedTuple):
    """What `eigh` returns.

    Attributes
    ----------
    eigenvalues : ndarray
        Ascending, on every rank.
    eigenvectors : DistributedArray
        Column k belongs to value k.
    """

    eigenvalues: NDArray[Any]
    eigenvectors: DistributedArray


@routine
def eigh(
    a: DistributedArray,
    b: DistributedArray | None = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    subset_by_index: tuple[int, int] | None = None,
    type: int = 1,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    layout: Layout = None,
    like: Layout = None,
) -> Any:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian matrix, as `scipy.linalg.eigh`. Collective, as `solve`.

    With `b` the problem is a generalized one: B is factored by p?potrf, p?sygst or p?hegst makes the problem a standard
    one, and p?trsm or p?trmm brings the vectors back.

    Parameters
    ----------
    a, overwrite_a, overwrite_b, layout, like
        As for `solve`; `like` is of the eigenvectors, by default the blocks and the grid of `a`.
    b : DistributedArray, optional
        A symmetric or Hermitian, positive definite matrix of the shape of `a`.
    lower : bool
        Which triangle of both is read.
    eigvals_only : bool
        Whether only the eigenvalues are returned, which p?syev or p?heev computes; the vectors are p?syevd's or p?heevd's.
    subset_by_index : (int, int), optional
        First and last of the eigenvalues that are returned, ascending and counted from 0. The others are computed all
        the same: p?syevr, which would not, returns wrong vectors, or does not return.
    type : {1, 2, 3}
        With `b`: A x = w B x, A B x = w x, or B A x = w x.

    Returns
    -------
    EighResult, or ndarray with `eigvals_only`
        `eigenvalues` on every rank, and `eigenvectors`: orthonormal; with `b`, X^H B X is the identity for the types 1
        and 2, and X^H inv(B) X for 3.

    Raises
    ------
    numpy.linalg.LinAlgError
        An eigenvalue did not converge, or `b` is not positive definite. On all ranks.
    ValueError
        A matrix has infs or NaNs, or `type` or `subset_by_index` is not as above.
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """

    def check(a: DistributedArray, b: DistributedArray | None = None) -> tuple[tuple[int, ...], Descriptor]:
        square(a)
        if b is not None and b.shape != a.shape:
            raise ArrayError(f"b has shape {b.shape}: it must have {a.shape}, that of a")
        if type not in (1, 2, 3):
            raise ValueError(f"type = {type!r} must be 1, 2 or 3")
        first, last = _subset(subset_by_index, a.shape[0])
        return a.shape, shaped_like(a.desc, (a.shape[0], last - first))

    operands = {"a": a} if b is None else {"a": a, "b": b}
    options = (bool(lower), bool(eigvals_only), subset_by_index, type, b is not None)
    problem = Problem("eigh", operands, check, layout=layout, like=like, options=options)
    first, last = _subset(subset_by_index, a.shape[0])
    matrix = problem.moved("a", overwrite=overwrite_a)
    problem.must_be_finite("a", matrix)
    factor = None if b is None else problem.moved("b", overwrite=overwrite_b)
    if factor is not None:
        problem.must_be_finite("b", factor)
    triangle = "L" if lower else "U"
    vectors = matrix

    def work() -> NDArray[Any] | None:
        nonlocal vectors
        scale = 1.0 if factor is None else _reduced(matrix, factor, triangle, type)
        if eigvals_only:
            values = pxsyev(matrix, triangle)
        else:
            values, local = pxsyevd(matrix, triangle)
            vectors = DistributedArray._made(matrix.desc, local, problem.dtype)
            if factor is not None:
                _brought_back(vectors, factor, triangle, type)
        return values if values is None or scale == 1 else scale * values

    values: NDArray[Any] = problem.run(work)[first:last]
    if eigvals_only:
        return values
    if (first, last) != (0, a.shape[0]):
        vectors = vectors[:, first:last]
    return EighResult(values, problem.given_back(vectors))


def _subset(given: Any, n: int) -> tuple[int, int]:
    """The eigenvalues that are asked for, from the first to before the last."""
    if given is None:
        return 0, n
    try:
        first, last = (whole_number("subset_by_index", index, 0) for index in given)
    except (TypeError, ValueError) as caught:
        raise ValueError(f"subset_by_index = {given!r} must be two integers, the first and the last index") from caught
    if not first <= last < n:
        raise ValueError(f"subset_by_index = {given!r} must be (first, last) with 0 <= first <= last < {n}")
    return first, last + 1


def _reduced(matrix: DistributedArray, factor: DistributedArray, uplo: str, type: int) -> float:
    """Make the problem a standard one; by what its eigenvalues are to be multiplied."""
    try:
        pxpotrf(factor, uplo)
    except np.linalg.LinAlgError as caught:
        raise np.linalg.LinAlgError(f"b: {caught}") from caught
    return pxsygst(matrix, factor, uplo, problem=type)


def _brought_back(vectors: DistributedArray, factor: DistributedArray, uplo: str, type: int) -> None:
    """X = inv(L^H) Y or inv(U) Y for the types 1 and 2, and L Y or U^H Y for 3; as p?sygvx does."""
    back, trans = (pxtrmm, "NC") if type == 3 else (pxtrsm, "CN")
    back(factor, vectors, uplo, trans["LU".index(uplo)])
