"""The memory that this process can still take, of the machine and of its control groups, and the most that it has had."""

from __future__ import annotations

import contextlib
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


def free_memory() -> int:
    """Bytes that this process can take before the machine or a control group has no more; 0 if nothing says. Not collective."""
    free = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        free.append(1024 * _number(MEMINFO, "MemAvailable:"))
    for group in _groups():
        for limit, usage, reclaimable in FILES:
            with contextlib.suppress(OSError, ValueError, StopIteration):  # "max" is no number
                room = int((group / limit).read_text()) - int((group / usage).read_text())
                free.append(room + sum(_number(group / "memory.stat", name, 0) for name in reclaimable))
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


def _number(file: Path, name: str, missing: int | None = None) -> int:
    """The number after a name in a file of lines; StopIteration if it is not there, and there is no number for that."""
    found = (int(line.split()[1]) for line in file.read_text().splitlines() if line.split()[:1] == [name])
    return next(found) if missing is None else next(found, missing)


def _groups() -> Iterator[Path]:
    """Folders of the control groups of this process, and of those around them."""
    try:
        lines = OWN_GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = MOUNT / "memory" if controllers else MOUNT
        group = root / name.lstrip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(root))
