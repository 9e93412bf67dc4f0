"""Index arithmetic against blocks dealt out one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import deal

from pyscalapack_redist import BlockCyclic, DescriptorError

AXES = st.tuples(st.integers(0, 80), st.integers(1, 12), st.integers(1, 7), st.integers(0, 6), st.integers(0, 20)).map(
    lambda t: BlockCyclic(t[0], t[1], t[2], t[3] % t[2], t[4])
)


@given(AXES)
def test_every_function_agrees_with_dealing(axis: BlockCyclic) -> None:
    held = deal(axis.n + axis.offset, axis.block, axis.processes, axis.source)
    for p, whole in enumerate(held):
        mine = [g - axis.offset for g in whole if g >= axis.offset]
        skipped = len(whole) - len(mine)
        assert axis.local_size(p) == len(mine)
        assert axis.local_start(p) == skipped
        assert axis.global_indices(p).tolist() == mine
        for local, g in enumerate(mine, start=skipped):
            assert axis.owner(g) == p
            assert axis.local_index(g) == local
            assert axis.global_index(p, local) == g


@given(AXES)
def test_arrays_and_scalars_agree(axis: BlockCyclic) -> None:
    every = np.arange(axis.n)
    assert axis.owner(every).tolist() == [axis.owner(i) for i in range(axis.n)]
    assert axis.local_index(every).tolist() == [axis.local_index(i) for i in range(axis.n)]
    assert axis.owner(every).dtype == np.int64


@given(AXES)
def test_every_element_has_one_place(axis: BlockCyclic) -> None:
    assert sorted(g for p in range(axis.processes) for g in axis.global_indices(p)) == list(range(axis.n))
    assert axis.stride == axis.block * axis.processes


def test_indices_beyond_32_bits() -> None:
    axis = BlockCyclic(10**15, 64, 1024, 3)
    i = 10**15 - 1
    p, local = axis.owner(i), axis.local_index(i)
    assert axis.global_index(p, local) == i
    assert sum(axis.local_size(p) for p in range(1024)) == 10**15


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-1, 1, 1), "n = -1 must be at least 0"),
        ((4, 0, 1), "block = 0 must be at least 1"),
        ((4, -2, 1), "block = -2 must be at least 1"),
        ((4, 2, 0), "processes = 0 must be at least 1"),
        ((4, 2, 3, 3), "source = 3 is outside the grid: along a dimension of 3 processes it must be 0 to 2"),
        ((4, 2, 3, -1), "source = -1 must be at least 0"),
        ((4, 2, 3, 0, -1), "offset = -1 must be at least 0"),
        ((4.5, 2, 3), "n = 4.5 must be an integer"),
        ((2**70, 2, 3), "must be at most 2\\*\\*62"),
    ],
)
def test_what_cannot_be_is_named(arguments: tuple[int, ...], words: str) -> None:
    with pytest.raises(DescriptorError, match=words):
        BlockCyclic(*arguments)


def test_indices_outside_are_refused() -> None:
    axis = BlockCyclic(10, 2, 2)
    for call in (lambda: axis.owner(10), lambda: axis.local_index(-1), lambda: axis.owner(np.array([3, 10]))):
        with pytest.raises(IndexError, match="outside 0 <= index < 10"):
            call()
    with pytest.raises(IndexError, match="local index 6 on process 1 is outside"):
        axis.global_index(1, 6)
    with pytest.raises(IndexError, match="process 2 is outside"):
        axis.local_size(2)
