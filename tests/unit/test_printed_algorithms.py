"""The slips that docs/intersections.md lists: Algorithms 3 and 4 as the ASPEN paper prints them, and line by line put right.

Global indices throughout, blocks dealt from process 0, element 0; `n` is |Data|.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator

from axes import deal_axis, shared

from pyscalapack_redist import BlockCyclic, intersections

Bound = Callable[[int, int], int]
Run = tuple[int, int, int]

PAIRS = [
    (BlockCyclic(n, r, P), BlockCyclic(n, s, Q))
    for n in (1, 24, 61, 120)
    for r, P, s, Q in ((2, 4, 3, 3), (3, 2, 5, 2), (6, 2, 2, 5), (2, 2, 8, 3), (50, 2, 7, 3))
]


def own_blocks(axis: BlockCyclic, p: int) -> int:
    """N: blocks of a process, a cut one included."""
    return len(range(p * axis.block, axis.n, axis.stride))


def algorithm_3(
    a: BlockCyclic, b: BlockCyclic, p: int, bound: Bound = min, beyond: int = 0, clip: bool = True
) -> Iterator[Run]:
    """FALLS; `bound` is line 7's, `beyond` is 1 where lastIndex is included, `clip` cuts at the end of the array (16 to 18)."""
    n, s, stride = a.n, b.block, b.stride
    S = math.lcm(a.stride, stride)
    for remote in range(b.processes):
        number = own_blocks(b, remote)
        for local in range(bound(own_blocks(a, p), S // a.stride)):
            start = p * a.block + local * a.stride
            end = start + a.block
            first = max(0, math.ceil((start - remote * s - s) / stride))
            last = min(1 + (end - remote * s) // stride, number, S // stride)
            for k in range(first, last + beyond):
                other = remote * s + k * stride
                left, right = max(start, other), min(end, other + s)
                if left < right:
                    for disp in range(n // S + 1):
                        begin, stop = left + disp * S, right + disp * S
                        if not clip:
                            yield remote, begin, stop
                        elif begin < n:
                            yield remote, begin, min(stop, n)


def algorithm_4(
    a: BlockCyclic, b: BlockCyclic, p: int, bound: Bound = min, rest: Callable[[int, int], bool] = operator.lt
) -> Iterator[Run]:
    """ASPEN; `bound` is line 5's, `rest` the comparison of line 32."""
    n, s = a.n, b.block
    S = math.lcm(a.stride, b.stride)
    for local in range(bound(own_blocks(a, p), S // a.stride)):
        start = left = p * a.block + local * a.stride
        end = start + a.block
        remote, offset = start // s % b.processes, start % s
        if start - offset + s <= end:
            right = min(start - offset + s, n)
            yield from ((remote, at, min(at + right - left, n)) for at in range(left, n, S))
            left, remote = right, (remote + 1) % b.processes
        while left < min(end, n):
            right = min(left + s, end, n)
            yield from ((remote, at, min(at + right - left, n)) for at in range(left, n, S))
            left, remote = right, (remote + 1) % b.processes
        right = min(end, n)
        if rest(left, right):
            yield from ((remote, at, min(at + right - left, n)) for at in range(left, n, S))


def elements(runs: Iterable[Run]) -> list[tuple[int, int]]:
    return sorted((i, remote) for remote, begin, end in runs for i in range(begin, end))


def expected(a: BlockCyclic, b: BlockCyclic, p: int) -> list[tuple[int, int]]:
    held = a.global_indices(p).tolist()
    return [(i, q) for i, (q, _, _) in zip(held, shared(deal_axis(a), deal_axis(b))[p], strict=True)]


def wrong(algorithm: Callable[[BlockCyclic, BlockCyclic, int], Iterator[Run]]) -> int:
    return sum(elements(algorithm(a, b, p)) != expected(a, b, p) for a, b in PAIRS for p in range(a.processes))


def test_put_right_both_are_right() -> None:
    assert wrong(algorithm_3) == wrong(algorithm_4) == 0


def test_the_larger_bound_makes_aspen_find_runs_twice() -> None:
    a, b = BlockCyclic(24, 2, 2), BlockCyclic(24, 3, 2)  # two periods of 12
    found = elements(algorithm_4(a, b, 0, bound=max))
    assert len(found) > len(set(found)) == a.local_size(0)


def test_the_larger_bound_costs_falls_time_only() -> None:
    """The blocks beyond a period meet none of the other process's, whose number is bounded by the smaller in line 10."""
    assert wrong(lambda a, b, p: algorithm_3(a, b, p, bound=max)) == 0


def test_the_last_index_of_falls_is_one_past_the_last_block() -> None:
    """Lines 9 and 10 count blocks from 0: all that an own block meets come before lastIndex, and block number N is none."""
    assert wrong(lambda a, b, p: algorithm_3(a, b, p, beyond=1)) == 0  # nothing more is found with it
    assert wrong(lambda a, b, p: algorithm_3(a, b, p, beyond=-1)) > 0


def test_falls_does_not_stop_at_the_end_of_the_array() -> None:
    a, b = BlockCyclic(12, 2, 2), BlockCyclic(12, 3, 2)
    assert max(end for _, _, end in algorithm_3(a, b, 0, clip=False)) > 12


def test_the_last_part_of_aspen_adds_empty_runs_only() -> None:
    """Lines 31 to 38: whatever is left of a block was found in the loop of lines 21 to 30."""
    a, b = BlockCyclic(24, 2, 4), BlockCyclic(24, 3, 3)
    assert [run for run in algorithm_4(a, b, 0, rest=operator.le) if run[1] == run[2]]
    for own, remote in PAIRS:
        for p in range(own.processes):
            assert all(begin < end for _, begin, end in algorithm_4(own, remote, p))
            assert elements(algorithm_4(own, remote, p, rest=operator.le)) == expected(own, remote, p)


def test_the_local_index_of_an_end_is_not_the_end_of_the_local_run() -> None:
    """Lines 15, 25 and 36: a run that ends where its block ends is followed by an element of another process."""
    a, b = BlockCyclic(24, 2, 4), BlockCyclic(24, 3, 3)
    remote, start, end = next(run for run in algorithm_4(a, b, 0) if run[2] % a.block == 0)
    assert (remote, start, end) == (0, 0, 2)
    assert a.owner(end) != 0
    assert a.local_index(end) == 0  # an empty run, if this were its end
    assert intersections.find("aspen", a, b, 0).expand().tolist()[0] == [0, 0, 0, 2]
