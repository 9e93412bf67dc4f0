"""Flows over the ports of hosts, by events: what is under way shares each port's rate max-min fairly.

A flow takes its sender's port out and its receiver's port in. Rates are those of progressive filling (Bertsekas & Gallager,
Data Networks, section 6.5.2): all rise together, and those at a full port stay. It knows messages as numbers only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .machine import Machine
from .rules import Ints, Rule

__all__ = ["Outcome", "Pieces", "max_min", "simulate"]

Floats = NDArray[np.float64]
PEAK = 1e3  # rate of a port with a burst left, in multiples of its rate
EMPTY = 1e-3  # part of a burst that is too little to count
SAME = 1e-9  # events so near to each other, relative to the time, are one


@dataclass(frozen=True)
class Pieces:
    """What goes over the network as one: a message, or a part of one.

    Attributes
    ----------
    sender, receiver : ndarray of int64
        Ranks.
    nbytes : ndarray of float64
        Bytes without headers.
    """

    sender: Ints
    receiver: Ints
    nbytes: Floats

    @property
    def count(self) -> int:
        """Their number."""
        return len(self.sender)


@dataclass(frozen=True)
class Outcome:
    """What a simulation comes to.

    Attributes
    ----------
    seconds : float
        When the last piece was through.
    ends : ndarray of float64
        When each was.
    events : int
        How often rates were worked out anew.
    """

    seconds: float
    ends: Floats
    events: int


def max_min(source: Ints, target: Ints, out: Floats, into: Floats) -> Floats:
    """Max-min fair rates of flows. Not collective.

    Parameters
    ----------
    source, target : ndarray of int64
        Hosts that each flow leaves and reaches.
    out, into : ndarray of float64
        What each host can send and receive per second.

    Returns
    -------
    ndarray of float64
        No rate can grow but by taking from one that is no larger.
    """
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
    """Let all pieces through, in the order that a rule allows. Not collective.

    A piece moves once both sides have come to it and the one before it between the same two processes is through.

    Parameters
    ----------
    machine : Machine
        What it runs on.
    pieces : Pieces
        What is to go.
    rule : Rule
        When either side comes to a piece.
    resolution : float
        Seconds within which events are taken together, at the end of that time: the outcome is never too early by it.
    """
    if not pieces.count:
        return Outcome(0.0, np.zeros(0), 0)
    return _Simulation(machine, pieces, rule, resolution).run()


class _Simulation:
    """State: each piece is unposted, due (starts at a known time), moving, waiting for its turn, or through."""

    def __init__(self, machine: Machine, pieces: Pieces, rule: Rule, resolution: float) -> None:
        self.machine, self.rule, self.resolution = machine, rule, resolution
        self.source, self.target = pieces.sender // machine.slots, pieces.receiver // machine.slots
        self.inside = self.source == self.target
        self.sides = (pieces.sender, pieces.receiver)
        self.level = np.full(2 * machine.hosts, machine.bucket)  # what each port, out and in, may let through at once
        self.free_at = np.zeros((2, machine.ranks))  # when the processor has time for the next message, per side
        self.first = np.minimum(pieces.nbytes, machine.turns_after)  # goes at once; the rest takes turns
        self.rest = pieces.nbytes - self.first
        self.before, self.behind, self.pair = _connections(pieces)
        self.turn = np.full(self.pair.max() + 1, -1)  # which piece has it
        self.missing = 2 + (self.before >= 0)  # sides that have not come to it, and the piece before
        self.ready_at = np.zeros(pieces.count)
        self.ends = np.full(pieces.count, np.nan)
        self.due, self.due_at = _nothing(), np.zeros(0)
        self.moving, self.left, self.in_rest = _nothing(), np.zeros(0), np.zeros(0, bool)
        self.waiting = _nothing()
        self.now, self.events = 0.0, 0

    def run(self) -> Outcome:
        """From the first event to the last. Not collective."""
        self._post(*self.rule.start())
        while len(self.due) or len(self.moving):
            self._step()
        if np.isnan(self.ends).any():
            raise AssertionError("pieces wait for each other: the rule does not let all of them through")
        return Outcome(float(self.now), self.ends, self.events)

    def _post(self, sends: Ints, receives: Ints) -> None:
        """Sides come to pieces, in this order: each takes its processor's time."""
        for side, some in enumerate((sends, receives)):
            if not len(some):
                continue
            when = self._processed(side, some)
            np.maximum.at(self.ready_at, some, when)
            self._count_down(some)

    def _processed(self, side: int, some: Ints) -> Floats | float:
        if not self.machine.overhead:
            return self.now
        ranks = self.sides[side][some]
        order = np.argsort(ranks, kind="stable")
        place = np.empty(len(some), np.int64)
        ordered = ranks[order]
        place[order] = np.arange(len(some)) - np.searchsorted(ordered, ordered)
        free = self.free_at[side]
        when: Floats = np.maximum(free[ranks], self.now) + self.machine.overhead * (place + 1)
        np.maximum.at(free, ranks, when)
        return when

    def _count_down(self, some: Ints) -> None:
        self.missing[some] -= 1
        able = some[self.missing[some] == 0]
        if len(able):
            at = np.maximum(self.ready_at[able], self.now) + self.machine.latency
            self.due = np.concatenate([self.due, able])
            self.due_at = np.concatenate([self.due_at, at])

    def _step(self) -> None:
        """To the next event, or the last of those that are taken together."""
        source, target = self.source[self.moving], self.target[self.moving]
        capacity = self._capacity()
        rates = max_min(source, target, capacity[: self.machine.hosts], capacity[self.machine.hosts :])
        self.events += 1
        ends = self.now + self.left / rates
        soonest = min(ends.min(initial=math.inf), self.due_at.min(initial=math.inf))
        until = soonest + max(self.resolution, SAME * soonest)
        now = max(ends[ends <= until].max(initial=0), self.due_at[self.due_at <= until].max(initial=0))
        now = until = self._drained(source, target, rates, now)
        self.left, self.now = self.left - rates * (now - self.now), now
        through = ends <= until
        finished, had_turn = self.moving[through], self.in_rest[through]
        self.moving, self.left, self.in_rest = self.moving[~through], self.left[~through], self.in_rest[~through]
        started = self.due_at <= until
        begun = self.due[started]
        self.due, self.due_at = self.due[~started], self.due_at[~started]
        local = self.inside[begun]
        self._move(begun[~local], self.first[begun[~local]], rest=False)
        self._end(np.concatenate([self._half_way(finished, had_turn), begun[local]]))
        self._take_turns()

    def _capacity(self) -> Floats:
        """What each port can let through now, out and in."""
        rate = self.machine.goodput
        return np.where(self.level > EMPTY * self.machine.bucket, PEAK * rate, rate)

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
        if len(some):
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
        if not len(self.waiting):
            return
        free = np.flatnonzero(self.turn[self.pair[self.waiting]] < 0)
        _, at = np.unique(self.pair[self.waiting[free]], return_index=True)
        chosen = free[at]
        some = self.waiting[chosen]
        self.turn[self.pair[some]] = some
        self.waiting = np.delete(self.waiting, chosen)
        self._move(some, self.rest[some], rest=True)

    def _end(self, some: Ints) -> None:
        if not len(some):
            return
        self.ends[some] = self.now
        following = self.behind[some]
        self._count_down(following[following >= 0])
        self._post(*self.rule.completed(some))


def _connections(pieces: Pieces) -> tuple[Ints, Ints, Ints]:
    """For each piece the one before and the one behind it from the same sender to the same receiver, and its pair's number."""
    most = 1 + int(max(pieces.sender.max(), pieces.receiver.max()))
    way = pieces.sender * most + pieces.receiver
    order = np.argsort(way, kind="stable")
    before, behind = np.full(pieces.count, -1), np.full(pieces.count, -1)
    alike = way[order[1:]] == way[order[:-1]]
    before[order[1:][alike]] = order[:-1][alike]
    behind[order[:-1][alike]] = order[1:][alike]
    low, high = np.minimum(pieces.sender, pieces.receiver), np.maximum(pieces.sender, pieces.receiver)
    return before, behind, np.unique(low * most + high, return_inverse=True)[1].astype(np.int64)


def _nothing() -> Ints:
    return np.zeros(0, np.int64)
