"""The communication grid of one dimension: the length of the message from each process to each (Desprez, section 4.2).

A slice is lcm(P r, Q s) elements, after which the pattern repeats. The length of p -> q for one slice is the number of
pairs (i, j), 0 <= i < r, 0 <= j < s, with i - j = q s - p r + offset (mod gcd(P r, Q s)).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.lengths import add_lengths
from ..errors import ScheduleError
from ..layout.axis import BlockCyclic
from .checks import checked_table, integer, positive
from .message_graph import Ints, MessageGraph

LARGEST = 2**62
CHUNK = 2**22  # numbers of one temporary table


class MessageClass(NamedTuple):
    """A class of pairs (Definition 2): the pairs with p r - q s = number (mod g). Their messages have the same length.

    Attributes
    ----------
    number : int
        From 1 - r upwards, for r and s divided by their greatest common divisor. Numbers count modulo g.
    length : int
        Length of the messages for one slice: vol(number).
    pairs : ndarray
        Rows sender, receiver.
    """

    number: int
    length: int
    pairs: Ints


class CommunicationGrid(MessageGraph):
    """Messages along one dimension from P processes with blocks of r to Q processes with blocks of s. Not collective.

    Parameters
    ----------
    P, Q : int
        Processes that hold the array before and after.
    r, s : int
        Block sizes before and after.
    n : int, optional
        Elements of a finite array; without it, lengths are those of one slice.
    offset : int
        Position of the array's index 0 in the distribution before (a sub-array); any integer, modulo P r.
    receiver_offset : int
        Position of index 0 in the distribution after; any integer, modulo Q s.

    Raises
    ------
    ScheduleError
        A parameter is not an integer or out of range; the message names it.
    """

    def __init__(
        self, P: int, Q: int, r: int, s: int, n: int | None = None, offset: int = 0, receiver_offset: int = 0
    ) -> None:
        self.P = positive("P", P, "the number of processes that send")
        self.Q = positive("Q", Q, "the number of processes that receive")
        self.r = positive("r", r, "the number of elements in a block before")
        self.s = positive("s", s, "the number of elements in a block after")
        self.n = None if n is None else positive("n", n, "the number of elements, None for one slice", least=0)
        self.offset = integer("offset", offset, "where index 0 lies in the distribution before") % (self.P * self.r)
        self.receiver_offset = integer(
            "receiver_offset", receiver_offset, "where index 0 lies in the distribution after"
        ) % (self.Q * self.s)
        self.slice_length = math.lcm(self.P * self.r, self.Q * self.s)
        if max(self.slice_length, self.n or 0) > LARGEST:
            raise ScheduleError(
                f"P = {P}, Q = {Q}, r = {r}, s = {s}, n = {n}: a slice of lcm(P r, Q s) = {self.slice_length} elements, or the "
                "array, is longer than 2**62, the largest index of this package"
            )

    @classmethod
    def between(cls, a: BlockCyclic, b: BlockCyclic) -> CommunicationGrid:
        """The grid of two distributions of one finite array, sources and offsets included. Not collective.

        Senders and receivers are numbered by their coordinates.

        Raises
        ------
        ScheduleError
            The two have different numbers of elements.
        """
        if a.n != b.n:
            raise ScheduleError(f"a.n = {a.n} and b.n = {b.n} must be equal: they distribute the same elements")
        (r, offset), (s, receiver_offset) = ((axis.block, axis.offset + axis.source * axis.block) for axis in (a, b))
        if math.lcm(a.processes * r, b.processes * s) > LARGEST:
            (r, offset), (s, receiver_offset) = _within_array(a), _within_array(b)
        return cls(a.processes, b.processes, r, s, a.n, offset, receiver_offset)

    def __repr__(self) -> str:
        options = "".join(
            f", {name}={value}"
            for name, value in (("n", self.n), ("offset", self.offset), ("receiver_offset", self.receiver_offset))
            if value
        )
        return f"CommunicationGrid({self.P}, {self.Q}, {self.r}, {self.s}{options})"

    @property
    def g(self) -> int:
        """gcd(P r, Q s). The length of a message depends on (q s - p r) mod g."""
        return math.gcd(self.P * self.r, self.Q * self.s)

    @property
    def shift(self) -> int:
        """Position of index 0 before minus that after."""
        return self.offset - self.receiver_offset

    @cached_property
    def reduced(self) -> tuple[int, int, int]:
        """r and s divided by gcd(r, s) (Lemma 1), and gcd(P r, Q s) for these."""
        d = math.gcd(self.r, self.s)
        return self.r // d, self.s // d, self.g // d

    def vol(self, z: Any) -> Any:
        """Number of (i, j), 0 <= i < r, 0 <= j < s, with i - j = z (mod g); int or array (Proposition 2). Not collective."""
        g = self.g
        (whole_r, r), (whole_s, s) = divmod(self.r, g), divmod(self.s, g)
        z = z % g
        return whole_r * whole_s * g + whole_r * s + whole_s * r + _trapezium(z, r, s) + _trapezium(z - g, r, s)

    def length(self, p: int, q: int) -> int:
        """Length of the message from `p` to `q`; in closed form for one slice. Not collective."""
        self._process("p", p, self.P)
        self._process("q", q, self.Q)
        if self.n is not None:
            return int(self.rows(np.array([p]))[0, q])
        return int(self.vol(q * self.s - p * self.r + self.shift))

    def rows(self, senders: Ints) -> Ints:
        """Lengths of the messages of some senders to every receiver. Not collective."""
        if self.n is None:
            return self._slice(np.asarray(senders)[:, None], np.arange(self.Q)[None])
        a, b = self._axes(self.n)
        return np.array([_lengths(a, b, int(p)) for p in senders], dtype=np.int64).reshape(-1, self.Q)

    def columns(self, receivers: Ints) -> Ints:
        """Lengths of the messages from every sender to some receivers. Not collective."""
        if self.n is None:
            return self._slice(np.arange(self.P)[:, None], np.asarray(receivers)[None])
        a, b = self._axes(self.n)
        return np.array([_lengths(b, a, int(q)) for q in receivers], dtype=np.int64).reshape(-1, self.P).T

    @cached_property
    def lengths(self) -> Ints:
        """Length of the message from each sender (row) to each receiver (column).

        Lengths for whole slices have a closed form. The rest, or the missing part of the last slice, is at most half a slice:
        a loop walks over it from block edge to block edge.

        Raises
        ------
        ScheduleError
            The table would have more than 10^8 entries.
        """
        checked_table(self.P, self.Q)
        slices, rest = divmod(self.slice_length if self.n is None else self.n, self.slice_length)
        subtract = 2 * rest > self.slice_length
        table = np.zeros((self.P, self.Q), dtype=np.int64)
        if slices or subtract:
            table += self._slice(np.arange(self.P)[:, None], np.arange(self.Q)[None])
            table *= slices + subtract
        first, end, sign = (rest, self.slice_length, -1) if subtract else (0, rest, 1)
        if first < end:
            a, b = self._axes(end)
            a, b = (replace(axis, n=end - first, offset=(axis.offset + first) % axis.stride) for axis in (a, b))
            edges = (int(axis.block_edges(1)[1]) for axis in (a, b))
            left = [edge if edge < end - first else axis.block for edge, axis in zip(edges, (a, b), strict=True)]
            add_lengths(table, end - first, self.r, left[0], a.owner(0), self.s, left[1], b.owner(0), sign)
        table.flags.writeable = False
        return table

    def sent_by(self, p: int) -> tuple[Ints, Ints]:
        """Receivers of the messages of sender `p`, ascending, and their lengths. Not collective."""
        if self.n is None:
            return super().sent_by(p)
        return _shared(*self._axes(self.n), self._process("p", p, self.P))

    def received_by(self, q: int) -> tuple[Ints, Ints]:
        """Senders of the messages to receiver `q`, ascending, and their lengths. Not collective."""
        if self.n is None:
            return super().received_by(q)
        return _shared(*self._axes(self.n)[::-1], self._process("q", q, self.Q))

    def distinct_senders(self) -> Ints:
        """Senders below gcd(s, g): the others have the same lengths in another order. Not collective."""
        _, s, g = self.reduced
        return np.arange(self.P if self.n is not None else min(self.P, math.gcd(s, g)))

    def distinct_receivers(self) -> Ints:
        """Receivers below gcd(r, g): the others have the same lengths in another order. Not collective."""
        r, _, g = self.reduced
        return np.arange(self.Q if self.n is not None else min(self.Q, math.gcd(r, g)))

    @property
    def has_slice(self) -> bool:
        """Whether the array has at least one whole slice."""
        return self.n is None or self.n >= self.slice_length

    @property
    def pairs(self) -> int:
        """Number of messages; in closed form if the array has a slice."""
        return self._classes * (self.P * self.Q // self.reduced[2]) if self.has_slice else super().pairs

    @property
    def degrees(self) -> tuple[int, int]:
        """Most messages that a process sends, and that one receives; in closed form with a slice."""
        return self.most_messages if self.has_slice else super().degrees

    def shares(self, senders: Ints, receivers: Ints) -> NDArray[np.bool_]:
        """Which of these pairs of processes have a message. Not collective."""
        return self._slice(senders, receivers) > 0 if self.has_slice else super().shares(senders, receivers)

    @property
    def _classes(self) -> int:
        """Classes of pairs (Definition 2) that have messages of a slice."""
        g, d = self.reduced[2], math.gcd(self.r, self.s)
        return min(g, (self.r - 1 - self.shift) // d - (-self.s - self.shift) // d)

    @property
    def most_messages(self) -> tuple[int, int]:
        """Most messages of a slice that a process sends, and that one receives, in closed form.

        Let s0 = gcd(s, g) and r0 = gcd(r, g) for the reduced r, s and g. Each of the consecutive classes has Q s0 / g messages
        in every s0-th row, and P r0 / g messages in every r0-th column (Lemma 3). So some row has messages of ceil(classes /
        s0) classes, and some column of ceil(classes / r0) (Proposition 5).
        """
        r, s, g = self.reduced
        count = self._classes
        of_rows, of_columns = math.gcd(s, g), math.gcd(r, g)
        return -(-count // of_rows) * (self.Q * of_rows // g), -(-count // of_columns) * (self.P * of_columns // g)

    @property
    def classes(self) -> list[MessageClass]:
        """Pairs whose messages of a slice have the same length, class by class (Definition 2, Lemma 3).

        Classes without messages are left out; each class has P Q / g pairs. Lengths are those of a slice, also for a finite
        array.
        """
        checked_table(self.P, self.Q)
        r, s, g = self.reduced
        p, q = np.arange(self.P)[:, None], np.arange(self.Q)[None]
        number = (p * (r % g) - q * (s % g) - (1 - r)) % g
        order = np.argsort(number, axis=None, kind="stable").reshape(g, -1)
        classes = []
        for k, pairs_of_class in enumerate(order):
            pairs = np.stack(np.unravel_index(pairs_of_class, number.shape), axis=1)
            length = int(self.vol(int(pairs[0, 1]) * self.s - int(pairs[0, 0]) * self.r + self.shift))
            if length:
                classes.append(MessageClass(k + 1 - r, length, pairs))
        return classes

    def first_elements(self, senders: Ints) -> Ints:
        """Index of the first element of each message of some senders; the largest int64 for none. Not collective."""
        senders = np.asarray(senders)
        window = self.slice_length if self.n is None else min(self.n, self.slice_length)
        first = np.full((len(senders), self.Q), np.iinfo(np.int64).max)
        rounds = np.arange(-(-(window + self.offset) // (self.P * self.r)))
        next_blocks = np.arange(min(self.Q, -(-self.r // self.s)) + 1)
        chunk = max(1, CHUNK // (len(rounds) * len(next_blocks) + 1))
        for start in range(0, len(senders), chunk):
            part = senders[start : start + chunk]
            begin = (rounds * self.P + part[:, None]) * self.r - self.offset
            end, begin = np.minimum(begin + self.r, window), np.maximum(begin, 0)
            block = ((begin + self.receiver_offset) // self.s)[..., None] + next_blocks
            element = np.maximum(begin[..., None], block * self.s - self.receiver_offset)
            row = np.broadcast_to(np.arange(len(part))[:, None, None], element.shape)
            inside = element < end[..., None]
            np.minimum.at(first[start : start + chunk], (row[inside], block[inside] % self.Q), element[inside])
        return first

    def _slice(self, p: Ints, q: Ints) -> Ints:
        g = self.g
        lengths: Ints = self.vol(q * (self.s % g) % g - p * (self.r % g) % g + self.shift % g)
        return lengths

    def _axes(self, n: int) -> tuple[BlockCyclic, BlockCyclic]:
        return (
            BlockCyclic(n, self.r, self.P, offset=self.offset),
            BlockCyclic(n, self.s, self.Q, offset=self.receiver_offset),
        )


def _within_array(axis: BlockCyclic) -> tuple[int, int]:
    """Block size and offset of an equal distribution with blocks no longer than the array."""
    block = min(axis.block, max(axis.n, 1))
    number, before = divmod(axis.offset + axis.source * axis.block, axis.block)
    return block, (number + 1) * block - min(axis.block - before, block)


def _trapezium(z: Any, r: int, s: int) -> Any:
    """Number of (i, j), 0 <= i < r, 0 <= j < s, with i - j = z."""
    if isinstance(z, int):
        return max(0, min(r, s, r - z, s + z))
    return np.maximum(0, np.minimum(min(r, s), np.minimum(r - z, s + z)))


def _lengths(own: BlockCyclic, other: BlockCyclic, p: int) -> Ints:
    """Elements that process `p` of one axis shares with each process of the other."""
    lengths = np.zeros(other.processes, dtype=np.int64)
    peers, length = _shared(own, other, p)
    lengths[peers] = length
    return lengths


def _shared(own: BlockCyclic, other: BlockCyclic, p: int) -> tuple[Ints, Ints]:
    """Processes of the other axis that share elements with process `p` of one, ascending, and how many."""
    from ..intersections import find

    runs = find("aspen", own, other, p)
    ends = np.cumsum(runs.length)
    if not len(ends):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    rest = runs.size - (runs.repeats - 1) * int(ends[-1])
    length = (runs.repeats - 1) * runs.length + np.clip(rest - (ends - runs.length), 0, runs.length)
    peers, index = np.unique(runs.remote, return_inverse=True)
    total = np.zeros(len(peers), dtype=np.int64)
    np.add.at(total, index, length)
    return peers[total > 0].astype(np.int64), total[total > 0]
