"""Least squares, of matrices of full rank by their QR factors, of others by their singular values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..layout.descriptor import Descriptor
from ..scalapack import pxgels, pxgemm, pxgesvd
from .layouts import check_rows, routine, shaped_like
from .problem import Layout, Problem
from .systems import diagonal_of

__all__ = ["LstsqResult", "lstsq"]

METHODS = ("qr", "svd")


class LstsqResult(NamedTuple):
    """What `lstsq` returns.

    Attributes
    ----------
    x : DistributedArray
        The solution.
    residuals : ndarray
        For each right-hand side the sum of squares of B - A X, on every rank; empty where A is not tall, or not of full
        rank.
    rank : int
        That of A.
    singular_values : ndarray or None
        Those of A, descending, on every rank; None with the method "qr", which does not compute them.
    """

    x: DistributedArray
    residuals: NDArray[Any]
    rank: int
    singular_values: NDArray[Any] | None


@routine
def lstsq(
    a: DistributedArray,
    b: DistributedArray,
    rcond: float | None = None,
    *,
    method: str = "qr",
    overwrite_a: bool = False,
    layout: Layout = None,
    like: Layout = None,
) -> LstsqResult:
    """Least squares, as `numpy.linalg.lstsq`. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        Of m x n elements. If there are many solutions, x is the one of least norm.
    b, overwrite_a, layout
        As for `solve`.
    rcond : float, optional
        With the method "svd", singular values up to `rcond` times the largest count as zero; default, or if negative:
        the dtype's eps times max(m, n).
    method : {"qr", "svd"}
        "qr": by p?gels, for matrices of full rank; others are an error. "svd": by p?gesvd, for any rank, as NumPy; it
        takes several times as long, and memory for U and V^H.
    like : Descriptor or DistributedArray, optional
        Layout of the solution; default: the blocks and the grid of `b`.

    Returns
    -------
    LstsqResult
        `x`, and what NumPy returns beside it.

    Raises
    ------
    numpy.linalg.LinAlgError
        "qr": the matrix is not of full rank, a diagonal element of its factor being zero but for rounding. "svd": a
        singular value did not converge. On all ranks.
    ValueError
        `method` is none of these, `rcond` is given with "qr" or is no number; `a` has infs or NaNs.
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """

    def check(a: DistributedArray, b: DistributedArray) -> tuple[tuple[int, ...], Descriptor]:
        if method not in METHODS:
            raise ValueError(f"method = {method!r} must be one of {', '.join(METHODS)}")
        if rcond is not None and method == "qr":
            raise ValueError(f'rcond = {rcond!r} is for singular values: pass method="svd" with it')
        if rcond is not None and not (isinstance(rcond, float | int | np.floating) and np.isfinite(rcond)):
            raise ValueError(f"rcond = {rcond!r} must be a finite number, or None")
        check_rows(a, b)
        return a.shape, shaped_like(b.desc, (a.shape[1], *b.shape[1:]))

    options = ("method", method, "rcond", None if rcond is None else repr(rcond))
    problem = Problem("lstsq", {"a": a, "b": b}, check, layout=layout, like=like, vectors=("b",), options=options)
    matrix = problem.moved("a", overwrite=overwrite_a)
    problem.must_be_finite("a", matrix)
    return _by_qr(problem, matrix) if method == "qr" else _by_svd(problem, matrix, -1 if rcond is None else rcond)


def _by_qr(problem: Problem, matrix: DistributedArray) -> LstsqResult:
    m, n = matrix.shape
    sides = problem.moved("b", rows=max(m, n))
    real = np.zeros(0, problem.dtype).real.dtype

    def work() -> tuple[NDArray[Any], NDArray[Any]] | None:
        # Without a column p?gels factors nothing.
        pxgels(matrix, sides if sides.shape[1] else problem.zeros((max(m, n), 1)))
        found = _squares(sides, n)
        return None if found is None else (found, np.abs(diagonal_of(matrix)[1]))

    def combined(told: list[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        known = [part for part in told if part is not None]
        return np.sum([part[0] for part in known], axis=0), np.concatenate([part[1] for part in known])

    squares, diagonal = problem.run(work, combined)
    if min(m, n) and not diagonal.min() > np.finfo(real).eps * max(m, n) * diagonal.max():
        raise np.linalg.LinAlgError(
            f"a is not of full rank {min(m, n)}: its factor has {diagonal.min():.2g} on the diagonal, beside "
            f'{diagonal.max():.2g}; method="svd" solves it'
        )
    solution = DistributedArray._made(sides.desc[:n], sides.local, problem.dtype) if m > n else sides
    residuals = squares if m > n else np.zeros(0, real)
    return LstsqResult(problem.given_back(solution), residuals, min(m, n), None)


def _by_svd(problem: Problem, matrix: DistributedArray, rcond: float) -> LstsqResult:
    """X = V inv(S) U^H B, with the singular values that are not zero; what is left of B is B - U U^H B."""
    m, n = matrix.shape
    sides = problem.moved("b")
    count, few = sides.shape[1], min(m, n)
    parts, solution = problem.zeros((few, count)), problem.zeros((n, count))
    real = np.zeros(0, problem.dtype).real.dtype
    smallest = float(np.finfo(real).eps * max(m, n)) if rcond < 0 else rcond
    whole = problem.layout((m, few)), problem.layout((few, n))

    def work() -> tuple[NDArray[Any], NDArray[Any]] | None:
        found = pxgesvd(matrix)
        left, right = (
            DistributedArray._made(desc, local, problem.dtype)
            for desc, local in zip(whole, (found.left, found.right), strict=True)
        )
        pxgemm(left, sides, parts, trans_a="C")
        if found.values is not None and parts.local is not None:
            used = found.values > smallest * found.values.max(initial=0)
            inverse = np.divide(1, found.values, out=np.zeros_like(found.values), where=used)
            pxgemm(left, parts, sides, alpha=-1, beta=1)
            parts.local[...] *= inverse[parts.desc.global_indices(0), None]
        pxgemm(right, parts, solution, trans_a="C")
        squares = _squares(sides, 0)
        return None if found.values is None or squares is None else (found.values, squares)

    def combined(told: list[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        known = [part for part in told if part is not None]
        return known[0][0], np.sum([part[1] for part in known], axis=0)

    values, squares = problem.run(work, combined)
    rank = int(np.count_nonzero(values > smallest * values.max(initial=0)))
    residuals = squares if m > n == rank else np.zeros(0, real)
    return LstsqResult(problem.given_back(solution), residuals, rank, values)


def _squares(sides: DistributedArray, first: int) -> NDArray[Any] | None:
    """This rank's part of the sums of squares of the columns, from a row on. Not collective."""
    desc = sides.desc
    if desc.coords is None or sides.local is None:
        return None
    below = sides.local[desc.global_indices(0) >= first]
    squares = np.zeros(sides.shape[1], below.real.dtype)
    squares[desc.global_indices(1)] = (np.abs(below) ** 2).sum(axis=0)
    return squares
