"""Schedules put each message, or each part of a message, into a step (Desprez, Definition 4). Products of schedules.

A step is an integer array of rows sender, receiver, length. The cost of a step is the most that one process sends or receives
in it: the length of the longest message if no process occurs twice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ScheduleError
from ..intersections.runs import SuperblockSlot
from .checks import checked_table
from .message_graph import Ints, MessageGraph, WholeGraph, own_receivers, whole

EQUALS_BOUND = "equals the lower bound"


class Schedule(ABC):
    """The steps of the messages of a graph.

    Attributes
    ----------
    name : str
        Name of the algorithm.
    grid : MessageGraph
        The messages.
    one_port : bool
        Whether no process sends twice or receives twice in a step.
    """

    name: str
    grid: MessageGraph
    one_port: bool

    def __init__(self, name: str, grid: MessageGraph, *, one_port: bool = True) -> None:
        self.name, self.grid, self.one_port = name, grid, one_port

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.grid.P} senders, {self.grid.Q} receivers>"

    @abstractmethod
    def _entries(self) -> Ints:
        """Rows step, sender, receiver, length of all messages, in any order."""

    @property
    @abstractmethod
    def number_of_steps(self) -> int:
        """NS: number of steps, empty ones counted."""

    @abstractmethod
    def of_sender(self, p: int) -> Ints:
        """Rows step, receiver, length of what `p` sends, in ascending order of steps. Not collective."""

    @abstractmethod
    def of_receiver(self, q: int) -> Ints:
        """Rows step, sender, length of what `q` receives, in ascending order of steps. Not collective."""

    def slot(self, p: int, q: int, step: int) -> SuperblockSlot | None:
        """The elements that go from `p` to `q` in a step; None if any of the shared ones may. Not collective."""
        return None

    @cached_property
    def steps(self) -> list[Ints]:
        """Rows sender, receiver, length of each step; an empty step has no rows.

        Raises
        ------
        ScheduleError
            There are more than 10^8 pairs of processes.
        """
        checked_table(self.grid.P, self.grid.Q)
        entries = self._entries()
        order = np.argsort(entries[:, 0], kind="stable")
        bounds = np.searchsorted(entries[order, 0], np.arange(1, self.number_of_steps))
        return np.split(entries[order, 1:], bounds) if self.number_of_steps else []

    @cached_property
    def total_cost(self) -> int:
        """TC: the sum over steps of the most that one process sends or receives in it."""
        return int(self.costs.sum())

    @property
    def costs(self) -> Ints:
        """Cost of each step."""
        cost_of = _longest if self.one_port else _busiest
        return np.array([cost_of(step) for step in self.steps], dtype=np.int64)

    @property
    def lower_bound(self) -> int | None:
        """Lower bound of the total cost of schedules of this kind; None if no bound is known."""
        return self.grid.cost_bound if self.one_port else None

    @property
    def certificate(self) -> str:
        """How far the total cost is above a lower bound, in words."""
        bound = self.lower_bound
        if bound is None:
            return "an order of sending, with collisions: no bound applies"
        if self.total_cost <= bound:
            return EQUALS_BOUND
        if self.total_cost > 2 * bound > 0:
            return f"heuristic, {self.total_cost / bound:.3g} times the lower bound"
        return f"heuristic, within {excess(self.total_cost, bound)} % of the lower bound"

    def table(self) -> Ints:
        """Step of each pair as in the papers' tables, P x Q; -1 for no message. Not collective.

        Of a pair in several steps, the first step.
        """
        checked_table(self.grid.P, self.grid.Q)
        table = np.full((self.grid.P, self.grid.Q), -1, dtype=np.int64)
        for number in range(len(self.steps) - 1, -1, -1):
            step = self.steps[number]
            table[step[:, 0], step[:, 1]] = number
        return table

    def validate(self) -> None:
        """Check that every message goes exactly once, and that a one-port schedule is one. Not collective.

        Raises
        ------
        ScheduleError
            A check fails; the text names the pair or the process, and the step.
        """
        P, Q = self.grid.P, self.grid.Q
        if len(self.steps) != self.number_of_steps:
            raise ScheduleError(
                f"{self.name}: number_of_steps is {self.number_of_steps}, but there are {len(self.steps)} steps"
            )
        moved = np.zeros((P, Q), dtype=np.int64)
        for number, step in enumerate(self.steps):
            if step.ndim != 2 or step.shape[1] != 3 or step.dtype.kind != "i":
                raise ScheduleError(f"{self.name}: step {number} must be integers in rows sender, receiver, length")
            self._check_step(number, step)
            np.add.at(moved, (step[:, 0], step[:, 1]), step[:, 2])
        wrong = np.argwhere(moved != self.grid.lengths)
        if len(wrong):
            p, q = (int(index) for index in wrong[0])
            raise ScheduleError(
                f"{self.name}: the steps move {moved[p, q]} elements from {p} to {q}, but the message has "
                f"{self.grid.lengths[p, q]}; {len(wrong)} pairs are wrong"
            )

    def _check_step(self, number: int, step: Ints) -> None:
        for column, side, processes in ((0, "sender", self.grid.P), (1, "receiver", self.grid.Q)):
            count = np.zeros(processes, dtype=np.int64)
            outside = step[(step[:, column] < 0) | (step[:, column] >= processes), column]
            if len(outside):
                raise ScheduleError(f"{self.name}: step {number} has {side} {outside[0]}; there are {processes}")
            np.add.at(count, step[:, column], 1)
            if self.one_port and count.max(initial=0) > 1:
                raise ScheduleError(
                    f"{self.name}: {side} {int(count.argmax())} is {count.max()} times in step {number} of a one-port schedule"
                )
        if len(step) and step[:, 2].min() < 1:
            p, q, length = step[step[:, 2].argmin()]
            raise ScheduleError(f"{self.name}: step {number} has a message of length {length} from {p} to {q}")


class ListedSchedule(Schedule):
    """A schedule given by its steps. Not collective.

    Parameters
    ----------
    name : str
        Name of the algorithm.
    grid : MessageGraph
        The messages.
    steps : iterable of ndarray
        Rows sender, receiver, length for each step.
    """

    def __init__(self, name: str, grid: MessageGraph, steps: Iterable[Ints], *, one_port: bool = True) -> None:
        super().__init__(name, grid, one_port=one_port)
        self.steps = list(steps)

    @property
    def number_of_steps(self) -> int:
        """NS: number of steps, empty ones counted."""
        return len(self.steps)

    def _entries(self) -> Ints:
        if not self.steps:
            return np.zeros((0, 4), dtype=np.int64)
        number = np.repeat(np.arange(len(self.steps)), [len(step) for step in self.steps])
        return np.column_stack([number, np.concatenate(self.steps)])

    def of_sender(self, p: int) -> Ints:
        """Rows step, receiver, length of what `p` sends, in ascending order of steps. Not collective."""
        return self._part("p", p, 1)

    def of_receiver(self, q: int) -> Ints:
        """Rows step, sender, length of what `q` receives, in ascending order of steps. Not collective."""
        return self._part("q", q, 2)

    def _part(self, name: str, process: int, column: int) -> Ints:
        count = self.grid.P if column == 1 else self.grid.Q
        if not 0 <= process < count:
            raise IndexError(f"{name} = {process} is outside 0 <= {name} < {count}")
        entries = self._all_entries
        rows: Ints = entries[entries[:, column] == process][:, [0, 3 - column, 3]]
        return rows

    @cached_property
    def _all_entries(self) -> Ints:
        return self._entries()


class PairSchedule(Schedule):
    """A schedule in which a formula gives the step of each pair; the part of one process needs no table.

    Parameters
    ----------
    name : str
        Name of the algorithm.
    grid : MessageGraph
        The messages.
    step_of : callable
        Maps arrays of senders and of receivers that share a message to steps.
    count : callable
        Returns the number of steps.
    """

    def __init__(
        self,
        name: str,
        grid: MessageGraph,
        step_of: Callable[[Ints, Ints], Ints],
        count: Callable[[], int],
        *,
        one_port: bool = True,
    ) -> None:
        super().__init__(name, grid, one_port=one_port)
        self._step_of, self._count = step_of, count

    @cached_property
    def number_of_steps(self) -> int:
        """NS: number of steps, empty ones counted."""
        return self._count()

    def _entries(self) -> Ints:
        p, q = np.nonzero(self.grid.lengths)
        return np.stack([self._step_of(p, q), p, q, self.grid.lengths[p, q]], axis=1)

    def of_sender(self, p: int) -> Ints:
        """Rows step, receiver, length of what `p` sends, in ascending order of steps."""
        peers, length = self.grid.sent_by(p)
        return _ascending(self._step_of(np.full_like(peers, p), peers), peers, length)

    def of_receiver(self, q: int) -> Ints:
        """Rows step, sender, length of what `q` receives, in ascending order of steps."""
        peers, length = self.grid.received_by(q)
        return _ascending(self._step_of(peers, np.full_like(peers, q)), peers, length)


def excess(cost: float, bound: float) -> str:
    """By how many percent `cost` is above `bound`, rounded up to one decimal; `cost` must be above."""
    return f"{max(1, np.ceil((cost / bound - 1) * 1000 - 1e-9)) / 10:.1f}" if bound > 0 else "100.0"


def _ascending(step: Ints, peer: Ints, length: Ints) -> Ints:
    rows = np.stack([step, peer, length], axis=1)
    return rows[np.argsort(step, kind="stable")]


def _longest(step: Ints) -> int:
    return int(step[:, 2].max(initial=0))


def _busiest(step: Ints) -> int:
    if not len(step):
        return 0
    return max(int(np.bincount(step[:, side], weights=step[:, 2]).max()) for side in (0, 1))


class ProductSchedule(Schedule):
    """The product of schedules of several axes: a schedule between process grids of as many dimensions. Not collective.

    Steps are pairs of steps, messages products of messages. A product of one-port schedules is one-port; numbers of steps and
    total costs multiply. Processes are numbered row by row.

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
        """NS: the product of the axes' numbers, steps without messages counted."""
        return math.prod(axis.number_of_steps for axis in self.axes)

    @property
    def certificate(self) -> str:
        """Certificates of the axes; the whole may cost less."""
        return "for each axis: " + "; ".join(axis.certificate for axis in self.axes)

    def of_sender(self, p: int) -> Ints:
        """Rows step, receiver, length of what `p` sends, in ascending order of steps. Not collective."""
        coords = np.unravel_index(p, [axis.grid.P for axis in self.axes])
        parts = [axis.of_sender(int(coord)) for axis, coord in zip(self.axes, coords, strict=True)]
        rows = self._multiply(parts, [axis.grid.Q for axis in self.axes])
        own_receiver = -1 if self.grid.own is None else int(self.grid.own[p])
        messages: Ints = rows[rows[:, 1] != own_receiver]
        return messages

    def of_receiver(self, q: int) -> Ints:
        """Rows step, sender, length of what `q` receives, in ascending order of steps. Not collective."""
        coords = np.unravel_index(q, [axis.grid.Q for axis in self.axes])
        parts = [axis.of_receiver(int(coord)) for axis, coord in zip(self.axes, coords, strict=True)]
        rows = self._multiply(parts, [axis.grid.P for axis in self.axes])
        return rows if self.grid.own is None else rows[self.grid.own[rows[:, 1]] != q]

    def _entries(self) -> Ints:
        rows = np.zeros((1, 4), dtype=np.int64)
        rows[0, 3] = 1
        for axis in self.axes:
            number = np.repeat(np.arange(axis.number_of_steps), [len(step) for step in axis.steps])
            entries = np.column_stack([number, np.concatenate([np.zeros((0, 3), np.int64), *axis.steps])])
            radix = np.array([axis.number_of_steps, axis.grid.P, axis.grid.Q])
            joined = rows[:, None, :3] * radix + entries[None, :, :3]
            rows = np.concatenate([joined, (rows[:, None, 3] * entries[None, :, 3])[..., None]], axis=2).reshape(-1, 4)
        if self.grid.own is not None:
            rows = rows[self.grid.own[rows[:, 1]] != rows[:, 2]]
        return rows

    def _multiply(self, parts: list[Ints], processes: list[int]) -> Ints:
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
        Senders and receivers that are the same process, as for `whole`: their messages to themselves are left out. A step
        that becomes empty stays.

    Raises
    ------
    ScheduleError
        There is no schedule, or `same` does not fit.
    """
    if not schedules:
        raise ScheduleError("schedules is empty: give one schedule for each dimension")
    P, Q = (math.prod(getattr(schedule.grid, side) for schedule in schedules) for side in "PQ")
    return ProductSchedule(tuple(schedules), None if same is None else own_receivers(same, P, Q))
