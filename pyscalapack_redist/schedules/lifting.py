"""From how many messages of each type go into each part of a schedule to its steps.

A part is a number of steps. Where each group of processes has at most (number of copies) x (steps) messages in each part, the
messages can be shared out so that no process has more than (steps) of them: the copies are split off by colouring edges
between types and parts, and so on by the theorem on amalgamations (Hilton, 1984; the tool is Koenig's). What is then in a
part is coloured with as many steps as its maximum degree (Koenig; Desprez, Theorem 1).
"""

from __future__ import annotations

import numpy as np

from .._kernels.colouring import colour_edges, occurrences
from .amalgam import Amalgam
from .checks import checked_messages
from .message_graph import Ints

__all__ = ["coloured", "lifted"]

DENSE = 64  # a table of so many numbers for each edge is quicker than sorting


def lifted(graph: Amalgam, parts: Ints) -> list[Ints]:
    """Steps of a schedule, part by part, the costliest first within each. Not collective.

    Parameters
    ----------
    graph : Amalgam
        The folded graph.
    parts : ndarray
        For each type (row) and part (column), the number of edges; rows sum to `graph.count`.

    Raises
    ------
    ScheduleError
        There are more than 10^8 messages.
    """
    checked_messages(int(graph.count.sum()) * graph.turns)
    kind, part = _each(parts)
    sender = _shared(graph.sender_group[kind], kind, part, graph.sender_sizes)
    receiver = _shared(graph.receiver_group[kind], sender * graph.types + kind, part, graph.receiver_sizes)
    parallel = _rank((sender * len(graph.receivers) + receiver) * graph.types + kind)
    steps: list[Ints] = []
    order = _ordered(part)
    ends = np.searchsorted(part[order], np.arange(parts.shape[1]), side="right")
    for here in np.split(order, ends[:-1]):
        colour = coloured(sender[here], receiver[here])
        by_colour = _ordered(colour)
        here, colour = here[by_colour], colour[by_colour]
        messages = graph.unfolded(sender[here], receiver[here], kind[here], parallel[here])
        found = np.split(messages, graph.turns * np.flatnonzero(np.diff(colour)) + graph.turns) if len(here) else []
        steps += sorted(found, key=lambda step: -int(step[:, 2].max()))
    return steps


def coloured(left: Ints, right: Ints, colours: int | None = None) -> Ints:
    """Colours of edges, as few as the maximum degree or as given. Not collective."""
    if not len(left):
        return np.zeros(0, dtype=np.int64)
    left, lefts = _numbered(left)
    right, rights = _numbered(right)
    degree = max(int(np.bincount(left).max()), int(np.bincount(right).max()))
    return colour_edges(left, right, lefts, rights, max(degree, colours or 0))


def _each(parts: Ints) -> tuple[Ints, Ints]:
    """Type and part of every edge."""
    kind, part = np.nonzero(parts)
    times = parts[kind, part]
    return np.repeat(kind, times), np.repeat(part, times)


def _shared(group: Ints, vertex: Ints, part: Ints, sizes: Ints) -> Ints:
    """Which copy of its group each edge belongs to, evenly over `vertex` and, within the group, over the parts."""
    first = np.cumsum(sizes) - sizes
    copy = np.zeros(len(group), dtype=np.int64)
    size = sizes[group]
    for copies in np.unique(sizes):
        if copies == 1:
            continue
        here = np.flatnonzero(size == copies)
        # Vertices of at most `copies` edges each: a colour, which is a copy, meets each of them once.
        left = _cut(vertex[here], int(copies))
        right = _cut(group[here] * (int(part.max(initial=0)) + 1) + part[here], int(copies))
        copy[here] = coloured(left, right, int(copies))
    return first[group] + copy


def _cut(vertex: Ints, most: int) -> Ints:
    """Vertices cut into ones of at most `most` edges, numbered anew."""
    vertex, vertices = _numbered(vertex)
    pieces = -(-np.bincount(vertex, minlength=vertices) // most)
    first = np.cumsum(pieces) - pieces
    answer: Ints = first[vertex] + occurrences(vertex, vertices) // most
    return answer


def _rank(key: Ints) -> Ints:
    """How many equal keys come before each."""
    return occurrences(*_numbered(key))


def _numbered(vertex: Ints) -> tuple[Ints, int]:
    """Vertices numbered from 0 without gaps, and how many they are."""
    if len(vertex) and int(vertex.max()) < DENSE * len(vertex):
        used = np.bincount(vertex) > 0
        return (np.cumsum(used) - 1)[vertex], int(np.count_nonzero(used))
    names, numbers = np.unique(vertex, return_inverse=True)
    return np.ascontiguousarray(numbers.reshape(-1), dtype=np.int64), len(names)


def _ordered(key: Ints) -> Ints:
    """A stable sort of small numbers."""
    return np.argsort(key.astype(np.uint16) if len(key) and int(key.max()) < 2**16 else key, kind="stable")
