"""Message graphs: P senders, Q receivers and the length of each message between them.

This is the bipartite graph of Desprez et al., section 4.4; edges have the messages' lengths. Schedules need nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._kernels.colouring import occurrences
from ..errors import ScheduleError
from .checks import checked_table

Ints = NDArray[np.int64]


class MessageGraph(ABC):
    """Messages from P senders to Q receivers.

    Attributes
    ----------
    P, Q : int
        Number of processes that send and that receive.
    """

    P: int
    Q: int

    @abstractmethod
    def rows(self, senders: Ints) -> Ints:
        """Lengths of the messages of some senders to every receiver, one row for each. Not collective."""

    @abstractmethod
    def columns(self, receivers: Ints) -> Ints:
        """Lengths of the messages from every sender to some receivers, one column for each. Not collective."""

    def distinct_senders(self) -> Ints:
        """Senders that represent all: every row of lengths is, in some order, the row of one of them. Not collective."""
        return np.arange(self.P)

    def distinct_receivers(self) -> Ints:
        """Receivers that represent all: every column of lengths is, in some order, that of one of them. Not collective."""
        return np.arange(self.Q)

    def first_elements(self, senders: Ints) -> Ints:
        """Sort keys of the messages of some senders in natural order; the largest int64 for none. Not collective."""
        return np.where(self.rows(senders) > 0, np.arange(self.Q), np.iinfo(np.int64).max)

    @cached_property
    def lengths(self) -> Ints:
        """Length of the message from each sender (row) to each receiver (column).

        Raises
        ------
        ScheduleError
            The table would have more than 10^8 entries.
        """
        checked_table(self.P, self.Q)
        table = self._all_lengths()
        table.flags.writeable = False
        return table

    def _all_lengths(self) -> Ints:
        return self.rows(np.arange(self.P))

    @cached_property
    def messages(self) -> tuple[Ints, Ints, Ints]:
        """Senders, receivers and lengths of all messages, row by row."""
        p, q = np.nonzero(self.lengths)
        return p, q, self.lengths[p, q]

    @property
    def pairs(self) -> int:
        """Number of messages."""
        return len(self.messages[0])

    @property
    def degrees(self) -> tuple[int, int]:
        """Most messages that a process sends, and that one receives."""
        sent, received = (int(np.bincount(side).max(initial=0)) for side in self.messages[:2])
        return sent, received

    def shares(self, senders: Ints, receivers: Ints) -> NDArray[np.bool_]:
        """Which of these pairs of processes have a message. Not collective."""
        return self.lengths[senders, receivers] > 0

    def sent_by(self, p: int) -> tuple[Ints, Ints]:
        """Receivers of the messages of sender `p`, ascending, and their lengths. Not collective."""
        row = self.rows(np.array([self._process("p", p, self.P)]))[0]
        peers = np.flatnonzero(row)
        return peers, row[peers]

    def received_by(self, q: int) -> tuple[Ints, Ints]:
        """Senders of the messages to receiver `q`, ascending, and their lengths. Not collective."""
        column = self.columns(np.array([self._process("q", q, self.Q)]))[:, 0]
        peers = np.flatnonzero(column)
        return peers, column[peers]

    def length(self, p: int, q: int) -> int:
        """Length of the message from `p` to `q`. Not collective."""
        self._process("q", q, self.Q)
        return int(self.rows(np.array([self._process("p", p, self.P)]))[0, q])

    @cached_property
    def profile(self) -> Ints:
        """For k = 1, 2, ...: the k-th longest message of a process, maximum over processes.

        The number of entries of at least t is the maximum degree among messages of length t or more.
        """
        senders, receivers = self.distinct_senders(), self.distinct_receivers()
        if len(senders) == self.P and len(receivers) == self.Q:
            sides = [self.lengths, self.lengths.T]
        else:
            checked_table(len(senders), self.Q)
            checked_table(self.P, len(receivers))
            sides = [self.rows(senders), self.columns(receivers).T]
        longest = [np.sort(side, axis=1)[:, ::-1].max(axis=0, initial=0) for side in sides]
        profile = np.zeros(max(self.P, self.Q), dtype=np.int64)
        for lengths in longest:
            np.maximum(profile[: len(lengths)], lengths, out=profile[: len(lengths)])
        return profile[profile > 0]

    @cached_property
    def step_bound(self) -> int:
        """Lower bound of the steps of a one-port schedule: the maximum degree (Lemma 5)."""
        return len(self.profile)

    @cached_property
    def cost_bound(self) -> int:
        """Lower bound of the total cost of a one-port schedule of whole messages.

        The sum over t >= 1 of the maximum degree among messages of length t or more: a step with such a message costs at least
        t. The bound is at least the sum of every row and every column.
        """
        return int(self.profile.sum())

    @cached_property
    def volume_bound(self) -> int:
        """The most that one process sends or receives: a lower bound if messages may be split."""
        sides = self.rows(self.distinct_senders()).sum(axis=1), self.columns(self.distinct_receivers()).sum(axis=0)
        return max(int(side.max(initial=0)) for side in sides)

    @staticmethod
    def _process(name: str, value: int, processes: int) -> int:
        if not 0 <= value < processes:
            raise IndexError(f"{name} = {value} is outside 0 <= {name} < {processes}")
        return value


class LengthMatrix(MessageGraph):
    """A graph of any message lengths. Not collective.

    Parameters
    ----------
    lengths : array_like
        P x Q integers, 0 where there is no message.

    Raises
    ------
    ScheduleError
        `lengths` is not a matrix of integers of at least 0, or their sum is 2**62 or more.
    """

    def __init__(self, lengths: ArrayLike) -> None:
        table: NDArray[Any] = np.asarray(lengths)
        if table.ndim != 2 or 0 in table.shape or table.dtype.kind not in "iub":
            raise ScheduleError(
                f"lengths has shape {table.shape} and dtype {table.dtype}; it must be a matrix of integers, a row for each "
                "sender and a column for each receiver"
            )
        table = table.astype(np.int64)
        if table.min() < 0:
            p, q = (int(index) for index in np.unravel_index(table.argmin(), table.shape))
            raise ScheduleError(f"lengths[{p}, {q}] = {table[p, q]} must be at least 0")
        if table.sum(dtype=float) >= 2.0**62:
            raise ScheduleError(
                f"lengths sum to {table.sum(dtype=float):.3g} elements; the sum must be below 2**62: use a larger unit"
            )
        table.flags.writeable = False
        self.P, self.Q = table.shape
        self._table: Ints = table

    def rows(self, senders: Ints) -> Ints:
        """Rows of the table. Not collective."""
        return self._table[senders]

    def columns(self, receivers: Ints) -> Ints:
        """Columns of the table. Not collective."""
        return self._table[:, receivers]


class WholeGraph(MessageGraph):
    """Messages between process grids of several dimensions: products of the axes' lengths. Not collective.

    Processes are numbered row by row. `whole` makes these graphs.
    """

    def __init__(self, axes: tuple[MessageGraph, ...], own: Ints | None) -> None:
        self.axes = axes
        self.P, self.Q = (int(np.prod([getattr(axis, side) for axis in axes])) for side in "PQ")
        self.own = own

    @cached_property
    def messages(self) -> tuple[Ints, Ints, Ints]:
        """Products of the axes' messages, row by row, without those of a process to itself."""
        senders = receivers = np.zeros(1, np.int64)
        lengths = np.ones(1, np.int64)
        for axis in self.axes:
            p, q, axis_lengths = axis.messages
            senders, receivers = (senders[:, None] * axis.P + p).ravel(), (receivers[:, None] * axis.Q + q).ravel()
            lengths = (lengths[:, None] * axis_lengths).ravel()
        if self.own is not None:
            moves = self.own[senders] != receivers
            senders, receivers, lengths = senders[moves], receivers[moves], lengths[moves]
        order = np.argsort(senders * self.Q + receivers, kind="stable")
        return senders[order], receivers[order], lengths[order]

    def _all_lengths(self) -> Ints:
        """A table filled from `messages`, which may be few."""
        table = np.zeros((self.P, self.Q), np.int64)
        senders, receivers, lengths = self.messages
        table[senders, receivers] = lengths
        return table

    @cached_property
    def profile(self) -> Ints:
        """As `MessageGraph.profile`, from the list of messages."""
        senders, receivers, lengths = self.messages
        longest = np.argsort(-lengths, kind="stable")
        profile = np.zeros(max(self.degrees), np.int64)
        for side, processes in ((senders, self.P), (receivers, self.Q)):
            position = occurrences(np.ascontiguousarray(side[longest]), processes)
            np.maximum.at(profile, position, lengths[longest])
        return profile

    def rows(self, senders: Ints) -> Ints:
        """Products of the axes' rows. Not collective."""
        coords = np.unravel_index(senders, [axis.P for axis in self.axes])
        parts = [axis.rows(p) for axis, p in zip(self.axes, coords, strict=True)]
        table: Ints = reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(a), -1), parts)
        if self.own is not None:
            own = self.own[senders]
            table[np.flatnonzero(own >= 0), own[own >= 0]] = 0
        return table

    def columns(self, receivers: Ints) -> Ints:
        """Products of the axes' columns. Not collective."""
        coords = np.unravel_index(receivers, [axis.Q for axis in self.axes])
        parts = [axis.columns(q).T for axis, q in zip(self.axes, coords, strict=True)]
        table: Ints = reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(a), -1), parts).T
        if self.own is not None:
            p, q = np.nonzero((self.own[:, None] == receivers) & (self.own >= 0)[:, None])
            table[p, q] = 0
        return table


def whole(grids: list[MessageGraph] | tuple[MessageGraph, ...], same: ArrayLike | None = None) -> WholeGraph:
    """All messages between two process grids of several dimensions, as one graph. Not collective.

    Parameters
    ----------
    grids : sequence of MessageGraph
        One for each dimension.
    same : array_like, optional
        Pairs that are the same process; its message to itself is a copy and has length 0 here. A P x Q boolean mask, or for
        each sender the number of the receiver that is the same process, -1 for none.

    Raises
    ------
    ScheduleError
        `same` has another shape, or pairs a process with two.
    """
    if not grids:
        raise ScheduleError("grids is empty: give one communication grid for each dimension")
    graph = WholeGraph(tuple(grids), None)
    if same is not None:
        graph.own = own_receivers(same, graph.P, graph.Q)
    return graph


def own_receivers(same: ArrayLike, P: int, Q: int) -> Ints:
    """For each sender the receiver that is the same process, -1 for none; `same` is a mask or such a list."""
    pairs = np.asarray(same)
    if pairs.dtype == np.bool_ and pairs.shape == (P, Q):
        if max(pairs.sum(axis=0).max(), pairs.sum(axis=1).max()) > 1:
            raise ScheduleError(
                "same has a row or a column with two true entries: a process is one sender and one receiver"
            )
        return np.where(pairs.any(axis=1), pairs.argmax(axis=1), -1).astype(np.int64)
    if pairs.dtype.kind in "iu" and pairs.shape == (P,) and pairs.min() >= -1 and pairs.max() < Q:
        if len(set(pairs[pairs >= 0])) < np.count_nonzero(pairs >= 0):
            raise ScheduleError("same names a receiver twice: a process is one sender and one receiver")
        return pairs.astype(np.int64)
    raise ScheduleError(
        f"same has shape {pairs.shape} and dtype {pairs.dtype}; it must be a boolean mask of shape {(P, Q)}, or {P} receiver "
        f"numbers of -1 to {Q - 1}"
    )
