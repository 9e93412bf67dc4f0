"""What steps must fulfil for a folded graph, or a relaxation of one, to have room: from the dual of a linear program.

Any weights of a process's room in each level, not negative, tell something of the steps: a message takes room at both ends in
a level that is open to it, so it weighs at least the least of these sums, and all messages weigh no more than the steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .amalgam import Types
from .message_graph import Ints

__all__ = ["Cut", "counts", "shortage"]

SCALE = 5040  # weights are multiples of one part in so many: sums of them are exact
TINY = 1e-7


class Cut(NamedTuple):
    """The steps of each cost, times their weights, are at least a number.

    Attributes
    ----------
    weights : ndarray
        Of a step of each cost, integers.
    least : int
        What the messages weigh.
    """

    weights: Ints
    least: int


def counts(graph: Types, costs: Ints, steps: Ints) -> int:
    """Size of the program of `shortage`. Not collective."""
    return int(np.searchsorted(-costs[steps > 0], -graph.length, side="right").sum())


def shortage(graph: Types, costs: Ints, steps: Ints, seconds: float) -> Cut | None:
    """What is not fulfilled by steps that have no room for all messages; None where none is found. Not collective.

    Parameters
    ----------
    graph : Types
        Groups of processes and types of messages.
    costs, steps : ndarray
        Number of steps of each cost.
    seconds : float
        Limit on the time of the program.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    used = np.flatnonzero(steps)
    if not len(used):
        return Cut(np.ones(len(costs), dtype=np.int64), 1) if graph.types else None
    open_ = np.searchsorted(-costs[used], -graph.length, side="right")
    size, types = int(open_.sum()), graph.types
    kind = np.repeat(np.arange(types), open_)
    level = np.arange(size) - np.repeat(np.cumsum(open_) - open_, open_)
    sizes = np.concatenate([graph.sender_sizes, graph.receiver_sizes])
    ends = graph.sender_group, graph.receiver_group + len(graph.sender_sizes)
    rows = np.concatenate([end[kind] * len(used) + level for end in ends])
    capacity = csr_array(
        (np.ones(2 * size), (rows, np.tile(np.arange(size), 2))), shape=(len(sizes) * len(used), size + types)
    )
    placed = csr_array(
        (np.ones(size + types), (np.append(kind, np.arange(types)), np.arange(size + types))),
        shape=(types, size + types),
    )
    found = linprog(
        np.repeat([0.0, 1.0], [size, types]),
        A_ub=capacity,
        b_ub=(sizes[:, None] * steps[used]).astype(float).reshape(-1),
        A_eq=placed,
        b_eq=graph.count.astype(float),
        method="highs",
        options={"time_limit": seconds},
    )
    if found.status != 0 or found.fun < TINY:
        return None
    weights = np.zeros((len(sizes), len(costs)), dtype=np.int64)
    weights[:, used] = np.rint(SCALE * np.maximum(-found.ineqlin.marginals, 0)).reshape(-1, len(used))
    # A level without steps weighs as much as the next dearer one, which is open to no fewer messages.
    dearer = np.maximum.accumulate(np.where(steps > 0, np.arange(len(costs)), -1))
    weights = np.where(dearer >= 0, weights[:, dearer], weights.max())
    both = np.minimum.accumulate(weights[ends[0]] + weights[ends[1]], axis=1)
    cheapest = np.searchsorted(-costs, -graph.length, side="right") - 1
    least = int(graph.count @ both[np.arange(types), cheapest])
    total = sizes @ weights
    return Cut(total, least) if int(total @ steps) < least else None
