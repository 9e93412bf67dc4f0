"""Grids on which a product is computed, and what each takes: a model of seconds and bytes, by the layouts alone.

The processes are a grid of p x q x r. Rows of C are dealt over p, its columns over q, and the inner dimension, columns of A and
rows of B, over r. So A is over p and r, with a replica for each of q, and B over r and q, with a replica for each of p. With
r > 1 each layer has a part of every sum, and the parts are added in the layout of the result. Nothing of A is moved
where its own layout is that of a p x 1 x r grid, nothing of B on a 1 x q x r grid, nothing of C on the grid of the
result: rows times a matrix, a matrix times a vector, and the Gram matrix of tall columns are such cases.

All ranks choose the same grid, since all know the layouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..layout.axis import BlockCyclic, Blocks
from ..layout.descriptor import Descriptor
from ..layout.dimensions import Distribution

PANEL_BYTES = 2**26  # of a panel of A and one of B together
LEAST_WIDTH = 256  # of a panel, for which BLAS is fast
HALF_COLUMNS = 64, 256  # least and most of C in a step of one half: some above the diagonal are computed in vain
HALF_BLOCKS = 8  # of each process along each dimension, so that processes have equal parts of one half
DIVISORS = 2, 4, 6, 12  # of a number of processes that may be taken in place of all
LATENCY = 1e-4  # seconds of a plan's use
PER_BYTE, PER_BYTE_OF_ALL = 3e-10, 1e-10  # seconds for each byte that a process receives, and that all do
PER_STEP = {"f": 4e-11, "d": 8e-11, "F": 1.6e-10, "D": 3.2e-10}  # seconds of a multiplication and an addition


class Deal(NamedTuple):
    """How indices are dealt to processes: block size and source; None: a block for each process."""

    block: int | Blocks | None = None
    source: int = 0

    def most(self, n: int, processes: int) -> int:
        """The most of n indices that a process gets."""
        if self.block is None:
            return -(-n // processes)
        if isinstance(self.block, Blocks):
            return int(np.bincount(self.block.owners, self.block.sizes, processes).max(initial=0))
        return BlockCyclic(n, self.block, processes, self.source).local_size(self.source)


EACH_ONE = Deal()


class Plane(NamedTuple):
    """The layout of a whole matrix without replicas: the rank at each process row and column, and how both are dealt."""

    ranks: NDArray[np.int64]
    rows: Deal
    columns: Deal

    @classmethod
    def of(cls, desc: Descriptor) -> Plane | None:
        """The plane of a layout; None if it is of a sub-array, or has replicas."""
        if desc.parent is not None or desc.copies > 1:
            return None
        return cls(desc.places, *map(_deal_of, desc.distributions))

    def equals(self, other: Plane | None) -> bool:
        """Whether each process has the same elements in both."""
        return other is not None and self[1:] == other[1:] and np.array_equal(self.ranks, other.ranks)


def _deal_of(axis: Distribution) -> Deal:
    return Deal(max(1, axis.n)) if axis.processes == 1 else Deal(axis.block, axis.source)


def _explicit(deal: Deal, n: int, processes: int) -> Deal:
    """The deal as a layout of so many processes has it."""
    if processes == 1:
        return Deal(max(1, n))
    return Deal(max(1, -(-n // processes))) if deal.block is None else deal


class Cost(NamedTuple):
    """What a product takes: seconds, and bytes of extra memory on a process."""

    seconds: float
    nbytes: int


class Sizes(NamedTuple):
    """Of the product of m x k and k x n elements of a dtype, of which one half may be computed alone."""

    m: int
    n: int
    k: int
    dtype: np.dtype[Any]


class Arrangement(NamedTuple):
    """A grid of p x q x r processes, and how rows and columns of C and the inner dimension are dealt to them."""

    ranks: NDArray[np.int64]
    rows: Deal = EACH_ONE
    columns: Deal = EACH_ONE
    inner: Deal = EACH_ONE
    is_half: bool = False  # whether the lower half of C is computed alone

    def planes(self, sizes: Sizes) -> tuple[Plane | None, Plane | None, Plane | None]:
        """Those of A, B and C; None where processes hold replicas, or parts of sums."""
        (p, q, r), (m, n, k, _) = self.ranks.shape, sizes
        rows, columns, inner = _explicit(self.rows, m, p), _explicit(self.columns, n, q), _explicit(self.inner, k, r)
        return (
            Plane(self.ranks[:, 0, :], rows, inner) if q == 1 else None,
            Plane(self.ranks[0].T, inner, columns) if p == 1 else None,
            Plane(self.ranks[:, :, 0], rows, columns) if r == 1 else None,
        )

    def unmoved(self, sizes: Sizes, a: Plane | None, b: Plane | None, c: Plane | None) -> tuple[bool, bool, bool]:
        """Whether A, B and C are not moved, that have these planes."""
        its_a, its_b, its_c = self.planes(sizes)
        return (
            its_a is not None and its_a.equals(a),
            its_b is not None and its_b.equals(b),
            not self.is_half and its_c is not None and its_c.equals(c),
        )

    def cost(self, sizes: Sizes, may_be_half: bool, a: Plane | None, b: Plane | None, c: Plane | None) -> Cost:
        """What it takes for operands and a result with these planes; `may_be_half`: one half has all numbers."""
        (p, q, r), (m, n, k, dtype) = self.ranks.shape, sizes
        rows, columns, inner = self.rows.most(m, p), self.columns.most(n, q), self.inner.most(k, r)
        a_stays, b_stays, c_stays = self.unmoved(sizes, a, b, c)
        steps = rows * columns * inner * (self._half(sizes) if may_be_half else 1)
        moved = [0 if a_stays else rows * inner, 0 if b_stays else inner * columns]
        parts = 0 if c_stays else rows * columns
        share = -(-m * n // self.ranks.size)
        received = sum(moved) + (0 if c_stays else share * (r + self.is_half))
        moves = sum(map(bool, moved)) + (not c_stays) * (1 + (r > 1 and self.is_half))
        bytes_received = received * dtype.itemsize
        seconds = (
            steps * PER_STEP[dtype.char]
            + max(bytes_received * PER_BYTE, bytes_received * self.ranks.size * PER_BYTE_OF_ALL)
            + moves * LATENCY
        )
        panels = sum(moved) * dtype.itemsize
        if panels and self.can_cut(a_stays, b_stays):
            narrow = sum(size // max(1, inner) for size in moved) * LEAST_WIDTH * dtype.itemsize
            panels = min(panels, max(PANEL_BYTES, narrow))
        return Cost(seconds, panels + (parts + (r > 1) * share * r) * dtype.itemsize)

    def can_cut(self, a_stays: bool, b_stays: bool) -> bool:
        """Whether there can be several panels: the inner dimension is not dealt, or as each panel likes."""
        return self.ranks.shape[2] == 1 or not (a_stays or b_stays)

    def _half(self, sizes: Sizes) -> float:
        """The part of all steps that the busiest process makes of its own, where one half has all numbers."""
        p, q, _ = self.ranks.shape
        if not self.is_half:  # NumPy computes one half of a whole product with a transpose
            return 0.55 if p == q == 1 and sizes.dtype.kind == "f" else 1.0
        blocks = sum(sizes.m / (side * HALF_BLOCKS) for side in (p, q) if side > 1)
        part: float = min(1.0, 0.5 + (_width(sizes.n // q) * q + blocks) / (2 * max(1, sizes.n)))
        return part


def _width(columns: int) -> int:
    """Columns of a step of one half, of so many on a process."""
    least, most = HALF_COLUMNS
    return max(least, min(most, columns // 8))


def steps_of_half(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Steps of the lower half: first local column, number of columns, and number of the last local rows."""
    width = _width(columns.size)
    firsts = np.arange(0, columns.size, width)
    above = np.searchsorted(rows, columns[firsts])
    for first, skipped in zip(firsts.tolist(), above.tolist(), strict=True):
        yield first, min(width, columns.size - first), rows.size - skipped


def arrangements(size: int, a: Plane | None, b: Plane | None, c: Plane | None) -> Iterator[Arrangement]:
    """Those that leave C, A or B where it is, and all grids of all ranks, of somewhat fewer, and of one.

    Ranks are those of a communicator of `size`.
    """
    if c is not None:
        yield Arrangement(c.ranks[:, :, None], c.rows, c.columns)
    if a is not None:
        yield Arrangement(a.ranks[:, None, :], a.rows, inner=a.columns)
    if b is not None:
        yield Arrangement(b.ranks.T[None], columns=b.columns, inner=b.rows)
    yield from _grids(size)


def _grids(size: int) -> Iterator[Arrangement]:
    for processes in sorted({1, size, *(size - size % divisor or 1 for divisor in DIVISORS)}, reverse=True):
        for p in range(1, processes + 1):
            for q in range(1, processes // p + 1 if processes % p == 0 else 0):
                if processes // p % q == 0:
                    yield Arrangement(np.arange(processes).reshape(p, q, -1))


def halves(size: int, sizes: Sizes) -> Iterator[Arrangement]:
    """All grids, with the lower half of C in as many blocks that processes have equal parts of it."""
    for arrangement in _grids(size):
        p, q, _ = arrangement.ranks.shape
        rows, columns = (Deal(max(1, -(-sizes.m // (side * HALF_BLOCKS)))) if side > 1 else EACH_ONE for side in (p, q))
        yield Arrangement(arrangement.ranks, rows, columns, is_half=True)


def best_arrangement(
    sizes: Sizes, size: int, a: Descriptor, b: Descriptor, c: Descriptor, may_be_half: bool
) -> Arrangement:
    """The arrangement of the least seconds, among those that take little memory, for operands and a result in layouts.

    Little is `PANEL_BYTES` beside an equal share of operands and result.
    """
    planes = [Plane.of(desc) for desc in (a, b, c)]
    possible: list[Arrangement] = [*arrangements(size, *planes), *(halves(size, sizes) if may_be_half else ())]
    m, n, k, dtype = sizes
    room = PANEL_BYTES + (m * k + k * n + m * n) * dtype.itemsize // size
    costs = [arrangement.cost(sizes, may_be_half, *planes) for arrangement in possible]
    best = min(range(len(possible)), key=lambda number: (max(room, costs[number].nbytes), costs[number].seconds))
    return possible[best]
