"""Schedules by matchings: stepwise, greedy, and messages put into levels one by one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._kernels.nested import nested_levels
from .checks import LARGEST_TABLE, checked_seconds
from .communication_grid import CommunicationGrid
from .folding import Amalgam, amalgamated, coloured, lifted, slices
from .message_graph import Ints, MessageGraph
from .schedule import ListedSchedule, Schedule


class HeaviestStep:
    """Finds steps of maximum weight (Desprez, section 4.5); among these, ones of many messages. Not collective.

    A step of a folded graph is a count of messages of each type. The polytope of matchings of a bipartite graph is integral
    (Eq 7 of the paper), and so is that of counts within the groups' sizes. Where every group has one process it is an
    assignment problem.

    Parameters
    ----------
    graph : Amalgam
        The folded graph.
    """

    def __init__(self, graph: Amalgam) -> None:
        self.graph = graph
        self._sizes = np.concatenate([graph.sender_sizes, graph.receiver_sizes])
        self._ends = np.stack([graph.sender_group, graph.receiver_group + len(graph.sender_sizes)])
        self._most = min(len(graph.senders), len(graph.receivers))
        self._weight = graph.length * (self._most + 1) + 1
        self._single = bool((self._sizes == 1).all())

    def find(self, remaining: Ints, least: Ints) -> Ints:
        """Number of messages of each type in a step of maximum weight. Not collective.

        Parameters
        ----------
        remaining : ndarray
            Messages of each type that are left.
        least : ndarray
            How many processes of each group, senders' groups first, must take part.
        """
        return self._assigned(remaining, least) if self._single else self._programmed(remaining, least)

    def taking_part(self, step: Ints) -> Ints:
        """How many processes of each group take part in a step; senders' groups first. Not collective."""
        both = np.concatenate([step, step])
        return np.bincount(self._ends.reshape(-1), weights=both, minlength=len(self._sizes)).astype(np.int64)

    def _assigned(self, remaining: Ints, least: Ints) -> Ints:
        from scipy.optimize import linear_sum_assignment

        kinds = np.flatnonzero(remaining)
        kinds = kinds[np.argsort(self._weight[kinds], kind="stable")]
        shape = len(self.graph.sender_sizes), len(self.graph.receiver_sizes)
        best = np.full(shape, -1, dtype=np.int64)
        best[self.graph.sender_group[kinds], self.graph.receiver_group[kinds]] = kinds
        must = least > 0
        # More than the weight of a whole step for each process that must take part.
        bonus = float(self._weight.max(initial=1)) * self._most + 1
        weight = np.where(best >= 0, self._weight[best], 0) + bonus * np.where(
            best >= 0, must[: shape[0], None].astype(float) + must[None, shape[0] :], 0
        )
        i, j = linear_sum_assignment(weight, maximize=True)
        step = np.zeros(self.graph.types, dtype=np.int64)
        chosen = best[i, j]
        step[chosen[chosen >= 0]] = 1
        return step

    def _programmed(self, remaining: Ints, least: Ints) -> Ints:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        kinds = np.flatnonzero(remaining)
        ends = self._ends[:, kinds]
        places = (ends.reshape(-1), np.tile(np.arange(len(kinds)), 2))
        matrix = csr_array((np.ones(2 * len(kinds)), places), shape=(len(self._sizes), len(kinds)))
        for integral in (0, 1):
            found = milp(
                -self._weight[kinds].astype(float),
                constraints=LinearConstraint(matrix, np.maximum(least, 0), self._sizes),
                bounds=Bounds(0, remaining[kinds]),
                integrality=np.full(len(kinds), integral),
            )
            step = np.zeros(self.graph.types, dtype=np.int64)
            step[kinds] = np.rint(found.x)
            if np.abs(found.x - step[kinds]).max() < 1e-6:
                break
        return step


MOST_WORK = 10**7  # pairs of processes times steps for which matchings are sought: some tenths of a second
LISTING = 4e-7  # seconds for each message of the steps


def stepwise(grid: MessageGraph, time_limit: float = 1.0) -> Schedule:
    """As many steps as the maximum degree, each as heavy as that allows (Desprez, Theorem 1). Not collective.

    This is the fewest steps. Each is a maximum-weight matching that saturates the processes of maximum degree (section 4.5).
    From blocks of r to blocks of K r it has the least cost too (Proposition 6).

    A graph that does not fold and is so large that its matchings would take more than about a second is put into levels
    message by message instead (see `in_levels`): as few steps, which need not each be the heaviest. So is one whose matchings
    do take longer than the limit.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    time_limit : float
        Seconds. There always is a schedule; with more time it may cost less.

    Raises
    ------
    ScheduleError
        An option is not one of these, or there are more than 10^8 messages.
    """
    seconds = checked_seconds(time_limit)
    deadline = time.monotonic() + seconds
    folds = isinstance(grid, CommunicationGrid) and slices(grid)
    if folds or grid.P * grid.Q * grid.step_bound <= MOST_WORK:
        graph = amalgamated(grid)
        lists = grid.P * grid.Q <= LARGEST_TABLE
        parts = stepwise_parts(graph, deadline if lists else np.inf)
        if parts is not None:
            return ListedSchedule("stepwise", grid, lifted(graph, parts))
    return in_levels(grid, deadline)


def in_levels(grid: MessageGraph, deadline: float) -> Schedule:
    """As many steps as the maximum degree, message by message. Not collective.

    Parameters
    ----------
    grid : MessageGraph
        What is scheduled.
    deadline : float
        When to stop looking for a lower cost, on the clock of `time.monotonic`.
    """
    messages = SortedMessages(grid)
    costs = np.unique(messages.length)[::-1]
    steps = np.array([np.count_nonzero(grid.profile == cost) for cost in costs], dtype=np.int64)
    found = messages.within(grid.step_bound, Targets(costs, steps), deadline - LISTING * len(messages.length))
    return ListedSchedule("stepwise", grid, messages.listed(found))


def stepwise_parts(graph: Amalgam, deadline: float = np.inf) -> Ints | None:
    """Counts of each type (row) in runs of equal steps (column); None if time is up before. Not collective."""
    heaviest = HeaviestStep(graph)
    sizes = np.concatenate([graph.sender_sizes, graph.receiver_sizes])
    remaining = graph.count.copy()
    degrees = heaviest.taking_part(remaining)
    left = int((-(-degrees // sizes)).max(initial=0))
    parts = []
    while left:
        if time.monotonic() > deadline:
            return None
        # So many of a group must take part that the others can send all they have in the steps that are then left.
        step = heaviest.find(remaining, degrees - (left - 1) * sizes)
        times = _times(step, remaining, heaviest.taking_part(step), degrees - (left - 1) * sizes, sizes)
        times = min(times, left)
        parts.append(times * step)
        remaining = remaining - times * step
        degrees = heaviest.taking_part(remaining)
        left -= times
    return np.array(parts, dtype=np.int64).reshape(len(parts), graph.types).T


def _times(step: Ints, remaining: Ints, part: Ints, least: Ints, sizes: Ints) -> int:
    """How often a step can be repeated and still be one of maximum weight: what is left only shrinks."""
    used = step > 0
    often = int((remaining[used] // step[used]).min())
    absent = sizes > part
    if absent.any():
        often = min(often, int(((part - least)[absent] // (sizes - part)[absent]).min()) + 1)
    return often


def greedy(grid: MessageGraph) -> Schedule:
    """Each step has the maximum weight of what is left (Desprez, section 4.5). Not collective.

    It has more steps than stepwise, and often less cost. What it costs depends on how ties are broken; here equal weights
    go to the step with more messages.

    Raises
    ------
    ScheduleError
        There are more than 10^8 messages.
    """
    graph = amalgamated(grid)
    return ListedSchedule("greedy", grid, lifted(graph, greedy_parts(graph)))


def greedy_parts(graph: Amalgam) -> Ints:
    """Counts of each type (row) in runs of equal steps (column). Not collective."""
    heaviest = HeaviestStep(graph)
    remaining = graph.count.copy()
    anybody = np.zeros(len(graph.sender_sizes) + len(graph.receiver_sizes), dtype=np.int64)
    parts = []
    while remaining.any():
        step = heaviest.find(remaining, anybody)
        used = step > 0
        # It stays a heaviest step for as long as it can be repeated: what is left only shrinks.
        times = int((remaining[used] // step[used]).min())
        parts.append(times * step)
        remaining = remaining - times * step
    return np.array(parts, dtype=np.int64).reshape(len(parts), graph.types).T


# Parts of the steps that are made to cost the same where there are too many, likely ones first.
ALIKE = (16, 64, 32, 8, 4, 2, 1)
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
        Of each message, in their order in `SortedMessages`.
    steps, cost : int
        Number of steps and total cost, at most.
    raised : ndarray
        Messages for which a step was made costlier, or added.
    """

    level: Ints
    steps: int
    cost: int
    raised: Ints


class SortedMessages:
    """All messages of a graph, longest first, to be put into levels one by one. Not collective.

    The number of steps of each cost is given, and raised where it must be. A level is a group of steps of one cost, open to
    messages of that length or less. No process may have more messages in a level than the level has steps; each level is
    then coloured on its own (Koenig; Desprez, Theorem 1). The lists of steps open to messages are nested: every step that
    is open to a message is open to each shorter one. A search for room between two levels is one for an augmenting path.
    Nothing is folded, so this is for graphs in which few processes are alike: finite arrays.

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
