"""Pictures of the sweeps: time over N in one run, and time over processes in several, as Birkeland & Sorevik's Fig 3.

    PYTHONPATH=benchmarks python -m papers.birkeland_figure --plot FIG3.png RUN.json [RUN.json ...]

joins what `bench --suite birkeland --json RUN.json` wrote on different numbers of ranks, fits one model to all of it, and
prints both. Needs no MPI.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyscalapack_redist.tools.bench.results import CaseResult, Results
from pyscalapack_redist.tools.text import counted, time_text

from .birkeland import OURS, RIVALS, by_grid, cores_of, load, model_of, speedups
from .birkeland_sweep import grid_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["main", "plot_processes", "plot_sizes"]

MARKERS = "osD^vP*X<>"


def plot_sizes(results: Results, path: str) -> None:
    """Time over N on each grid with the fitted model, and the rivals' times as multiples of ours. Not collective.

    Raises
    ------
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5), layout="constrained")
    times, ratios = figure.subplots(1, 2)
    model = model_of([results])
    cores = cores_of(results)
    for k, (grid, cases) in enumerate(by_grid(results).items()):
        name = "x".join(map(str, grid))
        _line(
            times,
            [result.case.shape[0] for result in cases],
            [_least(result, OURS) for result in cases],
            k,
            f"{name} processes",
        )
        if model is not None:
            said = [model.seconds(load(result.case, cores)) or None for result in cases]
            _line(times, [result.case.shape[0] for result in cases], said, k, f"{name}, model", "--")
        for rival, style in zip(RIVALS, ("-", "--", ":"), strict=True):
            found = [(result.method(rival), result.method(OURS)) for result in cases]
            share = [theirs.median / ours.median if theirs and ours else None for theirs, ours in found]
            _line(ratios, [result.case.shape[0] for result in cases], share, k, f"{rival}, {name}", style)
    times.set_title("least time of the redistributions: 3 in one dimension, 5 in two", fontsize=10)
    _seconds(times)
    ratios.axhline(1.0, color="black", linewidth=0.8)
    ratios.set_title("median time as a multiple of ours", fontsize=10)
    ratios.set_ylim(0, None)
    for axes in (times, ratios):
        axes.set_xlabel("N of an N x N x N array of float64")
        axes.grid(alpha=0.35)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=8)
    figure.suptitle(f"{_where(results)}{_said(model)}", fontsize=10)
    figure.savefig(path, dpi=150)


def plot_processes(runs: Sequence[Results], path: str) -> None:
    """Time over processes for each N: one dimension on the left, two on the right (Fig 3), the model dashed.

    Not collective.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    model = model_of(runs)
    cores = {result.case: cores_of(run) for run in runs for result in run.cases}
    cases = [result for run in runs for result in run.cases]
    for dims, axes in zip((1, 2), panels, strict=True):
        mine = [result for result in cases if len(grid_of(result.case)) == dims]
        for k, n in enumerate(sorted({result.case.shape[0] for result in mine})):
            some = sorted(
                (result for result in mine if result.case.shape[0] == n), key=lambda result: result.case.ranks
            )
            ranks = [result.case.ranks for result in some]
            _line(axes, ranks, [_least(result, OURS) for result in some], k, f"N = {n}")
            if model is not None:
                said = [model.seconds(load(result.case, cores[result.case])) or None for result in some]
                _line(axes, ranks, said, k, "", "--")
        every = sorted({result.case.ranks for result in mine})
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(every))
        axes.xaxis.set_major_formatter(FixedFormatter([str(count) for count in every]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("processes")
        axes.set_title(f"grid of {dims} dimension{'s' * (dims > 1)}: {2 * dims + 1} redistributions", fontsize=10)
        axes.grid(alpha=0.35)
        _seconds(axes)
    panels[1].set_ylabel("")
    panels[1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    environment = runs[0].environment
    figure.suptitle(f"{counted(environment['cores'], 'core')}, {environment['mpi']}{_said(model)}", fontsize=10)
    figure.savefig(path, dpi=150)


def _line(axes: Axes, at: Sequence[int], values: Sequence[float | None], k: int, name: str, style: str = "-") -> None:
    known = [(x, y) for x, y in zip(at, values, strict=True) if y is not None]
    if known:
        marker: Any = MARKERS[k % len(MARKERS)] if style == "-" else None
        axes.plot(*zip(*known, strict=True), style, color=f"C{k}", marker=marker, markersize=4, label=name or None)


def _least(result: CaseResult, name: str) -> float | None:
    found = result.method(name)
    return None if found is None else found.least


def _seconds(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("least time")


def _said(model: Any) -> str:
    if model is None:
        return ""
    return f"; dashed: the model, t_s = {time_text(model.startup)}, t_w = {1e9 * model.per_byte:.3g} ns a byte"


def _where(results: Results) -> str:
    environment = results.environment
    return f"{counted(environment['ranks'], 'rank')} on {counted(environment['cores'], 'core')}, {environment['mpi']}"


def main(arguments: Sequence[str]) -> int:
    """Join runs, print the times and the model, and draw them. Not collective."""
    parser = argparse.ArgumentParser(prog="birkeland_figure", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN.json", help="what bench --suite birkeland --json wrote")
    parser.add_argument("--plot", metavar="FIG3.png", help="the picture")
    options = parser.parse_args(arguments)
    runs = []
    for path in options.runs:
        try:
            with open(path) as file:
                runs.append(Results.from_json(file.read()))
        except (OSError, ValueError) as error:
            parser.error(f"{path}: it must be what bench --suite birkeland --json wrote: {error}")
    cases = [result for run in runs for result in run.cases]
    model = model_of(runs)
    rows = sorted(((result, cores_of(run)) for run in runs for result in run.cases), key=lambda row: _order(row[0]))
    for result, cores in rows:
        time, said = _least(result, OURS), model.seconds(load(result.case, cores)) if model else 0.0
        if time is not None:
            off = f"{time / said:6.2f} of the model's" if said else ""
            print(f"N = {result.case.shape[0]:4}  {result.case.before!s:24} {time_text(time):>9} {off}")
    if model is not None:
        print(f"t_s = {time_text(model.startup)}, t_w = {1e9 * model.per_byte:.3g} ns a byte: --model {model}")
    for rival in RIVALS:
        shares = speedups(cases, rival)
        if shares:
            mean = math.exp(sum(map(math.log, shares)) / len(shares))
            print(
                f"times as fast as {rival}: {mean:.2f} in geometric mean, {min(shares):.2f} at least, "
                f"{counted(len(shares), 'case')}"
            )
    if options.plot:
        plot_processes(runs, options.plot)
    return 0


def _order(result: CaseResult) -> tuple[object, ...]:
    return (result.case.shape, result.case.ranks, -max(result.case.before.grid))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
