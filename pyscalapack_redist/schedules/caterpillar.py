"""Caterpillar: in round t processes p and q with p + q = t (mod max(P, Q)) exchange, as ScaLAPACK's pxgemr2d pairs them.

There are max(P, Q) rounds, whether or not a pair shares anything (Desprez et al., section 2).
"""

from __future__ import annotations

from typing import ClassVar

from .message_graph import Ints, MessageGraph
from .order import Order
from .schedule import PairSchedule, Schedule

__all__ = ["Caterpillar", "caterpillar"]


class Caterpillar(Order):
    """Rounds of constant p + q (Desprez et al., section 2; the pairing is that of pxgemr2d)."""

    name: ClassVar[str] = "caterpillar"
    one_port: ClassVar[bool] = True

    def key(self, sender: int, receiver: int, first: tuple[int, ...]) -> tuple[int, ...]:
        """The round of the pair. Not collective."""
        return ((sender + receiver) % max(self.senders, self.receivers),)


def caterpillar(grid: MessageGraph) -> Schedule:
    """In step t those with p + q = t (mod max(P, Q)), as pxgemr2d pairs them (Desprez, section 2). Not collective.

    There are max(P, Q) steps; empty ones are kept and counted.
    """
    rounds = max(grid.P, grid.Q)

    def step_of(p: Ints, q: Ints) -> Ints:
        return (p + q) % rounds

    return PairSchedule("caterpillar", grid, step_of, lambda: rounds)
