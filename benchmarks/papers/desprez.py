"""The experiments of Desprez et al. (1998, section 5): caterpillar against the optimal schedule over vector sizes.

Examples 1, 2 and 4, each on processes that senders and receivers share and on two disjoint sets, as they did. Unlike
theirs, times here include packing and unpacking. The figures that they print for the caterpillar are those of the
pairing q - p constant, which is `ring` here; `caterpillar` pairs as pxgemr2d does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyscalapack_redist import schedules
from pyscalapack_redist.tools.bench.methods import named_methods
from pyscalapack_redist.tools.bench.results import Results
from pyscalapack_redist.tools.bench.suites import Suite
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.layouts import Layout
from pyscalapack_redist.tools.text import new_table, ratio_text, time_text

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["DESPREZ", "Example"]

PAIRINGS = ("caterpillar/sendrecv", "ring/sendrecv")
OPTIMAL = "optimal/sendrecv"
METHODS = (*PAIRINGS, OPTIMAL, "optimal/windowed", "auto", "pxgemr2d")
SIZES = (1_200, 4_800, 19_200, 76_800, 307_200, 1_228_800)


@dataclass(frozen=True)
class Example:
    """From blocks of r on P processes to blocks of s on Q."""

    number: int
    P: int
    Q: int
    r: int
    s: int

    def case(self, size: int, disjoint: bool) -> Case:
        """A vector of whole slices, of about `size` doubles and at least one slice."""
        length = math.lcm(self.P * self.r, self.Q * self.s)
        before = Layout((self.P, 1), (self.r, 1), (0, 0))
        after = Layout((self.Q, 1), (self.s, 1), (0, 0), self.P if disjoint else 0)
        return Case((max(1, round(size / length)) * length, 1), before, after)

    def expected(self, name: str) -> tuple[float, float]:
        """Steps and cost of the optimal schedule as fractions of those of another.

        The first is what to expect of short vectors, where each step costs a latency, the second of long ones.
        """
        grid = schedules.CommunicationGrid(self.P, self.Q, self.r, self.s)
        best, other = schedules.build("optimal", grid), schedules.build(name, grid)
        steps = sum(len(step) > 0 for step in other.steps)
        return best.number_of_steps / steps, best.total_cost / other.total_cost

    def __str__(self) -> str:
        return f"Example {self.number}: P = {self.P}, Q = {self.Q}, r = {self.r}, s = {self.s}"


EXAMPLES = (Example(1, 16, 16, 3, 5), Example(2, 16, 16, 7, 11), Example(4, 12, 8, 4, 3))


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """Median times and ratios over vector sizes, for each example on each kind of process sets. Not collective."""
    medians = {name: column[:, 1] for name, column in results.times.items()}
    ratios = [results.column(OPTIMAL)[:, 1] / results.column(name)[:, 1] for name in PAIRINGS]
    groups: dict[tuple[Example, str], list[int]] = {}
    for k, result in enumerate(results.cases):
        case = result.case
        numbers = (case.before.size, case.after.size, case.before.block[0], case.after.block[0])
        example = next(example for example in EXAMPLES if (example.P, example.Q, example.r, example.s) == numbers)
        groups.setdefault((example, "disjoint sets" if case.after.first else "shared processes"), []).append(k)
    made = []
    for (example, sets), cases in groups.items():
        table = new_table(("doubles",), (*medians, *(f"optimal / {name.split('/')[0]}" for name in PAIRINGS)))
        for k in sorted(cases, key=lambda k: results.cases[k].case.elements):
            times = (time_text(column[k]) for column in medians.values())
            shares = (ratio_text(ratio[k]) for ratio in ratios)
            table.add_row(str(results.cases[k].case.elements), *times, *shares)
        made.append((f"{example}, {sets}: median times; {_expectation(example)}:", table))
    return made


def _expectation(example: Example) -> str:
    words = []
    for name in PAIRINGS:
        pairing = name.split("/")[0]
        steps, cost = example.expected(pairing)
        words.append(f"{ratio_text(steps)} by steps and {ratio_text(cost)} by cost against {pairing}")
    return "in theory " + ", ".join(words)


def _cases(sizes: Sequence[int]) -> tuple[Case, ...]:
    return tuple(example.case(size, disjoint) for example in EXAMPLES for disjoint in (False, True) for size in sizes)


DESPREZ = Suite(
    cases=_cases(SIZES),
    quick=_cases((1_200, 12_000)),
    methods=named_methods(*METHODS),
    calls=2,
    tables=tables,
)
