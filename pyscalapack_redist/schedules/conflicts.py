"""Messages that do not fit into given steps, and the least cost that is left when each such finding is heeded.

Steps are told by how many of them cost each length or more. Where some messages do not fit one of these numbers must be
larger, whatever the other messages are; the least cost for which every finding is heeded is a bound for the whole graph. It is
a program of a few dozen integers, the numbers of steps, which is solved again after more findings, until its steps have room
for all messages (implicit hitting sets: Moreno-Centeno and Karp, 2013; the cuts are those of Benders, 1962).
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.fitting import TOO_MANY
from .message_graph import Ints
from .shortage import Cut
from .vicinity import Vicinity

__all__ = ["Conflict", "Conflicts"]

Reals = NDArray[np.float64]
NEAR = 1e-4  # of a whole number


class Conflict(NamedTuple):
    """Of one of some costs or more there must be more steps than a number.

    Attributes
    ----------
    levels : ndarray
        Places of the costs.
    most : ndarray
        With so many steps of each of these costs or more, or fewer, there is no room for some messages.
    """

    levels: Ints
    most: Ints


class Conflicts:
    """What has been found for one graph. Not collective.

    Parameters
    ----------
    costs : ndarray
        Of steps, descending, every length among them.
    fewest : ndarray
        For each cost how many steps of that or more there are at least.
    weights : ndarray
        Of a step of each cost.
    most_steps : int or None
        Limit on the number of steps.
    """

    def __init__(self, costs: Ints, fewest: Ints, weights: Reals, most_steps: int | None = None) -> None:
        self.costs, self.fewest, self.most_steps = costs, fewest, most_steps
        self.each: Reals = weights - np.append(weights[1:], 0.0)
        self.found: list[Conflict | Cut] = []

    def value(self, steps: Ints) -> float:
        """The weight of steps, given how many there are of each cost or more; infinite if they are too many. Not collective."""
        if self.most_steps is not None and len(steps) and steps[-1] > self.most_steps:
            return float(np.inf)
        return float(self.each @ steps)

    def lifted(self, part: Vicinity, steps: Ints) -> Conflict:
        """The conflict of messages that do not fit, with the most steps for which it holds. Not collective.

        Parameters
        ----------
        part : Vicinity
            Messages that do not fit.
        steps : ndarray
            For each cost how many steps of that or more there are.
        """
        levels = np.searchsorted(-self.costs, -part.lengths)
        most = steps[levels].copy()
        # Steps that are cheap to add first: what is then left to choose from is dear.
        price = [self.value(self.raised(steps, level, steps[level] + 1)) for level in levels]
        for place in np.argsort(price, kind="stable"):
            while True:
                more = most.copy()
                more[place] += 1
                more = np.maximum.accumulate(more)
                if part.fit(more) != TOO_MANY:
                    break
                most = more
        return Conflict(levels, most)

    def heeded(self, steps: Ints, finding: Conflict | Cut) -> Ints:
        """Steps with some more, of what costs least, so that they heed a finding. Not collective."""
        if isinstance(finding, Conflict):
            pairs = zip(finding.levels, finding.most, strict=True)
            return min((self.raised(steps, level, most + 1) for level, most in pairs), key=self.value)
        answer = steps
        gain = finding.weights - np.append(finding.weights[1:], 0)
        while (missing := finding.least - int(gain @ answer)) > 0:
            choices = [self.raised(answer, level, answer[level] + 1) for level in range(len(steps))]
            bought = np.array([min(missing, int(gain @ (choice - answer))) for choice in choices])
            price = np.array([self.value(choice - answer) for choice in choices])
            if bought.max() <= 0:
                return self.raised(answer, len(steps) - 1, answer[-1] + 1)
            answer = choices[int(np.argmin(np.where(bought > 0, price / np.maximum(bought, 1), np.inf)))]
        return answer

    def raised(self, steps: Ints, level: int, number: int) -> Ints:
        """Steps of which there are so many, or more, of a cost or more. Not collective."""
        more = steps.copy()
        np.maximum(more[level:], number, out=more[level:])
        return more

    def least(self, deadline: float) -> tuple[Ints | None, float]:
        """Steps of least weight that heed all findings, and a bound of the weight. Not collective.

        Parameters
        ----------
        deadline : float
            When to stop, on the clock of `time.monotonic`.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        seconds = deadline - time.monotonic()
        if seconds < 0.005:
            return None, -np.inf
        count = len(self.costs)
        choices = sum(len(finding.levels) for finding in self.found if isinstance(finding, Conflict))
        matrix, low = self._rows(count + choices)
        highest = np.full(count + choices, np.inf if self.most_steps is None else float(self.most_steps))
        highest[count:] = 1.0
        solved = milp(
            np.concatenate([self.each, np.zeros(choices)]),
            constraints=LinearConstraint(matrix, low, np.inf),
            bounds=Bounds(np.concatenate([self.fewest.astype(float), np.zeros(choices)]), highest),
            integrality=np.ones(count + choices),
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )
        if solved.status == 2:
            return None, np.inf
        found = -np.inf if solved.mip_dual_bound is None else float(solved.mip_dual_bound)
        if (self.each == np.rint(self.each)).all() and np.isfinite(found):
            found = float(np.ceil(found - NEAR))
        return (None if solved.x is None else np.rint(solved.x[:count]).astype(np.int64)), found

    def _rows(self, size: int) -> tuple[Any, Reals]:
        """Constraints on the numbers of steps of each cost or more, and on which choice of each conflict is made."""
        from scipy.sparse import csr_array

        # The first one is there whatever has been found.
        rows: list[tuple[Ints, Reals, float]] = [(np.array([0]), np.ones(1), float(self.fewest[0]))]
        rows += [(np.array([level, level + 1]), np.array([-1.0, 1.0]), 0.0) for level in range(len(self.costs) - 1)]
        start = len(self.costs)
        for finding in self.found:
            if isinstance(finding, Cut):
                scale = float(finding.weights.max())
                gain = (finding.weights - np.append(finding.weights[1:], 0)) / scale
                rows.append((np.arange(len(gain)), gain, finding.least / scale))
                continue
            choice = np.arange(start, start + len(finding.levels))
            rows.append((choice, np.ones(len(choice)), 1.0))
            for place, level, most in zip(choice, finding.levels, finding.most, strict=True):
                fewest = float(self.fewest[level])
                rows.append((np.array([level, place]), np.array([1.0, -max(0.0, most + 1 - fewest)]), fewest))
            start += len(choice)
        number = np.repeat(np.arange(len(rows)), [len(columns) for columns, _, _ in rows])
        columns = np.concatenate([columns for columns, _, _ in rows])
        values = np.concatenate([values for _, values, _ in rows])
        return csr_array((values, (number, columns)), shape=(len(rows), size)), np.array([low for _, _, low in rows])
