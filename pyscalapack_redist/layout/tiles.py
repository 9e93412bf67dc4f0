"""Tiles: the layout of an array cut by a list of edges along each dimension, with each tile on any process.

Also the reading of layout arguments: a Descriptor, Tiles, or ScaLAPACK's nine integers with a communicator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..comm.agreement import agreement
from ..comm.groups import group_of
from ..comm.guard import holding_interrupts
from ..comm.mpi import MPI
from ..comm.vote import digest
from ..errors import ArrayError, DescriptorError, RedistributionError, shown
from ..tracebacks import brief_methods
from .arrays import new_array
from .axis import MOST_DIMENSIONS, Blocks, Irregular, integers, whole_number
from .descriptor import Descriptor
from .grid import checked_communicator, named_communicator, same_ranks, to_named_communicator, translate_ranks

Ints = NDArray[np.int64]
Window = tuple[slice, ...]


@brief_methods
class Tiles:
    """The layout of an array cut into tiles, each on any process. A process may have any number of tiles. Not collective.

    The constructor is for matrices; `Tiles.from_edges` is for arrays of any number of dimensions.

    This is the general layout of COSTA, `custom_layout` (Kabić et al., ISC 2021). If tile (i, j) is on process (r(i), c(j)) of
    a grid, a `Descriptor` with `Blocks` is the better choice: it has one local array for each process. Here each tile has its
    own, and a plan has a box for each tile and each process that shares elements with it: some 8 microseconds to plan and 10 in
    the first call, on one core. Later calls take 4 microseconds for each own tile, plus the time for moving. A thousand tiles
    on a rank are fine; do not use a million tiles of single elements.

    Parameters
    ----------
    row_edges, column_edges : sequence of int
        First row of each row of tiles, ascending from 0, then the number of rows of the matrix; likewise columns. Equal
        adjacent edges make an empty row or column of tiles.
    owners : array_like of int
        Rank of `comm` that owns each tile: one row for each row of tiles.
    comm : MPI.Intracomm, optional
        Communicator of the ranks. None: a layout on paper.
    offsets : sequence of int, optional
        This rank's local array is one array of one dimension, with element (0, 0) of its k-th own tile at `offsets[k]`; tiles
        are stored by columns. By default the local array is a list of arrays of two dimensions, of any strides.
    leading_dimensions : sequence of int, optional
        With `offsets`: elements from one column to the next of each own tile. By default the number of rows.

    Attributes
    ----------
    edges : tuple of ndarray of int64
        The edges along each dimension, read-only.
    row_edges, column_edges : ndarray of int64
        Of a matrix, `edges[0]` and `edges[1]`.
    owners : ndarray of int64
        Rank of each tile, read-only.
    comm : MPI.Intracomm or None
        The communicator.
    ndim : int
        Number of dimensions.
    shape : tuple of int
        Shape of the array.
    own : ndarray of int64
        Indices of each tile of this rank, row by row: the order of its local arrays. Read-only.
    local_shapes : list of tuple of int
        Shape of each own tile.
    windows : list of tuple of slice
        Part of the array in each own tile.
    offsets, leading_dimensions : tuple of int or None
        The arguments of this rank.

    Raises
    ------
    DescriptorError
        An argument is invalid; the text has its name, its value, and the valid values.
    """

    copies = 1
    parent = None
    is_product = False  # a rank may have any number of tiles

    def __init__(
        self,
        row_edges: ArrayLike,
        column_edges: ArrayLike,
        owners: ArrayLike,
        comm: MPI.Intracomm | None = None,
        *,
        offsets: Sequence[int] | None = None,
        leading_dimensions: Sequence[int] | None = None,
    ) -> None:
        self._cut({"row_edges": row_edges, "column_edges": column_edges}, owners, comm)
        self.offsets, self.leading_dimensions = self._checked_storage(offsets, leading_dimensions)

    @classmethod
    def from_edges(cls, edges: Sequence[ArrayLike], owners: ArrayLike, comm: MPI.Intracomm | None = None) -> Tiles:
        """Tiles of an array of any number of dimensions. The local array is a list of arrays, of any strides. Not collective.

        Parameters
        ----------
        edges : sequence of sequence of int
            For each dimension: first index of each tile, ascending from 0, then the size of the dimension. Equal adjacent edges
            make empty tiles.
        owners : array_like of int
            Rank of `comm` that owns each tile: an array with a dimension for each of `edges`.
        comm : MPI.Intracomm, optional
            Communicator of the ranks. None: a layout on paper.

        Raises
        ------
        DescriptorError
            An argument is invalid; the text has its name, its value, and the valid values.
        """
        expected = f"must be a sequence with a list of edges for each dimension, from 1 to {MOST_DIMENSIONS}"
        try:
            lists = list(edges)
        except TypeError:
            raise DescriptorError(f"edges = {edges!r} {expected}") from None
        if not 1 <= len(lists) <= MOST_DIMENSIONS:
            raise DescriptorError(f"edges has {len(lists)} entries: it {expected}")
        tiles = object.__new__(cls)
        tiles._cut({f"edges[{k}]": values for k, values in enumerate(lists)}, owners, comm)
        tiles.offsets = tiles.leading_dimensions = None
        return tiles

    def _cut(self, edges: dict[str, ArrayLike], owners: ArrayLike, comm: MPI.Intracomm | None) -> None:
        """Check the arguments and take them. `edges` has a name for each dimension."""
        self.comm = checked_communicator(comm)
        self.edges = tuple([_edges(name, values) for name, values in edges.items()])
        tiles = tuple([len(values) - 1 for values in self.edges])
        self.owners = _owners(owners, tiles, None if comm is None else comm.Get_size())
        me = -1 if comm is None else comm.Get_rank()
        self.own: Ints = np.argwhere(self.owners == me)
        for array in (*self.edges, self.owners, self.own):
            array.setflags(write=False)

    # -- dimensions

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.edges)

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple([int(values[-1]) for values in self.edges])

    @property
    def row_edges(self) -> Ints:
        """Of a matrix, the edges of rows."""
        return self._edges_of_matrix()[0]

    @property
    def column_edges(self) -> Ints:
        """Of a matrix, the edges of columns."""
        return self._edges_of_matrix()[1]

    def _edges_of_matrix(self) -> tuple[Ints, ...]:
        if self.ndim != 2:
            raise AttributeError(f"row_edges and column_edges are of matrices, not of {self!r}: use edges")
        return self.edges

    # -- owners

    @functools.cached_property
    def distributions(self) -> tuple[Irregular, ...]:
        """Distribution of each dimension, with the index of a tile in place of a process.

        So tiles form a grid like a descriptor's processes; but one process may have several tiles.
        """
        return tuple(
            [Irregular(int(edges[-1]), Blocks(np.diff(edges)), max(1, len(edges) - 1)) for edges in self.edges]
        )

    @functools.cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks with tiles, ascending."""
        return tuple(np.unique(self.owners).tolist())

    def owner(self, *indices: Any) -> Any:
        """Rank that owns the element at `indices`, one for each dimension: ints, or arrays that broadcast. Not collective.

        Raises
        ------
        IndexError
            An index is outside the array, or their number is not `ndim`.
        """
        if len(indices) != self.ndim:
            raise IndexError(f"{len(indices)} indices for an array of {self.ndim} dimensions")
        ranks = self.owners[tuple([axis.owner(i) for axis, i in zip(self.distributions, indices, strict=True)])]
        return ranks if isinstance(ranks, np.ndarray) else int(ranks)

    @property
    def placement(self) -> Ints:
        """Rank of each tile: `owners`."""
        return self.owners

    places = placement  # as a descriptor's

    @property
    def own_places(self) -> list[tuple[int, ...]]:
        """Indices of this rank's tiles, in the order of its local arrays."""
        return list(map(tuple, self.own.tolist()))

    def _for_rank(self, rank: int) -> Tiles:
        """This layout with the tiles of another rank, as separate arrays."""
        view = self._copy()
        view.own, view.offsets, view.leading_dimensions = np.argwhere(self.owners == rank), None, None
        return view

    @property
    def _has_local(self) -> bool:
        """True: every rank has a list of local arrays, which may be empty."""
        return True

    @property
    def _storage(self) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """The part of a layout that may differ between ranks: `offsets` and `leading_dimensions`."""
        return self.offsets, self.leading_dimensions

    @functools.cached_property
    def local_shapes(self) -> list[tuple[int, ...]]:
        """Shape of each own tile."""
        sizes = [np.diff(edges)[at].tolist() for edges, at in zip(self.edges, self.own.T, strict=True)]
        return list(zip(*sizes, strict=True))

    @functools.cached_property
    def windows(self) -> list[Window]:
        """Slices of the array for each own tile: `array[window]`."""
        axes = zip(self.edges, self.own.T, strict=True)
        return list(zip(*[map(slice, edges[at].tolist(), edges[at + 1].tolist()) for edges, at in axes], strict=True))

    # -- local arrays

    def empty(self, dtype: DTypeLike = np.float64, order: str = "F") -> Any:
        """A new local array of this rank, uninitialized. Not collective.

        Returns
        -------
        list of ndarray, or ndarray
            An array in this order, "F" or "C", for each own tile; with `offsets`, one array of one dimension for all tiles.
        """
        return self._new_local(dtype, False, order)

    def zeros(self, dtype: DTypeLike = np.float64, order: str = "F") -> Any:
        """A new local array of this rank, of zeros; as from `empty`. Not collective."""
        return self._new_local(dtype, True, order)

    def from_function(self, f: Callable[..., Any], dtype: DTypeLike = np.float64) -> Any:
        """A new local array of this rank with elements f(i, j, ...) of the global indices; as from `empty`. Not collective.

        Parameters
        ----------
        f : callable
            Called for each own tile with its indices along each dimension, as from `numpy.ogrid`: of a matrix the row indices,
            of shape (rows, 1), and the column indices, of shape (1, columns).
        dtype : dtype
            Dtype of the array.
        """
        local = self.zeros(dtype)
        for array, window in zip(self.views(local), self.windows, strict=True):
            array[...] = f(*np.ix_(*[np.arange(span.start, span.stop) for span in window]))
        return local

    def views(self, local: Any, name: str = "local") -> list[Any]:
        """The own tiles in this rank's local array, each an array of `ndim` dimensions. Not collective.

        Parameters
        ----------
        local : list of ndarray, ndarray of one dimension, or None
            A list with an array for each own tile, which is returned unchanged; or, with `offsets`, the array of all tiles,
            which gives views. None if no own tile has elements.
        name : str
            Name of the argument in errors.

        Raises
        ------
        ArrayError
            `local` is not a list with an entry for each tile, or not an array with room for all tiles.
        """
        has_elements = any(0 not in shape for shape in self.local_shapes)
        if local is None and not has_elements:
            return [None] * len(self.own)
        if local is None:
            raise ArrayError(f"{name} is None, but this rank has {self._tiles_here()}: pass {self._expected()}")
        if isinstance(local, list | tuple):
            if len(local) != len(self.own):
                raise ArrayError(f"{name} has {len(local)} entries: it must be {self._expected()}")
            return list(local)
        if self.offsets is None or self.leading_dimensions is None:
            raise ArrayError(f"{name} is a {type(local).__name__}: it must be {self._expected()}")
        if not isinstance(local, np.ndarray) or isinstance(local, np.ma.MaskedArray):
            raise ArrayError(f"{name} is a {type(local).__name__}: it must be {self._expected()}")
        if local.ndim != 1 or len(local) < self._room:
            raise ArrayError(f"{name} has shape {local.shape}: it must be {self._expected()}")
        step = local.strides[0]
        places = zip(self.local_shapes, self.offsets, self.leading_dimensions, strict=True)
        return [
            as_strided(local[first:], shape, (step, leading * step)) if 0 not in shape else np.empty(shape, local.dtype)
            for shape, first, leading in places
        ]

    def own_arrays(self, local: Any, name: str = "local") -> list[NDArray[Any] | None]:
        """As `views`, each of the shape of its tile; None for a tile without elements. Not collective.

        Raises
        ------
        ArrayError
            An entry is no array, or has another shape.
        """
        views = self.views(local, name)
        for k, (array, shape) in enumerate(zip(views, self.local_shapes, strict=True)):
            if array is None and 0 in shape:
                continue
            tile = f"tile {tuple(self.own[k].tolist())} of {self!r}"
            if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
                description = "None" if array is None else f"a {type(array).__name__}"
                raise ArrayError(
                    f"{name}[{k}] is {description}: it must be a NumPy array of shape {shape}, that of {tile}"
                )
            if array.shape != shape:
                raise ArrayError(f"{name}[{k}] has shape {array.shape}, but {tile} has shape {shape}")
        return [array if array is not None and array.size else None for array in views]

    def _array_name(self, name: str, k: int) -> str:
        """How a user writes the k-th of `own_arrays` of an argument."""
        return name if self.offsets is not None else f"{name}[{k}]"

    def _is_stored_as(self, other: object) -> bool:
        """Whether the local arrays of another layout have the same elements in the same order."""
        return isinstance(other, Tiles) and self == other and self._storage == other._storage

    def _new_local(self, dtype: DTypeLike, zeroed: bool, order: str = "F") -> Any:
        if self.offsets is not None:
            return new_array((self._room,), dtype, order, zeroed)
        return [new_array(shape, dtype, order, zeroed) for shape in self.local_shapes]

    def _tiles_here(self) -> str:
        return f"{len(self.own)} tile{'' if len(self.own) == 1 else 's'}"

    def _expected(self) -> str:
        if self.offsets is not None:
            return f"a NumPy array of one dimension with at least {self._room} elements, because of offsets="
        dimensions = f"{self.ndim} dimension{'' if self.ndim == 1 else 's'}"
        return f"a list with a NumPy array of {dimensions} for each own tile, {len(self.own)} here"

    @functools.cached_property
    def _room(self) -> int:
        """Least number of elements of the array of one dimension."""
        places = zip(self.local_shapes, self.offsets or (), self.leading_dimensions or (), strict=True)
        return max((first + (n - 1) * leading + m for (m, n), first, leading in places if m and n), default=0)

    def _checked_storage(self, offsets: object, leading: object) -> tuple[Any, Any]:
        """Check `offsets` and `leading_dimensions`: an integer for each own tile."""
        if offsets is None:
            if leading is not None:
                raise DescriptorError(
                    "leading_dimensions without offsets: give offsets= as well, the position of each own tile"
                )
            return None, None
        rows = [max(1, m) for m, _ in self.local_shapes]
        arguments = {"offsets": offsets, "leading_dimensions": rows if leading is None else leading}
        storage = {name: integers(name, values, ": for each own tile").tolist() for name, values in arguments.items()}
        for name, values in storage.items():
            if len(values) != len(self.own):
                raise DescriptorError(
                    f"{name} has {len(values)} entries, but this rank has {self._tiles_here()}: give one for each, row by row"
                )
        for k, (value, least) in enumerate(zip(storage["leading_dimensions"], rows, strict=True)):
            whole_number(f"leading_dimensions[{k}]", value, least, ", the rows of its tile")
        return tuple(storage["offsets"]), tuple(storage["leading_dimensions"])

    # -- identity

    @property
    def T(self) -> Tiles:  # noqa: N802 - as NumPy's
        """The layout of the transpose, its dimensions reversed: without `offsets`, and with its own order of local arrays."""
        transpose = self._of_transpose()
        transpose.own = transpose.own[np.lexsort(transpose.own.T[::-1])]
        transpose.own.setflags(write=False)
        return transpose

    def _of_transpose(self) -> Tiles:
        """The layout of the transpose, with the local arrays in the order of this layout."""
        transpose = self._as_list()._copy()
        transpose.edges, transpose.owners, transpose.own = self.edges[::-1], self.owners.T, self.own[:, ::-1]
        return transpose

    def _as_list(self) -> Tiles:
        """This layout without `offsets`: its local arrays are lists."""
        if self.offsets is None:
            return self
        listed = self._copy()
        listed.offsets = listed.leading_dimensions = None
        return listed

    def on(self, comm: MPI.Intracomm) -> Tiles:
        """This layout with its owners as ranks of another communicator; itself for its own communicator. Not collective.

        Raises
        ------
        DescriptorError
            An owner is not in `comm`, or the layout is on paper.
        """
        if self.comm is None:
            raise DescriptorError(f"{self!r} is on paper: give it a communicator to run a redistribution on it")
        same = same_ranks(self.comm, comm)
        if same and self.comm == comm:
            return self
        view = self._copy()
        view.comm = comm
        if not same:
            ranks = np.array(self.ranks, np.int64)
            new_ranks = translate_ranks(ranks, self.comm, comm, self)
            view.owners = new_ranks[np.searchsorted(ranks, self.owners)] if len(ranks) else self.owners
            view.owners.setflags(write=False)
        return view

    def _pack(self) -> tuple[Ints, ...]:
        """The layout without its communicator, to send to another rank: edges, then owners."""
        return *self.edges, self.owners

    @classmethod
    def _unpack(cls, packed: tuple[Ints, ...], comm: MPI.Intracomm | None) -> Tiles:
        *edges, owners = packed
        return cls.from_edges(edges, owners, comm)

    @functools.cached_property
    def layout_digest(self) -> int:
        """A hash of the layout, equal on all ranks."""
        return digest(b"tiles" + repr(self.owners.shape).encode() + b"".join(array.tobytes() for array in self._pack()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tiles):
            return NotImplemented
        return self is other or (
            self.owners.shape == other.owners.shape
            and same_ranks(self.comm, other.comm)
            and all(np.array_equal(x, y) for x, y in zip(self._pack(), other._pack(), strict=True))
        )

    def __hash__(self) -> int:
        return hash(self.layout_digest)

    def __copy__(self) -> Tiles:
        return self

    def __deepcopy__(self, memo: object) -> Tiles:
        """Return the layout itself: it is immutable, and communicators cannot be copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the ranks in COMM_WORLD, or COMM_SELF, without the offsets and leading dimensions of this rank."""
        name, tiles = to_named_communicator(self)
        return _unpickled, (tiles._pack(), name)

    def __repr__(self) -> str:
        cut, ranks = " x ".join(map(str, self.owners.shape)), len(self.ranks)
        paper = ", on paper" if self.comm is None else ""
        return (
            f"Tiles({' x '.join(map(str, self.shape))} in {cut} tiles on {ranks} rank{'' if ranks == 1 else 's'}, "
            f"{self.layout_digest:016x}{paper})"
        )

    def _copy(self) -> Tiles:
        copy = object.__new__(Tiles)
        cached = ("shape", "distributions", "ranks", "local_shapes", "windows", "_room", "layout_digest")
        copy.__dict__.update({k: v for k, v in self.__dict__.items() if k not in cached})
        return copy


def _unpickled(packed: tuple[Ints, ...], name: str | None) -> Tiles:
    return Tiles._unpack(packed, named_communicator(name))


def _edges(name: str, values: ArrayLike) -> Ints:
    edges = integers(name, values, ": where a tile begins")
    if not len(edges):
        raise DescriptorError(
            f"{name} is empty: give 0, the first index of each further tile, and the size of the dimension"
        )
    if edges[0]:
        raise DescriptorError(f"{name}[0] = {edges[0]} must be 0, where the first tile begins")
    descents = np.flatnonzero(np.diff(edges) < 0)
    if len(descents):
        k = int(descents[0])
        raise DescriptorError(
            f"{name}[{k + 1}] = {edges[k + 1]} is less than {name}[{k}] = {edges[k]}: edges must ascend"
        )
    return edges


def _owners(values: ArrayLike, tiles: tuple[int, ...], size: int | None) -> Ints:
    try:
        owners = np.array(values)
    except ValueError:
        kind = "a matrix" if len(tiles) == 2 else f"an array of shape {tiles}"
        raise DescriptorError(f"owners = {values!r} must be {kind} of ranks, one for each tile") from None
    if not owners.size and 0 in tiles:
        return np.zeros(tiles, np.int64)
    if owners.shape != tiles:
        raise DescriptorError(
            f"owners has shape {owners.shape}, but the edges cut the {'matrix' if len(tiles) == 2 else 'array'} into "
            f"{' x '.join(map(str, tiles))} tiles: give one rank for each tile, and one more edge than tiles along "
            "each dimension"
        )
    if owners.dtype.kind not in "iu":
        raise DescriptorError(f"owners must be integers, not {owners.dtype}")
    bad = np.argwhere(owners < 0 if size is None else (owners < 0) | (owners >= size))
    if len(bad):
        place = tuple(bad[0].tolist())
        end = "" if size is None else f", and below the communicator's size {size}"
        raise DescriptorError(
            f"owners[{', '.join(map(str, place))}] = {owners[place]}: every rank must be at least 0{end}"
        )
    return owners.astype(np.int64)


Layout = Descriptor | Tiles
LAYOUTS = (Descriptor, Tiles)
LayoutArgument = Descriptor | Sequence[int] | NDArray[np.integer] | None


@holding_interrupts
def layout_on(desc: LayoutArgument, comm: MPI.Intracomm | None, name: str = "desc") -> Descriptor:
    """Return a Descriptor on `comm`; with `comm`, also from nine integers, or None on some ranks. Collective over `comm`.

    Raises
    ------
    DescriptorError
        `desc` is no layout, or no rank knows the layout.
    CollectiveError
        Another rank has such an error, or ranks have different layouts.
    """
    if comm is None:
        if not isinstance(desc, Descriptor):
            _refuse_text(name, desc)
            raise DescriptorError(
                f"{name} = {shown(desc)} must be a Descriptor; nine integers, or None on a rank that does not know them, need "
                "comm=, the communicator of their grid"
            )
        return desc
    with agreement(group_of(comm), name, learn=True, confirm=True, deliver=True) as agreed:
        layout = _descriptor_on(name, desc, comm)
        Descriptor._give(agreed, name, layout)
    return layout or Descriptor._taken(agreed, comm)


def _descriptor_on(name: str, desc: LayoutArgument, comm: MPI.Intracomm) -> Descriptor | None:
    layout = read_layout(name, desc, comm, True)
    if isinstance(layout, Tiles):
        raise DescriptorError(f"{name} = {layout!r} must be a Descriptor: redistribute the tiles to one first")
    return layout


def _refuse_text(name: str, layout: object) -> None:
    """Raise a DescriptorError for a text, where nothing has the shape and the communicator that it lacks."""
    if isinstance(layout, str):
        raise DescriptorError(
            f"{name} = {shown(layout)} is a text, which has neither a shape nor a communicator: give Descriptor(shape, block, "
            "ProcessGrid(..., comm))"
        )


def read_layout(name: str, layout: object, comm: MPI.Intracomm | None, explicit: bool) -> Layout | None:
    """Read a layout on `comm` from a Descriptor, Tiles or nine integers; None on a rank that does not know the layout."""
    if isinstance(layout, LAYOUTS):
        own_comm = layout.comm
        if comm is None or own_comm is comm:
            return layout
        if own_comm is None:
            remedy = "give it a communicator, Tiles(..., comm)"
            if isinstance(layout, Descriptor):
                remedy = (
                    f"give it a communicator, ProcessGrid({layout.grid.shape}, comm), to run a redistribution; or omit "
                    "communicators in both grids and comm= for a plan on paper"
                )
            raise DescriptorError(f"{name} = {layout!r} is on paper: {remedy}")
        if explicit or same_ranks(own_comm, comm):
            return layout.on(comm)
        raise DescriptorError(
            f"{name} = {layout!r} is on another communicator than the other grid: pass comm=, a communicator that contains both"
        )
    _refuse_text(name, layout)
    hint = ""
    if isinstance(layout, np.ndarray) and layout.ndim != 1:
        hint = "; an array is for the plan, redistribute(desc_a, desc_b)(a)"
    if not explicit or comm is None:
        raise DescriptorError(
            f"{name} = {shown(layout)} needs comm=, the communicator that holds both grids: only Descriptors and Tiles know "
            f"theirs{hint}"
        )
    if layout is None:
        return None
    if hint:
        raise DescriptorError(f"{name} = {shown(layout)} must be a Descriptor or its nine integers{hint}")
    try:
        return Descriptor._read_array(layout, comm)
    except RedistributionError as caught:
        raise type(caught)(f"{name}: {caught}") from caught
