"""The layouts between which a plan moves an array, descriptors or tiles: what plans ask of either."""

from __future__ import annotations

from ..errors import DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.letters import transposes
from ..layout.tiles import Layout, Tiles

__all__ = [
    "Layout",
    "descriptors",
    "has_tiles",
    "local_shapes",
    "moved",
    "process_coords",
    "process_shapes",
]


def local_shapes(layout: Layout) -> list[tuple[int, ...]]:
    """Of this rank's local arrays; of a descriptor there is one, of tiles there are any number. Not collective."""
    return [*layout.local_shapes] if isinstance(layout, Tiles) else [layout.local_shape]


def process_shapes(a: Layout, b: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Processes of both along each dimension; with tiles, in all. Not collective."""
    if isinstance(a, Descriptor) and isinstance(b, Descriptor):
        return a.places.shape, b.places.shape
    return (max(1, len(a.ranks)),), (max(1, len(b.ranks)),)


def process_coords(a: Layout, b: Layout) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """This rank's coordinates in process sets of these shapes; None outside. Not collective."""
    if isinstance(a, Descriptor) and isinstance(b, Descriptor):
        return a.place, b.place
    before, after = (_number_in(layout) for layout in (a, b))
    return before, after


def _number_in(layout: Layout) -> tuple[int, ...] | None:
    comm, ranks = layout.comm, layout.ranks
    return (ranks.index(comm.Get_rank()),) if comm is not None and comm.Get_rank() in ranks else None


def moved(layout: Layout, op: str) -> Layout:
    """The layout of op(A). Not collective."""
    return layout.T if transposes(op) else layout


def has_tiles(*layouts: object) -> bool:
    """Whether one of these is of tiles. Not collective."""
    return True in [isinstance(layout, Tiles) for layout in layouts]


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
