"""QR, and what decompositions share."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from .attempt import Problem, assemble
from .call import MatrixOptions, RoutineCall, WrongResultError, routine
from .check import Check, Claim, Sums
from .kernels import pxgeqpf, pxgeqrf, pxorgqr
from .matrix_parts import clear_outside, local_elements
from .operands import ShapeAndLayout, check_any_matrix, shaped_like
from .place import Place
from .tall import SlabFactors, Slabs, in_slabs

Factors = tuple[DistributedArray, DistributedArray, NDArray[Any]]  # Q, R, and the order of the columns
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


class PivotedQRResult(NamedTuple):
    """Result of `qr` with pivoting.

    Attributes
    ----------
    Q, R : DistributedArray
        A[:, P] = Q R.
    P : ndarray of int
        The columns of A in their new order, on every rank.
    """

    Q: DistributedArray
    R: DistributedArray
    P: NDArray[np.intp]


@overload
def qr(
    a: DistributedArray,
    mode: Literal["reduced", "economic", "complete", "full"] = ...,
    *,
    pivoting: Literal[False] = ...,
    **options: Unpack[MatrixOptions],
) -> QRResult: ...


@overload
def qr(
    a: DistributedArray,
    mode: Literal["r"],
    *,
    pivoting: Literal[False] = ...,
    **options: Unpack[MatrixOptions],
) -> DistributedArray: ...


@overload
def qr(
    a: DistributedArray,
    mode: Literal["reduced", "economic", "complete", "full"] = ...,
    *,
    pivoting: Literal[True],
    **options: Unpack[MatrixOptions],
) -> PivotedQRResult: ...


@overload
def qr(
    a: DistributedArray, mode: Literal["r"], *, pivoting: Literal[True], **options: Unpack[MatrixOptions]
) -> tuple[DistributedArray, NDArray[np.intp]]: ...


@routine
def qr(
    call: RoutineCall,
    a: DistributedArray,
    mode: str = "reduced",
    *,
    pivoting: bool = False,
    **options: Unpack[MatrixOptions],
) -> Any:
    """QR factorisation, as `numpy.linalg.qr` and `scipy.linalg.qr`. Collective, as `solve`.

    Parameters
    ----------
    a : DistributedArray
        A matrix of m x n elements, in any layout, or a stack of them.
    mode : {"reduced", "complete", "r"}
        Q of m x min(m, n); or of m x m; or only R. SciPy's names "economic" and "full" are accepted as well.
    pivoting : bool
        Whether columns are exchanged, so that the absolute values on the diagonal of R descend, by p?geqpf.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`: as for all routines of `linalg`.

    Returns
    -------
    QRResult, or DistributedArray with mode "r"
        `Q` and `R`, in the blocks and on the grid of `a`. With `pivoting` a PivotedQRResult, or (R, P): `P` as SciPy's.

    Raises
    ------
    ValueError
        `mode` is not one of these.
    """

    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        if not isinstance(mode, str) or mode not in MODES:
            raise ValueError(f"mode = {mode!r} must be one of {', '.join(MODES)}")
        return check_any_matrix(a)

    problem = Problem(call, {"a": a}, check_arguments, pivoting=bool(pivoting))
    kind, in_order = MODES[mode], np.arange(a.shape[1])

    def factor(place: Place, matrix: DistributedArray, verify: Check) -> tuple[Factors, dict[str, Sums]]:
        """Factor the matrix, which is overwritten; and the sums of products with it. Collective."""
        if isinstance(place, Slabs):
            factors = SlabFactors(place, matrix)
            return (matrix if kind == "r" else factors.q(), factors.r, in_order), verify.sums()
        (m, n), few = a.shape, min(a.shape)
        columns = m if kind == "complete" else few
        r, q = place.zeros((columns if kind != "r" else few, n)), place.zeros((m, columns))

        def factored() -> tuple[NDArray[Any], NDArray[Any]] | None:
            exchanged, tau = pxgeqpf(matrix) if pivoting else (None, pxgeqrf(matrix))
            copy_corner(matrix, r)
            clear_outside(local_elements(r), "U")
            if kind != "r":
                copy_corner(matrix, q)
                pxorgqr(q, tau, columns, few)
            own = local_elements(matrix)[1]
            is_first = matrix.desc.coords is not None and not matrix.desc.coords[0]
            return (own, exchanged[: own.size] - 1) if exchanged is not None and is_first else None

        order, sums = verify.run(factored, assemble(n, np.intp))
        return (q, r, order if pivoting and few else in_order), sums

    def work(place: Place) -> Factors:
        m, n = a.shape
        verify = Check(place)
        y, x = verify.vectors(n), verify.vectors(m if kind == "complete" else min(m, n), 1)
        verify.add_operand("a", right=y)
        first = verify.sums() if kind == "r" else {}
        if first:
            verify.add_operand("a", left=first["a"].right, name="h")
        (q, r, order), before = factor(place, place.move("a"), verify)
        if sorted(order) != in_order.tolist():
            raise WrongResultError("the order of columns is none")
        before |= first
        verify.add("r", r, right=y[order])  # A[:, order] y[order] = A y
        if kind != "r":
            verify.add("q", q, right=x)
        after = verify.sums()
        if not verify.active:
            return q, r, order
        if kind == "r":
            verify.add("r", r, left=after["r"].right)
            size = max(m, n)
            expected, bound = before["h"].left[order], verify.bound(size, PRODUCT) * verify.scale(before["a"].norm, size) ** 2
            verify.require(lambda sums: [Claim.equal("R^H (R y) = A^H (A y)", sums["r"].left, expected, bound)])
        else:
            verify.add("q", q, right=after["r"].right, left=after["q"].right)
            verify.require(
                lambda sums: [
                    product_claim(verify, "Q (R y) = A y", sums["q"].right, before["a"], (m, n)),
                    orthogonal_claim(verify, "Q^H (Q y) = y", sums["q"].left, x),
                ]
            )
        return q, r, order

    name = "geqpf" if pivoting else "geqrf"
    names = name if kind == "r" else f"{name} and p?{'un' if problem.dtype.kind == 'c' else 'or'}gqr"
    q, r, order = problem.attempt(
        work, names, first=None if pivoting or kind == "complete" else in_slabs(problem, work)
    )
    upper = problem.to_result(r, shaped_like(a.desc, r.shape))
    if kind == "r":
        return (upper, order) if pivoting else upper
    left = problem.to_result(q, shaped_like(a.desc, q.shape))
    return PivotedQRResult(left, upper, order) if pivoting else QRResult(left, upper)


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


def scale_by_power(values: NDArray[Any], exponent: int | NDArray[np.int64]) -> NDArray[Any]:
    """Multiply by 2**exponent."""
    return np.ldexp(values, exponent) if np.any(exponent) else values


def order_claim(text: str, ascending: NDArray[Any], never_negative: NDArray[Any] | None = None) -> Claim:
    """The claim that values are in order and finite, and that others are not negative."""
    if not np.isfinite(ascending).all():
        return Claim(text, math.inf, 0.0)
    right = bool((np.diff(ascending) >= 0).all()) and not (never_negative is not None and (never_negative < 0).any())
    return Claim(text, 0.0 if right else 1.0, 0.0)
