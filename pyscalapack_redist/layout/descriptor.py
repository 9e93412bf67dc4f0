"""Descriptor: how an array is dealt out over a process grid, also with neighbouring dimensions merged into one.

Two-dimensional ones are ScaLAPACK's array descriptors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..comm.group import Group, first_known, read_consistently
from ..comm.groups import group_of
from ..comm.mpi import MPI
from ..errors import DescriptorError, shown
from .arrays import new_array, of_indices
from .axis import BlockCyclic, Blocks, Irregular, whole_number
from .dimensions import (
    BlockSizes,
    Distribution,
    Ownership,
    Places,
    check_one_size,
    distributions_of,
    held_at,
    local_part,
    sub_array,
)
from .grid import NineIntegers, ProcessGrid


class MergedLayout(NamedTuple):
    """The dimensions of an array, two of them as one: the distribution of each, its grid dimension, and the grid."""

    distributions: list[Distribution]
    axes: list[int | None]
    grid: ProcessGrid


def merge_dimensions(
    distributions: Sequence[Distribution],
    axes: Sequence[int | None],
    grid: ProcessGrid,
    dims: Sequence[object],
    order: str,
) -> MergedLayout:
    """The dimensions `dims` of an array as one, which runs through them in `order`. Not collective.

    Raises
    ------
    DescriptorError
        They are not neighbours, or a process's elements would not be blocks of one size.
    """
    made = MergedLayout(list(distributions), list(axes), grid)
    for k in neighbours(dims, len(distributions), order):
        try:
            made = merge_with_next(*made, k, order)
        except DescriptorError as error:
            raise DescriptorError(f"dimensions {k} and {k + 1} cannot be merged: {error}") from None
    return made


def neighbours(dims: Sequence[object], dimensions: int, order: str) -> Sequence[int]:
    """Dimensions to be merged with the next one, one after another, so that all of `dims` become one. Not collective.

    Raises
    ------
    DescriptorError
        They are not two or more neighbours, ascending, or there is no such order.
    """
    if order not in ("F", "C"):
        raise DescriptorError(f"order = {order!r} must be 'F' (the first dimension runs fastest) or 'C' (the last)")
    chosen = [whole_number(f"dims[{k}]", dim, 0) for k, dim in enumerate(dims)]
    first, count = (chosen or [0])[0], len(chosen)
    if count < 2 or chosen != list(range(first, first + count)) or first + count > dimensions:
        raise DescriptorError(
            f"dims = {dims} must be two or more neighbours of the {dimensions} dimensions, ascending, as 1, 2"
        )
    return [first] * (count - 1) if order == "F" else range(first + count - 2, first - 1, -1)


def merge_with_next(
    distributions: Sequence[Distribution], axes: Sequence[int | None], grid: ProcessGrid, k: int, order: str
) -> MergedLayout:
    """Dimensions `k` and k + 1 as one; in order "F" the first of them runs faster. Not collective.

    This is a lower-dimensional projection of a layout (Birkeland & Sorevik, section 4). Element (i, j) of dimensions of n_i
    and n_j elements, i running faster, becomes element i + n_i j of the one dimension. Local arrays do not change, so the
    one dimension must be dealt out in blocks of one size to the same processes; or in irregular blocks, where one of the
    two has them.

    Raises
    ------
    DescriptorError
        The elements of a process would not be blocks of one size; says what would make them so.
    """
    fast, slow = (k, k + 1) if order == "F" else (k + 1, k)
    merged = _as_one(distributions[fast], distributions[slow])
    spread = fast if distributions[slow].processes == 1 else slow
    rest, left = list(distributions), list(axes)
    if distributions[fast].processes > 1 and distributions[slow].processes > 1:
        grid, left = _with_one_grid_dimension(distributions, axes, grid, fast, slow)
    left[k : k + 2] = [left[spread]]
    rest[k : k + 2] = [merged]
    return MergedLayout(rest, left, grid)


def _as_one(fast: Distribution, slow: Distribution) -> Distribution:
    """How two dimensions are dealt out as one, `fast` running faster.

    Where both are distributed, coordinate c is the process whose distance from the source is c mod P along the faster one of
    P processes, and c // P along the slower one.
    """
    n = fast.n * slow.n
    if fast.processes == 1:
        if isinstance(slow, Irregular):
            return Irregular(n, Blocks(slow.block.sizes * fast.n, slow.block.owners), slow.processes)
        return BlockCyclic(n, max(1, fast.n) * slow.block, slow.processes, slow.source)
    if slow.processes == 1:
        if isinstance(fast, Irregular):
            again = (np.tile(column, slow.n) for column in (fast.block.sizes, fast.block.owners))
            return Irregular(n, Blocks(*again), fast.processes)
        if fast.n <= fast.block:  # one process holds it all
            return BlockCyclic(n, max(1, n), fast.processes, fast.source)
        if slow.n > 1 and fast.n % fast.stride:
            raise DescriptorError(
                f"{_told(fast)} runs faster, and its last round of blocks is not full: its size must be a multiple of block "
                f"x processes = {fast.stride}; choose another block, or merge in the other order where memory allows it"
            )
        return BlockCyclic(n, fast.block, fast.processes, fast.source)
    if isinstance(fast, Irregular) or isinstance(slow, Irregular) or (n and (fast.n != fast.stride or slow.block != 1)):
        raise DescriptorError(
            f"both are distributed: the faster ({_told(fast)}) must be one block for each process, of equal size, and the "
            f"slower ({_told(slow)}) must have blocks of 1; redistribute one of them first"
        )
    return BlockCyclic(n, fast.block, fast.processes * slow.processes)


def _with_one_grid_dimension(
    distributions: Sequence[Distribution], axes: Sequence[int | None], grid: ProcessGrid, fast: int, slow: int
) -> tuple[ProcessGrid, list[int | None]]:
    """A grid whose last dimension counts the processes of two array dimensions from their sources on, and the axes."""
    both = {axis: distributions[k].source for k in (slow, fast) if (axis := axes[k]) is not None}
    kept = [axis for axis in range(grid.ndim) if axis not in both]
    turned = np.roll(grid.ranks, [-first for first in both.values()], [*both])
    ranks = turned.transpose([*kept, *both]).reshape([*(grid.shape[axis] for axis in kept), -1])
    place = {axis: min(number, len(kept)) for number, axis in enumerate([*kept, *both])}
    return ProcessGrid(ranks.shape, grid.comm, ranks=ranks), [None if axis is None else place[axis] for axis in axes]


def _told(axis: Distribution) -> str:
    return f"a dimension of {axis.n} in blocks of {axis.block} over {axis.processes} processes"


class Descriptor(Ownership):
    """The layout of a global array: shape, block sizes, process grid and source process. Not collective.

    Parameters
    ----------
    shape : sequence of int
        Global shape, of any number of dimensions; a dimension may be 0.
    block : sequence of (int, None, "balanced" or Blocks), or one for all dimensions
        Block size of each dimension (MB, NB). None: one block per process, ceil(n / processes) elements (BLOCK).
        "balanced": one per process, of sizes that differ by one at most (`numpy.array_split`). `Blocks`: any sizes.
    grid : ProcessGrid
        The processes.
    source : sequence of int, or one for all dimensions
        Process coordinate, along each array dimension, that owns the first block (RSRC, CSRC).
    axes : sequence of (int or None), optional
        Grid dimension over which each array dimension is spread; None: not distributed. By default in order. Along a grid
        dimension that is not named the processes hold copies; without `axes` it must be of size 1.
    lld : int, optional
        Leading dimension (LLD) of this rank's local array; by default its number of rows, at least 1.

    Raises
    ------
    DescriptorError
        Names the argument, its value, and what it must be.
    """

    is_product = True  # a rank has one place at most, so what ranks share is a product over the dimensions

    def __init__(
        self,
        shape: Sequence[int],
        block: Sequence[BlockSizes] | BlockSizes,
        grid: ProcessGrid,
        *,
        source: Sequence[int] | int = 0,
        axes: Sequence[int | None] | None = None,
        lld: int | None = None,
    ) -> None:
        if not isinstance(grid, ProcessGrid):
            shape_alone = isinstance(grid, tuple | list) and all(isinstance(n, int | np.integer) for n in grid)
            remedy = f": ProcessGrid({tuple(grid)}, comm), with the communicator of its ranks" if shape_alone else ""
            raise DescriptorError(f"grid = {shown(grid)} must be a ProcessGrid{remedy}")
        whole, spread = distributions_of(shape, block, grid, source, axes)
        places, on_paper = Places(whole, spread, grid), grid.comm is None
        place = None if grid.coords is None else places.at(grid.coords)
        coords = None if place is None else place[: len(whole)]
        local = (0,) * len(whole) if coords is None else held_at(whole, coords)
        rows = max(1, local[0])
        if lld is not None and whole_number("lld", lld, 1) < rows:
            raise DescriptorError(
                f"lld = {lld} is too small: this rank holds {rows} rows, so it must be at least {rows}"
            )
        # past `__setattr__`, which takes longer than the rest
        put = vars(self).update
        put(_grid=grid, _whole=whole, _distributions=whole, _axes=spread, _parent=None, _paper=on_paper, _digest=None)
        put(_places=places, _place=place, _coords=coords, _local_shape=local, _shape=tuple([axis.n for axis in whole]))
        put(_lld=int(lld) if lld is not None else None if on_paper else rows)

    @classmethod
    def from_array(cls, nine_integers: object, comm: MPI.Intracomm) -> Descriptor:
        """Read a ScaLAPACK descriptor that any code made, BLACS context included. Collective over `comm`.

        Parameters
        ----------
        nine_integers : sequence of nine int, or ctypes.Structure of nine c_int
            DTYPE, CTXT, M, N, MB, NB, RSRC, CSRC, LLD. On a rank outside the grid CTXT is -1 and the rest means nothing; on
            one that holds no rows LLD may be 0.
        comm : MPI.Intracomm
            Communicator that holds all processes of the context.

        Raises
        ------
        DescriptorError
            Names the field that is wrong, its value and what it must be.
        CollectiveError
            Another rank found such an error, or has another layout.
        """
        group = group_of(comm)
        mine = read_consistently(
            group, "the descriptor", lambda: cls._read_array(nine_integers, comm), lambda found: found.layout_digest
        )
        return cls._spread(mine, group, comm)

    @classmethod
    def _spread(cls, mine: Descriptor | None, group: Group, comm: MPI.Intracomm) -> Descriptor:
        """Give a descriptor on `comm` to the ranks that do not have it. Collective over the group."""
        known = group.combine(None if mine is None else mine._pack(), first_known)
        if known is None:
            raise DescriptorError("no rank knows the layout: CTXT is -1, or the descriptor None, on all of them")
        return mine if mine is not None else cls._unpack(known, comm)

    @classmethod
    def _read_array(cls, nine_integers: object, comm: MPI.Intracomm) -> Descriptor | None:
        """Read nine integers on a rank of their grid; None where CTXT is -1. Not collective."""
        found = NineIntegers.read(nine_integers, comm)
        return None if found is None else cls(found.shape, found.block, found.grid, source=found.source, lld=found.lld)

    @classmethod
    def _of(cls, whole: Sequence[Distribution], axes: Sequence[int | None], grid: ProcessGrid) -> Descriptor:
        """Of a whole array, from the distribution of each dimension."""
        shape, block, source = zip(*((axis.n, axis.block, axis.source) for axis in whole), strict=True)
        return cls(shape, block, grid, source=source, axes=axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape; of the sub-array for a sub-array."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._whole)

    @property
    def block(self) -> tuple[Any, ...]:
        """Block size of each dimension (MB, NB): an int, or `Blocks` where they are irregular."""
        return tuple(axis.block for axis in self._whole)

    @property
    def source(self) -> tuple[int, ...]:
        """Process coordinate that owns the (whole array's) first block, for each dimension (RSRC, CSRC)."""
        return tuple(axis.source for axis in self._whole)

    @property
    def axes(self) -> tuple[int | None, ...]:
        """Grid dimension of each array dimension; None where it is not distributed."""
        return self._axes

    @property
    def grid(self) -> ProcessGrid:
        """The processes."""
        return self._grid

    @property
    def lld(self) -> int:
        """Leading dimension of this rank's local array (LLD). On paper a DescriptorError, unless it was given."""
        if self._lld is None:
            self._check_here("an lld", "local_shape_of(coords)[0] has the rows of any process")
        return self._lld or 1

    @property
    def parent(self) -> Descriptor | None:
        """The whole array's descriptor, for a sub-array; None for a whole array."""
        return self._parent

    @property
    def offset(self) -> tuple[int, ...]:
        """Where the sub-array starts in the whole array (IA, JA, from 0); zeros for a whole array."""
        return tuple(axis.offset for axis in self._distributions)

    @property
    def coords(self) -> tuple[int, ...] | None:
        """This rank's process coordinate along each array dimension; None outside the grid."""
        return self._coords

    @property
    def copies(self) -> int:
        """How many processes hold each element: those along the grid dimensions that `axes` does not name."""
        return self._places.copies

    @property
    def places(self) -> NDArray[np.int64]:
        """Rank at each process coordinate along the array dimensions, then of each copy if there are several, read-only."""
        return self._places.ranks()

    @property
    def place(self) -> tuple[int, ...] | None:
        """This rank's index into `places`: `coords`, then the number of its copy if there are several; None outside."""
        return self._place

    @property
    def own_places(self) -> list[tuple[int, ...]]:
        """`place`, as a list: a rank has one local array at most."""
        return [] if self._place is None else [self._place]

    @property
    def placement(self) -> NDArray[np.int64]:
        """Rank at each process coordinate, read-only: the owner. Of copies, the first one counts as the owner's."""
        return self.places[..., 0] if self.copies > 1 else self.places

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Shape of this rank's local array (a sub-array's is its whole array's); zeros outside the grid.

        Raises
        ------
        DescriptorError
            The grid is on paper, where no rank is this one.
        """
        self._check_here("a local_shape", "local_shape_of(coords) is that of any process")
        return self._local_shape

    @property
    def local_shapes(self) -> list[tuple[int, ...]]:
        """`local_shape`, as a list: a rank has one local array at most."""
        return [self.local_shape]

    def __getitem__(self, key: object) -> Descriptor:
        """Descriptor of a sub-array, `desc[i0:i1, j0:j1]`. Its arrays are the whole array's local arrays. Not collective.

        Negative bounds count from the end, those past an edge are taken for it, and `...` stands for all dimensions that are
        not named.

        Raises
        ------
        DescriptorError
            A bound is no integer, or a step is not 1.
        """
        return self._part(sub_array(self._distributions, key))

    def _part(self, parts: tuple[Distribution, ...]) -> Descriptor:
        if parts == self._distributions:
            return self
        view = self._copy()
        view._parent, view._distributions, view._shape = self._parent or self, parts, tuple([axis.n for axis in parts])
        return view

    @functools.cached_property
    def T(self) -> Descriptor:  # noqa: N802 - as NumPy's
        """The layout of the transpose on the same processes: its local arrays are `a.T`. Not collective."""
        whole = Descriptor._of(self._whole[::-1], self._axes[::-1], self._grid)
        return whole._part(self._distributions[::-1])

    def merge(self, *dims: int, order: str = "F") -> Descriptor:
        """The same layout with adjacent dimensions merged into one (Birkeland & Sorevik, section 4). Not collective.

        The local arrays are those of this descriptor reshaped: `a.reshape(desc.local_shape, order=order)`, which copies
        nothing where `a` is contiguous in that order.

        Parameters
        ----------
        *dims : int
            Two or more neighbours, ascending. At most one of them may be distributed, but for the faster one in equal
            parts of one block with the slower one in blocks of 1. The dimension that runs faster must be undistributed,
            or a multiple of its block times its processes, or irregular; sizes of the others need not divide.
        order : {"F", "C"}
            Which of them runs fastest in memory and in the one index: the first (Fortran) or the last (C).

        Raises
        ------
        DescriptorError
            They are not neighbours, this is a sub-array, or a process's elements would not be blocks of one size.
        """
        if self._parent is not None:
            raise DescriptorError(
                "a sub-array's dimensions cannot be merged: its local arrays hold more than the sub-array"
            )
        return Descriptor._of(*merge_dimensions(self._whole, self._axes, self._grid, dims, order))

    def empty(self, dtype: DTypeLike = np.float64, order: str = "F") -> NDArray[Any]:
        """This rank's local array, contents arbitrary. Not collective."""
        return new_array(self._allocated(), dtype, order)[: self._local_shape[0]]

    def zeros(self, dtype: DTypeLike = np.float64, order: str = "F") -> NDArray[Any]:
        """This rank's local array of zeros. Not collective."""
        return new_array(self._allocated(), dtype, order, zeroed=True)[: self._local_shape[0]]

    def from_function(self, f: Callable[..., Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """This rank's local array with elements f(i, j, ...) of the global indices. Not collective.

        Parameters
        ----------
        f : callable
            Called once with one int64 array for each dimension, shaped to broadcast against each other (an open mesh);
            for a sub-array indices count from its first element, and the rest of the whole array is zero. The arrays are
            empty on a rank that holds nothing.
        dtype : dtype, optional
            Of the result; by default that of what `f` gives.

        Raises
        ------
        ArrayError
            What `f` gives does not broadcast to this rank's elements. What `f` itself raises has a note on its arguments.
        """
        if dtype is not None and self._coords is None:
            return self.empty(dtype)
        given = of_indices(f, [self.global_indices(k) for k in range(self.ndim)])
        local = (self.empty if self._parent is None else self.zeros)(given.dtype if dtype is None else dtype)
        if self._coords is not None:
            local[local_part(self._distributions, self._coords)] = given
        return local

    def to_array(self) -> NDArray[np.intc]:
        """[DTYPE, CTXT, M, N, MB, NB, RSRC, CSRC, LLD], of the whole array for a sub-array. Not collective.

        Raises
        ------
        DescriptorError
            Not of two dimensions over a two-dimensional grid, irregular, the grid's BLACS context was not made, or a number
            does not fit ScaLAPACK's 32-bit integers.
        """
        if self.ndim != 2 or self._grid.ndim != 2 or self._axes != (0, 1):
            raise DescriptorError(
                f"{self!r} has no ScaLAPACK descriptor: that is for two dimensions over a two-dimensional grid, in order"
                + (", without copies; redistribute to such a layout" if self.copies > 1 else "")
            )
        check_one_size(self._whole)
        shape = (self._parent or self).shape
        return NineIntegers(self._grid, shape, self.block, self.source, self.lld).to_array()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a Descriptor's nine integers are built when asked for: copy=False cannot be had")
        return self.to_array() if dtype is None else self.to_array().astype(dtype)

    def _layout(self) -> tuple[Any, ...]:
        """All that makes two layouts equal."""
        return (self._grid, self._axes, self._whole, self._distributions)

    def _pack(self) -> tuple[Any, ...]:
        """The layout without its communicator, to send to another rank."""
        return (self._grid.shape, self._grid.ranks, *self._layout()[1:])

    @classmethod
    def _unpack(cls, packed: tuple[Any, ...], comm: MPI.Intracomm) -> Descriptor:
        shape, ranks, *layout = packed
        return cls._on(ProcessGrid(shape, comm, ranks=ranks), *layout)

    @classmethod
    def _on(cls, grid: ProcessGrid, axes: Any, whole: Any, parts: Any) -> Descriptor:
        return cls._of(whole, axes, grid)._part(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return Descriptor._on, self._layout()

    def on(self, comm: MPI.Intracomm) -> Descriptor:
        """The same layout with its processes as ranks of another communicator. Not collective.

        On the communicator that it is on a descriptor is itself; on any other, a duplicate among them, its grid is a new one
        there, without a BLACS context (see `ProcessGrid.on`).

        Raises
        ------
        DescriptorError
            A process of the grid is not in `comm`.
        """
        grid = self._grid.on(comm)
        return self if grid is self._grid else self._with_grid(grid)

    def _with_grid(self, grid: ProcessGrid) -> Descriptor:
        """The same layout on a grid of the same processes, a sub-array's whole array included."""
        moved = self._copy()
        moved._grid, moved._places = grid, Places(self._whole, self._axes, grid)
        moved._parent = None if self._parent is None else self._parent._with_grid(grid)
        return moved

    def __eq__(self, other: object) -> bool:
        return self._layout() == other._layout() if isinstance(other, Descriptor) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._layout())

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("shape", _by(self.shape)), ("blocks", _by(self.block)), ("grid", repr(self._grid))]
        if any(self.source):
            rows.append(("source", f"{self.source}"))
        if self._axes != tuple(range(self.ndim)) or self.copies > 1:
            rows.append(("axes", f"{self._axes}" + (f", {self.copies} copies" if self.copies > 1 else "")))
        if self._parent is not None:
            rows.append(("at", f"{self.offset} of {_by(self._parent.shape)}"))
        return rows

    def __repr__(self) -> str:
        unnamed = ("shape", "grid")
        parts = (value if name in unnamed else f"{name} {value}" for name, value in self._rows())
        return f"Descriptor({', '.join(parts)})"

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):  # those that there are cannot be set either
            raise AttributeError(f"{name} of a Descriptor cannot be set: a layout does not change, so make another one")
        object.__setattr__(self, name, value)

    def _copy(self) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update({k: v for k, v in self.__dict__.items() if k != "T"}, _digest=None)
        return copy

    def _allocated(self) -> tuple[int, ...]:
        self._check_here("a local array", "an array of shape local_shape_of(coords) is that of any process")
        rows, *rest = self._local_shape
        return (max(rows, self.lld) if rows else 0, *rest)


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))
