"""Who owes whom how much along one dimension, whatever its blocks are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..errors import ScheduleError
from ..intersections.irregular import Families, families_of
from ..layout.blockcyclic import Axis, BlockCyclic
from .communication_grid import CommunicationGrid
from .message_graph import Ints, MessageGraph

__all__ = ["IrregularGraph", "between"]


def between(a: Axis, b: Axis) -> CommunicationGrid | IrregularGraph:
    """The messages between two distributions of one finite array. Not collective.

    Parameters
    ----------
    a, b : BlockCyclic, or the distribution of a dimension of irregular blocks
        Before and after; senders and receivers are numbered by their coordinates.

    Returns
    -------
    MessageGraph
        A CommunicationGrid where both are block-cyclic.

    Raises
    ------
    ScheduleError
        The two have different numbers of elements.
    """
    if isinstance(a, BlockCyclic) and isinstance(b, BlockCyclic):
        return CommunicationGrid.between(a, b)
    if a.n != b.n:
        raise ScheduleError(f"a.n = {a.n} and b.n = {b.n} must be equal: they distribute the same elements")
    return IrregularGraph(a, b)


class IrregularGraph(MessageGraph):
    """Messages between two axes of which one has irregular blocks. Not collective.

    Nothing repeats, so there are no slices and no classes; what one process sends or receives is found without the others.
    """

    def __init__(self, a: Axis, b: Axis) -> None:
        self.a, self.b = a, b
        self.n, self.P, self.Q = a.n, a.processes, b.processes

    def rows(self, senders: Ints) -> Ints:
        """Lengths of the messages of some senders to every receiver. Not collective."""
        return _table((_lengths(families_of(self.a, self.b, p)) for p in np.asarray(senders).tolist()), self.Q)

    def columns(self, receivers: Ints) -> Ints:
        """Lengths of the messages from every sender to some receivers. Not collective."""
        return _table((_lengths(families_of(self.b, self.a, q)) for q in np.asarray(receivers).tolist()), self.P).T

    def sent_by(self, p: int) -> tuple[Ints, Ints]:
        """Receivers of the messages of sender `p`, ascending, and their lengths. Not collective."""
        return _lengths(families_of(self.a, self.b, p))

    def received_by(self, q: int) -> tuple[Ints, Ints]:
        """Senders of the messages to receiver `q`, ascending, and their lengths. Not collective."""
        return _lengths(families_of(self.b, self.a, q))

    def first_elements(self, senders: Ints) -> Ints:
        """Index of the first element of each message of some senders; the largest int64 where none. Not collective."""
        most = np.iinfo(np.int64).max
        return _table((_first(families_of(self.a, self.b, p)) for p in np.asarray(senders).tolist()), self.Q, most)


def _table(rows: Iterable[tuple[Ints, Ints]], columns: int, nothing: int = 0) -> Ints:
    """One row for each list of columns and values."""
    made = []
    for places, values in rows:
        row = np.full(columns, nothing, np.int64)
        row[places] = values
        made.append(row)
    return np.array(made, np.int64).reshape(-1, columns)


def _lengths(found: Families) -> tuple[Ints, Ints]:
    """Processes and how many elements they share."""
    starts = _starts(found)
    lengths = found.length * found.runs
    return found.remote[starts], np.add.reduceat(lengths, starts) if len(starts) else lengths


def _first(found: Families) -> tuple[Ints, Ints]:
    """Processes and the first element they share."""
    starts = _starts(found)
    return found.remote[starts], found.first[starts]


def _starts(found: Families) -> Ints:
    """Where another process begins."""
    return np.flatnonzero(np.diff(found.remote, prepend=-1))
