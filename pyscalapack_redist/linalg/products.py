"""Products and norms of distributed arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..errors import ArrayError
from ..layout.descriptor import Descriptor
from ..scalapack import pxgemm, pxgesvd, pxlange
from .layouts import routine, shaped_like
from .problem import Layout, Problem

__all__ = ["matmul", "norm"]

NORMS = {None: "F", "fro": "F", 1: "1", np.inf: "I"}
BY_VALUES: dict[Any, Callable[[NDArray[Any]], Any]] = {2: np.max, -2: np.min, "nuc": np.sum}


@routine
def matmul(a: DistributedArray, b: DistributedArray, *, layout: Layout = None, like: Layout = None) -> DistributedArray:
    """The product A B by ScaLAPACK's p?gemm, as `numpy.matmul`. Collective over the communicator of the operands.

    Parameters
    ----------
    a, b : DistributedArray
        Matrices in any layouts; `b` may be a vector of one dimension. For a product with a transpose pass `a.T` or `a.H`.
    layout : Descriptor or DistributedArray, optional
        Layout of the product to work in; default: the grid and blocks of an operand where it fits, or those of `layout_for`.
    like : Descriptor or DistributedArray, optional
        Layout of the result; default: the grid and row blocks of `a` with the column blocks of `b`; that of `b` for a vector.

    Raises
    ------
    ArrayError, DescriptorError, LibraryError
        An argument is wrong on this rank, or there is no ScaLAPACK.
    CollectiveError
        So it is on another rank, or ranks ask for different things.
    """

    def check(a: DistributedArray, b: DistributedArray) -> tuple[tuple[int, ...], Descriptor]:
        if a.shape[1] != b.shape[0]:
            raise ArrayError(f"a has shape {a.shape} and b {b.shape}: b must have {a.shape[1]} rows, as a has columns")
        m = a.shape[0]
        if b.ndim == 1:
            return (m, 1), shaped_like(b.desc, (m,))
        n, desc, width = b.shape[1], shaped_like(a.desc, a.shape), b.desc.block[1]
        blocks = desc.block[0], width if isinstance(width, int) else None
        return (m, n), Descriptor((m, n), blocks, desc.grid, source=(desc.source[0], 0), axes=desc.axes)

    problem = Problem("matmul", {"a": a, "b": b}, check, layout=layout, like=like, vectors=("b",))
    left, right = problem.moved("a", read_only=True), problem.moved("b", read_only=True)
    product = problem.zeros((left.shape[0], right.shape[1]))
    problem.run(lambda: pxgemm(left, right, product))
    return problem.given_back(product)


@routine
def norm(a: DistributedArray, ord: Any = None, *, layout: Layout = None) -> Any:
    """A norm of a matrix or a vector, as `numpy.linalg.norm`, on every rank. Collective over the communicator of `a`.

    Parameters
    ----------
    a : DistributedArray
        In any layout, of one or two dimensions; it is not changed.
    ord : {None, "fro", 1, inf, 2, -2, "nuc"}
        Of a matrix: Frobenius's (by default), the largest sum of a column's absolute values, or of a row's; the largest,
        the least or the sum of the singular values. Of a vector: None, 1, 2 or inf. 0 for an array without elements.
    layout : Descriptor or DistributedArray, optional
        Layout to work in, as for `solve`.

    Raises
    ------
    ValueError
        `ord` is none of these.
    ArrayError, DescriptorError, LibraryError, CollectiveError
        As for `matmul`.
    """

    def check(a: DistributedArray) -> tuple[tuple[int, ...], Descriptor]:
        possible = [None, 1, 2, np.inf] if a.ndim == 1 else [*NORMS, *BY_VALUES]
        if ord not in possible:
            raise ValueError(f"ord = {ord!r} must be one of {', '.join(map(repr, possible))}")
        return (*a.shape, 1)[:2], a.desc

    problem = Problem("norm", {"a": a}, check, layout=layout, vectors=("a",), options=("ord", ord))
    real = np.zeros(0, problem.dtype).real.dtype.type
    kind = "F" if a.ndim == 1 and ord == 2 else NORMS.get(ord)
    if kind is not None:
        matrix = problem.moved("a", read_only=True)
        return real(problem.run(lambda: pxlange(matrix, kind)))
    matrix = problem.moved("a")
    problem.must_be_finite("a", matrix)
    values = problem.run(lambda: pxgesvd(matrix, vectors=False).values)
    return real(BY_VALUES[ord](values) if values.size else 0)
