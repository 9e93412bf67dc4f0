"""Draw the pictures of the README and of layout-objects.md into a folder: python docs/pictures/draw.py [FOLDER]

Layouts are drawn by the package itself, on paper. The numbers of the bar chart are those of docs/performance.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import pyscalapack_redist as psr

# The table "Random cases" of docs/performance.md: ranks, cases that pdgemr2d can do, times as fast as pdgemr2d.
RANDOM_CASES = {2: (17, 5.34), 4: (3, 5.03), 8: (3, 3.60), 16: (4, 2.60)}


def draw_before_and_after(folder: Path) -> None:
    rows = psr.Descriptor((1000, 1000), None, psr.ProcessGrid((4, 1)))
    square = psr.Descriptor((1000, 1000), (64, 64), psr.ProcessGrid((2, 2)))
    psr.redistribute(rows, square).plot().savefig(folder / "before-and-after.png", dpi=100)


def draw_speed(folder: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
    names = [f"{ranks} ranks ({cases} layouts)" for ranks, (cases, _) in RANDOM_CASES.items()]
    bars = axes.barh(names, [ratio for _, ratio in RANDOM_CASES.values()], color="#4a6fa5")
    axes.bar_label(bars, fmt="%.1f", padding=4)
    axes.axvline(1, color="black", linewidth=1, linestyle="--")
    axes.invert_yaxis()
    axes.set_xlim(0, 6)
    axes.set_xlabel("times as fast as ScaLAPACK's pdgemr2d (dashed line: equally fast)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "speed.png", dpi=120)


def draw_dealing(folder: Path) -> None:
    layouts = {
        "block 2, 3 processes": psr.Descriptor((12,), 2, psr.ProcessGrid((3,))),
        "block None: one block each": psr.Descriptor((12,), None, psr.ProcessGrid((3,))),
        "blocks 2 x 3, grid 2 x 2": psr.Descriptor((12, 12), (2, 3), psr.ProcessGrid((2, 2))),
        "the same, source=(1, 0)": psr.Descriptor((12, 12), (2, 3), psr.ProcessGrid((2, 2)), source=(1, 0)),
    }
    figure, panels = plt.subplots(2, 2, figsize=(8, 5.4), layout="constrained", height_ratios=(1, 4))
    figure.get_layout_engine().set(hspace=0.08)
    for axes, (title, desc) in zip(panels.flat, layouts.items(), strict=True):
        desc.plot(ax=axes)
        axes.set_title(title)
    figure.savefig(folder / "dealing.png", dpi=100)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    for draw in (draw_before_and_after, draw_speed, draw_dealing):
        draw(target)
