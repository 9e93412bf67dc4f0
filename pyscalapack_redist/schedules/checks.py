"""Checks of the parameters of schedules."""

from __future__ import annotations

import importlib
import operator

from ..errors import ScheduleError

LARGEST_TABLE = 10**8  # entries of a P x Q table: 800 MB of int64
INSTEAD = (
    "ask for one process's part with schedule.of_sender(p) or .of_receiver(q) (natural, random, caterpillar, ring, "
    "walker-otto and classes need no table for it), or one length with grid.length(p, q)"
)


def integer(name: str, value: object, meaning: str) -> int:
    """Return `value` as an int, or raise a ScheduleError that names it."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ScheduleError(f"{name} = {value!r} must be an integer: {meaning}") from None


def positive(name: str, value: object, meaning: str, least: int = 1) -> int:
    """Return `value` as an int of at least `least`, or raise a ScheduleError that names it."""
    number = integer(name, value, meaning)
    if number < least:
        raise ScheduleError(f"{name} = {number} must be an integer of at least {least}: {meaning}")
    return number


def checked_messages(count: int) -> None:
    """Raise a ScheduleError for more messages than `LARGEST_TABLE`: a list of them would not fit in memory."""
    if count > LARGEST_TABLE:
        raise ScheduleError(
            f"the steps have {count:.3g} messages, more than the limit of {LARGEST_TABLE:.0e}; {INSTEAD}"
        )


def checked_table(P: int, Q: int) -> None:
    """Raise a ScheduleError for more pairs than `LARGEST_TABLE`: a table of them would not fit in memory."""
    if P * Q > LARGEST_TABLE:
        raise ScheduleError(
            f"P = {P}, Q = {Q}: a table of all P x Q pairs has {P * Q:.3g} entries, more than the limit of "
            f"{LARGEST_TABLE:.0e}; {INSTEAD}"
        )


def checked_seconds(time_limit: object) -> float:
    """Return a time limit in seconds, or raise a ScheduleError.

    Also imports SciPy's optimizers, which may take a second, so that the import does not count against the limit.

    Raises
    ------
    ScheduleError
        `time_limit` is not a number above 0.
    """
    try:
        seconds = operator.index(time_limit) if isinstance(time_limit, int) else float(time_limit)  # type: ignore[arg-type]
        valid = seconds > 0
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ScheduleError(f"time_limit = {time_limit!r} must be a number of seconds of more than 0")
    importlib.import_module("scipy.optimize")
    return seconds
