"""Schedules that a formula gives: natural, random, caterpillar, ring, and by classes of processes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ScheduleError
from .checks import integer
from .communication_grid import CommunicationGrid
from .message_graph import Ints, MessageGraph
from .schedule import PairSchedule, Schedule

KEYS = 2**22  # keys in memory at a time


def natural(grid: MessageGraph) -> Schedule:
    """In step k each process sends its k-th message, in the order of their first elements (W-O, Eq 2).

    For r -> K r with K <= P this is local block k in step k. Messages of a LengthMatrix go by ascending receivers. This is an
    order with collisions, not a one-port schedule.
    """

    def step_of(p: Ints, q: Ints) -> Ints:
        return positions(grid.first_elements, grid.Q, p, q)

    def count() -> int:
        rows = grid.rows(grid.distinct_senders())
        return int(np.count_nonzero(rows, axis=1).max(initial=0))

    return PairSchedule("natural", grid, step_of, count, one_port=False)


def positions(keys: Callable[[Ints], NDArray[Any]], receivers: int, p: Ints, q: Ints) -> Ints:
    """Position of each pair among its sender's messages sorted by key.

    Parameters
    ----------
    keys : callable
        Maps senders to a table of the keys of their messages to all receivers; the largest key for no message.
    receivers : int
        Number of receivers.
    p, q : ndarray
        Senders and receivers of messages.
    """
    result = np.empty(len(p), dtype=np.int64)
    senders, row_of_pair = np.unique(p, return_inverse=True)
    order = np.argsort(row_of_pair, kind="stable")
    ends = np.searchsorted(row_of_pair[order], np.arange(len(senders)), side="right")
    chunk = max(1, KEYS // receivers)
    for start in range(0, len(senders), chunk):
        part = senders[start : start + chunk]
        table = keys(part)
        pairs = order[ends[start - 1] if start else 0 : ends[min(start + chunk, len(senders)) - 1]]
        row = row_of_pair[pairs] - start
        if len(pairs) == len(part):
            own_keys = table[row, q[pairs]]
            result[pairs] = np.count_nonzero(table[row] < own_keys[:, None], axis=1)
        else:
            ranks = np.argsort(np.argsort(table, axis=1, kind="stable"), axis=1, kind="stable")
            result[pairs] = ranks[row, q[pairs]]
    return result


LARGEST = np.uint64(2**64 - 1)


def random_order(grid: MessageGraph, seed: int = 0) -> Schedule:
    """In step k each process sends the k-th of its messages, shuffled (W-O, section 2.2.2).

    This is an order with collisions, not a one-port schedule.

    Parameters
    ----------
    grid : MessageGraph
        The messages.
    seed : int
        Equal seeds give equal orders.
    """
    seed = integer("seed", seed, "it chooses the order")

    def keys(senders: Ints) -> NDArray[np.uint64]:
        random = random_keys(seed, senders[:, None], np.arange(grid.Q)[None])
        return np.where(grid.rows(senders) > 0, random, LARGEST)

    def count() -> int:
        rows = grid.rows(grid.distinct_senders())
        return int(np.count_nonzero(rows, axis=1).max(initial=0))

    return PairSchedule("random", grid, lambda p, q: positions(keys, grid.Q, p, q), count, one_port=False)


def random_keys(seed: int, p: Ints, q: Ints) -> NDArray[np.uint64]:
    """A pseudo-random number for each pair; the numbers of one sender differ."""
    start = _mix(np.array(seed % 2**64, dtype=np.uint64))
    return _mix(_mix(start ^ p.astype(np.uint64)) ^ q.astype(np.uint64))


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea, Flood, 2014): a permutation of 64-bit numbers."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def caterpillar_step(p: Ints | int, q: Ints | int, rounds: int) -> Any:
    """The step of a pair of processes, or of arrays of pairs, in caterpillar order."""
    return (p + q) % rounds


def ring_step(p: Ints | int, q: Ints | int, rounds: int) -> Any:
    """The step of a pair of processes, or of arrays of pairs, in ring order."""
    return (q - p) % rounds


def caterpillar(grid: MessageGraph) -> Schedule:
    """Step t has the pairs with p + q = t (mod max(P, Q)), as in pxgemr2d (Desprez, section 2).

    There are max(P, Q) steps; empty ones count.
    """
    rounds = max(grid.P, grid.Q)
    return PairSchedule("caterpillar", grid, lambda p, q: caterpillar_step(p, q, rounds), lambda: rounds)


def ring(grid: MessageGraph) -> Schedule:
    """Step t has the pairs with q - p = t (mod max(P, Q)) (Desprez, Table 19).

    There are max(P, Q) steps; empty ones count.
    """
    rounds = max(grid.P, grid.Q)
    return PairSchedule("ring", grid, lambda p, q: ring_step(p, q, rounds), lambda: rounds)


def classes(grid: MessageGraph) -> Schedule:
    """All messages of one class in max(P, Q) / gcd(P, Q) full steps, then the next (Propositions 3, 4).

    For one slice, the number of steps and the total cost are the least possible.

    Raises
    ------
    ScheduleError
        With d = gcd(r, s), gcd(r / d, Q) or gcd(s / d, P) is not 1; or the grid has several dimensions.
    """
    if not isinstance(grid, CommunicationGrid):
        raise ScheduleError("schedule = 'classes' needs a CommunicationGrid of one dimension; use stepwise or optimal")
    _check_conditions(grid)
    r, s, g = grid.reduced
    rounds = max(grid.P, grid.Q) // g
    lengths = grid.vol(np.arange(g) * (grid.g // g) + grid.shift)
    with_messages = np.flatnonzero(lengths)
    with_messages = with_messages[np.argsort(-lengths[with_messages], kind="stable")]
    position = np.full(g, -1, dtype=np.int64)
    position[with_messages] = np.arange(len(with_messages))

    def step_of(p: Ints, q: Ints) -> Ints:
        z = (q * (s % g) - p * (r % g)) % g
        steps: Ints = position[z] * rounds + (p // g + q // g) % rounds
        return steps

    return PairSchedule("classes", grid, step_of, lambda: len(with_messages) * rounds)


def _check_conditions(grid: CommunicationGrid) -> None:
    d = math.gcd(grid.r, grid.s)
    instead = "use stepwise for the fewest steps or optimal for the least cost"
    for block, name, processes, count in ((grid.r, "r", "Q", grid.Q), (grid.s, "s", "P", grid.P)):
        common = math.gcd(block // d, count)
        if common != 1:
            raise ScheduleError(
                f"schedule = 'classes' needs gcd({name} / d, {processes}) = 1 with d = gcd(r, s) = {d} (Desprez, "
                f"Proposition 3), but gcd({block // d}, {count}) = {common} for {grid!r}; {instead}"
            )
