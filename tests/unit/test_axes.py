"""Index arithmetic of axes, block-cyclic and irregular, against blocks dealt out one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from axes import random_axis, random_number
from hypothesis import given
from hypothesis import strategies as st

from pyscalapack_redist import BlockCyclic, Blocks, DescriptorError
from pyscalapack_redist.intersections.runs import by_process
from pyscalapack_redist.layout.axis import Irregular, balanced

SEVEN = Irregular(7, Blocks([4, 3]), 4)


@given(st.integers(0, 2**32), st.booleans())
def test_every_function_agrees_with_dealing(seed: int, irregular: bool) -> None:
    rng = np.random.default_rng(seed)
    axis, held = random_axis(rng, random_number(rng), irregular)
    owners, places = np.full(axis.n, -1), np.full(axis.n, -1)
    for p, elements in enumerate(held):
        assert axis.local_size(p) == len(elements)
        assert not elements or axis.local_start(p) == elements[0][0]
        assert axis.global_indices(p).tolist() == [i for _, i in elements]
        for local, i in elements:
            assert (axis.owner(i), axis.local_index(i), axis.global_index(p, local)) == (p, local, i)
            owners[i], places[i] = p, local
    every = np.arange(axis.n)
    assert axis.owner(every).tolist() == owners.tolist()
    assert axis.local_index(every).tolist() == places.tolist()
    assert axis.owner(every).dtype == np.int64
    assert (owners >= 0).all()
    if isinstance(axis, BlockCyclic):
        assert axis.stride == axis.block * axis.processes
        edges = [0, *(i for i in range(1, axis.n) if (i + axis.offset) % axis.block == 0), axis.n] if axis.n else [0]
        assert axis.block_edges().tolist() == edges
        assert axis.block_edges(2).tolist() == edges[:3]
        assert axis.number_of_blocks == len(edges) - 1


@given(st.integers(0, 60), st.integers(1, 9))
def test_balanced_sizes_are_those_of_array_split(n: int, processes: int) -> None:
    axis = Irregular(n, balanced(n, processes), processes)
    assert [axis.local_size(p) for p in range(processes)] == [len(part) for part in np.array_split(range(n), processes)]


def test_indices_beyond_32_bits() -> None:
    cyclic = BlockCyclic(10**15, 64, 1024, 3)
    i = 10**15 - 1
    assert cyclic.global_index(cyclic.owner(i), cyclic.local_index(i)) == i
    assert sum(cyclic.local_size(p) for p in range(1024)) == 10**15
    n = 2**62
    axis = Irregular(n, Blocks([n - 5, 5], [1, 0]), 2)
    assert (axis.owner(n - 1), axis.local_index(n - 1), axis.global_index(0, 4)) == (0, 4, n - 1)
    whole = BlockCyclic(n, n, 3)
    assert [(shared.remote, shared.total) for shared in by_process(whole, axis, 0)] == [(0, 5), (1, n - 5)]
    assert [(shared.remote, shared.total) for shared in by_process(axis, whole, 1)] == [(0, n - 5)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-1, 1, 1), "n = -1 must be at least 0"),
        ((4, 0, 1), "block = 0 must be at least 1"),
        ((4, 2, 0), "processes = 0 must be at least 1"),
        ((4, 2, 3, 3), "source = 3 is outside the grid: along a dimension of 3 processes it must be 0 to 2"),
        ((4, 2, 3, -1), "source = -1 must be at least 0"),
        ((4, 2, 3, 0, -1), "offset = -1 must be at least 0"),
        ((4.5, 2, 3), "n = 4.5 must be an integer"),
        ((2**70, 2, 3), r"must be at most 2\*\*62"),
    ],
)
def test_what_is_no_axis(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(DescriptorError, match=words):
        BlockCyclic(*arguments)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: BlockCyclic(10, 2, 2).owner(10), "index 10 is outside 0 <= index < 10"),
        (lambda: BlockCyclic(10, 2, 2).local_index(-1), "outside 0 <= index < 10"),
        (lambda: BlockCyclic(10, 2, 2).owner(np.array([3, 10])), "outside 0 <= index < 10"),
        (lambda: BlockCyclic(10, 2, 2).global_index(1, 6), "local index 6 on process 1 is outside"),
        (lambda: BlockCyclic(10, 2, 2).local_size(2), "process 2 is outside"),
        (lambda: SEVEN.owner(7), "index 7 is outside 0 <= index < 7"),
        (lambda: SEVEN.local_index(np.array([0, -1])), "is outside 0 <= index < 7"),
        (lambda: SEVEN.global_index(1, 3), "local index 3 on process 1 is outside 0 <= index < 3"),
        (lambda: SEVEN.local_size(4), "process 4 is outside 0 <= p < 4"),
        (lambda: SEVEN.intervals(-1), "process -1 is outside 0 <= p < 4"),
        (lambda: by_process(SEVEN, SEVEN, 4), "process 4 is outside 0 <= p < 4"),
        (lambda: by_process(BlockCyclic(7, 1, 2), SEVEN, 2), "process 2 is outside 0 <= p < 2"),
        (lambda: by_process(BlockCyclic(7, 2, 3), BlockCyclic(7, 2, 3), -1), "process -1 is outside 0 <= p < 3"),
    ],
)
def test_what_is_not_there(call: Any, words: str) -> None:
    with pytest.raises(IndexError, match=words):
        call()
