"""Messages where nobody waits for a step to end: the times at which they go, and the order that ends first.

Every process keeps the order of a schedule, and no more: it sends one message and receives one message at a time. This is
an open shop without preemption; its jobs are the senders, its machines the receivers (Gonzalez & Sahni, 1976).
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ScheduleError
from .checks import checked_seconds, checked_table
from .communication_grid import CommunicationGrid
from .folding import Amalgam, amalgamated, slices
from .least_cost import optimal
from .matchings import stepwise
from .message_graph import Ints, MessageGraph, WholeGraph
from .preemptive import Pieces, folded_lengths, unfolded_steps
from .schedule import EQUALS_BOUND, ListedSchedule, Schedule, excess

Floats = NDArray[np.float64]
Hosts = tuple[ArrayLike, ArrayLike]
TINY = 1e-9
LONGEST = (0.5, 0.0, 1.0, 2.0)  # weights of a message's own duration in its priority
NOISE = (0.3, 1.0, 0.1)
MOST_TRANSFERS = 100_000  # for which dense orders are made: some seconds
MOST_PAIRS = 2**20  # of processes, for which tables are made where an order is known already
# Lengths times messages for which the least cost with barriers is sought: some tenths of a second.
MOST_LEVELS = 200_000
# Of the time: for the schedule with barriers, and until chance is tried no more on a folded graph.
UNCUT, CHANCE = 0.2, 0.4


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
        self, grid: MessageGraph, steps: list[Ints], startup: float, hosts: Hosts | None, time_bound: float
    ) -> None:
        super().__init__("open-shop", grid, steps)
        self.startup, self.time_bound = startup, time_bound
        self.time = completion_time(self, startup, hosts)

    @property
    def certificate(self) -> str:
        """What is known of the time without barriers, which is no sum over steps. Not collective.

        After the time: "equals the lower bound", "best found, within x %".
        """
        met = self.time <= self.time_bound * (1 + TINY)
        known = EQUALS_BOUND if met else f"best found, within {excess(self.time, self.time_bound)} %"
        return f"{self.time:g} without barriers: {known}"


def open_shop(
    grid: MessageGraph, startup: float = 0.0, time_limit: float = 1.0, hosts: Hosts | None = None
) -> OpenShopSchedule:
    """The order that ends first, of those that are found, where nobody waits for a step to end. Not collective.

    A process sends one message and receives one message at a time. Processes that keep the order of the steps, and no more, end
    at `time`; the sum of the steps' costs does not matter. Least times are NP-hard (Gonzalez & Sahni, 1976).

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
    search = _OrderSearch(grid, startup, None if hosts is None else hosts_of(grid, hosts), seconds)
    return search.run()


class _MessageSet(NamedTuple):
    """Messages of a graph, or of a folded one: places in a table of lengths, and ports."""

    graph: Amalgam | None
    places: Ints
    length: Ints
    transfers: PortMessages

    def steps(self, start: Floats) -> list[Ints]:
        """Steps of the whole graph that keep an order at each port."""
        listed = _listed(self.transfers.source, self.transfers.target, start)
        if self.graph is not None:
            return unfolded_steps(self.graph, [Pieces(self.places[some], self.length[some]) for some in listed])
        return [np.column_stack([self.places[some], self.length[some]]) for some in listed]


class _OrderSearch:
    """Orders of one graph, until time is up or the bound is met.

    Orders that leave no port idle without need are tried, with other priorities and with chance, beside the orders of
    `stepwise` and `optimal`. A slice is scheduled as a folded graph first, since an order of that is one of the whole.
    """

    def __init__(self, grid: MessageGraph, startup: float, hosts: tuple[Ints, Ints] | None, seconds: float) -> None:
        self.grid, self.startup, self.hosts, self.seconds = grid, startup, hosts, seconds
        self.begin = time.monotonic()
        self.bound = 0.0
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
        for messages, part in zip(cases, [CHANCE, 1.0][-len(cases) :], strict=True):
            self._by_chance(messages, part)
        return OpenShopSchedule(self.grid, self.steps, self.startup, self.hosts, self.bound)

    def _cases(self) -> Iterator[_MessageSet]:
        """The folded graph where the grid folds; then the whole one, if that is not large."""
        if isinstance(self.grid, CommunicationGrid) and slices(self.grid):
            graph = amalgamated(self.grid)
            table = folded_lengths(self.grid, graph)
            if graph.turns > 1:
                places = np.argwhere(table)
                length = table[tuple(places.T)]
                yield _MessageSet(
                    graph, places, length, PortMessages(places[:, 0], places[:, 1], self._durations(length))
                )
                if len(places) * graph.turns > MOST_TRANSFERS:
                    return
        yield self._whole()

    def _whole(self) -> _MessageSet:
        """All messages; with hosts those between two of them, whose ports are the hosts'."""
        places, length = _owed(self.grid)
        source, target = places.T
        if self.hosts is not None:
            source, target = self.hosts[0][places[:, 0]], self.hosts[1][places[:, 1]]
            away = source != target
            places, length, source, target = places[away], length[away], source[away], target[away]
        return _MessageSet(None, places, length, PortMessages(source, target, self._durations(length)))

    def _durations(self, length: Ints) -> Floats:
        return np.add(length, self.startup, dtype=np.float64)

    def _left(self, part: float) -> float:
        return self.begin + part * self.seconds - time.monotonic()

    def _open(self, messages: _MessageSet) -> bool:
        return self.time > self.bound * (1 + TINY) and messages.transfers.number > 0

    def _keep(self, schedule: Schedule) -> None:
        """Where it is the best. With hosts only a run tells: a port may take a message before its turn."""
        found = completion_time(schedule, self.startup, self.hosts)
        if found < self.time:
            self.time, self.steps = found, schedule.steps

    def _keep_begins(self, messages: _MessageSet, start: Floats) -> None:
        if float((start + messages.transfers.duration).max()) < self.time:
            self._keep(ListedSchedule("open-shop", self.grid, messages.steps(start) + self.inside))

    def _try(self, messages: _MessageSet, priority: Priority) -> None:
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

    def _by_chance(self, messages: _MessageSet, part: float) -> None:
        number = 0
        while self._open(messages) and self._left(part) > 0:
            if messages.transfers.number > MOST_TRANSFERS:
                return
            weight, noise = LONGEST[number % len(LONGEST)], NOISE[number // len(LONGEST) % len(NOISE)]
            self._try(messages, Priority(weight, noise))
            number += 1


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


class PortMessages(NamedTuple):
    """What goes between ports.

    Attributes
    ----------
    source, target : ndarray of int
        Numbers of the ports out and of the ports in.
    duration : ndarray of float
        More than 0.
    """

    source: Ints
    target: Ints
    duration: Floats

    @property
    def number(self) -> int:
        """Their number."""
        return len(self.duration)

    @property
    def bound(self) -> float:
        """What the busiest port takes."""
        return max(float(np.bincount(side, self.duration).max(initial=0.0)) for side in (self.source, self.target))


class Priority(NamedTuple):
    """What decides which transfer a free port begins.

    Attributes
    ----------
    longest : float
        How much the duration of a transfer counts, beside all that its other port has left to do.
    noise : float
        How much chance counts, in longest durations.
    """

    longest: float = 0.0
    noise: float = 0.0


def dense_starts(transfers: PortMessages, priority: Priority, rng: np.random.Generator) -> Floats:
    """When each transfer begins in an order in which no port idles while a transfer could go through it. Not collective.

    This is list scheduling for the open shop. When ports become free, each begins a transfer with a free port, if it has
    one: that with the port which has most left to do. The last port to end is idle only while all the other ports of its
    transfers are busy, so the time is below twice that of the busiest port (Racsmany; Barany & Fiala, 1982). Random changes
    of the priorities give other such orders to choose from.

    Parameters
    ----------
    transfers : PortMessages
        What is to go.
    priority : Priority
        Who goes first.
    rng : numpy.random.Generator
        Chance.
    """
    return _Dense(transfers, priority, rng).run() if transfers.number else np.zeros(0)


class _Dense:
    """Ports are numbered the sources first."""

    def __init__(self, transfers: PortMessages, priority: Priority, rng: np.random.Generator) -> None:
        sources = int(transfers.source.max()) + 1
        self.duration, self.rng = transfers.duration, rng
        self.ends = np.stack([transfers.source, transfers.target + sources])
        ports = int(self.ends.max()) + 1
        self.left: Floats = np.bincount(self.ends.ravel(), np.tile(self.duration, 2), ports).astype(np.float64)
        self.free, self.unsent = np.ones(ports, bool), np.ones(transfers.number, bool)
        self.noise = priority.noise * float(self.duration.max())
        self.bonus: Floats = priority.longest * self.duration
        if self.noise:
            self.bonus = self.bonus + self.noise * rng.random(transfers.number)
        self.of_port: list[Ints] = []
        self.other: list[Ints] = []  # ports at the other ends of these
        for side in (0, 1):
            order = np.argsort(self.ends[side], kind="stable")
            first, last = (0, sources) if side == 0 else (sources, ports)
            cuts = np.searchsorted(self.ends[side][order], np.arange(first + 1, last))
            self.of_port += np.split(order, cuts)
            self.other += np.split(self.ends[1 - side][order], cuts)

    def run(self) -> Floats:
        start = np.zeros(len(self.duration))
        under_way: list[tuple[float, int]] = []
        ports: Ints = np.flatnonzero(self.left > 0)
        now, waiting = 0.0, len(start)
        while True:
            for port in ports[np.argsort(-self._urgency(ports), kind="stable")].tolist():
                chosen = self._choice(port) if self.free[port] else -1
                if chosen >= 0:
                    start[chosen] = now
                    waiting -= 1
                    heapq.heappush(under_way, (now + float(self.duration[chosen]), chosen))
            if not waiting:
                return start
            now, number = heapq.heappop(under_way)
            ended = [number]
            while under_way and under_way[0][0] <= now:
                ended.append(heapq.heappop(under_way)[1])
            ports = np.ravel(self.ends[:, ended])
            self.free[ports] = True

    def _urgency(self, ports: Ints) -> Floats:
        left: Floats = self.left[ports]
        return left + self.noise * self.rng.random(len(ports)) if self.noise else left

    def _choice(self, port: int) -> int:
        """The transfer that a free port begins, -1 for none."""
        mine, other = self.of_port[port], self.other[port]
        able = np.flatnonzero(self.unsent[mine] & self.free[other])
        if not len(able):
            return -1
        mine = mine[able]
        chosen = int(mine[(self.left[other[able]] + self.bonus[mine]).argmax()])
        ends = self.ends[:, chosen]
        self.free[ends] = self.unsent[chosen] = False
        self.left[ends] -= self.duration[chosen]
        return chosen


class Timetable(NamedTuple):
    """When the messages of a schedule go. Not collective.

    Attributes
    ----------
    messages : ndarray
        Rows sender, receiver, length, in the order of the schedule's steps.
    start, end : ndarray
        Of each message.
    """

    messages: Ints
    start: Floats
    end: Floats

    @property
    def completion(self) -> float:
        """When the last message ends. Not collective."""
        return float(self.end.max(initial=0.0))


def completion_time(schedule: Schedule, startup: float = 0.0, hosts: Hosts | None = None) -> float:
    """When the last message of a schedule ends if nobody waits for a step to end. Not collective.

    Parameters
    ----------
    schedule, startup, hosts
        As for `timetable`.

    Raises
    ------
    ScheduleError
        An argument is not one of these.
    """
    return timetable(schedule, startup, hosts).completion


def timetable(schedule: Schedule, startup: float = 0.0, hosts: Hosts | None = None) -> Timetable:
    """When each message goes if every process keeps the order of a schedule and nobody waits for a step to end. Not collective.

    A message goes as soon as both of its processes have come to it. Where the processes of a host share its link, the host
    is the port: one message at a time leaves it and one reaches it, of whichever process has come to one, and messages
    within a host take no time.

    Parameters
    ----------
    schedule : Schedule
        Senders and receivers go through their messages in the order of its steps, and in the order of its rows where a process
        comes several times in a step.
    startup : float
        What a message costs beside its length, in the unit of the lengths, at both of its processes.
    hosts : (array_like, array_like), optional
        The number of the host of each sender and of each receiver; by default each process has a link of its own. A port that
        several wait for goes to the message of the earliest step of which the other port is free.

    Raises
    ------
    ScheduleError
        An argument is not one of these.
    """
    startup = startup_of(startup)
    if hosts is not None:
        return _dispatched(schedule, startup, *hosts_of(schedule.grid, hosts))
    free = [np.zeros(processes) for processes in (schedule.grid.P, schedule.grid.Q)]
    starts = []
    for step in schedule.steps:
        for rows in [step] if schedule.one_port else np.split(step, len(step) or 1):
            p, q, length = rows.T
            start = np.maximum(free[0][p], free[1][q])
            free[0][p] = free[1][q] = start + (startup + length)
            starts.append(start)
    messages = np.concatenate([np.zeros((0, 3), np.int64), *schedule.steps])
    start = np.concatenate([np.zeros(0), *starts])
    return Timetable(messages, start, start + (startup + messages[:, 2]))


def port_bound(grid: MessageGraph, startup: float = 0.0, hosts: Hosts | None = None) -> float:
    """The most that one port sends or receives, start-ups included: no order takes less time. Not collective.

    Where messages may be cut without start-up costs, this is the least time (Gonzalez & Sahni, 1976).

    Parameters
    ----------
    grid : MessageGraph
        What is to go.
    startup, hosts
        As for `timetable`.
    """
    startup = startup_of(startup)
    if hosts is None and not startup:
        return float(grid.volume_bound)
    busy = np.where(grid.lengths > 0, startup + grid.lengths, 0.0)
    if hosts is None:
        return max(float(busy.sum(axis=axis).max()) for axis in (0, 1))
    sources, targets = hosts_of(grid, hosts)
    busy[sources[:, None] == targets] = 0.0
    return max(float(np.bincount(ports, busy.sum(axis=axis)).max()) for ports, axis in ((sources, 1), (targets, 0)))


def startup_of(value: Any) -> float:
    """A start-up cost, checked. Not collective.

    Raises
    ------
    ScheduleError
        It is not a number of at least 0.
    """
    try:
        startup = float(value)
    except (TypeError, ValueError):
        startup = math.nan
    if not 0 <= startup < math.inf:
        raise ScheduleError(
            f"startup = {value!r} must be a number of at least 0: the cost of a message in the unit of lengths"
        )
    return startup


def hosts_of(grid: MessageGraph, hosts: Hosts) -> tuple[Ints, Ints]:
    """The host of each sender and of each receiver, checked. Not collective.

    Raises
    ------
    ScheduleError
        It is not a number of at least 0 for each.
    """
    try:
        found = tuple(np.asarray(side) for side in hosts)
    except (TypeError, ValueError):
        found = ()
    if [side.shape for side in found] != [(grid.P,), (grid.Q,)] or any(
        side.dtype.kind not in "iu" or side.min() < 0 for side in found
    ):
        raise ScheduleError(
            f"hosts = {hosts!r} must be two lists of integers of at least 0: the host of each of {grid.P} senders and of each "
            f"of {grid.Q} receivers"
        )
    return found[0].astype(np.int64), found[1].astype(np.int64)


def _dispatched(schedule: Schedule, startup: float, sources: Ints, targets: Ints) -> Timetable:
    messages = np.concatenate([np.zeros((0, 3), np.int64), *schedule.steps])
    start = _Dispatch(messages, startup, sources, targets).run()
    inside = sources[messages[:, 0]] == targets[messages[:, 1]]
    return Timetable(messages, start, start + np.where(inside, 0.0, startup + messages[:, 2]))


class _Dispatch:
    """Messages whose turn it is at both processes wait for the ports of their hosts; the earliest in the schedule go first."""

    def __init__(self, messages: Ints, startup: float, sources: Ints, targets: Ints) -> None:
        sender, receiver, length = messages.T
        source, target = sources[sender], int(sources.max()) + 1 + targets[receiver]
        inside = sources[sender] == targets[receiver]
        self.duration = np.where(inside, 0.0, startup + length).tolist()
        self.ports = list(zip(source.tolist(), target.tolist(), strict=True))
        self.inside = inside.tolist()
        self.behind = [_behind(sender), _behind(receiver)]
        self.missing = [sum(k >= 0 for k in before) for before in zip(*map(_ahead, (sender, receiver)), strict=True)]
        self.start = np.zeros(len(messages))
        self.free = [True] * (int(target.max(initial=0)) + 1)
        self.waiting: list[set[int]] = [set() for _ in self.free]

    def run(self) -> Floats:
        """Start of each message. Not collective."""
        under_way: list[tuple[float, int]] = []
        now, able = 0.0, [k for k, missing in enumerate(self.missing) if not missing]
        touched: set[int] = set()
        while True:
            while able:
                number = able.pop()
                if self.inside[number]:
                    self.start[number] = now
                    self._pass_on(number, able)
                else:
                    for port in self.ports[number]:
                        self.waiting[port].add(number)
                    touched.add(self.ports[number][0])
            for number in sorted(set().union(*(self.waiting[port] for port in touched))):
                if all(self.free[port] for port in self.ports[number]):
                    for port in self.ports[number]:
                        self.free[port] = False
                        self.waiting[port].remove(number)
                    self.start[number] = now
                    heapq.heappush(under_way, (now + self.duration[number], number))
            if not under_way:
                return self.start
            now, touched = under_way[0][0], set()
            while under_way and under_way[0][0] <= now:
                number = heapq.heappop(under_way)[1]
                for port in self.ports[number]:
                    self.free[port] = True
                    touched.add(port)
                self._pass_on(number, able)

    def _pass_on(self, number: int, able: list[int]) -> None:
        """It is the turn of the next message of each of its processes."""
        for behind in self.behind:
            following = behind[number]
            if following >= 0:
                self.missing[following] -= 1
                if not self.missing[following]:
                    able.append(following)


def _behind(process: Ints) -> list[int]:
    """For each message the next one of the same process, -1 for none."""
    order = np.argsort(process, kind="stable")
    same = process[order[1:]] == process[order[:-1]]
    found = np.full(len(process), -1)
    found[order[:-1][same]] = order[1:][same]
    return found.tolist()


def _ahead(process: Ints) -> list[int]:
    """For each message the one before of the same process, -1 for none."""
    found = np.full(len(process), -1)
    behind = np.array(_behind(process), np.int64)
    found[behind[behind >= 0]] = np.flatnonzero(behind >= 0)
    return found.tolist()
