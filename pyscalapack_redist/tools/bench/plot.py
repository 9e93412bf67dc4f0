"""The picture of results: minimum times of the methods, on a row for each case."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..text import counted, log_ticks, time_text
from .results import LIMIT, Results, count, flag_text, means

__all__ = ["plot"]

ROW, SPREAD = 0.3, 0.6  # inches of a row, and the part of it over which its marks are laid out
MARKERS = "osD^vP*Xh"
# Colours that people tell apart who do not see red and green alike (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
BOUNDS = {"memcpy": "--", LIMIT: "-"}  # lines across the row of a case, that methods are held against


def plot(results: Results, path: str) -> None:
    """Write the picture of minimum times to a file, in the format that its name ends in. Not collective.

    The legend has the geometric means of the times as multiples of memcpy's or, without it, of auto's. Raises OSError or
    ValueError where the file cannot be written or there is no such format.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 2.2 + ROW * len(results.cases)), layout="constrained")
    figure.suptitle(_heading(results), fontsize=10)
    axes = figure.subplots()
    times, rows = results.times, np.arange(1, len(results.cases) + 1)
    base = next((name for name in ("memcpy", "auto") if name in times), None)
    methods = [name for name in times if name not in BOUNDS]
    for number, method in enumerate(methods):
        name, equals, library = method.partition("=")  # without the folder of a library
        label, style = name + equals + os.path.basename(library), _mark(number)
        ratios = times[method] / times[base] if base not in (None, method) else np.empty((0, 2))
        if count(ratios):
            label += f": {means(ratios).split()[0]} x {base} ({counted(count(ratios), 'case')})"
        place = SPREAD * ((number + 0.5) / len(methods) - 0.5)
        axes.plot(times[method][:, 0], rows + place, linestyle="none", label=label, **style)
    for name, line in BOUNDS.items():
        least = (results.limits() if name == LIMIT else results.column(name))[:, 0]
        if np.isfinite(least).any():
            across = [rows - 0.5, rows + 0.5]
            axes.plot([least, least], across, color="black", linestyle=line, linewidth=1.4, label=name)
    cases = [result.case for result in results.cases]
    texts = [f"{case.array}, {case.before} -> {case.after}   case {n}" for n, case in enumerate(cases, 1)]
    axes.set_yticks(rows, texts, fontsize=7)
    axes.set_ylim(len(texts) + 0.6, 0.4)
    axes.set_xscale("log")
    log_ticks(axes.xaxis, time_text)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("minimum time; below, the geometric mean of its multiples", fontsize=9)
    axes.grid(alpha=0.35, axis="x")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        unique = dict(zip(labels, handles, strict=True))
        figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=min(4, len(unique)), fontsize=9)
    figure.savefig(path, dpi=150)


def _mark(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "markersize": 5}


def _heading(results: Results) -> str:
    """Where it ran, in a line."""
    known = results.environment
    rate, words = known.get("link_rate"), f"Redistribution on {counted(known['ranks'], 'rank')}"
    if rate is None:
        return f"{words}, {counted(known['cores'], 'core')}, {known['mpi']}; flag round trip {flag_text(known)}"
    hosts = counted(len(set(known["host_of_rank"])), "host")
    return f"{words}, {hosts}, links of {rate / 1e6:.4g} MB/s each way ({known['link_rate_origin']}); {known['mpi']}"
