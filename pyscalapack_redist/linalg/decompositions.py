"""Eigenvalues, QR and singular value decompositions, and least squares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..errors import ArrayError
from ..layout.descriptor import Descriptor
from ..scalapack import pxgels, pxgeqrf, pxgesvd, pxorgqr, pxsyevd
from .layouts import shaped_like
from .problem import Layout, Problem
from .systems import diagonal_of, keep_triangle, square

__all__ = ["EighResult", "LstsqResult", "QRResult", "SVDResult", "eigh", "lstsq", "qr", "svd"]

MODES = {"reduced": "reduced", "economic": "reduced", "complete": "complete", "full": "complete", "r": "r"}


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


class QRResult(NamedTuple):
    """What `qr` returns.

    Attributes
    ----------
    Q, R : DistributedArray
        A = Q R.
    """

    Q: DistributedArray
    R: DistributedArray


class SVDResult(NamedTuple):
    """What `svd` returns.

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
    S: NDArray[Any]
    Vh: DistributedArray


class LstsqResult(NamedTuple):
    """What `lstsq` returns.

    Attributes
    ----------
    x : DistributedArray
        The solution.
    residuals : ndarray
        For each right-hand side the sum of squares of B - A X, on every rank; empty where A is not tall.
    rank : int
        That of A, which is full.
    singular_values : None
        p?gels does not compute them.
    """

    x: DistributedArray
    residuals: NDArray[Any]
    rank: int
    singular_values: None


def _any_matrix(a: DistributedArray) -> tuple[tuple[int, ...], Descriptor]:
    return a.shape, shaped_like(a.desc, a.shape)


def eigh(
    a: DistributedArray,
    lower: bool = True,
    eigvals_only: bool = False,
    *,
    overwrite_a: bool = False,
    layout: Layout = None,
    like: Layout = None,
) -> Any:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian matrix, as `scipy.linalg.eigh`. Collective, as `solve`.

    Parameters
    ----------
    a, overwrite_a, layout, like
        As for `solve`; `like` is of the eigenvectors, by default the layout of `a`.
    lower : bool
        Which triangle is read.
    eigvals_only : bool
        Whether only the eigenvalues are returned. p?syevd computes the vectors all the same.

    Returns
    -------
    EighResult, or ndarray with `eigvals_only`
        `eigenvalues` on every rank, and `eigenvectors`.

    Raises
    ------
    numpy.linalg.LinAlgError
        An eigenvalue did not converge. On all ranks.
    ValueError
        The matrix has infs or NaNs.
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """
    options = ("lower", bool(lower), "eigvals_only", bool(eigvals_only))
    problem = Problem("eigh", {"a": a}, square, layout=layout, like=like, options=options)
    matrix = problem.moved("a", overwrite=overwrite_a)
    problem.must_be_finite("a", matrix)
    vectors = matrix

    def work() -> NDArray[Any] | None:
        nonlocal vectors
        values, local = pxsyevd(matrix, "L" if lower else "U")
        vectors = DistributedArray._made(matrix.desc, local, problem.dtype)
        return values

    values: NDArray[Any] = problem.run(work)
    return values if eigvals_only else EighResult(values, problem.given_back(vectors))


def qr(a: DistributedArray, mode: str = "reduced", *, overwrite_a: bool = False, layout: Layout = None) -> Any:
    """QR factorisation, as `numpy.linalg.qr` and `scipy.linalg.qr`. Collective, as `solve`.

    Parameters
    ----------
    a, overwrite_a, layout
        As for `solve`; of m x n elements.
    mode : {"reduced", "complete", "r"}
        Q of m x min(m, n); or of m x m; or only R. SciPy's names "economic" and "full" are taken as well.

    Returns
    -------
    QRResult, or DistributedArray with mode "r"
        `Q` and `R`, in the blocks and on the grid of `a`.

    Raises
    ------
    ValueError
        `mode` is none of these.
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """

    def check(a: DistributedArray) -> tuple[tuple[int, ...], Descriptor]:
        if mode not in MODES:
            raise ValueError(f"mode = {mode!r} must be one of {', '.join(MODES)}")
        return _any_matrix(a)

    problem = Problem("qr", {"a": a}, check, layout=layout, options=("mode", mode))
    matrix = problem.moved("a", overwrite=overwrite_a)
    m, n = matrix.shape
    few = min(m, n)
    columns = m if MODES[mode] == "complete" else few
    r, q = problem.zeros((columns if mode != "r" else few, n)), problem.zeros((m, columns))

    def work() -> None:
        tau = pxgeqrf(matrix)
        copy_corner(matrix, r)
        keep_triangle(r, False)
        if mode != "r":
            copy_corner(matrix, q)
            pxorgqr(q, tau, columns, few)

    problem.run(work)
    upper = problem.given_back(r, shaped_like(a.desc, r.shape))
    return upper if mode == "r" else QRResult(problem.given_back(q, shaped_like(a.desc, q.shape)), upper)


def copy_corner(source: DistributedArray, target: DistributedArray) -> None:
    """Copy what both have, from (0, 0) on, between layouts that differ in their shapes alone. Not collective."""
    if source.local is not None and target.local is not None:
        rows, columns = (min(sizes) for sizes in zip(source.local.shape, target.local.shape, strict=True))
        target.local[:rows, :columns] = source.local[:rows, :columns]


def svd(
    a: DistributedArray,
    full_matrices: bool = True,
    compute_uv: bool = True,
    *,
    overwrite_a: bool = False,
    layout: Layout = None,
) -> Any:
    """Singular value decomposition, as `numpy.linalg.svd`. Collective, as `solve`.

    Parameters
    ----------
    a, overwrite_a, layout
        As for `solve`; of m x n elements.
    full_matrices : bool
        Whether U is of m x m and Vh of n x n; otherwise of m x min(m, n) and min(m, n) x n.
    compute_uv : bool
        Whether vectors are computed.

    Returns
    -------
    SVDResult, or ndarray without `compute_uv`
        `U`, `S` on every rank, and `Vh`; U and Vh in the blocks and on the grid of `a`.

    Raises
    ------
    numpy.linalg.LinAlgError
        A singular value did not converge. On all ranks.
    ValueError
        The matrix has infs or NaNs.
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """
    options = ("full_matrices", bool(full_matrices), "compute_uv", bool(compute_uv))
    problem = Problem("svd", {"a": a}, _any_matrix, layout=layout, options=options)
    matrix = problem.moved("a", overwrite=overwrite_a)
    problem.must_be_finite("a", matrix)
    m, n = matrix.shape
    few = min(m, n)
    u, vh = problem.zeros((m, few)), problem.zeros((few, n))

    def work() -> NDArray[Any] | None:
        found = pxgesvd(matrix, vectors=bool(compute_uv))
        for made, into in ((found.left, u.local), (found.right, vh.local)):
            if made is not None and into is not None:
                into[...] = made
        return found.values

    values: NDArray[Any] = problem.run(work)
    if not compute_uv:
        return values
    if full_matrices and m > few:
        u = _completed(problem, u)
    if full_matrices and n > few:
        vh = problem.turned(_completed(problem, problem.turned(vh)))
    return SVDResult(
        problem.given_back(u, shaped_like(a.desc, u.shape)),
        values,
        problem.given_back(vh, shaped_like(a.desc, vh.shape)),
    )


def _completed(problem: Problem, columns: DistributedArray) -> DistributedArray:
    """Orthonormal columns, with others that make the matrix square and unitary."""
    m, few = columns.shape
    reflectors, whole = problem.zeros((m, few)), problem.zeros((m, m))
    copy_corner(columns, reflectors)

    def work() -> None:
        tau = pxgeqrf(reflectors)
        copy_corner(reflectors, whole)
        pxorgqr(whole, tau, m, few)
        copy_corner(columns, whole)  # what p?geqrf has made of them may differ in sign

    problem.run(work)
    return whole


def lstsq(
    a: DistributedArray,
    b: DistributedArray,
    *,
    overwrite_a: bool = False,
    layout: Layout = None,
    like: Layout = None,
) -> LstsqResult:
    """Least squares with a matrix of full rank, as `numpy.linalg.lstsq`, by p?gels. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        Of m x n elements. If it is wide, the solution is the one of least norm.
    b, overwrite_a, layout
        As for `solve`.
    like : Descriptor or DistributedArray, optional
        Layout of the solution; default: the blocks and the grid of `b`.

    Returns
    -------
    LstsqResult
        `x`, and what NumPy returns beside it; without singular values.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is not of full rank: a diagonal element of its factor is zero but for rounding. On all ranks.
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """

    def check(a: DistributedArray, b: DistributedArray) -> tuple[tuple[int, ...], Descriptor]:
        if b.shape[0] != a.shape[0]:
            raise ArrayError(f"b has shape {b.shape} and a {a.shape}: b must have {a.shape[0]} rows, as many as a")
        return a.shape, shaped_like(b.desc, (a.shape[1], *b.shape[1:]))

    problem = Problem("lstsq", {"a": a, "b": b}, check, layout=layout, like=like, vectors=("b",))
    m, n = a.shape
    matrix = problem.moved("a", overwrite=overwrite_a)
    sides = problem.moved("b", rows=max(m, n))
    desc, count = sides.desc, sides.shape[1]
    real = np.zeros(0, problem.dtype).real.dtype

    def work() -> tuple[NDArray[Any], NDArray[Any]] | None:
        pxgels(matrix, sides)
        if desc.coords is None or sides.local is None or matrix.local is None:
            return None
        squares = np.zeros(count, real)
        below = sides.local[desc.global_indices(0) >= n]
        squares[desc.global_indices(1)] = (np.abs(below) ** 2).sum(axis=0)
        return squares, np.abs(diagonal_of(matrix)[1])

    def combined(told: list[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        known = [part for part in told if part is not None]
        return np.sum([part[0] for part in known], axis=0), np.concatenate([part[1] for part in known])

    squares, diagonal = problem.run(work, combined)
    if min(m, n) and not diagonal.min() > np.finfo(real).eps * max(m, n) * diagonal.max():
        raise np.linalg.LinAlgError(
            f"a is not of full rank {min(m, n)}: its factor has {diagonal.min():.2g} on the diagonal, beside "
            f"{diagonal.max():.2g}"
        )
    solution = DistributedArray(desc[:n], sides.local) if m > n else sides
    residuals = squares if m > n else np.zeros(0, real)
    return LstsqResult(problem.given_back(solution), residuals, min(m, n), None)
