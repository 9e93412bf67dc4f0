"""Pictures like the ASPEN paper's Figs 3 and 4: time against the size of both grids, and against that of the remote one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyscalapack_redist.intersections import ALGORITHMS, FORMS
from pyscalapack_redist.tools.text import time_text

from .aspen_results import AspenResult, AspenResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_aspen"]

PAIRS = ("1024x1024 -> 256x256", "256x256 -> 1024x1024", "256x256 -> 30x50", "30x50 -> 654x321")
MARKERS = dict(zip(ALGORITHMS, "sD^o", strict=True))


def plot_aspen(results: AspenResults, path: str) -> None:
    """Write the picture: a column for each pair of block sizes, two rows for each figure. Not collective.

    Raises
    ------
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure

    local = max(result.case.before for result in results.cases)
    pairs = [pair for pair in PAIRS if any(result.case.blocks == pair for result in results.cases)]
    rows = [(figure, form) for figure in (3, 4) for form in FORMS]
    figure = Figure(figsize=(3.6 * len(pairs), 3.1 * len(rows) + 1), layout="constrained")
    panels = figure.subplots(len(rows), len(pairs), squeeze=False, sharey="row", sharex=True)
    for (number, form), line in zip(rows, panels, strict=True):
        for pair, axes in zip(pairs, line, strict=True):
            mine = [result for result in results.cases if result.case.blocks == pair]
            if number == 3:
                mine = [result for result in mine if result.case.before == result.case.after]
                axes.set_xlabel("processes per dimension, both grids")
            else:
                mine = [result for result in mine if result.case.before == local]
                axes.set_xlabel(f"remote processes per dimension, {local} local ones")
            _lines(axes, mine, form)
            axes.set_title(f"{pair}\n{form}", fontsize=9)
        line[0].set_ylabel(f"Fig {number}: least time of all processes")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(ALGORITHMS), fontsize=10)
    where = results.environment
    figure.suptitle(
        f"Intersections of two block-cyclic layouts of {results.cases[0].case.size} x {results.cases[0].case.size} elements\n"
        f"{where['processor'] or where['machine']}, Python {where['python']}",
        fontsize=11,
    )
    figure.savefig(path, dpi=110)


def _lines(axes: Axes, cases: Sequence[AspenResult], form: str) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    cases = sorted(cases, key=lambda result: (result.case.before, result.case.after))
    at = [result.case.after for result in cases]
    for k, name in enumerate(ALGORITHMS):
        times = [result.method(name, form).least for result in cases]
        axes.plot(at, times, color=f"C{k}", marker=MARKERS[name], markersize=4, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator([2**k for k in range(1, 6)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_locator(LogLocator())
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: time_text(value).replace(".00", "").replace(".0", ""))
    )
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelbottom=True)
    axes.grid(alpha=0.35)
