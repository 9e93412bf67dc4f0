"""Layouts with copies, on paper: which copy is read, and schedules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import block_sizes
from numpy.typing import NDArray
from oracle import Layout, random_axes, random_layout

from pyscalapack_redist import Descriptor, ProcessGrid, ScheduleError
from pyscalapack_redist.engine.scheduling import order_for, reading, sides
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


def test_schedules_that_are_for_layouts_without_copies() -> None:
    a, b = (Descriptor((9,), cut, ProcessGrid((3, 2)), axes=(0,)) for cut in (1, 2))
    with pytest.raises(ScheduleError, match=r"schedule = 'classes' is for layouts without copies, and .* copies"):
        order_for("classes", a, b)


def test_auto_looks_at_all_processes_where_there_are_copies() -> None:
    grid = ProcessGrid((4, 5))
    whole, rows = (Descriptor((40, 40), None, grid, axes=axes) for axes in ((0, 1), (0, None)))
    assert sides(whole, whole) == ((4, 5), (4, 5))
    assert sides(whole, rows) == ((20,), (20,))
