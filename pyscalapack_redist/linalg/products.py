"""Products and norms of distributed arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from typing import Any, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..errors import ArrayError
from ..layout.array_arithmetic import Distributed
from ..layout.descriptor import Descriptor
from .attempt import Problem, assemble
from .call import ProductOptions, RoutineCall, WorkOptions, routine
from .check import Check, Claim, Sums
from .kernels import pxgemm
from .matrix_parts import local_elements, panels
from .multiplication import multiply
from .operands import ShapeAndLayout, in_order, shaped_like, spread
from .place import Grid, Place
from .singular_values import singular_values

PRODUCT = 8.0  # as in `systems`
SYMMETRIES = "symmetric", "hermitian"
NORMS = {None: "F", "fro": "F", 1: "1", np.inf: "I"}
ORDERS = {(i, j): i % 2 == 0 for i, j in itertools.product(range(-2, 2), repeat=2) if (i - j) % 2}  # of both dimensions
VECTOR_NORMS = [None, 1, 2, np.inf]
BY_VALUES: dict[Any, Callable[[NDArray[Any]], Any]] = {2: np.max, -2: np.min, "nuc": np.sum}


@routine
def matmul(
    call: RoutineCall, a: DistributedArray, b: DistributedArray, **options: Unpack[ProductOptions]
) -> DistributedArray:
    """The product A B, as `numpy.matmul`, by NumPy on each process. Collective over the communicator of the operands.

    No ScaLAPACK is needed. Panels of the operands are brought where they are multiplied, on the grid that a model of the time
    chooses by the layouts. Of a product of a matrix with its own transpose or conjugate transpose, one half is computed.

    Parameters
    ----------
    a, b : DistributedArray
        Matrices in any layouts, or stacks of them; `b` may be a vector of one dimension. For a product with a transpose pass
        `a.T` or `a.H`.
    **options
        `check`, `layout`, `like`: as for all routines of `linalg`; `layout` is of the product, where it is computed.
        With infs or NaNs nothing is checked. By default the result is on the grid and in the row blocks of `a` and
        the column blocks of `b`, its dimensions over those of the grid in order, also where `a` is a transposed view;
        a vector in the layout of `b`.
    """

    def check_arguments(a: DistributedArray, b: DistributedArray) -> ShapeAndLayout:
        if a.shape[1] != b.shape[0]:
            raise ArrayError(f"a has shape {a.shape} and b {b.shape}: b must have {a.shape[1]} rows, as a has columns")
        m = a.shape[0]
        if b.ndim == 1:
            return (m, 1), shaped_like(b.desc, (m,))
        n, desc = b.shape[1], in_order(a.desc, a.shape)
        blocks = desc.block[0], spread(b.desc.block[1], n, desc.distributions[1].processes)
        source = desc.source[0], 0
        if ((m, n), blocks, source) != (desc.shape, desc.block, desc.source):
            desc = Descriptor((m, n), blocks, desc.grid, source=source, axes=desc.axes)
        return (m, n), desc

    problem = Problem(call, {"a": a, "b": b}, check_arguments, uses_library=False)

    def work(place: Place) -> DistributedArray:
        verify, before, fill = Check(place), None, None
        y = verify.vectors(place.facts.columns("b"))
        verify.add_operand("b", right=y)
        are_transposes = not place.is_alone and a.ndim == b.ndim and a.desc == b.desc.T
        if verify.active or are_transposes:
            fill, sums = verify.run(lambda: _symmetries(a, b) if are_transposes else (), _common)
            before = sums.get("b")
        product = multiply(place, fill) if isinstance(place, Grid) else _product_on_one(place)
        _require_product(place, verify, a.shape[1], product, before, y)
        if not verify.active:
            place.run(lambda: None)
        return product

    return problem.to_result(problem.attempt(work, "NumPy's matmul"))


def _product_on_one(place: Place) -> DistributedArray:
    """The product of operands that this process has."""
    left, right = place.move("a", read_only=True), place.move("b", read_only=True)
    product = place.zeros((left.shape[0], right.shape[1]))
    pxgemm(left, right, product)
    return product


def _symmetries(a: DistributedArray, b: DistributedArray) -> tuple[str, ...]:
    """What this rank's elements allow A B to be, which has the layouts of a matrix and its transpose."""
    if a.local is None or b.local is None or a.local.size == 0:
        return SYMMETRIES
    turned, other = a.local.T, b.local
    if turned.dtype.kind == "c":
        equal = [name for name in SYMMETRIES if _are_equal(turned, other, name == "hermitian")]
        return tuple(equal)
    return SYMMETRIES if _are_equal(turned, other, False) else ()


def _are_equal(first: NDArray[Any], second: NDArray[Any], conjugated: bool) -> bool:
    """Whether two local arrays have equal elements, or are conjugates."""
    places = [(array.__array_interface__["data"], array.strides) for array in (first, second)]
    if not conjugated and places[0] == places[1]:
        return True
    some = next(panels(*first.shape))
    return all(
        np.array_equal(first[:, over], np.conj(second[:, over]) if conjugated else second[:, over])
        for over in (some, *panels(*first.shape))
    )


def _common(replies: list[tuple[str, ...]]) -> str | None:
    """What all ranks' elements allow the product to be."""
    return next((name for name in SYMMETRIES if all(name in reply for reply in replies)), None)


def _require_product(
    place: Place, check: Check, inner: int, product: DistributedArray, b: Sums | None, y: NDArray[Any]
) -> None:
    """Require C y = A (B y); `b` has the sums of B y, and `inner` is the number of rows of B. Collective."""
    if b is None:
        return
    check.add("c", product, right=y)
    check.add_operand("a", right=b.right)

    def make_claims(sums: dict[str, Sums]) -> list[Claim | str]:
        c, scale = sums["c"], sums["a"].norm * b.norm
        if not np.isfinite(c.norm) and scale >= check.largest:  # then so large a product may be right
            return [f"elements of the product are beyond {place.facts.largest}, and it is not checked"]
        bound = check.bound(inner, PRODUCT) * scale + check.scale(0, max(product.shape))
        return [Claim.equal("C y = A (B y)", c.right, sums["a"].right, bound)]

    check.require(make_claims)


@overload
def norm(
    a: DistributedArray,
    ord: Any = ...,
    axis: None = ...,
    **options: Unpack[WorkOptions],
) -> np.floating[Any]: ...


@overload
def norm(
    a: DistributedArray,
    ord: Any = ...,
    *,
    axis: int,
    **options: Unpack[WorkOptions],
) -> NDArray[np.floating[Any]]: ...


@overload
def norm(
    a: DistributedArray,
    ord: Any = ...,
    *,
    axis: tuple[int, int],
    **options: Unpack[WorkOptions],
) -> Any: ...


@routine
def norm(
    call: RoutineCall,
    a: DistributedArray,
    ord: Any = None,
    axis: int | tuple[int, int] | None = None,
    **options: Unpack[WorkOptions],
) -> Any:
    """A norm of a matrix or a vector, as `numpy.linalg.norm`, on every rank. Collective over the communicator of `a`.

    Parameters
    ----------
    a : DistributedArray
        In any layout; of more than two dimensions with `axis`. It is not changed.
    ord : {None, "fro", 1, inf, 2, -2, "nuc"}
        Of a matrix: Frobenius's (by default), the largest sum of a column's absolute values, or of a row's; the largest,
        the least or the sum of the singular values. Of a vector: None, 1, 2 or inf. 0 for an array without elements, which
        has no least singular value.
    axis : int or (int, int), optional
        0 for the norm of each column, 1 for that of each row, `ord` being a vector's; of an array of more dimensions any of
        them. Two dimensions are those of matrices.
    **options
        `check`, `layout`: as for all routines of `linalg`, for norms of singular values. The others are computed from
        the local arrays, in float64: nothing is redistributed, and no ScaLAPACK is needed.

    Returns
    -------
    number, or ndarray with `axis` for a matrix, or DistributedArray for an array of more than two dimensions

    Raises
    ------
    ValueError
        `ord` or `axis` is not one of these, or `ord` is -2 for an array without elements.
    """

    if isinstance(a, Distributed) and a.ndim == 2 and isinstance(axis, tuple) and [*axis] in [*map(list, ORDERS)]:
        a, axis = a if ORDERS[axis] else a.T, None

    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        if axis is not None and not (isinstance(axis, int | np.integer) and -a.ndim <= axis < a.ndim):
            raise ValueError(f"axis = {axis!r} must be None, or an integer from {-a.ndim} to {a.ndim - 1}")
        possible = VECTOR_NORMS if a.ndim == 1 or axis is not None else [*NORMS, *BY_VALUES]
        if ord not in possible:
            raise ValueError(f"ord = {ord!r} must be one of {', '.join(map(repr, possible))}")
        if ord == -2 and 0 in a.shape:
            raise ValueError(
                f"ord = {ord!r} is the least singular value, and a, of shape {a.shape}, has none: take another"
            )
        return (*a.shape, 1)[:2], a.desc

    is_matrix = isinstance(a, Distributed) and a.ndim == 2
    by_values = is_matrix and axis is None and isinstance(ord, Hashable) and ord in BY_VALUES
    needs: dict[str, Any] = {"check_finite": by_values, "uses_library": by_values, "has_layout": by_values}
    problem = Problem(call, {"a": a}, check_arguments, vectors=("a",), **needs)
    real = np.zeros(0, problem.dtype).real.dtype
    value: Any
    if by_values:
        values = singular_values(problem)
        value = np.ldexp(BY_VALUES[ord](values) if values.size else 0, problem.operands.exponent("a"))
    elif a.ndim == 1 or axis is not None:
        norms = _line_norms(call, a, (axis if isinstance(axis, int | np.integer) else 0) % a.ndim, 2 if ord is None else ord)
        value = norms[0] if a.ndim == 1 else norms
    else:
        norms = _line_norms(call, a, ord == np.inf, 2 if NORMS[ord] == "F" else 1)
        value = _lengths(norms, 0) if NORMS[ord] == "F" else norms.max(initial=0)
    return real.type(value) if np.ndim(value) == 0 else value.astype(real)


def _line_norms(call: RoutineCall, a: DistributedArray, axis: int, ord: float) -> NDArray[np.float64]:
    """The norm of each column, or of each row with `axis` 1, on every rank."""
    reduce, combine = LINE_NORMS[ord]

    def work() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        rows, columns, local = local_elements(a)
        norms = np.zeros(local.shape[1 - axis])
        for over in panels(*local.shape):
            sizes = np.abs(local[:, over]).astype(np.float64, copy=False)
            if axis:
                norms = combine(norms, reduce(sizes, 1))
            else:
                norms[over] = reduce(sizes, 0)
        return (rows if axis else columns), norms

    norms: NDArray[np.float64] = call.run(work, assemble((*a.shape, 1)[1 - axis], np.float64, combine))
    return norms


def _lengths(sizes: NDArray[np.float64], axis: int) -> Any:
    """Roots of sums of squares, scaled where these might overflow or vanish."""
    squares = (sizes * sizes).sum(axis=axis)
    if np.all((squares > 1e-200) & (squares < 1e200)):
        return np.sqrt(squares)
    largest = sizes.max(axis=axis, initial=0, keepdims=True)
    scale = np.where((largest > 0) & (largest < np.inf), largest, 1)
    return (scale * np.sqrt(((sizes / scale) ** 2).sum(axis=axis, keepdims=True))).squeeze(axis)


def _hypot(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """As `numpy.hypot`, but NaN of inf and NaN."""
    return np.where(np.isnan(first + second), np.nan, np.hypot(first, second))


# For each norm of a vector: its value of sizes along an axis, and how norms of two parts are combined
LINE_NORMS: dict[float, tuple[Callable[[NDArray[np.float64], int], Any], Callable[..., NDArray[np.float64]]]] = {
    1: (lambda sizes, axis: sizes.sum(axis=axis), np.add),
    2: (_lengths, _hypot),
    np.inf: (lambda sizes, axis: sizes.max(axis=axis, initial=0), np.maximum),
}
