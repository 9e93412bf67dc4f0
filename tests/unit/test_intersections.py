"""What two processes share: every algorithm by brute force, the counts of the ASPEN paper, and huge arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np
import pytest
from axes import Dealt, deal_axis, random_pair, shared
from hypothesis import given
from hypothesis import strategies as st
from launch import SEED

from pyscalapack_redist import BlockCyclic, Blocks, DescriptorError, ScheduleError, intersections, schedules
from pyscalapack_redist._kernels.intersections import families
from pyscalapack_redist.intersections.algorithms import numbers
from pyscalapack_redist.intersections.runs import by_process, families_of
from pyscalapack_redist.layout.axis import Irregular, balanced

FEW_OR_MANY = [100, pytest.param(800, marks=pytest.mark.long)]


def pairs(number: int, irregular: tuple[bool, bool] = (False, False)) -> Iterator[tuple[Dealt, Dealt]]:
    rng = np.random.default_rng([SEED, *irregular])
    for _ in range(number):
        yield random_pair(rng, irregular)


# -- the algorithms of the ASPEN paper


def blocks(axis: BlockCyclic, p: int, window: int) -> set[int]:
    """Numbers of the blocks that a process has among the first elements, one element at a time."""
    return {(i + axis.offset) // axis.block for i in range(window) if axis.owner(i) == p}


def comparisons_of_falls(a: BlockCyclic, b: BlockCyclic, p: int, window: int) -> int:
    """For each other process and each own block of a period: the other's blocks that it meets, at least one look."""
    looks = 0
    for own in blocks(a, p, window):
        held = [i for i in range(window) if (i + a.offset) // a.block == own]
        for q in range(b.processes):
            looks += max(1, len({(i + b.offset) // b.block for i in held if b.owner(i) == q}))
    return looks


@pytest.mark.parametrize("number", FEW_OR_MANY)
def test_every_algorithm_by_brute_force(number: int) -> None:
    """The same elements, cut alike, in both forms; comparisons are those of Eqs 1, 2 and 4, without the factors L and D."""
    nothing = 0
    for (a, dealt_a), (b, dealt_b) in pairs(number):
        window = min(a.n, math.lcm(a.stride, b.stride))
        remote = [blocks(b, q, a.n) for q in range(b.processes)]
        within = [len(blocks(b, q, window)) for q in range(b.processes)]
        for p, expected in enumerate(shared(Dealt(a, dealt_a), Dealt(b, dealt_b))):
            rows, counts = {}, {}
            for name in intersections.ALGORITHMS:
                found, other = (intersections.find(name, a, b, p, form=form) for form in intersections.FORMS)
                rows[name], counts[name] = found.expand().tolist(), found.comparisons
                assert [(q, x + k, y + k) for q, x, y, n in rows[name] for k in range(n)] == expected, (name, a, b, p)
                assert other.expand().tolist() == rows[name], (name, a, b, p)
                assert other.comparisons == found.comparisons
                assert found.size == other.size == len(expected)
                columns = found.remote, found.start_a, found.start_b, found.length
                assert all(column.dtype == np.int64 for column in columns)
            assert rows["falls"] == rows["scan"] == rows["aspen"], (a, b, p)
            if (
                not a.offset and not b.offset
            ):  # else a block may be cut where a period ends, which classical does not see
                assert rows["classical"] == rows["aspen"], (a, b, p)
            own = len(blocks(a, p, window))
            assert counts["classical"] == len(blocks(a, p, a.n)) * sum(map(len, remote))
            assert counts["falls"] == comparisons_of_falls(a, b, p, window)
            assert sum(min(own, n) for n in within) <= counts["scan"] <= sum(own + n - 1 for n in within if own and n)
            pieces = {((i + a.offset) // a.block, (i + b.offset) // b.block) for i in range(window) if a.owner(i) == p}
            assert counts["aspen"] == len(pieces)
            nothing += not expected
    assert nothing > number / 10  # processes that hold nothing are among them


@pytest.mark.parametrize("form", intersections.FORMS)
@pytest.mark.parametrize("algorithm", intersections.ALGORITHMS)
@pytest.mark.parametrize(
    ("a", "b", "p", "rows"),
    [
        # ASPEN's Fig 1 along one dimension: blocks of 2 on 4 processes, of 3 on 3; process 0 holds 0, 1, 8, 9
        (BlockCyclic(12, 2, 4), BlockCyclic(12, 3, 3), 0, [[0, 0, 0, 2], [2, 2, 2, 1], [0, 3, 3, 1]]),
        # from element 5 on: the first own block is cut at both ends
        (BlockCyclic(3, 8, 2, 0, 5), BlockCyclic(3, 2, 2, 0, 0), 0, [[0, 5, 0, 2], [1, 7, 0, 1]]),
    ],
)
def test_by_hand(algorithm: str, form: str, a: BlockCyclic, b: BlockCyclic, p: int, rows: list[list[int]]) -> None:
    assert intersections.find(algorithm, a, b, p, form=form).expand().tolist() == rows


def test_aspen_looks_at_one_period_and_has_no_factor_of_remote_processes() -> None:
    """What it looks at, the own blocks of a period cut at the other's, is tested above; this is for arrays that are longer."""
    period = math.lcm(64 * 32, 100 * 31)
    counts = {
        intersections.find("aspen", BlockCyclic(n, 64, 32), BlockCyclic(n, 100, 31), 3).comparisons
        for n in (period, period + 1, 7 * period, 10**12)
    }
    assert len(counts) == 1
    below = {
        intersections.find("aspen", BlockCyclic(10_000, 30, 32), BlockCyclic(10_000, 654, Q), 5).comparisons
        for Q in (5, 8, 13, 32)
    }
    assert len(below) == 1


def test_only_own_runs_of_one_period_are_made_and_kept() -> None:
    """1 -> 64 over 32 x 31 processes: 32 bytes for each of them, however long the array, and nothing of other pairs."""
    for n in (10**4, 10**12):
        a, b = BlockCyclic(n, 1, 32), BlockCyclic(n, 64, 31)
        for own, remote, runs in ((a, b, 62), (b, a, 64)):
            found = intersections.find("aspen", own, remote, 30)
            base = found.length.base
            assert base is not None
            assert (len(found.remote), base.nbytes) == (runs, 32 * runs)
            assert all(column.flags.c_contiguous for column in (found.remote, found.start_a, found.start_b))
    a, b = BlockCyclic(10**8, 64, 10**6), BlockCyclic(10**8, 100, 10**6)
    found = intersections.find("aspen", a, b, 12_345)
    assert found.comparisons == len(found.remote) <= 4
    assert found.remote.tolist() == sorted({*b.owner(a.global_indices(12_345)).tolist()})


huge_axes = st.builds(
    BlockCyclic, st.just(10**15), st.integers(1, 10**6), st.integers(1, 100), offset=st.integers(0, 10**9)
)


@given(huge_axes, huge_axes, st.data())
def test_runs_of_a_period_of_a_huge_array_are_where_the_axes_say(
    a: BlockCyclic, b: BlockCyclic, data: st.DataObject
) -> None:
    """Checked against the axes' own arithmetic: the array is too large to deal out."""
    p = data.draw(st.integers(0, a.processes - 1))
    b = BlockCyclic(b.n, max(b.block, a.block // 1000), b.processes, b.source, b.offset)  # not too many runs
    if a.stride * 10**4 < np.lcm(a.stride, b.stride):
        a = BlockCyclic(b.n, b.block, a.processes, 0, a.offset)
    found = intersections.find("aspen", a, b, p)
    assert (np.diff(found.start_a) == found.length[:-1]).all()
    first = a.global_index(p, found.start_a)
    last = a.global_index(p, found.start_a + found.length - 1)
    assert (last - first == found.length - 1).all()
    for end, place in ((first, found.start_b), (last, found.start_b + found.length - 1)):
        assert (b.owner(end) == found.remote).all()
        assert (b.local_index(end) == place).all()
    assert found.size == a.local_size(p)


@pytest.mark.parametrize("algorithm", intersections.ALGORITHMS)
@pytest.mark.parametrize("form", intersections.FORMS)
def test_numbers_near_the_largest(algorithm: str, form: str) -> None:
    """Products of block and processes beyond 64 bits."""
    huge = 2**62
    a, b = BlockCyclic(9, huge, 7, 3), BlockCyclic(9, 2, huge, huge - 2)
    found = intersections.find("aspen", a, b, 3, form=form).expand().tolist()  # the others look at each process
    assert found == [[huge - 2, 0, 0, 2], [huge - 1, 2, 0, 2], [0, 4, 0, 2], [1, 6, 0, 2], [2, 8, 0, 1]]
    found = [intersections.find(algorithm, b, a, p, form=form).expand().tolist() for p in (huge - 2, 2, 3)]
    assert found == [[[3, 0, 0, 2]], [[3, 0, 8, 1]], []]
    wide = BlockCyclic(9, huge, 4)  # block * processes is 0 in 64 bits
    assert intersections.find(algorithm, a, wide, 3, form=form).expand().tolist() == [[0, 0, 0, 9]]
    c = BlockCyclic(huge, huge, 5, 4, offset=7)
    whole = BlockCyclic(huge, huge - 1, 2)
    found = [intersections.find(algorithm, c, whole, p, form=form).expand().tolist() for p in (4, 0, 1)]
    assert found == [[[0, 7, 0, huge - 7]], [[0, 0, huge - 7, 6], [1, 6, 0, 1]], []]


AXIS = BlockCyclic(5, 2, 3)
SEVEN = Irregular(7, Blocks([4, 3]), 2)


@pytest.mark.parametrize(
    ("arguments", "form", "error", "message"),
    [
        (("falsl", AXIS, AXIS, 0), "python", ScheduleError, "algorithm = 'falsl' is unknown; there are falls, "),
        (("bisect", AXIS, AXIS, 0), "python", ScheduleError, "there are scan, aspen, falls, classical"),
        ((None, AXIS, AXIS, 0), "python", ScheduleError, "algorithm = None is unknown; there are "),
        (("aspen", AXIS, AXIS, 0), "Python", ScheduleError, "form = 'Python' is unknown; there are python, compiled"),
        (("aspen", AXIS, BlockCyclic(6, 2, 3), 0), "python", DescriptorError, "a.n = 5 and b.n = 6 must be equal"),
        (("aspen", AXIS, AXIS, 3), "compiled", IndexError, "process 3 is outside 0 <= p < 3"),
        (("falls", AXIS, AXIS, -1), "compiled", IndexError, "process -1 is outside 0 <= p < 3"),
        (
            ("aspen", SEVEN, BlockCyclic(7, 2, 2), 0),
            "python",
            DescriptorError,
            "two block-cyclic axes; for other axes use schedules.betw",
        ),
        (("aspen", BlockCyclic(7, 2, 2), SEVEN, 0), "python", DescriptorError, "= Irregular"),
    ],
)
def test_bad_input_is_named(
    arguments: tuple[str, BlockCyclic, BlockCyclic, int], form: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        intersections.find(*arguments, form=form)


# -- what plans are made of


def check_shared(a: Dealt, b: Dealt) -> None:
    """What each process of a shares with each of b, and the table of their lengths, by brute force."""
    lengths = np.zeros((a.axis.processes, b.axis.processes), int)
    for p, expected in enumerate(shared(a, b)):
        index = dict(a.held[p])
        found = list(by_process(a.axis, b.axis, p))
        assert [item.remote for item in found] == sorted({q for q, _, _ in expected})
        for item in found:
            places = [[x, y] for q, x, y in expected if q == item.remote]
            assert item.copied.expand().tolist() == places, (a, b, p, item)
            assert item.first == index[places[0][0]]
            assert item.start_a.flags.c_contiguous
            lengths[p, item.remote] = len(places)
    graph = schedules.between(a.axis, b.axis)
    assert graph.lengths.tolist() == lengths.tolist()
    assert graph.columns(np.arange(b.axis.processes)).tolist() == lengths.tolist()


@pytest.mark.parametrize("kinds", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("number", FEW_OR_MANY)
def test_shared_elements_by_brute_force(number: int, kinds: tuple[bool, bool]) -> None:
    for a, b in pairs(number, kinds):
        check_shared(a, b)


@pytest.mark.parametrize("n", [7, 50, 3000])
def test_few_runs_among_many_processes(n: int) -> None:
    """Fewer runs than processes of the other axis, which come round its end: sorted in another way than many runs are."""
    a, b = BlockCyclic(n, 25, 2, offset=3), BlockCyclic(n, 3, 1000, source=998, offset=4)
    check_shared(deal_axis(a), deal_axis(b))


@pytest.mark.parametrize("number", FEW_OR_MANY)
def test_families_are_the_runs_of_aspen(number: int) -> None:
    fewer = 0
    for (a, _), (b, _) in pairs(number):
        for p in range(a.processes):
            runs = intersections.find("aspen", a, b, p)
            found = families(intersections.ALGORITHMS["aspen"].window(a, b), numbers(a), numbers(b), p)
            written = [
                (q, x + k * dx, y + k * dy, n) for q, x, y, n, dx, dy, count in found.T.tolist() for k in range(count)
            ]
            expected = list(zip(runs.remote, runs.start_a, runs.start_b, runs.length, strict=True))
            assert sorted(written, key=lambda run: run[1]) == expected, (a, b, p)
            fewer += found.shape[1] < len(expected)
    assert fewer > number / 10


N = 10**12 + 5


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (BlockCyclic(N, 1, 2), BlockCyclic(N, -(-N // 2), 2)),
        (BlockCyclic(N, 2, 3), BlockCyclic(N, -(-N // 4), 4)),
        (BlockCyclic(N, 7, 5), BlockCyclic(N, -(-N // 3), 3)),
        (BlockCyclic(N, 1, 5), Irregular(N, balanced(N, 4), 4)),
        (BlockCyclic(N, 7, 3), Irregular(N, balanced(N, 4), 4)),
    ],
)
def test_small_blocks_and_one_block_for_each_process_take_no_memory(a: BlockCyclic, b: BlockCyclic | Irregular) -> None:
    """10^12 elements: two runs for each pair of processes, where a list of them would fill any machine."""
    for own, other in ((a, b), (b, a)):
        for p in range(own.processes):
            found = list(by_process(own, other, p))
            assert sum(item.total for item in found) == own.local_size(p)
            for item in found:
                assert len(item.length) <= 2
                periods, rest = divmod(item.total - 1, int(item.length.sum()))
                at = int(rest >= item.length[0])
                within = rest - at * int(item.length[0])
                x = item.start_a[at] + periods * item.period_a + within
                y = item.start_b[at] + periods * item.period_b + within
                for place, place_b in ((item.start_a[0], item.start_b[0]), (x, y)):  # the first and the last element
                    i = own.global_index(p, int(place))
                    assert (other.owner(i), other.local_index(i)) == (item.remote, place_b)


def test_work_follows_irregular_blocks() -> None:
    """Families, as many as the docstring says: none for each element, and few where another process has many blocks."""
    n, rng = 10**9, np.random.default_rng(4)
    cuts = np.sort(rng.integers(0, n, 999))
    irregular = Irregular(n, Blocks(np.diff(cuts, prepend=0, append=n), np.arange(1000) % 4), 4)
    cyclic = BlockCyclic(n, 3, 8)
    assert len(families_of(irregular, cyclic, 1).remote) <= 250 * (8 + 2)
    assert len(families_of(cyclic, irregular, 1).remote) <= 3 * 1000
    few = Irregular(n, Blocks([n - 10, 4, 6], [0, 1, 0]), 2)
    assert len(families_of(few, irregular, 1).remote) <= 3
