"""In which order the messages of a redistribution go: communication grids, and schedules of their messages in steps.

grid = CommunicationGrid(P, Q, r, s)
schedule = build("optimal", grid)
"""

from __future__ import annotations

import difflib

from ..errors import ScheduleError
from .catalogue import NAMES, build
from .caterpillar import Caterpillar
from .communication_grid import CommunicationGrid, MessageClass
from .message_graph import LengthMatrix, MessageGraph, WholeGraph, whole
from .natural import Natural
from .order import Order
from .pareto import pareto
from .product import ProductSchedule, product
from .schedule import ListedSchedule, Schedule
from .walker_otto import WalkerOtto, walker_otto

__all__ = [
    "NAMES",
    "ORDERS",
    "CommunicationGrid",
    "LengthMatrix",
    "ListedSchedule",
    "MessageClass",
    "MessageGraph",
    "Order",
    "ProductSchedule",
    "Schedule",
    "WalkerOtto",
    "WholeGraph",
    "build",
    "order",
    "pareto",
    "product",
    "walker_otto",
    "whole",
]

ORDERS: dict[str, type[Order]] = {one.name: one for one in (Natural, Caterpillar)}


def order(name: str, senders: int, receivers: int) -> Order:
    """The order of messages of a schedule, by name. Not collective.

    Parameters
    ----------
    name : str
        A name in `ORDERS`.
    senders, receivers : int
        Number of processes that hold the array before and after.

    Raises
    ------
    ScheduleError
        The name is unknown.
    """
    if name not in ORDERS:
        near = difflib.get_close_matches(str(name), ORDERS, n=len(ORDERS), cutoff=0.0)
        raise ScheduleError(f"schedule = {name!r} is unknown; there are {', '.join(near)}, and auto")
    return ORDERS[name](senders, receivers)
