"""How often is the least cost proved, how far is it from its bound otherwise, and how long does it take?

Random redistributions from P to Q <= 1024 processes with coprime blocks r, s <= 64: slices, and arrays of 10^3 to 10^8 elements
(uniform in their logarithm), from a seed; then cases that have been hard. Run: python benchmarks/optimal_cases.py
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

from pyscalapack_redist.schedules import CommunicationGrid, build
from pyscalapack_redist.schedules.least_cost import OptimalSchedule

LARGEST, LARGEST_BLOCK = 1024, 64
KINDS = ("slices", "arrays")
HARD = (
    (144, 192, 27, 29, None),
    (665, 840, 64, 15, None),
    (960, 1024, 64, 81, None),
    (481, 904, 53, 33, 8319380),
    (971, 299, 21, 22, 4337598),
    (846, 1008, 39, 35, 13642421),
    (642, 140, 21, 4, 1043409),
    (60, 64, 32, 29, 1000007),
    (1021, 1024, 37, 64, 99999999),
)


class Result(NamedTuple):
    """What comes out of one redistribution; graph and schedule would take megabytes each."""

    name: str
    steps: str
    cost: str
    certificate: str
    seconds: float
    processor_seconds: float

    @property
    def excess(self) -> float:
        """By how many percent the cost may be above the least."""
        words = self.certificate.split()
        return float(words[3]) if words[0] == "best" else 0.0


def drawn(seed: int, count: int, finite: bool) -> Iterator[CommunicationGrid]:
    """Random redistributions, the same for a seed."""
    source = random.Random(seed)
    while count:
        P, Q = source.randint(1, LARGEST), source.randint(1, LARGEST)
        r, s = source.randint(1, LARGEST_BLOCK), source.randint(1, LARGEST_BLOCK)
        n = int(10 ** source.uniform(3, 8))
        if math.gcd(r, s) == 1:
            count -= 1
            yield CommunicationGrid(P, Q, r, s, n if finite else None)


def solved(grid: CommunicationGrid, limit: float) -> Result:
    """The schedule that `optimal` finds within a limit, and what it takes."""
    start, used = time.perf_counter(), time.process_time()
    schedule = build("optimal", grid, time_limit=limit)
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - used
    schedule.validate()
    assert isinstance(schedule, OptimalSchedule)
    return Result(
        f"{grid.P} -> {grid.Q}, {grid.r} -> {grid.s}, {'slice' if grid.n is None else f'n = {grid.n}'}",
        f"{schedule.number_of_steps} ({grid.step_bound})",
        f"{schedule.total_cost} ({grid.cost_bound})",
        schedule.certificate,
        seconds,
        processor_seconds,
    )


def summary(name: str, results: list[Result]) -> str:
    """A line of the table."""
    excesses = [result.excess for result in results]
    seconds = sorted(result.seconds for result in results)
    used = sorted(result.processor_seconds for result in results)
    cells = [
        name,
        len(results),
        sum(result.certificate == "equals the lower bound" for result in results),
        sum(result.certificate == "proved by integer program" for result in results),
        sum(excess > 0 for excess in excesses),
        sum(excess > 1 for excess in excesses),
        f"{max(excesses):.1f} %",
        f"{seconds[len(seconds) // 2]:.2f}",
        f"{seconds[-1]:.2f}",
        f"{used[len(used) // 2]:.2f}",
        f"{used[-1]:.2f}",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def row(result: Result) -> str:
    """One case."""
    cells = [*result[:4], f"{result.seconds:.2f}", f"{result.processor_seconds:.2f}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table, and the cases that are not proved."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=60, help="random cases of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="slices, arrays or both")
    parser.add_argument("--time-limit", type=float, default=1.0, help="seconds that `optimal` may take")
    options = parser.parse_args()
    build("optimal", CommunicationGrid(15, 6, 2, 3))  # loads SciPy
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; "
        f"limit {options.time_limit} s, seed {options.seed}\n"
    )
    kinds = {
        name: [solved(grid, options.time_limit) for grid in drawn(options.seed, options.cases, name == "arrays")]
        for name in options.kinds
    }
    print(
        "| | cases | equal the bound | proved | best found | above 1 % | most | s, median | s, longest | "
        "processor s, median | processor s, longest |\n" + "|---" * 11 + "|"
    )
    for name, results in kinds.items():
        print(summary(name, results))
    hard = [solved(CommunicationGrid(*case), options.time_limit) for case in HARD]
    open_ = [result for results in kinds.values() for result in results if result.excess]
    for title, some in (("Cases that have been hard", hard), ("Not proved", open_)):
        print(
            f"\n{title}:\n\n| case | steps (fewest) | cost (bound) | certificate | s | processor s |\n"
            + "|---" * 6
            + "|"
        )
        print("\n".join(row(result) for result in some))


if __name__ == "__main__":
    main()
