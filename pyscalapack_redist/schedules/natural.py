"""Natural order: a process sends its blocks in the order in which it holds them (Walker & Otto, Eq 2).

Several processes may send to one at the same time: the hot spot that Walker and Otto remove.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .message_graph import Ints, MessageGraph
from .schedule import PairSchedule, Schedule

__all__ = ["natural", "positions"]

KEYS = 2**22  # keys that are in memory at once


def natural(grid: MessageGraph) -> Schedule:
    """In step k each process sends its k-th message, in the order of their first elements (W-O, Eq 2). Not collective.

    On r -> K r with K <= P that is local block k in step k. A matrix of lengths is taken column by column. It is an order
    with collisions, not a one-port schedule.
    """

    def step_of(p: Ints, q: Ints) -> Ints:
        return positions(grid.first_elements, grid.Q, p, q)

    def count() -> int:
        rows = grid.rows(grid.distinct_senders())
        return int(np.count_nonzero(rows, axis=1).max(initial=0))

    return PairSchedule("natural", grid, step_of, count, one_port=False)


def positions(keys: Callable[[Ints], NDArray[Any]], receivers: int, p: Ints, q: Ints) -> Ints:
    """Position of each pair among its sender's messages, which are sorted by a key. Not collective.

    Parameters
    ----------
    keys : callable
        For some senders, a table of keys of the messages to all receivers; larger than all others where there is none.
    receivers : int
        Their number.
    p, q : ndarray
        Senders and receivers of pairs that owe each other something.
    """
    answer = np.empty(len(p), dtype=np.int64)
    senders, where = np.unique(p, return_inverse=True)
    order = np.argsort(where, kind="stable")
    ends = np.searchsorted(where[order], np.arange(len(senders)), side="right")
    chunk = max(1, KEYS // receivers)
    for start in range(0, len(senders), chunk):
        some = senders[start : start + chunk]
        table = keys(some)
        chosen = order[ends[start - 1] if start else 0 : ends[min(start + chunk, len(senders)) - 1]]
        row = where[chosen] - start
        if len(chosen) == len(some):
            own = table[row, q[chosen]]
            answer[chosen] = np.count_nonzero(table[row] < own[:, None], axis=1)
        else:
            ranks = np.argsort(np.argsort(table, axis=1, kind="stable"), axis=1, kind="stable")
            answer[chosen] = ranks[row, q[chosen]]
    return answer
