"""Least time where messages may be cut, at the price of more steps, each of which costs a start-up.

Without start-up costs the least time is what the busiest process sends or receives (Gonzalez & Sahni, 1976). With them the
least time is NP-hard (Gopal & Wong, 1985; Crescenzi, Deng & Papadimitriou, 2001: K-preemptive bipartite scheduling, as in
Cohen, Jeannot, Padoy & Wagner, 2006). Here a total of durations is given, from the least to that of whole messages; steps
as few as can be found keep to it, and the best of the totals is taken. Tiny cases are solved exactly.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..errors import ScheduleError
from .amalgam import Amalgam, amalgamated
from .message_graph import Ints, MessageGraph
from .optimal import PROVED, optimal
from .schedule import EQUALS_BOUND, ListedSchedule, excess
from .split_bounds import SplitBounds
from .split_patterns import PatternBound
from .split_program import solved
from .splitting import Pieces, folded_lengths, pieces_within, unfolded_steps

__all__ = ["PreemptiveSchedule", "preemptive", "preemptive_pareto"]

TINY = 1e-9
UNCUT, SEARCHING = 0.25, 0.6  # of the time: for the schedule of whole messages, and until the bound is improved
MOST_STEPS = 10**6  # whose times are looked through
SLOPES = 4  # of the front, for which bounds of the time are worked out
WEIGHTS = (1.0, 3.0, 0.0)  # towards processes with many messages
TOTALS = 32  # that are tried between the least and that of whole messages


class PreemptiveSchedule(ListedSchedule):
    """A schedule of messages that may be cut, with what is known of its time. Not collective.

    Attributes
    ----------
    startup : float
        What each step costs beside its duration, in the unit of lengths.
    time_bound : float
        What no schedule's time is below.
    """

    def __init__(
        self, grid: MessageGraph, steps: list[Ints], startup: float, time_bound: float, *, solved: bool = False
    ) -> None:
        super().__init__("preemptive", grid, steps)
        self.startup, self.time_bound, self._solved = startup, time_bound, solved

    @property
    def time(self) -> float:
        """Sum over steps of start-up and duration. Not collective."""
        return self.startup * self.number_of_steps + self.total_cost

    @property
    def lower_bound(self) -> int:
        """What the busiest process sends or receives. Not collective."""
        return self.grid.volume_bound

    @property
    def certificate(self) -> str:
        """One of "equals the lower bound", "proved by integer program", "best found, within x %". Not collective."""
        if self.time <= self.time_bound * (1 + TINY):
            return PROVED if self._solved else EQUALS_BOUND
        return f"best found, within {excess(self.time, self.time_bound)} %"


def preemptive(grid: MessageGraph, startup: float = 0.0, time_limit: float = 1.0) -> PreemptiveSchedule:
    """The schedule of least time that is found where messages may be cut. Not collective.

    Its time is the sum over steps of `startup` and the longest piece. With no start-up cost it is what the busiest process
    sends or receives, which is the least possible, in the fewest steps that are found. Lengths are cut at whole elements.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    startup : float
        Cost of a step, in the unit of the lengths: latency times bandwidth, in elements. With a grid of one slice it is
        that divided by the number of slices.
    time_limit : float
        Seconds for the search; a schedule of the least sum of durations is made even if it takes longer.

    Raises
    ------
    ScheduleError
        An option is not one of these, or there are more than 10^8 messages.
    """
    price = _number("startup", startup, "the cost of a step in the unit of lengths, at least 0", 0)
    search = _Search(grid, time_limit, (price, 1.0) if price else "cost")
    bound = search.bounds.time(price)
    totals = search.totals() if price else [search.bounds.volume]
    candidates = [search.whole, *search.cut(totals, price)]
    best = min(candidates, key=lambda candidate: candidate.value(price))
    value = best.value(price)[0]
    if value <= bound * (1 + TINY):
        return PreemptiveSchedule(grid, search.unfolded(best), price, bound)
    bound = max(bound, search.proved_time(price, value))
    exact = solved(search.lengths[:, :, 0], price, value, bound, search.end) if search.graph.turns == 1 else None
    if exact is None:
        return PreemptiveSchedule(grid, search.unfolded(best), price, bound, solved=True)
    steps = search.unfolded(best) if exact.steps is None else exact.steps
    return PreemptiveSchedule(grid, steps, price, exact.bound, solved=True)


def preemptive_pareto(grid: MessageGraph, time_limit: float = 1.0) -> list[PreemptiveSchedule]:
    """Schedules of cut messages of which none has both fewer steps and less cost than another. Not collective.

    This is the front of start-ups against time: the last costs what the busiest process sends or receives, the least
    possible; from each to the next more steps buy a lower cost. Each has its certificate: how far its cost may be above the
    least of all schedules with no more steps.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    time_limit : float
        Seconds for the search; the last schedule is made even if it takes longer.

    Raises
    ------
    ScheduleError
        `time_limit` is not a number above 0, or there are more than 10^8 messages.
    """
    search = _Search(grid, time_limit, "cost")
    candidates = [search.whole, search.uncut("steps"), *search.cut(search.totals(), 0.0)]
    chosen: list[_Candidate] = []
    for found in sorted(candidates, key=lambda found: (found.number, found.cost)):
        if not chosen or found.cost < chosen[-1].cost:
            chosen.append(found)
    slopes = [(a.cost - b.cost) / (b.number - a.number) for a, b in itertools.pairwise(chosen)]
    proved = [
        (slope, search.proved_time(slope, math.inf)) for slope in sorted(slopes)[:: max(1, len(slopes) // SLOPES)]
    ]
    front = []
    for found in chosen:
        # Of no more steps each, so what is left of a bound of the time is one of the cost.
        bounds = [math.ceil(bound - slope * found.number - TINY) for slope, bound in proved if bound > -math.inf]
        bound = max([search.bounds.cost(found.number), *bounds])
        front.append(PreemptiveSchedule(grid, search.unfolded(found), 0.0, bound))
    return front


class _Candidate(NamedTuple):
    """A schedule that was found, of whole messages or of pieces."""

    number: int
    cost: int
    whole: list[Ints] | None
    pieces: list[Pieces]

    def value(self, startup: float) -> tuple[float, int]:
        return startup * self.number + self.cost, self.number


class _Search:
    """Schedules of one graph, until time is up."""

    def __init__(self, grid: MessageGraph, time_limit: float, objective: str | tuple[float, float]) -> None:
        self.seconds = _number("time_limit", time_limit, "seconds, more than 0", TINY)
        start = time.monotonic()
        self.deadline, self.end = start + SEARCHING * self.seconds, start + self.seconds
        self.grid = grid
        self.whole = self.uncut(objective)
        self.bounds = SplitBounds(grid)
        self.graph: Amalgam = amalgamated(grid)
        self.lengths = folded_lengths(grid, self.graph)

    def uncut(self, objective: str | tuple[float, float]) -> _Candidate:
        """Whole messages."""
        schedule = optimal(self.grid, objective, UNCUT * self.seconds)
        return _Candidate(schedule.number_of_steps, schedule.total_cost, schedule.steps, [])

    def totals(self) -> list[int]:
        """Sums of durations from the least to that of whole messages, first those that are far apart."""
        least, span = self.bounds.volume, self.whole.cost - self.bounds.volume
        return list(dict.fromkeys(least + int(span * _reversed_bits(k)) for k in range(TOTALS)))

    def cut(self, totals: list[int], startup: float) -> Iterator[_Candidate]:
        """Schedules whose durations sum up to no more than these; the first of them however long it takes."""
        best = self.whole.value(startup)[0]
        for number, (weight, total) in enumerate(itertools.product(WEIGHTS, totals)):
            late = self.deadline if number else math.inf
            if startup and startup * self.bounds.steps(total) + total >= best:
                continue
            if not startup and self.whole.value(startup) == (total, self.bounds.fewest):
                continue
            pieces = pieces_within(self.lengths, total, self.bounds.fewest, weight, late)
            if pieces is None:
                return
            cost = sum(int(piece.amounts.max()) for piece in pieces)
            found = _Candidate(len(pieces), cost, None, pieces)
            best = min(best, found.value(startup)[0])
            yield found

    def proved_time(self, startup: float, enough: float) -> float:
        """A bound by the program of patterns; -inf where there is no time for any."""
        program = PatternBound(self.graph, startup, self.bounds.fewest, self.bounds.volume)
        return next_time(program.least_time(enough, self.end), startup, self.bounds.fewest, self.bounds.volume)

    def unfolded(self, found: _Candidate) -> list[Ints]:
        """Steps of the whole graph."""
        return unfolded_steps(self.graph, found.pieces) if found.whole is None else found.whole


def next_time(bound: float, startup: float, fewest: int, volume: int) -> float:
    """The least time not below a bound: steps and costs are whole numbers, so few times are possible. Not collective."""
    if bound == -math.inf:
        return bound
    first = startup * fewest + max(volume, math.ceil(bound - startup * fewest - TINY))
    if first - volume > startup * (fewest + MOST_STEPS):
        return bound
    steps = np.arange(fewest, (first - volume) / startup + 1)
    return float(np.min(startup * steps + np.maximum(volume, np.ceil(bound - startup * steps - TINY)), initial=first))


def _reversed_bits(number: int) -> float:
    """Fractions 0, 1/2, 1/4, 3/4, 1/8, ... (van der Corput)."""
    answer, place = 0.0, 0.5
    while number:
        answer += place * (number & 1)
        number, place = number >> 1, place / 2
    return answer


def _number(name: str, value: object, meaning: str, least: float) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number < math.inf:
        raise ScheduleError(f"{name} = {value!r} must be a number: {meaning}")
    return number
