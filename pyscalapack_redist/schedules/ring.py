"""Ring: in round t process p sends to q with q - p = t (mod max(P, Q)).

The pairing whose figures Desprez et al. print as the caterpillar's (6 of 12 rounds empty in Example 4).
"""

from __future__ import annotations

from .message_graph import Ints, MessageGraph
from .schedule import PairSchedule, Schedule

__all__ = ["ring"]


def ring(grid: MessageGraph) -> Schedule:
    """In step t those with q - p = t (mod max(P, Q)) (Desprez, Table 19). Not collective.

    There are max(P, Q) steps; empty ones are kept and counted.
    """
    rounds = max(grid.P, grid.Q)

    def step_of(p: Ints, q: Ints) -> Ints:
        return (q - p) % rounds

    return PairSchedule("ring", grid, step_of, lambda: rounds)
