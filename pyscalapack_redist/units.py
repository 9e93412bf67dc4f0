"""Rates as people write them: 50mbit, 1.25gbit, 12GB/s."""

from __future__ import annotations

import math
import re

__all__ = ["bytes_per_second"]

NUMBER = r"(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
RATE = re.compile(rf"{NUMBER}\s*(?P<prefix>[kmgt]?)(?P<unit>bit(?:/s)?|b/s)", re.IGNORECASE)
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
