"""What no schedule can fall below whose messages may be cut, where each step has a start-up cost.

A process with g messages that takes part in k steps cuts at most k - g of them, and each that it does not cut needs a step
of its own of at least its length. So the i-th longest step is at least as long as the (i + k - g)-th longest message of any
process; no sum of steps is less than what a process sends or receives; and no number of steps is less than the maximum degree.
"""

from __future__ import annotations

import bisect

import numpy as np

from .message_graph import Ints, MessageGraph

__all__ = ["SplitBounds"]

SAMPLES = 64  # numbers of steps for which the bound is worked out


class SplitBounds:
    """Bounds of one graph. Not collective.

    Parameters
    ----------
    grid : MessageGraph
        Whose messages are scheduled.
    """

    def __init__(self, grid: MessageGraph) -> None:
        self.volume, self.fewest = grid.volume_bound, grid.step_bound
        rows, columns = grid.rows(grid.distinct_senders()), grid.columns(grid.distinct_receivers()).T
        self._sides = [np.unique(-np.sort(-side, axis=1), axis=0) for side in (rows, columns)]
        self._degrees = [np.count_nonzero(side, axis=1) for side in self._sides]

    def cost(self, steps: int) -> int:
        """The least sum of durations of so many steps, or fewer. Not collective."""
        durations = np.zeros(steps, dtype=np.int64)
        for side, degrees in zip(self._sides, self._degrees, strict=True):
            longest = _without_longest(side, steps - degrees)[:, :steps].max(axis=0, initial=0)
            durations[: len(longest)] = np.maximum(durations[: len(longest)], longest)
        return max(self.volume, int(durations.sum()))

    def steps(self, cost: int) -> int:
        """The fewest steps whose durations may sum up to `cost`. Not collective."""
        numbers = range(self.fewest, 2 * self.fewest + 1)
        return numbers[bisect.bisect_left(numbers, True, key=lambda number: self.cost(number) <= cost)]

    def time(self, startup: float) -> float:
        """The least sum of the steps' start-ups and durations. Not collective."""
        most = self.steps(self.volume)
        if startup == 0 or most == self.fewest:
            return startup * self.fewest + self.volume
        starts: Ints = np.unique(np.linspace(self.fewest, most, SAMPLES).astype(np.int64))
        ends = [*(int(start) - 1 for start in starts[1:]), most]
        return min(startup * int(start) + self.cost(end) for start, end in zip(starts, ends, strict=True))


def _without_longest(lengths: Ints, count: Ints) -> Ints:
    """Each row without that many of its first entries."""
    places = np.arange(lengths.shape[1]) + count[:, None]
    inside = places < lengths.shape[1]
    answer: Ints = np.where(inside, np.take_along_axis(lengths, np.where(inside, places, 0), axis=1), 0)
    return answer
