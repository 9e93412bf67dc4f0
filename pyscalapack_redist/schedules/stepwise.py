"""Stepwise: the fewest steps, each a maximum-weight matching that saturates the processes of maximum degree.

Desprez et al., Theorem 1 and section 4.5. From blocks of r to blocks of K r it has the least cost too (Proposition 6).
"""

from __future__ import annotations

import time

import numpy as np

from .amalgam import Amalgam, amalgamated, slices
from .communication_grid import CommunicationGrid
from .lifting import lifted
from .matching import HeaviestStep
from .message_graph import Ints, MessageGraph
from .nested import Messages, Targets
from .schedule import ListedSchedule, Schedule

__all__ = ["stepwise", "stepwise_parts"]

MOST_WORK = 10**7  # pairs of processes times steps for which matchings are sought: some tenths of a second
SECONDS = 0.5  # for levels


def stepwise(grid: MessageGraph) -> Schedule:
    """As many steps as the maximum degree, each as heavy as that allows (Desprez, Theorem 1). Not collective.

    A graph that does not fold and is so large that its matchings would take more than about a second is put into levels
    message by message instead (see `nested`): as few steps, which need not each be the heaviest.

    Raises
    ------
    ScheduleError
        There are more than 10^8 messages.
    """
    folds = isinstance(grid, CommunicationGrid) and slices(grid)
    if not folds and grid.P * grid.Q * grid.step_bound > MOST_WORK:
        return ListedSchedule("stepwise", grid, _by_levels(grid))
    graph = amalgamated(grid)
    return ListedSchedule("stepwise", grid, lifted(graph, stepwise_parts(graph)))


def _by_levels(grid: MessageGraph) -> list[Ints]:
    messages = Messages(grid.lengths)
    costs = np.unique(messages.length)[::-1]
    steps = np.array([np.count_nonzero(grid.profile == cost) for cost in costs], dtype=np.int64)
    found = messages.within(grid.step_bound, Targets(costs, steps), time.monotonic() + SECONDS)
    return messages.listed(found)


def stepwise_parts(graph: Amalgam) -> Ints:
    """Counts of each type (row) in runs of equal steps (column). Not collective."""
    heaviest = HeaviestStep(graph)
    sizes = np.concatenate([graph.sender_sizes, graph.receiver_sizes])
    remaining = graph.count.copy()
    degrees = heaviest.taking_part(remaining)
    left = int((-(-degrees // sizes)).max(initial=0))
    parts = []
    while left:
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
