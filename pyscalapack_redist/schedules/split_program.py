"""Tiny cases of cut messages, solved exactly: an integer program of what goes from whom to whom in which step.

Step i has a duration d_i, and z_i = 1 if it is used. Message e has x[e, i] elements in it: no more than d_i, and none unless
y[e, i] = 1. A process has at most z_i messages with y = 1 in it. The time of a known schedule limits the number of steps.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .message_graph import Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Solved", "solved"]

LARGEST = 160  # edges times steps
TINY = 1e-6


class Solved(NamedTuple):
    """What is known after the program.

    Attributes
    ----------
    steps : list of ndarray or None
        Rows sender, receiver, length of each step; None where nothing better was found.
    bound : float
        What no schedule's time is below.
    """

    steps: list[Ints] | None
    bound: float


def solved(lengths: Ints, startup: float, known: float, bound: float, deadline: float) -> Solved | None:
    """The schedule of least time; None where the case is not tiny, or where there is no time. Not collective.

    Parameters
    ----------
    lengths : ndarray
        Of the message from each sender (row) to each receiver (column).
    startup : float
        What each step costs beside its duration, more than 0.
    known, bound : float
        Time of a schedule that is known, and what no schedule's time is below.
    deadline : float
        When to stop, on the clock of `time.monotonic`.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    edges = np.argwhere(lengths)
    volume = max(int(lengths.sum(axis=0).max()), int(lengths.sum(axis=1).max()))
    most = math.floor((known - volume) / startup + TINY)
    seconds = deadline - time.monotonic()
    if most * len(edges) > LARGEST or seconds < 0.005 or known <= bound + TINY:
        return None
    steps, size = int(most), int(most) * len(edges)
    matrix, high = _constraints(lengths, edges, steps)
    longest = float(lengths.max())
    found = milp(
        np.concatenate([np.full(steps, startup), np.ones(steps), np.zeros(2 * size)]),
        constraints=LinearConstraint(matrix, np.where(high > 0, high, -np.inf), high),
        bounds=Bounds(0, np.repeat([1.0, longest, 1.0, longest], [steps, steps, size, size])),
        integrality=np.ones(2 * steps + 2 * size),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    bound = bound if found.mip_dual_bound is None else max(bound, float(found.mip_dual_bound))
    best = known if found.x is None else min(known, float(found.fun))
    # What is above the bound by less than the solver's tolerance is proved.
    bound = best if bound > best - TINY else bound
    if found.x is None or best > known - TINY:
        return Solved(None, bound)
    amounts = np.rint(found.x[2 * steps + size :]).astype(np.int64).reshape(len(edges), steps)
    listed = [np.column_stack([edges[here], column[here]]) for column in amounts.T if (here := column > 0).any()]
    return Solved(listed, bound)


def _constraints(lengths: Ints, edges: Ints, steps: int) -> tuple[csr_array, NDArray[np.float64]]:
    """Rows for columns z, d, y, x, and the most of each; where that is above 0 it is the least as well."""
    from scipy.sparse import block_array, csr_array, diags_array, eye_array, kron

    count, (senders, receivers) = len(edges), lengths.shape
    length = lengths[tuple(edges.T)].astype(np.float64)
    ends = np.concatenate([edges[:, 0], senders + edges[:, 1]])
    places = (ends, np.tile(np.arange(count), 2))
    incidence = csr_array((np.ones(2 * count), places), shape=(senders + receivers, count))
    each, every = eye_array(steps), eye_array(count * steps)
    descending = diags_array([-1.0, 1.0], offsets=[0, 1], shape=(steps - 1, steps))
    rows = [
        [None, None, None, kron(eye_array(count), np.ones((1, steps)))],
        [None, None, -kron(diags_array(length), each), every],
        [None, -kron(np.ones((count, 1)), each), None, every],
        [-kron(np.ones((senders + receivers, 1)), each), None, kron(incidence, each), None],
    ]
    if steps > 1:
        rows += [[descending, None, None, None], [None, descending, None, None]]
    matrix = csr_array(block_array(rows))
    high = np.zeros(matrix.shape[0])
    high[:count] = length
    return matrix, high
