"""Which elements a process of one block-cyclic axis shares with each process of another.

All algorithms answer the same question, in the same form; they differ in how much they look at.
"""

from __future__ import annotations

from ..blockcyclic import BlockCyclic
from ..errors import ScheduleError
from .aspen import find_aspen
from .intersections import Intersections

__all__ = ["ALGORITHMS", "Intersections", "find"]

ALGORITHMS = {"aspen": find_aspen}


def find(algorithm: str, a: BlockCyclic, b: BlockCyclic, p: int) -> Intersections:
    """All that process coordinate `p` of axis `a` shares with every coordinate of axis `b`. Not collective.

    Parameters
    ----------
    algorithm : str
        A name in `ALGORITHMS`.
    a, b : BlockCyclic
        Two distributions of the same number of elements.
    p : int
        Process coordinate along `a`, 0 <= p < a.processes.

    Raises
    ------
    ScheduleError
        The algorithm is unknown.
    """
    if algorithm not in ALGORITHMS:
        raise ScheduleError(f"algorithm = {algorithm!r} is unknown; there are {', '.join(ALGORITHMS)}")
    return ALGORITHMS[algorithm](a, b, p)
