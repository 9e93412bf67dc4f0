"""The largest singular values of a matrix and their vectors, by a block of random vectors and steps of the power method.

A step multiplies an orthonormal block by A and by A^H (Halko, Martinsson and Tropp 2011, algorithm 4.4), and finds singular
triplets in the block (Rayleigh and Ritz). These are taken when the residuals of A v = s u are small; those of A^H u = s v are
rounding, as the block has all of A^H u. Other random vectors, orthogonal to the found ones, then tell whether a larger value
has been left out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .bidiagonal import Triplets
from .call import ROUTINES, RoutineCall
from .random_vectors import SEED, VECTORS

STEPS = 12  # at most
MORE = 8  # vectors of the block beyond those that are asked for, at least
Array = NDArray[Any]


def default_tolerance(dtype: np.dtype[Any]) -> float:
    """Of residuals, relative to the largest value: the values are then right but for rounding where they are apart."""
    eps: float = np.finfo(dtype).eps
    return float(eps ** (2 / 3))


def largest_triplets(call: RoutineCall, a: DistributedArray, dtype: np.dtype[Any], k: int, tol: float) -> Triplets | None:
    """The k largest singular values with their vectors, in slabs of rows; None if steps do not find them. Collective.

    Parameters
    ----------
    a : DistributedArray
        Of m x n elements, whose squares neither overflow nor vanish.
    k : int
        At most min(m, n) / 2.
    tol : float
        Of the residuals, relative to the largest value.
    """
    (m, n), width = a.shape, min(k + max(MORE, k // 2), *a.shape)
    multiply, factor, check = ROUTINES["matmul"], ROUTINES["qr"], call.arguments["check"]
    adjoint, tall, wide = a.H, _slabs(call, m, width), _slabs(call, n, width)

    def product(matrix: DistributedArray, block: DistributedArray, like: Descriptor) -> DistributedArray:
        result: DistributedArray = multiply(matrix, block, check=check, like=like)
        return result

    block = _random(call, wide, dtype, 0)
    images = product(a, block, tall)
    for _ in range(STEPS):
        left = factor(images, check=check).Q
        right, triangle = factor(product(adjoint, left, wide), check=check)
        images = product(a, right, tall)  # also the next step's
        u_small, s, vh_small = _svd_on_first_rank(call, triangle.gather(None))
        u, s, to_v = _times(call, left, u_small[:, :k]), s[:k], vh_small.conj().T[:, :k]
        if _largest_residual(call, images, to_v, u, s) <= tol * float(s[0]):
            v = _times(call, right, to_v)
            is_complete = _largest_left(call, a, adjoint, u, v) <= float(s[-1]) * (1 + tol) + tol * float(s[0])
            return (u, s, v.H) if is_complete else None
    return None


def _svd_on_first_rank(call: RoutineCall, triangle: Any) -> tuple[Array, Array, Array]:
    """The decomposition of the conjugate transpose of a small matrix that all ranks have; equal on all. Collective."""
    found: tuple[Array, Array, Array] = call.run(
        lambda: np.linalg.svd(triangle.conj().T) if call.comm.Get_rank() == 0 else None
    )
    return found


def _largest_residual(
    call: RoutineCall, images: DistributedArray, to_v: Array, u: DistributedArray, s: Array
) -> float:
    """The largest norm of A v - s u, from the products of A with the block. Collective."""

    def squares() -> Any:
        if u.local is None or images.local is None:
            return 0.0
        return (np.abs(images.local @ to_v - u.local * s).astype(np.float64) ** 2).sum(axis=0)

    return math.sqrt(float(np.max(call.run(squares, sum))))


def _largest_left(
    call: RoutineCall, a: DistributedArray, adjoint: DistributedArray, u: DistributedArray, v: DistributedArray
) -> float:
    """A lower bound of the largest singular value beside those of u and v, by random vectors. Collective."""
    multiply, (m, n) = ROUTINES["matmul"], a.shape
    x = _without(call, _random(call, _slabs(call, n, VECTORS), u.dtype, 1), v)
    y = _without(call, multiply(a, x, check=False, like=_slabs(call, m, VECTORS)), u)
    z = _without(call, multiply(adjoint, y, check=False, like=_slabs(call, n, VECTORS)), v)

    def squares() -> Any:
        parts = [np.zeros((0, VECTORS)) if each.local is None else each.local for each in (y, z)]
        return np.array([(np.abs(part).astype(np.float64) ** 2).sum(axis=0) for part in parts])

    of_y, of_z = call.run(squares, sum)
    ratios = np.divide(of_z, of_y, out=np.zeros(VECTORS), where=of_y > 0)
    return math.sqrt(float(ratios.max()))


def _slabs(call: RoutineCall, rows: int, columns: int) -> Descriptor:
    """A layout of whole rows, on all processes."""
    return Descriptor((rows, columns), (None, max(1, columns)), ProcessGrid((call.comm.Get_size(), 1), call.comm))


def _random(call: RoutineCall, desc: Descriptor, dtype: np.dtype[Any] | None, stream: int) -> DistributedArray:
    """A block of random vectors."""
    local = None
    with call.collect_errors():
        if desc.coords is not None:
            rng = np.random.default_rng((SEED, stream, call.comm.Get_rank()))
            numbers = rng.standard_normal(desc.local_shape)
            if dtype is not None and dtype.kind == "c":
                numbers = numbers + 1j * rng.standard_normal(desc.local_shape)
            local = np.asfortranarray(numbers, dtype)
    call.run(lambda: None)
    return DistributedArray._from_result(desc, local, dtype)


def _times(call: RoutineCall, block: DistributedArray, small: Array) -> DistributedArray:
    """A block in slabs multiplied by a matrix that all ranks have."""
    local = None
    with call.collect_errors():
        if block.local is not None:
            local = np.asfortranarray(block.local @ small)
    return DistributedArray._from_result(_slabs(call, block.shape[0], small.shape[1]), local, block.dtype)


def _without(call: RoutineCall, block: DistributedArray, vectors: DistributedArray) -> DistributedArray:
    """A block without its part along orthonormal vectors; both in slabs. Collective."""

    def products() -> Any:
        return 0.0 if block.local is None or vectors.local is None else vectors.local.conj().T @ block.local

    along = call.run(products, sum)
    with call.collect_errors():
        if block.local is not None and vectors.local is not None:
            block.local[...] -= vectors.local @ along
    return block
