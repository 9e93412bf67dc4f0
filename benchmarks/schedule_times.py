"""How long does scheduling take on large grids, and how near to its bound is what comes out?

One rank's own part for the schedules in closed form; all steps for stepwise, greedy and optimal. Run:
python benchmarks/schedule_times.py
"""

from __future__ import annotations

import argparse
import os
import platform
import time

from pyscalapack_redist.schedules import CommunicationGrid, build

BLOCKS = ((3, 5), (7, 11), (12, 35), (16, 25), (64, 81))
SIZES = ((1024, 1024), (1023, 1024), (960, 1024), (512, 768))
OWN_PARTS = (("classes", 3, 5), ("caterpillar", 64, 81), ("walker-otto", 4, 80), ("natural", 64, 81))


def own_part(name: str, r: int, s: int, repeat: int) -> float:
    """Least time in ms, of what one rank needs: its sends and receives, the grid being made anew."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        schedule = build(name, CommunicationGrid(1024, 1024, r, s))
        schedule.of_sender(513)
        schedule.of_receiver(513)
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="take the least time of so many")
    parser.add_argument("--proof", type=float, default=0.0, help="also try so many seconds where 1 s did not prove it")
    options = parser.parse_args()
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}\n"
    )
    print("One rank's own part, P = Q = 1024\n\n| schedule | r -> s | ms |\n|---|---|---|")
    for name, r, s in OWN_PARTS:
        print(f"| {name} | {r} -> {s} | {own_part(name, r, s, 5 * options.repeat):.2f} |")
    print(
        "\nAll steps\n\n| P -> Q | r -> s | schedule | s | steps | fewest | cost | bound | certificate |\n"
        + "|---" * 9
        + "|"
    )
    for P, Q in SIZES:
        for r, s in BLOCKS:
            for name, limit in (("stepwise", None), ("greedy", None), ("optimal", 1.0), ("optimal", options.proof)):
                if limit == 0:
                    continue
                more = {} if limit is None else {"time_limit": limit}
                seconds = float("inf")
                for _ in range(options.repeat if limit in (None, 1.0) else 1):
                    start = time.perf_counter()
                    schedule = build(name, CommunicationGrid(P, Q, r, s), **more)
                    seconds = min(seconds, time.perf_counter() - start)
                grid = schedule.grid
                costs = f"{schedule.number_of_steps} | {grid.step_bound} | {schedule.total_cost} | {grid.cost_bound}"
                print(
                    f"| {P} -> {Q} | {r} -> {s} | {name} | {seconds:.2f} | {costs} | {schedule.certificate} |",
                    flush=True,
                )
                if limit == 1.0 and not schedule.certificate.startswith("best"):
                    break


if __name__ == "__main__":
    main()
