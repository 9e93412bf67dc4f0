"""A picture of simulated times: a bar for each method, and the links' limit as a line."""

from __future__ import annotations

from ..text import time_text
from .study import Simulated

__all__ = ["draw"]


def draw(found: Simulated, path: str) -> None:
    """Write the picture to a file, in the format that its name ends in. Not collective.

    Raises
    ------
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    shown = [
        (prediction.name, prediction.seconds) for prediction in found.predictions if prediction.seconds is not None
    ]
    figure = Figure(figsize=(8.5, 1.6 + 0.32 * len(shown)), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(range(len(shown)), [seconds for _, seconds in shown], color="C0")
    axes.bar_label(bars, [time_text(seconds) for _, seconds in shown], padding=3, fontsize=8)
    axes.axvline(found.limit, color="C3", linestyle="--", label=f"the links' limit: {time_text(found.limit)}")
    axes.set_yticks(range(len(shown)), [name for name, _ in shown], fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value) if value else "0"))
    axes.set_xlabel("simulated time")
    axes.set_title(f"{found.case}\n{found.machine}", fontsize=10)
    axes.grid(axis="x", alpha=0.35)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", fontsize=8)
    figure.savefig(path, dpi=150)
