"""A plan as a picture: the pairs of processes coloured by step, and the length of every message in its step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..drawing.figures import number_cells
from .arguments import UsageError
from .cases import Case
from .text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..schedules import Schedule

__all__ = ["draw"]

MOST_DRAWN = 512
MOST_NUMBERED = 32  # processes on a side of a grid with numbers in its cells
MOST_BARS = 400  # places for messages drawn one by one
CELL = 0.3  # inches
EMPTY = "#f2f2f2"


def draw(case: Case, name: str, parts: Sequence[Schedule], path: str) -> None:
    """Write the picture of an order's steps to a file, in the format that its name ends in. Not collective.

    Raises
    ------
    UsageError
        There are too many processes.
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure

    sides = [(part.grid.P, part.grid.Q) for part in parts] or [(case.before.size, case.after.size)]
    if max(map(max, sides)) > MOST_DRAWN:
        pairs = " and ".join(f"{P} x {Q}" for P, Q in sides)
        raise UsageError(
            f"--plot: the steps of {name} are of {pairs} pairs: at most {MOST_DRAWN} processes on a side can be drawn; omit "
            "--plot, or take fewer processes"
        )
    heights, widths = ([1.3 + CELL * min(max(n, 8), MOST_NUMBERED) for n in side] for side in zip(*sides, strict=True))
    ratios = {"width_ratios": [max(widths), 7.5], "height_ratios": heights}
    figure = Figure(figsize=(max(widths) + 7.5, 0.6 + sum(heights)), layout="constrained")
    for k, (part, (left, right)) in enumerate(
        zip(parts, figure.subplots(len(parts), 2, squeeze=False, gridspec_kw=ratios), strict=True)
    ):
        colours = _colours(part)
        _draw_pairs(left, part, colours, f"dimension {k}: " if len(parts) > 1 else "")
        _draw_steps(right, part, colours)
    figure.suptitle(f"{case.array}, {case.before} -> {case.after}, schedule {name}", fontsize=11)
    figure.savefig(path, dpi=150)


def _colours(schedule: Schedule) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0.05, 0.95, max(1, schedule.number_of_steps)))


def _draw_pairs(axes: Axes, schedule: Schedule, colours: Any, prefix: str) -> None:
    from matplotlib.colors import to_rgba

    P, Q = schedule.grid.P, schedule.grid.Q
    image = np.tile(np.array(to_rgba(EMPTY)), (P, Q, 1))
    cells: dict[tuple[int, int], str] = {}
    for number, step in enumerate(schedule.steps):
        for p, q, _ in np.asarray(step).tolist():
            if (p, q) in cells:
                cells[p, q] = f"{cells[p, q].removesuffix(',..')},.."
            else:
                cells[p, q], image[p, q] = str(number), colours[number]
    axes.imshow(image, aspect="equal" if max(P, Q) <= 4 * min(P, Q) else "auto", interpolation="nearest")
    if max(P, Q) <= MOST_NUMBERED:
        number_cells(axes, cells, image)
        axes.set_xticks(range(Q), map(str, range(Q)), fontsize=7)
        axes.set_yticks(range(P), map(str, range(P)), fontsize=7)
        axes.tick_params(length=0)
    axes.set_xlabel("receiver")
    axes.set_ylabel("sender")
    axes.set_title(f"{prefix}step of each pair, the first where there are several", fontsize=9)


def _draw_steps(axes: Axes, schedule: Schedule, colours: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    costs = schedule.costs.tolist()
    lengths = [np.sort(np.asarray(step).reshape(-1, 3)[:, 2])[::-1] for step in schedule.steps]
    slots = max((length.size for length in lengths), default=1) or 1
    axes.bar(range(len(costs)), costs, 0.88, color=EMPTY, edgecolor="grey", linewidth=0.6)
    if slots * len(lengths) <= MOST_BARS:
        for number, length in enumerate(lengths):
            at = number - 0.42 + 0.84 * (np.arange(length.size) + 0.5) / slots
            axes.bar(at, length, 0.84 / slots * 0.8, color=colours[number])
        what = "each bar a message in its step; the frame is the step's cost"
    else:
        axes.bar(range(len(costs)), [length.mean() if length.size else 0 for length in lengths], 0.88, color=colours)
        what = "coloured: the mean message of each step; grey: the step's cost"
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step")
    axes.set_ylabel("elements")
    axes.spines[["top", "right"]].set_visible(False)
    steps = f"{counted(schedule.number_of_steps, 'step')}, cost {schedule.total_cost}: {schedule.certificate}"
    axes.set_title(f"{steps}\n{what}", fontsize=9)
