"""In which order the messages of a redistribution go."""

from __future__ import annotations

import difflib

from ..errors import ScheduleError
from .caterpillar import Caterpillar
from .natural import Natural
from .order import Order

__all__ = ["ORDERS", "Order", "order"]

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
