"""Decompositions: QR and singular values."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from .check import Check, Claim, Sums
from .lapack import pxgeqrf, pxgesvd, pxorgqr
from .matrix_parts import clear_outside, local_elements
from .problem import LayoutOption, Problem, RoutineOptions, ShapeAndLayout
from .working_layouts import routine, shaped_like

PRODUCT, ORTHOGONAL, SQUARES = 64.0, 16.0, 16.0  # as in `systems`
MODES = {"reduced": "reduced", "economic": "reduced", "complete": "complete", "full": "complete", "r": "r"}


class QRResult(NamedTuple):
    """Result of `qr`.

    Attributes
    ----------
    Q, R : DistributedArray
        A = Q R.
    """

    Q: DistributedArray
    R: DistributedArray


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


def check_any_matrix(a: DistributedArray) -> ShapeAndLayout:
    return a.shape, shaped_like(a.desc, a.shape)


@overload
def qr(
    a: DistributedArray,
    mode: Literal["reduced", "economic", "complete", "full"] = ...,
    **options: Unpack[RoutineOptions],
) -> QRResult: ...


@overload
def qr(a: DistributedArray, mode: Literal["r"], **options: Unpack[RoutineOptions]) -> DistributedArray: ...


@routine
def qr(
    a: DistributedArray,
    mode: str = "reduced",
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
    check: bool = True,
    layout: LayoutOption = None,
) -> Any:
    """QR factorisation, as `numpy.linalg.qr` and `scipy.linalg.qr`. Collective, as `solve`.

    Parameters
    ----------
    a, overwrite_a, check_finite, check, layout
        As for all routines of `linalg`; of m x n elements.
    mode : {"reduced", "complete", "r"}
        Q of m x min(m, n); or of m x m; or only R. SciPy's names "economic" and "full" are accepted as well.

    Returns
    -------
    QRResult, or DistributedArray with mode "r"
        `Q` and `R`, in the blocks and on the grid of `a`.

    Raises
    ------
    ValueError
        `mode` is not one of these.
    """

    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        if not isinstance(mode, str) or mode not in MODES:
            raise ValueError(f"mode = {mode!r} must be one of {', '.join(MODES)}")
        return check_any_matrix(a)

    problem = Problem({"a": a}, check_arguments)

    def work() -> tuple[DistributedArray, DistributedArray]:
        m, n = a.shape
        few = min(m, n)
        columns = m if MODES[mode] == "complete" else few
        r, q = problem.zeros((columns if mode != "r" else few, n)), problem.zeros((m, columns))
        verify = Check(problem)
        y, x = verify.vectors(n), verify.vectors(columns, 1)
        verify.add_operand("a", right=y)
        first = verify.sums() if mode == "r" else {}
        if first:
            verify.add_operand("a", left=first["a"].right, name="h")
        matrix = problem.move("a")

        def factored() -> None:
            tau = pxgeqrf(matrix)
            copy_corner(matrix, r)
            clear_outside(local_elements(r), "U")
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
        if mode == "r":
            verify.add("r", r, left=after["r"].right)
            expected, bound = before["h"].left, verify.bound(max(m, n), PRODUCT) * before["a"].norm ** 2
            verify.require(lambda sums: [Claim.equal("R^H (R y) = A^H (A y)", sums["r"].left, expected, bound)])
        else:
            verify.add("q", q, right=after["r"].right, left=after["q"].right)
            verify.require(
                lambda sums: [
                    product_claim(verify, "Q (R y) = A y", sums["q"].right, before["a"], (m, n)),
                    orthogonal_claim(verify, "Q^H (Q y) = y", sums["q"].left, x),
                ]
            )
        return q, r

    q, r = problem.attempt(
        work, "geqrf" if mode == "r" else f"geqrf and p?{'un' if problem.dtype.kind == 'c' else 'or'}gqr"
    )
    upper = problem.to_result(r, shaped_like(a.desc, r.shape))
    return upper if mode == "r" else QRResult(problem.to_result(q, shaped_like(a.desc, q.shape)), upper)


def product_claim(check: Check, text: str, product: Any, a: Sums, shape: tuple[int, ...]) -> Claim:
    """The claim that a product of orthogonal factors with vectors equals the product with A."""
    size = max(shape)
    return Claim.equal(text, product, a.right, check.bound(size, PRODUCT) * check.scale(a.norm, size))


def orthogonal_claim(check: Check, text: str, product: Any, x: NDArray[Any]) -> Claim:
    """The claim that a factor and its transpose together leave vectors as they are."""
    size = x.shape[0]
    return Claim.equal(text, product, x, check.bound(size, ORTHOGONAL) * float(size) ** 0.5)


def copy_corner(source: DistributedArray, target: DistributedArray) -> None:
    """Copy the elements that both arrays have; their layouts differ only in shape."""
    if source.local is not None and target.local is not None:
        rows, columns = (min(sizes) for sizes in zip(source.local.shape, target.local.shape, strict=True))
        target.local[:rows, :columns] = source.local[:rows, :columns]


@overload
def svd(
    a: DistributedArray,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    **options: Unpack[RoutineOptions],
) -> SVDResult: ...


@overload
def svd(
    a: DistributedArray, full_matrices: bool = ..., *, compute_uv: Literal[False], **options: Unpack[RoutineOptions]
) -> NDArray[np.floating[Any]]: ...


@routine
def svd(
    a: DistributedArray,
    full_matrices: bool = True,
    compute_uv: bool = True,
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
    check: bool = True,
    layout: LayoutOption = None,
) -> Any:
    """Singular value decomposition, as `numpy.linalg.svd`. Collective, as `solve`.

    Parameters
    ----------
    a, overwrite_a, check_finite, check, layout
        As for all routines of `linalg`; of m x n elements. Values without vectors are checked by the sum of their squares,
        their order and their being finite, which is weaker.
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
        A singular value did not converge.
    """
    problem = Problem({"a": a}, check_any_matrix)
    exponent = problem.exponent("a")
    if not compute_uv:
        return scale_by_power(singular_values(problem), exponent)

    def work() -> tuple[DistributedArray, NDArray[Any], DistributedArray]:
        verify = Check(problem, scaled=True)
        y = verify.vectors(a.shape[1])
        verify.add_operand("a", right=y, exponent=exponent)
        matrix = problem.move("a", exponent=exponent)
        u, values, vh = decompose(problem, matrix)
        if full_matrices and u.shape[0] > u.shape[1]:
            u = _complete(problem, u)
        if full_matrices and vh.shape[0] < vh.shape[1]:
            vh = problem.transpose(_complete(problem, problem.transpose(vh)))
        require_triplets(verify, u, values, vh, y)
        return u, values, vh

    u, values, vh = problem.attempt(work, "gesvd")
    return SVDResult(
        problem.to_result(u, shaped_like(a.desc, u.shape)),
        scale_by_power(values, exponent),
        problem.to_result(vh, shaped_like(a.desc, vh.shape)),
    )


def scale_by_power(values: NDArray[Any], exponent: int | NDArray[np.int64]) -> NDArray[Any]:
    """Multiply by 2**exponent."""
    return np.ldexp(values, exponent) if np.any(exponent) else values


def decompose(problem: Problem, matrix: DistributedArray) -> tuple[DistributedArray, NDArray[Any], DistributedArray]:
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


def order_claim(text: str, ascending: NDArray[Any], never_negative: NDArray[Any] | None = None) -> Claim:
    """The claim that values are in order and finite, and that others are not negative."""
    right = bool(np.isfinite(ascending).all() and (np.diff(ascending) >= 0).all())
    if never_negative is not None:
        right = right and not (never_negative < 0).any()
    return Claim(text, 0.0 if right else np.inf, 0.0)


def check_tolerance(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, float | int | np.floating) and np.isfinite(value)):
        raise ValueError(f"{name} = {value!r} must be a finite number, or None")


def relative_tolerance(value: float | None, dtype: np.dtype[Any], shape: tuple[int, ...]) -> float:
    """Singular values up to this times the largest count as zero; by default those that are zero but for rounding."""
    return float(np.finfo(dtype).eps) * max(shape) if value is None or value < 0 else value


def singular_values(problem: Problem) -> NDArray[Any]:
    """Singular values of the operand a divided by 2**exponent. Collective."""

    def work() -> NDArray[Any]:
        verify, exponent = Check(problem, scaled=True), problem.exponent("a")
        verify.add_operand("a", exponent=exponent)
        matrix = problem.move("a", exponent=exponent)
        values: NDArray[Any] = problem.run(lambda: pxgesvd(matrix, vectors=False).values)
        size = max(matrix.shape)

        def make_claims(sums: dict[str, Sums]) -> list[Claim]:
            square = sums["a"].norm ** 2
            error = np.abs((values.astype(verify.real) ** 2).sum() - square)
            return [
                Claim("the sum of s² is norm(A)²", error, verify.bound(size, SQUARES) * square),
                order_claim("the singular values descend from a number that is not negative", -values, values),
            ]

        verify.require(make_claims)
        return values

    return problem.attempt(work, "gesvd")


def _complete(problem: Problem, columns: DistributedArray) -> DistributedArray:
    """Complete orthonormal columns to a square, unitary matrix."""
    m, few = columns.shape
    reflectors, whole = problem.zeros((m, few)), problem.zeros((m, m))
    copy_corner(columns, reflectors)

    def work() -> None:
        tau = pxgeqrf(reflectors)
        copy_corner(reflectors, whole)
        pxorgqr(whole, tau, m, few)
        copy_corner(columns, whole)  # those of p?geqrf may differ in sign

    problem.run(work)
    return whole
