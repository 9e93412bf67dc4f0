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
from .open_shop import OpenShopSchedule
from .pareto import pareto
from .preemptive import PreemptiveSchedule, preemptive_pareto
from .product import ProductSchedule, product
from .schedule import ListedSchedule, Schedule
from .walker_otto import WalkerOtto, walker_otto
from .without_barriers import Timetable, completion_time, port_bound, timetable

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
