"""Caterpillar: in round t processes p and q with p + q = t (mod max(P, Q)) exchange, as ScaLAPACK's pxgemr2d pairs them.

There are max(P, Q) rounds, whether or not a pair shares anything (Desprez et al., section 2).
"""

from __future__ import annotations

from typing import Any

from .message_graph import Ints, MessageGraph
from .schedule import PairSchedule, Schedule

__all__ = ["caterpillar", "caterpillar_step"]


def caterpillar_step(p: Ints | int, q: Ints | int, rounds: int) -> Any:
    """The step of pairs of processes. Not collective."""
    return (p + q) % rounds


def caterpillar(grid: MessageGraph) -> Schedule:
    """In step t those with p + q = t (mod max(P, Q)), as pxgemr2d pairs them (Desprez, section 2). Not collective.

    There are max(P, Q) steps; empty ones are kept and counted.
    """
    rounds = max(grid.P, grid.Q)

    return PairSchedule("caterpillar", grid, lambda p, q: caterpillar_step(p, q, rounds), lambda: rounds)
