"""What ScaLAPACK's redistribution does for each pair of processes: walk both lists of intervals side by side.

Source: `scan_intervals` in the library's REDIST/SRC/pgemraux.c, after Prylli and Tourancheau, Fast runtime block cyclic
data redistribution on multiprocessors (J. Parallel Distrib. Comput. 45, 1997). The library walks the whole array, and
does so again for each process of the other grid; here it is one period.
"""

from __future__ import annotations

from ..layout.blockcyclic import BlockCyclic
from .algorithm import Algorithm, Run
from .intervals import intervals_of

__all__ = ["SCAN", "scan"]


def scan(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and the steps of the walks. Not collective."""
    found: list[Run] = []
    comparisons = 0
    own = list(intervals_of(a, p, window).cut())
    for remote in range(b.processes):
        others = list(intervals_of(b, remote, window).cut())
        j = k = 0
        while j < len(own) and k < len(others):
            comparisons += 1
            begin, end, shift = own[j]
            other_begin, other_end, other_shift = others[k]
            left = begin if begin > other_begin else other_begin
            right = end if end < other_end else other_end
            if left < right:
                found.append((remote, left + shift, left + other_shift, right - left))
            j += end <= other_end
            k += other_end <= end
    return found, comparisons


SCAN = Algorithm("scan", scan)
