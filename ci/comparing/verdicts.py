"""What launches in turn say of a case: ratios of neighbouring launches, their median, and how far they differ.

The cores of a machine move between launches, and the times of all versions with them; a launch and the next one share more of
that than any two others. So ratios are of these, and the verdict is that of most of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

ALLOWED = 0.05  # slower by so much is no failure, however little launches differ
ALLOWED_IN = {"uses": 0.03}  # of suites


class Launch(NamedTuple):
    """Seconds of a case in one launch of one version."""

    minimum: float
    median: float


class Ratio(NamedTuple):
    """The first version's time over the second's, by neighbouring launches: the median, and where most ratios lie.

    Attributes
    ----------
    value : float
        The median.
    low, high : float
        The least and the largest ratio; of nine or more without the outermost one on either side. With ten launches of each
        version the true median is in between with a probability of 0.98.
    allowed : float
        Slower by so much is no failure.
    """

    value: float
    low: float
    high: float
    allowed: float = ALLOWED

    @property
    def spread(self) -> float:
        """The larger distance of the ends from the median, relative."""
        return max(self.high / self.value, self.value / self.low) - 1

    @property
    def mark(self) -> str:
        """Which way the versions differ in most launches, if they do."""
        return "slower" if self.low > 1 else "faster" if self.high < 1 else ""

    @property
    def suspect(self) -> bool:
        """Whether the first version is slower by more than is allowed, be it by chance."""
        return self.value > 1 + self.allowed

    @property
    def fails(self) -> bool:
        """Whether the first version is slower in most launches, and by more than is allowed."""
        return self.suspect and self.mark == "slower"


class Verdict(NamedTuple):
    """Of one case: ratios of the launches' best times, and of their medians."""

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


def compare(first: Sequence[Launch], second: Sequence[Launch], allowed: float = ALLOWED) -> Verdict:
    """Compare a case's launches of two versions, in turn, of which there is one each at least."""
    return Verdict(
        ratio([launch.minimum for launch in first], [launch.minimum for launch in second], allowed),
        ratio([launch.median for launch in first], [launch.median for launch in second], allowed),
    )


def ratio(first: Sequence[float], second: Sequence[float], allowed: float = ALLOWED) -> Ratio:
    """The ratio of neighbouring launches; one without a neighbour counts for nothing."""
    ratios = sorted(one / other for one, other in zip(first, second, strict=False))
    outermost = (len(ratios) - 1) // 8
    return Ratio(statistics.median(ratios), ratios[outermost], ratios[-1 - outermost], allowed)


def geometric_mean(values: Sequence[float]) -> float:
    """Of ratios."""
    return statistics.geometric_mean(values)
