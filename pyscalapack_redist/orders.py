"""When each message of a redistribution goes: a schedule, as sender and receiver each need it.

Both work out the same sort keys for the messages between them, so both go through their messages in one global order.
"""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from .errors import ScheduleError

__all__ = ["ORDERS", "Caterpillar", "Coords", "Natural", "Order", "Share", "make_order"]

Coords = tuple[int, ...]


class Share(NamedTuple):
    """Part of a message that goes in one step: the step's key, and its weight among the message's shares."""

    key: tuple[int, ...]
    weight: int


@dataclass(frozen=True)
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
    name: ClassVar[str]
    one_port: ClassVar[bool]

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
        rounds = max(math.prod(self.senders), math.prod(self.receivers))
        return _number(sender, self.senders), _number(receiver, self.receivers), rounds


class Natural(Order):
    """A process sends its blocks in the order in which it holds them (Walker & Otto, Eq 2).

    Several may send to one at the same time: the hot spot that Walker and Otto remove.
    """

    name: ClassVar[str] = "natural"
    one_port: ClassVar[bool] = False

    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """By the message's first element, column by column. Not collective."""
        return [Share(first[::-1], 1)]


class Caterpillar(Order):
    """In round t processes p and q with p + q = t (mod max(P, Q)) exchange, as pxgemr2d pairs them (Desprez, section 2).

    There are max(P, Q) rounds, whether or not a pair shares anything.
    """

    name: ClassVar[str] = "caterpillar"
    one_port: ClassVar[bool] = True

    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """The round of the pair, processes numbered row by row. Not collective."""
        p, q, rounds = self._numbers(sender, receiver)
        return [Share(((p + q) % rounds,), 1)]


class Ring(Order):
    """In round t process p sends to q with q - p = t (mod max(P, Q)): the pairing of Desprez's figures."""

    name: ClassVar[str] = "ring"
    one_port: ClassVar[bool] = True

    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """The round of the pair, processes numbered row by row. Not collective."""
        p, q, rounds = self._numbers(sender, receiver)
        return [Share(((q - p) % rounds,), 1)]


class Random(Order):
    """Each process sends in an order of its own, drawn at random (Walker & Otto, section 2.2.2)."""

    name: ClassVar[str] = "random"
    one_port: ClassVar[bool] = False
    seed: ClassVar[int] = 0

    def shares(self, sender: Coords, receiver: Coords, first: Coords) -> list[Share]:
        """A number drawn for the pair, the same on both sides and in every run. Not collective."""
        p, q, _ = self._numbers(sender, receiver)
        return [Share((int(np.random.default_rng([self.seed, p, q]).integers(2**62)), p, q), 1)]


def _number(coords: Coords, shape: Coords) -> int:
    number = 0
    for c, n in zip(coords, shape, strict=True):
        number = number * n + c
    return number


ORDERS: dict[str, type[Order]] = {one.name: one for one in (Natural, Random, Caterpillar, Ring)}


def make_order(name: str, senders: Coords, receivers: Coords) -> Order:
    """The order of messages of a schedule, by name. Not collective.

    Parameters
    ----------
    name : str
        A name in `ORDERS`.
    senders, receivers : tuple of int
        Processes along each array dimension, before and after.

    Raises
    ------
    ScheduleError
        The name is unknown.
    """
    if name not in ORDERS:
        near = difflib.get_close_matches(str(name), ORDERS, n=len(ORDERS), cutoff=0.0)
        raise ScheduleError(f"schedule = {name!r} is unknown; there are {', '.join(near)}, and auto")
    return ORDERS[name](senders, receivers)
