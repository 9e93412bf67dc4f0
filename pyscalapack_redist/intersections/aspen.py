"""ASPEN: walk a process's own blocks once, cutting each at the other axis's boundaries (ASPEN, Algorithm 4, Eq 4).

The owner of a block's first element follows by division, those of the rest by counting on, so neither the other processes
nor their blocks are looked at. The printed loop bound max(N, S / S_local) must be the smaller of the two;
docs/intersections.md lists what else is amiss.
"""

from __future__ import annotations

from ..layout.blockcyclic import BlockCyclic
from .algorithm import Algorithm, Run
from .intervals import intervals_of

__all__ = ["ASPEN", "aspen"]


def aspen(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and their number. Not collective."""
    found: list[Run] = []
    block, processes, source, offset = b.block, b.processes, b.source, b.offset
    for begin, end, shift in intervals_of(a, p, window).cut():
        number, within = divmod(begin + offset, block)
        turn, remote = number // processes, (number + source) % processes
        last = number % processes
        while begin < end:
            right = begin + block - within
            if right > end:
                right = end
            found.append((remote, begin + shift, turn * block + within, right - begin))
            begin, within = right, 0
            last, remote = last + 1, remote + 1
            if remote == processes:
                remote = 0
            if last == processes:
                last, turn = 0, turn + 1
    return found, len(found)


ASPEN = Algorithm("aspen", aspen, ascending=True)
