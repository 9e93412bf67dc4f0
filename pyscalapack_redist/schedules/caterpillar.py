"""One formula for a round: the caterpillar, as ScaLAPACK's pxgemr2d pairs processes, and the ring.

In round t of the caterpillar processes p and q with p + q = t (mod max(P, Q)) exchange; in round t of the ring process p
sends to q with q - p = t, the pairing whose figures Desprez et al. print as the caterpillar's (6 of 12 rounds empty in
Example 4). There are max(P, Q) rounds, whether or not a pair shares anything (Desprez et al., section 2).
"""

from __future__ import annotations

from typing import Any

from .message_graph import Ints, MessageGraph
from .schedule import PairSchedule, Schedule

__all__ = ["caterpillar", "caterpillar_step", "ring", "ring_step"]


def caterpillar_step(p: Ints | int, q: Ints | int, rounds: int) -> Any:
    """The step of pairs of processes. Not collective."""
    return (p + q) % rounds


def ring_step(p: Ints | int, q: Ints | int, rounds: int) -> Any:
    """The step of pairs of processes. Not collective."""
    return (q - p) % rounds


def caterpillar(grid: MessageGraph) -> Schedule:
    """In step t those with p + q = t (mod max(P, Q)), as pxgemr2d pairs them (Desprez, section 2). Not collective.

    There are max(P, Q) steps; empty ones are kept and counted.
    """
    rounds = max(grid.P, grid.Q)
    return PairSchedule("caterpillar", grid, lambda p, q: caterpillar_step(p, q, rounds), lambda: rounds)


def ring(grid: MessageGraph) -> Schedule:
    """In step t those with q - p = t (mod max(P, Q)) (Desprez, Table 19). Not collective.

    There are max(P, Q) steps; empty ones are kept and counted.
    """
    rounds = max(grid.P, grid.Q)
    return PairSchedule("ring", grid, lambda p, q: ring_step(p, q, rounds), lambda: rounds)
