"""Messages without barriers between steps: the time of each message, and orders that complete early.

Each process sends its messages in the order of a schedule, one at a time, and receives one at a time. This is an open shop
without preemption: jobs are the senders, machines the receivers (Gonzalez & Sahni, 1976).
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
from .folding import FoldedGraph, fold, slices
from .least_cost import optimal
from .matchings import stepwise
from .message_graph import Ints, MessageGraph, WholeGraph
from .preemptive import Pieces, folded_lengths, unfold_steps
from .schedule import EQUALS_BOUND, ListedSchedule, Schedule, excess

Floats = NDArray[np.float64]
Hosts = tuple[ArrayLike, ArrayLike]
TINY = 1e-9
DURATION_WEIGHTS = (0.5, 0.0, 1.0, 2.0)  # weights of a message's own duration in its priority
NOISE = (0.3, 1.0, 0.1)  # random parts of priorities
MOST_MESSAGES = 100_000  # messages up to which dense orders are made: some seconds
MOST_PAIRS = 2**20  # pairs of processes up to which tables are made if there is an order already
# Lengths times messages up to which the schedule of least cost with barriers is tried: some tenths of a second.
MOST_LEVELS = 200_000
# Shares of the time: for the schedule with barriers, and for random orders of a folded graph.
UNCUT, CHANCE = 0.2, 0.4


class OpenShopSchedule(ListedSchedule):
    """An order of messages without barriers, with its completion time and a lower bound. Not collective.

    Attributes
    ----------
    startup : float
        Start-up cost of a message, in the unit of lengths.
    time : float
        When the last message ends.
    time_bound : float
        Lower bound of the completion time of any order.
    """

    def __init__(
        self, grid: MessageGraph, steps: list[Ints], startup: float, hosts: Hosts | None, time_bound: float
    ) -> None:
        super().__init__("open-shop", grid, steps)
        self.startup, self.time_bound = startup, time_bound
        self.time = completion_time(self, startup, hosts)

    @property
    def certificate(self) -> str:
        """The completion time, and how far it is above the lower bound, in words.

        The time is followed by "equals the lower bound" or "best found, within x %".
        """
        optimal = self.time <= self.time_bound * (1 + TINY)
        quality = EQUALS_BOUND if optimal else f"best found, within {excess(self.time, self.time_bound)} %"
        return f"{self.time:g} without barriers: {quality}"


def open_shop(
    grid: MessageGraph, startup: float = 0.0, time_limit: float = 1.0, hosts: Hosts | None = None
) -> OpenShopSchedule:
    """Search for the order that completes first without barriers between steps.

    A process sends one message and receives one message at a time. Processes that send in the order of the steps, without
    waiting for a step to end, complete at `time`; the sum of the steps' costs does not matter. The least time is NP-hard
    (Gonzalez & Sahni, 1976).

    Parameters
    ----------
    grid : MessageGraph
        The messages.
    startup : float
        Start-up cost of a message at both of its processes, in the unit of lengths.
    time_limit : float
        Seconds for the search; there is an order even if it takes longer.
    hosts : (array_like, array_like), optional
        Host number of each sender and of each receiver. The processes of a host share its link: one message at a time leaves
        the host and one reaches it. Messages within a host take no time.

    Raises
    ------
    ScheduleError
        An option is invalid, or there are more than 10^8 messages.
    """
    startup, seconds = startup_of(startup), checked_seconds(time_limit)
    checked_table(grid.P, grid.Q)
    search = _OrderSearch(grid, startup, None if hosts is None else hosts_of(grid, hosts), seconds)
    return search.run()


class _MessageSet(NamedTuple):
    """Messages of a graph, or of a folded graph.

    Attributes
    ----------
    graph : FoldedGraph or None
        The folded graph; None for the whole graph.
    indices : ndarray
        Rows of indices into the table of lengths.
    length : ndarray
        Length of each message.
    at_ports : PortMessages
        Ports and duration of each message.
    """

    graph: FoldedGraph | None
    indices: Ints
    length: Ints
    at_ports: PortMessages

    def steps(self, start: Floats) -> list[Ints]:
        """Steps of the whole graph that keep the order of start times at each port."""
        steps = _list_steps(self.at_ports.source, self.at_ports.target, start)
        if self.graph is not None:
            return unfold_steps(self.graph, [Pieces(self.indices[step], self.length[step]) for step in steps])
        return [np.column_stack([self.indices[step], self.length[step]]) for step in steps]


class _OrderSearch:
    """A search for the best order of one graph, until time is up or the bound is met.

    The search tries dense orders with several priorities, fixed and random, and the orders of `stepwise` and `optimal`. A slice
    is searched as a folded graph first: an order of the folded graph is one of the whole.
    """

    def __init__(self, grid: MessageGraph, startup: float, hosts: tuple[Ints, Ints] | None, seconds: float) -> None:
        self.grid, self.startup, self.hosts, self.seconds = grid, startup, hosts, seconds
        self.begin = time.monotonic()
        self.bound = 0.0
        self.time, self.steps = math.inf, list[Ints]()
        self.rng = np.random.default_rng(0)
        self.inside = [] if hosts is None else _steps_within_hosts(grid, *hosts)

    def run(self) -> OpenShopSchedule:
        """The best order."""
        cases = [self._whole()] if self.hosts is not None else list(self._cases())
        first = cases[0]
        self.bound = first.at_ports.bound
        for weight in DURATION_WEIGHTS if first.at_ports.number <= MOST_MESSAGES else ():
            if self._open(first) and (weight == DURATION_WEIGHTS[0] or self._left(CHANCE) > 0):
                self._try(first, Priority(weight))
        self._try_schedules()
        for messages, part in zip(cases, [CHANCE, 1.0][-len(cases) :], strict=True):
            self._try_random(messages, part)
        return OpenShopSchedule(self.grid, self.steps, self.startup, self.hosts, self.bound)

    def _cases(self) -> Iterator[_MessageSet]:
        """The folded graph, if the grid folds; then the whole graph, if it is not large."""
        if isinstance(self.grid, CommunicationGrid) and slices(self.grid):
            graph = fold(self.grid)
            table = folded_lengths(self.grid, graph)
            if graph.turns > 1:
                indices = np.argwhere(table)
                length = table[tuple(indices.T)]
                yield _MessageSet(
                    graph, indices, length, PortMessages(indices[:, 0], indices[:, 1], self._durations(length))
                )
                if len(indices) * graph.turns > MOST_MESSAGES:
                    return
        yield self._whole()

    def _whole(self) -> _MessageSet:
        """All messages; with hosts, the messages between hosts, whose ports are the hosts."""
        indices, length = _messages_of(self.grid)
        source, target = indices.T
        if self.hosts is not None:
            source, target = self.hosts[0][indices[:, 0]], self.hosts[1][indices[:, 1]]
            between_hosts = source != target
            indices, length, source, target = (
                indices[between_hosts],
                length[between_hosts],
                source[between_hosts],
                target[between_hosts],
            )
        return _MessageSet(None, indices, length, PortMessages(source, target, self._durations(length)))

    def _durations(self, length: Ints) -> Floats:
        return np.add(length, self.startup, dtype=np.float64)

    def _left(self, part: float) -> float:
        """Seconds left of a share of the time."""
        return self.begin + part * self.seconds - time.monotonic()

    def _open(self, messages: _MessageSet) -> bool:
        """Whether the best order is above the bound."""
        return self.time > self.bound * (1 + TINY) and messages.at_ports.number > 0

    def _keep(self, schedule: Schedule) -> None:
        """Keep a schedule if it is the best. With hosts its time is simulated: a port may take messages out of order."""
        completion = completion_time(schedule, self.startup, self.hosts)
        if completion < self.time:
            self.time, self.steps = completion, schedule.steps

    def _keep_starts(self, messages: _MessageSet, start: Floats) -> None:
        """Keep the order of these start times if it is the best."""
        if float((start + messages.at_ports.duration).max()) < self.time:
            self._keep(ListedSchedule("open-shop", self.grid, messages.steps(start) + self.inside))

    def _try(self, messages: _MessageSet, priority: Priority) -> None:
        self._keep_starts(messages, dense_starts(messages.at_ports, priority, self.rng))

    def _try_schedules(self) -> None:
        """Try the orders of schedules with barriers."""
        too_many = self.grid.P * self.grid.Q > MOST_PAIRS
        if self.time <= self.bound * (1 + TINY) or (too_many and self.time < math.inf):
            return
        schedules: list[Schedule] = [stepwise(self.grid, max(TINY, self._left(1.0)))]
        lengths = np.unique(self.grid.lengths[self.grid.lengths > 0], return_counts=True)[1]
        if len(lengths) * int(lengths.sum()) <= MOST_LEVELS:
            schedules.append(optimal(self.grid, "cost", UNCUT * self.seconds))
        for schedule in schedules:
            self._keep(schedule)

    def _try_random(self, messages: _MessageSet, part: float) -> None:
        """Try dense orders with random priorities."""
        number = 0
        while self._open(messages) and self._left(part) > 0:
            if messages.at_ports.number > MOST_MESSAGES:
                return
            weight, noise = (
                DURATION_WEIGHTS[number % len(DURATION_WEIGHTS)],
                NOISE[number // len(DURATION_WEIGHTS) % len(NOISE)],
            )
            self._try(messages, Priority(weight, noise))
            number += 1


def _messages_of(grid: MessageGraph) -> tuple[Ints, Ints]:
    """Rows sender, receiver and lengths of all messages; for a product of dimensions without a table of all pairs."""
    if not isinstance(grid, WholeGraph):
        indices = np.argwhere(grid.lengths)
        return indices, grid.lengths[tuple(indices.T)]
    sender, receiver, length = (np.array([first]) for first in (0, 0, 1))
    for axis in grid.axes:
        indices, lengths = _messages_of(axis)
        sender = np.add.outer(sender * axis.P, indices[:, 0]).ravel()
        receiver = np.add.outer(receiver * axis.Q, indices[:, 1]).ravel()
        length = np.multiply.outer(length, lengths).ravel()
    order = np.lexsort((receiver, sender))
    if grid.own is not None:
        order = order[grid.own[sender[order]] != receiver[order]]
    return np.column_stack([sender, receiver])[order], length[order]


def _list_steps(source: Ints, target: Ints, start: Floats) -> list[Ints]:
    """Numbers of the messages of each step; each is in the earliest step that keeps the order of starts at both ports."""
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


def _steps_within_hosts(grid: MessageGraph, sources: Ints, targets: Ints) -> list[Ints]:
    """Steps of the messages within hosts; they go last."""
    lengths = grid.lengths
    indices = np.argwhere((lengths > 0) & (sources[:, None] == targets))
    steps = _list_steps(indices[:, 0], indices[:, 1], np.zeros(len(indices)))
    return [np.column_stack([indices[step], lengths[tuple(indices[step].T)]]) for step in steps]


class PortMessages(NamedTuple):
    """Messages between ports, one entry for each message.

    Attributes
    ----------
    source, target : ndarray of int
        Numbers of the output port and of the input port.
    duration : ndarray of float
        Durations, above 0.
    """

    source: Ints
    target: Ints
    duration: Floats

    @property
    def number(self) -> int:
        """Number of messages."""
        return len(self.duration)

    @property
    def bound(self) -> float:
        """Sum of durations at the busiest port: a lower bound of the completion time."""
        return max(float(np.bincount(side, self.duration).max(initial=0.0)) for side in (self.source, self.target))


class Priority(NamedTuple):
    """Weights by which a free port chooses its next message.

    Attributes
    ----------
    longest : float
        Weight of a message's own duration; the remaining work of its other port has weight 1.
    noise : float
        Weight of a random number, in units of the longest duration.
    """

    longest: float = 0.0
    noise: float = 0.0


def dense_starts(messages: PortMessages, priority: Priority, rng: np.random.Generator) -> Floats:
    """Start time of each message in a dense order: no port idles while one of its messages could go.

    This is list scheduling for the open shop. A port that becomes free starts a message to another free port, the one with the
    most work left. The last port to end idles only while the other ports of its messages are busy, so the time is less than
    twice the work of the busiest port (Racsmany; Barany & Fiala, 1982). Random priorities give other dense orders.

    Parameters
    ----------
    messages : PortMessages
        The messages.
    priority : Priority
        Weights for the choice of the next message.
    rng : numpy.random.Generator
        Source of the random priorities.
    """
    return _DenseOrder(messages, priority, rng).run() if messages.number else np.zeros(0)


class _DenseOrder:
    """The computation of `dense_starts`; ports are numbered sources first."""

    def __init__(self, messages: PortMessages, priority: Priority, rng: np.random.Generator) -> None:
        sources = int(messages.source.max()) + 1
        self.duration, self.rng = messages.duration, rng
        self.ends = np.stack([messages.source, messages.target + sources])
        ports = int(self.ends.max()) + 1
        self.left: Floats = np.bincount(self.ends.ravel(), np.tile(self.duration, 2), ports).astype(np.float64)
        self.free, self.unsent = np.ones(ports, bool), np.ones(messages.number, bool)
        self.noise = priority.noise * float(self.duration.max())
        self.bonus: Floats = priority.longest * self.duration
        if self.noise:
            self.bonus = self.bonus + self.noise * rng.random(messages.number)
        self.of_port: list[Ints] = []
        self.other: list[Ints] = []  # the other port of each message of a port
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
                number = self._choice(port) if self.free[port] else -1
                if number >= 0:
                    start[number] = now
                    waiting -= 1
                    heapq.heappush(under_way, (now + float(self.duration[number]), number))
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
        """Start a message of a free port; returns its number, -1 for none."""
        numbers, other_ports = self.of_port[port], self.other[port]
        ready = np.flatnonzero(self.unsent[numbers] & self.free[other_ports])
        if not len(ready):
            return -1
        numbers = numbers[ready]
        number = int(numbers[(self.left[other_ports[ready]] + self.bonus[numbers]).argmax()])
        ends = self.ends[:, number]
        self.free[ends] = self.unsent[number] = False
        self.left[ends] -= self.duration[number]
        return number


class Timetable(NamedTuple):
    """Start and end times of the messages of a schedule. Not collective.

    Attributes
    ----------
    messages : ndarray
        Rows sender, receiver, length, in the order of the schedule's steps.
    start, end : ndarray
        Start and end of each message.
    """

    messages: Ints
    start: Floats
    end: Floats

    @property
    def completion(self) -> float:
        """When the last message ends."""
        return float(self.end.max(initial=0.0))


def completion_time(schedule: Schedule, startup: float = 0.0, hosts: Hosts | None = None) -> float:
    """When the last message of a schedule ends, without barriers between steps. Not collective.

    Parameters
    ----------
    schedule, startup, hosts
        As for `timetable`.

    Raises
    ------
    ScheduleError
        An argument is invalid.
    """
    return timetable(schedule, startup, hosts).completion


def timetable(schedule: Schedule, startup: float = 0.0, hosts: Hosts | None = None) -> Timetable:
    """Start and end of each message if processes keep the order of a schedule, without barriers. Not collective.

    A message starts when both of its processes have completed their earlier messages. With `hosts`, the processes of a host
    share a link: one message at a time leaves the host and one reaches it; messages within a host take no time.

    Parameters
    ----------
    schedule : Schedule
        Senders and receivers keep the order of its steps; within a step, the order of its rows.
    startup : float
        Start-up cost of a message at both of its processes, in the unit of lengths.
    hosts : (array_like, array_like), optional
        Host number of each sender and of each receiver; by default each process has a link of its own. If several messages wait
        for a link, the one of the earliest step whose other link is free goes first.

    Raises
    ------
    ScheduleError
        An argument is invalid.
    """
    startup = startup_of(startup)
    if hosts is not None:
        return _simulate_hosts(schedule, startup, *hosts_of(schedule.grid, hosts))
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
    """Lower bound of the completion time: the most that one port sends or receives, with start-ups. Not collective.

    If messages may be cut without start-up costs, this is the least time (Gonzalez & Sahni, 1976).

    Parameters
    ----------
    grid : MessageGraph
        The messages.
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
    """A start-up cost as a float; a ScheduleError if it is not a number of at least 0."""
    try:
        startup = float(value)
    except (TypeError, ValueError):
        startup = math.nan
    if not 0 <= startup < math.inf:
        raise ScheduleError(
            f"startup = {value!r} must be a number of at least 0: the start-up cost of a message in the unit of lengths"
        )
    return startup


def hosts_of(grid: MessageGraph, hosts: Hosts) -> tuple[Ints, Ints]:
    """The host of each sender and of each receiver; a ScheduleError unless they are numbers of at least 0."""
    try:
        sides = tuple(np.asarray(side) for side in hosts)
    except (TypeError, ValueError):
        sides = ()
    if [side.shape for side in sides] != [(grid.P,), (grid.Q,)] or any(
        side.dtype.kind not in "iu" or side.min() < 0 for side in sides
    ):
        raise ScheduleError(
            f"hosts = {hosts!r} must be two lists of integers of at least 0: the host of each of {grid.P} senders and of each "
            f"of {grid.Q} receivers"
        )
    return sides[0].astype(np.int64), sides[1].astype(np.int64)


def _simulate_hosts(schedule: Schedule, startup: float, sources: Ints, targets: Ints) -> Timetable:
    messages = np.concatenate([np.zeros((0, 3), np.int64), *schedule.steps])
    start = _HostSimulation(messages, startup, sources, targets).run()
    inside = sources[messages[:, 0]] == targets[messages[:, 1]]
    return Timetable(messages, start, start + np.where(inside, 0.0, startup + messages[:, 2]))


class _HostSimulation:
    """A simulation with hosts: a message that is next at both processes waits for the ports of both hosts.

    Of the messages that wait for a port, the earliest in the schedule goes first.
    """

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
        """Start time of each message."""
        under_way: list[tuple[float, int]] = []
        now, ready = 0.0, [k for k, missing in enumerate(self.missing) if not missing]
        touched: set[int] = set()
        while True:
            while ready:
                number = ready.pop()
                if self.inside[number]:
                    self.start[number] = now
                    self._advance(number, ready)
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
                self._advance(number, ready)

    def _advance(self, number: int, ready: list[int]) -> None:
        """Let the next message of both processes wait for ports, if it is next at its other process too."""
        for behind in self.behind:
            following = behind[number]
            if following >= 0:
                self.missing[following] -= 1
                if not self.missing[following]:
                    ready.append(following)


def _behind(process: Ints) -> list[int]:
    """For each message the next message of the same process, -1 for none."""
    order = np.argsort(process, kind="stable")
    same = process[order[1:]] == process[order[:-1]]
    next_message = np.full(len(process), -1)
    next_message[order[:-1][same]] = order[1:][same]
    return next_message.tolist()


def _ahead(process: Ints) -> list[int]:
    """For each message the previous message of the same process, -1 for none."""
    previous = np.full(len(process), -1)
    behind = np.array(_behind(process), np.int64)
    previous[behind[behind >= 0]] = np.flatnonzero(behind >= 0)
    return previous.tolist()
