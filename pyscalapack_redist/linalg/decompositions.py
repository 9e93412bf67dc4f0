"""QR and singular value decompositions."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..layout.descriptor import Descriptor
from ..scalapack import pxgeqrf, pxgesvd, pxorgqr
from .layouts import routine, shaped_like
from .problem import Layout, Problem
from .systems import keep_triangle

__all__ = ["QRResult", "SVDResult", "qr", "svd"]

MODES = {"reduced": "reduced", "economic": "reduced", "complete": "complete", "full": "complete", "r": "r"}


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


def any_matrix(a: DistributedArray) -> tuple[tuple[int, ...], Descriptor]:
    return a.shape, shaped_like(a.desc, a.shape)


@routine
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
        if not isinstance(mode, str) or mode not in MODES:
            raise ValueError(f"mode = {mode!r} must be one of {', '.join(MODES)}")
        return any_matrix(a)

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


@routine
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
    problem = Problem("svd", {"a": a}, any_matrix, layout=layout, options=options)
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
