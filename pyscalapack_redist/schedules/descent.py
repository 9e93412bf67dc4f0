"""From a schedule to cheaper ones nearby: a step less of some cost or more, again and again, and now and then one more.

Steps are told by how many of them cost each length or more. Where one is taken away, messages that no longer have room are put
in again, and put out others (see `cython/ejection.pyx`). That says nothing of what is impossible, but it is quick: where
no single step can go, one or two are added and as many as possible are then taken away elsewhere (iterated local search).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from .._kernels.ejection import ejected
from .levels import TINY, Reals
from .message_graph import Ints
from .nested import Attempt, Messages

__all__ = ["Descent", "inserted"]

MOVES = (2_000, 500, 10_000)  # for one message, in turn
ANEW = 1  # schedules that are made from nothing, before what is near the best is tried
MOST_MORE = 2  # steps that are added at once


class Descent:
    """Schedules of one graph. Not collective.

    Parameters
    ----------
    messages : Messages
        All messages.
    costs, fewest : ndarray
        Of steps, descending, every length among them; for each how many steps of that cost or more there are at least.
    each : ndarray
        What a step more of some cost or more weighs.
    most_steps : int or None
        Limit on the number of steps.
    keep : callable
        What is done with better schedules.
    """

    def __init__(
        self,
        messages: Messages,
        costs: Ints,
        fewest: Ints,
        each: Reals,
        most_steps: int | None,
        keep: Callable[[Attempt], None],
    ) -> None:
        self.messages, self.costs, self.fewest, self.each = messages, costs, fewest, each
        self.most_steps, self._keep = most_steps, keep
        self._random = np.random.default_rng(0)
        self._calls = 0

    def run(self, level: Ints, bound: float, deadline: float, in_vain: float = np.inf) -> None:
        """Seek cheaper schedules until one weighs no more than a bound, or until time is up. Not collective.

        Parameters
        ----------
        level : ndarray
            Of each message, in a schedule.
        bound : float
            Of the weight.
        deadline : float
            When to stop, on the clock of `time.monotonic`.
        in_vain : float
            Rounds without a better schedule after which it ends.
        """
        steps = np.cumsum(self.messages.steps_of(level, len(self.costs)))
        best, rounds, better = self._value(steps), 0, 0
        while best > bound + TINY and rounds - better <= in_vain and time.monotonic() < deadline:
            moves = MOVES[rounds % len(MOVES)]
            order = self._random.permutation(len(self.costs))
            if rounds < ANEW:
                more, there = self._filled(best, moves, deadline)
                order = np.argsort(-self.each, kind="stable")
            else:
                more, there = self._more(steps), level
            rounds += 1
            if there is None:
                continue
            found, there = self._descended(more, there, order, moves, deadline)
            value = self._value(found)
            if value > best + TINY:
                continue
            steps, level = found, there
            if value < best - TINY:
                best, better = value, rounds
                used = self.messages.steps_of(level, len(self.costs))
                self._keep(Attempt(level, int(used.sum()), int(used @ self.costs), np.zeros(0, np.int64)))

    def _value(self, steps: Ints) -> float:
        return float(self.each @ steps)

    def _filled(self, most: float, moves: int, deadline: float) -> tuple[Ints, Ints | None]:
        """Steps raised where no room is found, from the fewest on, and levels; none where they weigh too much."""
        steps, level = self.fewest, np.full(len(self.messages.length), -1)
        while self._value(steps) < most - TINY and time.monotonic() < deadline:
            if self.most_steps is not None and steps[-1] > self.most_steps:
                break
            self._calls += 1
            level, left = inserted(self.messages, self.costs, steps, level, moves, self._calls, deadline)
            if left < 0:
                return steps, level
            k = int(np.searchsorted(-self.costs, -self.messages.length[left]))
            steps = steps.copy()
            np.maximum(steps[k:], steps[k] + 1, out=steps[k:])
        return steps, None

    def _more(self, steps: Ints) -> Ints:
        """Steps with one or two more, each of some cost or more."""
        more = steps.copy()
        for _ in range(int(self._random.integers(1, MOST_MORE + 1))):
            level = int(self._random.integers(len(steps)))
            np.maximum(more[level:], more[level] + 1, out=more[level:])
        return steps if self.most_steps is not None and more[-1] > self.most_steps else more

    def _descended(self, steps: Ints, level: Ints, order: Ints, moves: int, deadline: float) -> tuple[Ints, Ints]:
        """Steps less of each cost or more as long as there is room for all messages, and their levels."""
        for k in order:
            if not self.each[k]:
                continue
            least = max(int(self.fewest[k]), int(steps[k - 1]) if k else 0)
            while steps[k] > least and time.monotonic() < deadline:
                fewer = steps.copy()
                fewer[k] -= 1
                found = self._fitted(fewer, level, moves, deadline)
                if found is None:
                    break
                steps, level = fewer, found
        return steps, level

    def _fitted(self, steps: Ints, level: Ints, moves: int, deadline: float) -> Ints | None:
        """Levels of all messages in given steps, from others; None where none are found."""
        self._calls += 1
        found, left = inserted(self.messages, self.costs, steps, level, moves, self._calls, deadline)
        return found if left < 0 else None


def inserted(
    messages: Messages, costs: Ints, steps: Ints, level: Ints, moves: int, seed: int, deadline: float
) -> tuple[Ints, int]:
    """Levels of messages, and the first for which no room was found, -1 if there is none. Not collective.

    Parameters
    ----------
    messages : Messages
        All messages.
    costs, steps : ndarray
        Of steps, descending, every length among them; for each how many steps there are of that cost or more.
    level : ndarray
        Where each message is if there is room, -1 for one that has no level.
    moves : int
        After so many for one message the search gives up.
    seed : int
        Of the choice among what is equally good.
    deadline : float
        When to stop, on the clock of `time.monotonic`.
    """
    each = np.diff(steps, prepend=0)
    used = np.flatnonzero(each)
    place = np.cumsum(each > 0) - 1  # the cheapest level with steps that costs as much or more
    if not len(used) or place[np.searchsorted(-costs, -messages.length[:1])].min(initial=0) < 0:
        return np.full(len(level), -1), 0
    found = np.append(np.where(each > 0, place, -1), -1)[level]
    widest = place[np.searchsorted(-costs, -messages.length)]
    ends = messages.sender, messages.receiver, *messages.shape
    left = ejected(*ends, widest, each[used], found, moves, seed, deadline)
    return np.append(used, -1)[found], left
