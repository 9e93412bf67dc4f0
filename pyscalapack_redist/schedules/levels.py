"""The integer programs of least cost: of a whole graph, and small ones whose bounds hold for a large one."""

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
FIRST = 12  # costs of the first integer program
GRACE = 0.1  # seconds to see that a rounding fits, when time is up
LARGEST = 400_000  # counts
EACH_SECOND = 30_000  # counts for each second that is left: solvers look at the clock once in a while only


class Limit(NamedTuple):
    """That the sum of steps, each with the weight of its cost, is between two values."""

    weights: Reals
    least: float
    most: float


class Solution(NamedTuple):
    """Of one integer program.

    Attributes
    ----------
    steps : ndarray or None
        Number of steps of each cost; None where none was found.
    counts : ndarray or None
        For each type and cost the number of messages; None where they are not whole numbers.
    bound : float
        No solution's value is below it; infinite where there is no solution.
    shares : ndarray or None
        For each type and cost the number of messages, whole or not.
    """

    steps: Ints | None
    counts: Ints | None
    bound: float
    shares: Reals | None = None


class _Relaxed(NamedTuple):
    value: float
    steps: Reals
    reduced: Reals


class Levels:
    """The integer program of least cost for one folded graph. Not collective.

    It says how many steps there are of each cost, and which messages go into steps of which cost. A step of cost c takes
    messages of length c or less. By Koenig's theorem messages fit into m steps where no process has more than m of them, so
    a schedule of a folded graph is m_c for each length c and counts y of each type for each c, with

        sum over c of y[t, c] = count[t],
        sum over the types t of a group of y[t, c] <= m_c (number of copies of the group).

    With m integer and y real its least value is a lower bound for the whole graph, folded or not: average a schedule over
    all processes that are alike. With y integer it is a schedule of the folded graph, and every schedule of a graph without
    turns is one. Where all senders, or all receivers, are of one group it is a network flow for given m, and y comes out
    integer by itself.

    Few costs are used. The linear program tells which, and its reduced costs tell which others can be left out of the proof.

    Parameters
    ----------
    graph : Types
        The folded graph.
    deadline : float
        When to stop, on the clock of `time.monotonic`.
    costs : ndarray, optional
        Of the steps that there may be, descending, every length among them; the lengths where it is not given.
    """

    def __init__(self, graph: Types, deadline: float, costs: Ints | None = None) -> None:
        self.graph, self.deadline = graph, deadline
        self.costs: Ints = np.unique(graph.length)[::-1] if costs is None else costs

    @property
    def turns(self) -> int:
        """Messages for each edge of the graph. Not collective."""
        return getattr(self.graph, "turns", 1)

    @property
    def too_large(self) -> bool:
        """Whether the program is beyond what is solved, in the time that is left. Not collective."""
        return self.too_many(1)

    def too_many(self, limits: int) -> bool:
        """The same with so many limits on the steps: they, and the room of each group, count as messages do. Not collective."""
        graph = self.graph
        if not graph.types:
            return False
        most = min(LARGEST, EACH_SECOND * (self.deadline - time.monotonic()))
        rows = len(graph.sender_sizes) + len(graph.receiver_sizes) + limits
        if rows * len(self.costs) > most:
            return True
        return int((graph.length[:, None] <= self.costs[None]).sum()) > most

    def fitting(self, steps: Ints) -> Solution:
        """Counts for given steps of each cost: real ones, whole if they come out so; else whole ones. Not collective."""
        used = np.flatnonzero(steps)
        fixed = steps.astype(float)
        found = self._solve(used, np.zeros(len(steps)), [], whole=False, low=fixed, high=fixed)
        if found.bound < np.inf and found.counts is None:
            exact = self._solve(used, np.zeros(len(steps)), [], whole=True, low=fixed, high=fixed)
            return exact._replace(bound=found.bound)
        return found

    def shares(self, steps: Ints) -> Reals | None:
        """Messages of each type in steps of each cost, whole or not, for given steps; None if none fit. Not collective."""
        fixed = steps.astype(float)
        return self._solve(np.flatnonzero(steps), np.zeros(len(steps)), [], whole=False, low=fixed, high=fixed).shares

    def least(self, weights: Reals, limits: list[Limit], *, whole: bool = False) -> Solution:
        """The steps of least weight. Not collective.

        Parameters
        ----------
        weights : ndarray
            Of a step of each cost.
        limits : list of Limit
            What else is asked of the steps.
        whole : bool
            Whether counts must be whole numbers too.
        """
        unit = 1.0 if (weights == np.rint(weights)).all() else 0.0
        relaxed = self._relaxed(weights, limits)
        if relaxed is None:
            return Solution(None, None, -np.inf)
        value, reduced, used = relaxed.value, relaxed.reduced, relaxed.steps > TINY
        if value == np.inf:
            return Solution(None, None, np.inf)
        bound = _rounded_up(value, unit)
        spare = self._roundings(relaxed.steps, weights, limits)
        some = used.copy()
        some[0] = True
        some[np.argsort(reduced, kind="stable")[:FIRST]] = True
        first = self._solve(np.flatnonzero(some), weights, limits, whole=whole)
        first = min(first, spare, key=lambda level: _value(level, weights))._replace(bound=first.bound)
        best = _value(first, weights)
        # A step of a cost that is left out adds its reduced cost to the value.
        needed = (
            reduced <= best - unit - value + TINY * max(1.0, abs(value)) if np.isfinite(best) else np.ones_like(some)
        )
        if best <= bound + TINY or not (needed & ~some).any():
            return first._replace(bound=max(bound, min(_rounded_up(first.bound, unit), best)))
        second = self._solve(np.flatnonzero(some | needed), weights, limits, whole=whole)
        bound = max(bound, min(_rounded_up(second.bound, unit), best))
        return (second if _value(second, weights) < best else first)._replace(bound=bound)

    def _roundings(self, steps: Reals, weights: Reals, limits: list[Limit]) -> Solution:
        """Steps of each cost or more, rounded up: what fitted before fits again."""
        rounded = np.diff(np.ceil(np.cumsum(steps) - TINY), prepend=0)
        if any(not limit.least <= rounded @ limit.weights <= limit.most for limit in limits):
            return Solution(None, None, -np.inf)
        some_time = Levels(self.graph, max(self.deadline, time.monotonic() + GRACE), self.costs)
        return some_time.fitting(rounded.astype(np.int64))

    def _relaxed(self, weights: Reals, limits: list[Limit]) -> _Relaxed | None:
        """The linear program; None if time is up."""
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
        found = linprog(
            np.concatenate([weights, np.zeros(program.size)]),
            A_eq=matrix[np.flatnonzero(equal)],
            b_eq=low[equal],
            A_ub=vstack([matrix[above], -matrix[below]]),
            b_ub=np.concatenate([high[above], -low[below]]),
            method="highs-ipm",
            options={"time_limit": seconds},
        )
        if found.status == 2:
            return _Relaxed(np.inf, np.zeros(levels), np.zeros(levels))
        if found.status != 0:
            return None
        return _Relaxed(float(found.fun), found.x[:levels], np.maximum(found.lower.marginals[:levels], 0))

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
        """The program with steps of some costs only."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import block_diag, diags_array, eye_array

        seconds = self.deadline - time.monotonic()
        if seconds < 0.005:
            return Solution(None, None, -np.inf)
        program = _Program(self.graph, self.costs, used)
        matrix, least, most = program.rows(limits)
        fewest = np.zeros(len(used)) if low is None else low[used]
        highest = np.full(len(used), np.inf) if high is None else high[used]
        # In the numbers of steps of a cost or more: branching on these closes the gap sooner than on those of each cost.
        levels = len(used)
        of_each = block_diag(
            [diags_array([1.0, -1.0], offsets=[0, -1], shape=(levels, levels)), eye_array(program.size)]
        )
        per_step = diags_array(np.ones(levels), shape=(levels, levels + program.size)) @ of_each
        found = milp(
            of_each.T @ np.concatenate([weights[used], np.zeros(program.size)]),
            constraints=[LinearConstraint(matrix @ of_each, least, most), LinearConstraint(per_step, fewest, highest)],
            bounds=Bounds(
                np.zeros(levels + program.size),
                np.concatenate([np.full(levels, np.inf), self.graph.count[program.kind].astype(float)]),
            ),
            integrality=np.concatenate([np.ones(levels), np.full(program.size, int(whole))]),
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )
        if found.status == 2:
            return Solution(None, None, np.inf)
        bound = -np.inf if found.mip_dual_bound is None else float(found.mip_dual_bound)
        if found.x is None:
            return Solution(None, None, bound)
        steps = np.zeros(len(self.costs), dtype=np.int64)
        steps[used] = np.diff(np.rint(found.x[:levels]).astype(np.int64), prepend=0)
        shares = np.zeros((self.graph.types, len(self.costs)))
        shares[program.kind, program.used[program.level]] = found.x[levels:]
        return Solution(steps, self._counts(program, found.x[levels:], steps), bound, shares)

    def _counts(self, program: _Program, values: Reals, steps: Ints) -> Ints | None:
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
            used = np.zeros((len(sizes), len(self.costs)), dtype=np.int64)
            np.add.at(used, group, counts)
            if (used > sizes[:, None] * steps).any():
                return False
        return True


class _Program:
    """Rows of the constraints: first the steps of each cost, then the counts."""

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
        places = np.concatenate(rows), np.concatenate(columns)
        matrix = csr_array((np.concatenate(values), places), shape=(start, levels + self.size))
        low = [graph.count.astype(float), np.full(capacities, -np.inf), np.array([limit.least for limit in limits])]
        high = [graph.count.astype(float), np.zeros(capacities), np.array([limit.most for limit in limits])]
        return matrix, np.concatenate(low), np.concatenate(high)


def _value(solution: Solution, weights: Reals) -> float:
    return np.inf if solution.steps is None else float(solution.steps @ weights)


def _rounded_up(value: float, unit: float) -> float:
    return float(np.ceil(value - TINY * max(1.0, abs(value) * 1e-3))) if unit and np.isfinite(value) else value


@dataclass(frozen=True, eq=False)
class Grouped:
    """Messages by group of senders, group of receivers and length: the types of a small program with a bound for a large graph.

    Processes are put together, or few of the messages are looked at. The constraints of `Levels` are sums over the copies
    of a group, so they also hold for a group of processes that are not alike, and leaving messages out only makes a
    schedule cheaper. So a cost that no schedule of the small graph can be below, no schedule of the large one can be below
    either.

    Attributes
    ----------
    messages : SortedMessages
        All messages.
    chosen : ndarray
        Those that are looked at.
    of_sender, of_receiver : ndarray
        Group of each process.
    """

    messages: SortedMessages
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


def residues(grid: CommunicationGrid, messages: SortedMessages) -> Grouped:
    """Processes that a whole slice would not tell apart, up to the order of their messages, as groups. Not collective.

    They are senders with the same number modulo gcd(s, g), and receivers modulo gcd(r, g) (Desprez, Proposition 1).
    """
    r, s, g = grid.reduced
    senders, receivers = np.arange(grid.P) % math.gcd(s, g), np.arange(grid.Q) % math.gcd(r, g)
    return Grouped(messages, np.arange(len(messages.length)), senders, receivers)


def around(messages: SortedMessages, chosen: Ints, most: int) -> Ints:
    """Some messages, those of their processes, those of the processes at the other ends, and so on. Not collective.

    Parameters
    ----------
    messages : SortedMessages
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


def part(messages: SortedMessages, chosen: Ints) -> Grouped:
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
