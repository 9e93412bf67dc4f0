"""The index runs that one process shares with each process of another axis, of blocks of any sizes: plans are made of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.by_process import Shared, shared, shared_families
from ..layout.axis import LARGEST, Axis, AxisIntervals, BlockCyclic, Irregular
from .algorithms import intervals_of

Ints = NDArray[np.int64]


class Families(NamedTuple):
    """Families of equal runs at equal distances, sorted by process, and then ascending.

    Attributes
    ----------
    remote : ndarray of int64
        Process of b.
    start_a, start_b, length : ndarray of int64
        Where the first run starts in a's and in b's local array, and its elements.
    step_a, step_b, runs : ndarray of int64
        What is added to the starts from one run to the next, and the number of runs.
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
    """The runs that process `p` of axis a shares with the processes of axis b. Not collective.

    At least one axis has irregular blocks: sorted intervals, searched in one another. An own block is cut where the other
    axis's blocks end. Where that axis is block-cyclic, its whole blocks within an own block are families of equal runs at
    equal distances, one for each process, however small they are.

    Let the process have k blocks, and B be the number of irregular blocks of b: work and memory follow the families found,
    with log B for each of the k where b is irregular, too. A family has one element or many, so nothing is proportional
    to elements: from an irregular axis to a block-cyclic one of Q processes there are at most Q + 2 for each own block; from
    a block-cyclic axis to an irregular one at most three for each block of b, and no more than own blocks and blocks
    of b together. A block-cyclic process with more than B blocks looks at the B, not at its own.

    Raises
    ------
    IndexError
        There is no process `p`.
    """
    if isinstance(a, Irregular):
        own = a.intervals(p)
        pieces = _in_irregular(own, b) if isinstance(b, Irregular) else _in_block_cyclic(own, _block_cyclic(b))
    else:
        axis, other = _block_cyclic(a), b
        assert isinstance(other, Irregular)
        if intervals_of(axis, axis._process(p), axis.n).number > len(other.blocks.sizes):
            _, others = other.cut(np.zeros(1, np.int64), np.array([other.n]))
            pieces = _of_block_cyclic(axis, p, others)
        else:
            pieces = _in_irregular(_blocks_of(axis, p), other)
    return Families(*(column[np.lexsort((pieces.start_a, pieces.remote))] for column in pieces))


def _block_cyclic(axis: Axis) -> BlockCyclic:
    assert isinstance(axis, BlockCyclic)
    return axis


def _blocks_of(axis: BlockCyclic, p: int) -> AxisIntervals:
    """The blocks of a process as sorted intervals."""
    own = intervals_of(axis, p, axis.n)
    if not own.number:  # then its start might not fit
        return AxisIntervals(*[np.zeros(0, np.int64)] * 4)
    numbers = np.arange(own.number)
    start = own.start + min(own.stride, LARGEST) * numbers
    begin = np.maximum(start, 0)
    end, local = np.minimum(start + own.block, axis.n), own.local + own.block * numbers + begin - start
    return AxisIntervals(begin, end, local, np.full_like(begin, p))


def _in_irregular(own: AxisIntervals, b: Irregular) -> Families:
    """Own intervals cut at the ends of the blocks of b."""
    of, pieces = b.cut(own.begin, own.end)
    start_a = own.local[of] + pieces.begin - own.begin[of]
    return _single(pieces.owner, start_a, pieces.local, pieces.end - pieces.begin, pieces.begin)


def _single(remote: Ints, start_a: Ints, start_b: Ints, length: Ints, first: Ints) -> Families:
    """Families of one run each."""
    return Families(remote, start_a, start_b, length, length, length, np.ones_like(length), first)


class _CutIntervals(NamedTuple):
    """Intervals cut where blocks of one size end: parts of blocks, then whole blocks. `of` numbers their intervals."""

    of: Ints
    begin: Ints
    length: Ints
    whole_of: Ints
    whole_begin: Ints
    whole_blocks: Ints


def _cut(low: Ints, high: Ints, block: int) -> _CutIntervals:
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
        cut.begin + shift[cut.of],
        number // b.processes * b.block + cut.begin % b.block,
        cut.length,
        cut.begin - b.offset,
    )
    # the first whole block of each process, and how many follow it
    met = np.minimum(cut.whole_blocks, b.processes)
    turn = np.arange(int(met.sum())) - np.repeat(np.cumsum(met) - met, met)
    blocks, of, begin = (np.repeat(column, met) for column in (cut.whole_blocks, cut.whole_of, cut.whole_begin))
    begin = begin + turn * b.block
    number = begin // b.block
    block = np.full_like(begin, b.block)
    whole = Families(
        (number + b.source) % b.processes,
        begin + shift[of],
        number // b.processes * b.block,
        block,
        np.full_like(begin, min(b.stride, LARGEST)),
        block,
        (blocks - turn - 1) // b.processes + 1,
        begin - b.offset,
    )
    return _joined(parts, whole)


def _of_block_cyclic(a: BlockCyclic, p: int, others: AxisIntervals) -> Families:
    """What a process has of each interval of an irregular axis, in its local array and cut where its blocks end."""
    low, high = (_held(a, p, bound + a.offset) for bound in (others.begin, others.end))
    cut = _cut(low, high, a.block)
    shift = others.local - others.begin
    first = a.global_index(p, cut.begin)
    parts = _single(others.owner[cut.of], cut.begin, first + shift[cut.of], cut.length, first)
    first, of = a.global_index(p, cut.whole_begin), cut.whole_of
    block, stride = np.full_like(first, a.block), np.full_like(first, min(a.stride, LARGEST))
    whole = Families(
        others.owner[of], cut.whole_begin, first + shift[of], block, block, stride, cut.whole_blocks, first
    )
    return _joined(parts, whole)


def _held(axis: BlockCyclic, p: int, bound: Ints) -> Ints:
    """How many of the larger array's first elements process `p` holds."""
    rounds, rest = np.divmod(bound, min(axis.stride, LARGEST))
    skipped = min((p - axis.source) % axis.processes * axis.block, LARGEST)
    answer: Ints = rounds * axis.block + np.clip(rest - skipped, 0, axis.block)
    return answer


def _joined(parts: Families, whole: Families) -> Families:
    return Families(*(np.concatenate(pair) for pair in zip(parts, whole, strict=True)))


class SuperblockSlot(NamedTuple):
    """The block at a position of each superblock (Walker & Otto, section 2.1): all i with (i - first) mod period < length."""

    first: int
    length: int
    period: int


def by_process(a: Axis, b: Axis, p: int) -> list[Shared]:
    """What process `p` of `a` shares with each process of `b` that it shares anything with, ascending. Not collective.

    The runs are `aspen`'s, as compactly as can be. Where one axis's blocks are much larger than the other's (cyclic and one
    block per process, say) a period has as many runs as elements. But then runs come in families of equal runs at equal
    distances, and the array is mostly shorter than a period, so that a family can stand for a period of its own.

    Work and memory follow the own runs in one period; in an array no longer than that, the families of own runs. Where an
    axis is irregular nothing has a period: see `families_of`. Families with one process that are not one are listed run by run.
    """
    if isinstance(a, BlockCyclic) and isinstance(b, BlockCyclic):
        return shared(a, b, p, LARGEST)
    found = families_of(a, b, p)
    return shared_families(np.array(found[:-1]), found.first, a.n)


def in_slot(a: Axis, b: Axis, whole: Shared, p: int, slot: SuperblockSlot) -> Shared:
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
    slot : SuperblockSlot
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
