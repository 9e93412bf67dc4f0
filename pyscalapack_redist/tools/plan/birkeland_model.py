"""What sweeps of redistribution cost by the model of Birkeland & Sorevik (2007, section 5): start-ups and bytes.

A sweep makes each dimension of an array local once: r redistributions on a grid of r dimensions. Along a grid dimension
of P processes a process sends P - 1 messages. Eq (5.1) is one redistribution, Eq (5.2) a sweep, Eq (5.3) a sweep over a
grid of one dimension. Here P may differ from one grid dimension to the next and the sizes need not divide: the pieces are
then those of the process that has most. Where all divide, the figures are the paper's. No MPI.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Load", "Model", "crossover", "even_grid", "fitted", "moves", "places", "route", "sweep"]

LONGEST = 1e100  # seconds of a model: whole programs of so long messages still have a time that is a number


@dataclass(frozen=True)
class Load:
    """What one process sends: messages and bytes."""

    messages: float
    bytes: float

    def __add__(self, other: Load) -> Load:
        return Load(self.messages + other.messages, self.bytes + other.bytes)

    def times(self, factor: float) -> Load:
        """So many of it, one after another. Not collective."""
        return Load(factor * self.messages, factor * self.bytes)


@dataclass(frozen=True)
class Model:
    """A linear model of communication.

    Attributes
    ----------
    startup : float
        t_s, seconds for each message.
    per_byte : float
        t_w, seconds for each byte.
    """

    startup: float
    per_byte: float

    @classmethod
    def parse(cls, text: str) -> Model:
        """Read ts=SECONDS,tw=SECONDS.

        Raises
        ------
        ValueError
            Quotes what is wrong and says what it must be.
        """
        found: dict[str, float] = {}
        for part in text.split(","):
            name, _, value = part.partition("=")
            try:
                found[name.strip()] = float(value)
            except ValueError:
                found.clear()
                break
        good = found.keys() == {"ts", "tw"} and all(0 <= value <= LONGEST for value in found.values())
        if not good or not any(found.values()):
            raise ValueError(
                f"{text!r} must be ts=SECONDS,tw=SECONDS: the start-up of a message and the time of a byte, not negative, "
                f"not both 0 and at most {LONGEST:g}, as ts=2e-6,tw=1e-10"
            )
        return cls(found["ts"], found["tw"])

    def seconds(self, load: Load) -> float:
        """Time of a load. Not collective."""
        return load.messages * self.startup + load.bytes * self.per_byte

    def __str__(self) -> str:
        return f"ts={self.startup:.3g},tw={self.per_byte:.3g}"


def places(r: int, moved: int) -> tuple[int, ...]:
    """Array dimension of each grid dimension after so many redistributions of a sweep. Not collective.

    They start on the first r array dimensions; the last grid dimension moves first, each to the next array dimension.
    """
    return tuple(j + (j >= r - moved) for j in range(r))


def route(r: int) -> tuple[int, ...]:
    """The layouts that the paper's measurement goes through, by their number in a sweep. Not collective.

    There, back, and the first redistribution again: 2 r + 1 of them (section 6).
    """
    return (*range(r + 1), *range(r - 1, -1, -1), 1)


def moves(shape: Sequence[int], grid: Sequence[int], item: int) -> list[Load]:
    """Each redistribution of a sweep: Eq (5.1), for the process that has most. Not collective.

    Parameters
    ----------
    shape : sequence of int
        Global shape, of more dimensions than the grid.
    grid : sequence of int
        Processes along each grid dimension.
    item : int
        Bytes of an element.
    """
    r, loads = len(grid), []
    for moved in range(r):
        j = r - 1 - moved
        piece = [-(-n // p) for n, p in _spread(shape, grid, places(r, moved))]
        piece[j + 1] = -(-shape[j + 1] // grid[j])
        loads.append(Load(grid[j] - 1, (grid[j] - 1) * float(math.prod(piece)) * item))
    return loads


def _spread(shape: Sequence[int], grid: Sequence[int], where: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    for k, n in enumerate(shape):
        yield n, grid[where.index(k)] if k in where else 1


def sweep(shape: Sequence[int], grid: Sequence[int], item: int) -> Load:
    """A whole sweep: Eq (5.2), or (5.3) on a grid of one dimension. Not collective."""
    return sum(moves(shape, grid, item), Load(0, 0.0))


def even_grid(processes: int, dims: int) -> tuple[int, ...]:
    """The most even grid of exactly so many processes, the largest dimension first. Not collective."""
    if dims == 1:
        return (processes,)
    least = round(processes ** (1 / dims))
    for p in range(least + 1, 0, -1):
        if processes % p == 0 and p**dims <= processes:
            return (*even_grid(processes // p, dims - 1), p)
    return (processes, *[1] * (dims - 1))


def crossover(model: Model, nbytes: float, r: int) -> float | None:
    """Processes from which on a sweep over a grid of r equal dimensions takes less time than over one dimension.

    Eqs (5.2) and (5.3) without their approximations, sizes that divide. For r = 2 their difference is (P - 1)^2 (t_w V /
    P^4 - t_s), so the two meet at P^2 = sqrt(t_w V / t_s) processes, V being the bytes of the whole array. Not
    collective.

    Returns
    -------
    float or None
        Processes in all; None where one dimension is never slower (no start-ups).
    """
    if model.startup == 0:
        return None

    def gain(p: float) -> float:
        many, others = p**r, p - 1
        # both divided by p - 1, which they share
        ones = sum(p**k for k in range(r))
        bytes_saved = nbytes * (ones / many**2 - r / (p * many))
        return model.startup * (ones - r) + model.per_byte * bytes_saved if others else 0.0

    low, high = 1 + 1e-9, 2.0
    if gain(low) > 0:
        return 1.0
    while gain(high) <= 0:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if gain(middle) > 0 else (middle, high)
    return float(high**r)


def fitted(loads: Sequence[Load], seconds: Sequence[float]) -> Model:
    """The model nearest to measured times, all weighing alike whether short or long; neither number negative.

    Not collective.

    Raises
    ------
    ValueError
        There are no messages to fit to.
    """
    from scipy.optimize import nnls

    rows = [
        (load.messages / time, load.bytes / time) for load, time in zip(loads, seconds, strict=True) if load.messages
    ]
    if not rows:
        raise ValueError("there are no messages to fit a model to")
    table: NDArray[np.float64] = np.array(rows)
    scale = table.max(axis=0)
    found, _ = nnls(table / scale, np.ones(len(rows)))
    return Model(*(float(parameter) for parameter in found / scale))
