"""The memory that this process can still take, of the machine and of its control groups, and the most that it has had."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

MEMINFO, OWN_GROUPS, MOUNT = Path("/proc/meminfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
NEGLIGIBLE = 2**26  # bytes that any process has
# The limit, the usage, and the parts of the usage that the kernel gives back, in versions 2 and 1 of control groups
FILES = (
    ("memory.max", "memory.current", ("inactive_file", "active_file")),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
)

UNLIMITED = 2**60  # bytes; version 1 of control groups writes a number near 2**63 where there is no limit


def free_memory() -> int:
    """Bytes that this process can take before the machine or a control group has no more; 0 if nothing says. Not collective."""
    free = []
    with contextlib.suppress(OSError, ValueError, KeyError):
        free.append(1024 * _numbers(MEMINFO)["MemAvailable:"])
    for group in _groups():
        for limit, usage, reclaimable in FILES:
            with contextlib.suppress(OSError, ValueError):  # "max" is no number
                most = int((group / limit).read_text())
                if most < UNLIMITED:
                    numbers = _numbers(group / "memory.stat")
                    room = most - int((group / usage).read_text())
                    free.append(room + sum(numbers.get(name, 0) for name in reclaimable))
    return max(0, min(free, default=0))


def peak_memory() -> int:
    """Most bytes that were resident since this process began; 0 if the system does not say. Not collective."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def room_beside(needed: int, free: Callable[[], int]) -> float:
    """What is left, for a computation that needs so many bytes on one process, of a quarter of the free ones; negative if it
    has too few, infinite if any process has so many, for which `free` is not called. Collective, if `free` is.
    """
    return math.inf if needed <= NEGLIGIBLE else free() // 4 - needed


def has_room(needed: int, free: Callable[[], int]) -> bool:
    """Whether one process may take so many bytes for a computation, by `room_beside`."""
    return room_beside(needed, free) >= 0


def _numbers(file: Path) -> dict[str, int]:
    """The number after each name in a file of lines."""
    lines = (line.split() for line in file.read_text().splitlines())
    return {words[0]: int(words[1]) for words in lines if words[1:] and words[1].isdigit()}


def _groups() -> Iterator[Path]:
    """Folders of the control groups of this process, and of those around them."""
    try:
        lines = OWN_GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        yield from _folders(MOUNT, line)


@functools.lru_cache(maxsize=64)
def _folders(mount: Path, line: str) -> tuple[Path, ...]:
    """The folders of one line of a process' control groups; none where that is not of memory."""
    _, controllers, name = line.split(":", 2)
    if controllers and "memory" not in controllers.split(","):
        return ()
    root = mount / "memory" if controllers else mount
    group = root / name.lstrip("/")
    return tuple(folder for folder in (group, *group.parents) if folder.is_relative_to(root))
