"""Figures as names and values: lines of text, or a table of HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..drawing.svg import table

__all__ = ["Tabled", "counted", "lined"]


def counted(number: int, noun: str) -> str:
    """So many of something: "1 message", "2 messages". Not collective."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def lined(rows: Sequence[tuple[str, str]], width: int = 20) -> str:
    """Names and values, one below the other."""
    return "\n".join(f"{name:{width}} {value}" for name, value in rows)


class Tabled(ABC):
    """Figures that are names and values, for a terminal and for a notebook."""

    @abstractmethod
    def _rows(self) -> list[tuple[str, str]]:
        """Names and values."""

    def __str__(self) -> str:
        return lined(self._rows())

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self._rows())
