"""Lock step on hosts of one rank each, without events: exact, and in a time proportional to the messages.

A process has one message out and one in at a time, and both its peers are in the same step, so no port is ever shared: a
message starts when both have come to the step, and takes its start-up and its bytes. Two processes that owe each other
something in one step take turns with what is beyond `turns_after`.
"""

from __future__ import annotations

import numpy as np

from .flow import Floats, Pieces
from .machine import Machine
from .rules import Ints

__all__ = ["lock_step"]


def lock_step(machine: Machine, pieces: Pieces, stage: Ints) -> float:
    """Seconds until all pieces are through. Not collective.

    Parameters
    ----------
    machine : Machine
        With one rank on each host.
    pieces : Pieces
        No process sends or receives two of a stage.
    stage : ndarray of int64
        Of each piece.

    Raises
    ------
    ValueError
        Several ranks share a port.
    """
    if machine.slots != 1:
        raise ValueError(f"slots = {machine.slots}: ports are shared, which takes flow.simulate")
    order = np.argsort(stage, kind="stable")
    bounds = np.flatnonzero(np.diff(stage[order])) + 1
    ready = np.zeros(machine.ranks)
    out, into = _Ports(machine), _Ports(machine)
    for some in np.split(order, bounds) if len(order) else ():
        sender, receiver = pieces.sender[some], pieces.receiver[some]
        start = np.maximum(ready[sender], ready[receiver]) + machine.overhead + machine.latency
        end = _ends(machine, out, into, Pieces(sender, receiver, pieces.nbytes[some]), start)
        ready[sender] = end
        ready[receiver] = np.maximum(ready[receiver], end)
    return float(ready.max(initial=0.0))


def _ends(machine: Machine, out: _Ports, into: _Ports, step: Pieces, start: Floats) -> Floats:
    """When the messages of one step are through."""

    def through(which: Ints, nbytes: Floats, since: Floats) -> Floats:
        return _passed(out, into, step.sender[which], step.receiver[which], nbytes, since)

    messages = np.arange(step.count)
    first = np.minimum(step.nbytes, machine.turns_after)
    rest = step.nbytes - first
    end = through(messages, first, start)
    if rest.any():
        opposite = _opposite(machine, step)
        later = (end[opposite] < end) | ((end[opposite] == end) & (opposite < messages))
        waits = (opposite >= 0) & (rest > 0) & (rest[opposite] > 0) & later
        for which in (np.flatnonzero((rest > 0) & ~waits), np.flatnonzero(waits)):
            since = np.where(waits[which], end[opposite[which]], end[which])
            end[which] = through(which, rest[which], since)
    return end


def _opposite(machine: Machine, step: Pieces) -> Ints:
    """For each message that from its receiver to its sender; -1 where there is none."""
    there, back = step.sender * machine.ranks + step.receiver, step.receiver * machine.ranks + step.sender
    order = np.argsort(there)
    found = order[np.minimum(np.searchsorted(there[order], back), len(order) - 1)]
    return np.where(there[found] == back, found, -1)


class _Ports:
    """One port of each host: what may pass at once, as of some time."""

    def __init__(self, machine: Machine) -> None:
        self.rate, self.most = machine.goodput, machine.bucket
        self.level, self.time = np.full(machine.hosts, self.most), np.zeros(machine.hosts)

    def levels(self, hosts: Ints, now: Floats) -> Floats:
        """What may pass at once then. Not collective."""
        found: Floats = np.minimum(self.most, self.level[hosts] + self.rate * (now - self.time[hosts]))
        return found

    def leave(self, hosts: Ints, levels: Floats, now: Floats) -> None:
        """Note what is left. Not collective."""
        self.level[hosts], self.time[hosts] = levels, now


def _passed(out: _Ports, into: _Ports, sender: Ints, receiver: Ints, nbytes: Floats, start: Floats) -> Floats:
    """When so many bytes are through two ports each, that nothing else uses."""
    levels = out.levels(sender, start), into.levels(receiver, start)
    took = np.maximum(0.0, nbytes - np.minimum(*levels)) / out.rate
    end: Floats = start + took
    for ports, hosts, level in zip((out, into), (sender, receiver), levels, strict=True):
        ports.leave(hosts, np.minimum(ports.most, np.maximum(0.0, level + ports.rate * took - nbytes)), end)
    return end
