"""What one process shares with each process of another axis, as compactly as can be: how plans are made.

The runs are `aspen`'s. Where one layout's blocks are much larger than the other's (cyclic and one block per process, say) a
period has as many runs as elements; but then runs come in families of equal runs at equal distances, and the array is
mostly shorter than a period, so that a family can stand for a period of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.by_process import Shared, shared, shared_families
from ..layout.blockcyclic import LARGEST, Axis, BlockCyclic
from .irregular import families_of

__all__ = ["Shared", "Slot", "by_process", "in_slot"]


class Slot(NamedTuple):
    """The block at a position of each superblock (Walker & Otto, section 2.1): all i with (i - first) mod period < length."""

    first: int
    length: int
    period: int


def by_process(a: Axis, b: Axis, p: int) -> list[Shared]:
    """What process `p` of `a` shares with each process of `b` that it shares anything with, ascending. Not collective.

    Work and memory follow the own runs in one period; in an array no longer than that, the families of own runs. Where an
    axis is irregular nothing has a period: see `families_of`. Families with one process that are not one are listed run by run.
    """
    if isinstance(a, BlockCyclic) and isinstance(b, BlockCyclic):
        return shared(a, b, p, LARGEST)
    found = families_of(a, b, p)
    return shared_families(np.array(found[:-1]), found.first, a.n)


def in_slot(a: Axis, b: Axis, whole: Shared, p: int, slot: Slot) -> Shared:
    """What process `p` of `a` shares with a process of `b` in a slot that both have the whole of. Not collective.

    Where the array begins or ends inside of a block of the slot, that block is cut; the work does not depend on the array.

    Parameters
    ----------
    a, b : Axis
        Block-cyclic ones.
    whole : Shared
        All that the two share: it names the process of `b`.
    p : int
        The process of `a`.
    slot : Slot
        Of elements of the array, some of which are shared.
    """
    first, length, period = slot
    steps = period // a.processes, period // b.processes
    place = first % period
    runs = []  # first element, length, how often
    if place + length > period:  # cut where the array begins
        runs.append((0, min(a.n, place + length - period), 1))
    blocks = max(0, (a.n - place - length) // period + 1)
    if blocks:
        runs.append((place, length, blocks))
    place += blocks * period
    if place < a.n:  # cut where it ends
        runs.append((place, a.n - place, 1))
    families = [
        (whole.remote, a.local_index(start), b.local_index(start), size, *steps, count) for start, size, count in runs
    ]
    return shared_families(np.array(families).T.copy(), np.array([start for start, *_ in runs]), a.n)[0]
