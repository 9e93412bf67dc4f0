"""Is the schedule of fewest steps the one of least cost? The question that Desprez et al. leave open, answered by a table.

For all coprime r, s up to a limit and some numbers of processes: the least cost against the bound of the level sets, the steps
that it takes against the fewest possible, and what other schedules cost. Run: python benchmarks/least_cost_schedules.py
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from typing import NamedTuple

from pyscalapack_redist.schedules import CommunicationGrid, build

SIZES = ((16, 16), (15, 15), (12, 8), (15, 6), (24, 36), (60, 64))


class Case(NamedTuple):
    """One redistribution and what its schedules take."""

    P: int
    Q: int
    r: int
    s: int
    fewest_steps: int
    bound: int
    steps: int
    cost: int
    certificate: str
    cost_of_fewest: int
    stepwise: int
    greedy: int
    caterpillar: int

    @property
    def kind(self) -> int:
        """Class by class (Propositions 3, 4); fewest steps at the bound, or above it; more steps at the least cost."""
        if self.steps > self.fewest_steps:
            return 3
        if self.cost > self.bound:
            return 2
        return 0 if math.gcd(self.r, self.Q) == math.gcd(self.s, self.P) == 1 else 1


def studied(P: int, Q: int, r: int, s: int, limit: float) -> Case:
    """The schedules of one redistribution."""
    grid = CommunicationGrid(P, Q, r, s)
    least = build("optimal", grid, time_limit=limit)
    fewest = least
    if least.number_of_steps > grid.step_bound:
        fewest = build("optimal", grid, objective="steps", time_limit=limit)
    others = (build(name, grid).total_cost for name in ("stepwise", "greedy", "caterpillar"))
    counts = grid.step_bound, grid.cost_bound, least.number_of_steps, least.total_cost
    return Case(P, Q, r, s, *counts, least.certificate, fewest.total_cost, *others)


def row(cases: list[Case]) -> list[str]:
    """A line of the table."""
    found = [sum(case.kind == kind for case in cases) for kind in range(4)]
    dearer = [case for case in cases if case.kind == 3]
    saved = max((case.cost_of_fewest / case.cost - 1 for case in dearer), default=0)
    extra = max((case.steps - case.fewest_steps for case in dearer), default=0)
    ratios = [max(getattr(case, name) / case.cost for case in cases) for name in ("stepwise", "greedy", "caterpillar")]
    above = max(case.cost / case.bound for case in cases) - 1
    unproved = sum(case.certificate.startswith("best") for case in cases)
    first = cases[0]
    return [
        f"{first.P} -> {first.Q}",
        str(len(cases)),
        *map(str, found),
        f"{above:.0%}",
        str(extra),
        f"{saved:.0%}",
        *(f"{ratio:.2f}" for ratio in ratios),
        str(unproved),
    ]


HEADINGS = (
    "P -> Q", "cases", "class by class", "fewest steps at the bound", "fewest steps above it", "more steps",
    "above the bound, most", "more steps, most", "dearer with fewest steps, most", "stepwise / least, most",
    "greedy / least, most", "caterpillar / least, most", "not proved",
)  # fmt: skip


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=32, help="largest block size")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds for a proof")
    options = parser.parse_args()
    sizes = range(1, options.largest + 1)
    start = time.perf_counter()
    print(f"Python {platform.python_version()}, {platform.machine()}; coprime r, s up to {options.largest}\n")
    print("| " + " | ".join(HEADINGS) + " |\n" + "|---" * len(HEADINGS) + "|")
    for P, Q in SIZES:
        cases = [studied(P, Q, r, s, options.time_limit) for r in sizes for s in sizes if math.gcd(r, s) == 1]
        print("| " + " | ".join(row(cases)) + " |", flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
