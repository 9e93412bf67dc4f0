"""In which order the messages of a redistribution go: communication grids, and schedules of their messages in steps.

A schedule is made by name:

    grid = CommunicationGrid(P, Q, r, s)
    schedule = build("optimal", grid)
"""

from __future__ import annotations

from .catalogue import NAMES, build
from .communication_grid import CommunicationGrid, MessageClass
from .irregular_graph import between
from .message_graph import LengthMatrix, MessageGraph, WholeGraph, whole
from .pareto import pareto
from .preemptive import PreemptiveSchedule, preemptive_pareto
from .product import ProductSchedule, product
from .schedule import ListedSchedule, Schedule
from .walker_otto import WalkerOtto, walker_otto

__all__ = [
    "NAMES",
    "CommunicationGrid",
    "LengthMatrix",
    "ListedSchedule",
    "MessageClass",
    "MessageGraph",
    "PreemptiveSchedule",
    "ProductSchedule",
    "Schedule",
    "WalkerOtto",
    "WholeGraph",
    "between",
    "build",
    "pareto",
    "preemptive_pareto",
    "product",
    "walker_otto",
    "whole",
]
