"""Schedules by matchings: stepwise and greedy; and `SortedMessages`, which puts messages into levels one by one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._kernels.nested import nested_levels
from .checks import LARGEST_TABLE, checked_seconds
from .communication_grid import CommunicationGrid
from .folding import FoldedGraph, edge_colours, fold, slices, unfold_parts
from .message_graph import Ints, MessageGraph
from .schedule import ListedSchedule, Schedule


class HeaviestStep:
    """Finds steps of maximum weight (Desprez, section 4.5); among equal weights, steps with more messages.

    A step of a folded graph is the number of messages of each type. The polytope of matchings of a bipartite graph is integral
    (Eq 7 of the paper), and so is the polytope of counts within the groups' sizes. If every group has one process, the problem
    is an assignment problem.

    Parameters
    ----------
    graph : FoldedGraph
        The folded graph.
    """

    def __init__(self, graph: FoldedGraph) -> None:
        self.graph = graph
        self._sizes = np.concatenate([graph.sender_sizes, graph.receiver_sizes])
        self._ends = np.stack([graph.sender_group, graph.receiver_group + len(graph.sender_sizes)])
        self._most = min(len(graph.senders), len(graph.receivers))
        self._weight = graph.length * (self._most + 1) + 1
        self._single = bool((self._sizes == 1).all())

    def find(self, remaining: Ints, least: Ints) -> Ints:
        """Number of messages of each type in a step of maximum weight.

        Parameters
        ----------
        remaining : ndarray
            Messages of each type that are not yet in a step.
        least : ndarray
            How many processes of each group must take part; groups of senders first.
        """
        return self._solve_assignment(remaining, least) if self._single else self._solve_program(remaining, least)

    def count_participants(self, step: Ints) -> Ints:
        """Number of processes of each group that take part in a step; groups of senders first."""
        both = np.concatenate([step, step])
        return np.bincount(self._ends.reshape(-1), weights=both, minlength=len(self._sizes)).astype(np.int64)

    def _solve_assignment(self, remaining: Ints, least: Ints) -> Ints:
        from scipy.optimize import linear_sum_assignment

        kinds = np.flatnonzero(remaining)
        kinds = kinds[np.argsort(self._weight[kinds], kind="stable")]
        shape = len(self.graph.sender_sizes), len(self.graph.receiver_sizes)
        best = np.full(shape, -1, dtype=np.int64)
        best[self.graph.sender_group[kinds], self.graph.receiver_group[kinds]] = kinds
        required = least > 0
        # The bonus for a process that must take part is more than the weight of a whole step.
        bonus = float(self._weight.max(initial=1)) * self._most + 1
        weight = np.where(best >= 0, self._weight[best], 0) + bonus * np.where(
            best >= 0, required[: shape[0], None].astype(float) + required[None, shape[0] :], 0
        )
        i, j = linear_sum_assignment(weight, maximize=True)
        step = np.zeros(self.graph.types, dtype=np.int64)
        matched = best[i, j]
        step[matched[matched >= 0]] = 1
        return step

    def _solve_program(self, remaining: Ints, least: Ints) -> Ints:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        kinds = np.flatnonzero(remaining)
        ends = self._ends[:, kinds]
        indices = (ends.reshape(-1), np.tile(np.arange(len(kinds)), 2))
        matrix = csr_array((np.ones(2 * len(kinds)), indices), shape=(len(self._sizes), len(kinds)))
        for integral in (0, 1):
            solution = milp(
                -self._weight[kinds].astype(float),
                constraints=LinearConstraint(matrix, np.maximum(least, 0), self._sizes),
                bounds=Bounds(0, remaining[kinds]),
                integrality=np.full(len(kinds), integral),
            )
            step = np.zeros(self.graph.types, dtype=np.int64)
            step[kinds] = np.rint(solution.x)
            if np.abs(solution.x - step[kinds]).max() < 1e-6:
                break
        return step


MOST_WORK = 10**7  # pairs of processes times steps up to which matchings are computed: some tenths of a second
LISTING = 4e-7  # seconds to list a message


def stepwise(grid: MessageGraph, time_limit: float = 1.0) -> Schedule:
    """As many steps as the maximum degree, each as heavy as that allows (Desprez, Theorem 1).

    This is the fewest steps. Each is a maximum-weight matching that saturates the processes of maximum degree (section 4.5).
    From blocks of r to blocks of K r the cost is the least, too (Proposition 6).

    If the graph does not fold and matchings would take more than about a second, or take longer than the limit, messages are
    put into levels one by one instead (see `in_levels`): as few steps, which need not each be the heaviest.

    Parameters
    ----------
    grid : MessageGraph
        The messages.
    time_limit : float
        Seconds. There is a schedule in any case; with more time it may cost less.

    Raises
    ------
    ScheduleError
        An option is invalid, or there are more than 10^8 messages.
    """
    seconds = checked_seconds(time_limit)
    deadline = time.monotonic() + seconds
    folds = isinstance(grid, CommunicationGrid) and slices(grid)
    if folds or grid.P * grid.Q * grid.step_bound <= MOST_WORK:
        graph = fold(grid)
        lists = grid.P * grid.Q <= LARGEST_TABLE
        parts = stepwise_parts(graph, deadline if lists else np.inf)
        if parts is not None:
            return ListedSchedule("stepwise", grid, unfold_parts(graph, parts))
    return in_levels(grid, deadline)


def in_levels(grid: MessageGraph, deadline: float) -> Schedule:
    """A schedule with as many steps as the maximum degree, made message by message.

    Parameters
    ----------
    grid : MessageGraph
        The messages.
    deadline : float
        When to stop searching for a lower cost, on the clock of `time.monotonic`.
    """
    messages = SortedMessages(grid)
    costs = np.unique(messages.length)[::-1]
    steps = np.array([np.count_nonzero(grid.profile == cost) for cost in costs], dtype=np.int64)
    attempt = messages.within(grid.step_bound, Targets(costs, steps), deadline - LISTING * len(messages.length))
    return ListedSchedule("stepwise", grid, messages.list_steps(attempt))


def stepwise_parts(graph: FoldedGraph, deadline: float = np.inf) -> Ints | None:
    """Counts of each type (row) in runs of equal steps (column); None if the deadline passes."""
    heaviest = HeaviestStep(graph)
    sizes = np.concatenate([graph.sender_sizes, graph.receiver_sizes])
    remaining = graph.count.copy()
    degrees = heaviest.count_participants(remaining)
    steps_left = int((-(-degrees // sizes)).max(initial=0))
    parts = []
    while steps_left:
        if time.monotonic() > deadline:
            return None
        # Enough processes of a group must take part that all can send the rest in the steps left after this one.
        step = heaviest.find(remaining, degrees - (steps_left - 1) * sizes)
        times = _times(step, remaining, heaviest.count_participants(step), degrees - (steps_left - 1) * sizes, sizes)
        times = min(times, steps_left)
        parts.append(times * step)
        remaining = remaining - times * step
        degrees = heaviest.count_participants(remaining)
        steps_left -= times
    return np.array(parts, dtype=np.int64).reshape(len(parts), graph.types).T


def _times(step: Ints, remaining: Ints, part: Ints, least: Ints, sizes: Ints) -> int:
    """How often a step can be repeated and still have maximum weight."""
    in_step = step > 0
    times = int((remaining[in_step] // step[in_step]).min())
    absent = sizes > part
    if absent.any():
        times = min(times, int(((part - least)[absent] // (sizes - part)[absent]).min()) + 1)
    return times


def greedy(grid: MessageGraph) -> Schedule:
    """Each step has the maximum weight among the remaining messages (Desprez, section 4.5).

    The schedule has more steps than `stepwise`, and often less cost. The cost depends on how ties are broken; here the step
    with more messages is preferred.

    Raises
    ------
    ScheduleError
        There are more than 10^8 messages.
    """
    graph = fold(grid)
    return ListedSchedule("greedy", grid, unfold_parts(graph, greedy_parts(graph)))


def greedy_parts(graph: FoldedGraph) -> Ints:
    """Counts of each type (row) in runs of equal steps (column)."""
    heaviest = HeaviestStep(graph)
    remaining = graph.count.copy()
    required = np.zeros(len(graph.sender_sizes) + len(graph.receiver_sizes), dtype=np.int64)
    parts = []
    while remaining.any():
        step = heaviest.find(remaining, required)
        in_step = step > 0
        # The step stays one of maximum weight while it can be repeated: remaining messages only become fewer.
        times = int((remaining[in_step] // step[in_step]).min())
        parts.append(times * step)
        remaining = remaining - times * step
    return np.array(parts, dtype=np.int64).reshape(len(parts), graph.types).T


# If there are too many steps, steps / k of them get equal costs, for each k of these; k that work most often come first.
EQUAL_COST_DIVISORS = (16, 64, 32, 8, 4, 2, 1)
FEW, TRIES = 2, 64  # pairs of levels tried to make room for a message


@dataclass(frozen=True)
class Targets:
    """The wanted number of steps of each cost.

    Attributes
    ----------
    costs : ndarray
        Strictly descending; contains every length.
    steps : ndarray
        Number of steps of each cost.
    """

    costs: Ints
    steps: Ints

    def merged(self, least: int) -> Targets:
        """Raise the cost of the cheapest steps until at least `least` steps have the same cost."""
        steps = self.steps.copy()
        with_steps = np.flatnonzero(steps)
        number = np.cumsum(steps[with_steps][::-1])
        last_used = len(with_steps) - 1 - min(int(np.searchsorted(number, least)), len(with_steps) - 1)
        last = with_steps[last_used]
        steps[last] = steps[last:].sum()
        steps[last + 1 :] = 0
        return Targets(self.costs, steps)

    def coarser(self, least: int) -> Targets:
        """Raise costs so that at least `least` steps have the same cost, except for the cheapest steps."""
        steps = np.zeros_like(self.steps)
        with_steps = np.flatnonzero(self.steps)
        first = 0
        for end in range(1, len(with_steps) + 1):
            together = int(self.steps[with_steps[first:end]].sum())
            if together >= least or end == len(with_steps):
                steps[with_steps[first]] = together
                first = end
        return Targets(self.costs, steps)


@dataclass(frozen=True, eq=False)
class Attempt:
    """A level for each message.

    Attributes
    ----------
    level : ndarray
        Level of each message, in the order of `SortedMessages`.
    steps, cost : int
        Number of steps and total cost, at most.
    raised : ndarray
        Messages for which a step was made costlier or was added.
    """

    level: Ints
    steps: int
    cost: int
    raised: Ints


class SortedMessages:
    """All messages of a graph, longest first, to be put into levels one by one.

    A level is a group of steps of one cost, open to messages of that length or less. The wanted number of steps of each level
    is raised if necessary. No process may have more messages in a level than the level has steps; then each level can be
    coloured on its own (Koenig; Desprez, Theorem 1). A step that is open to a message is open to every shorter one. Making
    room by moving messages between two levels is a search for an augmenting path. Nothing is folded, so this is for graphs
    with few equivalent processes: finite arrays.

    Parameters
    ----------
    graph : MessageGraph
        The messages.

    Attributes
    ----------
    sender, receiver, length : ndarray
        Sender, receiver and length of each message.
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
        preferred: Ints | None = None,
        seed: int | None = None,
        *,
        firm: bool = False,
        tries: int = TRIES,
    ) -> Attempt:
        """Put all messages into levels, with the wanted steps or with more or costlier ones.

        Parameters
        ----------
        targets : Targets
            The wanted steps.
        deadline : float
            When to stop making room, on the clock of `time.monotonic`; messages left then are put by first fit.
        preferred : ndarray, optional
            Preferred level of each message.
        seed : int, optional
            Seed of a random order of the messages of each length; by default they are ordered by senders.
        firm : bool
            Whether to stop at the first message without room: it alone is in `raised`, and it and later ones have level -1.
        tries : int
            Pairs of levels tried to make room for a message. A few pairs succeed almost as often as many, and faster.
        """
        count = len(self.length)
        if not count:
            return Attempt(np.zeros(0, np.int64), 0, 0, np.zeros(0, np.int64))
        preferred = np.zeros(count, np.int64) if preferred is None else np.asarray(preferred, np.int64)
        sender, receiver, length, steps = self.sender, self.receiver, self.length, targets.steps.copy()
        order = np.arange(count)
        if seed is not None:
            order = np.random.default_rng(seed).permutation(count)
            order = order[np.argsort(-length[order], kind="stable")]
            sender, receiver, preferred = sender[order], receiver[order], preferred[order]
        # A preferred level that is not open to the message gives way to the cheapest open level.
        preferred = np.minimum(preferred, np.searchsorted(-targets.costs, -length, side="right") - 1)
        raised = np.zeros(count, np.uint8)
        costs = np.ascontiguousarray(targets.costs)
        level = np.empty(count, np.int64)
        level[order] = nested_levels(
            sender, receiver, length, self.shape[0], self.shape[1], preferred, costs, steps, tries, deadline, raised, firm
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
        preferred: Ints | None = None,
        seed: int | None = None,
    ) -> Attempt:
        """The cheapest of several attempts with at most `most_steps` steps.

        Parameters as for `attempt`. The maximum degree of the graph is always enough: if all steps cost the same, there is room
        for every message (Koenig). If an attempt has too many steps, its cheapest steps are merged into fewer of equal cost;
        then further attempts have fewer and fewer different costs.
        """
        fewest = self.attempt(targets, deadline, preferred, seed)
        if most_steps is None or fewest.steps <= most_steps:
            return fewest
        best, number, least_divisor = self._squeeze(fewest, targets.costs, most_steps), int(targets.steps.sum()), 0
        for divisor in EQUAL_COST_DIVISORS:
            if time.monotonic() > deadline:
                break
            if divisor < least_divisor:
                continue
            least = max(1, number // divisor)
            for fewer in (targets.coarser(least), targets.merged(least)):
                attempt = self.attempt(fewer, deadline, self.cheapest(fewer) if preferred is None else preferred, seed)
                fewest = min(fewest, attempt, key=lambda attempt: attempt.steps)
                least_divisor = divisor if attempt.steps <= most_steps else least_divisor
                best = min(best, self._squeeze(attempt, fewer.costs, most_steps), key=lambda attempt: attempt.cost)
        return best

    def _squeeze(self, attempt: Attempt, costs: Ints, most_steps: int) -> Attempt:
        """Merge the last levels of an attempt, as few of them as are needed for at most `most_steps` steps."""
        levels = len(costs)
        later = np.zeros(levels, dtype=np.int64)  # the most messages that a process has in a level or a later one
        for degrees in self._degrees(attempt.level, levels):
            np.maximum(later, np.cumsum(degrees[:, ::-1], axis=1)[:, ::-1].max(axis=0), out=later)
        steps = self.steps_of(attempt.level, levels)
        fits = np.flatnonzero(np.cumsum(steps) - steps + later <= most_steps)
        last = int(fits[-1]) if len(fits) else 0
        level = np.minimum(attempt.level, last)
        steps = self.steps_of(level, levels)
        return Attempt(level, int(steps.sum()), int(steps @ costs), attempt.raised)

    def cheapest(self, targets: Targets) -> Ints:
        """For each message the cheapest open level with steps, to be preferred."""
        with_steps = np.flatnonzero(targets.steps)
        position = np.searchsorted(-targets.costs[with_steps], -self.length, side="right") - 1
        preferred: Ints = with_steps[np.maximum(position, 0)] if len(with_steps) else np.zeros(len(self.length), np.int64)
        return preferred

    def list_steps(self, attempt: Attempt) -> list[Ints]:
        """The steps, each with rows sender, receiver, length."""
        steps: list[Ints] = []
        for messages in _runs(attempt.level):
            colour = edge_colours(self.sender[messages], self.receiver[messages])
            steps += [
                np.column_stack([self.sender[step], self.receiver[step], self.length[step]])
                for step in (messages[run] for run in _runs(colour))
            ]
        return steps

    def steps_of(self, level: Ints, levels: int) -> Ints:
        """The most messages that a process has in each level."""
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
    """Positions of each key, keys ascending."""
    order = np.argsort(key, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(key) else []
