"""Who owns what, on paper: ranks of elements and blocks against a list of every element, and what has no meaning there."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pyscalapack_redist import Blocks, Descriptor, DescriptorError, ProcessGrid

SQUARE = ProcessGrid((2, 2), ranks=[[5, 0], [7, 2]])
LAYOUTS = {
    "small": Descriptor((5, 7), (2, 3), ProcessGrid((2, 3))),
    "one row": Descriptor((1, 9), (4, 1), SQUARE, source=(1, 1)),
    "blocks larger than the array": Descriptor((3, 4), (8, 9), SQUARE, source=(0, 1)),
    "one dimension": Descriptor((13,), (2,), ProcessGrid((4,), ranks=[3, 1, 0, 2])),
    "three dimensions": Descriptor((4, 5, 6), (1, 2, None), ProcessGrid((2, 2, 3)), source=(1, 0, 2)),
    "axes": Descriptor((4, 5, 6), (1, 2, 3), ProcessGrid((2, 3)), axes=(None, 1, 0)),
    "irregular": Descriptor((20, 11), (Blocks([3, 10, 7], [1, 0, 1]), "balanced"), ProcessGrid((2, 3))),
    "sub-array": Descriptor((20, 15), (4, 3), SQUARE, source=(1, 0))[3:18, 5:6],
    "irregular sub-array": Descriptor((20, 11), (Blocks([3, 10, 7], [1, 0, 1]), 2), ProcessGrid((2, 3)))[5:15, 1:],
    "transpose": Descriptor((20, 15), (4, 3), ProcessGrid((2, 3), order="column")).T,
    "empty": Descriptor((0, 5), (2, 2), SQUARE),
}


def held(desc: Descriptor) -> NDArray[np.int64]:
    """The rank of each element, from what every process says that it holds."""
    found = np.full(desc.shape, -1)
    for coords in itertools.product(*map(range, desc.grid.shape)):
        mesh = np.ix_(*(desc.global_indices(k, coords) for k in range(desc.ndim)))
        assert (found[mesh] == -1).all()
        found[mesh] = desc.grid.rank_of(coords)
    return found


@pytest.mark.parametrize("name", LAYOUTS)
def test_owners_are_those_who_hold_the_elements(name: str) -> None:
    desc = LAYOUTS[name]
    whole = held(desc)
    assert (whole >= 0).all()
    assert np.array_equal(desc.owner_map(), whole)
    assert np.array_equal(desc.owner(*np.ogrid[tuple(slice(n) for n in desc.shape)]), whole)
    for index in itertools.islice(np.ndindex(desc.shape), 0, None, 7):
        rank = desc.owner(*index)
        assert isinstance(rank, int)
        assert rank == whole[index]
    edges = [desc.block_edges(k) for k in range(desc.ndim)]
    blocks = desc.owner_map(blocks=True)
    assert blocks.shape == tuple(len(some) - 1 for some in edges)
    for some, n in zip(edges, desc.shape, strict=True):
        assert (some[0], some[-1]) == (0, n)
        assert (np.diff(some) > 0).all()
    spread = blocks
    for k, some in enumerate(edges):
        spread = np.repeat(spread, np.diff(some), axis=k)
    assert np.array_equal(spread, whole)


@given(n=st.integers(0, 40), block=st.integers(1, 9), processes=st.integers(1, 5), data=st.data())
def test_block_edges_of_any_part(n: int, block: int, processes: int, data: Any) -> None:
    start = data.draw(st.integers(0, n))
    end = data.draw(st.integers(start, n))
    axis = Descriptor((n,), (block,), ProcessGrid((processes,)))[start:end].distributions[0]
    expected = [0, *(i - start for i in range(start + 1, end) if i % block == 0), end - start]
    expected = expected if end > start else [0]
    assert axis.block_edges().tolist() == expected
    assert axis.number_of_blocks == len(expected) - 1
    assert axis.block_edges(2).tolist() == expected[:3]


def test_what_is_no_index() -> None:
    desc = LAYOUTS["small"]
    assert desc.owner([0, 4], 3).tolist() == [1, 1]
    with pytest.raises(DescriptorError, match=r"owner\(\) got 1 indices: the array has 2 dimensions"):
        desc.owner(3)
    with pytest.raises(
        DescriptorError, match=r"index 1 = 7 is outside the array: along dimension 1 indices are 0 to 6"
    ):
        desc.owner(0, 7)
    with pytest.raises(DescriptorError, match=r"index 0 = -1 is outside"):
        desc.owner(-1, 0)
    with pytest.raises(DescriptorError, match=r"index 0 = 1.5 must be an integer"):
        desc.owner(1.5, 0)  # type: ignore[call-overload]
    with pytest.raises(DescriptorError, match=r"coords = \(2, 0\) are outside"):
        desc.global_indices(0, (2, 0))


def test_a_map_that_is_too_large_names_the_remedy() -> None:
    large = Descriptor((10**6, 10**6), (1, 64), ProcessGrid((32, 32)))
    with pytest.raises(DescriptorError, match=r"1000000 x 1000000 elements .* take owner_map\(blocks=True\)"):
        large.owner_map()
    with pytest.raises(DescriptorError, match=r"1000000 x 15625 blocks .* take a sub-array"):
        large.owner_map(blocks=True)
    assert large.owner(10**6 - 1, 10**6 - 1) == large[10**6 - 1 :, 10**6 - 1 :].owner_map()[0, 0]


@pytest.mark.parametrize("dim", [2, -3, 1.5, None])
def test_a_dimension_must_be_one_of_the_array(dim: Any) -> None:
    desc = Descriptor((6, 6), (2, 2), SQUARE)
    for ask in desc.block_edges, lambda dim: desc.global_indices(dim, (0, 0)):
        with pytest.raises(DescriptorError, match=rf"dim = {dim} must be a dimension of the array, 0 to 1"):
            ask(dim)
    assert desc.block_edges(-1).tolist() == desc.block_edges(1).tolist() == [0, 2, 4, 6]


def test_what_means_nothing_on_paper_raises() -> None:
    desc = Descriptor((6, 6), (2, 2), SQUARE)
    assert desc.local_shape_of((0, 1)) == (4, 2)
    for ask in (
        lambda: desc.local_shape,
        lambda: desc.lld,
        lambda: desc.zeros(),
        lambda: desc.empty(),
        lambda: desc.from_function(lambda i, j: i),
        lambda: desc.global_indices(0),
    ):
        with pytest.raises(
            DescriptorError, match=r"is on paper, where no rank has .*; or give its grid a communicator"
        ):
            ask()
    assert Descriptor((6, 6), (2, 2), SQUARE, lld=9).lld == 9
