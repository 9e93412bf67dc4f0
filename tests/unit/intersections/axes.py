"""Random pairs of axes, and what each process of the first shares with the second, found one element at a time."""

from __future__ import annotations

import numpy as np
from oracle import deal

from pyscalapack_redist import BlockCyclic

BLOCKS = (1, 2, 3, 4, 5, 7, 8, 12, 30, 1000)
PROCESSES = (1, 1, 2, 3, 4, 5, 7, 9)


def random_axis(rng: np.random.Generator, n: int) -> BlockCyclic:
    """Any source; a third starts inside a larger array; the last block is cut more often than not."""
    processes = int(rng.choice(PROCESSES))
    offset = int(rng.integers(0, 25)) if rng.random() < 0.33 else 0
    return BlockCyclic(n, int(rng.choice(BLOCKS)), processes, int(rng.integers(processes)), offset)


def random_axes(rng: np.random.Generator) -> tuple[BlockCyclic, BlockCyclic]:
    """Two axes of the same number of elements: none, one, few (processes with nothing), or several periods."""
    n = int(rng.choice([0, 1, rng.integers(2, 9), rng.integers(9, 120), rng.integers(120, 300)]))
    return random_axis(rng, n), random_axis(rng, n)


def places(axis: BlockCyclic) -> list[tuple[int, int]]:
    """Owner and local index of each element, found by dealing."""
    held = deal(axis.n + axis.offset, axis.block, axis.processes, axis.source)
    where = {g: (p, local) for p, mine in enumerate(held) for local, g in enumerate(mine)}
    return [where[i + axis.offset] for i in range(axis.n)]


def shared(a: BlockCyclic, b: BlockCyclic) -> list[list[tuple[int, int, int]]]:
    """For each process of a and each of its elements: the process of b, and the places in both local arrays."""
    found: list[list[tuple[int, int, int]]] = [[] for _ in range(a.processes)]
    for (p, x), (q, y) in zip(places(a), places(b), strict=True):
        found[p].append((q, x, y))
    return found
