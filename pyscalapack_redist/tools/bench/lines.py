"""A picture of a suite in which one number varies: time against it, a line for each method, with memcpy's for comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .case import Case
from .plot import heading, short_name, tell_times
from .results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Axis", "plot_lines"]

MARKERS = "osD^vP*X"


@dataclass(frozen=True)
class Axis:
    """What varies: its name, its value in a case, and in words what is the same in all cases."""

    name: str
    of: Callable[[Case], int]
    rest: Callable[[Case], str]


def plot_lines(results: Results, path: str, axis: Axis) -> None:
    """Write the picture, both of its axes logarithmic, to a file. Not collective.

    The lines are minimum times; the shaded bands above them reach to the medians.

    Raises
    ------
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 5.8), layout="constrained")
    axes = figure.subplots()
    cases = sorted(results.cases, key=lambda one: axis.of(one.case))
    names = [name for name in dict.fromkeys(one.name for case in cases for one in case.methods) if name != "memcpy"]
    for k, name in enumerate(["memcpy", *names]):
        points = [(axis.of(case.case), one.least, one.median) for case in cases if (one := case.method(name))]
        if not points:
            continue
        at, least, medians = zip(*points, strict=True)
        colour, style, marker = ("black", "--", ",") if name == "memcpy" else (f"C{k - 1}", "-", MARKERS[(k - 1) % 8])
        axes.plot(at, least, style, color=colour, marker=marker, markersize=5, linewidth=1.6, label=short_name(name))
        axes.fill_between(at, least, medians, color=colour, alpha=0.15, linewidth=0)
    _set_scales(axes, sorted({axis.of(one.case) for one in cases}), axis.name)
    axes.set_title(f"{heading(results)}\n{axis.rest(cases[0].case)}", fontsize=10)
    if axes.lines:
        figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(path, dpi=150)


def _set_scales(axes: Axes, at: list[int], name: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(at, [str(n) for n in at])
    axes.minorticks_off()
    axes.set_yscale("log")
    tell_times(axes.yaxis)
    axes.set_xlabel(name)
    axes.set_ylabel("minimum time; shaded up to the median")
    axes.grid(alpha=0.35)
    axes.spines[["top", "right"]].set_visible(False)
