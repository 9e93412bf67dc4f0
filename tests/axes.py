"""Random axes, block-cyclic and irregular, and what each process holds and shares, found one element at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from oracle import deal, random_irregular

from pyscalapack_redist import BlockCyclic, Blocks
from pyscalapack_redist.layout.axis import Irregular

BLOCKS = (1, 2, 3, 4, 5, 7, 8, 12, 30, 1000)
PROCESSES = (1, 1, 2, 3, 4, 5, 7, 9)


class Dealt(NamedTuple):
    """An axis, and for each process the local index and the index of each element that it holds, in local order."""

    axis: BlockCyclic | Irregular
    held: list[list[tuple[int, int]]]


def random_axis(rng: np.random.Generator, n: int, irregular: bool = False) -> Dealt:
    """Any source; a third starts inside a larger array; the last block is cut more often than not."""
    processes = int(rng.choice(PROCESSES))
    offset = int(rng.integers(0, 25)) if rng.random() < 0.33 else 0
    if not irregular:
        return deal_axis(BlockCyclic(n, int(rng.choice(BLOCKS)), processes, int(rng.integers(processes)), offset))
    whole = n + offset + int(rng.integers(0, 6))
    blocks = random_irregular(rng, whole, processes)
    return Dealt(Irregular(n, Blocks(*blocks), processes, offset), inside(deal(whole, blocks, processes), n, offset))


def deal_axis(axis: BlockCyclic) -> Dealt:
    """An axis of blocks of one size, dealt out."""
    dealt = deal(axis.n + axis.offset, axis.block, axis.processes, axis.source)
    return Dealt(axis, inside(dealt, axis.n, axis.offset))


def inside(dealt: list[list[int]], n: int, offset: int) -> list[list[tuple[int, int]]]:
    """Local index in the larger array, and index, of the elements that are in the axis."""
    return [[(x, i - offset) for x, i in enumerate(some) if 0 <= i - offset < n] for some in dealt]


def random_number(rng: np.random.Generator) -> int:
    """How many elements: none, one, few (processes with nothing), or several periods."""
    return int(rng.choice([0, 1, rng.integers(2, 9), rng.integers(9, 120), rng.integers(120, 300)]))


def random_pair(rng: np.random.Generator, irregular: tuple[bool, bool] = (False, False)) -> tuple[Dealt, Dealt]:
    """Two axes of one number of elements."""
    n = random_number(rng)
    return random_axis(rng, n, irregular[0]), random_axis(rng, n, irregular[1])


def shared(a: Dealt, b: Dealt) -> list[list[tuple[int, int, int]]]:
    """For each process of a and each of its elements: the process of b, and the places in both local arrays."""
    where = {i: (q, y) for q, some in enumerate(b.held) for y, i in some}
    return [[(where[i][0], x, where[i][1]) for x, i in some] for some in a.held]
