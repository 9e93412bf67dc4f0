"""What the engine asks of a schedule: a key for each message, by which sender and receiver sort theirs alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

__all__ = ["Order"]


@dataclass(frozen=True)
class Order(ABC):
    """The order of messages between `senders` and `receivers` processes.

    Attributes
    ----------
    name : str
        The schedule's name.
    one_port : bool
        Whether messages of equal key are a step in which no process sends or receives twice.
    """

    senders: int
    receivers: int
    name: ClassVar[str]
    one_port: ClassVar[bool]

    @abstractmethod
    def key(self, sender: int, receiver: int, first: tuple[int, ...]) -> tuple[int, ...]:
        """Sort key of a message, the same for its sender and its receiver. Not collective.

        Parameters
        ----------
        sender, receiver : int
            Numbers of the two processes in their grids, row by row.
        first : tuple of int
            Global index of the first element of the message, the last dimension first.
        """
