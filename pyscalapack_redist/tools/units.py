"""Quantities as people write them: rates (50mbit, 12GB/s), durations (50us) and sizes (64kib)."""

from __future__ import annotations

import math
import re

from ..engine.memory import number_with_unit, read_size

__all__ = ["bytes_per_second", "read_duration", "read_size"]

NUMBER = r"(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
RATE = re.compile(rf"{NUMBER}\s*(?P<prefix>[kmgt]?)(?P<unit>bit(?:/s)?|b/s)", re.IGNORECASE)
DURATIONS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
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
    value = 0.0 if text == "0" else number_with_unit(text, DURATIONS)
    if value is None or value == math.inf:
        raise ValueError(f"{text!r} must be a duration with its unit: 50us, 1.5ms, 300ns, or 0")
    return value
