"""Quantities as people write them: rates (50mbit, 12GB/s), durations (50us) and sizes (64kib)."""

from __future__ import annotations

import math
import re

__all__ = ["bytes_per_second", "read_duration", "read_size"]

NUMBER = r"(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
RATE = re.compile(rf"{NUMBER}\s*(?P<prefix>[kmgt]?)(?P<unit>bit(?:/s)?|b/s)", re.IGNORECASE)
WITH_UNIT = re.compile(r"(?P<value>\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*(?P<unit>[a-z]*)", re.IGNORECASE)
DURATIONS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
SIZES = {"": 1, "b": 1, "kb": 1000, "mb": 10**6, "kib": 2**10, "mib": 2**20}
PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def bytes_per_second(text: str) -> float:
    """Read a rate: a number with `bit` or `B/s`, with k, m, g or t (powers of 1000) before it or not. Not collective.

    Bits are as `tc` and makers of networks count them, so 50mbit is 6.25 million bytes per second. A bare number is
    refused: nobody could tell whether bits or bytes are meant.

    Raises
    ------
    ValueError
        It is not of that form, or not above 0.
    """
    found = RATE.fullmatch(text.strip())
    unit = found["unit"].lower() if found else ""
    if found is None or (unit == "b/s" and found["unit"][0] != "B"):  # b/s could be bits
        raise ValueError(f"{text!r} must be a rate with its unit, such as 50mbit, 10gbit, 6.25MB/s or 12GB/s")
    rate = float(found["number"]) * PREFIXES[found["prefix"].lower()] / (8 if unit.startswith("bit") else 1)
    if not 0 < rate < math.inf:
        raise ValueError(f"{text!r} must be a rate above 0 that is not infinite, such as 50mbit")
    return rate


def read_duration(text: str) -> float:
    """Seconds, as 50us or 0. Not collective.

    Raises
    ------
    ValueError
        Quotes it and says what it must be.
    """
    value = 0.0 if text == "0" else _read(text, DURATIONS)
    if not 0 <= value < math.inf:
        raise ValueError(f"{text!r} must be a duration with its unit: 50us, 1.5ms, 300ns, or 0")
    return value


def read_size(text: str) -> int:
    """Bytes, as 64kib or 1000. Not collective.

    Raises
    ------
    ValueError
        Quotes it and says what it must be.
    """
    value = _read(text, SIZES)
    if not (0 <= value < math.inf and value == int(value)):
        raise ValueError(f"{text!r} must be a whole number of bytes: 64kib, 1mb, 65536")
    return int(value)


def _read(text: str, units: dict[str, float] | dict[str, int]) -> float:
    """The value in the base unit; -1 where it cannot be read."""
    found = WITH_UNIT.fullmatch(text.strip())
    scale = units.get(found["unit"].lower()) if found else None
    return -1.0 if found is None or scale is None else float(found["value"]) * scale
