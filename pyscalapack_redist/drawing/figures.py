"""Pictures by matplotlib, which only the extra `cli` has: panels of blocks, and tables as coloured cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LibraryError
from .svg import DrawnPanel, colour_of, grid_of_panels, ink_on, is_wide

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_TICKS = 12
LINE, MOST_LINED = 0.5, 48  # points of a line between blocks, and blocks up to which there are lines
TITLE_WIDTH = 60  # characters
LEAST_FONT, MOST_FONT = 4.0, 11.0  # points
MOST_NUMBERED = 32  # cells along a side of a heat map with numbers in them
MOST_IN_LEGEND = 64
PREFIXES = "kMGTPE"  # of thousands


def need_matplotlib() -> None:
    """Raise a LibraryError if matplotlib cannot be imported; the text says how to install it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise LibraryError(
            f"pictures need matplotlib, which cannot be imported ({error}): pip install matplotlib"
        ) from None


def new_figure(width: float, height: float) -> Figure:
    """A new figure of `matplotlib.pyplot`; sizes are inches. Raises as `need_matplotlib`."""
    need_matplotlib()
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained")


def draw_panels(ax: Axes | None, panels: Sequence[DrawnPanel], title: str) -> Axes:
    """Draw blocks in the colours of their ranks, on new axes by default."""
    need_matplotlib()
    down, across = grid_of_panels(len(panels))
    if ax is None:
        size = (5.4, 5.6) if len(panels) == 1 else (2.4 * across + 0.6, 2.6 * down + 0.8)
        size = (7.0, 2.2) if len(panels) == 1 and _is_strip(panels[0]) else size
        ax = new_figure(*size).subplots()
    if panels[-1].left_out:
        title += f"\nand {panels[-1].left_out:,} more panels"
    ax.set_title("\n".join(part for line in title.splitlines() for part in wrap(line, TITLE_WIDTH)), fontsize=9)
    if len(panels) == 1:
        _draw_panel(ax, panels[0])
        return ax
    ax.axis("off")
    for k, panel in enumerate(panels):
        x, y = (k % across) / across, 1 - (k // across + 1) / down
        inner = ax.inset_axes((x + 0.02, y + 0.02, 0.94 / across, 0.84 / down))
        _draw_panel(inner, panel)
        inner.set_title(panel.title, fontsize=8, pad=2)
        inner.set_xticks([])
        inner.set_yticks([])
    return ax


def _is_strip(panel: DrawnPanel) -> bool:
    return len(panel.rows) == 2 and panel.rows[-1] == 1


def _draw_panel(axes: Axes, panel: DrawnPanel) -> None:
    from matplotlib.colors import to_rgb

    if not panel.ranks.size:
        axes.text(0.5, 0.5, "no elements", ha="center", va="center", transform=axes.transAxes)
        axes.set_xticks([])
        axes.set_yticks([])
        return
    numbers, positions = np.unique(panel.ranks, return_inverse=True)
    palette = [colour_of(rank) for rank in numbers.tolist()]
    cells = np.array([to_rgb(colour) for colour in palette])[positions.reshape(panel.ranks.shape)]
    line = LINE if max(panel.ranks.shape) <= MOST_LINED else 0.0
    axes.pcolormesh(panel.columns, panel.rows, cells, edgecolors="white" if line else "none", linewidth=line)
    axes.set_xlim(0, panel.columns[-1])
    axes.set_ylim(panel.rows[-1], 0)
    axes.set_aspect("auto" if is_wide(panel) else "equal")
    _ticks(axes, panel)
    if not _number_blocks(axes, panel) and len(numbers) <= MOST_IN_LEGEND:
        _legend(axes, numbers.tolist(), palette)
    axes.tick_params(labelsize=7)


def _ticks(axes: Axes, panel: DrawnPanel) -> None:
    across = MOST_TICKS * 4 // max(4, len(str(int(panel.columns[-1]))) + 2)  # labels are beside one another
    for edges, axis, most in ((panel.columns, axes.xaxis, across), (panel.rows, axes.yaxis, MOST_TICKS)):
        apart, shown = int(edges[-1]) / most, [int(edges[-1])]
        for edge in edges[-2::-1].tolist():
            if shown[-1] - edge >= apart:
                shown.append(edge)
        axis.set_ticks(shown)
    if _is_strip(panel):
        axes.set_yticks([])


def _number_blocks(axes: Axes, panel: DrawnPanel) -> bool:
    """Write the ranks into the blocks; False if the blocks are too small."""
    box = axes.get_window_extent()
    points = 72 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    scale_x, scale_y = box.width * points / panel.columns[-1], box.height * points / panel.rows[-1]
    if not is_wide(panel):
        scale_x = scale_y = min(scale_x, scale_y)
    wide, high = np.diff(panel.columns) * scale_x, np.diff(panel.rows) * scale_y
    digits = len(str(int(panel.ranks.max())))
    fonts = np.minimum(0.75 * high[:, None], 1.4 * wide[None, :] / digits)
    if np.median(fonts) < LEAST_FONT:
        return False
    x, y = ((edges[:-1] + np.diff(edges) / 2).tolist() for edges in (panel.columns, panel.rows))
    size = min(MOST_FONT, float(np.median(fonts)))
    for (i, j), rank in np.ndenumerate(panel.ranks):
        if fonts[i, j] >= LEAST_FONT:
            ink = ink_on(colour_of(int(rank)))
            font = min(size, float(fonts[i, j]))
            axes.text(x[j], y[i], str(rank), ha="center", va="center", fontsize=font, color=ink, clip_on=True)
    return True


def _legend(axes: Axes, numbers: Sequence[int], palette: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=str(rank)) for rank, colour in zip(numbers, palette, strict=True)]
    columns = math.ceil(len(handles) / 16)
    axes.legend(handles=handles, title="rank", fontsize=6, title_fontsize=7, ncols=columns, loc="upper left",
                bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2, frameon=False, handlelength=1.0)  # fmt: skip


def draw_heat(
    axes: Axes, table: NDArray[Any], unit: str, names: tuple[str, str], numbers: Sequence[int] | None = None
) -> None:
    """Draw a table as a heat map, with the numbers in it where it is small.

    Parameters
    ----------
    axes : Axes
        Where to draw.
    table : ndarray
        Numbers of at least 0; 0 is left white.
    unit : str
        Unit of the numbers, for the scale.
    names : (str, str)
        Labels of rows and columns.
    numbers : sequence of int, optional
        Numbers of the rows and of the columns; by default 0, 1, 2, ...
    """
    from matplotlib import colormaps
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    shown = np.ma.masked_equal(table, 0)
    most = max(1.0, float(table.max(initial=0)))
    image = axes.imshow(shown, cmap="viridis_r", vmin=0, vmax=most, interpolation="nearest")
    axes.set_aspect("equal" if max(table.shape) <= 4 * min(table.shape) else "auto")
    axes.figure.colorbar(image, ax=axes, label=unit, shrink=0.8)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if numbers is not None:
            axis.set_major_formatter(FuncFormatter(lambda at, _: _number_at(numbers, at)))
    axes.set_ylabel(names[0])
    axes.set_xlabel(names[1])
    if max(table.shape) <= MOST_NUMBERED:
        colours = colormaps["viridis_r"](table / most)
        number_cells(axes, {(i, j): _short(int(n)) for (i, j), n in np.ndenumerate(table) if n}, colours)


def _short(number: int) -> str:
    """A number of up to 5 digits as it is, a larger one in thousands, millions, ...: 3.75M."""
    if number < 10**5:
        return str(number)
    power = min((len(str(number)) - 1) // 3, len(PREFIXES))
    digits = f"{number / 1000**power:.3g}"
    return f"{digits}{PREFIXES[power - 1]}" if float(digits) < 1000 else f"{number:.1e}"


def _number_at(numbers: Sequence[int], at: float) -> str:
    return str(numbers[int(at)]) if 0 <= at < len(numbers) and at == int(at) else ""


def number_cells(axes: Axes, texts: dict[tuple[int, int], str], colours: NDArray[np.float64]) -> None:
    """Write texts into the cells of an image, in black or white, if the cells have room for them.

    Parameters
    ----------
    axes : Axes
        With the image.
    texts : dict
        By row and column.
    colours : ndarray
        The image's, rows x columns x 3 or 4.
    """
    longest = max(map(len, texts.values()), default=1)
    box, points = axes.get_window_extent(), 72 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    rows, columns = colours.shape[:2]
    side = points * min(box.width / columns, box.height / rows)
    size = min(7.0, 1.2 * side / longest)
    if size < LEAST_FONT:
        return
    for (i, j), text in texts.items():
        dark = float(colours[i, j, :3] @ (0.299, 0.587, 0.114)) < 0.55
        axes.text(j, i, text, ha="center", va="center", fontsize=size, color="white" if dark else "black")
