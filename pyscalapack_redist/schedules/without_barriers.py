"""When each message goes if nobody waits for a step to end: every process keeps the order of a schedule, and no more.

A process sends one message at a time and receives one at a time, and a message goes as soon as both of its processes have come
to it. That is an open shop whose jobs are the senders and whose machines are the receivers (Gonzalez & Sahni, 1976). Where the
processes of a host share its link, the host is the port: one message at a time leaves it and one reaches it, of whichever
process has come to one, and messages within a host take no time.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ScheduleError
from .message_graph import Ints, MessageGraph
from .schedule import Schedule

__all__ = ["Timetable", "completion_time", "port_bound", "startup_of", "timetable"]

Floats = NDArray[np.float64]
Hosts = tuple[ArrayLike, ArrayLike]


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
