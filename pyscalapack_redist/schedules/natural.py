"""Natural order: a process sends its blocks in the order in which it holds them (Walker & Otto, Eq 2).

Several processes may send to one at the same time: the hot spot that Walker and Otto remove.
"""

from __future__ import annotations

from typing import ClassVar

from .order import Order

__all__ = ["Natural"]


class Natural(Order):
    """Messages in the order of their first elements (Walker & Otto, Eq 2)."""

    name: ClassVar[str] = "natural"
    one_port: ClassVar[bool] = False

    def key(self, sender: int, receiver: int, first: tuple[int, ...]) -> tuple[int, ...]:
        """The global index of the message's first element. Not collective."""
        return first
