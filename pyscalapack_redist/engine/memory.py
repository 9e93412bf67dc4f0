"""Sizes of memory as people write them: a number of bytes, or "64MiB"."""

from __future__ import annotations

import math
import re

from ..errors import DescriptorError
from ..layout.axis import whole_number

__all__ = ["checked_memory", "number_with_unit", "read_size"]

WITH_UNIT = re.compile(r"(?P<value>\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*(?P<unit>[a-z]*)", re.IGNORECASE)
SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def checked_memory(limit: object) -> int:
    """Bytes, at least 1, from a number of them or a text. Not collective.

    Raises
    ------
    DescriptorError
        It is neither.
    """
    if isinstance(limit, str):
        try:
            limit = read_size(limit)
        except ValueError:
            raise DescriptorError(
                f"memory_limit = {limit!r} must be a number of bytes of extra memory per rank, or a text such as '64MiB'"
            ) from None
    return whole_number("memory_limit", limit, 1, ": bytes of extra memory per rank, or a text such as '64MiB'")


def read_size(text: str) -> int:
    """Bytes, as 64kib, 1.5GB or 1000. Not collective.

    Raises
    ------
    ValueError
        Quotes it and says what it must be.
    """
    value = number_with_unit(text, SIZES)
    if value is None or not (value < math.inf and value == int(value)):
        raise ValueError(f"{text!r} must be a whole number of bytes: 64kib, 1mb, 65536")
    return int(value)


def number_with_unit(text: str, units: dict[str, float] | dict[str, int]) -> float | None:
    """The value in the base unit; None where it cannot be read. Not collective."""
    found = WITH_UNIT.fullmatch(text.strip())
    scale = units.get(found["unit"].lower()) if found else None
    return None if found is None or scale is None else float(found["value"]) * scale
