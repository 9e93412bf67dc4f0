"""Greedy: a maximum-weight matching in each step (Desprez, section 4.5). More steps than stepwise, often less cost."""

from __future__ import annotations

import numpy as np

from .amalgam import Amalgam, amalgamated
from .lifting import lifted
from .matching import HeaviestStep
from .message_graph import Ints, MessageGraph
from .schedule import ListedSchedule, Schedule

__all__ = ["greedy", "greedy_parts"]


def greedy(grid: MessageGraph) -> Schedule:
    """Each step has the maximum weight of what is left (Desprez, section 4.5). Not collective.

    What it costs depends on how ties are broken; here equal weights go to the step with more messages.

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
