"""Stepwise: the fewest steps, each a maximum-weight matching that saturates the processes of maximum degree.

Desprez et al., Theorem 1 and section 4.5. From blocks of r to blocks of K r it has the least cost too (Proposition 6).
"""

from __future__ import annotations

import time

import numpy as np

from .amalgam import Amalgam, amalgamated, slices
from .checks import LARGEST_TABLE, checked_seconds
from .communication_grid import CommunicationGrid
from .lifting import lifted
from .matching import HeaviestStep
from .message_graph import Ints, MessageGraph
from .nested import Messages, Targets
from .schedule import ListedSchedule, Schedule

__all__ = ["in_levels", "stepwise", "stepwise_parts"]

MOST_WORK = 10**7  # pairs of processes times steps for which matchings are sought: some tenths of a second
LISTING = 4e-7  # seconds for each message of the steps


def stepwise(grid: MessageGraph, time_limit: float = 1.0) -> Schedule:
    """As many steps as the maximum degree, each as heavy as that allows (Desprez, Theorem 1). Not collective.

    A graph that does not fold and is so large that its matchings would take more than about a second is put into levels
    message by message instead (see `nested`): as few steps, which need not each be the heaviest. So is one whose matchings
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
    messages = Messages(grid)
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
