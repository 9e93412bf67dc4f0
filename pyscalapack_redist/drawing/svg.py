"""Pictures of layouts as SVG, and tables as HTML, for notebooks: panels of blocks in the colours of their ranks.

A rank has the same colour in every picture; text has the reader's own colours.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GOLDEN = 0.61803398875  # step of the hue: adjacent ranks have very different hues
TONES = ((0.72, 0.62), (0.55, 0.70), (0.83, 0.55), (0.64, 0.38))  # lightness and saturation, in turn
WHITE, BLACK = "#ffffff", "#1a1a1a"


def colour_of(rank: int) -> str:
    """The colour of a rank, as #rrggbb."""
    lightness, saturation = TONES[(rank + rank // 8) % len(TONES)]
    return _hex(colorsys.hls_to_rgb((0.58 + rank * GOLDEN) % 1, lightness, saturation))


def ink_on(colour: str) -> str:
    """Black or white, whichever is more readable on a colour #rrggbb."""
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return WHITE if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else BLACK


def _hex(parts: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


Ints = NDArray[np.int64]
WIDE = 4.0  # ratio of the sides above which a matrix is not drawn to scale


class DrawnPanel(NamedTuple):
    """A matrix of blocks.

    Attributes
    ----------
    title : str
        The part of the array; "" for the whole.
    rows, columns : ndarray
        Edges of the blocks along each side.
    ranks : ndarray
        Owner of each block.
    left_out : int
        Number of further panels that are not drawn.
    """

    title: str
    rows: Ints
    columns: Ints
    ranks: Ints
    left_out: int = 0


def grid_of_panels(panels: int) -> tuple[int, int]:
    """Number of rows and columns for drawing so many panels."""
    across = math.ceil(math.sqrt(panels))
    return math.ceil(panels / across), across


def is_wide(panel: DrawnPanel) -> bool:
    """Whether one side is so much longer that the panel is not drawn to scale."""
    height, width = (max(1, int(edges[-1])) for edges in (panel.rows, panel.columns))
    return max(height, width) > WIDE * min(height, width)


SIDE = 220.0  # of the longer side of a panel, in pixels
SMALL_SIDE = 120.0  # with several panels
STRIP = 28.0  # the height of an array of one dimension
GAP, LINE = 14.0, 14.0
LEAST_TEXT, MOST_TEXT = 6.0, 12.0


def panels_as_svg(panels: Sequence[DrawnPanel]) -> str:
    """A picture of the panels, the ranks' numbers in the blocks that have room for them."""
    side = SIDE if len(panels) == 1 else SMALL_SIDE
    sizes = [_size(panel, side) for panel in panels]
    width, height = max(size[0] for size in sizes), max(size[1] for size in sizes) + (LINE if len(panels) > 1 else 0)
    down, across = grid_of_panels(len(panels))
    parts = []
    for k, (panel, size) in enumerate(zip(panels, sizes, strict=True)):
        x, y = (k % across) * (width + GAP), (k // across) * (height + GAP)
        parts.append(f'<g transform="translate({x:g},{y:g})">{"".join(_panel(panel, size, len(panels) > 1))}</g>')
    whole = across * (width + GAP) - GAP, down * (height + GAP) - GAP
    last = panels[-1].left_out
    words = "blocks in the colours of their ranks"
    note = f"<div style='font-size:small'>and {last:,} more</div>" if last else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{words}" width="{whole[0]:.0f}" '
        f'height="{whole[1]:.0f}" viewBox="-1 -1 {whole[0] + 2:.0f} {whole[1] + 2:.0f}" font-family="sans-serif">'
        f"{''.join(parts)}</svg>{note}"
    )


def _size(panel: DrawnPanel, side: float) -> tuple[float, float]:
    height, width = max(1, int(panel.rows[-1])), max(1, int(panel.columns[-1]))
    if len(panel.rows) == 2 and panel.rows[-1] == 1:
        return side, STRIP
    if is_wide(panel):
        return (side, side / 2) if width > height else (side / 2, side)
    return side * width / max(width, height), side * height / max(width, height)


def _panel(panel: DrawnPanel, size: tuple[float, float], titled: bool) -> Iterator[str]:
    top = 0.0
    if titled:
        yield f'<text x="0" y="10" font-size="10" fill="currentColor">{escape(panel.title)}</text>'
        top = LINE
    x, y = _positions(panel.columns, size[0]), _positions(panel.rows, size[1])
    if not panel.ranks.size:
        yield f'<text x="0" y="{top + 12:g}" font-size="10" fill="currentColor">no elements</text>'
    for (i, j), rank in np.ndenumerate(panel.ranks):
        left, up, wide, high = x[j], top + y[i], x[j + 1] - x[j], y[i + 1] - y[i]
        fill = colour_of(int(rank))
        yield (
            f'<rect x="{left:.4g}" y="{up:.4g}" width="{wide:.4g}" height="{high:.4g}" fill="{fill}" stroke="#fff" '
            f'stroke-width=".5"><title>rank {rank}</title></rect>'
        )
        text = min(MOST_TEXT, 0.7 * high, 1.5 * wide / len(str(rank)))
        if text >= LEAST_TEXT:
            yield (
                f'<text x="{left + wide / 2:.4g}" y="{up + high / 2 + 0.35 * text:.4g}" font-size="{text:.3g}" '
                f'text-anchor="middle" fill="{ink_on(fill)}">{rank}</text>'
            )


def _positions(edges: NDArray[np.int64], length: float) -> list[float]:
    positions: list[float] = (edges * (length / max(1, int(edges[-1])))).tolist()
    return positions


HEAD = "text-align:left;vertical-align:top;font-weight:600;padding:2px 12px 2px 0;white-space:nowrap"
CELL = "text-align:left;vertical-align:top;padding:2px 8px 2px 0"


def table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values below a title."""
    lines = "".join(
        f'<tr><th scope="row" style="{HEAD}">{escape(name)}</th><td style="{CELL}">{escape(value)}</td></tr>'
        for name, value in rows
    )
    caption = f'<caption style="text-align:left;font-weight:600;padding:2px 0">{escape(title)}</caption>'
    return f'<table style="border-collapse:collapse;margin:0">{caption}<tbody>{lines}</tbody></table>'


def beside(*parts: str) -> str:
    """Parts side by side, if there is room."""
    inner = "".join(f"<div>{part}</div>" for part in parts)
    return f'<div style="display:flex;flex-wrap:wrap;gap:24px;align-items:flex-start">{inner}</div>'


def picture(svg: str, title: str = "", note: str = "") -> str:
    """A picture below its title, with a note below it."""
    above, below = (f'<div style="font-size:small">{escape(words)}</div>' if words else "" for words in (title, note))
    return above + svg + below
