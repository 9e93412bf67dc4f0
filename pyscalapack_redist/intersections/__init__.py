"""Which elements a process of one block-cyclic axis shares with each process of another.

All algorithms answer the same question, in the same form; they differ in how much they look at. Plans are made by the
compiled form of `aspen`, or by families of its runs; the others are what it is measured against. See docs/intersections.md.
"""

from __future__ import annotations

from ..errors import DescriptorError, unknown
from ..layout.axis import BlockCyclic
from .algorithms import ASPEN, CLASSICAL, FALLS, FORMS, SCAN, Algorithm, Intersections

__all__ = ["ALGORITHMS", "FORMS", "Intersections", "find"]

ALGORITHMS: dict[str, Algorithm] = {algorithm.name: algorithm for algorithm in (CLASSICAL, FALLS, SCAN, ASPEN)}
"""Every algorithm, by name."""


def find(algorithm: str, a: BlockCyclic, b: BlockCyclic, p: int, *, form: str = "compiled") -> Intersections:
    """All that process coordinate `p` of axis `a` shares with every coordinate of axis `b`. Not collective.

    Parameters
    ----------
    algorithm : {"classical", "falls", "scan", "aspen"}
        How the runs are found: Algorithms 2 and 3 of the ASPEN paper, what ScaLAPACK does, and Algorithm 4.
    a, b : BlockCyclic
        Two distributions of the same number of elements.
    p : int
        Process coordinate along `a`, 0 <= p < a.processes.
    form : {"compiled", "python"}
        The loop in compiled code, or the same in Python.

    Returns
    -------
    Intersections
        The same runs from every algorithm, in ascending order of the global index. The classical one does not know of
        periods: it lists the runs of the whole array, as one period.

    Raises
    ------
    ScheduleError
        The algorithm or the form is unknown; lists those that there are, the nearest first.
    DescriptorError
        The axes differ in their number of elements.
    IndexError
        There is no process `p`.
    """
    if algorithm not in ALGORITHMS:
        raise unknown("algorithm", algorithm, ALGORITHMS)
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    for name, axis in (("a", a), ("b", b)):
        if not isinstance(axis, BlockCyclic):
            raise DescriptorError(
                f"{name} = {axis!r}: the algorithms are for two block-cyclic axes; schedules.between(a, b) tells what the "
                "processes of any two share, and redistribute moves it"
            )
    if a.n != b.n:
        raise DescriptorError(
            f"a.n = {a.n} and b.n = {b.n} must be equal: they are two distributions of the same elements"
        )
    return ALGORITHMS[algorithm].find(a, b, p, form)
