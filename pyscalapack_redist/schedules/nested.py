"""Messages put into levels, longest first: how many steps there are of each cost is given, and raised where it must be.

A level is a group of steps of one cost, open to messages of that length or less. No process may have more messages in a level
than the level has steps; each level is then coloured on its own (Koenig; Desprez, Theorem 1). The lists of steps open to
messages are nested: what is open to a message is open to every shorter one. A search for room between two levels is one for
an augmenting path. Nothing is folded, so this is for graphs in which few processes are alike: finite arrays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._kernels.nested import nested_levels
from .lifting import coloured
from .message_graph import Ints, MessageGraph

__all__ = ["Attempt", "Messages", "Targets"]

ALIKE = (
    16,
    64,
    32,
    8,
    4,
    2,
    1,
)  # parts of the steps that are made to cost the same where there are too many, likely ones first
FEW, TRIES = 2, 64  # pairs of levels between which room is sought for one message


@dataclass(frozen=True)
class Targets:
    """How many steps there are to be of each cost.

    Attributes
    ----------
    costs : ndarray
        Strictly descending; every length is among them.
    steps : ndarray
        Number of steps of each cost.
    """

    costs: Ints
    steps: Ints

    def merged(self, least: int) -> Targets:
        """The cheapest steps given the cost of dearer ones, until at least so many cost the same. Not collective."""
        steps = self.steps.copy()
        used = np.flatnonzero(steps)
        number = np.cumsum(steps[used][::-1])
        kept = len(used) - 1 - min(int(np.searchsorted(number, least)), len(used) - 1)
        last = used[kept]
        steps[last] = steps[last:].sum()
        steps[last + 1 :] = 0
        return Targets(self.costs, steps)

    def coarser(self, least: int) -> Targets:
        """Steps given the cost of dearer ones so that at least so many cost the same, but for the cheapest. Not collective."""
        steps = np.zeros_like(self.steps)
        used = np.flatnonzero(self.steps)
        first = 0
        for place in range(1, len(used) + 1):
            together = int(self.steps[used[first:place]].sum())
            if together >= least or place == len(used):
                steps[used[first]] = together
                first = place
        return Targets(self.costs, steps)


@dataclass(frozen=True, eq=False)
class Attempt:
    """Levels of all messages.

    Attributes
    ----------
    level : ndarray
        Of each message, in their order in `Messages`.
    steps, cost : int
        Number of steps and total cost, at most.
    raised : ndarray
        Messages for which a step was made costlier, or added.
    """

    level: Ints
    steps: int
    cost: int
    raised: Ints


class Messages:
    """All messages of a graph, longest first. Not collective.

    Parameters
    ----------
    graph : MessageGraph
        What is scheduled.

    Attributes
    ----------
    sender, receiver, length : ndarray
        Of each message.
    """

    def __init__(self, graph: MessageGraph) -> None:
        self.shape: tuple[int, int] = (graph.P, graph.Q)
        sender, receiver, length = graph.messages
        order = np.argsort(-length, kind="stable")
        self.sender: Ints = sender[order]
        self.receiver: Ints = receiver[order]
        self.length: Ints = length[order]

    def attempt(
        self,
        targets: Targets,
        deadline: float,
        wish: Ints | None = None,
        seed: int | None = None,
        *,
        firm: bool = False,
        tries: int = TRIES,
    ) -> Attempt:
        """Levels with the number of steps that is given, or with more or costlier ones. Not collective.

        Parameters
        ----------
        targets : Targets
            How many steps there are to be.
        deadline : float
            When to stop looking for room, on the clock of `time.monotonic`; a first fit does for what is then left.
        wish : ndarray, optional
            The level in which each message is put where there is room.
        seed : int, optional
            Of a random order of the messages of each length; without it, they come by senders.
        firm : bool
            Whether to stop at the first message for which there is no room, the only one of `raised`; those after it, and
            it, have level -1.
        tries : int
            Pairs of levels between which room is sought for one message. Few of them find most of what many do, and sooner.
        """
        count = len(self.length)
        if not count:
            return Attempt(np.zeros(0, np.int64), 0, 0, np.zeros(0, np.int64))
        wish = np.zeros(count, np.int64) if wish is None else np.asarray(wish, np.int64)
        sender, receiver, length, steps = self.sender, self.receiver, self.length, targets.steps.copy()
        order = np.arange(count)
        if seed is not None:
            order = np.random.default_rng(seed).permutation(count)
            order = order[np.argsort(-length[order], kind="stable")]
            sender, receiver, wish = sender[order], receiver[order], wish[order]
        # A wish for a level that is not open to a message is one for the cheapest that is.
        wish = np.minimum(wish, np.searchsorted(-targets.costs, -length, side="right") - 1)
        raised = np.zeros(count, np.uint8)
        costs = np.ascontiguousarray(targets.costs)
        level = np.empty(count, np.int64)
        level[order] = nested_levels(
            sender, receiver, length, self.shape[0], self.shape[1], wish, costs, steps, tries, deadline, raised, firm
        )
        if firm and raised.any():
            return Attempt(level, int(targets.steps.sum()), int(targets.steps @ costs), order[np.flatnonzero(raised)])
        used = self.steps_of(level, len(costs))
        return Attempt(level, int(used.sum()), int(used @ costs), order[np.flatnonzero(raised)])

    def within(
        self,
        most_steps: int | None,
        targets: Targets,
        deadline: float,
        wish: Ints | None = None,
        seed: int | None = None,
    ) -> Attempt:
        """The cheapest attempt that has no more than some number of steps, of a few. Not collective.

        Parameters as for `attempt`. The maximum degree of the graph is always enough steps: where all cost the same, there is
        room for every message (Koenig). Where an attempt has too many steps, its cheapest ones become fewer that cost as
        much as the dearest of them; then it is tried with fewer and fewer different costs from the start.
        """
        found = self.attempt(targets, deadline, wish, seed)
        if most_steps is None or found.steps <= most_steps:
            return found
        best, number, finest = self._squeezed(found, targets.costs, most_steps), int(targets.steps.sum()), 0
        for part in ALIKE:
            if time.monotonic() > deadline:
                break
            if part < finest:
                continue
            alike = max(1, number // part)
            for fewer in (targets.coarser(alike), targets.merged(alike)):
                more = self.attempt(fewer, deadline, self.cheapest(fewer) if wish is None else wish, seed)
                found = min(found, more, key=lambda attempt: attempt.steps)
                finest = part if more.steps <= most_steps else finest
                best = min(best, self._squeezed(more, fewer.costs, most_steps), key=lambda attempt: attempt.cost)
        return best

    def _squeezed(self, attempt: Attempt, costs: Ints, most_steps: int) -> Attempt:
        """Its last levels made one, as few of them as must be for the number of steps."""
        levels = len(costs)
        later = np.zeros(levels, dtype=np.int64)  # the most messages that a process has in a level or a later one
        for degrees in self._degrees(attempt.level, levels):
            np.maximum(later, np.cumsum(degrees[:, ::-1], axis=1)[:, ::-1].max(axis=0), out=later)
        steps = self.steps_of(attempt.level, levels)
        fits = np.flatnonzero(np.cumsum(steps) - steps + later <= most_steps)
        last = int(fits[-1]) if len(fits) else 0
        level = np.minimum(attempt.level, last)
        used = self.steps_of(level, levels)
        return Attempt(level, int(used.sum()), int(used @ costs), attempt.raised)

    def cheapest(self, targets: Targets) -> Ints:
        """The cheapest level with steps that is open to each message, as a wish. Not collective."""
        used = np.flatnonzero(targets.steps)
        place = np.searchsorted(-targets.costs[used], -self.length, side="right") - 1
        wish: Ints = used[np.maximum(place, 0)] if len(used) else np.zeros(len(self.length), np.int64)
        return wish

    def listed(self, attempt: Attempt) -> list[Ints]:
        """The steps, rows sender, receiver, length each. Not collective."""
        steps: list[Ints] = []
        for here in _runs(attempt.level):
            colour = coloured(self.sender[here], self.receiver[here])
            steps += [
                np.column_stack([self.sender[step], self.receiver[step], self.length[step]])
                for step in (here[run] for run in _runs(colour))
            ]
        return steps

    def steps_of(self, level: Ints, levels: int) -> Ints:
        """The most messages that a process has in each level. Not collective."""
        most = np.zeros(levels, dtype=np.int64)
        for degrees in self._degrees(level, levels):
            np.maximum(most, degrees.max(axis=0), out=most)
        return most

    def _degrees(self, level: Ints, levels: int) -> Iterator[Ints]:
        """Messages of each sender (row) in each level, and of each receiver."""
        for end, processes in zip((self.sender, self.receiver), self.shape, strict=True):
            counts = np.bincount(end * levels + level, minlength=processes * levels)
            yield counts.reshape(processes, levels)


def _runs(key: Ints) -> list[Ints]:
    """Places of each key, keys ascending."""
    order = np.argsort(key, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(key) else []
