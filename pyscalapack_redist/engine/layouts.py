"""The layouts between which a plan moves an array, descriptors or tiles: what plans ask of either."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.group import Group
from ..comm.mpi import MPI
from ..errors import DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.letters import transposes
from ..layout.tiles import Tiles

__all__ = [
    "Layout",
    "comm_of",
    "copies_of",
    "descriptors",
    "has_tiles",
    "holds",
    "local_shapes",
    "moved",
    "placement_of",
    "process_coords",
    "process_shapes",
    "ranks_of",
    "spread",
    "storage_of",
]

Layout = Descriptor | Tiles


def comm_of(layout: Layout) -> MPI.Intracomm | None:
    """The communicator; None on paper. Not collective."""
    return layout.comm if isinstance(layout, Tiles) else layout.grid.comm


def ranks_of(layout: Layout) -> tuple[int, ...]:
    """The ranks that it is on, ascending. Not collective."""
    return layout.ranks if isinstance(layout, Tiles) else tuple(sorted(layout.grid.ranks.ravel().tolist()))


def holds(layout: Layout) -> bool:
    """Whether this rank has a local array of it, or a list of them. Not collective."""
    return isinstance(layout, Tiles) or layout.coords is not None


def copies_of(layout: Layout) -> int:
    """How many processes hold each element. Not collective."""
    return 1 if isinstance(layout, Tiles) else layout.copies


def local_shapes(layout: Layout) -> list[tuple[int, ...]]:
    """Of this rank's local arrays; of a descriptor there is one, of tiles there are any number. Not collective."""
    return [*layout.local_shapes] if isinstance(layout, Tiles) else [layout.local_shape]


def placement_of(layout: Layout) -> NDArray[np.int64]:
    """Rank at each place along the array dimensions. Not collective."""
    return layout.owners if isinstance(layout, Tiles) else layout.placement


def process_shapes(a: Layout, b: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Processes of both along each dimension; with tiles, in all. Not collective."""
    if isinstance(a, Descriptor) and isinstance(b, Descriptor):
        return a.places.shape, b.places.shape
    return (max(1, len(ranks_of(a))),), (max(1, len(ranks_of(b))),)


def process_coords(a: Layout, b: Layout) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """This rank's coordinates in process sets of these shapes; None outside. Not collective."""
    if isinstance(a, Descriptor) and isinstance(b, Descriptor):
        return a.place, b.place
    before, after = (_number_in(layout) for layout in (a, b))
    return before, after


def _number_in(layout: Layout) -> tuple[int, ...] | None:
    comm, ranks = comm_of(layout), ranks_of(layout)
    return (ranks.index(comm.Get_rank()),) if comm is not None and comm.Get_rank() in ranks else None


def moved(layout: Layout, op: str) -> Layout:
    """The layout of op(A). Not collective."""
    if not transposes(op):
        return layout
    return layout._transposed() if isinstance(layout, Tiles) else layout.T


def has_tiles(*layouts: object) -> bool:
    """Whether one of these is of tiles. Not collective."""
    return any(isinstance(layout, Tiles) for layout in layouts)


def descriptors(a: Layout, b: Layout, what: str) -> tuple[Descriptor, Descriptor]:
    """Two layouts that are descriptors; `what` is for no others. Not collective.

    Raises
    ------
    DescriptorError
        One is of tiles.
    """
    if isinstance(a, Tiles) or isinstance(b, Tiles):
        raise DescriptorError(f"{what} is for descriptors, and {a if isinstance(a, Tiles) else b!r} is of tiles")
    return a, b


def storage_of(layout: Layout) -> Any:
    """What may differ from rank to rank for one layout: leading dimensions, offsets. Not collective."""
    return (layout.offsets, layout.leading_dimensions) if isinstance(layout, Tiles) else layout.lld


def spread(mine: Layout | None, group: Group, comm: MPI.Intracomm) -> Layout:
    """Give a layout on `comm` to the ranks that do not have it. Collective over the group.

    Raises
    ------
    DescriptorError
        No rank has it.
    """
    known = group.share(None if mine is None else (isinstance(mine, Tiles), mine._packed()))
    if known is None:
        raise DescriptorError("no rank knows the layout: CTXT is -1, or the descriptor None, on all of them")
    tiled, packed = known
    if mine is not None:
        return mine
    return Tiles._unpacked(packed, comm) if tiled else Descriptor._unpacked(packed, comm)
