"""The engine's plans in a flow simulation of hosts and their links, for machines of any size.

`flow` has the machine and what is under way on it, `rules` when a process comes to its messages, `study` the messages of plans
and the pieces of exchanges. benchmarks/simulate.py is the command.
"""

from __future__ import annotations

from .flow import Machine
from .study import DEFAULT_METHODS, EXCHANGES, Sizes, Study, check_method, simulated

__all__ = ["DEFAULT_METHODS", "EXCHANGES", "Machine", "Sizes", "Study", "check_method", "simulated"]
