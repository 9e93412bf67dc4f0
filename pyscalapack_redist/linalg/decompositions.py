"""QR and singular value decompositions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..scalapack import pxgeqrf, pxgesvd, pxorgqr
from . import check as checks
from .check import Check, Claim, Sums
from .layouts import routine, shaped_like
from .problem import Checked, Layout, Problem
from .systems import keep_triangle

__all__ = ["QRResult", "SVDResult", "qr", "svd"]

# As in `systems`.
PRODUCT, ORTHOGONAL, SQUARES = 64.0, 16.0, 16.0
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


def any_matrix(a: DistributedArray) -> Checked:
    return a.shape, shaped_like(a.desc, a.shape)


@routine
def qr(
    a: DistributedArray,
    mode: str = "reduced",
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
    check: bool = True,
    layout: Layout = None,
) -> Any:
    """QR factorisation, as `numpy.linalg.qr` and `scipy.linalg.qr`. Collective, as `solve`.

    Parameters
    ----------
    a, overwrite_a, check_finite, check, layout
        As for `solve`; of m x n elements.
    mode : {"reduced", "complete", "r"}
        Q of m x min(m, n); or of m x m; or only R. SciPy's names "economic" and "full" are taken as well.

    Returns
    -------
    QRResult, or DistributedArray with mode "r"
        `Q` and `R`, in the blocks and on the grid of `a`.

    Raises
    ------
    numpy.linalg.LinAlgError
        What ScaLAPACK returned is no result. On all ranks.
    ValueError
        `mode` is none of these, or the matrix has infs or NaNs.
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """

    def check_arguments(a: DistributedArray) -> Checked:
        if not isinstance(mode, str) or mode not in MODES:
            raise ValueError(f"mode = {mode!r} must be one of {', '.join(MODES)}")
        return any_matrix(a)

    problem = Problem({"a": a}, check_arguments, options={"mode": mode})

    def work() -> tuple[DistributedArray, DistributedArray]:
        matrix = problem.moved("a", overwrite=overwrite_a)
        m, n = matrix.shape
        few = min(m, n)
        columns = m if MODES[mode] == "complete" else few
        r, q = problem.zeros((columns if mode != "r" else few, n)), problem.zeros((m, columns))
        verify = Check(problem)
        y, x = verify.vectors(n), verify.vectors(columns, 1)
        verify.add("a", matrix, right=y)
        first = verify.sums() if mode == "r" else {}
        if first:
            verify.add("h", matrix, left=first["a"].right)

        def factored() -> None:
            tau = pxgeqrf(matrix)
            copy_corner(matrix, r)
            keep_triangle(r, False)
            if mode != "r":
                copy_corner(matrix, q)
                pxorgqr(q, tau, columns, few)

        before = first | verify.run(factored)[1]
        verify.add("r", r, right=y)
        if mode != "r":
            verify.add("q", q, right=x)
        after = verify.sums()
        if not verify.active:
            return q, r
        norm = before["a"].norm
        if mode == "r":
            verify.add("r", r, left=after["r"].right)
            verify.hold(
                lambda sums: [
                    Claim(
                        "R^H (R y) = A^H (A y)",
                        checks.length(sums["r"].left - before["h"].left),  # type: ignore[operator]
                        verify.bound(max(m, n), PRODUCT) * norm**2,
                    )
                ]
            )
        else:
            verify.add("q", q, right=after["r"].right, left=after["q"].right)
            verify.hold(
                lambda sums: [
                    product_claim(verify, "Q (R y) = A y", sums["q"].right, before["a"], (m, n)),
                    orthogonal_claim(verify, "Q^H (Q y) = y", sums["q"].left, x),
                ]
            )
        return q, r

    q, r = problem.attempt(
        work, "geqrf" if mode == "r" else f"geqrf and p?{'un' if problem.dtype.kind == 'c' else 'or'}gqr"
    )
    upper = problem.given_back(r, shaped_like(a.desc, r.shape))
    return upper if mode == "r" else QRResult(problem.given_back(q, shaped_like(a.desc, q.shape)), upper)


def product_claim(check: Check, text: str, product: Any, a: Sums, shape: tuple[int, ...]) -> Claim:
    """Of a product of orthogonal factors with vectors, which is that of A."""
    return Claim(
        text, checks.length(product - a.right), check.bound(max(shape), PRODUCT) * check.scale(a.norm, max(shape))
    )


def orthogonal_claim(check: Check, text: str, product: Any, x: NDArray[Any]) -> Claim:
    """Of vectors that come back from a product with a factor and its transpose."""
    size = x.shape[0]
    return Claim(text, checks.length(product - x), check.bound(size, ORTHOGONAL) * float(size) ** 0.5)


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
    check_finite: bool = True,
    check: bool = True,
    layout: Layout = None,
) -> Any:
    """Singular value decomposition, as `numpy.linalg.svd`. Collective, as `solve`.

    Parameters
    ----------
    a, overwrite_a, check_finite, check, layout
        As for `solve`; of m x n elements. Values without vectors are checked by the sum of their squares, their order and
        their being finite, which is weaker.
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
        A singular value did not converge, or what ScaLAPACK returned is no result. On all ranks.
    ValueError
        The matrix has infs or NaNs.
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `solve`.
    """
    options = {"full_matrices": bool(full_matrices), "compute_uv": bool(compute_uv)}
    problem = Problem({"a": a}, any_matrix, options=options)
    exponent = problem.exponent("a")
    if not compute_uv:
        return scaled(singular_values(problem, overwrite_a), exponent)

    def work() -> tuple[DistributedArray, NDArray[Any], DistributedArray]:
        matrix = problem.moved("a", overwrite=overwrite_a, exponent=exponent)
        verify = Check(problem, scaled=True)
        y = verify.vectors(matrix.shape[1])
        verify.add("a", matrix, right=y)
        u, values, vh = decomposed(problem, matrix)
        if full_matrices and u.shape[0] > u.shape[1]:
            u = _completed(problem, u)
        if full_matrices and vh.shape[0] < vh.shape[1]:
            vh = problem.turned(_completed(problem, problem.turned(vh)))
        hold_triplets(verify, u, values, vh, y)
        return u, values, vh

    u, values, vh = problem.attempt(work, "gesvd")
    return SVDResult(
        problem.given_back(u, shaped_like(a.desc, u.shape)),
        scaled(values, exponent),
        problem.given_back(vh, shaped_like(a.desc, vh.shape)),
    )


def scaled(values: NDArray[Any], exponent: int | NDArray[np.int64]) -> NDArray[Any]:
    """Times a power of 2. Not collective."""
    with np.errstate(over="ignore"):
        return np.ldexp(values, exponent) if np.any(exponent) else values


def decomposed(problem: Problem, matrix: DistributedArray) -> tuple[DistributedArray, NDArray[Any], DistributedArray]:
    """U of m x min(m, n), all values on every rank, and V^H; the matrix is overwritten. Collective."""
    m, n = matrix.shape
    few = min(m, n)
    u, vh = problem.zeros((m, few)), problem.zeros((few, n))

    def work() -> NDArray[Any] | None:
        triplets = pxgesvd(matrix)
        for vectors, into in ((triplets.left, u.local), (triplets.right, vh.local)):
            if vectors is not None and into is not None:
                into[...] = vectors
        return triplets.values

    values: NDArray[Any] = problem.run(work)
    return u, values, vh


def hold_triplets(
    check: Check, u: DistributedArray, values: NDArray[Any], vh: DistributedArray, y: NDArray[Any]
) -> dict[str, Sums]:
    """U (s * (Vh y)) = A y, from "a" that was added before, and that U and Vh are orthogonal. Collective.

    Returns the sums of the first round: "vh" of Vh y among them.
    """
    if not check.active:
        return {}
    left, right = check.vectors(u.shape[1], 1), check.vectors(vh.shape[0], 2)
    check.add("u", u, right=left)
    check.add("vh", vh, right=y, left=right)
    first = check.sums()
    few = values.size
    product = np.zeros((u.shape[1], y.shape[1]), first["a"].right.dtype)  # type: ignore[union-attr]
    product[:few] = values[:, None] * first["vh"].right[:few]  # type: ignore[index]
    check.add("u", u, right=product, left=first["u"].right)
    check.add("vh", vh, right=first["vh"].left)
    shape = (u.shape[0], vh.shape[1])
    check.hold(
        lambda sums: [
            product_claim(check, "U (s * (Vh y)) = A y", sums["u"].right, first["a"], shape),
            orthogonal_claim(check, "U^H (U y) = y", sums["u"].left, left),
            orthogonal_claim(check, "Vh (Vh^H y) = y", sums["vh"].right, right),
            order_claim("the singular values descend from a number that is not negative", -values, values),
        ]
    )
    return first


def order_claim(text: str, ascending: NDArray[Any], never_negative: NDArray[Any] | None = None) -> Claim:
    """That values are in order and finite, some of them not negative either."""
    right = bool(np.isfinite(ascending).all() and (np.diff(ascending) >= 0).all())
    if never_negative is not None:
        right = right and not (never_negative < 0).any()
    return Claim(text, 0.0 if right else np.inf, 0.0)


def singular_values(problem: Problem, overwrite: bool) -> NDArray[Any]:
    """Those of the operand a, divided by its power of 2. Collective."""

    def work() -> NDArray[Any]:
        matrix = problem.moved("a", overwrite=overwrite, exponent=problem.exponent("a"))
        verify = Check(problem, scaled=True)
        verify.add("a", matrix)
        values: NDArray[Any] = problem.run(lambda: pxgesvd(matrix, vectors=False).values)
        size = max(matrix.shape)

        def claims(sums: dict[str, Sums]) -> list[Claim]:
            square = sums["a"].norm ** 2
            error = np.abs((values.astype(verify.real) ** 2).sum() - square)
            return [
                Claim("the sum of s² is norm(A)²", error, verify.bound(size, SQUARES) * square),
                order_claim("the singular values descend from a number that is not negative", -values, values),
            ]

        verify.hold(claims)
        return values

    return problem.attempt(work, "gesvd")


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
