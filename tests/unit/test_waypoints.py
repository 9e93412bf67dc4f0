"""Layouts on the way, on paper: one grid dimension moves in each leg, and every process keeps a part."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscalapack_redist import Descriptor, ProcessGrid, ScheduleError
from pyscalapack_redist.engine.waypoints import waypoints


@st.composite
def moving_grids(draw: st.DrawFn) -> tuple[Descriptor, Descriptor]:
    """Two layouts of one array over one grid, the second written with the grid's dimensions in another order."""
    grid_shape = draw(st.lists(st.integers(2, 3), min_size=1, max_size=3))
    ndim = draw(st.integers(len(grid_shape), 5))
    axes = [draw(st.permutations([*range(len(grid_shape)), *[None] * (ndim - len(grid_shape))])) for _ in range(2)]
    order = draw(st.permutations(range(len(grid_shape))))
    grid = ProcessGrid(grid_shape)
    turned = ProcessGrid([grid_shape[k] for k in order], ranks=grid.ranks.transpose(order))
    shape = draw(st.lists(st.integers(1, 9), min_size=ndim, max_size=ndim))
    blocks = [draw(st.lists(st.sampled_from((None, 1, 2)), min_size=ndim, max_size=ndim)) for _ in range(2)]
    after = [None if axis is None else order.index(axis) for axis in axes[1]]
    return Descriptor(shape, blocks[0], grid, axes=axes[0]), Descriptor(shape, blocks[1], turned, axes=after)


def moved(a: Descriptor, b: Descriptor) -> int:
    """Grid dimensions that are on other array dimensions in B, or on dimensions cut otherwise."""

    def spread(desc: Descriptor) -> dict[object, object]:
        found = {}
        for axis, distribution in zip(desc.axes, desc.distributions, strict=True):
            if axis is not None:
                ranks = desc.grid.ranks
                lines = frozenset(map(tuple, ranks.swapaxes(axis, -1).reshape(-1, ranks.shape[axis]).tolist()))
                found[lines] = (desc.axes.index(axis), distribution)
        return found

    before, after = spread(a), spread(b)
    assert before.keys() == after.keys()
    return sum(before[lines] != after[lines] for lines in before)


@given(moving_grids())
def test_one_grid_dimension_moves_in_each_leg(pair: tuple[Descriptor, Descriptor]) -> None:
    a, b = pair
    stops = [a, *waypoints(a, b, "dimensions"), b]
    assert all(set(stop.grid.ranks.flat) == set(a.grid.ranks.flat) for stop in stops)
    steps = [moved(x, y) for x, y in itertools.pairwise(stops)]
    full = None not in a.axes or None not in b.axes
    assert all(step <= 1 for step in steps) or full
    if len(steps) > 1:
        assert all(step > 0 for step in steps)


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
    a, b = (Descriptor((6, 6, 6, 6), None, grid, axes=axes) for axes in ((0, 1, None, None), (None, None, 0, 1)))
    assert [stop.axes for stop in waypoints(a, b, "dimensions")] == [(None, 1, 0, None)]
    swapped = Descriptor((6, 6, 6, 6), None, grid, axes=(1, 0, None, None))
    assert len(waypoints(a, swapped, "dimensions")) == 2  # one steps aside
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
