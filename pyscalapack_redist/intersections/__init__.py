"""Intersections: the elements that a process of one block-cyclic axis shares with each process of another.

All algorithms give the same runs; they differ in the number of blocks that they compare. Plans use the compiled form of
`aspen`, or families of its runs; the other algorithms are for comparison. See docs/intersections.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .algorithms import ALGORITHMS, FORMS, Intersections, find

__all__ = ["ALGORITHMS", "FORMS", "Intersections", "find"]

__getattr__ = lazily(globals(), dict.fromkeys(__all__, "algorithms"))
