"""The picture of results: minimum times of the methods, on a row for each case or against what varies."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..cases import Case
from ..text import counted, log_ticks, ratio_text, time_text
from .results import LIMIT, Column, Results, count, flag_text, means

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Axis", "plot"]

ROW, SPREAD = 0.3, 0.6  # inches of a row, and the part of it over which its marks are laid out
MARKERS = "osD^vP*Xh"
# Colours that people tell apart who do not see red and green alike (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
BOUNDS = {"memcpy": "--", LIMIT: "-"}  # lines that other methods are held against


class Axis(NamedTuple):
    """What varies: its name, its value in a case, and in words what is the same in all cases."""

    name: str
    of: Callable[[Case], int]
    rest: Callable[[Case], str]


def plot(results: Results, path: str, axis: Axis | None = None) -> None:
    """Write the picture of minimum times to a file, in the format that its name ends in. Not collective.

    With an axis there is a line for each method, shaded up to the medians. Else each case has a row, with the times, and
    with them as multiples of memcpy's or, without it, of auto's. Raises OSError or ValueError where the file cannot be
    written or there is no such format.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 5.8) if axis else (12, 2.2 + ROW * len(results.cases)), layout="constrained")
    figure.suptitle(_heading(results), fontsize=10)
    times = results.times
    base = next((name for name in ("memcpy", "auto") if name in times and len(times) > 1), None)
    panels = list(figure.subplots(1, 1 if axis or base is None else 2, sharey=True, squeeze=False)[0])
    if axis is not None:
        _lines(panels[0], results, axis)
    else:
        columns = {**times, LIMIT: results.limits()}
        _rows(panels[0], columns, None)
        for panel in panels[1:]:
            _rows(panel, {name: column / times[str(base)] for name, column in columns.items()}, base)
        cases = [result.case for result in results.cases]
        texts = [f"{case.array}, {case.before} -> {case.after}   case {n}" for n, case in enumerate(cases, 1)]
        panels[0].set_yticks(range(1, len(texts) + 1), texts, fontsize=7)
        panels[0].set_ylim(len(texts) + 0.6, 0.4)
    for panel in panels:
        panel.grid(alpha=0.35, axis="both" if axis else "x")
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[-1].get_legend_handles_labels()
    if handles:
        unique = dict(zip(labels, handles, strict=True))
        figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=min(4, len(unique)), fontsize=9)
    figure.savefig(path, dpi=150)


def _heading(results: Results) -> str:
    """Where it ran, in a line."""
    known = results.environment
    rate, words = known.get("link_rate"), f"Redistribution on {counted(known['ranks'], 'rank')}"
    if rate is None:
        return f"{words}, {counted(known['cores'], 'core')}, {known['mpi']}; flag round trip {flag_text(known)}"
    hosts = counted(len(set(known["host_of_rank"])), "host")
    return f"{words}, {hosts}, links of {rate / 1e6:.4g} MB/s each way ({known['link_rate_origin']}); {known['mpi']}"


def _styled(columns: dict[str, Column]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Of each method its name without the folder of a library, and how it is drawn."""
    styles: dict[str, tuple[str, dict[str, Any]]] = {}
    for number, method in enumerate(name for name in columns if name not in BOUNDS):
        name, equals, path = method.partition("=")
        style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "markersize": 5}
        styles[method] = name + equals + os.path.basename(path), style
    bounds = {name: (name, {"color": "black", "linestyle": style}) for name, style in BOUNDS.items()}
    return styles | {name: bound for name, bound in bounds.items() if name in columns}


def _rows(axes: Axes, columns: dict[str, Column], base: str | None) -> None:
    """Marks of the methods beside each other on the row of their case, and the bounds across it."""
    methods = [name for name in columns if name not in BOUNDS]
    for method, (text, style) in _styled(columns).items():
        least, rows = columns[method][:, 0], np.arange(1, len(columns[method]) + 1)
        if method in BOUNDS and count(columns[method]):
            axes.plot([least, least], [rows - 0.5, rows + 0.5], linewidth=1.4, label=text, **style)
        elif method not in BOUNDS:
            if base is not None and count(columns[method]):
                text += f": {means(columns[method]).split()[0]} ({counted(count(columns[method]), 'case')})"
            place = SPREAD * ((methods.index(method) + 0.5) / len(methods) - 0.5)
            axes.plot(least, rows + place, linestyle="none", label=text, **style)
    axes.set_xscale("log")
    log_ticks(axes.xaxis, ratio_text if base else time_text)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel(
        f"minimum time as a multiple of {base}'s; below, its geometric mean" if base else "minimum time", fontsize=9
    )


def _lines(axes: Axes, results: Results, axis: Axis) -> None:
    """A line for each method."""
    at = np.array([axis.of(result.case) for result in results.cases])
    columns = results.times
    for method, (text, style) in _styled(columns).items():
        column = columns[method]
        order = [k for k in np.argsort(at) if column[k, 0] > 0]
        axes.plot(at[order], column[order, 0], linewidth=1.6, label=text, **style)
        axes.fill_between(at[order], *column[order].T, color=style["color"], alpha=0.15, linewidth=0)
    axes.set_title(axis.rest(results.cases[0].case), fontsize=10)
    axes.set_xscale("log", base=2)
    axes.set_xticks(np.unique(at), map(str, np.unique(at)))
    axes.minorticks_off()
    axes.set_yscale("log")
    log_ticks(axes.yaxis, time_text)
    axes.set_xlabel(axis.name)
    axes.set_ylabel("minimum time; shaded up to the median")
