"""QR of a matrix of many rows and few columns: of each rank's rows, and of a tree of the R factors (TSQR, arXiv 0808.2664).

Each rank has whole rows, at least as many as there are columns. LAPACK factors them, A_k = Q_k R_k; then groups of ranks bring
their factors R to the first one of them, which factors them as they stand above each other, until one is left. Q comes the same
way back: the first rank of each group has a square by which the group's Q is to be multiplied, at first the identity or another
one, makes that of each rank of the group from it, and each rank multiplies its Q_k by its own. From the identity all of these
are upper triangles. What moves is squares of as many rows as A has columns, by plans.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from .. import tracing
from ..comm.agreement import agreement
from ..comm.group import first_known
from ..comm.mpi import MPI
from ..distributed_array import DistributedArray
from ..layout.array_arithmetic import Distributed
from ..layout.axis import Blocks
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from ..scalapack.matrix_operands import LIMIT
from . import attempt as attempts
from . import place as places
from .attempt import FirstWay, Problem, Work
from .cache import cache_of
from .call import ROUTINES, RoutineCall
from .cores import blas_on_all_cores
from .kernels import (
    own_geqrf,
    own_orgqr,
    own_ormqr,
    own_tpgqrt,
    own_tpmqrt,
    own_tpqrt,
    own_trmm,
    pxgesvd,
    pxtrsm,
)
from .operands import Operands
from .place import Grid, Place, move_seconds
from .rates import TallRates, family_name

TALL = 4  # rows for each column from which on
MOST_COLUMNS = 2**14  # for which LAPACK can count its workspaces on the root
SQUARES = 2**18  # elements of the factors R that a rank factors together, if there are more than two
ROWS = 1024  # of a slab that are multiplied at a time
Matrix = NDArray[Any]
Triplets = tuple[DistributedArray, NDArray[Any], DistributedArray]


# -- slabs of whole rows


class Slabs(Grid):
    """Slabs of whole rows, each of as many as there are columns or more; other matrices are on one rank, the root.

    Attributes
    ----------
    slab_ranks : list of int
        Ranks with rows; the first is the root.
    root : int
        As above.
    rank : int
        This one.
    fan_in : int
        How many factors R a rank factors together.
    """

    def __init__(self, call: RoutineCall, facts: Operands, layout: Descriptor) -> None:
        super().__init__(call, facts, layout, False)
        self.rank, self.slab_ranks = call.comm.Get_rank(), [rank for rank, rows in rows_of_ranks(layout) if rows]
        self.root, self.fan_in = self.slab_ranks[0], fan_in(layout.shape[1])

    @property
    def has_rows(self) -> bool:
        """Whether this rank has."""
        return self.rank in self.slab_ranks

    @property
    def is_root(self) -> bool:
        """Whether this rank is the root."""
        return self.rank == self.root

    def layout(self, shape: tuple[int, int]) -> Descriptor:
        work = self.work_layout
        if shape[0] != work.shape[0]:
            return cache_of(self.call.group).layout_on(self.root, shape, self.call.comm)
        if shape[1] == work.shape[1]:
            return work
        return Descriptor(shape, (work.block[0], None), work.grid, source=(work.source[0], 0), axes=work.axes)

    def _own(self, name: str, local: NDArray[Any] | None, read_only: bool) -> NDArray[Any] | None:
        rows = self.work_layout.local_shape[0]
        if local is None or len(local) == rows:
            return super()._own(name, local, read_only)
        with self.collect_errors():
            return np.array(local[:rows], order="F")  # without rows of padding
        return None

    def at_work(self) -> contextlib.AbstractContextManager[None]:
        """Say to ranks that wait for this one that it works in the block; the root says it to other nodes, too."""
        return self.call.group.at_work(announces=self.is_root)

    def on_root(self, work: Callable[[], Any]) -> Any:
        """What the root's work returns: arrays on the root, and what is `known` on all ranks. Collective.

        The work returns both, a tuple each. Other ranks sleep while it takes long.
        """
        call, order, reply = self.call, self.work_layout.shape[1], None
        threads = blas_on_all_cores() if order >= attempts.THREADED else contextlib.nullcontext()
        with self.collect_errors(), self.at_work():
            if self.is_root:
                try:
                    with threads:
                        reply = *work(), None
                except np.linalg.LinAlgError as caught:
                    reply = (), (), caught
        error = call.take_error()
        what, dozes = "a factor R", order >= attempts.LONG
        with call.step(), agreement(call.group, what, combine=first_known, open=False, dozes=dozes) as agreed:
            if error is not None:
                raise error
            agreed.give(None if reply is None else reply[1:])
        known, failure = agreed.result
        if failure is not None:
            raise failure
        return (reply[0] if reply is not None else None), known

    def of_root(self, local: NDArray[Any] | None, shape: tuple[int, int]) -> DistributedArray:
        """A matrix that the root has."""
        return self.array(self.layout(shape), local if self.is_root else None)

    def on_all(self, name: str, matrix: DistributedArray) -> Matrix | None:
        """A matrix that the root has, on all ranks with rows. Collective."""
        grid = ProcessGrid((len(self.slab_ranks),), self.call.comm, ranks=self.slab_ranks)
        copies = Descriptor(matrix.shape, None, grid, axes=(None, None))
        copy: Matrix | None = self.redistribute(name, matrix.desc, copies, matrix.local)
        return copy


def rows_of_ranks(layout: Descriptor) -> list[tuple[int, int]]:
    """Each rank of a layout with the number of its rows."""
    grid, axis, dimension = layout.grid, layout.distributions[0], layout.axes[0]
    return [
        (int(rank), axis.local_size(0 if dimension is None else coords[dimension]))
        for coords, rank in np.ndenumerate(grid.ranks)
    ]


def fan_in(order: int) -> int:
    """How many factors R of an order a rank factors together."""
    return max(2, SQUARES // order**2)


def levels(count: int, order: int) -> list[int]:
    """For each level of the tree over so many ranks how many factors the first rank factors together."""
    fan, found = fan_in(order), []
    while count > 1:
        found.append(min(fan, count))
        count = -(-count // fan)
    return found


def slabs_for(operand: Distributed, comm: MPI.Intracomm, root_rows: int) -> list[Descriptor]:
    """Slabs of a tall matrix: those that it is in, and others of equal size, on as many ranks as can have enough rows.

    The first rank has so many rows less, which take as long as what else it computes. There are none if a rank would have too
    many elements for LAPACK.
    """
    desc = operand.desc
    m, n = desc.shape
    ranks = min(comm.Get_size(), m // n)
    first = max(n, (m + root_rows) // ranks - root_rows)
    others, more = divmod(m - first, ranks - 1)
    sizes = [first, *(others + (k < more) for k in range(ranks - 1))]
    grid = ProcessGrid((ranks, 1), comm, ranks=[[rank] for rank in range(ranks)])
    layouts = [Descriptor((m, n), (Blocks(sizes), None), grid)]
    is_in_slabs = isinstance(desc, Descriptor) and desc.parent is None and desc.copies == desc.distributions[1].processes == 1
    if is_in_slabs and min([rows for _, rows in rows_of_ranks(desc) if rows]) >= n:
        layouts.insert(0, Descriptor(desc.shape, desc.block, desc.grid, source=desc.source, axes=desc.axes))
    return [each for each in layouts if max(rows for _, rows in rows_of_ranks(each)) < min(m, LIMIT // n)]


def in_slabs(problem: Problem, work: Work[Any], *, by_values: bool = False) -> FirstWay | None:
    """A work in slabs, where that is predicted to take the least time. Collective.

    The matrix is the first operand. It is not with `layout=`, and not without elements to speak of. `by_values`: whether the
    work decomposes R.
    """
    call, operands, place = problem.call, problem.operands, problem.place
    operand, (m, n) = next(iter(operands.arrays.values())), operands.shape
    cache, elements, families = cache_of(call.group), m * n, ["qr", "svd"] if by_values else ["qr"]
    if place.is_asked or n == 0 or m < TALL * n or n > MOST_COLUMNS or call.comm.Get_size() == 1:
        return None
    if elements <= places.SURE and not all(cache.has_file_of(call, family) for family in families):
        return None
    every = [cache.rates(call, family, ROUTINES[family_name(family)]) for family in families]
    qr = every[0] if cache.has_file_of(call, "qr") else every[0].of_slender()
    rates, ordinary = TallRates(qr, every[1] if by_values else None), place.work_layout

    def seconds(layout: Descriptor) -> float:
        rows = [count for _, count in rows_of_ranks(layout) if count]
        moved = 0.0 if layout == operand.desc else move_seconds(elements, len(rows))
        return rates.seconds_in_slabs(rows, n, levels(len(rows), n)) + moved

    best = min(slabs_for(operand, call.comm, rates.rows_for_values(n)), key=seconds, default=None)
    by_others = rates.seconds((m, n), ordinary.grid.size)
    if ordinary.grid.size > 1 and ordinary != operand.desc:
        by_others += move_seconds(elements, ordinary.grid.size)
    if best is None or seconds(best) >= by_others:
        return None
    name = f"LAPACK of SciPy {scipy.__version__}, for the rows of each process"
    return FirstWay(Slabs(call, operands, best), work, name)


# -- the tree


class Node(NamedTuple):
    """The factors of triangles above each other: the reflectors of each but the first, and their T."""

    reflectors: list[tuple[Matrix, Matrix]]

    @classmethod
    def of(cls, stack: Matrix, order: int) -> tuple[Node, Matrix, Any]:
        """Factor triangles, with right-hand sides beside them.

        Returns also R, beside it the upper part of Q^H B, and of each column of B the squares in the other parts.
        """
        count = len(stack) // order
        triangle, *others = (np.array(stack[k * order : (k + 1) * order], order="F") for k in range(count))
        whole, node = triangle, cls([])
        squares: Any = 0.0
        triangle, sides = whole[:, :order], whole[:, order:]
        for other in others:
            below, rest = other[:, :order], other[:, order:]
            t = own_tpqrt(triangle, below)
            node.reflectors.append((below, t))
            if rest.shape[1]:
                own_tpmqrt(below, t, sides, rest)
                squares = squares + squares_of_columns(rest)
        return node, whole, squares

    def expand(self, square: Matrix, is_upper: bool) -> Matrix:
        """Q times a square above zeros. The square is overwritten."""
        below = [own_tpgqrt(v, t, square, is_upper=is_upper) for v, t in reversed(self.reflectors)]
        return np.vstack([square, *reversed(below)])


class SlabFactors:
    """The QR factors of a matrix in slabs, which its reflectors overwrite. Making it is collective, as its methods.

    Parameters
    ----------
    place : Slabs
        Where the matrix is.
    matrix : DistributedArray
        The matrix.
    sides : DistributedArray, optional
        Right-hand sides, in the same rows, which are overwritten.

    Attributes
    ----------
    r : DistributedArray
        R, with zeros below its diagonal, on one rank.
    sides : DistributedArray
        The first rows of Q^H B, as many as R has, on that rank.
    squares : ndarray or float
        Of each right-hand side the sum of squares of the other rows of Q^H B, as far as this rank has them.
    """

    _tau: NDArray[Any]
    _is_formed = False

    def __init__(self, place: Slabs, matrix: DistributedArray, sides: DistributedArray | None = None) -> None:
        self._place, self._matrix, self._levels = place, matrix, list[tuple[list[int], Node | None]]()
        self._order = matrix.shape[1]
        top = None
        self.squares: Any = 0.0
        place.call.raise_error()  # where there was no memory for a copy, the matrix is the operand
        with place.collect_errors(), place.at_work():
            if place.has_rows:
                top = self._factor_rows(matrix.local, None if sides is None else sides.local)
        self._go_up(top, 0 if sides is None else sides.shape[1])

    def _factor_rows(self, local: Any, sides: Any) -> Matrix:
        n = self._order
        with tracing.phase("geqrf"):
            self._tau = own_geqrf(local)
        top = np.zeros((n, n + (0 if sides is None else sides.shape[1])), local.dtype, "F")
        top[:, :n] = np.triu(local[:n])
        if top.shape[1] > n:
            own_ormqr(local, self._tau, sides)
            top[:, n:] = sides[:n]
            self.squares = squares_of_columns(sides[n:])
        return top

    def _go_up(self, top: Matrix | None, count: int) -> None:
        place, n, ranks = self._place, self._order, self._place.slab_ranks
        width = n + count
        while len(ranks) > 1:
            firsts = ranks[:: place.fan_in]
            source, target = self._stack(ranks, 1, width), self._stack(firsts, place.fan_in, width, len(ranks))
            top = place.redistribute("R factors", source, target, top)
            node = None
            with place.collect_errors(), place.at_work():
                if place.rank in firsts:
                    with tracing.phase("tpqrt"):
                        node, top, squares = Node.of(top, n)
                    self.squares = self.squares + squares
            self._levels.append((ranks, node))
            ranks = firsts
        place.call.raise_error()
        r, sides = (None, None) if top is None else (np.array(part, order="F") for part in (top[:, :n], top[:, n:]))
        self.r, self.sides = place.of_root(r, (n, n)), place.of_root(sides, (n, count))

    def _stack(self, ranks: Sequence[int], each: int, width: int, count: int | None = None) -> Descriptor:
        """The layout of squares above each other, so many on each rank."""
        grid = ProcessGrid((len(ranks), 1), self._place.call.comm, ranks=[[rank] for rank in ranks])
        return Descriptor(((count or len(ranks)) * self._order, width), (each * self._order, None), grid)

    def _go_down(self, square: Matrix | None, is_upper: bool) -> Matrix | None:
        """The square with which each rank's Q_k is to be multiplied."""
        place, n = self._place, self._order
        for ranks, node in reversed(self._levels):
            firsts = ranks[:: place.fan_in]
            stack = None
            with place.collect_errors(), place.at_work():
                if node is not None:
                    stack = node.expand(np.array(square, order="F"), is_upper)
            source, target = self._stack(firsts, place.fan_in, n, len(ranks)), self._stack(ranks, 1, n)
            square = place.redistribute("Q factors", source, target, stack)
        return square

    def q(self) -> DistributedArray:
        """Q, in the memory of the matrix."""
        place, start = self._place, None
        self.form()
        with place.collect_errors(), place.at_work():
            if place.is_root:
                start = np.eye(self._order, dtype=place.dtype, order="F")
        square = self._go_down(start, True)
        with place.collect_errors(), place.at_work():
            if place.has_rows:
                assert square is not None
                with tracing.phase("trmm"):
                    own_trmm(np.array(square, order="F"), self._local)
        return self._matrix

    def times(self, square: DistributedArray) -> DistributedArray:
        """Q times a square matrix that one rank has, in the memory of the matrix."""
        place = self._place
        self.form()
        factor = self._go_down(square.local if place.is_root else None, False)
        with place.collect_errors(), place.at_work():
            if place.has_rows:
                with tracing.phase("gemm"):
                    multiply_rows(self._local, factor)
        return self._matrix

    def solve(self) -> NDArray[Any]:
        """Solve R X = Q^H B on the root, in the memory of `sides`; the diagonal of R, there alone. Not collective."""
        if not self._place.is_root:
            return np.zeros(0, self._place.dtype)
        if self.sides.shape[1]:
            pxtrsm(self.r, self.sides, "U")
        diagonal: NDArray[Any] = self.r.local.diagonal()
        return diagonal

    def form(self) -> None:
        """Form this rank's Q_k, if it has not been. Not collective."""
        with self._place.collect_errors(), self._place.at_work():
            if self._place.has_rows and not self._is_formed:
                self._is_formed = True
                with tracing.phase("orgqr"):
                    own_orgqr(self._local, self._tau)

    @property
    def _local(self) -> Matrix:
        local: Matrix | None = self._matrix.local
        assert local is not None
        return local


def multiply_rows(local: Matrix, square: Any) -> None:
    """Multiply a rank's rows by a square matrix, in place."""
    for first in range(0, len(local), ROWS):
        rows = local[first : first + ROWS]
        rows[...] = rows @ square


def project(place: Slabs, left: DistributedArray, sides: DistributedArray) -> NDArray[Any]:
    """U^H B on every rank, of matrices in slabs. What is left of B outside of U's columns remains in its memory. Collective."""

    def part() -> NDArray[Any] | None:
        if not place.has_rows:
            return None
        product: NDArray[Any] = left.local.conj().T @ sides.local
        return product

    def combined(parts: list[NDArray[Any] | None]) -> NDArray[Any]:
        whole: NDArray[Any] = np.sum([each for each in parts if each is not None], axis=0)
        return whole

    parts: NDArray[Any] = place.run(part, combined)
    with place.collect_errors(), place.at_work():
        if place.has_rows:
            sides.local[...] -= left.local @ parts
    return parts


def times_adjoint(place: Slabs, right: DistributedArray, left: DistributedArray) -> DistributedArray:
    """X^H U^H of a matrix X that the root has and U in slabs, in columns of as many as U has rows. Collective."""
    factor, local = place.on_all("X", right), None
    with place.collect_errors(), place.at_work():
        if place.has_rows:
            local = np.array((left.local @ factor).conj().T, order="F")
    return place.array(left.desc.T, local)


def squares_of_columns(matrix: Matrix) -> NDArray[np.float64]:
    """Sums of the squares of absolute values."""
    squares: NDArray[np.float64] = (np.abs(matrix).astype(np.float64) ** 2).sum(axis=0)
    return squares


def decompose(place: Place, matrix: DistributedArray, complete: bool = False) -> Triplets:
    """Singular values and vectors of a matrix in slabs, as `by_divide_and_conquer`: by those of R, on the root. Collective."""
    assert isinstance(place, Slabs)
    factors, n = SlabFactors(place, matrix), matrix.shape[1]

    def of_r() -> Any:
        with tracing.phase("gesdd"):
            left, values, right = pxgesvd(factors.r)
        return (left, right), values

    if not place.is_root:  # which has fewer rows, if that pays
        factors.form()
    vectors, values = place.on_root(of_r)
    left, right = vectors or (None, None)
    return factors.times(place.of_root(left, (n, n))), values, place.of_root(right, (n, n))


def polar_by_tree(
    place: Slabs, matrix: DistributedArray
) -> tuple[DistributedArray, DistributedArray, NDArray[Any], DistributedArray]:
    """U and P of A = U P, in slabs and on the root, and the singular values and V^H of R, which P is made of. Collective."""
    factors, n = SlabFactors(place, matrix), matrix.shape[1]

    def of_r() -> Any:
        with tracing.phase("gesdd"):
            left, values, right = pxgesvd(factors.r)
        assert left is not None and right is not None  # noqa: PT018
        return (left @ right, np.array((right.conj().T * values) @ right, order="F"), right), values

    if not place.is_root:
        factors.form()
    squares, values = place.on_root(of_r)
    unitary, hermitian, right = (place.of_root(square, (n, n)) for square in squares or (None, None, None))
    return factors.times(unitary), hermitian, values, right


def values_alone(place: Place, matrix: DistributedArray) -> NDArray[Any]:
    """Singular values of a matrix in slabs, on every rank. Collective."""
    assert isinstance(place, Slabs)
    factors = SlabFactors(place, matrix)
    values: NDArray[Any] = place.on_root(lambda: (None, pxgesvd(factors.r, vectors=False).values))[1]
    return values
