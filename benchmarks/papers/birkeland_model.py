"""What sweeps of redistribution cost by the model of Birkeland & Sorevik (2007, section 5): start-ups and bytes.

A sweep makes each dimension of an array local once: r redistributions on a grid of r dimensions. Along a grid dimension
of P processes a process sends P - 1 messages. Eq (5.1) is one redistribution, Eq (5.2) a sweep, Eq (5.3) a sweep over a
grid of one dimension. Here P may differ from one grid dimension to the next and the sizes need not divide: the pieces are
then those of the process that has most. Where all divide, the figures are the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LONGEST = 1e100  # seconds of a model: whole programs of so long messages still have a time that is a number


class Load(NamedTuple):
    """What one process sends: messages and bytes."""

    messages: float
    bytes: float

    @classmethod
    def total(cls, loads: Sequence[Load], factor: float = 1.0) -> Load:
        """Loads one after another, so often."""
        return cls(factor * sum(one.messages for one in loads), factor * sum(one.bytes for one in loads))


class Model(NamedTuple):
    """A linear model of communication: t_s, seconds for each message, and t_w, seconds for each byte."""

    startup: float
    per_byte: float

    @classmethod
    def parse(cls, text: str) -> Model:
        """Read ts=SECONDS,tw=SECONDS; a ValueError says what it must be."""
        pairs = [part.partition("=") for part in text.split(",")]
        try:
            given = {name.strip(): float(value) for name, _, value in pairs}
        except ValueError:
            given = {}
        good = given.keys() == {"ts", "tw"} and all(0 <= value <= LONGEST for value in given.values())
        if not good or not any(given.values()):
            raise ValueError(
                f"{text!r} must be ts=SECONDS,tw=SECONDS: the start-up of a message and the time of a byte, not negative, "
                f"not both 0 and at most {LONGEST:g}, as ts=2e-6,tw=1e-10"
            )
        return cls(given["ts"], given["tw"])

    def seconds(self, load: Load) -> float:
        """Time of a load."""
        return load.messages * self.startup + load.bytes * self.per_byte

    def __str__(self) -> str:
        return f"ts={self.startup:.3g},tw={self.per_byte:.3g}"


def places(r: int, moved: int) -> tuple[int, ...]:
    """Array dimension of each grid dimension after so many redistributions of a sweep.

    They start on the first r array dimensions; the last grid dimension moves first, each to the next array dimension.
    """
    return tuple(j + (j >= r - moved) for j in range(r))


def route(r: int) -> tuple[int, ...]:
    """The layouts that the paper's measurement goes through (section 6), by their number in a sweep: there, back, and the
    first redistribution again, 2 r + 1 of them."""
    return (*range(r + 1), *range(r - 1, -1, -1), 1)


def moves(shape: Sequence[int], grid: Sequence[int], item: int) -> list[Load]:
    """Each redistribution of a sweep, Eq (5.1), for the process that has most; the array has more dimensions than the grid."""
    loads = []
    for moved in range(len(grid)):
        j = len(grid) - 1 - moved
        processes = [1] * len(shape)
        for k, p in zip(places(len(grid), moved), grid, strict=True):
            processes[k] = p
        processes[j + 1] = grid[j]
        piece = math.prod(-(-n // p) for n, p in zip(shape, processes, strict=True))
        loads.append(Load(grid[j] - 1, (grid[j] - 1) * float(piece) * item))
    return loads


def sweep(shape: Sequence[int], grid: Sequence[int], item: int) -> Load:
    """A whole sweep: Eq (5.2), or (5.3) on a grid of one dimension."""
    return Load.total(moves(shape, grid, item))


def even_grid(processes: int, dims: int) -> tuple[int, ...]:
    """The most even grid of exactly so many processes, the largest dimension first."""
    if dims == 1:
        return (processes,)
    least = round(processes ** (1 / dims))
    p = next(p for p in range(least + 1, 0, -1) if processes % p == 0 and p**dims <= processes)
    return (*even_grid(processes // p, dims - 1), p)


def crossover(model: Model, nbytes: float, r: int) -> float | None:
    """Processes from which on a sweep over a grid of r equal dimensions takes less time than over one dimension.

    Eqs (5.2) and (5.3) without their approximations, sizes that divide. For r = 2 their difference is (P - 1)^2 (t_w V /
    P^4 - t_s), so the two meet at P^2 = sqrt(t_w V / t_s) processes, V being the bytes of the whole array. None where one
    dimension is never slower (no start-ups).
    """
    if model.startup == 0:
        return None

    def gain(p: float) -> float:
        many, ones = p**r, sum(p**k for k in range(r))  # both sides divided by p - 1, which they share
        bytes_saved = nbytes * (ones / many**2 - r / (p * many))
        return model.startup * (ones - r) + model.per_byte * bytes_saved

    low, high = 1 + 1e-9, 2.0
    if gain(low) > 0:
        return 1.0
    while gain(high) <= 0:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if gain(middle) > 0 else (middle, high)
    return float(high**r)


def nearest(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """What a unit of each column costs, nearest to measured times, all weighing alike, short or long; no number negative."""
    from scipy.optimize import nnls

    table = np.array(rows) / np.array(seconds)[:, np.newaxis]
    scale = table.max(axis=0)
    costs: list[float] = (nnls(table / scale, np.ones(len(seconds)))[0] / scale).tolist()
    return costs
