"""A step of the most weight on a folded graph (Desprez, section 4.5): counts of messages of each type.

The polytope of matchings of a bipartite graph is integral (Eq 7 of the paper), and so is that of counts within the groups'
sizes; where every group has one process it is an assignment problem.
"""

from __future__ import annotations

import numpy as np

from .amalgam import Amalgam
from .message_graph import Ints

__all__ = ["HeaviestStep"]


class HeaviestStep:
    """Finds steps of maximum weight; among these, ones of many messages. Not collective.

    Parameters
    ----------
    graph : Amalgam
        The folded graph.
    """

    def __init__(self, graph: Amalgam) -> None:
        self.graph = graph
        self._sizes = np.concatenate([graph.sender_sizes, graph.receiver_sizes])
        self._ends = np.stack([graph.sender_group, graph.receiver_group + len(graph.sender_sizes)])
        self._most = min(len(graph.senders), len(graph.receivers))
        self._weight = graph.length * (self._most + 1) + 1
        self._single = bool((self._sizes == 1).all())

    def find(self, remaining: Ints, least: Ints) -> Ints:
        """Number of messages of each type in a step of maximum weight. Not collective.

        Parameters
        ----------
        remaining : ndarray
            Messages of each type that are left.
        least : ndarray
            How many processes of each group, senders' groups first, must take part.
        """
        return self._assigned(remaining, least) if self._single else self._programmed(remaining, least)

    def taking_part(self, step: Ints) -> Ints:
        """How many processes of each group take part in a step; senders' groups first. Not collective."""
        both = np.concatenate([step, step])
        return np.bincount(self._ends.reshape(-1), weights=both, minlength=len(self._sizes)).astype(np.int64)

    def _assigned(self, remaining: Ints, least: Ints) -> Ints:
        from scipy.optimize import linear_sum_assignment

        kinds = np.flatnonzero(remaining)
        kinds = kinds[np.argsort(self._weight[kinds], kind="stable")]
        shape = len(self.graph.sender_sizes), len(self.graph.receiver_sizes)
        best = np.full(shape, -1, dtype=np.int64)
        best[self.graph.sender_group[kinds], self.graph.receiver_group[kinds]] = kinds
        must = least > 0
        # More than the weight of a whole step for each process that must take part.
        bonus = float(self._weight.max(initial=1)) * self._most + 1
        weight = np.where(best >= 0, self._weight[best], 0) + bonus * np.where(
            best >= 0, must[: shape[0], None].astype(float) + must[None, shape[0] :], 0
        )
        i, j = linear_sum_assignment(weight, maximize=True)
        step = np.zeros(self.graph.types, dtype=np.int64)
        chosen = best[i, j]
        step[chosen[chosen >= 0]] = 1
        return step

    def _programmed(self, remaining: Ints, least: Ints) -> Ints:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        kinds = np.flatnonzero(remaining)
        ends = self._ends[:, kinds]
        places = (ends.reshape(-1), np.tile(np.arange(len(kinds)), 2))
        matrix = csr_array((np.ones(2 * len(kinds)), places), shape=(len(self._sizes), len(kinds)))
        for integral in (0, 1):
            found = milp(
                -self._weight[kinds].astype(float),
                constraints=LinearConstraint(matrix, np.maximum(least, 0), self._sizes),
                bounds=Bounds(0, remaining[kinds]),
                integrality=np.full(len(kinds), integral),
            )
            step = np.zeros(self.graph.types, dtype=np.int64)
            step[kinds] = np.rint(found.x)
            if np.abs(found.x - step[kinds]).max() < 1e-6:
                break
        return step
