"""Time of the sweeps over processes in several runs, as Birkeland & Sorevik's Fig 3, and one model fitted to all. No MPI.

    PYTHONPATH=benchmarks python -m papers.birkeland_figure --plot FIG3.png RUN.json [RUN.json ...]

joins what `--suite birkeland --json RUN.json` wrote on different numbers of ranks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyscalapack_redist.tools.bench.results import Results
from pyscalapack_redist.tools.text import counted, log_ticks, time_text

from .birkeland import OURS, cores_of, load, model_of
from .birkeland_sweep import grid_of

__all__ = ["main"]


def plot_processes(runs: Sequence[Results], path: str) -> None:
    """Time over processes for each N: one dimension on the left, two on the right, the model dashed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    model = model_of(runs)
    rows = [(result, cores_of(run)) for run in runs for result in run.cases if result.method(OURS)]
    for dims, axes in zip((1, 2), panels, strict=True):
        points: dict[int, list[tuple[int, float, float | None]]] = {}
        for result, cores in rows:
            if len(grid_of(result.case)) == dims and (found := result.method(OURS)):
                said = model.seconds(load(result.case, cores)) if model else None
                points.setdefault(result.case.shape[0], []).append((result.case.ranks, found.least, said or None))
        for k, n in enumerate(sorted(points)):
            ranks, least, predicted = zip(*sorted(points[n]), strict=True)
            axes.plot(ranks, least, "o-", color=f"C{k}", markersize=4, label=f"N = {n}")
            axes.plot(ranks, predicted, "--", color=f"C{k}")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("processes")
        axes.set_title(f"grid of {dims} dimension{'s' * (dims > 1)}: {2 * dims + 1} redistributions", fontsize=10)
        axes.grid(alpha=0.35)
        log_ticks(axes.yaxis, time_text)
    panels[0].set_ylabel("least time")
    panels[1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    environment = runs[0].environment
    dashed = f"; dashed: the model {model}" if model else ""
    figure.suptitle(f"{counted(environment['cores'], 'core')}, {environment['mpi']}{dashed}", fontsize=10)
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str]) -> int:
    """Join runs, print the model, and draw them."""
    parser = argparse.ArgumentParser(prog="birkeland_figure", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN.json", help="what --suite birkeland --json wrote")
    parser.add_argument("--plot", metavar="FIG3.png", help="the picture")
    options = parser.parse_args(arguments)
    runs = []
    for path in options.runs:
        try:
            with open(path) as file:
                runs.append(Results.from_json(file.read()))
        except (OSError, ValueError) as error:
            parser.error(f"{path}: it must be what --suite birkeland --json wrote: {error}")
    model = model_of(runs)
    if model is not None:
        print(f"t_s = {time_text(model.startup)}, t_w = {1e9 * model.per_byte:.3g} ns a byte: --model {model}")
    if options.plot:
        plot_processes(runs, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
