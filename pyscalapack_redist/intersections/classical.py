"""The naive way: compare every block of one's own with every block of every other process (ASPEN, Algorithm 2, Eq 1).

It looks at the whole array, since it knows nothing of periods.
"""

from __future__ import annotations

from ..layout.blockcyclic import BlockCyclic
from .algorithm import Algorithm, Run
from .intervals import intervals_of

__all__ = ["CLASSICAL", "classical"]


def classical(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and the blocks compared. Not collective."""
    found: list[Run] = []
    comparisons = 0
    own = list(intervals_of(a, p, window).cut())
    for remote in range(b.processes):
        others = list(intervals_of(b, remote, window).cut())
        comparisons += len(own) * len(others)
        for begin, end, shift in own:
            for other_begin, other_end, other_shift in others:
                left = begin if begin > other_begin else other_begin
                right = end if end < other_end else other_end
                if left < right:
                    found.append((remote, left + shift, left + other_shift, right - left))
    return found, comparisons


CLASSICAL = Algorithm("classical", classical, periodic=False)
