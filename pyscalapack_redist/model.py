"""What a plan costs, and the choice behind "auto"."""

from __future__ import annotations

from .exchanges import exchange_class
from .node import Node

__all__ = ["choose"]


def choose(schedule: str, exchange: str, buffers: str, node: Node | None) -> tuple[str, str, str]:
    """Schedule and exchange in place of "auto", and why. Not collective; equal on all ranks.

    Through shared memory a byte is read once and written once; by MPI it is copied twice more. Between nodes, sending all
    at once beats lock step; steps in lock step are there for comparison.
    """
    if exchange == "auto":
        if node is not None and node.anywhere and buffers == "packed":
            exchange = "shared"
            why = f"shared: {node.why}"
        else:
            exchange = "nonblocking"
            why = "nonblocking: nothing waits for a step to end" + (f"; {node.why}" if node is not None else "")
    elif exchange == "shared" and node is not None:
        why = f"as asked; {node.why}" + ("" if node.ring is not None else ", so by MPI")
    else:
        why = "as asked"
    if schedule == "auto" and not exchange_class(exchange).scheduled:
        schedule = "natural"
        why += "; the order of messages is left to MPI"
    elif schedule == "auto":
        schedule = "caterpillar"
        why += "; caterpillar order: no process is sent to by all others first"
    return schedule, exchange, why
