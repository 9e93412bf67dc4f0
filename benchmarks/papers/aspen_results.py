"""What the suite `aspen` measured, and its JSON: like that of other suites, with counts in place of bytes."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .aspen_cases import AspenCase

__all__ = ["AspenResult", "AspenResults", "Measured", "geometric_mean"]


@dataclass(frozen=True)
class Measured:
    """One algorithm in one form: times of all processes and both dimensions, and what it found and compared."""

    algorithm: str
    form: str
    seconds: tuple[float, ...]
    runs: int
    comparisons: int
    verified: bool

    @property
    def name(self) -> str:
        """As aspen/compiled."""
        return f"{self.algorithm}/{self.form}"

    @property
    def least(self) -> float:
        """The least time: one core works and nothing is waited for, so more is another program's doing."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median time."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class AspenResult:
    """All algorithms on one case."""

    case: AspenCase
    methods: tuple[Measured, ...]

    def method(self, algorithm: str, form: str) -> Measured:
        """One of them. Not collective."""
        return next(method for method in self.methods if (method.algorithm, method.form) == (algorithm, form))

    def ratio(self, form: str, other: str = "falls") -> float:
        """Least time of another algorithm as a multiple of ASPEN's. Not collective."""
        return self.method(other, form).least / self.method("aspen", form).least


@dataclass(frozen=True)
class AspenResults:
    """A whole run of the suite."""

    environment: dict[str, Any]
    cases: tuple[AspenResult, ...]

    @property
    def verified(self) -> bool:
        """Whether all runs found were right."""
        return all(method.verified for case in self.cases for method in case.methods)

    @property
    def largest(self) -> list[AspenResult]:
        """The cases of the largest grid before and after."""
        most = max(result.case.before for result in self.cases)
        return [result for result in self.cases if result.case.before == result.case.after == most]

    def to_json(self) -> str:
        """Text of a JSON file. Not collective."""
        cases = [
            {
                "shape": [result.case.size] * 2,
                "from": _layout(result.case.before, result.case.block_before),
                "to": _layout(result.case.after, result.case.block_after),
                "methods": [
                    {
                        "name": method.name,
                        "seconds": list(method.seconds),
                        "min": method.least,
                        "median": method.median,
                        "runs": method.runs,
                        "comparisons": method.comparisons,
                        "verified": method.verified,
                    }
                    for method in result.methods
                ],
            }
            for result in self.cases
        ]
        return json.dumps({"environment": self.environment, "cases": cases}, indent=1)


def geometric_mean(values: Iterable[float]) -> float:
    """Of numbers above 0. Not collective."""
    return math.exp(statistics.fmean(map(math.log, values)))


def _layout(processes: int, block: tuple[int, int]) -> str:
    return f"{processes}x{processes}:{block[0]}x{block[1]}"
