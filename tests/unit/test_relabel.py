"""Relabelling on paper: against all permutations, with volumes counted element by element."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import block_sizes, descriptor
from numpy.typing import NDArray
from oracle import Layout, random_layout, random_shape

import pyscalapack_redist as psr

SEEDS = st.integers(0, 2**32 - 1)


def owners(layout: Layout) -> NDArray[np.int64]:
    """The place, numbered along the grid, of every element of the window."""
    whole = np.empty(layout.shape, np.int64)
    for number, rank in enumerate(layout.ranks.ravel().tolist()):
        whole[np.ix_(*layout.pieces(rank)[0])] = number
    return whole[layout.window()]


def drawn(seed: int) -> tuple[np.random.Generator, Layout, Layout]:
    rng = np.random.default_rng(seed)
    size = random_shape(rng, int(rng.integers(1, 4)), 300)
    a, b = (random_layout(rng, size, 6, margin=4) for _ in range(2))
    return rng, a, b


@given(SEEDS, st.sampled_from([None, 1.0, 1.3, 2.0, 10.0]))
def test_no_permutation_is_cheaper(seed: int, weight: float | None) -> None:
    rng, a, b = drawn(seed)
    nodes = np.zeros(6, int) if weight is None else rng.integers(0, 3, 6)
    desc_a, desc_b = descriptor(a, None), descriptor(b, None)
    keywords = {} if weight is None else {"nodes": nodes.tolist(), "weight": weight}
    report = psr.relabel_report(desc_a, desc_b, np.int16, **keywords)
    made = report.descriptor
    held, places = a.ranks.ravel()[owners(a)], owners(b)
    default, new = b.ranks.ravel(), made.placement.ravel()

    def moved(ranks: NDArray[np.int64]) -> tuple[int, int]:
        """Elements that move with these ranks in B's places, and how many of them between nodes."""
        wanted = ranks[places]
        return int((held != wanted).sum()), int((nodes[held] != nodes[wanted]).sum())

    def cost(ranks: NDArray[np.int64]) -> float:
        elements, between = moved(ranks)
        return elements + ((weight or 1) - 1) * between

    assert sorted(new) == sorted(default)
    assert cost(new) == pytest.approx(min(cost(np.array(order)) for order in itertools.permutations(default.tolist())))
    assert (made is desc_b) == (cost(new) == cost(default))
    (before, between_before), (after, between_after) = moved(default), moved(new)
    assert (report.total, report.moved_before, report.moved_after) == (2 * held.size, 2 * before, 2 * after)
    assert report.saved == report.moved_before - report.moved_after
    assert report.relabelled == (new != default).sum()
    if weight is not None:
        assert (report.between_nodes_before, report.between_nodes_after) == (2 * between_before, 2 * between_after)
    rest = [(d.shape, d.block, d.source, d.offset, d.axes, d.grid.shape, d.grid.comm) for d in (made, desc_b)]
    assert rest[0] == rest[1]
    assert psr.relabel(desc_a, desc_b, **keywords) == made


@given(SEEDS)
def test_transposes_and_grid_dimensions_in_another_order(seed: int) -> None:
    _, a, b = drawn(seed)
    desc_a, desc_b = descriptor(a, None), descriptor(b, None)
    straight = psr.relabel(desc_a, desc_b)
    turned = Layout(a.shape[::-1], a.block[::-1], a.ranks.T, a.source[::-1], a.start[::-1], a.size[::-1])
    for op, start in (("T", turned), ("c", turned), ("R", a)):
        assert psr.relabel(descriptor(start, None), desc_b, op=op) == straight
    axes = tuple(range(len(b.shape)))[::-1]
    grid = psr.ProcessGrid(b.ranks.T.shape, ranks=b.ranks.T)
    other = psr.Descriptor(b.shape, block_sizes(b), grid, source=b.source, axes=axes)[b.window()]
    made = psr.relabel(desc_a, other)
    assert np.array_equal(made.placement, straight.placement)
    assert made.axes == axes


def made(shape: tuple[int, ...], block: Any, grid: tuple[int, ...], ranks: list[int] | None = None) -> psr.Descriptor:
    placed = None if ranks is None else np.reshape(ranks, grid)
    return psr.Descriptor(shape, block, psr.ProcessGrid(grid, ranks=placed))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (made((40, 40), (10, 40), (4, 1)), made((40, 40), (40, 10), (1, 4))),
        (made((40, 40), (10, 40), (4, 1)), made((40, 40), (10, 40), (4, 1), [4, 5, 6, 7])),
        (made((0, 5), 2, (2, 2)), made((0, 5), 2, (2, 2), [3, 2, 1, 0])),
        # too many elements for exact sums in the solver; ranks 0 and 1 hold equally much of the second place
        (made((2**30, 2**27), (2**28, 2**27), (4, 1), [2, 3, 0, 1]), made((2**30, 2**27), (2**29, 2**27), (2, 1))),
    ],
)
def test_nothing_saved_keeps_the_default(a: psr.Descriptor, b: psr.Descriptor) -> None:
    assert psr.relabel(a, b) is b


@pytest.mark.parametrize(
    ("a", "b", "ranks", "moved"),
    [
        # a permuted copy moves nothing
        (made((60, 60), 4, (2, 3)), made((60, 60), 4, (2, 3), [0, 2, 4, 1, 3, 5]), [0, 1, 2, 3, 4, 5], 4),
        # two ranks change places; the others hold equally much of every place and stay
        (made((2, 4), (1, 4), (6, 1)), made((2, 4), (1, 4), (6, 1), [1, 0, 2, 3, 4, 5]), [0, 1, 2, 3, 4, 5], 2),
        # B is on other ranks than A but for one, which finds its own part
        (made((6,), 2, (3,)), made((6,), 2, (3,), [2, 7, 8]), [8, 7, 2], 2),
    ],
)
def test_only_ranks_that_gain_move(a: psr.Descriptor, b: psr.Descriptor, ranks: list[int], moved: int) -> None:
    report = psr.relabel_report(a, b)
    assert report.descriptor.grid.ranks.ravel().tolist() == ranks
    assert report.relabelled == moved
    assert report.saved == report.moved_before - report.moved_after > 0
    assert f"{report.moved_after} bytes in place of" in str(report)


@pytest.mark.parametrize(("weight", "ranks"), [(1.4, [0, 2]), (1.6, [2, 0])])
def test_a_node_map_outweighs_what_ranks_hold(weight: float, ranks: list[int]) -> None:
    """To swap 0 and 2 moves two elements more, but four fewer between nodes: it pays from a weight of 1.5 on."""
    a = psr.Descriptor((10,), (2,), psr.ProcessGrid((5,)))
    b = psr.Descriptor((10,), (5,), psr.ProcessGrid((2,), ranks=[0, 2]))
    report = psr.relabel_report(a, b, np.int8, nodes=["x", "y", "y", "x", "x"], weight=weight)
    assert report.descriptor.grid.ranks.tolist() == ranks
    assert (report.between_nodes_before, report.between_nodes_after) == (7, 7 if weight < 1.5 else 3)
    assert report.saved == (0 if weight < 1.5 else -2)
    assert "between nodes" in str(report)


def test_it_is_quick_for_large_grids() -> None:
    """By elements this would not end; by pairs of processes and dimension by dimension it does."""
    a = psr.Descriptor((10**8, 10**7), (64, 64), psr.ProcessGrid((16, 24)))
    b = psr.Descriptor((10**8, 10**7), (96, 32), psr.ProcessGrid((24, 16), order="column"))
    report = psr.relabel_report(a, b)
    assert 0 < report.moved_after < report.moved_before < report.total == 8 * 10**15


@pytest.mark.skipif("PYSCALAPACK_REDIST_NODES" in os.environ, reason="a node map is set")
def test_a_grid_on_paper_has_no_nodes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSCALAPACK_REDIST_NODES", "0,1")
    a = psr.Descriptor((6,), (2,), psr.ProcessGrid((3,)))
    assert psr.relabel_report(a, a).between_nodes_after is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"desc_a": [1, 2]}, "desc_a = [1, 2] must be a Descriptor"),
        ({"desc_b": psr.Descriptor((5, 6), 1, psr.ProcessGrid((1, 1)))}, "desc_a has shape (6, 5) and desc_b (5, 6)"),
        ({"op": "X"}, "op = 'X' must be one of 'N' (as it is), 'T'"),
        ({"op": "T"}, "with op = 'T' desc_b must have shape (5, 6)"),
        ({"nodes": [0, 0, 1]}, "nodes has 3 entries for 4 ranks: give the node of each"),
        ({"nodes": [0, 0, 1, 1], "weight": 0.5}, "weight = 0.5 must be a number of at least 1"),
        ({"weight": "much"}, "weight = 'much' must be a number of at least 1"),
        ({"weight": 1e18}, "weight times elements must be below 2**62"),
        (dict.fromkeys(("desc_a", "desc_b"), made((6, 5), 2, (200, 100))), "limited to 100,000,000 pairs"),
    ],
)
def test_bad_input(change: dict[str, object], message: str) -> None:
    desc = psr.Descriptor((6, 5), (2, 2), psr.ProcessGrid((2, 2)))
    with pytest.raises(psr.DescriptorError) as caught:
        psr.relabel(**{"desc_a": desc, "desc_b": desc, **change})  # type: ignore[arg-type]
    assert message in str(caught.value)
