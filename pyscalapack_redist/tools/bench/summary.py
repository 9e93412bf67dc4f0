"""All cases of a run together: geometric means of the ratios to memcpy and to pxgemr2d, and the worst of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

from .figures import ratio_text
from .report import library_of
from .results import CaseResult, MethodResult, Results
from .terminal import new_table

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Ratios", "ratios_to_library", "ratios_to_memcpy", "summary_table"]


@dataclass(frozen=True)
class Ratios:
    """One ratio in all cases that have it.

    Attributes
    ----------
    of_least, of_medians : tuple of float
        Of the shortest times, and of the medians.
    cases : tuple of int
        Numbers of these cases, counted from 1.
    """

    of_least: tuple[float, ...]
    of_medians: tuple[float, ...]
    cases: tuple[int, ...]

    @property
    def means(self) -> str:
        """The geometric means."""
        if not self.cases:
            return "-"
        return f"{ratio_text(geometric_mean(self.of_least))} / {ratio_text(geometric_mean(self.of_medians))}"

    @property
    def largest(self) -> str:
        """The largest of the shortest times' ratios, and its case."""
        return self._one(max(self.of_least, default=0.0))

    @property
    def smallest(self) -> str:
        """The smallest of the shortest times' ratios, and its case."""
        return self._one(min(self.of_least, default=0.0))

    def _one(self, value: float) -> str:
        return f"{ratio_text(value)} (case {self.cases[self.of_least.index(value)]})" if self.cases else "-"


def ratios_to_memcpy(results: Results, name: str) -> Ratios:
    """How many times as long as memcpy a method takes. Not collective."""
    return _ratios((k, case.method(name), case.method("memcpy")) for k, case in _numbered(results))


def ratios_to_library(results: Results, name: str) -> Ratios:
    """How many times faster than pxgemr2d a method is, in the cases that both can do. Not collective."""
    return _ratios((k, library_of(case), case.method(name)) for k, case in _numbered(results))


def summary_table(results: Results) -> Table:
    """A row for each method. Not collective."""
    table = new_table(
        ("method",),
        ("cases", "x memcpy", "the most", "cases with pxgemr2d", "faster than pxgemr2d", "the least"),
    )
    for name in dict.fromkeys(one.name for case in results.cases for one in case.methods):
        to_memcpy, to_library = ratios_to_memcpy(results, name), ratios_to_library(results, name)
        itself = name == "memcpy" or any(one and one.name == name for one in map(library_of, results.cases))
        table.add_row(
            name,
            str(sum(case.method(name) is not None for case in results.cases)),
            to_memcpy.means,
            to_memcpy.largest,
            *(("-",) * 3 if itself else (str(len(to_library.cases)), to_library.means, to_library.smallest)),
        )
    return table


def _numbered(results: Results) -> Iterator[tuple[int, CaseResult]]:
    return enumerate(results.cases, 1)


def _ratios(pairs: Iterator[tuple[int, MethodResult | None, MethodResult | None]]) -> Ratios:
    known = [(number, one, other) for number, one, other in pairs if one is not None and other is not None]
    return Ratios(
        tuple(one.least / other.least for _, one, other in known),
        tuple(one.median / other.median for _, one, other in known),
        tuple(number for number, _, _ in known),
    )
