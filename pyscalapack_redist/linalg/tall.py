"""QR of a matrix of many rows and few columns: of each rank's rows, and of a tree of the R factors (TSQR, arXiv 0808.2664).

Each rank has whole rows, at least as many as there are columns. LAPACK factors them, A_k = Q_k R_k; then groups of ranks bring
their factors R to the first one of them, which factors them as they stand above each other, until one is left. Q comes the
same way back: the first rank of each group has a square C with which the group's Q is to be multiplied, at first the identity or
a matrix that the caller has, makes that of each rank of the group from it, and each rank multiplies its Q_k by its own. From
the identity all of these are upper triangles. What moves is squares of as many rows as A has columns, by plans.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from .. import tracing
from ..comm.agreement import agreement
from ..comm.group import first_known
from ..distributed_array import DistributedArray
from ..layout.array_arithmetic import Distributed
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from ..scalapack.matrix_operands import LIMIT
from . import attempt as attempts
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
)
from .operands import Operands
from .place import SURE, Grid, Place, move_seconds
from .rates import family_name
from .solver_rules import FAMILY

TALL = 4  # rows for each column from which on
UNEVEN = 1.5  # times the rows of equal slabs that a rank may have in the operand's own layout
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

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """A context for work of this rank by itself. An error is one of all ranks in the next step."""
        with self.collect_errors(), self.call.group.at_work(announces=self.is_root):
            self.call.raise_error()
            yield

    def on_root(self, work: Callable[[], Any]) -> Any:
        """What the root's work returns: arrays on the root, and what is `known` on all ranks. Collective.

        The work returns both, a tuple each. Other ranks sleep while it takes long.
        """
        call, order, reply = self.call, self.work_layout.shape[1], None
        threads = blas_on_all_cores() if order >= attempts.THREADED else contextlib.nullcontext()
        with self.working():
            if self.is_root:
                try:
                    with threads:
                        reply = *work(), None
                except np.linalg.LinAlgError as caught:
                    reply = (), (), caught
        error = call.take_error()
        dozes = order >= attempts.LONG
        with (
            call.step(),
            agreement(call.group, "a factor R", combine=first_known, open=False, dozes=dozes) as agreed,
        ):
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


def slabs_for(operand: Distributed, comm: Any) -> Descriptor | None:
    """The slabs of a tall matrix: those that it is in, or of equal size on as many ranks as each can have enough rows.

    None if it is not tall, or one rank would have all rows.
    """
    desc = operand.desc
    m, n = desc.shape
    if n == 0 or m < TALL * n or n > MOST_COLUMNS:
        return None
    ranks = min(comm.Get_size(), m // n)
    if ranks < 2 or -(-m // ranks) * n >= LIMIT:
        return None
    if isinstance(desc, Descriptor) and desc.parent is None and desc.copies == desc.distributions[1].processes == 1:
        rows = [count for _, count in rows_of_ranks(desc) if count]
        if n <= min(rows) and max(rows) <= UNEVEN * m / ranks:
            return desc
    grid = ProcessGrid((ranks, 1), comm, ranks=[[rank] for rank in range(ranks)])
    return Descriptor((m, n), ("balanced", None), grid)


def in_slabs(problem: Problem, work: Work[Any]) -> FirstWay | None:
    """A work in slabs, where that is predicted to take the least time. Collective.

    The matrix is the first operand. With `layout=`, and without elements to speak of, it is not.
    """
    call, operands, place = problem.call, problem.operands, problem.place
    operand, shape = next(iter(operands.arrays.values())), operands.shape
    family, cache, elements = FAMILY[call.name], cache_of(call.group), math.prod(shape)
    if place.is_asked or (elements <= SURE and not cache.has_file_of(call, family)):
        return None
    slabs = slabs_for(operand, call.comm)
    if slabs is None:
        return None
    rates, ordinary = cache.rates(call, family, ROUTINES[family_name(family)]), place.work_layout
    fans = levels(sum(rows > 0 for _, rows in rows_of_ranks(slabs)), shape[1])
    most = max(rows for _, rows in rows_of_ranks(slabs))
    by_slabs = rates.seconds_in_slabs(most, shape[1], fans, family == "svd")
    by_others = rates.seconds(shape, ordinary.grid.size)
    if slabs is not operand.desc:
        by_slabs += move_seconds(elements, len(slabs.grid.ranks))
    if ordinary.grid.size > 1 and ordinary != operand.desc:
        by_others += move_seconds(elements, ordinary.grid.size)
    if by_slabs >= by_others:
        return None
    name = f"LAPACK of SciPy {scipy.__version__}, for the rows of each process"
    return FirstWay(Slabs(call, operands, slabs), work, name)


# -- the tree


class Node(NamedTuple):
    """The factors of triangles above each other: the reflectors of each but the first, and their T."""

    reflectors: list[tuple[Matrix, Matrix]]

    @classmethod
    def of(cls, stack: Matrix, order: int) -> tuple[Node, Matrix, float]:
        """Factor triangles, with right-hand sides beside them.

        Returns also R, beside it the upper part of Q^H B, and of each column of B the squares in the other parts.
        """
        count = len(stack) // order
        triangle, *others = (np.array(stack[k * order : (k + 1) * order], order="F") for k in range(count))
        whole, node, squares = triangle, cls([]), 0.0
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

    def __init__(self, place: Slabs, matrix: DistributedArray, sides: DistributedArray | None = None) -> None:
        self._place, self._matrix, self._levels = place, matrix, list[tuple[list[int], Node | None]]()
        self._order = matrix.shape[1]
        top = None
        self.squares: Any = 0.0
        with place.working():
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
            with place.working():
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
            with place.working():
                if node is not None:
                    stack = node.expand(np.array(square, order="F"), is_upper)
            source, target = self._stack(firsts, place.fan_in, n, len(ranks)), self._stack(ranks, 1, n)
            square = place.redistribute("Q factors", source, target, stack)
        return square

    def q(self) -> DistributedArray:
        """Q, in the memory of the matrix."""
        place, start = self._place, None
        with place.working():
            if place.is_root:
                start = np.eye(self._order, dtype=place.dtype, order="F")
            self._form()
        square = self._go_down(start, True)
        with place.working():
            if place.has_rows:
                assert square is not None
                own_trmm(np.array(square, order="F"), self._local)
        return self._matrix

    def times(self, square: DistributedArray) -> DistributedArray:
        """Q times a square matrix that one rank has, in the memory of the matrix."""
        place = self._place
        with place.working():
            self._form()
        factor = self._go_down(square.local if place.is_root else None, False)
        with place.working():
            if place.has_rows:
                multiply_rows(self._local, factor)
        return self._matrix

    def _form(self) -> None:
        """Form each rank's Q_k."""
        if self._place.has_rows:
            with tracing.phase("orgqr"):
                own_orgqr(self._local, self._tau)

    @property
    def _local(self) -> Matrix:
        assert self._matrix.local is not None
        return self._matrix.local


def multiply_rows(local: Matrix, square: Any) -> None:
    """Multiply a rank's rows by a square matrix, in place."""
    for first in range(0, len(local), ROWS):
        rows = local[first : first + ROWS]
        rows[...] = rows @ square


def squares_of_columns(matrix: Matrix) -> NDArray[np.float64]:
    """Sums of the squares of absolute values."""
    return (np.abs(matrix).astype(np.float64) ** 2).sum(axis=0)  # type: ignore[no-any-return]


def decompose(place: Place, matrix: DistributedArray, complete: bool = False) -> Triplets:
    """Singular values and vectors of a matrix in slabs, as `by_divide_and_conquer`: by those of R, on the root. Collective."""
    assert isinstance(place, Slabs)
    factors, n = SlabFactors(place, matrix), matrix.shape[1]

    def of_r() -> Any:
        left, values, right = pxgesvd(factors.r)
        return (left, right), values

    vectors, values = place.on_root(of_r)
    left, right = vectors or (None, None)
    return factors.times(place.of_root(left, (n, n))), values, place.of_root(right, (n, n))


def values_alone(place: Place, matrix: DistributedArray) -> NDArray[Any]:
    """Singular values of a matrix in slabs, on every rank. Collective."""
    assert isinstance(place, Slabs)
    factors = SlabFactors(place, matrix)
    values: NDArray[Any] = place.on_root(lambda: (None, pxgesvd(factors.r, vectors=False).values))[1]
    return values
