"""Tiles: the layout of a matrix cut by two lists of edges, of which each tile belongs to any process.

Callers give layouts as a Descriptor, as Tiles, or as ScaLAPACK's nine integers with the communicator of their grid.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..comm.group import read_consistently
from ..comm.groups import group_of
from ..comm.mpi import MPI
from ..comm.vote import digest
from ..errors import ArrayError, DescriptorError, RedistributionError, shown
from .arrays import new_array
from .axis import Blocks, Irregular, integers, whole_number
from .descriptor import Descriptor
from .grid import checked_communicator, named_communicator, on_a_named_communicator, same_ranks, translated

Ints = NDArray[np.int64]
Window = tuple[slice, slice]


class Tiles:
    """The layout of a matrix cut into tiles, each on any process: several on one, none on another. Not collective.

    This is the general layout of COSTA, its `custom_layout` (Kabić et al., ISC 2021). Where tile (i, j) is on process
    (r(i), c(j)) of a grid, a `Descriptor` with `Blocks` is the better choice: it has one local array for each process. Here
    each tile has its own, and a plan costs a box for each tile and each process that it shares elements with: some 8
    microseconds to plan and 10 in the first call, on one core; later calls take 4 microseconds for each own tile, beside
    the time for moving. A thousand tiles on a rank are fine; a million tiles of single elements are not what this is for.

    Parameters
    ----------
    row_edges, column_edges : sequence of int
        Where the rows and the columns of tiles begin, ascending from 0, and last the number of rows and of columns of the
        matrix. Equal neighbours are an empty row or column of tiles.
    owners : array_like of int
        Rank of `comm` that has each tile: one row for each row of tiles.
    comm : MPI.Intracomm, optional
        Communicator of the ranks. None: a layout on paper, which tells who owns what.
    offsets : sequence of int, optional
        This rank's local array is one array of one dimension, and element (0, 0) of its k-th own tile at `offsets[k]`; the
        tiles are stored by columns. By default it is a list of arrays of two dimensions, of any strides.
    leading_dimensions : sequence of int, optional
        With `offsets`, of each own tile: elements from one column to the next. By default its number of rows.

    Attributes
    ----------
    row_edges, column_edges, owners : ndarray of int64
        As given, read-only.
    comm : MPI.Intracomm or None
        The communicator.
    shape : tuple of int
        Of the matrix.
    own : ndarray of int64
        Row and column of tiles of each tile of this rank, row by row: the order of its local arrays. Read-only.
    local_shapes : list of tuple of int
        Rows and columns of each.
    windows : list of tuple of slice
        The rows and columns of the matrix that each holds.
    offsets, leading_dimensions : tuple of int or None
        Of this rank.

    Raises
    ------
    DescriptorError
        Names the argument, its value, and what it must be.
    """

    ndim, copies = 2, 1
    parent = None
    is_product = False  # a rank may have any number of places

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
        self.comm = checked_communicator(comm)
        self.row_edges, self.column_edges = _edges("row_edges", row_edges), _edges("column_edges", column_edges)
        tiles = len(self.row_edges) - 1, len(self.column_edges) - 1
        self.owners = _owners(owners, tiles, None if comm is None else comm.Get_size())
        self.shape = int(self.row_edges[-1]), int(self.column_edges[-1])
        me = -1 if comm is None else comm.Get_rank()
        self.own: Ints = np.argwhere(self.owners == me)
        for array in (self.row_edges, self.column_edges, self.owners, self.own):
            array.setflags(write=False)
        self.offsets, self.leading_dimensions = self._checked_storage(offsets, leading_dimensions)

    # -- what it describes

    @functools.cached_property
    def distributions(self) -> tuple[Irregular, Irregular]:
        """Of both dimensions, with the number of a row or of a column of tiles in place of a process.

        So tiles are a grid of places like a descriptor's; but several places may be of one process, which has a local array
        for each of them.
        """
        edges = self.row_edges, self.column_edges
        rows, columns = (Irregular(int(some[-1]), Blocks(np.diff(some)), max(1, len(some) - 1)) for some in edges)
        return rows, columns

    @functools.cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have tiles, ascending."""
        return tuple(np.unique(self.owners).tolist())

    def owner(self, i: Any, j: Any) -> Any:
        """Rank that has element (i, j): ints, or arrays that broadcast. Not collective.

        Raises
        ------
        IndexError
            An index is outside the matrix.
        """
        rows, columns = self.distributions
        found = self.owners[rows.owner(i), columns.owner(j)]
        return found if isinstance(found, np.ndarray) else int(found)

    @property
    def placement(self) -> Ints:
        """Rank of each tile: `owners`."""
        return self.owners

    places = placement  # as a descriptor's

    @property
    def own_places(self) -> list[tuple[int, int]]:
        """The places of this rank, in the order of its local arrays. Not collective."""
        return [(i, j) for i, j in self.own.tolist()]

    def _for_rank(self, rank: int) -> Tiles:
        """The same layout with the local arrays of another rank, each an array of its own."""
        seen = self._copy()
        seen.own, seen.offsets, seen.leading_dimensions = np.argwhere(self.owners == rank), None, None
        return seen

    @property
    def _has_local(self) -> bool:
        """Whether this rank has a list of local arrays, which may be empty: every rank has one."""
        return True

    @property
    def _storage(self) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """What may differ from rank to rank for a layout: `offsets` and `leading_dimensions`."""
        return self.offsets, self.leading_dimensions

    @functools.cached_property
    def local_shapes(self) -> list[tuple[int, int]]:
        """Rows and columns of each own tile."""
        sizes = [np.diff(edges)[self.own[:, k]].tolist() for k, edges in enumerate((self.row_edges, self.column_edges))]
        return list(zip(*sizes, strict=True))

    @functools.cached_property
    def windows(self) -> list[Window]:
        """The part of the matrix that each own tile is: `matrix[window]`."""
        bounds = [
            (edges[self.own[:, k]].tolist(), edges[self.own[:, k] + 1].tolist())
            for k, edges in enumerate((self.row_edges, self.column_edges))
        ]
        rows, columns = (map(slice, *both) for both in bounds)
        return list(zip(rows, columns, strict=True))

    # -- local arrays

    def empty(self, dtype: DTypeLike = np.float64) -> Any:
        """This rank's local array, contents arbitrary. Not collective.

        Returns
        -------
        list of ndarray, or ndarray
            An array in Fortran order for each own tile; with `offsets`, one array of one dimension that holds all.
        """
        return self._made(dtype, False)

    def zeros(self, dtype: DTypeLike = np.float64) -> Any:
        """This rank's local array of zeros, as from `empty`. Not collective."""
        return self._made(dtype, True)

    def from_function(self, f: Callable[[Any, Any], Any], dtype: DTypeLike = np.float64) -> Any:
        """This rank's local array with elements f(i, j) of the global indices, as from `empty`. Not collective.

        Parameters
        ----------
        f : callable
            Called for each own tile with its row indices, of shape (rows, 1), and its column indices, of shape (1, columns).
        dtype : dtype
            Of the result.
        """
        made = self.zeros(dtype)
        for array, (rows, columns) in zip(self.views(made), self.windows, strict=True):
            array[...] = f(*np.ix_(np.arange(rows.start, rows.stop), np.arange(columns.start, columns.stop)))
        return made

    def views(self, local: Any, name: str = "local") -> list[Any]:
        """The own tiles in this rank's local array, each an array of two dimensions. Not collective.

        Parameters
        ----------
        local : list of ndarray, ndarray of one dimension, or None
            A list as it is; with `offsets`, views of the array. None where no own tile has elements.
        name : str
            For the message of an error.

        Raises
        ------
        ArrayError
            It is not a list of so many, or not an array with room for all tiles.
        """
        held = any(0 not in shape for shape in self.local_shapes)
        if local is None and not held:
            return [None] * len(self.own)
        if local is None:
            raise ArrayError(f"{name} is None, but this rank has {self._tiles_here()}: pass {self._wanted()}")
        if self.offsets is None or self.leading_dimensions is None:
            if not isinstance(local, list | tuple):
                raise ArrayError(f"{name} is a {type(local).__name__}: it must be {self._wanted()}")
            if len(local) != len(self.own):
                raise ArrayError(f"{name} has {len(local)} entries: it must be {self._wanted()}")
            return list(local)
        if not isinstance(local, np.ndarray) or isinstance(local, np.ma.MaskedArray):
            raise ArrayError(f"{name} is a {type(local).__name__}: it must be {self._wanted()}")
        if local.ndim != 1 or len(local) < self._room:
            raise ArrayError(f"{name} has shape {local.shape}: it must be {self._wanted()}")
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
            One is no array, or of another shape.
        """
        views = self.views(local, name)
        for k, (array, shape) in enumerate(zip(views, self.local_shapes, strict=True)):
            if array is None and 0 in shape:
                continue
            tile = f"tile {tuple(self.own[k].tolist())} of {self!r}"
            if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
                kind = "None" if array is None else f"a {type(array).__name__}"
                raise ArrayError(f"{name}[{k}] is {kind}: it must be a NumPy array of shape {shape}, that of {tile}")
            if array.shape != shape:
                raise ArrayError(f"{name}[{k}] has shape {array.shape}, but {tile} has shape {shape}")
        return [array if array is not None and array.size else None for array in views]

    def _made(self, dtype: DTypeLike, zeroed: bool) -> Any:
        if self.offsets is not None:
            return new_array((self._room,), dtype, "F", zeroed)
        return [new_array(shape, dtype, "F", zeroed) for shape in self.local_shapes]

    def _tiles_here(self) -> str:
        return f"{len(self.own)} tile{'' if len(self.own) == 1 else 's'}"

    def _wanted(self) -> str:
        if self.offsets is not None:
            return f"a NumPy array of one dimension with at least {self._room} elements, as offsets= was given"
        return f"a list with a NumPy array of two dimensions for each own tile, {len(self.own)} here"

    @functools.cached_property
    def _room(self) -> int:
        """Elements that the array of one dimension must have."""
        places = zip(self.local_shapes, self.offsets or (), self.leading_dimensions or (), strict=True)
        return max((first + (n - 1) * leading + m for (m, n), first, leading in places if m and n), default=0)

    def _checked_storage(self, offsets: object, leading: object) -> tuple[Any, Any]:
        """Both, of as many integers as there are own tiles."""
        if offsets is None:
            if leading is not None:
                raise DescriptorError("leading_dimensions without offsets: give the place of each own tile, offsets=")
            return None, None
        rows = [max(1, m) for m, _ in self.local_shapes]
        given = {"offsets": offsets, "leading_dimensions": rows if leading is None else leading}
        found = {name: integers(name, values, ": for each own tile").tolist() for name, values in given.items()}
        for name, values in found.items():
            if len(values) != len(self.own):
                raise DescriptorError(
                    f"{name} has {len(values)} entries, but this rank has {self._tiles_here()}: give one for each, row by row"
                )
        for k, (value, least) in enumerate(zip(found["leading_dimensions"], rows, strict=True)):
            whole_number(f"leading_dimensions[{k}]", value, least, ", the rows of its tile")
        return tuple(found["offsets"]), tuple(found["leading_dimensions"])

    # -- identity

    @property
    def T(self) -> Tiles:  # noqa: N802 - as NumPy's
        """The layout of the transpose, with the local arrays in the order in which they are here. Not collective."""
        turned = self._copy()
        turned.row_edges, turned.column_edges = self.column_edges, self.row_edges
        turned.owners, turned.own, turned.shape = self.owners.T, self.own[:, ::-1], self.shape[::-1]
        return turned

    def on(self, comm: MPI.Intracomm) -> Tiles:
        """The same layout with its owners as ranks of another communicator; itself on its own. Not collective.

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
        moved = self._copy()
        moved.comm = comm
        if not same:
            ranks = np.array(self.ranks, np.int64)
            there = translated(ranks, self.comm, comm, self)
            moved.owners = there[np.searchsorted(ranks, self.owners)] if len(ranks) else self.owners
            moved.owners.setflags(write=False)
        return moved

    def _pack(self) -> tuple[Ints, Ints, Ints]:
        """The layout without its communicator, to send to another rank."""
        return self.row_edges, self.column_edges, self.owners

    @classmethod
    def _unpack(cls, packed: tuple[Ints, Ints, Ints], comm: MPI.Intracomm) -> Tiles:
        return cls(*packed, comm)

    @functools.cached_property
    def layout_digest(self) -> int:
        """A number equal on all ranks for equal layouts."""
        return digest(b"tiles" + repr(self.owners.shape).encode() + b"".join(some.tobytes() for some in self._pack()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tiles):
            return NotImplemented
        return self is other or (
            same_ranks(self.comm, other.comm)
            and all(np.array_equal(x, y) for x, y in zip(self._pack(), other._pack(), strict=True))
        )

    def __hash__(self) -> int:
        return hash(self.layout_digest)

    def __copy__(self) -> Tiles:
        return self

    def __deepcopy__(self, memo: object) -> Tiles:
        """Itself: it does not change, and a communicator is not copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """As ranks of COMM_WORLD, or of COMM_SELF, without the offsets and leading dimensions of this rank."""
        name, tiles = on_a_named_communicator(self)
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
        cached = ("distributions", "ranks", "local_shapes", "windows", "_room", "layout_digest")
        copy.__dict__.update({k: v for k, v in self.__dict__.items() if k not in cached})
        return copy


def _unpickled(packed: tuple[Ints, Ints, Ints], name: str | None) -> Tiles:
    return Tiles(*packed, named_communicator(name))


def _edges(name: str, given: ArrayLike) -> Ints:
    edges = integers(name, given, ": where a tile begins")
    if not len(edges):
        raise DescriptorError(f"{name} is empty: give 0, where each further tile begins, and the size of the matrix")
    if edges[0]:
        raise DescriptorError(f"{name}[0] = {edges[0]} must be 0, where the first tile begins")
    descents = np.flatnonzero(np.diff(edges) < 0)
    if len(descents):
        k = int(descents[0])
        raise DescriptorError(
            f"{name}[{k + 1}] = {edges[k + 1]} is less than {name}[{k}] = {edges[k]}: edges must ascend"
        )
    return edges


def _owners(given: ArrayLike, tiles: tuple[int, int], size: int | None) -> Ints:
    try:
        owners = np.array(given)
    except ValueError:
        raise DescriptorError(f"owners = {given!r} must be a matrix of ranks, one for each tile") from None
    if not owners.size and 0 in tiles:
        return np.zeros(tiles, np.int64)
    if owners.shape != tiles:
        raise DescriptorError(
            f"owners has shape {owners.shape}, but the edges cut the matrix into {tiles[0]} x {tiles[1]} tiles: give one "
            "rank for each tile, and one edge more than tiles along either dimension"
        )
    if owners.dtype.kind not in "iu":
        raise DescriptorError(f"owners must be integers, not {owners.dtype}")
    bad = np.argwhere(owners < 0 if size is None else (owners < 0) | (owners >= size))
    if len(bad):
        i, j = bad[0].tolist()
        end = "" if size is None else f", and below the communicator's size {size}"
        raise DescriptorError(f"owners[{i}, {j}] = {owners[i, j]}: every rank must be at least 0{end}")
    return owners.astype(np.int64)


Layout = Descriptor | Tiles
LAYOUTS = (Descriptor, Tiles)
LayoutArgument = Descriptor | Sequence[int] | NDArray[np.integer] | None


def layout_on(desc: LayoutArgument, comm: MPI.Intracomm | None, name: str = "desc") -> Descriptor:
    """The Descriptor that is meant; of nine integers, or None on some ranks, with `comm`. Collective over `comm`, if given.

    Raises
    ------
    DescriptorError
        It is no layout, or no rank knows one.
    CollectiveError
        That was so on another rank, or ranks have different ones.
    """
    if comm is None:
        if not isinstance(desc, Descriptor):
            raise DescriptorError(
                f"{name} = {shown(desc)} must be a Descriptor; nine integers, or None on a rank that does not know them, need "
                "comm=, the communicator of their grid"
            )
        return desc
    group = group_of(comm)
    layout = read_consistently(group, name, lambda: _descriptor_on(name, desc, comm), lambda read: read.layout_digest)
    return Descriptor._share(layout, group, comm)


def _descriptor_on(name: str, desc: LayoutArgument, comm: MPI.Intracomm) -> Descriptor | None:
    found = read_layout(name, desc, comm, True)
    if isinstance(found, Tiles):
        raise DescriptorError(f"{name} = {found!r} must be a Descriptor: redistribute the tiles to one first")
    return found


def read_layout(name: str, given: object, comm: MPI.Intracomm | None, explicit: bool) -> Layout | None:
    """A layout on `comm`, from a Descriptor, Tiles or nine integers; None on a rank that does not know the layout."""
    if isinstance(given, LAYOUTS):
        known = given.comm
        if comm is None or known is comm:
            return given
        if known is None:
            remedy = "give it a communicator, Tiles(..., comm)"
            if isinstance(given, Descriptor):
                remedy = (
                    f"give it a communicator, ProcessGrid({given.grid.shape}, comm), to run a redistribution; or leave the "
                    "communicator away from both grids and from comm=, for a plan to study"
                )
            raise DescriptorError(f"{name} = {given!r} is on paper: {remedy}")
        if explicit or same_ranks(known, comm):
            return given.on(comm)
        raise DescriptorError(
            f"{name} = {given!r} is on another communicator than the other grid: pass comm=, a communicator that holds both"
        )
    hint = ""
    if isinstance(given, np.ndarray) and given.ndim != 1:
        hint = "; an array is for the plan, redistribute(desc_a, desc_b)(a)"
    if not explicit or comm is None:
        raise DescriptorError(
            f"{name} = {shown(given)} needs comm=, the communicator that holds both grids: only Descriptors and Tiles know "
            f"theirs{hint}"
        )
    if given is None:
        return None
    if hint:
        raise DescriptorError(f"{name} = {shown(given)} must be a Descriptor or its nine integers{hint}")
    try:
        return Descriptor._read_array(given, comm)
    except RedistributionError as caught:
        raise type(caught)(f"{name}: {caught}") from caught
