"""Layouts on the way, on paper: one grid dimension moves in each leg, and every process keeps a part."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscalapack_redist import Descriptor, ProcessGrid, ScheduleError
from pyscalapack_redist.layout.waypoints import waypoints


@given(st.integers(0, 2**32 - 1))
def test_with_copies_one_grid_dimension_enters_or_leaves_in_each_leg(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = rng.integers(2, 4, int(rng.integers(1, 4)))
    grid = ProcessGrid(shape)
    ndim = int(rng.integers(1, 5))

    def drawn() -> Descriptor:
        some = [int(k) for k in rng.permutation(grid.ndim)][: int(rng.integers(0, min(ndim, grid.ndim) + 1))]
        axes = rng.permutation(np.array([*some, *[-1] * (ndim - len(some))]))
        return Descriptor((7,) * ndim, None, grid, axes=[None if k < 0 else int(k) for k in axes])

    a, b = drawn(), drawn()
    stops = [a, *waypoints(a, b, "dimensions"), b]
    states = [stop.axes for stop in stops]
    at_once = any(_moved(x, y) > 1 for x, y in itertools.pairwise(states))
    assert not at_once or all(axis is not None for axis in states[-2]), states  # all wait for one another
    assert len(set(states)) == len(states) or len(states) == 2, states
    assert max(stop.copies for stop in stops) <= grid.size
    unmoved = {k for k in range(grid.ndim) if all(_place(k, state) == _place(k, states[0]) for state in states)}
    assert unmoved >= {
        k for k in range(grid.ndim) if _place(k, a.axes) == _place(k, b.axes) and _place(k, a.axes) is None
    }


def _place(k: int, axes: tuple[int | None, ...]) -> int | None:
    return axes.index(k) if k in axes else None


def _moved(before: tuple[int | None, ...], after: tuple[int | None, ...]) -> int:
    """Grid dimensions that are elsewhere."""
    return sum(_place(k, before) != _place(k, after) for k in {*before, *after} - {None})


def test_the_way_of_the_paper() -> None:
    grid = ProcessGrid((2, 3))
    a = Descriptor((6, 6, 6, 6), None, grid, axes=(0, 1, None, None))
    b = Descriptor((6, 6, 6, 6), (2, 1, 3, 2), grid, axes=(None, None, 0, 1))  # other blocks take no leg of their own
    assert [stop.axes for stop in waypoints(a, b, "dimensions")] == [(None, 1, 0, None)]
    swapped = Descriptor((6, 6, 6, 6), (2, 1, 3, 2), grid, axes=(1, 0, None, None))
    aside = waypoints(a, swapped, "dimensions")
    assert len(aside) == 2  # one steps aside
    assert [stop.copies for stop in aside] == [1, 1]
    turned = ProcessGrid((3, 2), ranks=grid.ranks.T)  # the same processes, and nothing moves but one dimension
    b = Descriptor((6, 6, 6, 6), None, turned, axes=(1, None, 0, None))
    assert waypoints(a, b, "dimensions") == []
    flat = [Descriptor((6, 6), None, grid, axes=axes) for axes in ((0, 1), (1, 0))]
    assert waypoints(*flat, "dimensions") == []  # there is nowhere to step


SQUARE = Descriptor((6, 6), None, ProcessGrid((2, 3)))
BALANCED, CYCLIC = Descriptor((9,), ("balanced",), ProcessGrid((2,))), Descriptor((9,), (1,), ProcessGrid((3,)))


@pytest.mark.parametrize(
    ("a", "b", "via", "words"),
    [
        (SQUARE, SQUARE, "sideways", "via = 'sideways' must be None, 'dimensions', 'lcm', 'gcd', or a list of Descr"),
        (SQUARE, SQUARE, [SQUARE[1:]], r"via\[0\] = .* must be the Descriptor of a whole array"),
        (
            SQUARE,
            SQUARE,
            [Descriptor((6, 5), None, ProcessGrid((2, 3)))],
            r"via\[0\] has shape \(6, 5\), but the array has shape \(6, 6\)",
        ),
        (BALANCED, CYCLIC, "lcm", "via = 'lcm' is for blocks of one size, but dimension 0 of desc_a"),
        (CYCLIC, BALANCED, "lcm", "dimension 0 of desc_b"),
    ],
)
def test_what_is_no_way(a: Descriptor, b: Descriptor, via: Any, words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        waypoints(a, b, via)


def test_block_sizes_on_the_way() -> None:
    """Walker & Otto, section 4: by the least common multiple, or vice versa; also where that exceeds the array."""
    grid = ProcessGrid((4, 2))
    for shape in ((96, 50), (10, 3), (0, 1)):
        a, b = Descriptor(shape, (4, 6), grid), Descriptor(shape, (6, 9), grid)
        assert [stop.block for stop in waypoints(a, b, "lcm")] == [(12, 18)]
        assert [stop.block for stop in waypoints(a, b, "gcd")] == [(2, 3)]
        assert waypoints(a, Descriptor(shape, (8, 12), grid), "lcm") == []
        assert waypoints(a, Descriptor(shape, (2, 3), grid), "gcd") == []
    a, b = (Descriptor((7, 7), (2**61 + k, 1), grid) for k in (0, 1))
    assert [stop.block for stop in waypoints(a, b, "lcm")] == []
    a, b = (Descriptor((7, 7), (2**40 + k, 1 + k), grid) for k in (0, 1))
    assert [stop.block for stop in waypoints(a, b, "lcm")] == [], "one block of all rows, and those of B"
