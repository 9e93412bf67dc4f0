"""The ways of `via=` side by side: every element moved once, one dimension after another, or by way of other block sizes.

What a way moves is counted for all ranks together, in closed form for each dimension, messages of ranks to themselves
left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from ...engine.traffic import traffic_of
from ...engine.waypoints import VIAS, waypoints
from ...errors import DescriptorError, ScheduleError
from ...layout.blockcyclic import Axis
from ...layout.descriptor import Descriptor
from ..cases import Case
from .birkeland_model import Load, Model

__all__ = ["MOST_RANKS", "WAYS", "AxisCosts", "Way", "compared"]

WAYS = (None, *VIAS)
MOST_RANKS = 2**20
MOST_PAIRS = 2**20  # entries of one dimension's table

AxisCosts = Callable[[Axis, Axis], tuple[int, Fraction]]


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
        return tuple(Way(via, reason=why) for via in WAYS)
    a, b = (layout.descriptor(case.shape, None) for layout in (case.before, case.after))
    return tuple(_way(via, a, b, case.dtype.itemsize, costs) for via in WAYS)


def _way(via: str | None, a: Descriptor, b: Descriptor, item: int, costs: AxisCosts) -> Way:
    try:
        stops = [a, *(() if via is None else waypoints(a, b, via)), b]
        pairs = list(itertools.pairwise(stops))
        legs = [traffic_of(start, end, most_pairs=MOST_PAIRS) for start, end in pairs]
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
