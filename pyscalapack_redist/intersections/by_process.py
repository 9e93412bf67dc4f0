"""What one process shares with each process of another axis, as compactly as can be: how plans are made.

The runs are `aspen`'s. Where one layout's blocks are much larger than the other's (cyclic and one block per process, say) a
period has as many runs as elements; but then runs come in families of equal runs at equal distances, and the array is
mostly shorter than a period, so that a family can stand for a period of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._runs import families, runs
from ..blockcyclic import LARGEST, BlockCyclic
from .algorithm import numbers
from .intersections import period

__all__ = ["Shared", "by_process"]

Ints = NDArray[np.int64]


class Shared(NamedTuple):
    """What two processes share along one dimension: runs that repeat, up to a number of elements.

    Attributes
    ----------
    remote : int
        The process of b.
    start_a, start_b, length : ndarray of int64
        For each run of one repetition: where it starts in a's and in b's local array, elements; ascending.
    period_a, period_b : int
        What is added to the starts from one repetition to the next.
    total : int
        Elements in all; they may end inside a repetition.
    """

    remote: int
    start_a: Ints
    start_b: Ints
    length: Ints
    period_a: int
    period_b: int
    total: int


def by_process(a: BlockCyclic, b: BlockCyclic, p: int) -> Iterator[Shared]:
    """What process `p` of `a` shares with each process of `b` that it shares anything with. Not collective.

    Work and memory follow the own runs in one period; in an array shorter than that, the families of own runs.
    """
    size, whole = a.local_size(p), period(a, b)
    if not size:
        return
    if whole < a.n:
        columns, _ = runs("aspen", whole, numbers(a), numbers(b), p)
        totals = _totals(columns[3], size, -(-a.n // whole))
        in_families = False
    else:
        columns = families(a.n, numbers(a), numbers(b), p)
        totals = columns[3] * columns[6]
        in_families = bool((columns[6] > 1).any())
        whole = min(whole, LARGEST)  # it comes once
    remotes = columns[0]
    if len(remotes) > 1:
        ordered = remotes.argsort(kind="stable")
        columns, totals = columns.take(ordered, axis=1), totals.take(ordered)
        remotes = columns[0]
        edges = [0, *((remotes[1:] != remotes[:-1]).nonzero()[0] + 1).tolist(), len(remotes)]
    else:
        edges = [0, 1]
    for first, last in itertools.pairwise(edges):
        mine = columns[:, first:last]
        total = int(totals[first] if last - first == 1 else totals[first:last].sum())
        pattern = _one_family(mine) if in_families else None
        if pattern is not None:
            yield Shared(int(remotes[first]), *pattern, total)
        else:
            start_a, start_b, length = _runs_of(mine) if in_families else mine[1:4]
            yield Shared(
                int(remotes[first]), start_a, start_b, length, whole // a.processes, whole // b.processes, total
            )


def _totals(length: Ints, size: int, repeats: int) -> Ints:
    """Elements of each run of a period in the whole array, whose last period may be cut."""
    ends = length.cumsum()
    rest = size - (repeats - 1) * int(ends[-1])
    totals: Ints = (repeats - 1) * length + np.minimum(np.maximum(rest - (ends - length), 0), length)
    return totals


def _runs_of(found: Ints) -> tuple[Ints, Ints, Ints]:
    """Starts and lengths of the runs of some families, one after the other."""
    _, start_a, start_b, length, step_a, step_b, count = found
    if count.max() == 1:
        return start_a, start_b, length
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return (
        np.repeat(start_a, count) + within * np.repeat(step_a, count),
        np.repeat(start_b, count) + within * np.repeat(step_b, count),
        np.repeat(length, count),
    )


def _one_family(found: Ints) -> tuple[Ints, Ints, Ints, int, int] | None:
    """Families that are one whose first and last run may be cut: its runs as a period of their own; None if they are not."""
    if found.shape[1] > 3:
        return None
    rows: list[list[int]] = found[1:].T.tolist()
    main = max(rows, key=lambda row: row[5])
    x, y, length, step_x, step_y, count = main
    at = rows.index(main)
    head, tail = rows[:at], rows[at + 1 :]
    for row in tail:
        if len(tail) > 1 or row[5] > 1 or row[2] > length or row[:2] != [x + count * step_x, y + count * step_y]:
            return None
    kept = length
    for row in head:
        kept = row[2]
        skipped = length - kept
        if len(head) > 1 or row[5] > 1 or skipped < 0 or row[:2] != [x - step_x + skipped, y - step_y + skipped]:
            return None
        x, y = x - step_x, y - step_y
    # a cut first run: each period then begins where it does, in the middle of a run
    pieces = [(x + length - kept, y + length - kept, kept), (x + step_x, y + step_y, length - kept)]
    start_a, start_b, lengths = np.array([piece for piece in pieces if piece[2]], dtype=np.int64).T.copy()
    return start_a, start_b, lengths, step_x, step_y
