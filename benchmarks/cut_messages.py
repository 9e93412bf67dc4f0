"""What is gained where messages may be cut, and how many start-ups does it take?

For some grids the least time found with a start-up cost for each step, whole messages against cut ones, and the front of
steps against cost. Run: python benchmarks/cut_messages.py
"""

from __future__ import annotations

import argparse
import os
import platform
import time

from pyscalapack_redist.schedules import CommunicationGrid, build, preemptive_pareto

GRIDS = ((15, 15, 3, 5), (60, 64, 32, 29))
STARTUPS = (0, 0.5, 2, 10, 100)
MOST_IN_A_ROW = 20  # points of the front that are printed


def times(grid: CommunicationGrid, seconds: float) -> None:
    """Print a row for each start-up cost."""
    name = f"{grid.P} -> {grid.Q}, {grid.r} -> {grid.s}"
    for startup in STARTUPS:
        start = time.perf_counter()
        whole = build("optimal", grid, objective=(startup, 1), time_limit=seconds)
        middle = time.perf_counter()
        cut = build("preemptive", grid, startup=startup, time_limit=seconds)
        took = time.perf_counter() - middle
        uncut = startup * whole.number_of_steps + whole.total_cost
        figures = [
            startup,
            whole.number_of_steps,
            whole.total_cost,
            uncut,
            cut.number_of_steps,
            cut.total_cost,
            cut.time,
        ]
        cells = [name, *(f"{figure:g}" for figure in (*figures, cut.time_bound)), cut.certificate]
        print("| " + " | ".join([*cells, f"{middle - start:.2f}", f"{took:.2f}"]) + " |", flush=True)


def front(grid: CommunicationGrid, seconds: float) -> None:
    """Print steps and cost of schedules of which none is better in both."""
    points = [(each.number_of_steps, each.total_cost, each.time_bound) for each in preemptive_pareto(grid, seconds)]
    stride = -(-(len(points) - 1) // (MOST_IN_A_ROW - 1)) or 1
    shown = [*points[:-1:stride], points[-1]]
    name = f"{grid.P} -> {grid.Q}, {grid.r} -> {grid.s}"
    for title, row in zip(("steps", "cost", "cost at least"), zip(*shown, strict=True), strict=True):
        print(f"| {name} | {title} | " + " | ".join(f"{value:g}" for value in row) + " |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=5.0, help="seconds for each schedule and for each front")
    options = parser.parse_args()
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}\n"
    )
    columns = ("P -> Q, r -> s", "start-up", "steps", "cost", "time", "steps, cut", "cost, cut", "time, cut", "bound")
    print("| " + " | ".join((*columns, "certificate", "s", "s, cut")) + " |\n" + "|---" * (len(columns) + 3) + "|")
    for case in GRIDS:
        times(CommunicationGrid(*case), options.time_limit)
    for case in GRIDS:
        print()
        front(CommunicationGrid(*case), options.time_limit)


if __name__ == "__main__":
    main()
