"""The cores that this process may use, and how it gives its own to others.

Not every system has sched_getaffinity and sched_yield; macOS lacks the first.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable

__all__ = ["give_way", "usable_cores"]

give_way: Callable[[], object] = getattr(os, "sched_yield", functools.partial(time.sleep, 0))


def usable_cores() -> frozenset[int]:
    """Numbers of the cores on which this process may run; all, where the system does not tell. Not collective."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))
