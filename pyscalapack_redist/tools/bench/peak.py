"""How much memory a call takes at its peak, as Linux counts it for this process."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable

__all__ = ["peak_growth"]


def peak_growth(run: Callable[[], None]) -> int | None:
    """Run, and return what it took at its peak in bytes; None where the system does not tell. As collective as `run`.

    What was kept from earlier calls and is used again does not show: have it given back before.
    """
    with contextlib.suppress(AttributeError):  # what is free in this process must not hide what is taken
        ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS") if _reset_peak() else None
    run()
    peak = _status("VmHWM")
    return None if before is None or peak is None else max(0, peak - before)


def _reset_peak() -> bool:
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return False
    return True


def _status(field: str) -> int | None:
    try:
        with open("/proc/self/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines[field].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
