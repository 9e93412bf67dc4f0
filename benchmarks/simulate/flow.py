"""A machine of hosts with one link each, and flows over their ports by events: what is under way shares a port max-min fairly.

A flow takes its sender's port out and its receiver's port in. Rates are those of progressive filling (Bertsekas & Gallager,
Data Networks, section 6.5.2): all rise together, and those at a full port stay. Messages are numbers only here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscalapack_redist.errors import ScheduleError
from pyscalapack_redist.tools.text import count_text

from .rules import NOTHING, Ints, Rule

Floats = NDArray[np.float64]
PEAK = 1e3  # rate of a port with a burst left, in multiples of its rate
EMPTY = 1e-3  # part of a burst that is too little to count
SAME = 1e-9  # events so near to each other, relative to the time, are one
SECONDS, BYTES = "a number of seconds of at least 0", "a number of bytes of at least 0"


@dataclass(frozen=True)
class Machine:
    """Hosts that are all alike, behind a switch without limits of its own; rank k is on host k // slots.

    Attributes
    ----------
    rate : float
        Bytes per second that a host can send and, at the same time, receive, headers included.
    latency : float
        Seconds from the moment that sender and receiver have both come to a message until its first byte moves.
    overhead : float
        Seconds that a message takes of its sender's processor, and of its receiver's, one message after another.
    efficiency : float
        The part of the bytes on a link that are the messages' own.
    turns_after : float
        Bytes of a message beyond which the two directions between two processes take turns. Open MPI over TCP sends what is
        beyond its eager limit when the receiver permits it, on one connection both ways: a permission that is given behind
        data of the other direction comes after all of that. It is so where a receive is posted before the own send.
    burst : float
        Bytes that a link lets through at once after it has been idle, headers included: a token bucket.
    """

    hosts: int
    slots: int = 1
    rate: float = math.inf
    latency: float = 0.0
    overhead: float = 0.0
    efficiency: float = 1.0
    turns_after: float = math.inf
    burst: float = 0.0

    def __post_init__(self) -> None:
        good = {
            "hosts": (self.hosts >= 1, "at least 1"),
            "slots": (self.slots >= 1, "at least 1"),
            "rate": (self.rate > 0, "above 0 bytes per second"),
            "latency": (0 <= self.latency < math.inf, SECONDS),
            "overhead": (0 <= self.overhead < math.inf, SECONDS),
            "efficiency": (0 < self.efficiency <= 1, "above 0 and at most 1"),
            "turns_after": (self.turns_after >= 0, BYTES),
            "burst": (self.burst >= 0, BYTES),
        }
        for name, (fits, what) in good.items():
            if not fits:
                raise ScheduleError(f"{name} = {getattr(self, name)} must be {what}")

    @property
    def ranks(self) -> int:
        """Ranks in all."""
        return self.hosts * self.slots

    @property
    def goodput(self) -> float:
        """Bytes of messages per second and direction."""
        return self.rate * self.efficiency

    @property
    def bucket(self) -> float:
        """Bytes of messages in a burst."""
        return self.burst * self.efficiency

    @property
    def vote(self) -> float:
        """Seconds of the vote with which each call of a plan begins: a small reduction by doubling, over all ranks."""
        return (self.ranks - 1).bit_length() * (self.latency + self.overhead)

    def limit(self, nbytes: float) -> float:
        """Seconds below which a host cannot send, nor receive, so many bytes."""
        return max(0.0, nbytes - self.bucket) / self.goodput

    def __str__(self) -> str:
        units = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (0.0, "bit/s"))
        unit, name = next(entry for entry in units if 8 * self.rate >= entry[0])
        each = f" with {self.slots} ranks each" if self.slots > 1 else ""
        processor = f" and {self.overhead * 1e6:g} us of processor" if self.overhead else ""
        rate = f"{8 * self.rate / (unit or 1):g} {name}"
        return f"{count_text(self.hosts, 'host')}{each}, {rate} each way, start-up {self.latency * 1e6:g} us{processor}"


class Pieces(NamedTuple):
    """What goes over the network as one, a message or a part of one: ranks, and bytes without headers."""

    sender: Ints
    receiver: Ints
    nbytes: Floats


class Outcome(NamedTuple):
    """When the last piece was through, when each was, and how often rates were worked out anew."""

    seconds: float
    ends: Floats
    events: int


def max_min(source: Ints, target: Ints, out: Floats, into: Floats) -> Floats:
    """Max-min fair rates of flows between hosts that can send `out` and receive `into` per second."""
    hosts = len(out)
    ends = np.stack([source, target + hosts])
    left = np.concatenate([out, into])
    rates = np.zeros(len(source))
    unset = np.arange(len(source))
    while len(unset):
        count = np.bincount(ends.ravel(), minlength=2 * hosts)
        share = np.divide(left, count, out=np.full(2 * hosts, np.inf), where=count > 0)
        wanted = share[ends]
        bound = wanted.min(axis=0)
        # A port is full when none of its flows is held back elsewhere. The one of the least share always is.
        slower = bound < wanted * (1 - 1e-12)
        held = np.bincount(ends.ravel(), weights=slower.ravel(), minlength=2 * hosts)
        settled = (held == 0)[ends].any(axis=0)
        rates[unset[settled]] = bound[settled]
        left -= np.bincount(ends[:, settled].ravel(), np.tile(bound[settled], 2), minlength=2 * hosts)
        np.maximum(left, 0, out=left)
        unset, ends = unset[~settled], ends[:, ~settled]
    return rates


def simulate(machine: Machine, pieces: Pieces, rule: Rule, resolution: float = 0.0) -> Outcome:
    """Let all pieces through, in the order that a rule allows.

    A piece moves once both sides have come to it and the one before it between the same two processes is through. Events
    within `resolution` seconds are taken together, at the end of that time: the outcome is never too early by it.
    """
    if not len(pieces.sender):
        return Outcome(0.0, np.zeros(0), 0)
    return _Simulation(machine, pieces, rule, resolution).run()


class _Simulation:
    """State: each piece is unposted, due (starts at a known time), moving, waiting for its turn, or through."""

    def __init__(self, machine: Machine, pieces: Pieces, rule: Rule, resolution: float) -> None:
        self.machine, self.rule, self.resolution = machine, rule, resolution
        self.source, self.target = pieces.sender // machine.slots, pieces.receiver // machine.slots
        self.sides = (pieces.sender, pieces.receiver)
        self.level = np.full(2 * machine.hosts, machine.bucket)  # what each port, out and in, may let through at once
        self.free_at = np.zeros((2, machine.ranks))  # when the processor has time for the next message, per side
        self.first = np.minimum(pieces.nbytes, machine.turns_after)  # goes at once; the rest takes turns
        self.rest = pieces.nbytes - self.first
        before, self.behind, self.pair = _connections(pieces)
        self.turn = np.full(self.pair.max() + 1, -1)  # which piece has it
        self.missing = 2 + (before >= 0)  # sides that have not come to it, and the piece before
        self.ready_at = np.zeros(len(pieces.sender))
        self.ends = np.full(len(pieces.sender), np.nan)
        self.due, self.due_at = NOTHING, np.zeros(0)
        self.moving, self.left, self.in_rest = NOTHING, np.zeros(0), np.zeros(0, bool)
        self.waiting = NOTHING
        self.now, self.events = 0.0, 0

    def run(self) -> Outcome:
        self._post(*self.rule.start())
        while len(self.due) or len(self.moving):
            self._step()
        if np.isnan(self.ends).any():
            raise AssertionError("pieces wait for each other: the rule does not let all of them through")
        return Outcome(float(self.now), self.ends, self.events)

    def _post(self, sends: Ints, receives: Ints) -> None:
        """Sides come to pieces, in this order: each takes its processor's time."""
        for side, some in enumerate((sends, receives)):
            if len(some):
                np.maximum.at(self.ready_at, some, self._processed(side, some))
                self._count_down(some)

    def _processed(self, side: int, some: Ints) -> Floats | float:
        if not self.machine.overhead:
            return self.now
        ranks = self.sides[side][some]
        order = np.argsort(ranks, kind="stable")
        place = np.empty(len(some), np.int64)
        place[order] = np.arange(len(some)) - np.searchsorted(ranks[order], ranks[order])
        free = self.free_at[side]
        when: Floats = np.maximum(free[ranks], self.now) + self.machine.overhead * (place + 1)
        np.maximum.at(free, ranks, when)
        return when

    def _count_down(self, some: Ints) -> None:
        self.missing[some] -= 1
        able = some[self.missing[some] == 0]
        self.due = np.concatenate([self.due, able])
        at = np.maximum(self.ready_at[able], self.now) + self.machine.latency
        self.due_at = np.concatenate([self.due_at, at])

    def _step(self) -> None:
        """To the next event, or the last of those that are taken together."""
        hosts, rate = self.machine.hosts, self.machine.goodput
        source, target = self.source[self.moving], self.target[self.moving]
        capacity = np.where(self.level > EMPTY * self.machine.bucket, PEAK * rate, rate)
        rates = max_min(source, target, capacity[:hosts], capacity[hosts:])
        self.events += 1
        ends = self.now + self.left / rates
        soonest = min(ends.min(initial=math.inf), self.due_at.min(initial=math.inf))
        until = soonest + max(self.resolution, SAME * soonest)
        now = max(ends[ends <= until].max(initial=0), self.due_at[self.due_at <= until].max(initial=0))
        now = self._drained(source, target, rates, now)
        self.left, self.now = self.left - rates * (now - self.now), now
        through, started = ends <= now, self.due_at <= now
        finished, had_turn = self.moving[through], self.in_rest[through]
        self.moving, self.left, self.in_rest = self.moving[~through], self.left[~through], self.in_rest[~through]
        begun = self.due[started]
        self.due, self.due_at = self.due[~started], self.due_at[~started]
        inside = self.source[begun] == self.target[begun]  # takes its latency and no more
        self._move(begun[~inside], self.first[begun[~inside]], rest=False)
        self._end(np.concatenate([self._half_way(finished, had_turn), begun[inside]]))
        self._take_turns()

    def _drained(self, source: Ints, target: Ints, rates: Floats, now: float) -> float:
        """Use up bursts and fill them again, until then or until the first is used up: the time that it is."""
        if not self.machine.bucket:
            return now
        ports = np.concatenate([source, target + self.machine.hosts])
        growth = self.machine.goodput - np.bincount(ports, np.tile(rates, 2), minlength=len(self.level))
        sinking = (growth < -SAME * self.machine.goodput) & (self.level > EMPTY * self.machine.bucket)
        empty_at = np.full(len(self.level), np.inf)
        empty_at[sinking] = self.now + self.level[sinking] / -growth[sinking]
        now = min(now, float(empty_at.min()))
        self.level = np.clip(self.level + growth * (now - self.now), 0, self.machine.bucket)
        self.level[empty_at <= now] = 0  # also where so short a time is lost in rounding
        return now

    def _move(self, some: Ints, amount: Floats, rest: bool) -> None:
        self.moving = np.concatenate([self.moving, some])
        self.left = np.concatenate([self.left, amount])
        self.in_rest = np.concatenate([self.in_rest, np.full(len(some), rest)])

    def _half_way(self, finished: Ints, had_turn: NDArray[np.bool_]) -> Ints:
        """Those that are all through; the others now wait for their turn."""
        self.turn[self.pair[finished[had_turn]]] = -1
        more = ~had_turn & (self.rest[finished] > 0)
        self.waiting = np.concatenate([self.waiting, np.sort(finished[more])])
        return finished[~more]

    def _take_turns(self) -> None:
        """Of those that wait for a free pair, the one that has waited longest goes."""
        free = np.flatnonzero(self.turn[self.pair[self.waiting]] < 0)
        if len(free):
            chosen = free[np.unique(self.pair[self.waiting[free]], return_index=True)[1]]
            some = self.waiting[chosen]
            self.turn[self.pair[some]] = some
            self.waiting = np.delete(self.waiting, chosen)
            self._move(some, self.rest[some], rest=True)

    def _end(self, some: Ints) -> None:
        if len(some):
            self.ends[some] = self.now
            following = self.behind[some]
            self._count_down(following[following >= 0])
            self._post(*self.rule.completed(some))


def _connections(pieces: Pieces) -> tuple[Ints, Ints, Ints]:
    """For each piece the one before and the one behind it from the same sender to the same receiver, and its pair's number."""
    count, most = len(pieces.sender), 1 + int(max(pieces.sender.max(), pieces.receiver.max()))
    way = pieces.sender * most + pieces.receiver
    order = np.argsort(way, kind="stable")
    before, behind = np.full(count, -1), np.full(count, -1)
    alike = way[order[1:]] == way[order[:-1]]
    before[order[1:][alike]] = order[:-1][alike]
    behind[order[:-1][alike]] = order[1:][alike]
    low, high = np.minimum(pieces.sender, pieces.receiver), np.maximum(pieces.sender, pieces.receiver)
    return before, behind, np.unique(low * most + high, return_inverse=True)[1].astype(np.int64)


# -- lock step on hosts of one rank each


def lock_step(machine: Machine, pieces: Pieces, stage: Ints) -> float:
    """Seconds until all pieces are through, without events: exact, and in a time proportional to the messages.

    No process sends or receives two of a stage, and both its peers are in the same one, so no port is ever shared: a message
    starts when both have come to the stage, and takes its start-up and its bytes. Two processes that owe each other something
    in one stage take turns with what is beyond `turns_after`.
    """
    if machine.slots != 1:
        raise ValueError(f"slots = {machine.slots}: ports are shared, which takes simulate")
    rate, bucket = machine.goodput, machine.bucket
    ready = np.zeros(machine.ranks)
    level, noted = (
        np.full((2, machine.hosts), bucket),
        np.zeros((2, machine.hosts)),
    )  # of each port out and in, as of when

    def through(some: Ints, nbytes: Floats, since: Floats) -> Floats:
        """When so many bytes of pieces are through two ports each, that nothing else uses."""
        sides = list(enumerate((pieces.sender[some], pieces.receiver[some])))
        levels = [np.minimum(bucket, level[side, host] + rate * (since - noted[side, host])) for side, host in sides]
        took = np.maximum(0.0, nbytes - np.minimum(*levels)) / rate
        for side, host in sides:
            level[side, host] = np.clip(levels[side] + rate * took - nbytes, 0.0, bucket)
            noted[side, host] = since + took
        return since + took

    order = np.argsort(stage, kind="stable")
    for some in np.split(order, np.flatnonzero(np.diff(stage[order])) + 1) if len(order) else ():
        sender, receiver = pieces.sender[some], pieces.receiver[some]
        first = np.minimum(pieces.nbytes[some], machine.turns_after)
        rest = pieces.nbytes[some] - first
        end = through(some, first, np.maximum(ready[sender], ready[receiver]) + machine.overhead + machine.latency)
        if rest.any():
            opposite = _opposite(machine, sender, receiver)
            later = (end[opposite] < end) | ((end[opposite] == end) & (opposite < np.arange(len(some))))
            waits = (opposite >= 0) & (rest > 0) & (rest[opposite] > 0) & later
            for which in (np.flatnonzero((rest > 0) & ~waits), np.flatnonzero(waits)):
                since = np.where(waits[which], end[opposite[which]], end[which])
                end[which] = through(some[which], rest[which], since)
        ready[sender] = end
        ready[receiver] = np.maximum(ready[receiver], end)
    return float(ready.max(initial=0.0))


def _opposite(machine: Machine, sender: Ints, receiver: Ints) -> Ints:
    """For each piece that from its receiver to its sender; -1 where there is none."""
    there, back = sender * machine.ranks + receiver, receiver * machine.ranks + sender
    order = np.argsort(there)
    found = order[np.minimum(np.searchsorted(there[order], back), len(order) - 1)]
    return np.where(there[found] == back, found, -1)
