"""Irregular blocks: index arithmetic and what processes share, by brute force; descriptors, and what refuses them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import deal, random_irregular

from pyscalapack_redist import (
    BlockCyclic,
    Blocks,
    Descriptor,
    DescriptorError,
    ProcessGrid,
    ScheduleError,
    intersections,
    schedules,
)
from pyscalapack_redist.engine.waypoints import waypoints
from pyscalapack_redist.intersections.by_process import by_process
from pyscalapack_redist.intersections.irregular import families_of
from pyscalapack_redist.layout.irregular import Irregular, balanced
from pyscalapack_redist.scalapack.operands import factorable_size

SEEDS = st.integers(0, 2**32 - 1)
GRID = ProcessGrid((2, 3))
WITHOUT_CONDITIONS = [name for name in schedules.NAMES if name not in ("walker-otto", "phases", "classes")]

Axis = BlockCyclic | Irregular
Held = list[list[int]]


def drawn(rng: np.random.Generator, n: int, irregular: bool) -> tuple[Axis, Held]:
    """An axis, of a larger array perhaps, and the elements of the larger array that each process holds."""
    processes, offset = int(rng.choice((1, 2, 3, 4, 7))), int(rng.integers(0, 12)) * int(rng.integers(0, 2))
    if not irregular:
        block, source = int(rng.choice((1, 2, 3, 5, 8, 30, 1000))), int(rng.integers(processes))
        return BlockCyclic(n, block, processes, source, offset), deal(n + offset, block, processes, source)
    whole = n + offset + int(rng.integers(0, 6))
    sizes, owners = random_irregular(rng, whole, processes)
    return Irregular(n, Blocks(sizes, owners), processes, offset), deal(whole, (sizes, owners), processes)


def inside(axis: Axis, held: list[int]) -> list[tuple[int, int]]:
    """Local index in the larger array, and index, of the elements that are in the axis."""
    return [(x, i - axis.offset) for x, i in enumerate(held) if 0 <= i - axis.offset < axis.n]


# -- index arithmetic


@settings(max_examples=200, deadline=None)
@given(SEEDS, st.integers(0, 80))
def test_every_function_agrees_with_dealing(seed: int, n: int) -> None:
    axis, held = drawn(np.random.default_rng(seed), n, True)
    found = []
    for p, whole in enumerate(held):
        mine = inside(axis, whole)
        assert axis.local_size(p) == len(mine)
        assert not mine or axis.local_start(p) == mine[0][0]
        assert axis.global_indices(p).tolist() == [i for _, i in mine]
        for local, i in mine:
            assert (axis.owner(i), axis.local_index(i), axis.global_index(p, local)) == (p, local, i)
            found.append(i)
    assert sorted(found) == list(range(n))
    every = np.arange(n)
    assert axis.owner(every).tolist() == [axis.owner(i) for i in range(n)]
    assert axis.local_index(every).tolist() == [axis.local_index(i) for i in range(n)]


@given(st.integers(0, 60), st.integers(1, 9))
def test_balanced_sizes_are_those_of_array_split(n: int, processes: int) -> None:
    axis = Irregular(n, balanced(n, processes), processes)
    assert [axis.local_size(p) for p in range(processes)] == [len(part) for part in np.array_split(range(n), processes)]


def test_indices_beyond_32_bits() -> None:
    n = 2**62
    axis = Irregular(n, Blocks([n - 5, 5], [1, 0]), 2)
    assert (axis.owner(n - 1), axis.local_index(n - 1), axis.global_index(0, 4)) == (0, 4, n - 1)
    whole = BlockCyclic(n, n, 3)
    assert [(shared.remote, shared.total) for shared in by_process(whole, axis, 0)] == [(0, 5), (1, n - 5)]
    assert [(shared.remote, shared.total) for shared in by_process(axis, whole, 1)] == [(0, n - 5)]


@pytest.mark.parametrize(("call", "text"), [
    (lambda axis: axis.owner(7), "index 7 is outside 0 <= index < 7"),
    (lambda axis: axis.local_index(np.array([0, -1])), "is outside 0 <= index < 7"),
    (lambda axis: axis.global_index(1, 3), "local index 3 on process 1 is outside 0 <= index < 3"),
    (lambda axis: axis.local_size(4), "process 4 is outside 0 <= p < 4"),
    (lambda axis: axis.intervals(-1), "process -1 is outside 0 <= p < 4"),
    (lambda axis: by_process(axis, axis, 4), "process 4 is outside 0 <= p < 4"),
    (lambda axis: by_process(BlockCyclic(7, 1, 2), axis, 2), "process 2 is outside 0 <= p < 2"),
])  # fmt: skip
def test_what_is_not_there(call: Any, text: str) -> None:
    with pytest.raises(IndexError, match=text):
        call(Irregular(7, Blocks([4, 3]), 4))


# -- what two processes share


@settings(max_examples=400, deadline=None)
@given(SEEDS, st.integers(0, 90), st.sampled_from([(True, True), (True, False), (False, True)]))
def test_shared_elements_against_brute_force(seed: int, n: int, kinds: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(seed)
    (a, held_a), (b, held_b) = (drawn(rng, n, irregular) for irregular in kinds)
    where = {i: (q, y) for q, whole in enumerate(held_b) for y, i in inside(b, whole)}
    lengths = np.zeros((a.processes, b.processes), int)
    for p, whole in enumerate(held_a):
        expected: dict[int, list[tuple[int, int]]] = {}
        first: dict[int, int] = {}
        for x, i in inside(a, whole):
            q, y = where[i]
            expected.setdefault(q, []).append((x, y))
            first.setdefault(q, i)
            lengths[p, q] += 1
        found = {}
        for shared in by_process(a, b, p):
            once = int(shared.length.sum())
            runs = [
                (x + k, y + k)
                for x, y, m in zip(shared.start_a, shared.start_b, shared.length, strict=True)
                for k in range(m)
            ]
            times = range(-(-shared.total // once))
            found[shared.remote] = [(x + k * shared.period_a, y + k * shared.period_b) for k in times for x, y in runs][
                : shared.total
            ]
            assert shared.first == first[shared.remote]
        assert found == expected
        assert list(found) == sorted(found)
    graph = schedules.between(a, b)
    assert graph.lengths.tolist() == lengths.tolist()
    assert graph.columns(np.arange(b.processes)).tolist() == lengths.tolist()


@pytest.mark.parametrize(("block", "processes"), [(1, 5), (7, 3)])
def test_one_block_for_each_process_and_small_blocks_take_no_memory(block: int, processes: int) -> None:
    """10^12 elements: two runs for each pair of processes, where a list of them would fill any machine."""
    n = 10**12 + 5
    a, b = Irregular(n, balanced(n, 4), 4), BlockCyclic(n, block, processes)
    for x, y in ((a, b), (b, a)):
        for p in range(x.processes):
            found = by_process(x, y, p)
            assert all(len(shared.length) <= 2 for shared in found)
            assert sum(shared.total for shared in found) == x.local_size(p)


def test_work_follows_the_blocks() -> None:
    """Families, as many as the docstring says: none for each element, and few where another process has many blocks."""
    n, rng = 10**9, np.random.default_rng(4)
    cuts = np.sort(rng.integers(0, n, 999))
    irregular = Irregular(n, Blocks(np.diff(cuts, prepend=0, append=n), np.arange(1000) % 4), 4)
    cyclic = BlockCyclic(n, 3, 8)
    assert len(families_of(irregular, cyclic, 1).remote) <= 250 * (8 + 2)
    assert len(families_of(cyclic, irregular, 1).remote) <= 3 * 1000
    few = Irregular(n, Blocks([n - 10, 4, 6], [0, 1, 0]), 2)
    assert len(families_of(few, irregular, 1).remote) <= 3


def test_named_algorithms_are_for_block_cyclic_axes() -> None:
    axis = Irregular(7, Blocks([4, 3]), 2)
    for pair in ((axis, BlockCyclic(7, 2, 2)), (BlockCyclic(7, 2, 2), axis)):
        with pytest.raises(DescriptorError, match=r"= Irregular.*two block-cyclic axes; schedules.between"):
            intersections.find("aspen", *pair, 0)  # type: ignore[arg-type]


# -- schedules


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(0, 60), st.sampled_from(WITHOUT_CONDITIONS))
def test_every_schedule_of_a_general_graph(seed: int, n: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    graph = schedules.between(drawn(rng, n, True)[0], drawn(rng, n, bool(rng.integers(2)))[0])
    made = schedules.build(name, graph)
    made.validate()
    for p in range(graph.P):
        sent = np.zeros(graph.Q, np.int64)
        for _, q, length in made.of_sender(p):
            sent[q] += length  # "preemptive" cuts messages
        assert sent.tolist() == graph.lengths[p].tolist()
    if name == "natural":
        firsts = graph.first_elements(np.arange(graph.P))
        for p in range(graph.P):
            assert made.of_sender(p)[:, 1].tolist() == np.argsort(firsts[p])[: len(made.of_sender(p))].tolist()


def test_schedules_with_conditions_say_what_to_use() -> None:
    a = Descriptor((9,), ("balanced",), ProcessGrid((2,)))
    b = Descriptor((9,), (1,), ProcessGrid((3,)))
    for name in ("walker-otto", "phases", "classes"):
        with pytest.raises(ScheduleError, match=r"needs a CommunicationGrid of one dimension; use stepwise or optimal"):
            schedules.build(name, schedules.between(*a.distributions, *b.distributions))
    with pytest.raises(ScheduleError, match=r"a.n = 9 and b.n = 8 must be equal"):
        schedules.between(a.distributions[0], BlockCyclic(8, 1, 3))
    with pytest.raises(ScheduleError, match=r"via = 'lcm' is for blocks of one size, but dimension 0 of desc_a"):
        waypoints(a, b, "lcm")
    with pytest.raises(ScheduleError, match="dimension 0 of desc_b"):
        waypoints(b, a, "lcm")


# -- descriptors


def test_a_descriptor_of_mixed_dimensions() -> None:
    desc = Descriptor((25, 10, 7), ("balanced", None, Blocks([3, 0, 1, 3], [1, 0, 0, 1])), GRID, axes=(0, None, 1))
    assert desc.local_shape_of((0, 1)) == (13, 10, 6)
    assert desc.local_shape_of((1, 0)) == (12, 10, 1)
    assert desc.local_shape_of((1, 2)) == (12, 10, 0)
    assert desc.block == (Blocks([13, 12]), 10, Blocks([3, 1, 3], [1, 0, 1]))
    assert desc.source == (0, 0, 0)
    assert Descriptor(desc.shape, desc.block, GRID, axes=desc.axes) == desc
    assert Descriptor((6, 6), "balanced", GRID).block == (Blocks([3, 3]), Blocks([2, 2, 2]))
    assert Descriptor((4, 4), Blocks([1, 3]), GRID).local_shape_of((1, 1)) == (3, 3)
    assert repr(desc).startswith("Descriptor(25 x 10 x 7, blocks Blocks([13, 12]) x 10 x Blocks([3, 1, 3], [1, 0, 1])")


def test_equality_covers_sizes_and_owners() -> None:
    grid = ProcessGrid((3,))

    def made(*blocks: Any) -> Descriptor:
        return Descriptor((9,), (Blocks(*blocks),), grid)

    first = made([4, 2, 3], [0, 1, 0])
    same = made([1, 0, 3, 2, 0, 3], [0, 2, 0, 1, 2, 0])
    assert (first, hash(first), first.layout_digest) == (same, hash(same), same.layout_digest)
    for other in (made([4, 3, 2], [0, 1, 0]), made([4, 2, 3], [0, 1, 2]), Descriptor((9,), (3,), grid)):
        assert first != other
        assert first.layout_digest != other.layout_digest
    assert first[1:5] == same[1:5] != first[1:6]
    many = [Blocks([1] * 400, np.arange(400) % 3), Blocks([1] * 400, np.arange(1, 401) % 3)]
    assert many[0] != many[1]
    assert repr(many[0]) != repr(many[1])
    long = [Descriptor((400,), (blocks,), grid).layout_digest for blocks in many]
    assert long[0] != long[1]


def test_a_descriptor_is_sent_to_ranks_that_do_not_know_it() -> None:
    whole = Descriptor((40, 30), (Blocks([20, 11, 9], [1, 0, 1]), 4), GRID, source=(0, 2))
    for desc in (whole, whole[3:35, 2:]):
        shape, ranks, axes, *distributions = pickle.loads(pickle.dumps(desc._packed()))
        assert distributions == [whole.distributions, desc.distributions]
        assert Descriptor._of(distributions[0], axes, ProcessGrid(shape, ranks=ranks)) == whole


def test_sub_arrays_and_transposes() -> None:
    desc = Descriptor((40, 30), (Blocks([20, 11, 9], [1, 0, 1]), "balanced"), GRID)
    part = desc[18:33, 5:]
    assert part.parent is desc
    assert part.distributions[0].global_indices(1).tolist() == [0, 1, 13, 14]
    assert part.distributions[0].local_start(1) == 18
    assert part.distributions[0].block == Blocks([2, 11, 2], [1, 0, 1])
    assert part[2:] == desc[20:33, 5:]
    assert desc.T[5:, 18:33] == part.T
    assert desc == desc.T.T


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(1, 12), st.integers(1, 12), st.booleans(), st.booleans())
def test_merged_dimensions(seed: int, m: int, n: int, first: bool, fortran: bool) -> None:
    rng, order = np.random.default_rng(seed), "F" if fortran else "C"
    sizes, owners = random_irregular(rng, m if first else n, 3)
    block = (Blocks(sizes, owners), None) if first else (None, Blocks(sizes, owners))
    desc = Descriptor((m, n), block, ProcessGrid((3,)), axes=(0, None) if first else (None, 0))
    merged = desc.merge(0, 1, order=order)
    whole = np.arange(m * n).reshape((m, n), order=order)  # type: ignore[call-overload]
    for p in range(3):
        coords = (p, 0) if first else (0, p)
        local = whole[np.ix_(*(axis.global_indices(c) for axis, c in zip(desc.distributions, coords, strict=True)))]
        assert merged.distributions[0].global_indices(p).tolist() == local.ravel(order).tolist()


def test_two_distributed_dimensions_are_not_merged() -> None:
    for block in (("balanced", 1), (2, "balanced")):
        with pytest.raises(DescriptorError, match="both are distributed"):
            Descriptor((4, 6), block, GRID).merge(0, 1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Blocks(3), "sizes = 3 must be a sequence of integers of at least 0: elements in a block"),
        (lambda: Blocks([1, -2]), "sizes[1] = -2 must be at least 0: elements in a block"),
        (lambda: Blocks(np.array([1, -2])), "sizes[1] = -2 must be at least 0"),
        (lambda: Blocks([1, 2.5]), "sizes[1] = 2.5 must be an integer of at least 0"),
        (lambda: Blocks(np.array([1.0])), "must be an integer of at least 0"),
        (lambda: Blocks([2**61, 2**61, 2**61]), "sizes must sum to at most 2**62"),
        (lambda: Blocks([1, 2], [0]), "owners has 1 entries and sizes 2: give the process of each block"),
        (lambda: Blocks([1, 2], [0, -1]), "owners[1] = -1 must be at least 0: a process coordinate"),
        (
            lambda: Descriptor((7, 4), (Blocks([3, 3]), 2), GRID),
            "block[0] = Blocks([3, 3]): the sizes sum to 6, but shape[0] = 7: they must sum to that",
        ),
        (
            lambda: Descriptor((7, 4), (Blocks([3, 3, 1]), 2), GRID),
            "block[0] = Blocks([3, 3, 1]): owners has 2, but its dimension has 2 processes: each must be 0 to 1; by default "
            "there is one block for each process",
        ),
        (
            lambda: Descriptor((7, 4), ("balanced", 2), GRID, source=1),
            "source[0] = 1 is for blocks of one size: with block[0] = Blocks([4, 3]) it must be 0; name the processes by "
            "Blocks(sizes, owners)",
        ),
        (
            lambda: Descriptor((7, 4), ("even", 2), GRID),
            "block[0] = 'even' must be an integer of at least 1, None (one block per process), 'balanced' (the same in sizes "
            "that differ by one at most), or Blocks(sizes, owners)",
        ),
        (
            lambda: Descriptor((7, 4), (2, "balanced"), GRID).to_array(),
            "dimension 1 has irregular blocks, Blocks([2, 1, 1]), and a ScaLAPACK descriptor one block size: redistribute to a "
            "Descriptor with a block size first",
        ),
        (lambda: np.asarray(Descriptor((7, 4), (2, "balanced"), GRID)), "dimension 1 has irregular blocks"),
        (lambda: factorable_size(Descriptor((6, 6), "balanced", GRID)), "dimension 0 has irregular blocks"),
        (lambda: Irregular(5, Blocks([3]), 1, 1), "sizes sum to 3, but 5 elements from 1 on are asked for"),
    ],
)
def test_what_cannot_be_is_named(make: Any, text: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        make()
    assert text in str(caught.value)
