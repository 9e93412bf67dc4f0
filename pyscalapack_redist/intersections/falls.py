"""FALLS: one period, and for each block and each other process only the blocks that can meet (ASPEN, Algorithm 3, Eq 2).

The printed loop bound max(N, S / S_local) must be the smaller of the two, and the bounds of the inner loop count blocks
from 0 and exclude the last; docs/intersections.md lists what else is amiss.
"""

from __future__ import annotations

from ..layout.blockcyclic import BlockCyclic
from .algorithm import Algorithm, Run
from .intervals import intervals_of

__all__ = ["FALLS", "falls"]


def falls(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and the comparisons. Not collective.

    A comparison is one of two blocks; where no block of a process can meet an own one, finding that out is one.
    """
    found: list[Run] = []
    comparisons = 0
    own = list(intervals_of(a, p, window).cut())
    for remote in range(b.processes):
        others = intervals_of(b, remote, window)
        start, block, stride, count = others.start, others.block, others.stride, others.number
        to_local, to_next = others.local - start, block - stride
        for begin, end, shift in own:
            first = (begin - start - block) // stride + 1
            if first < 0:
                first = 0
            last = -((start - end) // stride)
            if last > count:
                last = count
            comparisons += last - first if last - first > 1 else 1
            for k in range(first, last):
                other = start + k * stride
                left = begin if begin > other else other
                right = end if end < other + block else other + block
                if left < right:
                    found.append((remote, left + shift, left + to_local + k * to_next, right - left))
    return found, comparisons


FALLS = Algorithm("falls", falls)
