"""The algorithms that find the index runs that two block-cyclic axes share: classical, falls, scan and aspen.

Each has a loop in Python and the same loop compiled, and all give one answer: the runs of a period, and how often it
repeats.
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
    """Elements after which both axes repeat: lcm(a.stride, b.stride). Not collective."""
    return math.lcm(a.stride, b.stride)


@dataclass(frozen=True)
class Intersections:
    """Runs that one process of axis a shares with the processes of axis b, ascending in the global index.

    Attributes
    ----------
    remote, start_a, start_b, length : ndarray of int64
        For each run of one period: the process of b, where the run starts in a's and in b's local array, elements.
    period_a, period_b : int
        Elements by which the runs move in a's and in b's local array from one period to the next.
    repeats : int
        Number of periods, the last of which may be cut short by the end of the array.
    size : int
        Elements that the process holds in all.
    comparisons : int
        Operations as the ASPEN paper counts them (Eqs 1, 2 and 4), for this process and this dimension: blocks compared
        by `classical` and `falls` (there at least one for each own block and other process), steps of the walks of
        `scan`, runs cut by `aspen`.
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

    They are the blocks that one process holds within the first elements of an axis: every algorithm here walks over them.

    Attributes
    ----------
    start : int
        First element of the first block; negative where the axis begins inside that block.
    local : int
        Where that element lies in the local array.
    number, block, stride : int
        How many blocks there are, elements in one, and elements from one to the next.
    window : int
        Elements of the axis that are looked at.
    """

    start: int
    local: int
    number: int
    block: int
    stride: int
    window: int

    def cut(self) -> Iterator[tuple[int, int, int]]:
        """Begin and end of each interval, and the distance from an element of it to its place in the local array."""
        start, shift = self.start, self.local - self.start
        for _ in range(self.number):
            end = start + self.block
            yield start if start > 0 else 0, end if end < self.window else self.window, shift
            start += self.stride
            shift += self.block - self.stride


def intervals_of(axis: BlockCyclic, p: int, window: int) -> Intervals:
    """The blocks of process `p` of an axis among its first `window` elements. Not collective."""
    block, processes, offset = axis.block, axis.processes, axis.offset
    stride = block * processes
    first = offset // block
    first += (p - axis.source - first) % processes
    start = first * block - offset
    number = -((start - window) // stride) if window and start < window else 0
    return Intervals(start, first // processes * block, number, block, stride, window)


@dataclass(frozen=True)
class Algorithm:
    """One way to find the runs.

    Attributes
    ----------
    name : str
        Also that of the compiled loop.
    loop : callable
        From two axes, a process of the first and the elements to look at: the runs (remote process, local start in a
        and in b, length) in the order in which they are found, and the number of comparisons.
    periodic : bool
        Whether it looks at one period only, not at the whole array.
    ascending : bool
        Whether it finds the runs in ascending order of the global index.
    """

    name: str
    loop: Loop
    periodic: bool = True
    ascending: bool = False

    def window(self, a: BlockCyclic, b: BlockCyclic) -> int:
        """Elements that are looked at. Not collective."""
        return min(a.n, period(a, b)) if self.periodic else a.n

    def find(self, a: BlockCyclic, b: BlockCyclic, p: int, form: str = COMPILED) -> Intersections:
        """The runs of process `p` of `a`, by the loop in the given form. Not collective."""
        size, n = a.local_size(p), a.n
        length = period(a, b) if self.periodic else n or 1
        window = length if length < n else n
        if form == COMPILED:
            columns, comparisons = runs(self.name, window, numbers(a), numbers(b), p)
        else:
            found, comparisons = self.loop(a, b, p, window)
            columns = np.array(found, dtype=np.int64).reshape(-1, 4).T.copy()
        if not self.ascending:
            columns = columns.take(np.argsort(columns[1]), axis=1)
        remote, start_a, start_b, lengths = columns
        step = length if length < LARGEST else LARGEST  # a longer one is longer than the array, and not repeated
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
    """What the compiled loops must know of an axis. Not collective."""
    return axis.block, axis.processes, axis.source, axis.offset


def aspen(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and their number. Not collective.

    It walks a process's own blocks once, cutting each at the other axis's boundaries (ASPEN, Algorithm 4, Eq 4). The owner
    of a block's first element follows by division, the owners of the rest by counting on, so neither the other processes
    nor their blocks are looked at. The printed loop bound max(N, S / S_local) must be the smaller of the two;
    docs/intersections.md lists what else is amiss.
    """
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


def classical(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and the blocks compared. Not collective.

    Every own block is compared with every block of every other process (ASPEN, Algorithm 2, Eq 1), in the whole array: it
    knows nothing of periods.
    """
    found: list[Run] = []
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
                    found.append((remote, left + shift, left + other_shift, right - left))
    return found, comparisons


CLASSICAL = Algorithm("classical", classical, periodic=False)


def falls(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and the comparisons. Not collective.

    In one period, for each own block and each other process only the blocks that can meet are compared (ASPEN, Algorithm 3,
    Eq 2). The printed loop bound max(N, S / S_local) must be the smaller of the two, and the bounds of the inner loop count
    blocks from 0 and exclude the last; docs/intersections.md lists what else is amiss.

    A comparison is one of two blocks; where no block of a process can meet an own one, finding that out is one.
    """
    found: list[Run] = []
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
                    found.append((remote, left + shift, left + to_local + k * to_next, right - left))
    return found, comparisons


FALLS = Algorithm("falls", falls)


def scan(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> tuple[list[Run], int]:
    """Runs of process `p` of `a` among the first `window` elements, and the steps of the walks. Not collective.

    ScaLAPACK's redistribution does this for each pair of processes: it walks both lists of intervals side by side
    (`scan_intervals` in the library's REDIST/SRC/pgemraux.c, after Prylli and Tourancheau, Fast runtime block cyclic data
    redistribution on multiprocessors, J. Parallel Distrib. Comput. 45, 1997). The library walks the whole array, and does
    so again for each process of the other grid; here it is one period.
    """
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
