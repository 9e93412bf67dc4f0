"""A bound of the time of cut messages, by a linear program of the ways to cut each, with columns made as they are needed.

There are m_c steps of duration c. A message is cut by a pattern, pieces for steps of some durations that add up to its length
or more (as a cutting stock is in Gilmore & Gomory, 1961). No process has more than m_c pieces for the steps of duration c.
Every schedule, averaged over all that is alike as in `levels`, is a solution with real numbers. Prices u[v, c] of a piece at
each process, with the sum over v at most startup + c, give a bound by themselves: the cheapest patterns of all messages,
which are knapsack problems. So the best prices so far give a bound whenever time is up.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .amalgam import Amalgam
from .message_graph import Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["PatternBound"]

Reals = NDArray[np.float64]
LARGEST = 40_000  # capacities, and types times durations
LONGEST = 256  # message
NEAR_BEST = 0.5  # how far prices of new patterns are drawn to the best prices so far
TINY = 1e-7


class PatternBound:
    """The program for one folded graph. Not collective.

    Parameters
    ----------
    graph : Amalgam
        The folded graph.
    startup : float
        What each step costs beside its duration.
    fewest, volume : int
        The least number of steps, and the least sum of their durations.
    """

    def __init__(self, graph: Amalgam, startup: float, fewest: int, volume: int) -> None:
        self.graph, self.least = graph, np.array([fewest, volume], dtype=np.float64)
        self.levels = int(graph.length.max(initial=0))
        self.durations = np.arange(1, self.levels + 1)
        self.costs = startup + self.durations
        self.per_step = np.stack([np.ones(self.levels), self.durations])
        self.sizes = np.concatenate([graph.sender_sizes, graph.receiver_sizes]).astype(np.float64)
        self.ends = np.stack([graph.sender_group, graph.receiver_group + len(graph.sender_sizes)])
        self.known: dict[tuple[int, bytes], Ints] = {}

    @property
    def too_large(self) -> bool:
        """Whether the program is beyond what is solved."""
        return self.levels > LONGEST or (len(self.sizes) + self.graph.types) * self.levels > LARGEST

    def least_time(self, enough: float, deadline: float) -> float:
        """A bound, the greatest if there is time; one of `enough` need not be exceeded. Not collective."""
        if self.too_large or not self.levels:
            return -np.inf
        self._add_pieces_of_two()
        best, centre = -np.inf, None
        while best < enough:
            value, prices = self._program(deadline)
            if prices is None:
                break
            near = prices if centre is None else NEAR_BEST * centre + (1 - NEAR_BEST) * prices
            for some in (near, prices):
                bound, scaled, cheapest = self._bound(some)
                if bound > best:
                    best, centre = bound, scaled
                if self._add(cheapest):
                    break
            else:
                break
            if best >= value - TINY * abs(value):
                break
        return best - TINY * abs(best)

    def _add(self, patterns: Ints) -> bool:
        """Enter a pattern of each type; whether any is new."""
        before = len(self.known)
        self.known.update({(kind, pattern.tobytes()): pattern for kind, pattern in enumerate(patterns)})
        return len(self.known) > before

    def _add_pieces_of_two(self) -> None:
        """Patterns of one piece in a step of any duration, and of two that add up to the length."""
        for first in range(self.levels):
            patterns = np.zeros((self.graph.types, self.levels), dtype=np.int64)
            patterns[:, first] = 1
            rest = self.graph.length - self.durations[first]
            kinds = np.flatnonzero(rest > 0)
            np.add.at(patterns, (kinds, rest[kinds] - 1), 1)
            self._add(patterns)

    def _program(self, deadline: float) -> tuple[float, Reals | None]:
        """Value and prices of the program with the patterns so far; no prices if time is up."""
        from scipy.optimize import linprog

        seconds = deadline - time.monotonic()
        if seconds < 0.005:
            return np.inf, None
        matrix, least = self._rows()
        found = linprog(
            np.concatenate([self.costs, np.zeros(len(self.known))]),
            A_ub=matrix,
            b_ub=-least,
            options={"time_limit": seconds},
        )
        if found.status != 0:
            return np.inf, None
        prices: Reals = np.maximum(-found.ineqlin.marginals[self.graph.types :], 0)
        return float(found.fun), prices

    def _rows(self) -> tuple[csr_array, Reals]:
        """What is at most -least: messages, pieces less capacities, steps and durations; m first, then the patterns."""
        from scipy.sparse import csr_array

        types, levels, groups = self.graph.types, self.levels, len(self.sizes)
        kinds = np.array([kind for kind, _ in self.known], dtype=np.int64)
        pattern, level = np.nonzero(patterns := np.array(list(self.known.values())))
        number = patterns[pattern, level]
        last = types + groups * levels
        rows = [kinds, *(types + end[kinds[pattern]] * levels + level for end in self.ends)]
        columns = [levels + np.arange(len(kinds)), levels + pattern, levels + pattern]
        values = [-np.ones(len(kinds)), number, number]
        rows += [types + np.arange(groups * levels), np.repeat([last, last + 1], levels)]
        columns += [np.tile(np.arange(levels), groups), np.tile(np.arange(levels), 2)]
        values += [-np.repeat(self.sizes, levels), -self.per_step.reshape(-1)]
        places = np.concatenate(rows), np.concatenate(columns)
        matrix = csr_array((np.concatenate(values).astype(np.float64), places), shape=(last + 2, levels + len(kinds)))
        return matrix, np.concatenate([self.graph.count, np.zeros(groups * levels), self.least])

    def _bound(self, prices: Reals) -> tuple[float, Reals, Ints]:
        """What prices prove once they are scaled to be allowed, these, and the cheapest pattern of each type."""
        of_pieces, of_least = prices[:-2].reshape(len(self.sizes), self.levels), prices[-2:]
        asked = self.sizes @ of_pieces + of_least @ self.per_step
        scale = min(1.0, float((self.costs / np.maximum(asked, TINY * TINY)).min()))
        values, patterns = _cheapest(of_pieces[self.ends].sum(axis=0), self.graph.length)
        return scale * float(self.graph.count @ values + of_least @ self.least), scale * prices, patterns


def _cheapest(prices: Reals, lengths: Ints) -> tuple[Reals, Ints]:
    """For each row of prices of pieces of 1, 2, ...: the least sum of pieces that add up to a length or more, and which."""
    kinds, levels = np.arange(len(prices)), prices.shape[1]
    values = np.zeros((len(prices), levels + 1))
    last = np.zeros((len(prices), levels + 1), dtype=np.int64)
    for length in range(1, levels + 1):
        choices = values[:, np.maximum(length - 1 - np.arange(levels), 0)] + prices
        last[:, length] = choices.argmin(axis=1)
        values[:, length] = choices[kinds, last[:, length]]
    patterns, rest = np.zeros_like(prices, dtype=np.int64), lengths.copy()
    while (rest > 0).any():
        kinds_left = np.flatnonzero(rest > 0)
        piece = last[kinds_left, rest[kinds_left]]
        patterns[kinds_left, piece] += 1
        rest[kinds_left] = np.maximum(rest[kinds_left] - piece - 1, 0)
    return values[kinds, lengths], patterns
