"""The product of schedules of several axes: a schedule between process grids of as many dimensions.

Its steps are pairs of steps, its messages products of messages. A product of one-port schedules is one-port; numbers of steps
and total costs multiply. Processes are numbered row by row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ScheduleError
from .message_graph import Ints, WholeGraph, own_receivers, whole
from .schedule import Schedule

__all__ = ["ProductSchedule", "product"]


class ProductSchedule(Schedule):
    """What `product` makes. Not collective.

    Attributes
    ----------
    axes : tuple of Schedule
        One for each dimension.
    """

    grid: WholeGraph

    def __init__(self, axes: tuple[Schedule, ...], own: Ints | None) -> None:
        grid = whole([axis.grid for axis in axes])
        grid.own = own
        one_port = all(axis.one_port for axis in axes)
        super().__init__(" x ".join(axis.name for axis in axes), grid, one_port=one_port)
        self.axes = axes

    @property
    def number_of_steps(self) -> int:
        """NS: the product of the axes' numbers, steps without messages counted. Not collective."""
        return math.prod(axis.number_of_steps for axis in self.axes)

    @property
    def certificate(self) -> str:
        """What is known of the total cost along each axis; the whole may cost less. Not collective."""
        return "for each axis: " + "; ".join(axis.certificate for axis in self.axes)

    def of_sender(self, p: int) -> Ints:
        """Rows step, receiver, length of what `p` sends, in ascending order of steps. Not collective."""
        places = np.unravel_index(p, [axis.grid.P for axis in self.axes])
        parts = [axis.of_sender(int(place)) for axis, place in zip(self.axes, places, strict=True)]
        rows = self._joined(parts, [axis.grid.Q for axis in self.axes])
        mine = -1 if self.grid.own is None else int(self.grid.own[p])
        kept: Ints = rows[rows[:, 1] != mine]
        return kept

    def of_receiver(self, q: int) -> Ints:
        """Rows step, sender, length of what `q` receives, in ascending order of steps. Not collective."""
        places = np.unravel_index(q, [axis.grid.Q for axis in self.axes])
        parts = [axis.of_receiver(int(place)) for axis, place in zip(self.axes, places, strict=True)]
        rows = self._joined(parts, [axis.grid.P for axis in self.axes])
        return rows if self.grid.own is None else rows[self.grid.own[rows[:, 1]] != q]

    def _entries(self) -> Ints:
        rows = np.zeros((1, 4), dtype=np.int64)
        rows[0, 3] = 1
        for axis in self.axes:
            number = np.repeat(np.arange(axis.number_of_steps), [len(step) for step in axis.steps])
            listed = np.column_stack([number, np.concatenate([np.zeros((0, 3), np.int64), *axis.steps])])
            radix = np.array([axis.number_of_steps, axis.grid.P, axis.grid.Q])
            joined = rows[:, None, :3] * radix + listed[None, :, :3]
            rows = np.concatenate([joined, (rows[:, None, 3] * listed[None, :, 3])[..., None]], axis=2).reshape(-1, 4)
        if self.grid.own is not None:
            rows = rows[self.grid.own[rows[:, 1]] != rows[:, 2]]
        return rows

    def _joined(self, parts: list[Ints], processes: list[int]) -> Ints:
        rows = np.zeros((1, 3), dtype=np.int64)
        rows[0, 2] = 1
        for axis, part, count in zip(self.axes, parts, processes, strict=True):
            joined = rows[:, None, :2] * np.array([axis.number_of_steps, count]) + part[None, :, :2]
            rows = np.concatenate([joined, (rows[:, None, 2] * part[None, :, 2])[..., None]], axis=2).reshape(-1, 3)
        return rows[np.argsort(rows[:, 0], kind="stable")]


def product(schedules: Sequence[Schedule], same: ArrayLike | None = None) -> ProductSchedule:
    """The product of one schedule for each dimension. Not collective.

    Parameters
    ----------
    schedules : sequence of Schedule
        One for each dimension.
    same : array_like, optional
        Which senders are which receivers, as for `whole`: their messages to themselves are left out of the steps, and a step
        that has none then stays, empty.

    Raises
    ------
    ScheduleError
        There is no schedule, or `same` does not fit.
    """
    if not schedules:
        raise ScheduleError("schedules is empty: give one schedule for each dimension")
    P, Q = (math.prod(getattr(schedule.grid, side) for schedule in schedules) for side in "PQ")
    return ProductSchedule(tuple(schedules), None if same is None else own_receivers(same, P, Q))
