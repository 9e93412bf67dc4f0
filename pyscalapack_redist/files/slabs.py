"""An array in slabs that are contiguous in a file, each dealt out to the ranks that read or write it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .view import Piece, first_element

__all__ = ["SLAB_BYTES", "Slab", "slabs"]

SLAB_BYTES = 16 * 2**20  # of each rank that reads or writes


class Slab(NamedTuple):
    """A slab: what it is of the array, and its layout over the ranks that read or write it.

    Attributes
    ----------
    part : tuple of slice
        Of the array.
    layout : Descriptor
        One contiguous part for each of these ranks, in the order in which they are in the file.
    """

    part: Piece
    layout: Descriptor

    @property
    def own(self) -> Piece:
        """This rank's part, in the whole array; empty slices where it has none."""
        coords = self.layout.coords
        if coords is None:
            return tuple(slice(0, 0) for _ in self.part)
        starts = [
            whole.start + p * axis.block
            for whole, axis, p in zip(self.part, self.layout.distributions, coords, strict=True)
        ]
        return tuple(slice(low, low + n) for low, n in zip(starts, self.layout.local_shape, strict=True))

    def first(self, shape: Sequence[int], order: str) -> int:
        """Number, in the file, of this rank's first element."""
        return first_element(self.own, shape, order)


def slabs(desc: Descriptor, item: int, order: str, ranks: int) -> Iterator[Slab]:
    """The slabs of an array, in the order in which they are in the file. Not collective; the same on all ranks.

    A slab has at most `ranks` times SLAB_BYTES, or one element for each rank. No part is as large as twice the slab's
    bytes by `ranks`, unless it is one element.

    Parameters
    ----------
    desc : Descriptor
        Layout of the array.
    item : int
        Bytes of an element.
    order : {"C", "F"}
        Which index runs fastest in the file.
    ranks : int
        How many ranks read or write: the first ones of the communicator.
    """
    grids: dict[tuple[int, ...], ProcessGrid] = {}
    for part in _boxes(desc.shape, max(ranks, SLAB_BYTES * ranks // item), order, ranks):
        shape = [one.stop - one.start for one in part]
        processes = _dealt(shape, ranks) if order == "C" else _dealt(shape[::-1], ranks)[::-1]
        if processes not in grids:
            grids[processes] = ProcessGrid(processes, desc.grid.comm, order="row" if order == "C" else "column")
        yield Slab(part, Descriptor(shape, None, grids[processes]))


def _boxes(shape: Sequence[int], limit: int, order: str, ranks: int) -> Iterator[Piece]:
    """Boxes of at most `limit` elements that are contiguous in the file, one after another."""
    if 0 in shape:
        return
    from_slowest = list(range(len(shape)))[:: 1 if order == "C" else -1]
    below, place = 1, len(shape) - 1
    while place and below * shape[from_slowest[place]] <= limit:
        below *= shape[from_slowest[place]]
        place -= 1
    cut, outer = from_slowest[place], from_slowest[:place]
    length = _length(shape[cut], limit // below, ranks)
    for fixed in itertools.product(*(range(shape[k]) for k in outer)):
        chosen = {k: slice(i, i + 1) for k, i in zip(outer, fixed, strict=True)}
        for low in range(0, shape[cut], length):
            chosen[cut] = slice(low, min(low + length, shape[cut]))
            yield tuple(chosen.get(k, slice(0, n)) for k, n in enumerate(shape))


def _length(n: int, most: int, ranks: int) -> int:
    """How many indices of the dimension that is cut a slab is to have: `most` or fewer, so that hardly a rank is idle.

    Either every rank gets as many of them as the others, or as many ranks share each.
    """
    if n <= most:
        return n
    return most - most % ranks if most >= ranks else ranks // -(-ranks // most)


def _dealt(shape: Sequence[int], ranks: int) -> tuple[int, ...]:
    """Processes along each dimension, the slowest first, so that each has one contiguous part.

    The slowest dimension is dealt out. While there are fewer indices than processes for them, each index has several,
    among which the next dimension is dealt out.
    """
    made = []
    for n in shape:
        block = -(-n // ranks)
        made.append(-(-n // block))
        ranks = ranks // n if block == 1 else 1
    return tuple(made)
