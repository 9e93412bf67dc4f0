"""Panels of blocks as an inline SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from .colours import colour_of, ink_on
from .panels import Panel, arranged, is_wide

__all__ = ["panels_as_svg"]

SIDE = 220.0  # of the longer side of a panel, in pixels
SMALL_SIDE = 120.0  # where there are several
STRIP = 28.0  # the height of an array of one dimension
GAP, LINE = 14.0, 14.0
LEAST_TEXT, MOST_TEXT = 6.0, 12.0


def panels_as_svg(panels: Sequence[Panel]) -> str:
    """A picture of the panels, the ranks' numbers in the blocks that have room for them. Not collective."""
    side = SIDE if len(panels) == 1 else SMALL_SIDE
    sizes = [_size(panel, side) for panel in panels]
    width, height = max(size[0] for size in sizes), max(size[1] for size in sizes) + (LINE if len(panels) > 1 else 0)
    down, across = arranged(len(panels))
    parts = []
    for k, (panel, size) in enumerate(zip(panels, sizes, strict=True)):
        x, y = (k % across) * (width + GAP), (k // across) * (height + GAP)
        parts.append(f'<g transform="translate({x:g},{y:g})">{"".join(_panel(panel, size, len(panels) > 1))}</g>')
    whole = across * (width + GAP) - GAP, down * (height + GAP) - GAP
    last = panels[-1].left_out
    words = "blocks in the colours of their ranks"
    more = f"<div style='font-size:small'>and {last:,} more</div>" if last else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{words}" width="{whole[0]:.0f}" '
        f'height="{whole[1]:.0f}" viewBox="-1 -1 {whole[0] + 2:.0f} {whole[1] + 2:.0f}" font-family="sans-serif">'
        f"{''.join(parts)}</svg>{more}"
    )


def _size(panel: Panel, side: float) -> tuple[float, float]:
    height, width = max(1, int(panel.rows[-1])), max(1, int(panel.columns[-1]))
    if len(panel.rows) == 2 and panel.rows[-1] == 1:
        return side, STRIP
    if is_wide(panel):
        return (side, side / 2) if width > height else (side / 2, side)
    return side * width / max(width, height), side * height / max(width, height)


def _panel(panel: Panel, size: tuple[float, float], titled: bool) -> Iterator[str]:
    top = 0.0
    if titled:
        yield f'<text x="0" y="10" font-size="10" fill="currentColor">{escape(panel.title)}</text>'
        top = LINE
    x, y = _places(panel.columns, size[0]), _places(panel.rows, size[1])
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


def _places(edges: NDArray[np.int64], length: float) -> list[float]:
    places: list[float] = (edges * (length / max(1, int(edges[-1])))).tolist()
    return places
