"""A picture of the results: bars for each case and method on a logarithmic axis, with memcpy's time as a line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .figures import ratio_text, time_text
from .report import flag_text
from .results import CaseResult, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["heading", "label", "plot", "short_name", "tell_times"]

BAR, GAP = 1.0, 1.2  # heights, in units of one bar
INCHES_PER_BAR = 0.24
MANY_DECADES = 1000


def plot(results: Results, path: str) -> None:
    """Write the picture to a file, in the format that its name ends in. Not collective.

    Raises
    ------
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(m.name for case in results.cases for m in case.methods if m.name != "memcpy"))
    bars = sum(len(_shown(case)) + GAP for case in results.cases)
    figure = Figure(figsize=(10, 1.9 + INCHES_PER_BAR * bars), layout="constrained")
    axes = figure.subplots()
    position, places = 0.0, []
    for case in results.cases:
        height = _draw(axes, case, position, names)
        places.append(position + (height - BAR) / 2)
        position += height + GAP
    axes.set_yticks(places, [label(case, "\n") for case in results.cases], fontsize=9)
    axes.set_xscale("log")
    axes.invert_yaxis()
    _set_limits(axes, results)
    axes.set_xlabel("minimum time; beside each bar, as a multiple of memcpy's")
    axes.grid(axis="x", which="major", alpha=0.35)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(heading(results), fontsize=10)
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=min(4, len(unique)), fontsize=9)
    figure.savefig(path, dpi=150)


def _shown(case: CaseResult) -> list[str]:
    return [one.name for one in case.methods if one.name != "memcpy"]


def heading(results: Results) -> str:
    """Where it ran, in a line. Not collective."""
    environment = results.environment
    return (
        f"Redistribution on {environment['ranks']} ranks, {environment['cores']} cores, {environment['mpi']}; "
        f"flag round trip {flag_text(environment)}"
    )


def short_name(name: str) -> str:
    """A method's name without the folder of a library. Not collective."""
    method, equals, path = name.partition("=")
    return method + equals + os.path.basename(path)


def _draw(axes: Axes, case: CaseResult, top: float, names: list[str]) -> float:
    """Draw a case from `top` down; returns its height."""
    memcpy = case.method("memcpy")
    shown = _shown(case)
    for k, name in enumerate(shown):
        one = case.method(name)
        assert one is not None
        axes.barh(top + k, one.least, BAR * 0.88, color=f"C{names.index(name) % 10}", label=short_name(name))
        text = time_text(one.least) + (f"  ({ratio_text(one.least / memcpy.least)}x)" if memcpy else "")
        axes.annotate(text, (one.least, top + k), (4, 0), textcoords="offset points", va="center", fontsize=8)
    height = max(1, len(shown)) * BAR
    if memcpy:
        edges = (top - 0.6 * BAR, top + height - 0.4 * BAR)
        axes.plot([memcpy.least] * 2, edges, color="black", linestyle="--", linewidth=1.4, label="memcpy")
    return height


def _set_limits(axes: Axes, results: Results) -> None:
    times = [one.least for case in results.cases for one in case.methods]
    low, high = (min(times), max(times)) if times else (1e-3, 1.0)
    axes.set_xlim(low / 2.5, high * max(2.0, (high / low) ** 0.2))
    tell_times(axes.xaxis)


def tell_times(axis: Axis) -> None:
    """Have a logarithmic axis tell times in words, at 1, 2 and 5 of each decade where there are few. Not collective."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1,) if high > MANY_DECADES * low else (1, 2, 5), numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value).replace(".00", "").replace(".0", "")))
    axis.set_minor_formatter(NullFormatter())


def label(case: CaseResult, between: str = ",  ") -> str:
    """A case in few words. Not collective."""
    one = case.case
    return f"{one.array}{between}{one.before} -> {one.after}"
