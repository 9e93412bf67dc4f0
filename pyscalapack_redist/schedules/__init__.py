"""In which order the messages of a redistribution go: communication grids, and schedules of their messages in steps.

A schedule is made by name:

    grid = CommunicationGrid(P, Q, r, s)
    schedule = build("optimal", grid)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .walker_otto import WalkerOtto, walker_otto  # a module of the same name would stand in its place

if TYPE_CHECKING:
    from .catalogue import NAMES, build
    from .communication_grid import CommunicationGrid, MessageClass
    from .layout_graphs import between
    from .least_cost import pareto
    from .message_graph import LengthMatrix, MessageGraph, WholeGraph, whole
    from .schedule import ListedSchedule, ProductSchedule, Schedule, product

__all__ = [
    "NAMES",
    "CommunicationGrid",
    "LengthMatrix",
    "ListedSchedule",
    "MessageClass",
    "MessageGraph",
    "ProductSchedule",
    "Schedule",
    "WalkerOtto",
    "WholeGraph",
    "between",
    "build",
    "pareto",
    "product",
    "walker_otto",
    "whole",
]

__getattr__ = lazily(
    globals(),
    {
        **dict.fromkeys(("NAMES", "build"), "catalogue"),
        **dict.fromkeys(("CommunicationGrid", "MessageClass"), "communication_grid"),
        **dict.fromkeys(("LengthMatrix", "MessageGraph", "WholeGraph", "whole"), "message_graph"),
        **dict.fromkeys(("ListedSchedule", "ProductSchedule", "Schedule", "product"), "schedule"),
        "between": "layout_graphs",
        "pareto": "least_cost",
    },
)
