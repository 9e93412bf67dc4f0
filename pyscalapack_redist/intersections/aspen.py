"""ASPEN: walk a process's own blocks once, cutting each at the other axis's boundaries (ASPEN, Algorithm 4).

The printed loop bound max(N, S / S_local) must be the smaller of the two; here it is the window min(n, period).
"""

from __future__ import annotations

from .._runs import shared_runs
from ..blockcyclic import BlockCyclic
from .intersections import Intersections, period

__all__ = ["find_aspen"]


def find_aspen(a: BlockCyclic, b: BlockCyclic, p: int) -> Intersections:
    """Runs of process `p` of `a`, in time proportional to their number (ASPEN, Algorithm 4). Not collective."""
    length = period(a, b)
    window = min(a.n, length)
    remote, start_a, start_b, lengths = shared_runs(
        window, a.block, a.processes, a.source, a.offset, b.block, b.processes, b.source, b.offset, p
    )
    return Intersections(
        remote,
        start_a,
        start_b,
        lengths,
        period_a=length // a.processes,
        period_b=length // b.processes,
        repeats=-(-a.n // length),
        size=a.local_size(p),
        comparisons=len(remote),
    )
