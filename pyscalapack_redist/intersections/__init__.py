"""Which elements a process of one block-cyclic axis shares with each process of another.

All algorithms answer the same question, in the same form; they differ in how much they look at. Plans are made by the
compiled form of `aspen`, or by families of its runs; the others are what it is measured against. See docs/intersections.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .algorithms import ALGORITHMS, FORMS, Intersections, find

__all__ = ["ALGORITHMS", "FORMS", "Intersections", "find"]

__getattr__ = lazily(globals(), dict.fromkeys(__all__, "algorithms"))
