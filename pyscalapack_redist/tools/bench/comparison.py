"""What got slower or faster since an earlier run.

Two runs may differ in the machine's speed as well, so what counts is the median as a multiple of memcpy's in the same
run, where both runs have it.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .figures import ratio_text, time_text
from .results import CaseResult, MethodResult, Results
from .terminal import new_table

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Change", "changes", "comparison_lines", "comparison_table"]

NOTEWORTHY = 1.1


@dataclass(frozen=True)
class Change:
    """One method in one case, then and now.

    Attributes
    ----------
    old, new : float
        Median times.
    old_to_memcpy, new_to_memcpy : float or None
        The same as multiples of memcpy's median in the same run.
    """

    case: str
    method: str
    old: float
    new: float
    old_to_memcpy: float | None
    new_to_memcpy: float | None

    @property
    def factor(self) -> float:
        """How many times slower than before; relative to memcpy where that is known."""
        if self.old_to_memcpy is not None and self.new_to_memcpy is not None:
            return self.new_to_memcpy / self.old_to_memcpy
        return self.new / self.old

    @property
    def verdict(self) -> str:
        """One of "slower", "faster" and "same"."""
        if self.factor > NOTEWORTHY:
            return "slower"
        return "faster" if self.factor < 1 / NOTEWORTHY else "same"


def changes(old: Results, new: Results) -> list[Change]:
    """What both runs have, what slowed down most first. Not collective."""
    found = []
    before = {one.case: one for one in old.cases}
    for result in new.cases:
        earlier = before.get(result.case)
        for method in result.methods:
            was = earlier.method(method.name) if earlier else None
            if earlier and was and method.name != "memcpy":
                ratios = _to_memcpy(was, earlier), _to_memcpy(method, result)
                found.append(Change(str(result.case), method.name, was.median, method.median, *ratios))
    return sorted(found, key=lambda change: -change.factor)


def comparison_table(found: list[Change]) -> Table:
    """A row for each change."""
    table = new_table(
        ("case", "method", "verdict"), ("now / then", "median then", "median now", "x memcpy then", "x memcpy now")
    )
    for one in found:
        table.add_row(
            one.case,
            one.method,
            one.verdict,
            ratio_text(one.factor),
            time_text(one.old),
            time_text(one.new),
            ratio_text(one.old_to_memcpy),
            ratio_text(one.new_to_memcpy),
            style={"slower": "red", "faster": "green"}.get(one.verdict),
        )
    return table


def comparison_lines(old: Results, new: Results) -> Iterator[str]:
    """What the figures are, each method as a whole, what one run lacks, and what else differs that may explain the rest."""
    yield f"now / then: of the medians as multiples of memcpy's; slower or faster from a factor of {NOTEWORTHY} on"
    yield from _by_method(changes(old, new))
    plans = [results.environment.get("plans") for results in (old, new)]
    if plans[0] != plans[1]:
        yield f"not the same is timed: plans were {plans[0]} then, and are {plans[1]} now"
    for name, one, other in (("the earlier run", old, new), ("this run", new, old)):
        there = {(result.case, method.name) for result in other.cases for method in result.methods}
        for result in one.cases:
            absent = [method.name for method in result.methods if (result.case, method.name) not in there]
            if absent:
                yield f"only in {name}: {result.case}: {', '.join(absent)}"
    trips = [results.environment.get("flag_round_trip_ns") for results in (old, new)]
    if None not in trips:
        yield f"flag round trip: {trips[0]:.0f} ns then, {trips[1]:.0f} ns now"


def _by_method(found: list[Change]) -> Iterator[str]:
    for name in sorted({one.method for one in found}):
        its = [one for one in found if one.method == name]
        counts = collections.Counter(one.verdict for one in its)
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("slower", "faster", "same") if counts[verdict])
        mean = ratio_text(statistics.geometric_mean([one.factor for one in its]))
        yield f"{name}: {told}; now / then in geometric mean: {mean}"


def _to_memcpy(method: MethodResult, result: CaseResult) -> float | None:
    memcpy = result.method("memcpy")
    return None if memcpy is None else method.median / memcpy.median
