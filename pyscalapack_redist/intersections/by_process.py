"""What one process shares with each process of another axis, as compactly as can be: how plans are made.

The runs are `aspen`'s. Where one layout's blocks are much larger than the other's (cyclic and one block per process, say) a
period has as many runs as elements; but then runs come in families of equal runs at equal distances, and the array is
mostly shorter than a period, so that a family can stand for a period of its own.
"""

from __future__ import annotations

from .._kernels.by_process import Shared, shared
from ..layout.blockcyclic import LARGEST, BlockCyclic

__all__ = ["Shared", "by_process"]


def by_process(a: BlockCyclic, b: BlockCyclic, p: int) -> list[Shared]:
    """What process `p` of `a` shares with each process of `b` that it shares anything with, ascending. Not collective.

    Work and memory follow the own runs in one period; in an array no longer than that, the families of own runs.
    """
    return shared(a, b, p, LARGEST)
