"""A picture of many cases: a row for each, its methods as dots at their multiples of memcpy's time, the best rows first."""

from __future__ import annotations

from statistics import geometric_mean
from typing import TYPE_CHECKING

from .plot import heading, label, plot, short_name
from .results import CaseResult, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_ratios"]

MARKERS = "osD^vP*X"
INCHES_PER_ROW = 0.2


def plot_ratios(results: Results, path: str) -> None:
    """Write the picture to a file; without memcpy's times, that of `plot`. Not collective.

    Raises
    ------
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure

    ratios = [(number, case, _ratios(case)) for number, case in enumerate(results.cases, 1)]
    names = list(dict.fromkeys(name for _, _, found in ratios for name in found))
    if not names:
        plot(results, path)
        return
    ratios.sort(key=lambda row: row[2].get(names[0], float("inf")))
    figure = Figure(figsize=(11, 1.8 + INCHES_PER_ROW * len(ratios)), layout="constrained")
    axes = figure.subplots()
    _set_scales(axes, [f"{label(case)}   case {number}" for number, case, _ in ratios])
    for k, name in enumerate(names):
        points = [(found[name], row) for row, (_, _, found) in enumerate(ratios) if name in found]
        values, rows = zip(*points, strict=True)
        text = f"{short_name(name)}: {geometric_mean(values):.2f} in geometric mean of {len(values)} cases"
        axes.plot(values, rows, MARKERS[k % 8], color=f"C{k}", markersize=5, label=text)
    axes.set_title(heading(results), fontsize=10)
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(path, dpi=150)


def _ratios(case: CaseResult) -> dict[str, float]:
    memcpy = case.method("memcpy")
    others = (one for one in case.methods if one is not memcpy)
    return {} if memcpy is None else {one.name: one.least / memcpy.least for one in others}


def _set_scales(axes: Axes, labels: list[str]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axvline(1.0, color="black", linestyle="--", linewidth=1.2, label="memcpy")
    axes.set_xlabel("minimum time as a multiple of memcpy's")
    axes.grid(alpha=0.35)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
