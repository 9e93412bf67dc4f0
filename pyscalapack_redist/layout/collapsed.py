"""Two dimensions taken as one: a lower-dimensional projection of a layout (Birkeland & Sorevik, section 4).

Element (i, j) of dimensions of n_i and n_j elements, i running faster, becomes element i + n_i j of the one dimension.
Local arrays do not change, so the one dimension must be dealt out in blocks of one size to the same processes.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import DescriptorError
from .blockcyclic import BlockCyclic

__all__ = ["Merged", "merged"]


class Merged(NamedTuple):
    """Two dimensions as one.

    Attributes
    ----------
    axis : BlockCyclic
        How the one dimension is dealt out.
    both : bool
        Whether both were distributed. Coordinate c of `axis` is then the process whose distance from the source is c mod
        P along the faster dimension of P processes, and c // P along the slower one.
    """

    axis: BlockCyclic
    both: bool


def merged(fast: BlockCyclic, slow: BlockCyclic) -> Merged:
    """Two dimensions as one, `fast` running faster. Not collective.

    Raises
    ------
    DescriptorError
        The elements of a process would not be blocks of one size; says what would make them so.
    """
    n = fast.n * slow.n
    if fast.processes == 1:
        return Merged(BlockCyclic(n, max(1, fast.n) * slow.block, slow.processes, slow.source), False)
    if slow.processes == 1:
        if fast.n <= fast.block:  # one process holds it all
            return Merged(BlockCyclic(n, max(1, n), fast.processes, fast.source), False)
        if slow.n > 1 and fast.n % fast.stride:
            raise DescriptorError(
                f"{_told(fast)} runs faster, and its last round of blocks is not full: its size must be a multiple of block "
                f"x processes = {fast.stride}; choose another block, or merge in the other order where memory allows it"
            )
        return Merged(BlockCyclic(n, fast.block, fast.processes, fast.source), False)
    if n and (fast.n != fast.stride or slow.block != 1):
        raise DescriptorError(
            f"both are distributed: the faster ({_told(fast)}) must be one block for each process, of equal size, and the "
            f"slower ({_told(slow)}) must have blocks of 1; redistribute one of them first"
        )
    return Merged(BlockCyclic(n, fast.block, fast.processes * slow.processes), True)


def _told(axis: BlockCyclic) -> str:
    return f"a dimension of {axis.n} in blocks of {axis.block} over {axis.processes} processes"
