"""Layouts with copies, on paper: who holds what, which copy is read, schedules, ways and errors."""

from __future__ import annotations

import itertools
import pickle
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import block_sizes
from numpy.typing import NDArray
from oracle import Layout, random_axes, random_layout

from pyscalapack_redist import Descriptor, DescriptorError, ProcessGrid, ScheduleError
from pyscalapack_redist.engine.scheduling import order_for, reading, searched, sides
from pyscalapack_redist.engine.waypoints import waypoints
from pyscalapack_redist.schedules import NAMES, build
from pyscalapack_redist.schedules.replicated_graph import ReplicatedGraph

seeds = st.integers(0, 2**32 - 1)


def descriptor(rng: np.random.Generator, layout: Layout) -> Descriptor:
    ranks, axes = random_axes(rng, layout)
    grid = ProcessGrid(ranks.shape, ranks=ranks)
    whole = Descriptor(layout.shape, block_sizes(layout), grid, source=layout.source, axes=axes)
    return whole[layout.window()]


def replicated_pair(rng: np.random.Generator, ranks: int = 12) -> tuple[Layout, Layout]:
    """Two layouts of one array of which one has copies, or both."""
    while True:
        size = tuple(int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 11, int(rng.integers(1, 4))))
        pair = random_layout(rng, size, ranks, copies=True), random_layout(rng, size, ranks, copies=True)
        if any(layout.copies > 1 for layout in pair):
            return pair


def graph_of(a: Descriptor, b: Descriptor) -> ReplicatedGraph:
    graph = reading(a, b)
    assert graph is not None
    return graph


def held(layout: Layout, rank: int) -> NDArray[np.bool_]:
    """Which elements of the window a rank holds."""
    mask = np.zeros(layout.shape, bool)
    coords = layout.coords(rank)
    if coords is not None:
        mask[np.ix_(*(h[p] for h, p in zip(layout.held, coords, strict=True)))] = True
    return mask[layout.window()]


@settings(deadline=None)
@given(seeds)
def test_each_receiver_reads_each_element_once_and_keeps_its_own(seed: int) -> None:
    """Element by element, against layouts that are dealt out block by block."""
    rng = np.random.default_rng(seed)
    layouts = replicated_pair(rng)
    a, b = (descriptor(rng, layout) for layout in layouts)
    lengths = graph_of(a, b).lengths
    senders, receivers = a.places.ravel().tolist(), b.places.ravel().tolist()
    for q, receiver in enumerate(receivers):
        needed = held(layouts[1], receiver) & ~held(layouts[0], receiver)
        times = np.zeros(needed.shape, int)
        for p, sender in enumerate(senders):
            if lengths[p, q]:
                part = held(layouts[0], sender) & held(layouts[1], receiver)
                assert part.sum() == lengths[p, q]
                times += part
        assert np.array_equal(times, needed), (a, b, receiver)


@settings(deadline=None)
@given(seeds)
def test_both_sides_find_the_same_and_the_copies_share_the_reading(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (descriptor(rng, layout) for layout in replicated_pair(rng))
    graph = graph_of(a, b)
    assert np.array_equal(graph.lengths, graph.columns(np.arange(graph.Q)))
    if a.copies > 1:
        readers = np.count_nonzero(graph.lengths, axis=1).reshape(a.places.shape)
        assert (np.ptp(readers, axis=-1) <= 1).all(), (a, b, readers)
    pairs = set()
    for p, sender in enumerate(np.ndindex(*a.places.shape)):
        for coords, served in graph.served_by(sender).items():
            for receiver in served:
                q = int(np.ravel_multi_index(receiver, b.places.shape))
                assert receiver[: b.ndim] == coords
                assert (graph.lengths[p, q] > 0) != (a.places[sender] == b.places[receiver])
                pairs.add((sender, receiver))
    read = {
        (sender, receiver)
        for receiver in np.ndindex(*b.places.shape)
        for coords, sender in graph.read_by(receiver).items()
    }
    assert pairs == read


def test_receivers_that_block_sizes_select_are_spread_over_the_copies() -> None:
    """Blocks of 1 on 2 processes and then on 4: process 0 is read by 0 and 2 alone."""
    a = Descriptor((8,), 1, ProcessGrid((2, 2), ranks=[[4, 5], [6, 7]]), axes=(0,))
    b = Descriptor((8,), 1, ProcessGrid((4,)))
    assert graph_of(a, b).lengths.tolist() == [[2, 0, 0, 0], [0, 0, 2, 0], [0, 2, 0, 0], [0, 0, 0, 2]]


@settings(deadline=None, max_examples=30)
@given(seeds)
def test_schedules_by_name(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (descriptor(rng, layout) for layout in replicated_pair(rng, ranks=8))
    graph = graph_of(a, b)
    for name in NAMES:
        if name in ("walker-otto", "phases", "classes"):
            with pytest.raises(
                ScheduleError, match=f"schedule = '{name}' is for layouts without copies, and .* copies"
            ):
                order_for(name, a, b)
            continue
        schedule = build(name, graph)
        schedule.validate()
        if schedule.one_port:
            assert schedule.number_of_steps >= graph.step_bound
            assert schedule.total_cost >= schedule.lower_bound
        if name in ("stepwise", "greedy", "optimal", "preemptive", "open-shop"):
            order_for(name, a, b, searched(name, a, b))
    assert build("stepwise", graph).number_of_steps == graph.step_bound


@settings(deadline=None)
@given(seeds)
def test_orders_by_formula_are_one_port(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (descriptor(rng, layout) for layout in replicated_pair(rng))
    graph = graph_of(a, b)
    for name in ("caterpillar", "ring"):
        order = order_for(name, a, b)
        used: Counter[tuple[Any, ...]] = Counter()
        for p, sender in enumerate(np.ndindex(*a.places.shape)):
            for q, receiver in enumerate(np.ndindex(*b.places.shape)):
                if graph.lengths[p, q]:
                    (share,) = order.shares(sender, receiver, ())
                    used[share.key, "sends", p] += 1
                    used[share.key, "receives", q] += 1
        assert set(used.values()) <= {1}


# -- the layout


def test_copies_owner_and_places() -> None:
    grid = ProcessGrid((2, 3, 2))
    desc = Descriptor((6, 5), (2, None), grid, axes=(1, None))
    assert desc.copies == 4
    assert desc.places.shape == (3, 1, 4)
    assert desc.places[1, 0].tolist() == [2, 3, 8, 9]
    assert desc.placement.tolist() == [[0], [2], [4]]
    assert desc.local_shape_of((1, 2, 0)) == desc.local_shape_of((0, 2, 1)) == (2, 5)
    assert "axes (1, None), 4 copies" in repr(desc)
    assert Descriptor((6,), 2, ProcessGrid((3, 2)), axes=(0,)).copies == 2
    assert "2 copies" in repr(Descriptor((6,), 2, ProcessGrid((3, 2)), axes=(0,)))
    plain = Descriptor((6, 5), 2, ProcessGrid((2, 3)))
    assert plain.copies == 1
    assert plain.places.shape == plain.placement.shape == (2, 3)
    assert "copies" not in repr(plain)
    assert not desc.places.flags.writeable


def test_equality_and_digest() -> None:
    grid = ProcessGrid((2, 2))
    rows, columns = (Descriptor((6, 5), 2, grid, axes=axes) for axes in ((0, None), (1, None)))
    same = Descriptor((6, 5), 2, ProcessGrid((2, 2)), axes=(0, None))
    apart = Descriptor((6, 5), 2, ProcessGrid((2, 1)), axes=(0, None))
    assert rows == same
    assert hash(rows) == hash(same)
    assert rows.layout_digest == same.layout_digest
    assert len({rows, columns, apart}) == 3
    assert len({desc.layout_digest for desc in (rows, columns, apart)}) == 3
    assert pickle.loads(pickle.dumps(rows)) == rows


def test_parts_transpose_and_merged_dimensions_keep_their_copies() -> None:
    desc = Descriptor((6, 4, 5), (2, None, None), ProcessGrid((2, 3)), axes=(1, None, None))
    part = desc[1:5, :2]
    assert part.copies == desc.T.copies == part.T.copies == 2
    assert part.places.tolist() == desc.places.tolist()
    assert desc.T.places[0, 0].tolist() == desc.places[:, 0, 0].tolist()
    merged = desc.merge(0, 1, order="C")
    assert merged.copies == 2
    assert merged.places.tolist() == desc.places[:, 0].tolist()
    both = Descriptor((4, 4), (2, 1), ProcessGrid((2, 3, 2)), axes=(0, 2)).merge(0, 1)
    assert both.copies == 3
    assert sorted(both.places.ravel().tolist()) == [*range(12)]


def test_copies_are_asked_for_by_axes() -> None:
    grid = ProcessGrid((2, 3))
    with pytest.raises(
        DescriptorError, match=re.escape("grid dimension 1 has 3 processes") + r".*axes = \(0,\) for a copy"
    ):
        Descriptor((6,), 2, grid)
    assert Descriptor((6,), 2, grid, axes=(0,)).copies == 3
    assert Descriptor((6, 5), 2, grid, axes=(None, None)).copies == 6


def test_no_nine_integers() -> None:
    desc = Descriptor((6, 5), 2, ProcessGrid((2, 2)), axes=(0, None))
    with pytest.raises(
        DescriptorError, match=r"2 copies.* has no ScaLAPACK descriptor: .*without copies; redistribute"
    ):
        desc.to_array()


# -- ways, and what `auto` looks at


@settings(deadline=None)
@given(seeds)
def test_one_grid_dimension_enters_or_leaves_in_each_leg(seed: int) -> None:
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


def test_auto_looks_at_all_processes_where_there_are_copies() -> None:
    grid = ProcessGrid((4, 5))
    whole, rows = (Descriptor((40, 40), None, grid, axes=axes) for axes in ((0, 1), (0, None)))
    assert sides(whole, whole) == ((4, 5), (4, 5))
    assert sides(whole, rows) == ((20,), (20,))
