"""An array in slabs that are contiguous in a file, each dealt out to the ranks that read or write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..blockcyclic import BlockCyclic
from ..descriptor import Descriptor
from ..grid import ProcessGrid
from .view import first_element, pieces

__all__ = ["SLAB_BYTES", "Slab", "slabs"]

SLAB_BYTES = 16 * 2**20  # of each rank that reads or writes


class Slab(NamedTuple):
    """A slab: what it is of the array, and its layout over the ranks that read or write it.

    Attributes
    ----------
    part : tuple of slice
        Of the array.
    layout : Descriptor
        One contiguous part for each of these ranks.
    """

    part: tuple[slice, ...]
    layout: Descriptor

    @property
    def own(self) -> tuple[slice, ...]:
        """This rank's part, in the whole array; empty slices where it has none."""
        held = [self.layout.global_indices(k) for k in range(self.layout.ndim)]
        return tuple(
            slice(whole.start + int(some[0]), whole.start + int(some[-1]) + 1) if some.size else slice(0, 0)
            for whole, some in zip(self.part, held, strict=True)
        )

    def first(self, shape: tuple[int, ...], order: str) -> int:
        """Number, in the file, of this rank's first element."""
        return first_element(self.own, shape, order)


def slabs(desc: Descriptor, item: int, order: str, ranks: int) -> Iterator[Slab]:
    """The slabs of an array, in the order in which they are in the file. Not collective; the same on all ranks.

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
    grid = ProcessGrid((ranks,), desc.grid.comm)
    whole = [BlockCyclic(n, max(n, 1), 1) for n in desc.shape]
    dims = list(range(desc.ndim))[:: 1 if order == "C" else -1]
    for part in pieces(whole, (0,) * desc.ndim, item, order, SLAB_BYTES * ranks):
        shape = [one.stop - one.start for one in part]
        slowest = next((k for k in dims if shape[k] > 1), dims[0])
        axes = [0 if k == slowest else None for k in range(desc.ndim)]
        yield Slab(part, Descriptor(shape, None, grid, axes=axes))
