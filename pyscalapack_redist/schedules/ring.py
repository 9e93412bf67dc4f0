"""Ring: in round t process p sends to q with q - p = t (mod max(P, Q)).

The pairing whose figures Desprez et al. print as the caterpillar's (6 of 12 rounds empty in Example 4).
"""

from __future__ import annotations

from typing import Any

from .message_graph import Ints, MessageGraph
from .schedule import PairSchedule, Schedule

__all__ = ["ring", "ring_step"]


def ring_step(p: Ints | int, q: Ints | int, rounds: int) -> Any:
    """The step of pairs of processes. Not collective."""
    return (q - p) % rounds


def ring(grid: MessageGraph) -> Schedule:
    """In step t those with q - p = t (mod max(P, Q)) (Desprez, Table 19). Not collective.

    There are max(P, Q) steps; empty ones are kept and counted.
    """
    rounds = max(grid.P, grid.Q)

    return PairSchedule("ring", grid, lambda p, q: ring_step(p, q, rounds), lambda: rounds)
