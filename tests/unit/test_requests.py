"""What redistribute refuses of its arguments, and plans in several legs; on paper, without MPI."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pyscalapack_redist as psr

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
    (psr.DescriptorError, "fill = 'nan': what is written", A, A, {"uplo": "L", "fill": "nan"}),
    (psr.DescriptorError, "fill = 'zero' without uplo", A, A, {"fill": "zero"}),
    (psr.DescriptorError, "is for square matrices, but desc_a has", A, A, {"uplo": "L", "fill": "hermitian"}),
    (psr.ScheduleError, "no derived datatype is made for a trapezoid", A, A, {"uplo": "L", "buffers": "datatypes"}),
    *(
        (psr.ScheduleError, f"{name}' is for layouts without copies.*use stepwise", COPIES, A, {"schedule": name})
        for name in ("walker-otto", "phases", "classes")
    ),
    *((psr.ScheduleError, "use ", IRREGULAR, A, {"schedule": name}) for name in ("walker-otto", "classes")),
    *((psr.ScheduleError, "is for blocks of one size", IRREGULAR, A, {"via": name}) for name in ("lcm", "gcd")),
]  # fmt: skip


@pytest.mark.parametrize(("error", "text", "a", "b", "options"), REFUSED)
def test_arguments_that_are_refused(
    error: type[Exception], text: str, a: psr.Descriptor, b: psr.Descriptor, options: dict[str, Any]
) -> None:
    with pytest.raises(error, match=text):
        psr.redistribute(a, b, **options).schedule  # noqa: B018 - on paper a schedule is searched for when it is asked for


def test_irregular_blocks_are_no_scalapack_descriptor() -> None:
    with pytest.raises(psr.DescriptorError, match=r"irregular blocks.*redistribute to a Descriptor with a block size"):
        np.asarray(IRREGULAR)


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


@pytest.mark.parametrize(
    ("shape", "before", "after", "legs"),
    [
        ((6, 8, 4, 12), (0, 1, None, None), (None, None, 0, 1), 2),
        ((7, 5, 3, 9), (0, 1, None, None), (None, None, 1, 0), 2),
        ((7, 5, 9), (0, 1, None), (None, 0, 1), 2),
        ((7, 5, 9), (0, 1, None), (1, 0, None), 3),
        ((6, 9), (0, 1), (1, 0), 1),
    ],
)
def test_two_dimensions_move_in_turn(shape: tuple[int, ...], before: Any, after: Any, legs: int) -> None:
    """They may have to wait for one another; where no array dimension is free both move in one leg."""
    grid = psr.ProcessGrid((2, 3))
    a = psr.Descriptor(shape, None, grid, axes=before)
    b = psr.Descriptor(shape, (2, 1, 3, 2)[: len(shape)], grid, axes=after)
    found = psr.redistribute(a, b, via="dimensions").legs  # type: ignore[attr-defined]
    assert len(found) == legs, [leg.desc_b for leg in found]
    assert found[-1].desc_b == b
    for leg in found:
        assert leg.desc_a.placement.size == leg.desc_b.placement.size == grid.size, "processes idle on the way"
        if legs > 1:
            assert len(moved_dimensions(grid, psr.redistribute(leg.desc_a, leg.desc_b))) <= 1


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
