"""What do more steps buy? The Pareto fronts of steps against cost of some redistributions, with their bounds.

Run: python benchmarks/steps_against_cost.py --plot docs/pictures/steps-against-cost.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyscalapack_redist.schedules import CommunicationGrid, build, pareto

CASES = ((4, 9, 3, 2), (15, 6, 2, 3), (24, 36, 9, 16), (30, 32, 16, 25), (60, 64, 32, 29))
Front = list[tuple[int, int, str]]


def front_of(grid: CommunicationGrid, limit: float) -> Front:
    """Steps, cost and certificate of each schedule of the front."""
    return [(one.number_of_steps, one.total_cost, one.certificate) for one in pareto(grid, time_limit=limit)]


def plotted(fronts: list[tuple[CommunicationGrid, Front]], path: Path) -> None:
    """Steps and cost in parts of their bounds, so that one picture holds all cases."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.2))
    for grid, front in fronts:
        steps = [number / grid.step_bound for number, _, _ in front]
        cost = [total / grid.cost_bound for _, total, _ in front]
        label = f"{grid.P} → {grid.Q}, blocks {grid.r} → {grid.s}"
        (line,) = axes.step(steps, cost, where="post", marker="o", label=label)
        greedy = build("greedy", grid)
        axes.plot(
            greedy.number_of_steps / grid.step_bound, greedy.total_cost / grid.cost_bound, "x", color=line.get_color()
        )
    axes.set_xlabel("steps / fewest steps")
    axes.set_ylabel("cost / level-set bound")
    axes.legend(title="front (dots), greedy (crosses)", fontsize=8, title_fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Print the fronts, and draw them where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=5.0, help="seconds for each number of steps")
    parser.add_argument("--plot", type=Path, help="where to save the picture")
    options = parser.parse_args()
    grids = [CommunicationGrid(*case) for case in CASES]
    fronts = [(grid, front_of(grid, options.time_limit)) for grid in grids]
    print("| P -> Q, r -> s | steps, cost | fewest steps | bound of the cost |\n" + "|---" * 4 + "|")
    for grid, front in fronts:
        pairs = "; ".join(f"{steps}, {cost}{'' if 'best' not in known else ' (open)'}" for steps, cost, known in front)
        print(f"| {grid.P} -> {grid.Q}, {grid.r} -> {grid.s} | {pairs} | {grid.step_bound} | {grid.cost_bound} |")
    if options.plot:
        plotted(fronts, options.plot)


if __name__ == "__main__":
    main()
