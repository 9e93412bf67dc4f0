"""Pictures of the suites that repeat published experiments: time against K, and time against the size of a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscalapack_redist.tools.bench.results import CaseResult, Results
from pyscalapack_redist.tools.text import counted, log_ticks, time_text

from .desprez import PAIRINGS, Example, groups, ratio
from .walker_otto import COLLECTIVES, factor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_factors", "plot_sizes"]

MARKERS = "osD^vP*X"


def plot_factors(results: Results, path: str) -> None:
    """Time against K, a line for each method (Walker & Otto, Fig 11). Not collective.

    Raises
    ------
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.subplots()
    _lines(axes, results.cases, [factor(result.case) for result in results.cases], dotted=COLLECTIVES)
    axes.set_xlabel("K: blocks of 4 become blocks of 4 K")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    case = results.cases[0].case
    axes.set_title(
        f"{case.before.size} processes, {case.shape[0] // case.before.size} integers of 4 bytes each; "
        f"{_where(results)}",
        fontsize=10,
    )
    figure.legend(loc="outside lower center", ncols=4, fontsize=9)
    figure.savefig(path, dpi=150)


def plot_sizes(results: Results, path: str) -> None:
    """Time against vector size, and the optimal schedule's share of the pairings' time (Desprez et al., Figs 2, 3).

    Not collective.

    Raises
    ------
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure

    rows = groups(results)
    figure = Figure(figsize=(12, 0.9 + 3.9 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), 2, squeeze=False)
    for (example, sets, cases), (times, ratios) in zip(rows, panels, strict=True):
        sizes = [case.case.elements for case in cases]
        _lines(times, cases, sizes)
        times.set_title(f"{example}, {sets}", fontsize=10)
        ratios.set_title("median time of optimal/sendrecv as a fraction of that of", fontsize=10)
        for k, name in enumerate(PAIRINGS):
            known = [(size, share) for size, case in zip(sizes, cases, strict=True) if (share := ratio(case, name))]
            if known:
                ratios.plot(*zip(*known, strict=True), color=f"C{k}", marker=MARKERS[k], label=name)
            _expectations(ratios, example, name.split("/")[0], f"C{k}")
        ratios.axhline(1.0, color="black", linewidth=0.8)
        ratios.set_ylim(0, max(1.2, ratios.get_ylim()[1]))
        for axes in (times, ratios):
            axes.set_xscale("log")
            axes.set_xlabel("doubles in the vector")
        ratios.set_xlim(times.get_xlim())
        times.legend(fontsize=8)
        ratios.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle(_where(results), fontsize=10)
    figure.savefig(path, dpi=150)


def _expectations(axes: Axes, example: Example, pairing: str, colour: str) -> None:
    """What the optimal schedule's share of a pairing's time should be: for short vectors by steps, for long ones by cost."""
    steps, cost = example.expected(pairing)
    if steps == cost:
        axes.axhline(steps, color=colour, linestyle="--", label=f"{pairing}, in theory: {steps:.2f}")
        return
    axes.axhline(steps, color=colour, linestyle=":", label=f"{pairing}, in theory by steps: {steps:.2f}")
    axes.axhline(cost, color=colour, linestyle="--", label=f"{pairing}, in theory by cost: {cost:.2f}")


def _lines(
    axes: Axes, cases: tuple[CaseResult, ...] | list[CaseResult], at: list[int], dotted: tuple[str, ...] = ()
) -> None:
    """Median times of each method."""
    names = list(dict.fromkeys(method.name for case in cases for method in case.methods))
    for k, name in enumerate(names):
        points = [(x, found.median) for x, case in zip(at, cases, strict=True) if (found := case.method(name))]
        style = ":" if name in dotted else "-"
        axes.plot(*zip(*points, strict=True), style, marker=MARKERS[k % len(MARKERS)], markersize=4, label=name)
    axes.set_yscale("log")
    log_ticks(axes.yaxis, time_text)
    axes.set_ylabel("median time")
    axes.grid(alpha=0.35)


def _where(results: Results) -> str:
    environment = results.environment
    return f"{counted(environment['ranks'], 'rank')} on {counted(environment['cores'], 'core')}, {environment['mpi']}"
