"""Products and norms of distributed arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..errors import ArrayError
from ..layout.descriptor import Descriptor
from ..scalapack import pxgemm
from .check import Check, Claim, Sums
from .decompositions import singular_values
from .problem import LayoutOption, Problem, ShapeAndLayout, assemble, local_elements, panels
from .working_layouts import routine, shaped_like

PRODUCT = 8.0  # as in `systems`
NORMS = {None: "F", "fro": "F", 1: "1", np.inf: "I"}
BY_VALUES: dict[Any, Callable[[NDArray[Any]], Any]] = {2: np.max, -2: np.min, "nuc": np.sum}


@routine
def matmul(
    a: DistributedArray,
    b: DistributedArray,
    *,
    check: bool = True,
    layout: LayoutOption = None,
    like: LayoutOption = None,
) -> DistributedArray:
    """The product A B by ScaLAPACK's p?gemm, as `numpy.matmul`. Collective over the communicator of the operands.

    Parameters
    ----------
    a, b : DistributedArray
        Matrices in any layouts; `b` may be a vector of one dimension. For a product with a transpose pass `a.T` or `a.H`.
    check, layout, like
        As for all routines of `linalg`; `layout` is of the product. With infs or NaNs nothing is checked. By default it
        is on the grid and in the row blocks of `a` and the column blocks of `b`; a vector in the layout of `b`.
    """

    def check_arguments(a: DistributedArray, b: DistributedArray) -> ShapeAndLayout:
        if a.shape[1] != b.shape[0]:
            raise ArrayError(f"a has shape {a.shape} and b {b.shape}: b must have {a.shape[1]} rows, as a has columns")
        m = a.shape[0]
        if b.ndim == 1:
            return (m, 1), shaped_like(b.desc, (m,))
        n, desc, width = b.shape[1], shaped_like(a.desc, a.shape), b.desc.block[1]
        blocks = desc.block[0], width if isinstance(width, int) else None
        return (m, n), Descriptor((m, n), blocks, desc.grid, source=(desc.source[0], 0), axes=desc.axes)

    problem = Problem({"a": a, "b": b}, check_arguments)

    def work() -> DistributedArray:
        left, right = problem.move("a", read_only=True), problem.move("b", read_only=True)
        product = problem.zeros((left.shape[0], right.shape[1]))
        verify = Check(problem)
        y = verify.vectors(right.shape[1])
        verify.add("b", right, right=y)
        _, before = verify.run(lambda: pxgemm(left, right, product))
        require_product(verify, left, product, before.get("b"), y)
        return product

    return problem.to_result(problem.attempt(work, "gemm"))


def require_product(
    check: Check, left: DistributedArray, product: DistributedArray, b: Sums | None, y: NDArray[Any]
) -> None:
    """C y = A (B y), from the sums of B y. Collective."""
    if b is None:
        return
    check.add("c", product, right=y)
    check.add("a", left, right=b.right)

    def claims(sums: dict[str, Sums]) -> list[Claim]:
        c, scale = sums["c"], sums["a"].norm * b.norm
        if not np.isfinite(c.norm) and scale >= check.largest:  # then so large a product is right
            return []
        bound = check.bound(left.shape[1], PRODUCT) * scale + check.scale(0, max(product.shape))
        return [Claim.equal("C y = A (B y)", c.right, sums["a"].right, bound)]

    check.require(claims)


@routine
def norm(a: DistributedArray, ord: Any = None, *, check: bool = True, layout: LayoutOption = None) -> Any:
    """A norm of a matrix or a vector, as `numpy.linalg.norm`, on every rank. Collective over the communicator of `a`.

    Parameters
    ----------
    a : DistributedArray
        In any layout, of one or two dimensions; it is not changed.
    ord : {None, "fro", 1, inf, 2, -2, "nuc"}
        Of a matrix: Frobenius's (by default), the largest sum of a column's absolute values, or of a row's; the largest,
        the least or the sum of the singular values. Of a vector: None, 1, 2 or inf. 0 for an array without elements.
    check, layout
        As for all routines of `linalg`, for what is of singular values. The others are NumPy's, of the local arrays where
        they are.

    Raises
    ------
    ValueError
        `ord` is none of these.
    """

    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        possible = [None, 1, 2, np.inf] if a.ndim == 1 else [*NORMS, *BY_VALUES]
        if ord not in possible:
            raise ValueError(f"ord = {ord!r} must be one of {', '.join(map(repr, possible))}")
        return (*a.shape, 1)[:2], a.desc

    kind = "F" if a.ndim == 1 and ord == 2 else NORMS.get(ord)
    problem = Problem({"a": a}, check_arguments, vectors=("a",), check_finite=kind is None)
    real = np.zeros(0, problem.dtype).real.dtype.type
    exponent = problem.exponent("a")
    if kind is None:
        values = singular_values(problem)
        value = BY_VALUES[ord](values) if values.size else 0
    else:
        value = _summed_norm(problem, problem.move("a", read_only=True, exponent=exponent), kind)
    with np.errstate(over="ignore"):
        return real(np.ldexp(value, exponent))


def _summed_norm(problem: Problem, matrix: DistributedArray, kind: str) -> np.float64:
    """Of sums of absolute values or squares, which are added up in float64."""
    axis = 1 if kind == "1" else 0

    def work() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        rows, columns, local = local_elements(matrix)
        sums = np.zeros(local.shape[axis])
        for over in panels(rows.size, columns.size):
            sizes = np.abs(local[:, over]).astype(np.float64)
            if kind == "1":
                sums[over] = sizes.sum(axis=0)
            else:
                sums += (sizes if kind == "I" else sizes**2).sum(axis=1)
        return columns if axis else rows, sums

    totals: NDArray[np.float64] = problem.run(work, assemble(matrix.shape[axis], np.float64))
    return np.float64(np.sqrt(totals.sum()) if kind == "F" else totals.max(initial=0))
