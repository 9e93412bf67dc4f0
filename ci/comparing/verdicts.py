"""What launches in turn say of a case: ratios of two versions, and how far launches of the same version differ.

Of more than two launches of a version the faster half counts, two at least: what disturbs one only ever makes it slower.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

ALLOWED = 0.05  # slower by so much is no failure, however little launches differ


class Launch(NamedTuple):
    """Seconds of a case in one launch of one version."""

    minimum: float
    median: float


class Ratio(NamedTuple):
    """The first version's time over the second's, and the most by which launches of one of them differ, both relative."""

    value: float
    spread: float

    @property
    def mark(self) -> str:
        """Which way the versions differ by more than the spread, if they do."""
        if self.value > 1 + self.spread:
            return "slower"
        return "faster" if self.value * (1 + self.spread) < 1 else ""

    @property
    def suspect(self) -> bool:
        """Whether the first version is slower by more than is allowed, be it by chance."""
        return self.value > 1 + ALLOWED

    @property
    def fails(self) -> bool:
        """Whether the first version is slower by more than the spread and by more than is allowed."""
        return self.suspect and self.mark == "slower"


class Verdict(NamedTuple):
    """Of one case: the best times of all launches compared, and the median of the launches' medians."""

    minima: Ratio
    medians: Ratio

    @property
    def worst(self) -> float:
        """The larger ratio."""
        return max(self.minima.value, self.medians.value)

    @property
    def suspect(self) -> bool:
        """Whether one of the ratios is."""
        return self.minima.suspect or self.medians.suspect

    @property
    def fails(self) -> bool:
        """Whether one of the ratios does."""
        return self.minima.fails or self.medians.fails

    @property
    def mark(self) -> str:
        """Which way the versions differ, in a word or two."""
        marks = {self.minima.mark, self.medians.mark} - {""}
        if self.fails:
            return "SLOWER"
        return "slower and faster" if len(marks) > 1 else next(iter(marks), "")


def compare(first: Sequence[Launch], second: Sequence[Launch]) -> Verdict:
    """Compare a case's launches of two versions, of which there is one each at least."""
    minima = ratio([launch.minimum for launch in first], [launch.minimum for launch in second], min)
    medians = ratio([launch.median for launch in first], [launch.median for launch in second], statistics.median)
    return Verdict(minima, medians)


def ratio(first: Sequence[float], second: Sequence[float], typical: Callable[[Sequence[float]], float]) -> Ratio:
    """The ratio of what is typical of the launches of either version, and the larger one of their spreads."""
    halves = [sorted(times)[: max(2, (len(times) + 1) // 2)] for times in (first, second)]
    return Ratio(typical(halves[0]) / typical(halves[1]), max(half[-1] / half[0] - 1 for half in halves))


def geometric_mean(values: Sequence[float]) -> float:
    """Of ratios."""
    return statistics.geometric_mean(values)
