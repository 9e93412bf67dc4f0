"""What a redistribution consists of: for each dimension the communication grid and what each algorithm makes of it."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ... import schedules
from ...engine.traffic import Traffic, traffic_of
from ...errors import ScheduleError
from ...layout.blockcyclic import Axis, BlockCyclic
from ...layout.irregular import Irregular, balanced
from ...schedules import CommunicationGrid, MessageGraph
from ..cases import Case
from ..layouts import BALANCED, Layout
from .birkeland_model import Model
from .closed_forms import WITHOUT_TABLE, cost_of_slice, pairs_with_messages
from .ways import AxisCosts, Way, compared

if TYPE_CHECKING:
    from ...schedules import Schedule

__all__ = ["MOST_FOR_MATCHINGS", "MOST_IN_TABLES", "AxisStudy", "Outcome", "Study", "block_of"]

MOST_IN_TABLES = 2**20  # entries of a table of P x Q that are worked out one by one
MOST_FOR_MATCHINGS = 2**14  # and for algorithms that search for matchings where the array is less than a slice
MOST_IN_WHOLE = 2**16  # pairs of processes of all dimensions together
WHOLE = "optimal, all at once"
BY_MATCHINGS = ("stepwise", "greedy")
MOST_NUMBERS = 10**7  # of one process or one class each
SECONDS_FOR_ALL = 30.0


@dataclass(frozen=True)
class Outcome:
    """What one algorithm takes for one slice along one dimension.

    Attributes
    ----------
    steps, cost : int or None
        Number of steps NS and total cost TC in elements; None where they were not worked out.
    one_port : bool or None
        Whether no process sends or receives twice in a step.
    certificate : str or None
        How near to the least cost it is known to be.
    reason : str or None
        Why something is missing.
    cost_bound : int or None
        What the cost of such a schedule cannot be below; less where messages are cut than where they are whole.
    """

    name: str
    steps: int | None = None
    cost: int | None = None
    one_port: bool | None = None
    certificate: str | None = None
    reason: str | None = None
    cost_bound: int | None = None


@dataclass(frozen=True)
class AxisStudy:
    """One dimension of a redistribution. Not collective.

    Attributes
    ----------
    before, after : BlockCyclic or Irregular
        The axis in A and in B.
    grid : MessageGraph
        Of one slice, or of the whole axis where that is shorter, or has irregular blocks.
    whole : MessageGraph
        Of the whole axis.
    outcomes : list of Outcome
        One for each algorithm.
    schedule : Schedule or None
        The one that is shown; None where the table is too large for it.
    """

    before: Axis
    after: Axis
    grid: MessageGraph
    whole: MessageGraph
    outcomes: list[Outcome] = field(default_factory=list)
    schedule: Schedule | None = None

    @classmethod
    def of(cls, before: Axis, after: Axis, name: str, time_limit: float) -> AxisStudy:
        """Study an axis, showing the schedule of that name.

        Raises
        ------
        ScheduleError
            The schedule does not apply here.
        """
        study = cls.without_schedules(before, after)
        schedule = _built(name, study.grid, time_limit) if study.fits(MOST_IN_TABLES) else None
        return replace(study, outcomes=list(study._compare(schedule, time_limit)), schedule=schedule)

    @classmethod
    def without_schedules(cls, before: Axis, after: Axis) -> AxisStudy:
        """The communication grids alone."""
        whole = schedules.between(before, after)
        grid: MessageGraph = whole
        if isinstance(whole, CommunicationGrid) and before.n >= whole.slice_length:
            starts = whole.offset, whole.receiver_offset
            grid = CommunicationGrid(whole.P, whole.Q, whole.r, whole.s, None, *starts)
        return cls(before, after, grid, whole)

    @property
    def entries(self) -> int:
        """Pairs of a sender and a receiver."""
        return self.before.processes * self.after.processes

    def fits(self, most: int) -> bool:
        """Whether a table of all pairs has at most so many entries."""
        return self.entries <= most

    @property
    def sliced(self) -> CommunicationGrid | None:
        """The grid of one slice; None where the whole axis is taken as one."""
        grid = self.grid
        return grid if isinstance(grid, CommunicationGrid) and grid.n is None else None

    @property
    def slices(self) -> Fraction:
        """How often the grid is repeated in the array."""
        sliced = self.sliced
        return Fraction(1) if sliced is None else Fraction(self.before.n, sliced.slice_length)

    @property
    def messages(self) -> int | None:
        """Pairs of processes that share anything; None where that takes too large a table."""
        if self.fits(MOST_IN_TABLES):
            return int(np.count_nonzero(self.whole.lengths))
        grid = self.sliced
        return None if grid is None else pairs_with_messages(grid.P, grid.Q, grid.r, grid.s, grid.shift)

    @property
    def bounds(self) -> tuple[int, int] | None:
        """Least number of steps and least cost; None where they take too large a table."""
        if self.sliced is None and not self.fits(MOST_IN_TABLES):
            return None
        try:
            return self.grid.step_bound, self.grid.cost_bound
        except ScheduleError:
            return None

    def _compare(self, shown: Schedule | None, time_limit: float) -> Iterator[Outcome]:
        """Each algorithm in turn. What would take too long is left out, with the reason."""
        ends = time.monotonic() + SECONDS_FOR_ALL
        grid = self.grid
        for name in schedules.NAMES:
            if not self.fits(MOST_IN_TABLES):
                yield self._without_table(name)
            elif name in BY_MATCHINGS and self.sliced is None and not self.fits(MOST_FOR_MATCHINGS):
                yield Outcome(
                    name,
                    reason=f"left out: {grid.P} x {grid.Q} pairs without symmetry take long; the most is {MOST_FOR_MATCHINGS}",
                )
            elif time.monotonic() > ends:
                yield Outcome(name, reason=f"left out: the others took {SECONDS_FOR_ALL:g} s")
            else:
                yield self._outcome(name, shown, time_limit)

    def _without_table(self, name: str) -> Outcome:
        grid = self.grid
        largest = max(grid.P, grid.Q, grid.g if isinstance(grid, CommunicationGrid) else 0)
        if name not in WITHOUT_TABLE or largest > MOST_NUMBERS:
            return Outcome(name, reason="left out: it needs a table of all pairs")
        try:
            steps = schedules.build(name, grid).number_of_steps
        except ScheduleError as error:
            return Outcome(name, reason=str(error))
        sliced = self.sliced
        cost = None if sliced is None else cost_of_slice(name, sliced.P, sliced.Q, sliced.r, sliced.s)
        return Outcome(name, steps, cost, True, reason="the cost needs a table of all pairs" if cost is None else None)

    def _outcome(self, name: str, shown: Schedule | None, time_limit: float) -> Outcome:
        try:
            made = shown if shown is not None and shown.name == name else _built(name, self.grid, time_limit)
        except ScheduleError as error:
            return Outcome(name, reason=str(error))
        return Outcome(
            name,
            made.number_of_steps,
            made.total_cost,
            made.one_port,
            made.certificate,
            cost_bound=made.lower_bound,
        )


def _built(name: str, grid: MessageGraph, time_limit: float) -> Schedule:
    options = {"time_limit": time_limit} if name in ("optimal", "preemptive", "open-shop") else {}
    return schedules.build(name, grid, **options)


@dataclass(frozen=True)
class Study:
    """A redistribution on paper. Not collective.

    Attributes
    ----------
    case : Case
        Array and layouts.
    name : str
        The schedule that is shown.
    axes : tuple of AxisStudy
        One for each dimension.
    whole : Outcome or None
        Least cost over all dimensions at once, messages of ranks to themselves left out; None for one dimension.
    ways : tuple of Way
        What each way of `via=` moves.
    model : Model or None
        By which the ways' times are predicted.
    """

    case: Case
    name: str
    axes: tuple[AxisStudy, ...]
    whole: Outcome | None = None
    ways: tuple[Way, ...] = ()
    model: Model | None = None

    @classmethod
    def of(cls, case: Case, name: str, time_limit: float) -> Study:
        """Study each dimension.

        Raises
        ------
        ScheduleError
            The schedule does not apply; says in which dimension.
        """
        axes = []
        for k, (before, after) in enumerate(
            zip(*(_axes(layout, case.shape) for layout in (case.before, case.after)), strict=True)
        ):
            try:
                axes.append(AxisStudy.of(before, after, name, time_limit))
            except ScheduleError as error:
                raise ScheduleError(f"dimension {k}: {error}") from None
        whole = _whole(case, axes, time_limit) if len(axes) > 1 else None
        return cls(case, name, tuple(axes), whole, compared(case, _costs(axes, name, time_limit)))

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole array."""
        return self.case.elements * self.case.dtype.itemsize

    @property
    def messages(self) -> int | None:
        """Pairs of processes that share anything, those of a rank with itself included; None where it is not known."""
        found = [count for axis in self.axes if (count := axis.messages) is not None]
        return math.prod(found) if len(found) == len(self.axes) else None

    @property
    def bounds(self) -> tuple[int, int] | None:
        """Products of the dimensions' bounds."""
        found = [bound for axis in self.axes if (bound := axis.bounds) is not None]
        return (
            (math.prod(a for a, _ in found), math.prod(b for _, b in found)) if len(found) == len(self.axes) else None
        )

    @functools.cached_property
    def traffic(self) -> Traffic | None:
        """What each rank sends, receives and keeps; None where the tables are too large."""
        if not all(axis.fits(MOST_IN_TABLES) for axis in self.axes):
            return None
        case = self.case
        return traffic_of(case.before.descriptor(case.shape, None), case.after.descriptor(case.shape, None))

    @property
    def kept(self) -> tuple[int, int] | None:
        """Messages of a rank to itself, and their bytes; None where the tables are too large."""
        if self.traffic is None:
            before, after = self.case.before, self.case.after
            return None if max(before.first, after.first) < min(before.end, after.end) else (0, 0)
        kept = self.traffic.kept
        return int(np.count_nonzero(kept)), int(kept.sum()) * self.case.dtype.itemsize

    def most_messages(self, side: int) -> int | None:
        """The most messages that one process sends (side 1) or receives (side 0); None where tables are too large."""
        if not all(axis.fits(MOST_IN_TABLES) for axis in self.axes):
            return None
        return math.prod(int(np.count_nonzero(axis.whole.lengths, axis=side).max()) for axis in self.axes)

    def product(self, name: str) -> Outcome | None:
        """Steps and cost of the product of one algorithm's schedules; None where a dimension has none."""
        found = [next(outcome for outcome in axis.outcomes if outcome.name == name) for axis in self.axes]
        steps = [outcome.steps for outcome in found if outcome.steps is not None]
        costs = [outcome.cost for outcome in found if outcome.cost is not None]
        if len(steps) < len(found) or len(costs) < len(found):
            return None
        bounds = [outcome.cost_bound for outcome in found if outcome.cost_bound is not None]
        bound = math.prod(bounds) if len(bounds) == len(found) else None
        one_port = all(outcome.one_port for outcome in found)
        return Outcome(name, math.prod(steps), math.prod(costs), one_port, cost_bound=bound)


def _whole(case: Case, axes: list[AxisStudy], time_limit: float) -> Outcome:
    """The least-cost schedule of the product of the dimensions' grids."""
    senders, receivers = case.before.size, case.after.size
    if senders * receivers > MOST_IN_WHOLE:
        return Outcome(WHOLE, reason=f"left out: {senders} x {receivers} pairs take long; the most is {MOST_IN_WHOLE}")
    ranks = case.before.first + np.arange(senders) - case.after.first
    graph = schedules.whole([axis.grid for axis in axes], np.where((ranks >= 0) & (ranks < receivers), ranks, -1))
    made = schedules.build("optimal", graph, time_limit=time_limit)
    return Outcome(WHOLE, made.number_of_steps, made.total_cost, made.one_port, made.certificate)


def _costs(axes: list[AxisStudy], name: str, time_limit: float) -> AxisCosts:
    """Steps and cost of the shown schedule for any axis; those that were studied are not built again."""
    known = {(axis.before, axis.after): axis for axis in axes}

    def costs(before: Axis, after: Axis) -> tuple[int, Fraction]:
        axis = known.get((before, after)) or AxisStudy.without_schedules(before, after)
        schedule = axis.schedule
        if schedule is None:
            if not axis.fits(MOST_IN_TABLES):
                raise ScheduleError(f"{axis.entries:,} pairs along a dimension; the most is {MOST_IN_TABLES:,}")
            schedule = _built(name, axis.grid, time_limit)
            known[before, after] = replace(axis, schedule=schedule)
        return schedule.number_of_steps, schedule.total_cost * axis.slices

    return costs


def _axes(layout: Layout, shape: tuple[int, ...]) -> list[Axis]:
    """Each dimension's distribution."""
    return [
        BlockCyclic(n, block, processes, source)
        if isinstance(block, int)
        else Irregular(n, balanced(n, processes) if block == BALANCED else block, processes)
        for n, block, processes, source in zip(shape, layout.block, layout.grid, layout.source, strict=True)
    ]


def block_of(axis: Axis) -> int | None:
    """The size of an axis's blocks; None where they are irregular. Not collective."""
    return axis.block if isinstance(axis, BlockCyclic) else None
