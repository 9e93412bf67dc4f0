"""Algorithms for the index runs that two block-cyclic axes share: classical, falls, scan and aspen.

Each has a loop in Python and a compiled loop. All give the same result: the runs of one period, and the number of periods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.intersections import runs
from ..errors import DescriptorError, unknown
from ..layout.axis import LARGEST, BlockCyclic

Run = tuple[int, int, int, int]
Loop = Callable[[BlockCyclic, BlockCyclic, int, int], tuple[list[Run], int]]

FORMS = ("compiled", "python")
"""The forms in which each algorithm exists, by name."""
COMPILED, PYTHON = FORMS


def period(a: BlockCyclic, b: BlockCyclic) -> int:
    """Elements after which both axes repeat: lcm(a.stride, b.stride)."""
    return math.lcm(a.stride, b.stride)


@dataclass(frozen=True)
class Intersections:
    """Runs that one process of axis a shares with the processes of axis b, ascending in the global index.

    Attributes
    ----------
    remote, start_a, start_b, length : ndarray of int64
        For each run of one period: the process of b, the start in a's and in b's local array, and the number of elements.
    period_a, period_b : int
        Offset from one period to the next in a's and in b's local array.
    repeats : int
        Number of periods; the end of the array may cut the last one.
    size : int
        Number of elements of the process.
    comparisons : int
        Operations as the ASPEN paper counts them (Eqs 1, 2 and 4), for this process and this dimension: blocks compared by
        `classical` and `falls` (by `falls` at least one for each own block and other process), steps of `scan`, runs of
        `aspen`.
    """

    remote: NDArray[np.int64]
    start_a: NDArray[np.int64]
    start_b: NDArray[np.int64]
    length: NDArray[np.int64]
    period_a: int
    period_b: int
    repeats: int
    size: int
    comparisons: int

    def expand(self) -> NDArray[np.int64]:
        """Every run of the whole array as rows: remote, start in a, start in b, length. Not collective."""
        first = np.stack([self.remote, self.start_a, self.start_b, self.length], axis=1)
        step = np.array([0, self.period_a, self.period_b, 0], dtype=np.int64)
        runs = (first[None] + step * np.arange(self.repeats, dtype=np.int64)[:, None, None]).reshape(-1, 4)
        before = np.concatenate([[0], np.cumsum(runs[:, 3])[:-1]]) if len(runs) else np.zeros(0, np.int64)
        runs[:, 3] = np.minimum(runs[:, 3], self.size - before)
        return runs[runs[:, 3] > 0]


class Intervals(NamedTuple):
    """Intervals start + j * stride <= i < start + j * stride + block, 0 <= j < number, cut to 0 <= i < window.

    These are the blocks of one process among the first elements of an axis; every algorithm loops over them.

    Attributes
    ----------
    start : int
        First element of the first block; negative where the axis begins inside that block.
    local : int
        Local index of that element.
    number, block, stride : int
        Number of blocks, elements in a block, and elements from one block to the next.
    window : int
        Number of elements of the axis that are used.
    """

    start: int
    local: int
    number: int
    block: int
    stride: int
    window: int

    def cut(self) -> Iterator[tuple[int, int, int]]:
        """Begin and end of each interval, and the difference between local and global indices in it."""
        start, shift = self.start, self.local - self.start
        for _ in range(self.number):
            end = start + self.block
            yield start if start > 0 else 0, end if end < self.window else self.window, shift
            start += self.stride
            shift += self.block - self.stride


def intervals_of(axis: BlockCyclic, p: int, window: int) -> Intervals:
    """The blocks of process `p` of an axis among its first `window` elements."""
    block, processes, offset = axis.block, axis.processes, axis.offset
    stride = block * processes
    first = offset // block
    first += (p - axis.source - first) % processes
    start = first * block - offset
    number = -((start - window) // stride) if window and start < window else 0
    return Intervals(start, first // processes * block, number, block, stride, window)


@dataclass(frozen=True)
class Algorithm:
    """An algorithm for the runs.

    Attributes
    ----------
    name : str
        Name, also of the compiled loop.
    loop : callable
        Takes two axes, a process of the first, and the number of elements to use. Returns the runs (remote process, local start
        in a and in b, length), and the number of comparisons.
    periodic : bool
        Whether one period is enough; otherwise the loop goes over the whole array.
    ascending : bool
        Whether the runs are in ascending order of the global index.
    """

    name: str
    loop: Loop
    periodic: bool = True
    ascending: bool = False

    def window(self, a: BlockCyclic, b: BlockCyclic) -> int:
        """Number of elements to use."""
        return min(a.n, period(a, b)) if self.periodic else a.n

    def find(self, a: BlockCyclic, b: BlockCyclic, p: int, form: str = COMPILED) -> Intersections:
        """The runs of process `p` of `a`, by the compiled loop or the one in Python."""
        size, n = a.local_size(p), a.n
        length = period(a, b) if self.periodic else n or 1
        window = length if length < n else n
        if form == COMPILED:
            columns, comparisons = runs(self.name, window, numbers(a), numbers(b), p)
        else:
            rows, comparisons = self.loop(a, b, p, window)
            columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T.copy()
        if not self.ascending:
            columns = columns.take(np.argsort(columns[1]), axis=1)
        remote, start_a, start_b, lengths = columns
        step = length if length < LARGEST else LARGEST  # a longer period is longer than the array, and does not repeat
        return Intersections(
            remote,
            start_a,
            start_b,
            lengths,
            step // a.processes,
            step // b.processes,
            -(-n // length),
            size,
            comparisons,
        )


def numbers(axis: BlockCyclic) -> tuple[int, int, int, int]:
    """The numbers of an axis that the compiled loops take."""
    return axis.block, axis.processes, axis.source, axis.offset


def aspen(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and their number.

    The algorithm goes over the process's own blocks once, and cuts each at the other axis's boundaries (ASPEN, Algorithm 4,
    Eq 4). The owner of a block's first element follows by division, the next owners by counting, so it does not visit the other
    processes or their blocks. The loop bound in print, max(N, S / S_local), must be the smaller of the two;
    docs/intersections.md lists further errata.
    """
    shared: list[Run] = []
    block, processes, source, offset = b.block, b.processes, b.source, b.offset
    for begin, end, shift in intervals_of(a, p, window).cut():
        number, within = divmod(begin + offset, block)
        round_, remote = number // processes, (number + source) % processes
        last = number % processes
        while begin < end:
            right = begin + block - within
            if right > end:
                right = end
            shared.append((remote, begin + shift, round_ * block + within, right - begin))
            begin, within = right, 0
            last, remote = last + 1, remote + 1
            if remote == processes:
                remote = 0
            if last == processes:
                last, round_ = 0, round_ + 1
    return shared, len(shared)


ASPEN = Algorithm("aspen", aspen, ascending=True)


def classical(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and the blocks compared.

    The algorithm compares every own block with every block of every other process (ASPEN, Algorithm 2, Eq 1), in the whole
    array, without periods.
    """
    shared: list[Run] = []
    comparisons = 0
    own = list(intervals_of(a, p, window).cut())
    for remote in range(b.processes):
        others = list(intervals_of(b, remote, window).cut())
        comparisons += len(own) * len(others)
        for begin, end, shift in own:
            for other_begin, other_end, other_shift in others:
                left = begin if begin > other_begin else other_begin
                right = end if end < other_end else other_end
                if left < right:
                    shared.append((remote, left + shift, left + other_shift, right - left))
    return shared, comparisons


CLASSICAL = Algorithm("classical", classical, periodic=False)


def falls(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and the comparisons.

    In one period, for each own block and each other process, the algorithm compares only blocks that can overlap (ASPEN,
    Algorithm 3, Eq 2). The loop bound in print, max(N, S / S_local), must be the smaller of the two, and the bounds of the
    inner loop count blocks from 0 and exclude the last; docs/intersections.md lists further errata.

    A comparison is of two blocks; it also counts as one if no block of a process can overlap an own block.
    """
    shared: list[Run] = []
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
                    shared.append((remote, left + shift, left + to_local + k * to_next, right - left))
    return shared, comparisons


FALLS = Algorithm("falls", falls)


def scan(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and the steps of the walks.

    ScaLAPACK's redistribution merges both lists of intervals for each pair of processes (`scan_intervals` in the library's
    REDIST/SRC/pgemraux.c, after Prylli and Tourancheau, Fast runtime block cyclic data redistribution on multiprocessors, J.
    Parallel Distrib. Comput. 45, 1997). The library goes over the whole array for each process of the other grid; this function
    uses one period.
    """
    shared: list[Run] = []
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
                shared.append((remote, left + shift, left + other_shift, right - left))
            j += end <= other_end
            k += other_end <= end
    return shared, comparisons


SCAN = Algorithm("scan", scan)


ALGORITHMS: dict[str, Algorithm] = {algorithm.name: algorithm for algorithm in (CLASSICAL, FALLS, SCAN, ASPEN)}
"""Every algorithm, by name."""


def find(algorithm: str, a: BlockCyclic, b: BlockCyclic, p: int, *, form: str = "compiled") -> Intersections:
    """The index runs that process `p` of axis `a` shares with every process of axis `b`. Not collective.

    Parameters
    ----------
    algorithm : {"classical", "falls", "scan", "aspen"}
        The algorithm: Algorithms 2 and 3 of the ASPEN paper, ScaLAPACK's, and Algorithm 4.
    a, b : BlockCyclic
        Two distributions of the same number of elements.
    p : int
        Process coordinate along `a`, 0 <= p < a.processes.
    form : {"compiled", "python"}
        The compiled loop, or the loop in Python.

    Returns
    -------
    Intersections
        The runs in ascending order of the global index, equal for every algorithm. `classical` has the runs of the whole array
        as one period.

    Raises
    ------
    ScheduleError
        The algorithm or the form is unknown; the text lists the known ones.
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
                f"{name} = {axis!r}: the algorithms are for two block-cyclic axes; for other axes use schedules.between(a, b), "
                "which has the lengths of messages, or redistribute"
            )
    if a.n != b.n:
        raise DescriptorError(
            f"a.n = {a.n} and b.n = {b.n} must be equal: they are two distributions of the same elements"
        )
    return ALGORITHMS[algorithm].find(a, b, p, form)
