"""Integer programs for the least cost: of a whole graph, and smaller programs whose bounds hold for a large graph."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .communication_grid import CommunicationGrid
from .folding import Types
from .matchings import SortedMessages
from .message_graph import Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Reals = NDArray[np.float64]
TINY = 1e-6
FIRST = 12  # costs in the first integer program
GRACE = 0.1  # seconds to check a rounded solution after the deadline
LARGEST = 400_000  # counts in a program
EACH_SECOND = 30_000  # counts for each second left: solvers check the time limit only now and then


class Limit(NamedTuple):
    """A constraint: the weighted sum of the steps is between two values; one weight for each cost."""

    weights: Reals
    least: float
    most: float


class Solution(NamedTuple):
    """The solution of an integer program.

    Attributes
    ----------
    steps : ndarray or None
        Number of steps of each cost; None without a solution.
    counts : ndarray or None
        Number of messages of each type and cost; None if they are not whole numbers.
    bound : float
        Lower bound of the value; infinite if there is no solution.
    shares : ndarray or None
        Number of messages of each type and cost, whole or not.
    """

    steps: Ints | None
    counts: Ints | None
    bound: float
    shares: Reals | None = None


class _Relaxed(NamedTuple):
    """The solution of the linear program: value, steps and reduced cost of each cost."""

    value: float
    steps: Reals
    reduced: Reals


class Levels:
    """The integer program of least cost for one folded graph.

    Unknowns are the number of steps of each cost and the messages that go into them. A step of cost c takes messages of length
    c or less. By Koenig's theorem messages fit into m steps if no process has more than m of them. So a schedule of a folded
    graph is m_c for each length c and counts y of each type for each c, with

        sum over c of y[t, c] = count[t],
        sum over the types t of a group of y[t, c] <= m_c (number of copies of the group).

    With m integer and y real, the least value is a lower bound for the whole graph: a schedule can be averaged over equivalent
    processes. With y integer, a solution is a schedule of the folded graph; without turns, every schedule is such a solution.
    If all senders, or all receivers, are in one group, the program for fixed m is a network flow, whose solutions are integer.

    Few costs are used. The linear program selects them; its reduced costs prove that others can be left out.

    Parameters
    ----------
    graph : Types
        The folded graph.
    deadline : float
        When to stop, on the clock of `time.monotonic`.
    costs : ndarray, optional
        Possible costs of steps, descending, with every length among them; by default the lengths.
    """

    def __init__(self, graph: Types, deadline: float, costs: Ints | None = None) -> None:
        self.graph, self.deadline = graph, deadline
        self.costs: Ints = np.unique(graph.length)[::-1] if costs is None else costs

    @property
    def turns(self) -> int:
        """Messages for each edge of the graph."""
        return getattr(self.graph, "turns", 1)

    @property
    def too_large(self) -> bool:
        """Whether the program is too large for the time left."""
        return self.too_many(1)

    def too_many(self, limits: int) -> bool:
        """Whether the program is too large with so many limits; limits and constraints of groups count as messages do."""
        graph = self.graph
        if not graph.types:
            return False
        most = min(LARGEST, EACH_SECOND * (self.deadline - time.monotonic()))
        rows = len(graph.sender_sizes) + len(graph.receiver_sizes) + limits
        if rows * len(self.costs) > most:
            return True
        return int((graph.length[:, None] <= self.costs[None]).sum()) > most

    def fitting(self, steps: Ints) -> Solution:
        """Counts for given steps of each cost: of the linear program if they are whole, else of the integer program."""
        with_steps = np.flatnonzero(steps)
        number = steps.astype(float)
        solution = self._solve(with_steps, np.zeros(len(steps)), [], whole=False, low=number, high=number)
        if solution.bound < np.inf and solution.counts is None:
            exact = self._solve(with_steps, np.zeros(len(steps)), [], whole=True, low=number, high=number)
            return exact._replace(bound=solution.bound)
        return solution

    def shares(self, steps: Ints) -> Reals | None:
        """Messages of each type in steps of each cost, whole or not, for given steps; None if they do not fit."""
        number = steps.astype(float)
        return self._solve(np.flatnonzero(steps), np.zeros(len(steps)), [], whole=False, low=number, high=number).shares

    def least(self, weights: Reals, limits: list[Limit], *, whole: bool = False) -> Solution:
        """The steps of least weight.

        Parameters
        ----------
        weights : ndarray
            Weight of a step of each cost.
        limits : list of Limit
            Further constraints on the steps.
        whole : bool
            Whether counts must be whole numbers, too.
        """
        unit = 1.0 if (weights == np.rint(weights)).all() else 0.0
        relaxed = self._solve_relaxed(weights, limits)
        if relaxed is None:
            return Solution(None, None, -np.inf)
        value, reduced, positive = relaxed.value, relaxed.reduced, relaxed.steps > TINY
        if value == np.inf:
            return Solution(None, None, np.inf)
        bound = _round_up(value, unit)
        rounded = self._round(relaxed.steps, weights, limits)
        chosen = positive.copy()
        chosen[0] = True
        chosen[np.argsort(reduced, kind="stable")[:FIRST]] = True
        first = self._solve(np.flatnonzero(chosen), weights, limits, whole=whole)
        first = min(first, rounded, key=lambda level: _value(level, weights))._replace(bound=first.bound)
        best = _value(first, weights)
        # A step with a cost that was left out would add its reduced cost to the value.
        needed = (
            reduced <= best - unit - value + TINY * max(1.0, abs(value)) if np.isfinite(best) else np.ones_like(chosen)
        )
        if best <= bound + TINY or not (needed & ~chosen).any():
            return first._replace(bound=max(bound, min(_round_up(first.bound, unit), best)))
        second = self._solve(np.flatnonzero(chosen | needed), weights, limits, whole=whole)
        bound = max(bound, min(_round_up(second.bound, unit), best))
        return (second if _value(second, weights) < best else first)._replace(bound=bound)

    def _round(self, steps: Reals, weights: Reals, limits: list[Limit]) -> Solution:
        """A solution by rounding up the numbers of steps of each cost or more; messages still fit then."""
        rounded = np.diff(np.ceil(np.cumsum(steps) - TINY), prepend=0)
        if any(not limit.least <= rounded @ limit.weights <= limit.most for limit in limits):
            return Solution(None, None, -np.inf)
        levels = Levels(self.graph, max(self.deadline, time.monotonic() + GRACE), self.costs)
        return levels.fitting(rounded.astype(np.int64))

    def _solve_relaxed(self, weights: Reals, limits: list[Limit]) -> _Relaxed | None:
        """Solve the linear program; None if the deadline passes."""
        from scipy.optimize import linprog
        from scipy.sparse import vstack

        seconds = self.deadline - time.monotonic()
        if seconds < 0.005:
            return None
        levels = len(self.costs)
        program = _Program(self.graph, self.costs, np.arange(levels))
        matrix, low, high = program.rows(limits)
        equal = low == high
        above, below = np.flatnonzero(~equal & np.isfinite(high)), np.flatnonzero(~equal & np.isfinite(low))
        solution = linprog(
            np.concatenate([weights, np.zeros(program.size)]),
            A_eq=matrix[np.flatnonzero(equal)],
            b_eq=low[equal],
            A_ub=vstack([matrix[above], -matrix[below]]),
            b_ub=np.concatenate([high[above], -low[below]]),
            method="highs-ipm",
            options={"time_limit": seconds},
        )
        if solution.status == 2:
            return _Relaxed(np.inf, np.zeros(levels), np.zeros(levels))
        if solution.status != 0:
            return None
        return _Relaxed(float(solution.fun), solution.x[:levels], np.maximum(solution.lower.marginals[:levels], 0))

    def _solve(
        self,
        used: Ints,
        weights: Reals,
        limits: list[Limit],
        *,
        whole: bool,
        low: Reals | None = None,
        high: Reals | None = None,
    ) -> Solution:
        """Solve the integer program with steps of the costs `used` only; `low` and `high` bound their numbers."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import block_diag, diags_array, eye_array

        seconds = self.deadline - time.monotonic()
        if seconds < 0.005:
            return Solution(None, None, -np.inf)
        program = _Program(self.graph, self.costs, used)
        matrix, least, most = program.rows(limits)
        fewest = np.zeros(len(used)) if low is None else low[used]
        highest = np.full(len(used), np.inf) if high is None else high[used]
        # The variables are numbers of steps of a cost or more: branching on these closes the gap faster.
        levels = len(used)
        of_each = block_diag(
            [diags_array([1.0, -1.0], offsets=[0, -1], shape=(levels, levels)), eye_array(program.size)]
        )
        per_step = diags_array(np.ones(levels), shape=(levels, levels + program.size)) @ of_each
        solution = milp(
            of_each.T @ np.concatenate([weights[used], np.zeros(program.size)]),
            constraints=[LinearConstraint(matrix @ of_each, least, most), LinearConstraint(per_step, fewest, highest)],
            bounds=Bounds(
                np.zeros(levels + program.size),
                np.concatenate([np.full(levels, np.inf), self.graph.count[program.kind].astype(float)]),
            ),
            integrality=np.concatenate([np.ones(levels), np.full(program.size, int(whole))]),
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )
        if solution.status == 2:
            return Solution(None, None, np.inf)
        bound = -np.inf if solution.mip_dual_bound is None else float(solution.mip_dual_bound)
        if solution.x is None:
            return Solution(None, None, bound)
        steps = np.zeros(len(self.costs), dtype=np.int64)
        steps[used] = np.diff(np.rint(solution.x[:levels]).astype(np.int64), prepend=0)
        shares = np.zeros((self.graph.types, len(self.costs)))
        shares[program.kind, program.used[program.level]] = solution.x[levels:]
        return Solution(steps, self._counts(program, solution.x[levels:], steps), bound, shares)

    def _counts(self, program: _Program, values: Reals, steps: Ints) -> Ints | None:
        """The values as whole counts; None if they are not whole or do not fit."""
        near = np.rint(values)
        if len(near) and np.abs(values - near).max() > TINY:
            return None
        counts = np.zeros((self.graph.types, len(self.costs)), dtype=np.int64)
        counts[program.kind, program.used[program.level]] = near.astype(np.int64)
        return counts if self._fits(counts, steps) else None

    def _fits(self, counts: Ints, steps: Ints) -> bool:
        graph = self.graph
        if (counts.sum(axis=1) != graph.count).any():
            return False
        for group, sizes in ((graph.sender_group, graph.sender_sizes), (graph.receiver_group, graph.receiver_sizes)):
            messages = np.zeros((len(sizes), len(self.costs)), dtype=np.int64)
            np.add.at(messages, group, counts)
            if (messages > sizes[:, None] * steps).any():
                return False
        return True


class _Program:
    """Constraints of the program as a matrix; its columns are the steps of each cost, then the counts."""

    def __init__(self, graph: Types, costs: Ints, used: Ints) -> None:
        self.graph, self.used = graph, used
        self.kind, self.level = np.nonzero(graph.length[:, None] <= costs[used][None])

    @property
    def size(self) -> int:
        return len(self.kind)

    def rows(self, limits: list[Limit]) -> tuple[csr_array, Reals, Reals]:
        from scipy.sparse import csr_array

        graph, levels, index = self.graph, len(self.used), np.arange(self.size)
        rows, columns, values = [self.kind], [levels + index], [np.ones(self.size)]
        start = graph.types
        for group, sizes in ((graph.sender_group, graph.sender_sizes), (graph.receiver_group, graph.receiver_sizes)):
            cells = len(sizes) * levels
            rows += [start + group[self.kind] * levels + self.level, start + np.arange(cells)]
            columns += [levels + index, np.tile(np.arange(levels), len(sizes))]
            values += [1.0 / sizes[group[self.kind]], -np.ones(cells)]
            start += cells
        capacities = start - graph.types
        for limit in limits:
            rows.append(np.full(levels, start))
            columns.append(np.arange(levels))
            values.append(limit.weights[self.used])
            start += 1
        indices = np.concatenate(rows), np.concatenate(columns)
        matrix = csr_array((np.concatenate(values), indices), shape=(start, levels + self.size))
        low = [graph.count.astype(float), np.full(capacities, -np.inf), np.array([limit.least for limit in limits])]
        high = [graph.count.astype(float), np.zeros(capacities), np.array([limit.most for limit in limits])]
        return matrix, np.concatenate(low), np.concatenate(high)


def _value(solution: Solution, weights: Reals) -> float:
    return np.inf if solution.steps is None else float(solution.steps @ weights)


def _round_up(value: float, unit: float) -> float:
    return float(np.ceil(value - TINY * max(1.0, abs(value) * 1e-3))) if unit and np.isfinite(value) else value


@dataclass(frozen=True, eq=False)
class Grouped:
    """Messages by group of senders, group of receivers and length: a small program whose bound holds for a large graph.

    Processes are grouped, or only some messages are used. The constraints of `Levels` are sums over the copies of a group, so
    they also hold for groups of processes that are not equivalent; leaving messages out only lowers the cost. So a lower bound
    for the small graph is a lower bound for the large one.

    Attributes
    ----------
    messages : SortedMessages
        All messages.
    chosen : ndarray
        Numbers of the messages used.
    of_sender, of_receiver : ndarray
        Group of each process.
    """

    messages: SortedMessages
    chosen: Ints
    of_sender: Ints
    of_receiver: Ints

    @property
    def sender_sizes(self) -> Ints:
        """Number of senders with messages in each group."""
        return self._sizes(self.of_sender, self.messages.sender)

    @property
    def receiver_sizes(self) -> Ints:
        """Number of receivers with messages in each group."""
        return self._sizes(self.of_receiver, self.messages.receiver)

    def _sizes(self, group: Ints, end: Ints) -> Ints:
        present = np.bincount(end[self.chosen], minlength=len(group)) > 0
        return np.bincount(group[present], minlength=int(group.max()) + 1)

    @cached_property
    def _kinds(self) -> tuple[Ints, Ints, Ints]:
        """Keys of the types, the type of each message, and the number of messages of each type."""
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
        """Group of senders of each type."""
        group: Ints = self._kinds[0] // self._radix // (int(self.of_receiver.max()) + 1)
        return group

    @property
    def receiver_group(self) -> Ints:
        """Group of receivers of each type."""
        group: Ints = self._kinds[0] // self._radix % (int(self.of_receiver.max()) + 1)
        return group

    @property
    def length(self) -> Ints:
        """Message length of each type."""
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


def residues(grid: CommunicationGrid, messages: SortedMessages) -> Grouped:
    """Group the processes that are equivalent in whole slices, up to the order of their messages.

    These are senders with the same number modulo gcd(s, g), and receivers modulo gcd(r, g) (Desprez, Proposition 1).
    """
    r, s, g = grid.reduced
    senders, receivers = np.arange(grid.P) % math.gcd(s, g), np.arange(grid.Q) % math.gcd(r, g)
    return Grouped(messages, np.arange(len(messages.length)), senders, receivers)


def messages_nearby(messages: SortedMessages, chosen: Ints, most: int) -> Ints:
    """Add to some messages all others of the same processes, repeatedly.

    Parameters
    ----------
    messages : SortedMessages
        All messages.
    chosen : ndarray
        The first messages.
    most : int
        Most messages of the result, unless `chosen` has more.
    """
    selected = np.zeros(len(messages.length), dtype=bool)
    selected[chosen] = True
    while True:
        senders, receivers = np.zeros(messages.shape[0], dtype=bool), np.zeros(messages.shape[1], dtype=bool)
        senders[messages.sender[selected]] = True
        receivers[messages.receiver[selected]] = True
        wider = senders[messages.sender] | receivers[messages.receiver]
        if np.count_nonzero(wider) > most or np.count_nonzero(wider) == np.count_nonzero(selected):
            return np.flatnonzero(selected)
        selected = wider


def subset_of(messages: SortedMessages, chosen: Ints) -> Grouped:
    """Use some of the messages only; each process is a group."""
    senders, receivers = (
        _numbers(end, chosen, processes)
        for end, processes in zip((messages.sender, messages.receiver), messages.shape, strict=True)
    )
    return Grouped(messages, chosen, senders, receivers)


def preferred_levels(group: Grouped, shares: NDArray[np.float64]) -> Ints:
    """A preferred level for each message, so that the numbers of each type in each level are those of a program's solution.

    Parameters
    ----------
    group : Grouped
        All messages, grouped.
    shares : ndarray
        Messages of each type (row) in each level (column), whole or not.
    """
    kind = group.kind
    order = np.argsort(np.random.default_rng(0).permutation(len(kind)) + kind * len(kind), kind="stable")
    position = np.empty(len(kind), dtype=np.int64)
    position[order] = np.arange(len(kind)) - (np.cumsum(group.count) - group.count)[kind[order]]
    preferred = np.zeros(len(kind), dtype=np.int64)
    for share in np.cumsum(shares, axis=1).T[:-1]:
        preferred += position + 0.5 > share[kind]
    return preferred


def _numbers(end: Ints, chosen: Ints, processes: int) -> Ints:
    """Number the processes of the chosen messages from 0; other processes get 0."""
    group = np.zeros(processes, dtype=np.int64)
    names = np.unique(end[chosen])
    group[names] = np.arange(len(names))
    return group
