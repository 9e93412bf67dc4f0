"""Singular values by divide and conquer: ScaLAPACK reduces to bidiagonal form, LAPACK on the first rank decomposes that.

p?gesvd, which `by_rotations` calls, applies rotations to the rows of U and V^H one after the other, and takes most of its
time in that. One rank decomposes the bidiagonal matrix: two would differ in signs, and in the bases of equal singular values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import tracing
from ..comm.free_memory import free_memory, has_room
from ..distributed_array import DistributedArray
from ..scalapack import Bidiagonal, pxgebrd, pxormbr, pxormqr
from ..scalapack.calls import ConvergenceError
from ..scalapack.matrix_operands import KIND_OF_DTYPE
from .attempt import Problem, assemble
from .decompositions import copy_corner
from .kernels import lapack_function, pxgeqrf, pxgesvd, pxorgqr
from .matrix_parts import clear_outside, diagonal_elements, local_elements
from .place import Place

SQUARES = 5  # matrices of the order of the bidiagonal one that LAPACK needs: U, V^T and the workspace
MOST = 26_000  # order from which on the workspace has more elements than 32 bits count
SLENDER = 1.6  # rows for each column from which on a QR factorisation comes first
Triplets = tuple[DistributedArray, NDArray[Any], DistributedArray]
Numbers = tuple[NDArray[np.int64], NDArray[Any]]


class BidiagonalTriplets(NamedTuple):
    """Singular values of a bidiagonal matrix, and vectors: the columns of `left`, the rows of `right`."""

    left: NDArray[Any] | None
    values: NDArray[Any]
    right: NDArray[Any] | None


# -- on the first rank


def decompose_bidiagonal(d: NDArray[Any], e: NDArray[Any]) -> BidiagonalTriplets | None:
    """U, S and V^T of an upper bidiagonal matrix, by LAPACK's ?bdsdc; None if it does not converge. Not collective.

    The arguments are overwritten.
    """
    n, info, unused = d.size, np.zeros(1, np.intc), np.zeros(1, np.intc)
    left, right = (np.zeros((n, n), d.dtype, order="F") for _ in range(2))
    work, integers = np.empty(3 * n * n + 4 * n, d.dtype), np.empty(8 * n, np.intc)
    function = f"{KIND_OF_DTYPE[d.dtype]}bdsdc"
    with tracing.phase(function):
        lapack_function(function)("U", "I", n, d, e, left, n, right, n, work[:1], unused, work, integers, info)
    return None if info[0] else BidiagonalTriplets(left, d, right)


def bidiagonal_values(d: NDArray[Any], e: NDArray[Any]) -> BidiagonalTriplets | None:
    """Singular values alone, by LAPACK's ?lasq1 (dqds); None if it does not converge. Not collective.

    The arguments are overwritten.
    """
    n, info = d.size, np.zeros(1, np.intc)
    function = f"{KIND_OF_DTYPE[d.dtype]}lasq1"
    with tracing.phase(function):
        lapack_function(function)(n, d, e, np.empty(4 * n, d.dtype), info)
    return None if info[0] else BidiagonalTriplets(None, d, None)


# -- on all ranks


def fits_one_rank(problem: Problem, order: int) -> bool:
    """Whether LAPACK can decompose a bidiagonal matrix on one rank, in a quarter of the least free memory. Collective."""
    needed = SQUARES * order**2 * np.zeros(0, problem.dtype).real.itemsize
    return order < MOST and has_room(needed, lambda: problem.call.run(free_memory, min))


def by_divide_and_conquer(place: Place, matrix: DistributedArray, complete: bool = False) -> Triplets:
    """U, all values on every rank, and V^H; the matrix is overwritten. Collective.

    U is of m x min(m, n) and V^H of min(m, n) x n; with `complete` both are square.
    """
    if place.is_alone:
        return _by_lapack(place, matrix, complete, "gesdd")
    m, n = matrix.shape
    if m < n:
        right, values, left = by_divide_and_conquer(place, place.transpose(matrix), complete)
        return place.transpose(left), values, place.transpose(right)
    reduction, shape = Reduction(place, matrix), (m, m if complete else n)
    triplets, values = reduction.solve(decompose_bidiagonal)
    u = inner = _spread(place, "U", triplets and triplets.left, n, (n, n) if reduction.is_slender else shape)
    vh = _spread(place, "Vh", triplets and triplets.right, n, (n, n))
    if reduction.is_slender:
        u = _with_ones(place, place.zeros(shape), n)
    place.run(lambda: reduction.transform_back(inner, u, vh))
    return u, values, vh


def values_by_dqds(place: Place, matrix: DistributedArray) -> NDArray[Any]:
    """Singular values on every rank, without vectors; the matrix is overwritten. Collective."""
    if place.is_alone:
        return values_by_rotations(place, matrix)
    if matrix.shape[0] < matrix.shape[1]:
        matrix = place.transpose(matrix)
    return Reduction(place, matrix).solve(bidiagonal_values)[1]


def by_rotations(place: Place, matrix: DistributedArray, complete: bool = False) -> Triplets:
    """As `by_divide_and_conquer`, by p?gesvd. Collective."""
    if place.is_alone:
        return _by_lapack(place, matrix, complete, "gesvd")
    m, n = matrix.shape
    few = min(m, n)
    u, vh = place.zeros((m, few)), place.zeros((few, n))

    def work() -> NDArray[Any] | None:
        triplets = pxgesvd(matrix)
        for vectors, into in ((triplets.left, u.local), (triplets.right, vh.local)):
            if vectors is not None and into is not None:
                into[...] = vectors
        return triplets.values

    values: NDArray[Any] = place.run(work)
    if complete and m > few:
        u = _complete(place, u)
    if complete and n > few:
        vh = place.transpose(_complete(place, place.transpose(vh)))
    return u, values, vh


def _by_lapack(place: Place, matrix: DistributedArray, complete: bool, driver: str) -> Triplets:
    """The same on the process that has the matrix."""
    triplets = place.run(lambda: pxgesvd(matrix, complete=complete, driver=driver))
    u, vh = (
        DistributedArray._from_result(place.layout(local.shape), local, place.dtype)
        for local in (triplets.left, triplets.right)
    )
    return u, triplets.values, vh


def values_by_rotations(place: Place, matrix: DistributedArray) -> NDArray[Any]:
    """As `values_by_dqds`, by p?gesvd. Collective."""
    values: NDArray[Any] = place.run(lambda: pxgesvd(matrix, vectors=False).values)
    return values


def _complete(place: Place, columns: DistributedArray) -> DistributedArray:
    """Complete orthonormal columns to a square, unitary matrix."""
    m, few = columns.shape
    reflectors, whole = place.zeros((m, few)), place.zeros((m, m))
    copy_corner(columns, reflectors)

    def work() -> None:
        tau = pxgeqrf(reflectors)
        copy_corner(reflectors, whole)
        pxorgqr(whole, tau, m, few)
        copy_corner(columns, whole)  # those of p?geqrf may differ in sign

    place.run(work)
    return whole


class Reduction:
    """A = Q B P^H, or A = Q1 (Q B P^H) where a QR factorisation came first; B is upper bidiagonal, A not wide.

    The matrix is overwritten by the reflectors.
    """

    _tau: Any  # factors of the reflectors of Q1
    _factors: Bidiagonal

    def __init__(self, place: Place, matrix: DistributedArray) -> None:
        (m, n), self._place, self._matrix = matrix.shape, place, matrix
        self.is_slender = m >= SLENDER * n and m > 1
        self._reduced = place.zeros((n, n)) if self.is_slender else matrix

    def solve(
        self, solver: Callable[[NDArray[Any], NDArray[Any]], BidiagonalTriplets | None]
    ) -> tuple[BidiagonalTriplets | None, NDArray[Any]]:
        """Reduce the matrix, and solve the bidiagonal place. Collective.

        Returns what the solver found, on the first rank only, and the values, on every rank.
        """
        n, real = self._reduced.shape[1], np.zeros(0, self._place.dtype).real.dtype
        triplets: BidiagonalTriplets | None = None

        def combined(replies: list[tuple[Numbers, Numbers]]) -> NDArray[Any] | None:
            nonlocal triplets
            d, e = (assemble(n, real)(numbers) for numbers in zip(*replies, strict=True))
            if n == 0:
                triplets = BidiagonalTriplets(np.zeros((0, 0), real), d, np.zeros((0, 0), real))
            elif np.isfinite(d).all() and np.isfinite(e).all():
                triplets = solver(d, e)
            return None if triplets is None else triplets.values

        values = self._place.run(self._reduce, combined)
        if values is None:
            raise ConvergenceError("the singular values of the bidiagonal matrix did not converge")
        return triplets, values

    def _reduce(self) -> tuple[Numbers, Numbers]:
        if self.is_slender:
            self._tau = pxgeqrf(self._matrix)
            copy_corner(self._matrix, self._reduced)
            clear_outside(local_elements(self._reduced), "U")
        self._factors = pxgebrd(self._reduced)
        return _diagonal(self._reduced, 0), _diagonal(self._reduced, 1)

    def transform_back(self, inner: DistributedArray, u: DistributedArray, vh: DistributedArray) -> None:
        """Multiply vectors of B by the reflectors, in place. Collective inside `Problem.run`.

        After a QR factorisation `inner`, the left vectors of R, becomes the corner of `u`; otherwise the two are one.
        """
        pxormbr(self._reduced, self._factors.tau_p, vh, vect="P", side="R", trans="C")
        pxormbr(self._reduced, self._factors.tau_q, inner)
        if self.is_slender:
            copy_corner(inner, u)
            pxormqr(self._matrix, self._tau, u)


def _diagonal(matrix: DistributedArray, beside: int) -> Numbers:
    """Rows and real parts of this rank's elements on the diagonal, or `beside` columns to the right of it."""
    rows, columns, local = local_elements(matrix)
    indices, down, across = diagonal_elements(rows, columns - beside)
    return indices, local[down, across].real.copy()


def _spread(
    place: Place, name: str, core: NDArray[Any] | None, order: int, shape: tuple[int, int]
) -> DistributedArray:
    """Real vectors of the first rank in the layout of the call, in a larger identity matrix. Collective."""
    real = np.zeros(0, place.dtype).real.dtype
    vectors = place.from_first_rank(name, core, (order, order), real)
    if shape == (order, order) and place.dtype == real:
        return vectors
    whole = place.zeros(shape)
    with place.collect_errors():
        copy_corner(vectors, whole)
    return _with_ones(place, whole, order)


def _with_ones(place: Place, matrix: DistributedArray, first: int) -> DistributedArray:
    """Write ones on the diagonal from row `first` on."""
    with place.collect_errors():
        rows, columns, local = local_elements(matrix)
        indices, down, across = diagonal_elements(rows, columns)
        local[down[indices >= first], across[indices >= first]] = 1
    return matrix
