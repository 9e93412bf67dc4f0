"""What redistribute refuses of its arguments, who reads which copy, and who sends to whom; on paper, without MPI."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import descriptor
from oracle import random_layout, random_shape

import pyscalapack_redist as psr
from pyscalapack_redist.schedules.layout_graphs import choose_replicas

ROWS, COLUMNS, LINE = psr.ProcessGrid((4, 1)), psr.ProcessGrid((1, 4)), psr.ProcessGrid((4,))
A, B = psr.Descriptor((8, 6), 2, ROWS), psr.Descriptor((6, 8), 3, COLUMNS)
VECTOR = psr.Descriptor((5,), 1, LINE)
IRREGULAR = psr.Descriptor((8, 6), "balanced", ROWS)
LARGER, CUBE = psr.Descriptor((7, 8), 2, ROWS), psr.Descriptor((8, 6, 1), None, LINE, axes=(0, None, None))
COPIES = psr.Descriptor((8, 6), 2, psr.ProcessGrid((2, 2)), axes=(0, None))

REFUSED: list[tuple[type[Exception], str, Any, Any, dict[str, Any]]] = [
    (psr.DescriptorError, "op = 'X' must be one of 'N'", A, B, {"op": "X"}),
    (psr.DescriptorError, r"op = 'T' exchanges rows and columns, so desc_b must have shape \(6, 8\)$", A, A, {"op": "T"}),
    (psr.DescriptorError, r"keeps the global shape, so desc_b must have shape \(8, 6\)$", A, B, {"op": "R"}),
    (psr.DescriptorError, r"to move a part of A, give a sub-array desc_a\[i0:i1, ...\]$", A, A[:, :5], {}),
    (psr.DescriptorError, "to write into a part of B, give a sub-array desc_b", A, LARGER, {"op": "T"}),
    (psr.DescriptorError, r"op = 'C' is for matrices, but desc_a has shape \(5,\)", VECTOR, VECTOR, {"op": "C"}),
    (psr.DescriptorError, "both must have as many dimensions", A, CUBE, {}),
    (psr.DescriptorError, "uplo = 'upper' must be one of 'U'", A, A, {"uplo": "upper"}),
    (psr.DescriptorError, "diag = 'X' must be one of 'N'", A, A, {"uplo": "U", "diag": "X"}),
    (psr.DescriptorError, "diag = 'U' without uplo", A, A, {"diag": "U"}),
    (psr.DescriptorError, r"uplo = 'L' is for matrices, but desc_a has shape \(5,\)", VECTOR, VECTOR, {"uplo": "L"}),
    (psr.DescriptorError, "fill = 'nan': must be one of", A, A, {"uplo": "L", "fill": "nan"}),
    (psr.DescriptorError, "fill = 'zero' without uplo", A, A, {"fill": "zero"}),
    (psr.DescriptorError, "is for square matrices, but desc_a has", A, A, {"uplo": "L", "fill": "hermitian"}),
    (psr.ScheduleError, "no derived datatype is made for a trapezoid", A, A, {"uplo": "L", "buffers": "datatypes"}),
    *(
        (psr.ScheduleError, f"{name}' is for layouts without replicas.*use stepwise", COPIES, A, {"schedule": name})
        for name in ("walker-otto", "phases", "random-phases", "classes")
    ),
    *((psr.ScheduleError, "use ", IRREGULAR, A, {"schedule": name}) for name in ("walker-otto", "classes")),
]  # fmt: skip


@pytest.mark.parametrize(("error", "text", "a", "b", "options"), REFUSED)
def test_arguments_that_are_refused(
    error: type[Exception], text: str, a: psr.Descriptor, b: psr.Descriptor, options: dict[str, Any]
) -> None:
    with pytest.raises(error, match=text):
        psr.redistribute(a, b, **options).schedule  # noqa: B018 - on paper a schedule is searched for when it is asked for


# -- copies


def test_receivers_that_block_sizes_select_are_spread_over_the_copies() -> None:
    """Blocks of 1 on 2 processes and then on 4: process 0 is read by 0 and 2 alone."""
    a = psr.Descriptor((8,), 1, psr.ProcessGrid((2, 2), ranks=[[4, 5], [6, 7]]), axes=(0,))
    graph = choose_replicas(a, psr.Descriptor((8,), 1, LINE))
    assert graph is not None
    assert graph.lengths.tolist() == [[2, 0, 0, 0], [0, 0, 2, 0], [0, 2, 0, 0], [0, 0, 0, 2]]


@given(st.integers(0, 2**32))
def test_senders_and_receivers_know_the_same_messages(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = random_shape(rng, int(rng.integers(1, 4)), 200)
    graph = choose_replicas(*(descriptor(random_layout(rng, size, 12, copies=True), None) for _ in range(2)))
    if graph is not None:
        assert np.array_equal(graph.lengths, graph.columns(np.arange(graph.Q)))


# -- one grid dimension after another: Birkeland & Sorevik (2007), section 3


def moved_dimensions(grid: psr.ProcessGrid, plan: Any) -> set[int]:
    """Grid dimensions in which ranks stand apart that send to one another."""
    moved = set()
    for rank in range(grid.size):
        for message in plan.messages_of(rank)["send"]:
            here, there = grid.coords_of(rank), grid.coords_of(message.peer)
            assert here is not None
            assert there is not None
            moved |= {k for k, (p, q) in enumerate(zip(here, there, strict=True)) if p != q}
    return moved


@pytest.mark.parametrize(("processes", "shape"), [((4,), (5, 8, 7)), ((2, 3), (8, 5, 12, 3))])
def test_one_dimension_is_gathered_and_another_spread(processes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Messages stay in groups of processes along the grid dimension that moves, of which each has all others as peers."""
    grid, dims = psr.ProcessGrid(processes), range(len(shape))
    for axes in itertools.permutations([*range(grid.ndim), *[None] * (len(shape) - grid.ndim)]):
        for k, to in itertools.product(dims, dims):
            if axes[k] is None or axes[to] is not None:
                continue
            moved = list(axes)
            moved[k], moved[to] = None, axes[k]
            a, b = (psr.Descriptor(shape, None, grid, axes=order) for order in (axes, moved))
            plan = psr.redistribute(a, b)
            assert moved_dimensions(grid, plan) <= {axes[k]}, (a, b)
            if all(n % grid.shape[axes[k]] == 0 for n in (shape[k], shape[to])):
                assert len(plan.messages_of(0)["send"]) == grid.shape[axes[k]] - 1  # type: ignore[attr-defined]
            assert len(psr.redistribute(a, b, via="dimensions").legs) == 1  # type: ignore[attr-defined]


def test_what_the_slices_of_a_process_have_in_common_stays() -> None:
    """The paper's Fig 1: of a cube on P x P processes, sliced in three ways, process (0, 0) keeps N^3 / P^3 elements."""
    grid = psr.ProcessGrid((3, 3))
    slices = [psr.Descriptor((12,) * 3, None, grid, axes=axes) for axes in ((0, 1, None), (0, None, 1), (None, 0, 1))]
    for a, b in itertools.permutations(slices, 2):
        (kept,) = psr.redistribute(a, b).messages_of(0)["copy"]  # type: ignore[attr-defined]
        assert kept.size == 4**3


# -- superblocks: Walker & Otto (1996), section 3


@pytest.mark.parametrize("P", [3, 4])
@pytest.mark.parametrize("K", [2, 4, 5, 7, 20])
def test_a_block_of_each_superblock_in_each_phase(P: int, K: int) -> None:
    """Both ways: K phases, but for those in which a block stays."""
    line = psr.ProcessGrid((P,))
    small, large = (psr.Descriptor((4 * P * K * 5,), block, line) for block in (4, 4 * K))
    own = (psr.schedules.walker_otto(P, K).q == np.arange(P)).sum(axis=0)
    for a, b in ((small, large), (large, small)):
        plan = psr.redistribute(a, b, schedule="walker-otto", exchange="sendrecv", buffers="datatypes")
        for rank in range(P):
            for side, messages in plan.messages_of(rank).items():  # type: ignore[attr-defined]
                if side != "copy":
                    assert len(messages) == K - own[rank], (rank, side)
