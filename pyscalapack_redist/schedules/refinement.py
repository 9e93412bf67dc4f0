"""From steps that are too few for some messages to steps of least cost that are enough, step by step.

Messages are put into levels until there is no room for one. Messages around it, more and more of them, are then put anew so
that it fits too. Where that fails, what is found around it tells which steps there must be more of, whatever is around them:
the least steps for which all such findings hold are tried next, and their cost is a bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .._kernels.fitting import FITS, TOO_MANY
from .conflicts import Conflict, Conflicts
from .descent import inserted
from .levels import TINY, Reals
from .message_graph import Ints
from .nested import Attempt, Messages, Targets
from .relaxation import part
from .shortage import Cut, counts, shortage
from .vicinity import Neighbours, Vicinity

__all__ = ["Refinement"]

BESIDE = ((48, False), (144, False), (432, False), (432, True), (1296, True), (3000, True))
Bools = NDArray[np.bool_]
SEVERAL = 432  # messages around one that are looked up at once
ALONE = (12, 24, 48, 96, 192, 384)  # messages that are searched for a conflict
WEIGHED = (150, 500, 1500)  # messages of which a program is solved
EACH_SECOND = 30_000  # counts of such a program
MOVES = 3_000  # for one message, when others are put out for it
AT_ONCE = 64  # findings between two programs of all of them
STUCK = 4  # times without a new finding, or a better schedule, after which it ends


class Refinement:
    """Steps and findings for one graph. Not collective.

    Parameters
    ----------
    messages : Messages
        All messages.
    costs, fewest : ndarray
        Of steps, descending, every length among them; for each how many steps of that cost or more there are at least.
    weights : ndarray
        Of a step of each cost.
    most_steps : int or None
        Limit on the number of steps.
    keep, raise_bound : callable
        What is done with attempts that have room for all messages, and with bounds of the weight.
    """

    def __init__(
        self,
        messages: Messages,
        costs: Ints,
        fewest: Ints,
        weights: Reals,
        most_steps: int | None,
        keep: Callable[[Attempt], None],
        raise_bound: Callable[[float], None],
    ) -> None:
        self.messages, self.costs = messages, costs
        self.conflicts = Conflicts(costs, fewest, weights, most_steps)
        self._near = Neighbours(messages)
        self._keep, self._raise_bound = keep, raise_bound
        self._value, self._best, self._seed = np.inf, fewest, 0

    def run(self, steps: Ints, best: Ints, bound: float, deadline: float) -> None:
        """Refine steps until they are proved, until nothing more is found, or until time is up. Not collective.

        Parameters
        ----------
        steps : ndarray
            For each cost how many steps of that or more are tried first.
        best : ndarray
            The same of a schedule: what costs as much is not sought.
        bound : float
            Of the weight, from elsewhere.
        deadline : float
            When to stop, on the clock of `time.monotonic`.
        """
        stuck, self._best, self._value = 0, best, self.conflicts.value(best)
        weighed: Sequence[int] = ()  # a good schedule first: programs take time
        while stuck < STUCK and bound < self._value - TINY and time.monotonic() < deadline:
            known, value = len(self.conflicts.found), self._value
            self._completed(steps, deadline, weighed)
            if len(self.conflicts.found) > known:
                least, found = self.conflicts.least(deadline)
                bound = max(bound, min(found, self._value))
                self._raise_bound(bound)
                if least is None:
                    break
                steps = least
            weighed = WEIGHED
            new = len(self.conflicts.found) > known or self._value < value
            stuck, self._seed = (0, 0) if new else (stuck + 1, self._seed + 1)
        while bound < self._value - TINY and time.monotonic() < deadline:
            if not self._cheaper(deadline):
                break

    def _completed(self, steps: Ints, deadline: float, weighed: Sequence[int]) -> None:
        """Raise steps until there is room for all messages, or until they weigh as much as the best."""
        known = len(self.conflicts.found)
        while self.conflicts.value(steps) < self._value - TINY and len(self.conflicts.found) < known + AT_ONCE:
            found = self._filled(steps, deadline)
            if found is None or not len(found.raised):
                return
            message = int(found.raised[0])
            finding = self._finding(message, found.level >= 0, steps, deadline, weighed)
            if finding is not None:
                self.conflicts.found.append(finding)
                steps = self.conflicts.heeded(steps, finding)
            else:
                level = int(np.searchsorted(-self.costs, -self.messages.length[message]))
                steps = self.conflicts.raised(steps, level, int(steps[level]) + 1)

    def _filled(self, steps: Ints, deadline: float) -> Attempt | None:
        """Levels for as many messages, longest first, as are found to have room; None if time is up."""
        targets = Targets(self.costs, np.diff(steps, prepend=0))
        cheapest = self.messages.cheapest(targets)
        found: Attempt | None = None
        for wish in (None, cheapest):
            more = self.messages.attempt(targets, deadline, wish, self._seed or None, firm=True)
            if found is None or not len(more.raised) or (len(found.raised) and more.raised[0] > found.raised[0]):
                found = more
        assert found is not None
        if len(found.raised):
            put, left = inserted(self.messages, self.costs, steps, found.level, MOVES, self._seed, deadline)
            if left < 0:
                found = self.messages.attempt(targets, deadline, put, firm=True)
        while len(found.raised):
            if time.monotonic() > deadline:
                return None
            level = self._room_made(found, targets, deadline)
            if level is None:
                return found
            found = self.messages.attempt(targets, deadline, np.where(level < 0, cheapest, level), firm=True)
        value = self.conflicts.value(steps)
        if value < self._value:
            self._value, self._best = value, steps
            self._keep(found)
        return found

    def _room_made(self, found: Attempt, targets: Targets, deadline: float) -> Ints | None:
        """Levels of the messages that had some, and of the one for which there was no room."""
        message, placed = int(found.raised[0]), found.level >= 0
        near = self._near.nearest(message, SEVERAL, placed)
        for size, kept in BESIDE:
            if time.monotonic() > deadline:
                return None
            if size > len(near) == SEVERAL:
                near = self._near.nearest(message, BESIDE[-1][0], placed)
            some = Vicinity(self.messages, near[:size])
            level = some.beside(self._near, found.level, targets.costs, targets.steps, kept=kept)
            if level is not None:
                return level
        return None

    def _finding(
        self, message: int, placed: Bools, steps: Ints, deadline: float, weighed: Sequence[int]
    ) -> Conflict | Cut | None:
        """What steps must fulfil for a message to have room among those that are placed."""
        nearest = self._near.nearest(message, ALONE[-1], placed)
        for size in ALONE:
            near = Vicinity(self.messages, nearest[:size])
            at = np.searchsorted(-self.costs, -near.lengths)
            answer = near.fit(steps[at])
            if answer == TOO_MANY:
                return self.conflicts.lifted(near.smallest(steps[at]), steps)
            if answer != FITS or len(near.chosen) < size or time.monotonic() > deadline:
                break
        each = np.diff(steps, prepend=0)
        for size in weighed:
            if size > len(nearest) >= ALONE[-1]:
                nearest = self._near.nearest(message, size, placed)
            chosen = nearest[:size]
            graph, seconds = part(self.messages, chosen), deadline - time.monotonic()
            if counts(graph, self.costs, each) > EACH_SECOND * seconds:
                break
            cut = shortage(graph, self.costs, each, seconds)
            if cut is not None or len(chosen) < size:
                return cut
        return None

    def _cheaper(self, deadline: float) -> bool:
        """Whether the best schedule has room for all messages with a step less of some cost or more."""
        best = self._best
        gain = self.conflicts.each
        for level in np.argsort(-gain, kind="stable"):
            before = int(best[level - 1]) if level else 0
            if best[level] <= max(before, int(self.conflicts.fewest[level])) or gain[level] <= 0:
                continue
            fewer = best.copy()
            fewer[level] -= 1
            found = self._filled(fewer, deadline)
            if found is None:
                return False
            if not len(found.raised):
                return True
        return False
