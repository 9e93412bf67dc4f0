"""The ways of `via=` side by side: every element moved once, one dimension after another, or expand, then shrink.

What a way moves is counted for all ranks together, in closed form for each dimension, messages of ranks to themselves
left out.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ... import schedules
from ...engine.waypoints import waypoints
from ...errors import DescriptorError, ScheduleError
from ...layout.blockcyclic import Axis
from ...layout.descriptor import Descriptor
from ..cases import Case
from .birkeland_model import Load, Model

__all__ = ["MOST_RANKS", "VIAS", "AxisCosts", "Way", "compared"]

VIAS = (None, "dimensions", "lcm")
MOST_RANKS = 2**20
MOST_PAIRS = 2**20  # entries of one dimension's table

AxisCosts = Callable[[Axis, Axis], tuple[int, Fraction]]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Way:
    """A redistribution by one way of `via=`, all legs together.

    Attributes
    ----------
    via : str or None
        As `redistribute` takes it.
    legs : int or None
        Redistributions in a row; all figures are None where they were not worked out.
    messages, bytes : int or None
        Between ranks, of all ranks.
    fewest_steps : int or None
        Of any one-port schedule: the most messages that one rank sends or receives, added up over the legs.
    busiest_bytes : int or None
        The most bytes that one rank sends or receives, added up over the legs.
    steps, cost : int or None
        Number of steps NS and total cost TC, in bytes, of the schedule that is shown, for the whole array: the product of
        the dimensions' schedules, with ranks' messages to themselves.
    reason : str or None
        Why something is missing.
    """

    via: str | None
    legs: int | None = None
    messages: int | None = None
    bytes: int | None = None
    fewest_steps: int | None = None
    busiest_bytes: int | None = None
    steps: int | None = None
    cost: int | None = None
    reason: str | None = None

    @property
    def name(self) -> str:
        """The way in words."""
        return "direct" if self.via is None else f'via "{self.via}"'

    def seconds(self, model: Model | None) -> float | None:
        """Time by a model: each step takes a start-up, each byte of the busiest rank its share. Not collective."""
        if model is None or self.fewest_steps is None or self.busiest_bytes is None:
            return None
        return model.seconds(Load(self.fewest_steps, self.busiest_bytes))


@dataclass(frozen=True)
class _Leg:
    """What one leg moves between ranks: elements of all, messages of all, and the most of one rank."""

    messages: int
    elements: int
    degree: int
    busiest: int


def compared(case: Case, costs: AxisCosts) -> tuple[Way, ...]:
    """Each way of `via=`. Not collective.

    Parameters
    ----------
    case : Case
        Array and layouts.
    costs : callable
        From an axis before and after to steps and cost, in elements of the whole axis, of the schedule that is shown.
    """
    most = max(case.before.size, case.after.size)
    if most > MOST_RANKS:
        why = f"left out: {most:,} ranks; the most is {MOST_RANKS:,}"
        return tuple(Way(via, reason=why) for via in VIAS)
    a, b = (layout.descriptor(case.shape, None) for layout in (case.before, case.after))
    return tuple(_way(via, a, b, case.dtype.itemsize, costs) for via in VIAS)


def _way(via: str | None, a: Descriptor, b: Descriptor, item: int, costs: AxisCosts) -> Way:
    try:
        stops = [a, *(() if via is None else waypoints(a, b, via)), b]
        pairs = list(itertools.pairwise(stops))
        legs = [_leg(start, end) for start, end in pairs]
    except (ScheduleError, DescriptorError) as error:
        return Way(via, reason=str(error))
    known = Way(
        via,
        len(legs),
        sum(leg.messages for leg in legs),
        sum(leg.elements for leg in legs) * item,
        sum(leg.degree for leg in legs),
        sum(leg.busiest for leg in legs) * item,
    )
    try:
        steps, cost = map(sum, zip(*(_product(start, end, costs) for start, end in pairs), strict=True))
    except ScheduleError as error:
        return Way(**{**known.__dict__, "reason": f"no steps and cost: {error}"})
    return Way(**{**known.__dict__, "steps": steps, "cost": math.ceil(cost * item)})


def _product(a: Descriptor, b: Descriptor, costs: AxisCosts) -> tuple[int, Fraction]:
    """Steps and cost of one leg: those of its dimensions, multiplied."""
    found = [costs(x, y) for x, y in zip(a.distributions, b.distributions, strict=True)]
    return math.prod(steps for steps, _ in found), math.prod((cost for _, cost in found), start=Fraction(1))


def _leg(a: Descriptor, b: Descriptor) -> _Leg:
    tables = [_lengths(x, y) for x, y in zip(a.distributions, b.distributions, strict=True)]
    kept = _kept(a, b, tables)
    elements = math.prod(a.shape) - int(kept.sum())
    messages = math.prod(int(np.count_nonzero(table)) for table in tables) - int(np.count_nonzero(kept))
    degree = busiest = 0
    for side, places in ((1, a.placement.ravel()), (0, b.placement.ravel())):
        sums = _of_each([table.sum(axis=side) for table in tables])
        counts = _of_each([np.count_nonzero(table, axis=side) for table in tables])
        busiest = max(busiest, int((sums - kept[places]).max()))
        degree = max(degree, int((counts - (kept[places] > 0)).max()))
    return _Leg(messages, elements, degree, busiest)


def _kept(a: Descriptor, b: Descriptor, tables: list[Ints]) -> Ints:
    """Elements that each rank keeps, by rank."""
    ranks, at_a, at_b = np.intersect1d(a.placement.ravel(), b.placement.ravel(), return_indices=True)
    kept = np.zeros(1 + max(int(a.placement.max()), int(b.placement.max())), np.int64)
    kept[ranks] = 1
    p, q = np.unravel_index(at_a, a.placement.shape), np.unravel_index(at_b, b.placement.shape)
    for table, i, j in zip(tables, p, q, strict=True):
        kept[ranks] *= table[i, j]
    return kept


def _of_each(dims: list[Ints]) -> Ints:
    """Products of the dimensions' figures, one for each process in the order of its coordinates."""
    return functools.reduce(np.multiply.outer, dims).ravel()


def _lengths(a: Axis, b: Axis) -> Ints:
    if a.processes * b.processes > MOST_PAIRS:
        raise ScheduleError(
            f"left out: {a.processes:,} x {b.processes:,} pairs along a dimension; the most is {MOST_PAIRS:,}"
        )
    return np.asarray(schedules.between(a, b).lengths, np.int64)
