"""Who owes whom how much where a layout is of tiles: what schedules are searched for in."""

from __future__ import annotations

import numpy as np

from ..schedules import LengthMatrix, between
from .layouts import Layout

__all__ = ["graph_of_tiles"]


def graph_of_tiles(a: Layout, b: Layout) -> LengthMatrix:
    """Elements that each rank of A sends to each of B, both ascending; 0 from a rank to itself. Not collective.

    The work is that of all tiles of A times the processes of B, or the other way.
    """
    senders, receivers = a.ranks, b.ranks
    lengths = np.zeros((max(1, len(senders)), max(1, len(receivers))), np.int64)
    rows, columns = (between(x, y).lengths for x, y in zip(a.distributions, b.distributions, strict=True))
    p, q = np.searchsorted(senders, a.placement), np.searchsorted(receivers, b.placement)
    for i, j in np.ndindex(*q.shape):
        # What all places of A share with this one of B.
        np.add.at(lengths, (p, q[i, j]), rows[:, i, None] * columns[:, j])
    for k, rank in enumerate(senders):
        if rank in receivers:
            lengths[k, receivers.index(rank)] = 0
    return LengthMatrix(lengths)
