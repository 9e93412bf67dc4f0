"""Orders: the sort key of each message of a redistribution, computed alike by sender and receiver.

Equal keys on both sides mean that all processes go through their messages in one global order.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._kernels.products import number_of
from ..intersections.runs import SuperblockSlot
from .formulas import caterpillar_step, random_keys, ring_step
from .schedule import Schedule

Coords = tuple[int, ...]


class Share(NamedTuple):
    """The part of a message that goes in one step.

    Attributes
    ----------
    key : tuple of int
        Sort key of the step.
    weight : int
        Size of the part, relative to the message's other parts.
    slots : tuple of (SuperblockSlot or None)
        The elements of the part along each dimension; None for all. If empty, the part is consecutive elements of the message.
    """

    key: tuple[int, ...]
    weight: int
    slots: tuple[SuperblockSlot | None, ...] = ()


class Order(ABC):
    """The order of messages between two process grids.

    Attributes
    ----------
    senders, receivers : tuple of int
        Processes along each array dimension, before and after.
    name : str
        The schedule's name.
    one_port : bool
        Whether messages of equal keys form a step in which no process sends or receives twice.
    """

    senders: Coords
    receivers: Coords
    name: str
    one_port: bool

    def __init__(self, senders: Coords, receivers: Coords) -> None:
        self.senders, self.receivers = senders, receivers
        self._rounds = max(math.prod(senders), math.prod(receivers))

    @property
    def number_of_steps(self) -> int | None:
        """Number of steps; None for an order without common steps."""
        return None

    def of(self, sender: Coords | None, receiver: Coords | None) -> Order:
        """This order for the rank with these coordinates before and after."""
        return self

    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords | None:
        """The key of a message that goes whole; None for a message in several shares, or with slots."""
        return None

    @abstractmethod
    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """The shares of the message between two processes, equal on both.

        Parameters
        ----------
        sender, receiver : tuple of int
            Process coordinates along each array dimension.
        first : tuple of int
            Global index of the first element of the message.
        """

    def _numbers(self, sender: Coords, receiver: Coords) -> tuple[int, int, int]:
        """Numbers of the two processes in their grids, row by row, and the number of rounds that pair all with all."""
        return number_of(sender, self.senders), number_of(receiver, self.receivers), self._rounds


class WholeMessages(Order):
    """An order in which every message goes whole."""

    @abstractmethod
    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords:
        """The key of the message between two processes."""

    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """One share: the whole message."""
        return [Share(self.key(sender, receiver, first), 1)]


class Natural(WholeMessages):
    """A process sends its blocks in the order of its local array (Walker & Otto, Eq 2).

    Several processes may send to one at the same time: the hot spot that Walker and Otto avoid.
    """

    name = "natural"
    one_port = False

    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords:
        """The message's first element, column by column."""
        return first[::-1]


class Caterpillar(WholeMessages):
    """In round t processes p and q with p + q = t (mod max(P, Q)) exchange, as in pxgemr2d (Desprez, section 2).

    There are max(P, Q) rounds, including rounds without messages.
    """

    name = "caterpillar"
    one_port = True

    @property
    def number_of_steps(self) -> int:
        """The number of rounds, including rounds without messages."""
        return self._rounds

    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords:
        """The round of the pair; processes are numbered row by row."""
        p, q, rounds = self._numbers(sender, receiver)
        return (caterpillar_step(p, q, rounds),)


class RingOrder(WholeMessages):
    """In round t process p sends to q with q - p = t (mod max(P, Q)): the pairing of Desprez's figures."""

    name = "ring"
    one_port = True

    @property
    def number_of_steps(self) -> int:
        """The number of rounds, including rounds without messages."""
        return self._rounds

    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords:
        """The round of the pair; processes are numbered row by row."""
        p, q, rounds = self._numbers(sender, receiver)
        return (ring_step(p, q, rounds),)


class Random(WholeMessages):
    """Each process sends in a random order of its own (Walker & Otto, section 2.2.2)."""

    name = "random"
    one_port = False
    seed = 0

    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords:
        """A pseudo-random number of the pair, equal on both sides and in every run."""
        p, q, _ = self._numbers(sender, receiver)
        (key,) = random_keys(self.seed, np.array([p]), np.array([q])).tolist()
        return (key >> 1, p, q)


class Scheduled(Order):
    """The order of the steps of schedules: one schedule for each dimension, or one for all processes.

    The product of one-port schedules is one-port: two messages of equal keys have no process in common.

    Parameters
    ----------
    senders, receivers : tuple of int
        Processes along each array dimension, before and after.
    parts : sequence of Schedule
        One for each dimension, or a single one with processes numbered row by row.
    sender, receiver : tuple of int or None
        This rank's coordinates before and after; the order has only its own messages.
    """

    def __init__(
        self,
        senders: Coords,
        receivers: Coords,
        parts: Sequence[Schedule],
        sender: Coords | None,
        receiver: Coords | None,
    ) -> None:
        super().__init__(senders, receivers)
        self.parts = tuple(parts)
        self.name = parts[0].name
        self.one_port = all(part.one_port for part in parts)
        self._sender = sender
        self._sent = [] if sender is None else self._by_peer("of_sender", self._coords_of_parts(sender, senders))
        self._received = (
            [] if receiver is None else self._by_peer("of_receiver", self._coords_of_parts(receiver, receivers))
        )

    @property
    def number_of_steps(self) -> int:
        """Number of steps of the product of the parts."""
        return math.prod(part.number_of_steps for part in self.parts)

    def of(self, sender: Coords | None, receiver: Coords | None) -> Order:
        """The order of these schedules for the rank with these coordinates before and after."""
        return Scheduled(self.senders, self.receivers, self.parts, sender, receiver)

    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """One share for each combination of the pair's steps along the dimensions; lengths multiply."""
        sending = sender == self._sender
        rows, peer = (self._sent, receiver) if sending else (self._received, sender)
        peers = self._coords_of_parts(peer, self.receivers if sending else self.senders)
        choices = [row[coord] for row, coord in zip(rows, peers, strict=True)]
        slots = [{} if len(steps) == 1 else self._slots(k, sender, receiver, steps) for k, steps in enumerate(choices)]
        return [
            Share(
                tuple(step for step, _ in steps),
                math.prod(length for _, length in steps),
                tuple([by_step.get(step) for by_step, (step, _) in zip(slots, steps, strict=True)])
                if any(slots)
                else (),
            )
            for steps in itertools.product(*choices)
        ]

    def _slots(
        self, k: int, sender: Coords, receiver: Coords, steps: Sequence[tuple[int, int]]
    ) -> dict[int, SuperblockSlot]:
        """The slot of each step of a pair along a dimension; empty if the schedule has no slots."""
        p, q = self._coords_of_parts(sender, self.senders)[k], self._coords_of_parts(receiver, self.receivers)[k]
        slots = ((step, self.parts[k].slot(p, q, step)) for step, _ in steps)
        return {step: slot for step, slot in slots if slot is not None}

    def _coords_of_parts(self, coords: Coords, shape: Coords) -> Coords:
        """The coordinate for each part; a single part has the number of the process, row by row."""
        return coords if len(self.parts) == len(shape) else (number_of(coords, shape),)

    def _by_peer(self, side: str, coords: Coords) -> list[dict[int, list[tuple[int, int]]]]:
        """For each part, a dict from the other process to steps and lengths."""
        result = []
        for part, coord in zip(self.parts, coords, strict=True):
            steps_by_peer: dict[int, list[tuple[int, int]]] = {}
            for step, peer, length in getattr(part, side)(coord).tolist():
                steps_by_peer.setdefault(peer, []).append((step, length))
            result.append(steps_by_peer)
        return result


ORDERS: dict[str, type[Order]] = {order.name: order for order in (Natural, Random, Caterpillar, RingOrder)}


class CombinedOrder(Order):
    """The orders of several moves."""

    one_port = False

    def __init__(self, parts: Sequence[Order]) -> None:
        self.parts = tuple(parts)
        self.name = ", ".join(dict.fromkeys(part.name for part in parts))

    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """The shares of all parts."""
        return [share for part in self.parts for share in part.shares(sender, receiver, first)]
