"""The index runs that one process shares with each process of another axis, for blocks of any sizes; plans consist of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.by_process import SharedRuns, shared, shared_families
from ..layout.axis import LARGEST, Axis, AxisIntervals, BlockCyclic, Irregular
from .algorithms import intervals_of

Ints = NDArray[np.int64]


class Families(NamedTuple):
    """Families of equal runs at equal distances, sorted by process, then by index.

    Attributes
    ----------
    remote : ndarray of int64
        Process of b.
    start_a, start_b, length : ndarray of int64
        Start of the first run in a's and in b's local array, and its length.
    step_a, step_b, runs : ndarray of int64
        Distance between the starts of successive runs, and the number of runs.
    first : ndarray of int64
        Global index of the first element.
    """

    remote: Ints
    start_a: Ints
    start_b: Ints
    length: Ints
    step_a: Ints
    step_b: Ints
    runs: Ints
    first: Ints


def families_of(a: Axis, b: Axis, p: int) -> Families:
    """The runs that process `p` of axis a shares with the processes of axis b. At least one axis has irregular blocks.

    Blocks are sorted intervals, and bisection finds the overlaps. An own block is cut where the other axis's blocks end. If
    that axis is block-cyclic, its whole blocks within an own block are families of equal runs at equal distances, one for each
    process, however small they are.

    Let the process have k blocks, and let b have B irregular blocks. Time and memory are proportional to the number of
    families, plus log B for each of the k blocks if b is irregular. They do not depend on the number of elements: from an
    irregular axis to a block-cyclic one of Q processes there are at most Q + 2 families for each own block; from a block-cyclic
    axis to an irregular one at most three for each block of b, and at most k + B. A block-cyclic process with more than B
    blocks loops over the B blocks instead of its own.

    Raises
    ------
    IndexError
        There is no process `p`.
    """
    if isinstance(a, Irregular):
        own = a.intervals(p)
        parts = _in_irregular(own, b) if isinstance(b, Irregular) else _in_block_cyclic(own, _block_cyclic(b))
    else:
        axis, other = _block_cyclic(a), b
        assert isinstance(other, Irregular)
        if intervals_of(axis, axis._process(p), axis.n).number > len(other.blocks.sizes):
            _, b_blocks = other.cut(np.zeros(1, np.int64), np.array([other.n]))
            parts = _of_block_cyclic(axis, p, b_blocks)
        else:
            parts = _in_irregular(_blocks_of(axis, p), other)
    return Families(*(column[np.lexsort((parts.start_a, parts.remote))] for column in parts))


def _block_cyclic(axis: Axis) -> BlockCyclic:
    assert isinstance(axis, BlockCyclic)
    return axis


def _blocks_of(axis: BlockCyclic, p: int) -> AxisIntervals:
    """The blocks of a process as sorted intervals."""
    own = intervals_of(axis, p, axis.n)
    if not own.number:  # its start might not fit in 64 bits
        return AxisIntervals(*[np.zeros(0, np.int64)] * 4)
    numbers = np.arange(own.number)
    start = own.start + min(own.stride, LARGEST) * numbers
    begin = np.maximum(start, 0)
    end, local = np.minimum(start + own.block, axis.n), own.local + own.block * numbers + begin - start
    return AxisIntervals(begin, end, local, np.full_like(begin, p))


def _in_irregular(own: AxisIntervals, b: Irregular) -> Families:
    """Own intervals cut at the ends of the blocks of b."""
    block, parts = b.cut(own.begin, own.end)
    start_a = own.local[block] + parts.begin - own.begin[block]
    return _single(parts.owner, start_a, parts.local, parts.end - parts.begin, parts.begin)


def _single(remote: Ints, start_a: Ints, start_b: Ints, length: Ints, first: Ints) -> Families:
    """Families of one run each."""
    return Families(remote, start_a, start_b, length, length, length, np.ones_like(length), first)


class _CutIntervals(NamedTuple):
    """Intervals cut where blocks of one size end.

    Attributes
    ----------
    interval, begin, length : ndarray
        Parts of blocks: number of the interval, begin and length.
    whole_interval, whole_begin, whole_blocks : ndarray
        Runs of whole blocks: number of the interval, begin and number of blocks.
    """

    interval: Ints
    begin: Ints
    length: Ints
    whole_interval: Ints
    whole_begin: Ints
    whole_blocks: Ints


def _cut(low: Ints, high: Ints, block: int) -> _CutIntervals:
    """Cut intervals low <= i < high at the multiples of `block`."""
    up, down = -(-low // block) * block, high // block * block
    number = np.arange(len(low))
    ends = np.minimum(up, high)
    heads, tails, whole = low < ends, (up <= down) & (down < high), up < down
    return _CutIntervals(
        np.concatenate([number[heads], number[tails]]),
        np.concatenate([low[heads], down[tails]]),
        np.concatenate([ends[heads] - low[heads], high[tails] - down[tails]]),
        number[whole],
        up[whole],
        (down[whole] - up[whole]) // block,
    )


def _in_block_cyclic(own: AxisIntervals, b: BlockCyclic) -> Families:
    """Own intervals cut at the ends of the blocks of b."""
    cut = _cut(own.begin + b.offset, own.end + b.offset, b.block)
    shift = own.local - own.begin - b.offset
    number = cut.begin // b.block
    parts = _single(
        (number + b.source) % b.processes,
        cut.begin + shift[cut.interval],
        number // b.processes * b.block + cut.begin % b.block,
        cut.length,
        cut.begin - b.offset,
    )
    # the first whole block of each process, and the number of its whole blocks
    counts = np.minimum(cut.whole_blocks, b.processes)
    position = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    blocks, interval, begin = (np.repeat(x, counts) for x in (cut.whole_blocks, cut.whole_interval, cut.whole_begin))
    begin = begin + position * b.block
    number = begin // b.block
    block = np.full_like(begin, b.block)
    whole = Families(
        (number + b.source) % b.processes,
        begin + shift[interval],
        number // b.processes * b.block,
        block,
        np.full_like(begin, min(b.stride, LARGEST)),
        block,
        (blocks - position - 1) // b.processes + 1,
        begin - b.offset,
    )
    return _joined(parts, whole)


def _of_block_cyclic(a: BlockCyclic, p: int, others: AxisIntervals) -> Families:
    """Parts of the intervals of an irregular axis in a process's local array, cut where the process's blocks end."""
    low, high = (_local_count(a, p, bound + a.offset) for bound in (others.begin, others.end))
    cut = _cut(low, high, a.block)
    shift = others.local - others.begin
    first = a.global_index(p, cut.begin)
    parts = _single(others.owner[cut.interval], cut.begin, first + shift[cut.interval], cut.length, first)
    first, interval = a.global_index(p, cut.whole_begin), cut.whole_interval
    block, stride = np.full_like(first, a.block), np.full_like(first, min(a.stride, LARGEST))
    whole = Families(
        others.owner[interval], cut.whole_begin, first + shift[interval], block, block, stride, cut.whole_blocks, first
    )
    return _joined(parts, whole)


def _local_count(axis: BlockCyclic, p: int, bound: Ints) -> Ints:
    """Number of the larger array's first `bound` elements on process `p`."""
    rounds, rest = np.divmod(bound, min(axis.stride, LARGEST))
    skipped = min((p - axis.source) % axis.processes * axis.block, LARGEST)
    count: Ints = rounds * axis.block + np.clip(rest - skipped, 0, axis.block)
    return count


def _joined(parts: Families, whole: Families) -> Families:
    return Families(*(np.concatenate(pair) for pair in zip(parts, whole, strict=True)))


class SuperblockSlot(NamedTuple):
    """The block at a position of each superblock (Walker & Otto, section 2.1): all i with (i - first) mod period < length."""

    first: int
    length: int
    period: int


def by_process(a: Axis, b: Axis, p: int) -> list[SharedRuns]:
    """The runs that process `p` of `a` shares with each process of `b`, ascending; without processes that share nothing.

    The runs are `aspen`'s, in a compact form. If one axis's blocks are much larger than the other's (cyclic and one block per
    process, say) a period has as many runs as elements. But then there are families of equal runs at equal distances, and the
    array is usually shorter than a period, so a family can be stored as a period of its own.

    Time and memory are proportional to the own runs in one period; for an array shorter than that, to the families of own runs.
    An irregular axis has no period: see `families_of`. If a process shares several families, their runs are listed one by one.
    """
    if isinstance(a, BlockCyclic) and isinstance(b, BlockCyclic):
        return shared(a, b, p, LARGEST)
    families = families_of(a, b, p)
    return shared_families(np.array(families[:-1]), families.first, a.n)


def in_slot(a: Axis, b: Axis, whole: SharedRuns, p: int, slot: SuperblockSlot) -> SharedRuns:
    """The part of the runs of two processes that is in a slot; both processes must hold the whole slot.

    If the array begins or ends inside a block of the slot, that block is cut. The time does not depend on the array's size.

    Parameters
    ----------
    a, b : Axis
        Block-cyclic axes.
    whole : SharedRuns
        All runs that the two processes share; it has the process of `b`.
    p : int
        The process of `a`.
    slot : SuperblockSlot
        The slot.
    """
    first, length, period = slot
    steps = period // a.processes, period // b.processes
    position = first % period
    runs = []  # first element, length, number
    if position + length > period:  # cut where the array begins
        runs.append((0, min(a.n, position + length - period), 1))
    blocks = max(0, (a.n - position - length) // period + 1)
    if blocks:
        runs.append((position, length, blocks))
    position += blocks * period
    if position < a.n:  # cut where it ends
        runs.append((position, a.n - position, 1))
    families = [
        (whole.remote, a.local_index(start), b.local_index(start), size, *steps, count) for start, size, count in runs
    ]
    return shared_families(np.array(families).T.copy(), np.array([start for start, *_ in runs]), a.n)[0]
