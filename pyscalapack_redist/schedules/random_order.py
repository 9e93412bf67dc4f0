"""Random order: each process sends in an order of its own (Walker & Otto, section 2.2.2).

Keys come from a hash of the pair, so sender and receiver work out the same order without a table and in every version of
NumPy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .checks import integer
from .message_graph import Ints, MessageGraph
from .natural import positions
from .schedule import PairSchedule, Schedule

__all__ = ["random_keys", "random_order"]

LARGEST = np.uint64(2**64 - 1)


def random_order(grid: MessageGraph, seed: int = 0) -> Schedule:
    """In step k each process sends the k-th of its messages, shuffled (W-O, section 2.2.2). Not collective.

    It is an order with collisions, not a one-port schedule.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    seed : int
        The same seed gives the same order.
    """
    seed = integer("seed", seed, "it chooses the order")

    def keys(senders: Ints) -> NDArray[np.uint64]:
        drawn = random_keys(seed, senders[:, None], np.arange(grid.Q)[None])
        return np.where(grid.rows(senders) > 0, drawn, LARGEST)

    def count() -> int:
        rows = grid.rows(grid.distinct_senders())
        return int(np.count_nonzero(rows, axis=1).max(initial=0))

    return PairSchedule("random", grid, lambda p, q: positions(keys, grid.Q, p, q), count, one_port=False)


def random_keys(seed: int, p: Ints, q: Ints) -> NDArray[np.uint64]:
    """A pseudo-random number for each pair, distinct for one sender. Not collective."""
    start = _mixed(np.array(seed % 2**64, dtype=np.uint64))
    return _mixed(_mixed(start ^ p.astype(np.uint64)) ^ q.astype(np.uint64))


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea, Flood, 2014): a permutation of 64-bit numbers."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
