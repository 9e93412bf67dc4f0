"""What a plan costs, and the choice behind "auto"."""

from __future__ import annotations

from .exchanges import exchange_class

__all__ = ["choose"]


def choose(schedule: str, exchange: str) -> tuple[str, str, str]:
    """Schedule and exchange in place of "auto", and why. Not collective.

    Sending all at once beats lock step on one node and between nodes; steps in lock step are there for comparison.
    """
    if exchange == "auto":
        exchange = "nonblocking"
        why = "nonblocking: nothing waits for a step to end"
    else:
        why = "as asked"
    if schedule == "auto" and not exchange_class(exchange).scheduled:
        schedule = "natural"
        why += "; the order of messages is left to MPI"
    elif schedule == "auto":
        schedule = "caterpillar"
        why += "; caterpillar order: no process is sent to by all others first"
    return schedule, exchange, why
