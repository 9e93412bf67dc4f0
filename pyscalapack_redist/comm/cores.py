"""The cores that this process may use, their last cache, and how a process gives its core to others.

Not every system has sched_getaffinity and sched_yield, and only Linux tells of caches in files; macOS lacks the first.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..errors import RedistributionError

__all__ = ["VARIABLE", "LastCache", "give_way", "last_cache", "usable_cores"]

CORES = Path("/sys/devices/system/cpu")
VARIABLE = "PYSCALAPACK_REDIST_LAST_CACHE"

give_way: Callable[[], object] = getattr(os, "sched_yield", functools.partial(time.sleep, 0))


def usable_cores() -> frozenset[int]:
    """Numbers of the cores on which this process may run; all, where the system does not tell. Not collective."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


class LastCache(NamedTuple):
    """The cache in front of main memory: its bytes, and the most cores that share it."""

    nbytes: int
    sharing: int

    def share(self, ranks: int) -> int:
        """Bytes of it for each of so many ranks of a node, as if they were together. Not collective."""
        return self.nbytes // max(1, min(ranks, self.sharing))


UNKNOWN = LastCache(32 * 2**20, 2**20)


@functools.cache
def last_cache() -> LastCache:
    """The last cache of a core that this process may use; a usual one, where the system does not tell. Not collective.

    Its size is that of the environment's PYSCALAPACK_REDIST_LAST_CACHE, where that is set; for tests.

    Raises
    ------
    RedistributionError
        The variable is no number of bytes.
    """
    cache = _last_cache_of_system()
    text = os.environ.get(VARIABLE)
    if not text:
        return cache
    if not text.isdecimal():
        raise RedistributionError(
            f"{VARIABLE}={text!r} must be the bytes of the last cache, such as {32 * 2**20}; unset it to ask the system"
        )
    return cache._replace(nbytes=int(text))


def _last_cache_of_system() -> LastCache:
    found = []
    try:
        for place in (CORES / f"cpu{min(usable_cores())}" / "cache").glob("index*"):
            level, size, cores = [(place / name).read_text().strip() for name in ("level", "size", "shared_cpu_list")]
            nbytes = int(size[:-1]) * {"K": 2**10, "M": 2**20}[size[-1]]
            ends = [part.split("-") for part in cores.split(",")]
            found.append((int(level), LastCache(nbytes, sum(int(end[-1]) - int(end[0]) + 1 for end in ends))))
    except (OSError, ValueError, LookupError):
        return UNKNOWN
    return max(found)[1] if found else UNKNOWN
