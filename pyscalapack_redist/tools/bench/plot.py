"""Pictures of results: cases by methods, as bars or as marks on a row for each case, or lines against what varies."""

from __future__ import annotations

import os
from collections.abc import Callable
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cases import Case
from ..text import counted, log_ticks, ratio_text, time_text
from .results import Column, Results, ratios
from .tables import LIMIT, flag_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Axis", "label", "plot"]

BAR, ROW = 0.24, 0.2  # inches
GAP = 1.2  # between the bars of two cases, in bars
SPREAD = 0.6  # of a row, over which its marks are laid out
MARKERS = "osD^vP*Xh"
# Colours that people tell apart who do not see red and green alike (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")


class Axis(NamedTuple):
    """What varies: its name, its value in a case, and in words what is the same in all cases."""

    name: str
    of: Callable[[Case], int]
    rest: Callable[[Case], str]


def label(case: Case) -> str:
    """A case in few words. Not collective."""
    return f"{case.array},  {case.before} -> {case.after}"


def plot(
    results: Results,
    path: str,
    *,
    axis: Axis | None = None,
    bars: bool = True,
    beside: tuple[str, ...] = ("",),
    name: Callable[[Case], str] = label,
) -> None:
    """Write the picture of minimum times to a file, in the format that its name ends in. Not collective.

    Raises OSError or ValueError where the file cannot be written or there is no such format.

    Parameters
    ----------
    axis : Axis, optional
        What varies: a line for each method against it, shaded up to the medians. By default there is a row for each case.
    bars : bool
        Whether rows have bars with figures, which are for few cases, or marks.
    beside : tuple of str
        For each panel the method whose times the others' are multiples of; "" for plain times. Where the first one is a
        method, the best rows come first.
    name : callable
        From a case to the text of its row.
    """
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    figure.suptitle(_heading(results), fontsize=10)
    if axis is not None:
        figure.set_size_inches(8.5, 5.8)
        panels = [figure.subplots()]
        _lines(panels[0], results, axis)
    else:
        known = tuple(base if len(results.times) > 1 and base in results.times else "" for base in beside)
        beside = tuple(dict.fromkeys(known))
        panels = list(figure.subplots(1, len(beside), sharey=True, squeeze=False)[0])
        height = _rows(panels, results, beside, bars, name)
        figure.set_size_inches(10 if bars else 11, 2.2 + height)
    for axes in panels:
        axes.grid(alpha=0.35, axis="both" if axis else "x")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    if unique:
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


def _short(method: str) -> str:
    """A method's name without the folder of a library."""
    method, equals, path = method.partition("=")
    return method + equals + os.path.basename(path)


def _style(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "markersize": 5}


# -- a row for each case


def _rows(
    panels: list[Axes], results: Results, beside: tuple[str, ...], bars: bool, name: Callable[[Case], str]
) -> float:
    """Draw the cases below each other, in all panels; returns the height in inches."""
    times = results.times
    methods = [method for method in times if method not in ("memcpy", beside[0])]
    first = ratios(times[methods[0]], times[beside[0]]) if beside[0] and methods else {}
    numbers = sorted(
        range(1, len(results.cases) + 1), key=lambda number: first[number].least if number in first else float("inf")
    )
    places: dict[tuple[int, str], float] = {}
    rows, top = {}, 0.0  # a bar's or a row's thickness is 1
    for number in numbers:
        shown = [method for method in methods if number in times[method]]
        for k, method in enumerate(shown):
            places[number, method] = top + (k if bars else SPREAD * ((k + 0.5) / len(shown) - 0.5))
        thickness = max(1, len(shown) * bars)
        rows[number] = top - 0.5, top + thickness - 0.5
        top += thickness + GAP * bars
    for axes, base in zip(panels, beside, strict=True):
        columns = {**times, LIMIT: results.limits()}
        if base:
            columns = {method: ratios(column, times[base]) for method, column in columns.items()}
        for k, method in enumerate(methods):
            column, text = columns[method], _short(method)
            at, values = [places[number, method] for number in column], [pair.least for pair in column.values()]
            if bars:
                axes.barh(at, values, 0.88, color=_style(k)["color"], label=text)
                for number, place, value in zip(column, at, values, strict=True):
                    said = time_text(value)
                    if number in times.get("memcpy", {}):
                        said += f"  ({ratio_text(value / times['memcpy'][number].least)}x)"
                    axes.annotate(said, (value, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
            else:
                if base and values:
                    mean = ratio_text(geometric_mean(values))
                    text += f": {mean} in geometric mean of {counted(len(values), 'case')}"
                axes.plot(values, at, linestyle="none", label=text, **_style(k))
        for text, style in (("memcpy", "--"), (LIMIT, "-")):
            for number, pair in columns.get(text, {}).items():
                axes.plot([pair.least] * 2, rows[number], style, color="black", linewidth=1.4, label=text)
        _value_axis(axes, list(columns.values()), base, bars)
    texts = {number: name(results.cases[number - 1].case) for number in rows}
    told = [text.replace(",  ", "\n") if bars else f"{text}   case {number}" for number, text in texts.items()]
    panels[0].set_yticks([sum(edges) / 2 for edges in rows.values()], told, fontsize=9 if bars else 7)
    panels[0].set_ylim(max(top, 1) - 0.4, -1)
    return top * (BAR if bars else ROW)


def _value_axis(axes: Axes, columns: list[Column], base: str, bars: bool) -> None:
    values = [times.least for column in columns for times in column.values()] or [1e-3, 1.0]
    low, high = min(values), max(values)
    axes.set_xscale("log")
    axes.set_xlim(low / (2.5 if bars else 1.1), high * (max(2.0, (high / low) ** 0.2) if bars else 1.1))
    log_ticks(axes.xaxis, ratio_text if base else time_text)
    text = f"minimum time as a multiple of {base}'s" if base else "minimum time"
    axes.set_xlabel(text + ("; beside each bar, as a multiple of memcpy's" if bars else ""))


# -- a line for each method


def _lines(axes: Axes, results: Results, axis: Axis) -> None:
    at = [axis.of(result.case) for result in results.cases]
    methods = [method for method in results.times if method != "memcpy"]
    for method, column in results.times.items():
        points = sorted((at[number - 1], *times) for number, times in column.items())
        places, least, medians = zip(*points, strict=True)
        style = {"color": "black", "linestyle": "--"} if method == "memcpy" else _style(methods.index(method))
        axes.plot(places, least, linewidth=1.6, label=_short(method), **style)
        axes.fill_between(places, least, medians, color=style["color"], alpha=0.15, linewidth=0)
    axes.set_title(axis.rest(results.cases[0].case), fontsize=10)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted({*at}), [str(n) for n in sorted({*at})])
    axes.minorticks_off()
    axes.set_yscale("log")
    log_ticks(axes.yaxis, time_text)
    axes.set_xlabel(axis.name)
    axes.set_ylabel("minimum time; shaded up to the median")
