"""One colour for each rank, the same in every picture."""

from __future__ import annotations

import colorsys

__all__ = ["colour_of", "ink_on"]

GOLDEN = 0.61803398875  # neighbours in number are then far from each other on the circle of hues
TONES = ((0.72, 0.62), (0.55, 0.70), (0.83, 0.55), (0.64, 0.38))  # lightness and saturation, in turn
WHITE, BLACK = "#ffffff", "#1a1a1a"


def colour_of(rank: int) -> str:
    """The colour of a rank, as #rrggbb. Not collective."""
    lightness, saturation = TONES[(rank + rank // 8) % len(TONES)]
    return _hex(colorsys.hls_to_rgb((0.58 + rank * GOLDEN) % 1, lightness, saturation))


def ink_on(colour: str) -> str:
    """Black or white, whichever is read better on a colour #rrggbb. Not collective."""
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return WHITE if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else BLACK


def _hex(parts: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)
