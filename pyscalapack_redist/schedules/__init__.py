"""In which order the messages of a redistribution go: communication grids, and schedules of their messages in steps.

A schedule is made by name:

    grid = CommunicationGrid(P, Q, r, s)
    schedule = build("optimal", grid)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .catalogue import NAMES, build
from .communication_grid import CommunicationGrid, MessageClass
from .layout_graphs import between
from .message_graph import LengthMatrix, MessageGraph, WholeGraph, whole
from .schedule import ListedSchedule, ProductSchedule, Schedule, product
from .walker_otto import WalkerOtto, walker_otto

if TYPE_CHECKING:
    from .least_cost import pareto
    from .open_shop import OpenShopSchedule, Timetable, completion_time, port_bound, timetable
    from .preemptive import PreemptiveSchedule, preemptive_pareto

__all__ = [
    "NAMES",
    "CommunicationGrid",
    "LengthMatrix",
    "ListedSchedule",
    "MessageClass",
    "MessageGraph",
    "OpenShopSchedule",
    "PreemptiveSchedule",
    "ProductSchedule",
    "Schedule",
    "Timetable",
    "WalkerOtto",
    "WholeGraph",
    "between",
    "build",
    "completion_time",
    "pareto",
    "port_bound",
    "preemptive_pareto",
    "product",
    "timetable",
    "walker_otto",
    "whole",
]

__getattr__ = lazily(
    globals(),
    {
        "pareto": "least_cost",
        **dict.fromkeys(("OpenShopSchedule", "Timetable", "completion_time", "port_bound", "timetable"), "open_shop"),
        **dict.fromkeys(("PreemptiveSchedule", "preemptive_pareto"), "preemptive"),
    },
)
