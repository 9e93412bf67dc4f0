"""Whether transfers fit into a given time, as an integer program: x[e, t] = 1 where transfer e begins at time t.

Each transfer begins once, and at each time each port has at most one under way (the time-indexed program of Sousa & Wolsey,
1992). Times are whole numbers of a unit that divides all durations. With real x it is as strong as the bound of the ports, so
it is asked of times from that bound upwards.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .dense_order import Transfers
from .message_graph import Ints

__all__ = ["Proof", "proof"]

Floats = NDArray[np.float64]
LARGEST = 400_000  # entries of the program: beyond, not even the real one is solved in a second
UNITS = 2**10  # parts of a length at which start-up costs are looked at
TINY = 1e-9


class Proof(NamedTuple):
    """What programs have shown.

    Attributes
    ----------
    start : ndarray or None
        When each transfer begins, in a time that is less than what was known; None where none was found.
    bound : float
        No order takes less time.
    """

    start: Floats | None
    bound: float


def proof(transfers: Transfers, known: float, deadline: float) -> Proof:
    """The least time of transfers, or what is known of it when time is up. Not collective.

    Parameters
    ----------
    transfers : Transfers
        What is to go.
    known : float
        A time in which it can.
    deadline : float
        When to stop, on the clock of `time.monotonic`.
    """
    unit = common_unit(transfers.duration)
    bound = transfers.bound
    if unit is None:
        return Proof(None, bound)
    durations = np.rint(transfers.duration / unit).astype(np.int64)
    least, known_units = round(bound / unit), math.ceil(known / unit - TINY)
    for limit in range(least, known_units):
        start, impossible = _fitted(transfers, durations, limit, deadline - time.monotonic())
        if start is not None:
            return Proof(np.multiply(start, unit, dtype=np.float64), limit * unit)
        if not impossible:
            return Proof(None, limit * unit)
    return Proof(None, known)


def common_unit(durations: Floats) -> float | None:
    """The largest number of which all durations are multiples; None where it is too small a part of them to count on."""
    parts = durations * UNITS
    whole = np.rint(parts)
    if not len(durations) or np.abs(parts - whole).max() > TINY * UNITS:
        return None
    return float(np.gcd.reduce(whole.astype(np.int64))) / UNITS


def _fitted(transfers: Transfers, durations: Ints, limit: int, seconds: float) -> tuple[Ints | None, bool]:
    """Begins of transfers that end within a time, and whether there are none for certain."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    choices = limit - durations + 1  # at least one: a port's sum is no less than each of its durations
    columns = int(choices.sum())
    if seconds < 0.005 or float((choices * (1.0 + 2.0 * durations)).sum()) > LARGEST:
        return None, False
    which = np.repeat(np.arange(transfers.number), choices)
    begin = np.arange(columns) - np.repeat(np.cumsum(choices) - choices, choices)
    lasting = durations[which]
    column = np.repeat(np.arange(columns), lasting)
    moment = begin[column] + np.arange(len(column)) - np.repeat(np.cumsum(lasting) - lasting, lasting)
    sources = int(transfers.source.max()) + 1
    ports = [side[which[column]] for side in (transfers.source, sources + transfers.target)]
    rows = np.concatenate([which, *(transfers.number + port * limit + moment for port in ports)])
    count = transfers.number + (sources + int(transfers.target.max()) + 1) * limit
    places = (rows, np.concatenate([np.arange(columns), column, column]))
    matrix = csr_array((np.ones(len(rows)), places), shape=(count, columns))
    found = milp(
        np.zeros(columns),
        constraints=LinearConstraint(matrix, (np.arange(count) < transfers.number).astype(np.float64), np.ones(count)),
        bounds=Bounds(0, 1),
        integrality=np.ones(columns),
        options={"time_limit": seconds},
    )
    if found.x is None:
        return None, found.status == 2  # infeasible, not out of time
    chosen = np.flatnonzero(found.x > 0.5)
    start = np.empty(transfers.number, np.int64)
    start[which[chosen]] = begin[chosen]
    return start, False
