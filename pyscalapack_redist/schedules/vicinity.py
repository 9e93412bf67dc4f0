"""The messages around one: whether steps have room for them, alone or beside all others.

What stands in the way of a message is mostly near it, so few messages are looked at first, then more. A search says exactly
whether they fit, or gives up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._kernels.fitting import FITS, fits, minimal
from .message_graph import Ints
from .nested import Messages

__all__ = ["Neighbours", "Vicinity"]

NODES = 3000  # of a search, and so many times the number of messages
NODES_EACH = 2


class Neighbours:
    """Messages that share a process with a message, and so on, nearest first. Not collective.

    Parameters
    ----------
    messages : Messages
        All messages.
    """

    def __init__(self, messages: Messages) -> None:
        self.messages = messages
        ends = np.concatenate([messages.sender, messages.shape[0] + messages.receiver])
        order = np.argsort(ends, kind="stable")
        self._ends = ends
        self._at = order % max(1, len(messages.length))  # the longest first
        self._first = np.searchsorted(ends[order], np.arange(sum(messages.shape) + 1))

    def nearest(self, message: int, most: int, among: NDArray[np.bool_]) -> Ints:
        """So many of the messages that a mask tells, from one on outwards. Not collective."""
        taken = among.copy()
        taken[message] = False
        met = np.zeros(sum(self.messages.shape), dtype=bool)
        found = [np.array([message])]
        count, total = 1, len(self.messages.length)
        while len(found[-1]) and count < most:
            ends = np.concatenate([self._ends[found[-1]], self._ends[total + found[-1]]])
            ends = ends[np.sort(np.unique(ends, return_index=True)[1])]
            ends = ends[~met[ends]]
            met[ends] = True
            near = self.of(ends)
            near = near[taken[near]]
            near = near[np.sort(np.unique(near, return_index=True)[1])]
            taken[near] = False
            found.append(near)
            count += len(near)
        return np.concatenate(found)[:most]

    def of(self, ends: Ints) -> Ints:
        """Messages of some processes, one process after another; receivers' numbers follow the senders'. Not collective."""
        sizes = self.degrees(ends)
        places = np.repeat(self._first[ends] - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
        answer: Ints = self._at[places]
        return answer

    def degrees(self, ends: Ints) -> Ints:
        """Number of messages of some processes. Not collective."""
        answer: Ints = self._first[ends + 1] - self._first[ends]
        return answer


class Vicinity:
    """Some messages. Not collective.

    Parameters
    ----------
    messages : Messages
        All messages.
    chosen : ndarray
        Those that are looked at.

    Attributes
    ----------
    lengths : ndarray
        Their lengths, descending, each once.
    """

    def __init__(self, messages: Messages, chosen: Ints) -> None:
        self.messages, self.chosen = messages, chosen
        self._senders, left = np.unique(messages.sender[chosen], return_inverse=True)
        self._receivers, right = np.unique(messages.receiver[chosen], return_inverse=True)
        self._ends = left, right + len(self._senders)
        lengths, self._kind = np.unique(-messages.length[chosen], return_inverse=True)
        self.lengths: Ints = -lengths

    @property
    def _processes(self) -> int:
        return len(self._senders) + len(self._receivers)

    @property
    def _nodes(self) -> int:
        return NODES + NODES_EACH * len(self.chosen)

    def fit(self, steps: Ints) -> int:
        """Whether the messages fit (`FITS`, `TOO_MANY`, `UNKNOWN`) into steps of each length or more. Not collective."""
        level = np.full(len(self.chosen), -1)
        return fits(*self._ends, self._kind, self._room(steps), self._nodes, level)

    def smallest(self, steps: Ints) -> Vicinity:
        """Few of the messages that do not fit. Not collective."""
        mask = minimal(*self._ends, self._kind, self._room(steps), self._nodes)
        return Vicinity(self.messages, self.chosen[mask > 0])

    def _room(self, steps: Ints) -> Ints:
        return np.tile(np.diff(steps, prepend=0), (self._processes, 1))

    def beside(self, near: Neighbours, level: Ints, costs: Ints, steps: Ints, *, kept: bool) -> Ints | None:
        """Levels of all messages, these moved so that they fit beside the others; None where none are found. Not collective.

        Parameters
        ----------
        near : Neighbours
            Of all messages.
        level : ndarray
            Of all messages; -1 for one that has none.
        costs, steps : ndarray
            Number of steps of each cost.
        kept : bool
            Whether each message is tried first where it is.
        """
        used = np.flatnonzero(steps)
        widest = np.searchsorted(-costs[used], -self.lengths, side="right")[self._kind] - 1
        if not len(used) or widest.min() < 0:
            return None
        place = np.zeros(len(steps) + 1, dtype=np.int64)
        place[used] = np.arange(len(used))
        outside = level.copy()
        outside[self.chosen] = -1
        ends = np.concatenate([self._senders, self.messages.shape[0] + self._receivers])
        others, row = outside[near.of(ends)], np.repeat(np.arange(len(ends)), near.degrees(ends))
        cells = row[others >= 0] * len(used) + place[others[others >= 0]]
        taken = np.bincount(cells, minlength=len(ends) * len(used)).reshape(len(ends), len(used))
        room = steps[used] - taken
        found = (
            np.where(level[self.chosen] < 0, -1, place[level[self.chosen]]) if kept else np.full(len(self.chosen), -1)
        )
        if fits(*self._ends, widest, room, self._nodes, found) != FITS:
            return None
        answer = level.copy()
        answer[self.chosen] = used[found]
        return answer
