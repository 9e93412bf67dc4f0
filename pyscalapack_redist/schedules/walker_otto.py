"""Walker & Otto's schedules for r -> K r and K r -> r on P processes: P K blocks in K steps.

The extended Euclidean algorithm solves the reduced system (Eqs 6, 7); each entry becomes a permutation block (Eqs 8-10); Eq 11
is the receive schedule. The paper prints floor(-lambda x / P'), which must be the ceiling; this module uses q' modulo P'.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ScheduleError
from ..intersections.runs import SuperblockSlot
from .checks import checked_messages, checked_table, integer, positive
from .communication_grid import CommunicationGrid
from .formulas import random_keys
from .message_graph import Ints, MessageGraph
from .schedule import Schedule


@dataclass(frozen=True)
class WalkerOtto:
    """Send and receive schedules of one superblock of P K blocks, K steps.

    Attributes
    ----------
    P, K : int
        Processes, and the factor by which blocks grow.
    B, q, b : ndarray
        K x P: global block, destination and local block that a process sends in a step (Fig 8).
    C, p, t : ndarray
        K x P: global block, source and local slot of the block that a process receives in a step (Fig 9).
    """

    P: int
    K: int

    def sent(self, k: Any, p: Any) -> Any:
        """Global block B(k, p) that `p` sends in step `k`; ints or arrays (Eqs 7-10). Not collective."""
        g = math.gcd(self.P, self.K)
        reduced_p, reduced_k = self.P // g, self.K // g
        inverse = pow(reduced_k, -1, reduced_p)
        of_k = k // g
        of_q = (p // g - of_k) * inverse % reduced_p
        alpha = p % g
        beta = (alpha - k % g) % g
        return g * (of_q * reduced_k + of_k) + self.P * reduced_k * beta + alpha

    def received(self, k: Any, q: Any) -> Any:
        """Global block C(k, q) that `q` receives in step `k`; ints or arrays (Eq 11). Not collective."""
        g = math.gcd(self.P, self.K)
        return self.K * q + g * (k // g) + (q // (self.P // g) + k % g) % g

    @cached_property
    def B(self) -> Ints:  # noqa: N802 - the paper's name
        """Global block send schedule."""
        blocks: Ints = self.sent(*self._indices())
        return blocks

    @property
    def q(self) -> Ints:
        """Process send schedule: destinations."""
        return self.B // self.K

    @property
    def b(self) -> Ints:
        """Local block send schedule."""
        return self.B // self.P

    @cached_property
    def C(self) -> Ints:  # noqa: N802
        """Global block receive schedule."""
        blocks: Ints = self.received(*self._indices())
        return blocks

    @property
    def p(self) -> Ints:
        """Process receive schedule: sources."""
        return self.C % self.P

    @property
    def t(self) -> Ints:
        """Local block receive schedule: slots."""
        return self.C % self.K

    def _indices(self) -> tuple[Ints, Ints]:
        checked_table(self.K, self.P)
        return np.arange(self.K)[:, None], np.arange(self.P)[None]


def walker_otto(P: int, K: int) -> WalkerOtto:
    """The six tables of Walker and Otto for r -> K r on P processes. Not collective.

    Raises
    ------
    ScheduleError
        P or K is not an integer of at least 1.
    """
    return WalkerOtto(
        positive("P", P, "the number of processes"), positive("K", K, "the factor by which the block size grows")
    )


def schedule_walker_otto(grid: MessageGraph) -> Schedule:
    """The schedule of Walker and Otto; K r -> r is r -> K r reversed (section 4).

    K steps of one block for each process. For K > P a pair is in several steps, with a block in each.

    Raises
    ------
    ScheduleError
        The grid is not r -> K r or K r -> r on P = Q processes with aligned blocks.
    """
    return _Superblocks("walker-otto", *_check_grid("walker-otto", grid))


def phases(grid: MessageGraph) -> Schedule:
    """The K phases without a schedule: in phase k each process sends its local block k (Walker & Otto, Eq 2).

    K r -> r is r -> K r reversed. For K <= P these are the messages of `natural`; for K > P a pair is in several phases. This
    is an order with collisions, not a one-port schedule: the first max(K, P) processes all begin with process 0.

    Raises
    ------
    ScheduleError
        The grid is not r -> K r or K r -> r on P = Q processes with aligned blocks.
    """
    return _NaturalPhases("phases", *_check_grid("phases", grid), one_port=False)


def random_phases(grid: MessageGraph, seed: int = 0) -> Schedule:
    """The K phases in which each process sends its local blocks, in a random order of its own (W-O, 2.2.2).

    For K <= P this is an order like `random`; for K > P a pair is in several phases, and `random` has one message for it.

    Parameters
    ----------
    grid : MessageGraph
        The messages.
    seed : int
        Equal seeds give equal orders.

    Raises
    ------
    ScheduleError
        The grid is not r -> K r or K r -> r on P = Q processes with aligned blocks.
    """
    schedule = _RandomPhases("random-phases", *_check_grid("random-phases", grid), one_port=False)
    schedule.seed = integer("seed", seed, "it chooses the order")
    return schedule


def _check_grid(name: str, grid: MessageGraph) -> tuple[CommunicationGrid, int, int]:
    """The grid, its smaller block size and the factor K."""
    if not isinstance(grid, CommunicationGrid):
        raise ScheduleError(f"schedule = {name!r} needs a CommunicationGrid of one dimension; use stepwise or optimal")
    small, large = min(grid.r, grid.s), max(grid.r, grid.s)
    instead = "use classes, stepwise or optimal"
    if grid.P != grid.Q:
        raise ScheduleError(f"schedule = {name!r} needs P = Q, but P = {grid.P} and Q = {grid.Q}; {instead}")
    if large % small:
        raise ScheduleError(
            f"schedule = {name!r} needs r -> K r or K r -> r with an integer K, but r = {grid.r}, s = {grid.s}; {instead}"
        )
    if grid.shift % small:
        raise ScheduleError(
            f"schedule = {name!r} needs the boundaries of the larger blocks to be boundaries of the smaller too, but "
            f"offset = {grid.shift} is no multiple of {small}; {instead}"
        )
    return grid, small, large // small


class _Superblocks(Schedule):
    """The schedule in terms of superblocks: P K global blocks of the smaller size."""

    grid: CommunicationGrid

    def __init__(self, name: str, grid: CommunicationGrid, block: int, K: int, *, one_port: bool = True) -> None:
        super().__init__(name, grid, one_port=one_port)
        self._tables = WalkerOtto(grid.P, K)
        self._block = block
        self._expands = grid.r <= grid.s
        # Superblocks start with the larger blocks; processes with the smaller blocks are renumbered by the distance.
        distance = grid.shift if self._expands else -grid.shift
        self._shift = distance // block % grid.P
        self._start = grid.receiver_offset if self._expands else grid.offset

    @property
    def number_of_steps(self) -> int:
        """NS: number of steps, empty ones counted."""
        return self._tables.K

    @property
    def lower_bound(self) -> int | None:
        """The volume bound if messages are split, else the cost bound."""
        if not self.one_port:
            return None
        return self.grid.cost_bound if self._tables.K <= self.grid.P else self.grid.volume_bound

    def of_sender(self, p: int) -> Ints:
        """Rows step, receiver, length of what `p` sends, in ascending order of steps."""
        return self._of_small(p) if self._expands else self._of_large(p)

    def of_receiver(self, q: int) -> Ints:
        """Rows step, sender, length of what `q` receives, in ascending order of steps."""
        return self._of_large(q) if self._expands else self._of_small(q)

    def _of_small(self, process: int) -> Ints:
        self._check_process(process)
        k = np.arange(self._tables.K)
        block = self._block_of(k, process)
        return self._nonempty_rows(k, block // self._tables.K, self._lengths(block))

    def _of_large(self, process: int) -> Ints:
        self._check_process(process)
        k, block = self._blocks_of_large(process)
        return self._nonempty_rows(k, (block + self._shift) % self.grid.P, self._lengths(block))

    def _entries(self) -> Ints:
        checked_messages(self._tables.K * self.grid.P)
        k, small = np.arange(self._tables.K)[:, None], np.arange(self.grid.P)[None]
        block = self._block_of(k, small)
        large = block // self._tables.K
        sides = (small + 0 * k, large) if self._expands else (large, small + 0 * k)
        rows = np.stack([k + 0 * small, *sides, self._lengths(block)], axis=-1).reshape(-1, 4)
        return rows[rows[:, 3] > 0]

    def slot(self, p: int, q: int, step: int) -> SuperblockSlot:
        """The block that goes from `p` to `q` in a step, at one position of each superblock (Figs 2 and 3)."""
        block = self._block_of(step, p if self._expands else q)
        return SuperblockSlot(
            block * self._block - self._start, self._block, self.grid.P * self._tables.K * self._block
        )

    def _block_of(self, k: Any, small: Any) -> Any:
        """Position in the superblock of the block that a process with the smaller blocks sends, or receives, in step `k`."""
        return self._tables.sent(k, (small - self._shift) % self.grid.P)

    def _blocks_of_large(self, process: int) -> tuple[Ints, Ints]:
        """Steps, ascending, and positions of the blocks of a process with the larger blocks."""
        k = np.arange(self._tables.K)
        return k, self._tables.received(k, process)

    def _lengths(self, block: Ints) -> Ints:
        """Elements of the array in the blocks at these positions of all superblocks."""
        if self.grid.n is None:
            # A slice is a whole number of superblocks.
            return np.full(block.shape, self.grid.slice_length // (self.grid.P * self._tables.K), dtype=np.int64)
        return self._before(self._start + self.grid.n, block) - self._before(self._start, block)

    def _before(self, bound: int, block: Ints) -> Ints:
        """Elements below `bound` in the blocks at these positions of all superblocks."""
        rounds, rest = divmod(bound, self.grid.P * self._tables.K * self._block)
        count: Ints = rounds * self._block + np.clip(rest - block * self._block, 0, self._block)
        return count

    def _nonempty_rows(self, k: Ints, peer: Ints, length: Ints) -> Ints:
        return np.stack([k, peer, length], axis=1)[length > 0]

    def _check_process(self, process: int) -> None:
        if not 0 <= process < self.grid.P:
            raise IndexError(f"process {process} is outside 0 <= process < {self.grid.P}")


class _NaturalPhases(_Superblocks):
    """The blocks in natural order: the phase is the block's local number."""

    def _block_of(self, k: Any, small: Any) -> Any:
        return k * self.grid.P + (small - self._shift) % self.grid.P

    def _blocks_of_large(self, process: int) -> tuple[Ints, Ints]:
        block = self._tables.K * process + np.arange(self._tables.K)
        return block // self.grid.P, block


class _RandomPhases(_Superblocks):
    """The blocks in a random order for each process."""

    seed: int

    @cached_property
    def _orders(self) -> tuple[Ints, Ints]:
        """K x P: the local block that a process sends in a phase, and the phase of a local block."""
        k, process = self._tables._indices()
        blocks = np.argsort(random_keys(self.seed, process, k), axis=0)
        return blocks, np.argsort(blocks, axis=0)

    def _block_of(self, k: Any, small: Any) -> Any:
        small = (small - self._shift) % self.grid.P
        return self._orders[0][k, small] * self.grid.P + small

    def _blocks_of_large(self, process: int) -> tuple[Ints, Ints]:
        block = self._tables.K * process + np.arange(self._tables.K)
        k = self._orders[1][block // self.grid.P, block % self.grid.P]
        order = np.argsort(k, kind="stable")
        return k[order], block[order]
