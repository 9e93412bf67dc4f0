"""Small programs whose bounds hold for a large graph: processes put together, or few of the messages.

The constraints of `levels` are sums over the copies of a group, so they also hold for a group of processes that are not alike,
and leaving messages out only makes a schedule cheaper. Either way what no schedule of the small graph can cost less than, no
schedule of the large one can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .communication_grid import CommunicationGrid
from .message_graph import Ints
from .nested import Messages

__all__ = ["Grouped", "around", "part", "residues", "wishes"]


@dataclass(frozen=True, eq=False)
class Grouped:
    """Messages by group of senders, group of receivers and length.

    Attributes
    ----------
    messages : Messages
        All messages.
    chosen : ndarray
        Those that are looked at.
    of_sender, of_receiver : ndarray
        Group of each process.
    """

    messages: Messages
    chosen: Ints
    of_sender: Ints
    of_receiver: Ints

    @property
    def sender_sizes(self) -> Ints:
        """Number of senders of each group, those without messages left out."""
        return self._sizes(self.of_sender, self.messages.sender)

    @property
    def receiver_sizes(self) -> Ints:
        """Number of receivers of each group, those without messages left out."""
        return self._sizes(self.of_receiver, self.messages.receiver)

    def _sizes(self, group: Ints, end: Ints) -> Ints:
        present = np.bincount(end[self.chosen], minlength=len(group)) > 0
        return np.bincount(group[present], minlength=int(group.max()) + 1)

    @cached_property
    def _kinds(self) -> tuple[Ints, Ints, Ints]:
        """Keys of the types, the type of each message, and how many there are of each."""
        chosen, messages = self.chosen, self.messages
        key = self.of_sender[messages.sender[chosen]] * (int(self.of_receiver.max()) + 1)
        key = (key + self.of_receiver[messages.receiver[chosen]]) * self._radix + messages.length[chosen]
        keys, kind, count = np.unique(key, return_inverse=True, return_counts=True)
        return keys, kind.reshape(-1), count

    @property
    def _radix(self) -> int:
        return int(self.messages.length[0]) + 1

    @property
    def sender_group(self) -> Ints:
        """Of each type."""
        answer: Ints = self._kinds[0] // self._radix // (int(self.of_receiver.max()) + 1)
        return answer

    @property
    def receiver_group(self) -> Ints:
        """Of each type."""
        answer: Ints = self._kinds[0] // self._radix % (int(self.of_receiver.max()) + 1)
        return answer

    @property
    def length(self) -> Ints:
        """Of each type."""
        return self._kinds[0] % self._radix

    @property
    def count(self) -> Ints:
        """Messages of each type."""
        return self._kinds[2]

    @property
    def types(self) -> int:
        """Number of types."""
        return len(self._kinds[0])

    @property
    def kind(self) -> Ints:
        """Type of each chosen message."""
        return self._kinds[1]


def residues(grid: CommunicationGrid, messages: Messages) -> Grouped:
    """Processes that a whole slice would not tell apart, up to the order of their messages, as groups. Not collective.

    They are senders with the same number modulo gcd(s, g), and receivers modulo gcd(r, g) (Desprez, Proposition 1).
    """
    r, s, g = grid.reduced
    senders, receivers = np.arange(grid.P) % math.gcd(s, g), np.arange(grid.Q) % math.gcd(r, g)
    return Grouped(messages, np.arange(len(messages.length)), senders, receivers)


def around(messages: Messages, chosen: Ints, most: int) -> Ints:
    """Some messages, those of their processes, those of the processes at the other ends, and so on. Not collective.

    Parameters
    ----------
    messages : Messages
        All messages.
    chosen : ndarray
        Messages to begin with.
    most : int
        No more messages than this, unless there are more to begin with.
    """
    inside = np.zeros(len(messages.length), dtype=bool)
    inside[chosen] = True
    while True:
        senders, receivers = np.zeros(messages.shape[0], dtype=bool), np.zeros(messages.shape[1], dtype=bool)
        senders[messages.sender[inside]] = True
        receivers[messages.receiver[inside]] = True
        wider = senders[messages.sender] | receivers[messages.receiver]
        if np.count_nonzero(wider) > most or np.count_nonzero(wider) == np.count_nonzero(inside):
            return np.flatnonzero(inside)
        inside = wider


def part(messages: Messages, chosen: Ints) -> Grouped:
    """Some of the messages, each process a group. Not collective."""
    senders, receivers = (
        _numbers(end, chosen, processes)
        for end, processes in zip((messages.sender, messages.receiver), messages.shape, strict=True)
    )
    return Grouped(messages, chosen, senders, receivers)


def wishes(group: Grouped, shares: NDArray[np.float64]) -> Ints:
    """A level for each message, as many of each type in each as a program says. Not collective.

    Parameters
    ----------
    group : Grouped
        Of all messages.
    shares : ndarray
        Messages of each type (row) in each level (column), whole or not.
    """
    kind = group.kind
    order = np.argsort(np.random.default_rng(0).permutation(len(kind)) + kind * len(kind), kind="stable")
    place = np.empty(len(kind), dtype=np.int64)
    place[order] = np.arange(len(kind)) - (np.cumsum(group.count) - group.count)[kind[order]]
    wish = np.zeros(len(kind), dtype=np.int64)
    for share in np.cumsum(shares, axis=1).T[:-1]:
        wish += place + 0.5 > share[kind]
    return wish


def _numbers(end: Ints, chosen: Ints, processes: int) -> Ints:
    """Processes of the chosen messages numbered; the others, which no chosen message has, are left out."""
    group = np.zeros(processes, dtype=np.int64)
    names = np.unique(end[chosen])
    group[names] = np.arange(len(names))
    return group
