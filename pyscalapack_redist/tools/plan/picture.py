"""A schedule as a picture: the communication grid coloured by step, and the length of every message in its step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...drawing.figures import number_cells
from ..text import counted
from .study import AxisStudy, Study, block_of
from .tables import step_figures, steps_of_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...schedules import Schedule

__all__ = ["MOST_DRAWN", "draw"]

MOST_DRAWN = 512
MOST_NUMBERED = 32  # processes on a side of a grid with numbers in its cells
MOST_BARS = 400  # places for messages drawn one by one
CELL = 0.3  # inches
EMPTY = "#f2f2f2"


def draw(study: Study, path: str) -> None:
    """Write the picture to a file, in the format that its name ends in. Not collective.

    Raises
    ------
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure

    heights = [_inches(axis.grid.P) for axis in study.axes]
    widths = [max(_inches(axis.grid.Q) for axis in study.axes), 7.5]
    figure = Figure(figsize=(sum(widths), 0.6 + sum(heights)), layout="constrained")
    panels = figure.subplots(
        len(study.axes), 2, squeeze=False, gridspec_kw={"width_ratios": widths, "height_ratios": heights}
    )
    for k, (axis, (left, right)) in enumerate(zip(study.axes, panels, strict=True)):
        if axis.schedule is not None:
            _draw_grid(left, axis, axis.schedule, f"dimension {k}: " if len(study.axes) > 1 else "")
            _draw_steps(right, axis, axis.schedule)
    figure.suptitle(_title(study), fontsize=11)
    figure.savefig(path, dpi=150)


def _inches(processes: int) -> float:
    return 1.3 + CELL * min(max(processes, 8), MOST_NUMBERED)


def _title(study: Study) -> str:
    product = study.product(study.name)
    whole = (
        f"; product: {counted(product.steps or 0, 'step')}, cost {product.cost}"
        if product and len(study.axes) > 1
        else ""
    )
    return f"{' x '.join(map(str, study.case.shape))}, {study.case.before} -> {study.case.after}, schedule {study.name}{whole}"


def _colours(schedule: Schedule) -> NDArray[np.float64]:
    from matplotlib import colormaps

    colours: NDArray[np.float64] = colormaps["viridis"](np.linspace(0.05, 0.95, max(1, len(schedule.steps))))
    return colours


def _draw_grid(axes: Axes, axis: AxisStudy, schedule: Schedule, prefix: str) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.ticker import MaxNLocator

    grid, colours = axis.grid, _colours(schedule)
    image = np.tile(np.array(to_rgba(EMPTY)), (grid.P, grid.Q, 1))
    pairs = steps_of_pairs(schedule)
    for (p, q), steps in pairs.items():
        image[p, q] = colours[steps[0]]
    axes.imshow(
        image, aspect="equal" if max(grid.P, grid.Q) <= 4 * min(grid.P, grid.Q) else "auto", interpolation="nearest"
    )
    if max(grid.P, grid.Q) <= MOST_NUMBERED:
        number_cells(axes, {pair: _cell(steps) for pair, steps in pairs.items()}, image)
        axes.set_xticks(range(grid.Q), map(str, range(grid.Q)), fontsize=7)
        axes.set_yticks(range(grid.P), map(str, range(grid.P)), fontsize=7)
        axes.set_xticks(np.arange(grid.Q - 1) + 0.5, minor=True)
        axes.set_yticks(np.arange(grid.P - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=1)
        axes.tick_params(which="both", length=0)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("receiver q")
    axes.set_ylabel("sender p")
    blocks = [block_of(distribution) or "irregular" for distribution in (axis.before, axis.after)]
    axes.set_title(f"{prefix}step of each pair, block size {blocks[0]} -> {blocks[1]}", fontsize=9)


def _cell(steps: list[int]) -> str:
    text = ",".join(map(str, steps))
    return text if len(text) <= 5 else f"{steps[0]},.."


def _draw_steps(axes: Axes, axis: AxisStudy, schedule: Schedule) -> None:
    from matplotlib.ticker import MaxNLocator

    colours = _colours(schedule)
    lengths = [np.sort(np.asarray(step)[:, 2])[::-1] if len(step) else np.zeros(0, np.int64) for step in schedule.steps]
    costs = [step_figures(step)[1] for step in schedule.steps]
    slots = max([length.size for length in lengths], default=1) or 1
    axes.bar(range(len(costs)), costs, 0.88, color=EMPTY, edgecolor="grey", linewidth=0.6)
    if slots * len(lengths) <= MOST_BARS:
        for number, length in enumerate(lengths):
            at = number - 0.42 + 0.84 * (np.arange(length.size) + 0.5) / slots
            axes.bar(at, length, 0.84 / slots * 0.8, color=colours[number])
        what = "each bar a message in its step; the frame is the step's cost"
    else:
        axes.bar(range(len(costs)), [length.mean() if length.size else 0 for length in lengths], 0.88, color=colours)
        what = "coloured: the mean message of each step; grey: the step's cost"
    if len(costs) <= MOST_NUMBERED:
        _label(axes, costs)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=MOST_NUMBERED if len(costs) <= MOST_NUMBERED else 10))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step")
    axes.set_ylabel("elements of a slice" if axis.grid is not axis.whole else "elements")
    axes.set_xlim(-0.7, len(costs) - 0.3)
    axes.set_ylim(0, 1.15 * max([*costs, 1]))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(_summary(axis, schedule, what), fontsize=9)


def _label(axes: Axes, costs: list[int]) -> None:
    for number, cost in enumerate(costs):
        axes.annotate(str(cost) if cost else "empty", (number, cost), (0, 2), textcoords="offset points", ha="center",
                      va="bottom", fontsize=7, rotation=0 if cost else 90)  # fmt: skip


def _summary(axis: AxisStudy, schedule: Schedule, what: str) -> str:
    return (
        f"{counted(schedule.number_of_steps, 'step')} (bound {axis.grid.step_bound}), cost {schedule.total_cost} "
        f"(bound {schedule.lower_bound or axis.grid.cost_bound}): {schedule.certificate}\n{what}"
    )
