"""The threads that share large moves, as the system sees them."""

from __future__ import annotations

import time
from pathlib import Path

TASKS = Path("/proc/self/task")


def pool_threads(number: int) -> set[str]:
    """Those of this process: so many, within a minute, for a thread is named, and has ended, a little later."""
    found = set()
    for _ in range(60_000):
        found = {task.name for task in TASKS.iterdir() if _named(task)}
        if len(found) == number:
            return found
        time.sleep(0.001)
    raise AssertionError(f"{len(found)} threads share moves, not {number}")


def _named(task: Path) -> bool:
    try:
        return (task / "comm").read_text() == "redistribute\n"
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return False
