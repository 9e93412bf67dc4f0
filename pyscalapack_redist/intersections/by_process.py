"""What one process shares with each process of another axis, as compactly as can be: how plans are made.

The runs are `aspen`'s. Where one layout's blocks are much larger than the other's (cyclic and one block per process, say) a
period has as many runs as elements; but then runs come in families of equal runs at equal distances, and the array is
mostly shorter than a period, so that a family can stand for a period of its own.
"""

from __future__ import annotations

import numpy as np

from .._kernels.by_process import Shared, shared, shared_families
from ..layout.blockcyclic import LARGEST, Axis, BlockCyclic
from .irregular import families_of

__all__ = ["Shared", "by_process"]


def by_process(a: Axis, b: Axis, p: int) -> list[Shared]:
    """What process `p` of `a` shares with each process of `b` that it shares anything with, ascending. Not collective.

    Work and memory follow the own runs in one period; in an array no longer than that, the families of own runs. Where an
    axis is irregular nothing has a period: see `families_of`. Families with one process that are not one are listed run by run.
    """
    if isinstance(a, BlockCyclic) and isinstance(b, BlockCyclic):
        return shared(a, b, p, LARGEST)
    found = families_of(a, b, p)
    return shared_families(np.array(found[:-1]), found.first, a.n)
