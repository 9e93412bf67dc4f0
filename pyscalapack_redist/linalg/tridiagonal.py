"""Some eigenpairs of a symmetric matrix: a tridiagonal one is made of it, of which LAPACK on the first rank finds the pairs.

Only the vectors that are asked for are computed and brought back, where p?syevd computes all; on one process as well. LAPACK's
dstemr makes vectors that are orthogonal among those that one process computes, in a time proportional to their number; beyond
`FEW` of them, or without room for them on one process, p?stedc computes those of the tridiagonal matrix, all of them, on all
ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import tracing
from ..comm.free_memory import free_memory, has_room
from ..distributed_array import DistributedArray
from ..scalapack import Tridiagonal
from ..scalapack.calls import ConvergenceError
from .check import length
from .kernels import lapack_function, pxormtr, pxstedc, pxsytrd
from .place import Place
from .random_vectors import gaussian

FEW = 0.15  # of the vectors: up to so many dstemr takes less time than p?stedc, on 2 and 4 ranks at orders 1024 to 4096
PAIRS, ORTHOGONAL = 64.0, 16.0  # bounds of dstemr's errors, as those of the check
Select = Callable[[NDArray[Any]], tuple[int, int]]  # the first of the asked eigenvalues and the end, from all of them
Numbers = tuple[str, NDArray[np.int64], NDArray[Any], NDArray[Any]]


# -- on the first rank


def eigenvalues_of(diagonal: NDArray[np.float64], off_diagonal: NDArray[np.float64]) -> NDArray[np.float64]:
    """All eigenvalues of a tridiagonal matrix, ascending, by LAPACK's dsterf. Not collective."""
    values, rest, info = diagonal.copy(), np.append(off_diagonal, 0.0), np.zeros(1, np.intc)
    with tracing.phase("dsterf"):
        lapack_function("dsterf")(values.size, values, rest, info)
    if info[0]:
        raise ConvergenceError(f"dsterf: not all eigenvalues were found (INFO = {info[0]})")
    return values


def eigenvectors_of(
    diagonal: NDArray[np.float64], off_diagonal: NDArray[np.float64], first: int, last: int
) -> NDArray[np.float64] | None:
    """Eigenvectors `first` to `last` - 1 of a tridiagonal matrix, by LAPACK's dstemr; None if it fails. Not collective.

    Its vectors are orthogonal but for some n eps, and a step of Newton's iteration to the nearest orthonormal ones makes that
    a few eps.
    """
    n, count = diagonal.size, last - first
    d, e = diagonal.copy(), np.append(off_diagonal, 0.0)  # overwritten
    limits, found, info, relative = np.zeros(2), np.zeros(1, np.intc), np.zeros(1, np.intc), np.ones(1, np.intc)
    values, vectors, support = np.zeros(n), np.zeros((n, count), order="F"), np.zeros(2 * count, np.intc)
    work, integers = np.zeros(18 * n), np.zeros(10 * n, np.intc)
    pairs: tuple[Any, ...] = (found, values, vectors, n, count, support, relative)
    interval: tuple[Any, ...] = (limits[:1], limits[1:], first + 1, last)
    with tracing.phase("dstemr"):
        lapack_function("dstemr")("V", "I", n, d, e, *interval, *pairs, work, work.size, integers, integers.size, info)
    if info[0] or found[0] != count:
        return None
    gram: NDArray[np.float64] = vectors.T @ vectors
    gram *= -0.5
    gram[np.diag_indices(count)] += 1.5
    return np.matmul(vectors, gram, out=np.empty_like(vectors))


def are_eigenvectors(
    diagonal: NDArray[np.float64],
    off_diagonal: NDArray[np.float64],
    values: NDArray[np.float64],
    vectors: NDArray[np.float64],
) -> bool:
    """Whether vectors are orthonormal and belong to values, by products with random vectors. Not collective."""
    n, y = diagonal.size, gaussian(values.size, False)
    x = vectors @ np.hstack([y, values[:, None] * y])
    x, expected = x[:, : y.shape[1]], x[:, y.shape[1] :]
    product = diagonal[:, None] * x
    product[:-1] += off_diagonal[:, None] * x[1:]
    product[1:] += off_diagonal[:, None] * x[:-1]
    norm = float(np.sqrt((diagonal**2).sum() + 2 * (off_diagonal**2).sum()))
    bound = float(np.finfo(np.float64).eps) * (n + 10.0) ** 0.5
    belong = length(product - expected) <= PAIRS * bound * norm
    return bool(belong and length(vectors.T @ x - y) <= ORTHOGONAL * bound * float(values.size) ** 0.5)


# -- on all ranks


class TridiagonalForm:
    """A = Q T Q^H, with the tridiagonal T on every rank; the matrix is overwritten by the reflectors of Q.

    Collective, as is `eigenpairs`. The reduction is a step of `run`, which is as `Problem.run`.
    """

    _parts: Tridiagonal  # this rank's
    _vectors: NDArray[Any] | None = None  # of T, on the first rank, if dstemr has computed them

    def __init__(self, place: Place, matrix: DistributedArray, uplo: str, run: Callable[..., Any]) -> None:
        self._place, self._matrix = place, matrix
        self._real = np.zeros(0, place.dtype).real.dtype
        self._free, self._triangle, self._diagonal, self._off_diagonal = run(
            lambda: self._reduced(uplo), self._gathered
        )

    def _reduced(self, uplo: str) -> tuple[int, Numbers | None]:
        """This rank's free memory, and its part of T."""
        parts = self._parts = pxsytrd(self._matrix, uplo)
        coords = self._matrix.desc.coords
        if parts.diagonal is None or parts.off_diagonal is None or coords is None or coords[0]:
            return free_memory(), None  # each process row has all of T
        columns = self._matrix.desc.global_indices(1)
        diagonal, off_diagonal = parts.diagonal[: columns.size], parts.off_diagonal[: columns.size]
        return free_memory(), (str(parts.uplo), columns, diagonal, off_diagonal)

    def _gathered(self, replies: list[tuple[int, Numbers | None]]) -> tuple[int, str, NDArray[Any], NDArray[Any]]:
        """The free memory of the first rank; the triangle of the reflectors, and both diagonals of T."""
        n = self._matrix.shape[0]
        diagonal, off_diagonal, triangle = np.zeros(n), np.zeros(n), "L"
        for _, numbers in replies:
            if numbers is not None:
                triangle, columns, diagonal[columns], off_diagonal[columns] = numbers
        beside = slice(0, max(0, n - 1)) if triangle == "L" else slice(1, n)
        return replies[0][0], triangle, diagonal, off_diagonal[beside]

    def eigenpairs(self, select: Select) -> tuple[NDArray[np.float64], DistributedArray]:
        """All eigenvalues of A, and the asked vectors, in the layout of the call."""
        place = self._place
        values, first, last, is_on_first_rank = place.run(lambda: self._solved(select))
        shape = self._matrix.shape[0], last - first
        if first == last:
            return values, place.zeros(shape)
        if is_on_first_rank:
            of_t = place.from_first_rank("vectors", self._vectors, shape, self._real)
        else:
            of_t = self._vectors_by_stedc(first, last)
        local: NDArray[Any] | None = of_t.local
        with place.collect_errors():
            if local is not None:
                local = np.asfortranarray(local, place.dtype)
        vectors = DistributedArray._from_result(of_t.desc, local, place.dtype)
        reflectors = DistributedArray._from_result(self._matrix.desc, self._parts.reflectors, place.dtype)
        place.run(lambda: pxormtr(reflectors, self._parts.tau, vectors, self._triangle))
        return values, vectors

    def _solved(self, select: Select) -> tuple[NDArray[np.float64], int, int, bool] | None:
        """On the first rank all eigenvalues, the first of the asked ones and the end, and whether it has their vectors of T."""
        if not self._place.is_first_rank:
            return None
        diagonal, off_diagonal = self._diagonal, self._off_diagonal
        if not (np.isfinite(diagonal).all() and np.isfinite(off_diagonal).all()):
            raise ConvergenceError("the tridiagonal matrix has infs or NaNs")
        n = diagonal.size
        values = eigenvalues_of(diagonal, off_diagonal) if n else diagonal
        first, last = select(values)
        needed = 2 * values.itemsize * n * (last - first)
        if last > first and last - first <= FEW * n and has_room(needed, lambda: self._free):
            vectors = eigenvectors_of(diagonal, off_diagonal, first, last)
            if vectors is not None and are_eigenvectors(diagonal, off_diagonal, values[first:last], vectors):
                self._vectors = vectors.astype(self._real, order="F", copy=False)
        return values, first, last, self._vectors is not None

    def _vectors_by_stedc(self, first: int, last: int) -> DistributedArray:
        """Some eigenvectors of T, by p?stedc, which computes all. Collective."""
        place, desc, local = self._place, self._matrix.desc, None
        with place.collect_errors():
            local = desc.zeros(self._real) if desc.coords is not None else None
        whole = DistributedArray._from_result(desc, local, self._real)
        diagonals = self._diagonal.astype(self._real), self._off_diagonal.astype(self._real)
        place.run(lambda: pxstedc(whole, *diagonals))
        if (first, last) == (0, desc.shape[0]):
            return whole
        return place.columns_of("vectors", whole, first, last)
