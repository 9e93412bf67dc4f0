"""The suite `broad`: random cases from a fixed seed, so that nothing can be tuned to a few named ones.

Drawn with `random()` alone, whose sequence Python keeps from version to version: everybody has the same cases.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from ..cases import Case
from ..layouts import Layout
from .methods import named_methods
from .plot import plot
from .suite import Suite

__all__ = ["BROAD", "draw"]

T = TypeVar("T")

SEED = 1969
CASES = {2: 36, 4: 8, 8: 8, 16: 8}  # for each number of ranks
DTYPES = ("float64", "float64", "float32", "complex128", "int8", "V24")
MIB = 2**20
LEAST, MOST, MOST_IN_ALL = 4 * MIB, 64 * MIB, 256 * MIB  # bytes of a rank's part of what moves, and of all of them
TINY = 6  # one case of so many is
TINY_SIDE = 200
MOST_UNSQUARE = 64
LARGEST_BLOCK = 1000
ROUNDS = 2  # in which a large matrix's blocks are dealt out at least, lest one rank have nearly all


def draw(seed: int, ranks: int, count: int) -> list[Case]:
    """So many random cases on so many ranks. Not collective."""
    rng = random.Random(f"{seed} {ranks}")
    return [_case(rng, ranks) for _ in range(count)]


def _case(rng: random.Random, ranks: int) -> Case:
    dtype = np.dtype(_choice(rng, DTYPES))
    if _between(rng, 1, TINY) == 1:
        shape, rounds = (_skewed(rng, 4, TINY_SIDE), _skewed(rng, 4, TINY_SIDE)), 0
    else:
        local = _skewed(rng, LEAST, min(MOST, MOST_IN_ALL // ranks))
        shape, rounds = _sides(rng, local * ranks // dtype.itemsize), ROUNDS
    in_c_order = _choice(rng, ((), (), (), (), (), (0,), (1,)))
    sub_arrays = _choice(rng, ((), (), (), (), (), (0,), (1,), (0, 1)))
    before, after = (
        _layout(rng, shape, ranks, rounds, k in sub_arrays, "C" if k in in_c_order else "F") for k in range(2)
    )
    return Case(shape, before, after, dtype)


def _sides(rng: random.Random, elements: int) -> tuple[int, int]:
    """Rows and columns of about so many elements: square, tall or wide."""
    unsquare = float(_skewed(rng, 1, MOST_UNSQUARE))
    ratio = _choice(rng, (1.0, unsquare, 1 / unsquare))
    rows = round(math.sqrt(elements * ratio))
    return rows, elements // rows


def _layout(rng: random.Random, shape: tuple[int, int], ranks: int, rounds: int, sub_array: bool, order: str) -> Layout:
    rows = _choice(rng, [n for n in range(1, ranks + 1) if ranks % n == 0])
    grid = (rows, ranks // rows)
    block = _block(rng), _block(rng)
    if rng.random() < 0.5:
        block = block[0], block[0]
    if rounds:
        most = [max(1, n // (rounds * p)) for n, p in zip(shape, grid, strict=True)]
        block = min(block[0], most[0]), min(block[1], most[1])
    source = tuple(_between(rng, 0, p - 1) for p in grid) if rng.random() < 0.25 else (0, 0)
    if not sub_array:
        return Layout(grid, block, source, order=order)
    offset = tuple(_between(rng, 0, n // 8) for n in shape)
    whole = tuple(o + n + _between(rng, 0, n // 8) for o, n in zip(offset, shape, strict=True))
    return Layout(grid, block, source, whole=whole, offset=offset, order=order)


def _block(rng: random.Random) -> int:
    """A block size: single elements, a power of two, a prime, or anything."""
    kind = rng.random()
    size = _skewed(rng, 1, LARGEST_BLOCK)
    if kind < 0.15:
        return 1
    if kind < 0.35:
        return 1 << (size.bit_length() - 1)
    if kind < 0.6:
        return next(n for n in range(max(2, size), 1, -1) if all(n % k for k in range(2, math.isqrt(n) + 1)))
    return size


def _choice(rng: random.Random, some: Sequence[T]) -> T:
    return some[int(rng.random() * len(some))]


def _between(rng: random.Random, least: int, most: int) -> int:
    return least + int(rng.random() * (most - least + 1))


def _skewed(rng: random.Random, least: int, most: int) -> int:
    """A number whose logarithm is evenly spread."""
    return min(most, round(least * math.pow(most / least, rng.random())))


BROAD = Suite(
    cases=tuple(case for ranks, count in CASES.items() for case in draw(SEED, ranks, count)),
    quick=tuple(case for ranks in CASES for case in draw(SEED, ranks, 40) if case.elements < TINY_SIDE**2),
    methods=named_methods("auto", "pxgemr2d", "memcpy"),
    plot=functools.partial(plot, bars=False, beside=("memcpy",)),
)
