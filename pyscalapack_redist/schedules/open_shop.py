"""The order of messages that ends first where nobody waits for a step to end: the open shop problem, without preemption.

Least times are NP-hard (Gonzalez & Sahni, 1976). Orders that leave no port idle without need are tried, with other priorities
and with chance, beside the orders of `stepwise` and `optimal`; cases that are not large are solved exactly while time is left.
A slice is scheduled as a folded graph first, since an order of that is one of the whole.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .amalgam import Amalgam, amalgamated, slices
from .checks import checked_seconds, checked_table
from .communication_grid import CommunicationGrid
from .dense_order import Priority, Transfers, dense_starts
from .message_graph import Ints, MessageGraph, WholeGraph
from .open_shop_program import proof
from .open_shop_search import searched_through
from .optimal import PROVED, optimal
from .schedule import EQUALS_BOUND, ListedSchedule, Schedule, excess
from .splitting import Pieces, folded_lengths, unfolded_steps
from .stepwise import stepwise
from .without_barriers import Hosts, completion_time, hosts_of, startup_of

__all__ = ["OpenShopSchedule", "open_shop"]

Floats = NDArray[np.float64]
TINY = 1e-9
SEARCHED = "proved by search"
LONGEST = (0.5, 0.0, 1.0, 2.0)  # weights of a message's own duration in its priority
NOISE = (0.3, 1.0, 0.1)
MOST_TRANSFERS = 100_000  # for which dense orders are made: some seconds
MOST_PAIRS = 2**20  # of processes, for which tables are made where an order is known already
# Lengths times messages for which the least cost with barriers is sought: some tenths of a second.
MOST_LEVELS = 200_000
# Of the time: for the schedule with barriers, and until chance is tried no more before a proof.
UNCUT, CHANCE = 0.2, 0.4
TRIES = 60  # of chance before a proof


class OpenShopSchedule(ListedSchedule):
    """An order of messages for processes that do not wait for steps to end, with what is known of its time. Not collective.

    Attributes
    ----------
    startup : float
        What a message costs beside its length, in the unit of lengths.
    time : float
        When the last message ends.
    time_bound : float
        What no order's time is below.
    """

    def __init__(
        self, grid: MessageGraph, steps: list[Ints], startup: float, hosts: Hosts | None, time_bound: float, how: str
    ) -> None:
        super().__init__("open-shop", grid, steps)
        self.startup, self.time_bound, self._how = startup, time_bound, how
        self.time = completion_time(self, startup, hosts)

    @property
    def certificate(self) -> str:
        """What is known of the time without barriers, which is no sum over steps. Not collective.

        After the time: "equals the lower bound", "proved by integer program", "proved by search", "best found, within x %".
        """
        met = self.time <= self.time_bound * (1 + TINY)
        known = self._how if met else f"best found, within {excess(self.time, self.time_bound)} %"
        return f"{self.time:g} without barriers: {known}"


def open_shop(
    grid: MessageGraph, startup: float = 0.0, time_limit: float = 1.0, hosts: Hosts | None = None
) -> OpenShopSchedule:
    """The order that ends first, of those that are found, where nobody waits for a step to end. Not collective.

    A process sends one message and receives one message at a time. Processes that keep the order of the steps, and no more, end
    at `time`; the sum of the steps' costs does not matter.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    startup : float
        What a message costs beside its length, in the unit of the lengths, at both of its processes.
    time_limit : float
        Seconds for the search; an order is made even if it takes longer.
    hosts : (array_like, array_like), optional
        The number of the host of each sender and of each receiver. The processes of a host share its link: one message at a
        time leaves a host and one reaches it. Messages within a host take no time.

    Raises
    ------
    ScheduleError
        An option is not one of these, or there are more than 10^8 messages.
    """
    startup, seconds = startup_of(startup), checked_seconds(time_limit)
    checked_table(grid.P, grid.Q)
    search = _Search(grid, startup, None if hosts is None else hosts_of(grid, hosts), seconds)
    return search.run()


class _Messages(NamedTuple):
    """Messages of a graph, or of a folded one: places in a table of lengths, and ports."""

    graph: Amalgam | None
    places: Ints
    length: Ints
    transfers: Transfers

    def steps(self, start: Floats) -> list[Ints]:
        """Steps of the whole graph that keep an order at each port."""
        listed = _listed(self.transfers.source, self.transfers.target, start)
        if self.graph is not None:
            return unfolded_steps(self.graph, [Pieces(self.places[some], self.length[some]) for some in listed])
        return [np.column_stack([self.places[some], self.length[some]]) for some in listed]


class _Search:
    """Orders of one graph, until time is up or the bound is met."""

    def __init__(self, grid: MessageGraph, startup: float, hosts: tuple[Ints, Ints] | None, seconds: float) -> None:
        self.grid, self.startup, self.hosts, self.seconds = grid, startup, hosts, seconds
        self.begin = time.monotonic()
        self.bound = 0.0
        self.how = EQUALS_BOUND
        self.time, self.steps = math.inf, list[Ints]()
        self.rng = np.random.default_rng(0)
        self.inside = [] if hosts is None else _inside(grid, *hosts)

    def run(self) -> OpenShopSchedule:
        """The best that is found. Not collective."""
        cases = [self._whole()] if self.hosts is not None else list(self._cases())
        first = cases[0]
        self.bound = first.transfers.bound
        for weight in LONGEST if first.transfers.number <= MOST_TRANSFERS else ():
            if self._open(first) and (weight == LONGEST[0] or self._left(CHANCE) > 0):
                self._try(first, Priority(weight))
        self._others()
        for messages in cases:
            self._by_chance(messages, CHANCE, TRIES)
            self._exactly(messages)
        for messages in cases[-1:]:
            self._by_chance(messages, 1.0)
        return OpenShopSchedule(self.grid, self.steps, self.startup, self.hosts, self.bound, self.how)

    def _cases(self) -> Iterator[_Messages]:
        """The folded graph where the grid folds; then the whole one, if that is not large."""
        if isinstance(self.grid, CommunicationGrid) and slices(self.grid):
            graph = amalgamated(self.grid)
            table = folded_lengths(self.grid, graph)
            if graph.turns > 1:
                places = np.argwhere(table)
                length = table[tuple(places.T)]
                yield _Messages(graph, places, length, Transfers(places[:, 0], places[:, 1], self._durations(length)))
                if len(places) * graph.turns > MOST_TRANSFERS:
                    return
        yield self._whole()

    def _whole(self) -> _Messages:
        """All messages; with hosts those between two of them, whose ports are the hosts'."""
        places, length = _owed(self.grid)
        source, target = places.T
        if self.hosts is not None:
            source, target = self.hosts[0][places[:, 0]], self.hosts[1][places[:, 1]]
            away = source != target
            places, length, source, target = places[away], length[away], source[away], target[away]
        return _Messages(None, places, length, Transfers(source, target, self._durations(length)))

    def _durations(self, length: Ints) -> Floats:
        return np.add(length, self.startup, dtype=np.float64)

    def _left(self, part: float) -> float:
        return self.begin + part * self.seconds - time.monotonic()

    def _open(self, messages: _Messages) -> bool:
        return self.time > self.bound * (1 + TINY) and messages.transfers.number > 0

    def _keep(self, schedule: Schedule) -> None:
        """Where it is the best. With hosts only a run tells: a port may take a message before its turn."""
        found = completion_time(schedule, self.startup, self.hosts)
        if found < self.time:
            self.time, self.steps = found, schedule.steps

    def _keep_begins(self, messages: _Messages, start: Floats) -> None:
        if float((start + messages.transfers.duration).max()) < self.time:
            self._keep(ListedSchedule("open-shop", self.grid, messages.steps(start) + self.inside))

    def _try(self, messages: _Messages, priority: Priority) -> None:
        self._keep_begins(messages, dense_starts(messages.transfers, priority, self.rng))

    def _others(self) -> None:
        """Orders of schedules that are made for barriers."""
        many = self.grid.P * self.grid.Q > MOST_PAIRS
        if self.time <= self.bound * (1 + TINY) or (many and self.time < math.inf):
            return
        made: list[Schedule] = [stepwise(self.grid, max(TINY, self._left(1.0)))]
        lengths = np.unique(self.grid.lengths[self.grid.lengths > 0], return_counts=True)[1]
        if len(lengths) * int(lengths.sum()) <= MOST_LEVELS:
            made.append(optimal(self.grid, "cost", UNCUT * self.seconds))
        for schedule in made:
            self._keep(schedule)

    def _by_chance(self, messages: _Messages, part: float, tries: float = math.inf) -> None:
        number = 0
        while number < tries and self._open(messages) and self._left(part) > 0:
            if messages.transfers.number > MOST_TRANSFERS:
                return
            weight, noise = LONGEST[number % len(LONGEST)], NOISE[number // len(LONGEST) % len(NOISE)]
            self._try(messages, Priority(weight, noise))
            number += 1

    def _exactly(self, messages: _Messages) -> None:
        """The least time of few messages, or a better order and a better bound; that of a folded graph is no bound."""
        if not self._open(messages) or self._left(1.0) <= 0:
            return
        deadline, whole = self.begin + self.seconds, messages.graph is None
        start, complete = searched_through(messages.transfers, self.time, time.monotonic() + self._left(1.0) / 2)
        if start is not None:
            self._keep_begins(messages, start)
        if complete and whole:
            least = self.time if start is None else float((start + messages.transfers.duration).max())
            self._prove(least, SEARCHED)
        if complete or not self._open(messages):
            return
        found = proof(messages.transfers, self.time, deadline)
        if found.start is not None:
            self._keep_begins(messages, found.start)
        if whole:
            self._prove(found.bound, PROVED)

    def _prove(self, bound: float, how: str) -> None:
        if bound > self.bound * (1 + TINY):
            self.bound, self.how = bound, how


def _owed(grid: MessageGraph) -> tuple[Ints, Ints]:
    """Rows sender, receiver and lengths of all messages; of a product of dimensions without a table of all pairs."""
    if not isinstance(grid, WholeGraph):
        places = np.argwhere(grid.lengths)
        return places, grid.lengths[tuple(places.T)]
    sender, receiver, length = (np.array([first]) for first in (0, 0, 1))
    for axis in grid.axes:
        places, own = _owed(axis)
        sender = np.add.outer(sender * axis.P, places[:, 0]).ravel()
        receiver = np.add.outer(receiver * axis.Q, places[:, 1]).ravel()
        length = np.multiply.outer(length, own).ravel()
    order = np.lexsort((receiver, sender))
    if grid.own is not None:
        order = order[grid.own[sender[order]] != receiver[order]]
    return np.column_stack([sender, receiver])[order], length[order]


def _listed(source: Ints, target: Ints, start: Floats) -> list[Ints]:
    """Numbers of transfers in steps, as early as an order by their begin at each port allows."""
    last: tuple[dict[int, int], dict[int, int]] = ({}, {})
    order = np.argsort(start, kind="stable")
    steps: list[list[int]] = []
    for number, p, q in zip(order.tolist(), source[order].tolist(), target[order].tolist(), strict=True):
        step = max(last[0].get(p, 0), last[1].get(q, 0))
        last[0][p] = last[1][q] = step + 1
        if step == len(steps):
            steps.append([])
        steps[step].append(number)
    return [np.array(step) for step in steps]


def _inside(grid: MessageGraph, sources: Ints, targets: Ints) -> list[Ints]:
    """Steps of the messages within hosts. They go last: nobody waits for them."""
    lengths = grid.lengths
    places = np.argwhere((lengths > 0) & (sources[:, None] == targets))
    listed = _listed(places[:, 0], places[:, 1], np.zeros(len(places)))
    return [np.column_stack([places[some], lengths[tuple(places[some].T)]]) for some in listed]
