"""A picture of redistribution between hosts: each case's times over the links' limit, and beside those of `auto`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .hosts import short_label
from .plot import short_name, tell_times
from .report import LIMIT
from .results import CaseResult, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_hosts"]


class Style(NamedTuple):
    """How methods are drawn: a colour for each way of moving, a marker for each order."""

    colour: str
    marker: str
    size: float = 6.0


# Colours that people tell apart who do not see red and green alike (Okabe and Ito).
WAYS = {
    "sendrecv": "#D55E00",
    "windowed": "#0072B2",
    "nonblocking": "#009E73",
    "alltoallv": "#009E73",
    "alltoallw": "#009E73",
}
MARKERS = {"caterpillar": "D", "ring": "v", "stepwise": "^", "optimal": "s"}
AT_ONCE = {"nonblocking": "o", "alltoallv": "P", "alltoallw": "X"}
NAMED = {
    "auto": Style("black", "*", 11.0),
    "mpi-waitall": Style("#CC79A7", "o"),
    "mpi-alltoallv": Style("#CC79A7", "P"),
    "pxgemr2d": Style("#E69F00", "h", 7.0),
    "gather-scatter": Style("#999999", "p"),
}
SPREAD = 0.7  # of a case's width, over which its methods are laid out


def plot_hosts(results: Results, path: str) -> None:
    """Write the picture to a file. Not collective.

    Above, minimum times, and a horizontal mark in each case for what the links allow; below, these times as multiples of
    auto's, where a mark says the same.

    Raises
    ------
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    cases = results.cases
    names = list(dict.fromkeys(one.name for case in cases for one in case.methods))
    figure = Figure(figsize=(3.0 + 0.44 * max(8, len(cases)), 8.6), layout="constrained")
    times, ratios = figure.subplots(2, 1, sharex=True, height_ratios=(1.2, 1))
    for k, name in enumerate(names):
        style = _style(name, k)
        offset = SPREAD * ((k + 0.5) / len(names) - 0.5)
        found = [(x + offset, one, case) for x, case in enumerate(cases) if (one := case.method(name))]
        keywords = {"color": style.colour, "marker": style.marker, "markersize": style.size, "linestyle": "none"}
        keywords |= {"markeredgecolor": "white", "markeredgewidth": 0.4, "zorder": 4 if name == "auto" else 3}
        times.plot([x for x, _, _ in found], [one.least for _, one, _ in found], label=short_name(name), **keywords)
        beside = [(x, one.least / auto.least) for x, one, case in found if (auto := case.method("auto"))]
        ratios.plot([x for x, _ in beside], [ratio for _, ratio in beside], **keywords)
    _mark_limits(times, ratios, cases)
    _divide(times, ratios, cases)
    for axes in (times, ratios):
        axes.set_yscale("log")
        axes.grid(axis="y", which="major", alpha=0.35)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(-0.6, max(len(cases), 1) - 0.4)
    times.set_ylabel("minimum time")
    tell_times(times.yaxis)
    ratios.set_ylabel("minimum time over that of auto")
    ratios.axhline(1.0, color="black", linewidth=0.8)
    ratios.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ratios.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ratios.yaxis.set_minor_formatter(NullFormatter())
    ratios.set_xticks(
        range(len(cases)),
        [short_label(one.case).replace("->", "→") for one in cases],
        rotation=60,
        ha="right",
        rotation_mode="anchor",
        fontsize=8,
    )
    times.set_title(_heading(results), fontsize=10)
    if names:
        handles = [*times.get_legend_handles_labels()[0], Line2D([], [], color="black", linewidth=2.2, label=LIMIT)]
        figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=9)
    figure.savefig(path, dpi=150)


def _style(name: str, number: int) -> Style:
    if name in NAMED:
        return NAMED[name]
    if name.startswith("pxgemr2d"):
        return NAMED["pxgemr2d"]
    order, _, way = name.partition("/")
    way = way.split("/")[0]
    if way not in WAYS:
        return Style(f"C{number % 10}", ".")
    return Style(WAYS[way], AT_ONCE.get(way) or MARKERS.get(order, "o"))


def _mark_limits(times: Axes, ratios: Axes, cases: tuple[CaseResult, ...]) -> None:
    for x, case in enumerate(cases):
        if case.limit is None:
            continue
        ends = (x - 0.46, x + 0.46)
        times.hlines(case.limit.seconds, *ends, color="black", linewidth=2.2, label="")
        auto = case.method("auto")
        if auto is not None:
            ratios.hlines(case.limit.seconds / auto.least, *ends, color="black", linewidth=2.2)


def _divide(times: Axes, ratios: Axes, cases: tuple[CaseResult, ...]) -> None:
    """Shade every second case, so that the eye finds its way down to the label."""
    for x in range(0, len(cases), 2):
        for axes in (times, ratios):
            axes.axvspan(x - 0.5, x + 0.5, color="black", alpha=0.045, linewidth=0)


def _heading(results: Results) -> str:
    environment = results.environment
    hosts = len(set(environment.get("host_of_rank", environment.get("node_of_rank", [0]))))
    rate = environment.get("link_rate")
    links = "" if rate is None else f", links of {rate / 1e6:.4g} MB/s each way ({environment['link_rate_origin']})"
    return (
        f"Redistribution on {environment['ranks']} ranks, {hosts} host{'s' * (hosts != 1)}{links}; {environment['mpi']}"
    )
