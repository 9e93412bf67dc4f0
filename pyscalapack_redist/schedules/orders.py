"""When each message of a redistribution goes: a schedule, as sender and receiver each need it.

Both work out the same sort keys for the messages between them, so both go through their messages in one global order.
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
    """Part of a message that goes in one step.

    Attributes
    ----------
    key : tuple of int
        The step's.
    weight : int
        The part's, among all parts of the message.
    slots : tuple of (SuperblockSlot or None)
        Along each dimension, which elements of the message are the part; None for all. Without any, elements that are
        next to one another in the message.
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
        Whether messages of equal key are a step in which no process sends or receives twice.
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
        """Steps of all processes together; None where the order has no steps that all go through."""
        return None

    def of(self, sender: Coords | None, receiver: Coords | None) -> Order:
        """The same order for the rank with these coordinates before and after. Not collective."""
        return self

    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords | None:
        """The key of the one share in which a message goes whole; None where `shares` has more to say. Not collective."""
        return None

    @abstractmethod
    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """When the message between two processes goes; the same on both of them. Not collective.

        Parameters
        ----------
        sender, receiver : tuple of int
            Process coordinates along each array dimension.
        first : tuple of int
            Global index of the first element of the message.
        """

    def _numbers(self, sender: Coords, receiver: Coords) -> tuple[int, int, int]:
        """Numbers of the two processes in their grids, row by row, and that of rounds of a pairing of all with all."""
        return number_of(sender, self.senders), number_of(receiver, self.receivers), self._rounds


class WholeMessages(Order):
    """An order in which every pair of processes comes once."""

    @abstractmethod
    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords:
        """The key of the message between two processes. Not collective."""

    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """All of it. Not collective."""
        return [Share(self.key(sender, receiver, first), 1)]


class Natural(WholeMessages):
    """A process sends its blocks in the order in which it holds them (Walker & Otto, Eq 2).

    Several may send to one at the same time: the hot spot that Walker and Otto remove.
    """

    name = "natural"
    one_port = False

    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords:
        """By the message's first element, column by column. Not collective."""
        return first[::-1]


class Caterpillar(WholeMessages):
    """In round t processes p and q with p + q = t (mod max(P, Q)) exchange, as pxgemr2d pairs them (Desprez, section 2).

    There are max(P, Q) rounds, whether or not a pair shares anything.
    """

    name = "caterpillar"
    one_port = True

    @property
    def number_of_steps(self) -> int:
        """The rounds, those in which no pair shares anything included."""
        return self._rounds

    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords:
        """The round of the pair, processes numbered row by row. Not collective."""
        p, q, rounds = self._numbers(sender, receiver)
        return (caterpillar_step(p, q, rounds),)


class RingOrder(WholeMessages):
    """In round t process p sends to q with q - p = t (mod max(P, Q)): the pairing of Desprez's figures."""

    name = "ring"
    one_port = True

    @property
    def number_of_steps(self) -> int:
        """The rounds, those in which no pair shares anything included."""
        return self._rounds

    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords:
        """The round of the pair, processes numbered row by row. Not collective."""
        p, q, rounds = self._numbers(sender, receiver)
        return (ring_step(p, q, rounds),)


class Random(WholeMessages):
    """Each process sends in an order of its own, drawn at random (Walker & Otto, section 2.2.2)."""

    name = "random"
    one_port = False
    seed = 0

    def key(self, sender: Coords, receiver: Coords, first: Coords) -> Coords:
        """A number drawn for the pair, the same on both sides and in every run. Not collective."""
        p, q, _ = self._numbers(sender, receiver)
        (key,) = random_keys(self.seed, np.array([p]), np.array([q])).tolist()
        return (key >> 1, p, q)


class Scheduled(Order):
    """The steps of an algorithm of `schedules`: one schedule for each dimension, or one for the whole process sets.

    The product of one-port schedules is one-port: two messages of one key have no process in common.

    Parameters
    ----------
    senders, receivers : tuple of int
        Processes along each array dimension, before and after.
    parts : sequence of Schedule
        One for each dimension, or a single one whose processes are numbered row by row.
    sender, receiver : tuple of int or None
        This rank's coordinates before and after: it can ask for its own messages only.
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
        self._sent = [] if sender is None else self._mine("of_sender", self._places(sender, senders))
        self._received = [] if receiver is None else self._mine("of_receiver", self._places(receiver, receivers))

    @property
    def number_of_steps(self) -> int:
        """Of the product of the parts."""
        return math.prod(part.number_of_steps for part in self.parts)

    def of(self, sender: Coords | None, receiver: Coords | None) -> Order:
        """The same schedules for the rank with these coordinates before and after. Not collective."""
        return Scheduled(self.senders, self.receivers, self.parts, sender, receiver)

    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """The steps of the pair, in each dimension; lengths multiply. Not collective."""
        sending = sender == self._sender
        rows, peer = (self._sent, receiver) if sending else (self._received, sender)
        peers = self._places(peer, self.receivers if sending else self.senders)
        choices = [row[place] for row, place in zip(rows, peers, strict=True)]
        slots = [{} if len(some) == 1 else self._slots(k, sender, receiver, some) for k, some in enumerate(choices)]
        return [
            Share(
                tuple(step for step, _ in chosen),
                math.prod(length for _, length in chosen),
                tuple([some.get(step) for some, (step, _) in zip(slots, chosen, strict=True)]) if any(slots) else (),
            )
            for chosen in itertools.product(*choices)
        ]

    def _slots(
        self, k: int, sender: Coords, receiver: Coords, steps: Sequence[tuple[int, int]]
    ) -> dict[int, SuperblockSlot]:
        """What goes in each step of a pair, along a dimension; nothing where the schedule does not say."""
        p, q = self._places(sender, self.senders)[k], self._places(receiver, self.receivers)[k]
        found = ((step, self.parts[k].slot(p, q, step)) for step, _ in steps)
        return {step: slot for step, slot in found if slot is not None}

    def _places(self, coords: Coords, shape: Coords) -> Coords:
        return coords if len(self.parts) == len(shape) else (number_of(coords, shape),)

    def _mine(self, side: str, places: Coords) -> list[dict[int, list[tuple[int, int]]]]:
        """For each part, steps and lengths by the other process."""
        found = []
        for part, place in zip(self.parts, places, strict=True):
            by_peer: dict[int, list[tuple[int, int]]] = {}
            for step, peer, length in getattr(part, side)(place).tolist():
                by_peer.setdefault(peer, []).append((step, length))
            found.append(by_peer)
        return found


ORDERS: dict[str, type[Order]] = {order.name: order for order in (Natural, Random, Caterpillar, RingOrder)}


class CombinedOrder(Order):
    """The orders of several moves, one after another or at once."""

    one_port = False

    def __init__(self, parts: Sequence[Order]) -> None:
        self.parts = tuple(parts)
        self.name = ", ".join(dict.fromkeys(part.name for part in parts))

    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """Those of all parts. Not collective."""
        return [share for part in self.parts for share in part.shares(sender, receiver, first)]
