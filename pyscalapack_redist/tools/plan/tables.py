"""The communication grid and the steps of a schedule as the tables of Desprez et al., for small grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ...schedules import MessageGraph, Schedule

__all__ = ["MOST_ACROSS", "grid_lines", "is_small", "step_figures", "step_lines", "steps_of_pairs"]

MOST_ACROSS = 32  # processes on either side of a table that is printed


def is_small(grid: MessageGraph) -> bool:
    """Whether its tables can be read on a screen. Not collective."""
    return max(grid.P, grid.Q) <= MOST_ACROSS


def steps_of_pairs(schedule: Schedule) -> dict[tuple[int, int], list[int]]:
    """Steps in which each pair of sender and receiver has a message. Not collective."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, step in enumerate(schedule.steps):
        for p, q, _ in np.asarray(step).tolist():
            found.setdefault((p, q), []).append(number)
    return found


def step_figures(step: NDArray[np.int64]) -> tuple[int, int]:
    """Messages, and the most that one process sends or receives: its cost. Not collective."""
    if not len(step):
        return 0, 0
    return len(step), int(max(np.bincount(step[:, side], weights=step[:, 2]).max() for side in (0, 1)))


def grid_lines(grid: MessageGraph) -> Iterator[str]:
    """Lengths of all messages, with the number and the sum of those of each process. Not collective."""
    lengths = np.asarray(grid.lengths)
    counts = [np.count_nonzero(lengths, axis=side) for side in (1, 0)]
    sums = [lengths.sum(axis=side) for side in (1, 0)]
    cells = [[_shown(length) for length in row] for row in lengths.tolist()]
    rows = [[*row, str(count), str(total)] for row, count, total in zip(cells, counts[0], sums[0], strict=True)]
    rows += [[*map(str, counts[1]), str(counts[1].sum()), ""], [*map(str, sums[1]), "", str(sums[1].sum())]]
    yield from _lines([*map(str, range(grid.Q)), "msgs", "sum"], [*map(str, range(grid.P)), "msgs", "sum"], rows)


def step_lines(schedule: Schedule, grid: MessageGraph) -> Iterator[str]:
    """The step of each pair; several, joined by commas, where its message is divided. Not collective."""
    steps = steps_of_pairs(schedule)
    rows = [[",".join(map(str, steps.get((p, q), "."))) for q in range(grid.Q)] for p in range(grid.P)]
    yield from _lines([*map(str, range(grid.Q))], [*map(str, range(grid.P))], rows)


def _shown(length: int) -> str:
    return str(length) if length else "."


def _lines(columns: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned columns, senders down and receivers across."""
    head = max(len("p\\q"), *map(len, names))
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]
    for name, row in zip(("p\\q", *names), (columns, *rows), strict=True):
        yield (
            f"{name:>{head}} | "
            + " ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        )
