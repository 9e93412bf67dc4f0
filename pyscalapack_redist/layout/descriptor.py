"""Descriptor: the distribution of an array over a process grid. Adjacent dimensions can be merged into one.

Descriptors of two dimensions correspond to ScaLAPACK's array descriptors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..comm.agreement import agreement
from ..comm.groups import group_of
from ..comm.guard import holding_interrupts
from ..comm.mpi import MPI
from ..errors import ArrayError, DescriptorError, shown
from ..tracebacks import brief_methods
from .arrays import new_array, of_indices
from .axis import BlockCyclic, Blocks, Irregular, whole_number
from .dimensions import (
    BlockSizes,
    Distribution,
    Ownership,
    Places,
    as_whole,
    check_one_size,
    distributions_of,
    local_part,
    local_shape_at,
    sub_array,
)
from .grid import NineIntegers, ProcessGrid


class MergedLayout(NamedTuple):
    """An array with merged dimensions: the distribution and the grid dimension of each dimension, and the grid."""

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
    """Merge the dimensions `dims` into one, with elements in `order`.

    Raises
    ------
    DescriptorError
        The dimensions are not adjacent, or a process's elements would not be blocks of one size.
    """
    layout = MergedLayout(list(distributions), list(axes), grid)
    for k in neighbours(dims, len(distributions), order):
        try:
            layout = merge_with_next(*layout, k, order)
        except DescriptorError as error:
            raise DescriptorError(f"dimensions {k} and {k + 1} cannot be merged: {error}") from None
    return layout


def neighbours(dims: Sequence[object], dimensions: int, order: str) -> Sequence[int]:
    """The successive dimensions to merge with the next one so that all of `dims` become one.

    Raises
    ------
    DescriptorError
        `dims` are not two or more adjacent dimensions, ascending, or `order` is unknown.
    """
    if order not in ("F", "C"):
        raise DescriptorError(f"order = {order!r} must be 'F' (the first dimension runs fastest) or 'C' (the last)")
    numbers = [whole_number(f"dims[{k}]", dim, 0) for k, dim in enumerate(dims)]
    first, count = (numbers or [0])[0], len(numbers)
    if count < 2 or numbers != list(range(first, first + count)) or first + count > dimensions:
        raise DescriptorError(
            f"dims = {dims} must be two or more neighbours of the {dimensions} dimensions, ascending, as 1, 2"
        )
    return [first] * (count - 1) if order == "F" else range(first + count - 2, first - 1, -1)


def merge_with_next(
    distributions: Sequence[Distribution], axes: Sequence[int | None], grid: ProcessGrid, k: int, order: str
) -> MergedLayout:
    """Merge dimensions `k` and k + 1; in order "F" dimension k runs faster.

    This is a lower-dimensional projection of a layout (Birkeland & Sorevik, section 4). Element (i, j) of dimensions of n_i
    and n_j elements, i running faster, becomes element i + n_i j of the merged dimension. Local arrays do not change, so the
    merged dimension must have blocks of one size on the same processes, or irregular blocks if one of the two has them.

    Raises
    ------
    DescriptorError
        The elements of a process would not be blocks of one size; the text says what to change.
    """
    fast, slow = (k, k + 1) if order == "F" else (k + 1, k)
    merged = _as_one(distributions[fast], distributions[slow])
    distributed = fast if distributions[slow].processes == 1 else slow
    parts, new_axes = list(distributions), list(axes)
    if distributions[fast].processes > 1 and distributions[slow].processes > 1:
        grid, new_axes = _with_one_grid_dimension(distributions, axes, grid, fast, slow)
    new_axes[k : k + 2] = [new_axes[distributed]]
    parts[k : k + 2] = [merged]
    return MergedLayout(parts, new_axes, grid)


def _as_one(fast: Distribution, slow: Distribution) -> Distribution:
    """The distribution of two merged dimensions, `fast` running faster.

    If both are distributed, process coordinate c has distance c mod P from the source along the faster dimension, which has P
    processes, and c // P along the slower one.
    """
    n = fast.n * slow.n
    if fast.processes == 1:
        if isinstance(slow, Irregular):
            return Irregular(n, Blocks(slow.block.sizes * fast.n, slow.block.owners), slow.processes)
        return BlockCyclic(n, max(1, fast.n) * slow.block, slow.processes, slow.source)
    if slow.processes == 1:
        if isinstance(fast, Irregular):
            columns = (np.tile(column, slow.n) for column in (fast.block.sizes, fast.block.owners))
            return Irregular(n, Blocks(*columns), fast.processes)
        if fast.n <= fast.block:  # one process holds it all
            return BlockCyclic(n, max(1, n), fast.processes, fast.source)
        if slow.n > 1 and fast.n % fast.stride:
            raise DescriptorError(
                f"{_in_words(fast)} runs faster, and its last round of blocks is not full: its size must be a multiple of "
                f"block x processes = {fast.stride}; choose another block, or merge in the other order where memory allows it"
            )
        return BlockCyclic(n, fast.block, fast.processes, fast.source)
    if isinstance(fast, Irregular) or isinstance(slow, Irregular) or (n and (fast.n != fast.stride or slow.block != 1)):
        raise DescriptorError(
            f"both are distributed: the faster ({_in_words(fast)}) must be one block for each process, of equal size, and the "
            f"slower ({_in_words(slow)}) must have blocks of 1; redistribute one of them first"
        )
    return BlockCyclic(n, fast.block, fast.processes * slow.processes)


def _with_one_grid_dimension(
    distributions: Sequence[Distribution], axes: Sequence[int | None], grid: ProcessGrid, fast: int, slow: int
) -> tuple[ProcessGrid, list[int | None]]:
    """A grid whose last dimension has the processes of both array dimensions, from their sources on; and the new axes."""
    both = {axis: distributions[k].source for k in (slow, fast) if (axis := axes[k]) is not None}
    others = [axis for axis in range(grid.ndim) if axis not in both]
    shifted = np.roll(grid.ranks, [-first for first in both.values()], [*both])
    ranks = shifted.transpose([*others, *both]).reshape([*(grid.shape[axis] for axis in others), -1])
    new_axis = {axis: min(number, len(others)) for number, axis in enumerate([*others, *both])}
    return ProcessGrid(ranks.shape, grid.comm, ranks=ranks), [None if axis is None else new_axis[axis] for axis in axes]


def _in_words(axis: Distribution) -> str:
    return f"a dimension of {axis.n} in blocks of {axis.block} over {axis.processes} processes"


def _grid_remedy(grid: Any, dimensions: int) -> str:
    """The line to write if a grid argument is a communicator or a shape; empty for other objects."""
    if hasattr(grid, "Create_group") and grid:
        return f": wrap the communicator, ProcessGrid({tuple(MPI.Compute_dims(grid.Get_size(), dimensions))}, comm)"
    if isinstance(grid, tuple | list) and all(isinstance(n, int | np.integer) for n in grid):
        return f": ProcessGrid({tuple(grid)}, comm), with the communicator of its ranks"
    return ""


@brief_methods
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
        Grid dimension over which each array dimension is distributed; None: not distributed. By default in order. Along grid
        dimensions that are not in `axes` the processes hold replicas; without `axes` these must be of size 1.
    lld : int, optional
        Leading dimension (LLD) of this rank's local array; by default its number of rows, at least 1.

    Raises
    ------
    DescriptorError
        An argument is invalid; the text has its name, its value, and the valid values.

    Notes
    -----
    A rank outside the grid makes the same collective calls as others. For its local array it passes None or an array without
    elements, and it gets

    - None as the result of a call that moves elements: a plan, `Transfer.wait`, `scatter`, `load`, routines of `scalapack`.
      A program that uses the result on more ranks than the grid has asks whether it is None.
    - an array without elements, of shape `local_shape`, zeros, from what makes a local array of a layout: `empty`, `zeros` and
      `from_function`, and `DistributedArray.local`, so NumPy's functions can be called on all ranks. A `DistributedArray` has
      its dtype from there, and its `local` is None if no dtype is known. Plans do not look at the dtype of such an array.
    """

    is_product = True  # a rank has at most one place, so messages are products over the dimensions

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
            raise DescriptorError(f"grid = {shown(grid)} must be a ProcessGrid{_grid_remedy(grid, max(1, np.size(shape)))}")
        whole, grid_axes = distributions_of(shape, block, grid, source, axes)
        places, on_paper = Places(whole, grid_axes, grid), grid.comm is None
        place = None if grid.coords is None else places.at(grid.coords)
        coords = None if place is None else place[: len(whole)]
        local = (0,) * len(whole) if coords is None else local_shape_at(whole, coords)
        rows = max(1, local[0])
        if lld is not None and whole_number("lld", lld, 1) < rows:
            raise DescriptorError(
                f"lld = {lld} is too small: this rank holds {rows} rows, so it must be at least {rows}"
            )
        # without `__setattr__`, which would take longer than the rest
        put = vars(self).update
        put(
            _grid=grid, _whole=whole, _distributions=whole, _axes=grid_axes, _parent=None, _paper=on_paper, _digest=None
        )
        put(_places=places, _place=place, _coords=coords, _local_shape=local, _shape=tuple([axis.n for axis in whole]))
        put(_lld=int(lld) if lld is not None else None if on_paper else rows)

    @classmethod
    @holding_interrupts
    def from_array(cls, nine_integers: object, comm: MPI.Intracomm) -> Descriptor:
        """Read a ScaLAPACK descriptor of any origin, with its BLACS context. Collective over `comm`.

        Parameters
        ----------
        nine_integers : sequence of nine int, or ctypes.Structure of nine c_int
            DTYPE, CTXT, M, N, MB, NB, RSRC, CSRC, LLD. On a rank outside the grid CTXT is -1 and the other fields are ignored;
            on a rank that holds no rows LLD may be 0.
        comm : MPI.Intracomm
            Communicator that holds all processes of the context.

        Raises
        ------
        DescriptorError
            A field is invalid; the text has its name, its value and the valid values.
        CollectiveError
            Another rank has such an error, or another layout.
        """
        with agreement(group_of(comm), "Descriptor.from_array", learn=True, confirm=True, deliver=True) as agreed:
            desc = cls._read_array(nine_integers, comm)
            cls._give(agreed, "the descriptor", desc)
        return desc or cls._taken(agreed, comm)

    @staticmethod
    def _give(agreed: agreement, name: str, desc: Descriptor | None) -> None:
        """Say which layout is meant, and give it to ranks that do not know it."""
        agreed.same(name, None if desc is None else desc.layout_digest, desc, field="source")
        agreed.learn(None if desc is None else desc._pack())

    @classmethod
    def _taken(cls, agreed: agreement, comm: MPI.Intracomm) -> Descriptor:
        """The layout that another rank has given."""
        if agreed.result is None:
            raise DescriptorError("no rank knows the layout: CTXT is -1, or the descriptor None, on all of them")
        return cls._unpack(agreed.result, comm)

    @classmethod
    def _read_array(cls, nine_integers: object, comm: MPI.Intracomm) -> Descriptor | None:
        """Read nine integers on a rank of their grid; None if CTXT is -1."""
        fields = NineIntegers.read(nine_integers, comm)
        return (
            None
            if fields is None
            else cls(fields.shape, fields.block, fields.grid, source=fields.source, lld=fields.lld)
        )

    @classmethod
    def _of(cls, whole: Sequence[Distribution], axes: Sequence[int | None], grid: ProcessGrid) -> Descriptor:
        """The descriptor of a whole array with these distributions."""
        shape, block, source = zip(*((axis.n, axis.block, axis.source) for axis in whole), strict=True)
        return cls(shape, block, grid, source=source, axes=axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape; for a sub-array its own."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._whole)

    @property
    def block(self) -> tuple[Any, ...]:
        """Block size of each dimension (MB, NB): an int, or `Blocks` if irregular."""
        return tuple(axis.block for axis in self._whole)

    @property
    def source(self) -> tuple[int, ...]:
        """Process coordinate that owns the (whole array's) first block, for each dimension (RSRC, CSRC)."""
        return tuple(axis.source for axis in self._whole)

    @property
    def axes(self) -> tuple[int | None, ...]:
        """Grid dimension of each array dimension; None: not distributed."""
        return self._axes

    @property
    def grid(self) -> ProcessGrid:
        """The processes."""
        return self._grid

    @property
    def lld(self) -> int:
        """Leading dimension of this rank's local array (LLD). A DescriptorError on paper, unless an `lld` was passed."""
        if self._lld is None:
            self._check_here("an lld", "local_shape_of(coords)[0] has the rows of any process")
        return self._lld or 1

    @property
    def parent(self) -> Descriptor | None:
        """The whole array's descriptor, for a sub-array; None for a whole array."""
        return self._parent

    @property
    def offset(self) -> tuple[int, ...]:
        """Index of the sub-array's first element in the whole array (IA, JA, from 0); zeros for a whole array."""
        return tuple(axis.offset for axis in self._distributions)

    @property
    def coords(self) -> tuple[int, ...] | None:
        """This rank's process coordinate along each array dimension; None outside the grid."""
        return self._coords

    @property
    def copies(self) -> int:
        """Number of replicas: the processes along the grid dimensions that are not in `axes`."""
        return self._places.copies

    def _replicas(self) -> list[Descriptor]:
        """The layout on the processes of each replica alone, in their order. Not collective."""
        tables = [self._places.of_replica(number) for number in range(self.copies)]
        grids = [ProcessGrid(table.shape, self._grid.comm, ranks=table) for table in tables]
        return [Descriptor._on(grid, *self._layout()[1:]) for grid in grids]

    @property
    def places(self) -> NDArray[np.int64]:
        """Rank at each process coordinate along the array dimensions, read-only. A last dimension numbers replicas, if any."""
        return self._places.ranks()

    @property
    def place(self) -> tuple[int, ...] | None:
        """This rank's index into `places`: `coords`, then the number of its replica if there are several; None outside."""
        return self._place

    @property
    def own_places(self) -> list[tuple[int, ...]]:
        """`place` in a list; empty outside the grid."""
        return [] if self._place is None else [self._place]

    @property
    def placement(self) -> NDArray[np.int64]:
        """Rank of the owner at each process coordinate, read-only; the first replica is the owner's."""
        return self.places[..., 0] if self.copies > 1 else self.places

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Shape of this rank's local array (a sub-array's is its whole array's); zeros outside the grid.

        Raises
        ------
        DescriptorError
            The grid is on paper.
        """
        self._check_here("a local_shape", "local_shape_of(coords) is that of any process")
        return self._local_shape

    @property
    def local_shapes(self) -> list[tuple[int, ...]]:
        """`local_shape` in a list."""
        return [self.local_shape]

    def __getitem__(self, key: object) -> Descriptor:
        """Descriptor of a sub-array, `desc[i0:i1, j0:j1]`. Its local arrays are the whole array's. Not collective.

        Negative bounds count from the end, bounds past an edge are set to it, and `...` stands for all remaining dimensions.

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

    def _as_whole(self) -> Descriptor:
        """The layout of a sub-array as an array of its own, with the same elements on the same processes; else this layout."""
        if self._parent is None:
            return self
        return Descriptor._of([*map(as_whole, self._distributions)], self._axes, self._grid)

    @functools.cached_property
    def T(self) -> Descriptor:  # noqa: N802 - as NumPy's
        """The layout of the transpose on the same processes: its local arrays are `a.T`."""
        return self._permuted(range(self.ndim)[::-1])

    def _permuted(self, order: Sequence[int | None]) -> Descriptor:
        """The layout of a view whose dimension k is dimension `order[k]` of this one; for None it is new, of one element."""
        one = BlockCyclic(1, 1, 1)
        whole = Descriptor._of(
            [one if k is None else self._whole[k] for k in order],
            [None if k is None else self._axes[k] for k in order],
            self._grid,
        )
        return whole._part(tuple([one if k is None else self._distributions[k] for k in order]))

    def _of_transpose(self) -> Descriptor:
        return self.T

    def merge(self, *dims: int, order: str = "F") -> Descriptor:
        """This layout with adjacent dimensions merged into one (Birkeland & Sorevik, section 4). Not collective.

        Reshape the local arrays of this descriptor: `a.reshape(desc.local_shape, order=order)`, which copies nothing if `a` is
        contiguous in that order.

        Parameters
        ----------
        *dims : int
            Two or more adjacent dimensions, ascending. At most one of them may be distributed; or both of two, if the faster
            has one block for each process, of equal sizes, and the slower has blocks of 1. The faster dimension must be
            undistributed, irregular, or a multiple of block times processes; other sizes need not be multiples.
        order : {"F", "C"}
            Dimension that runs fastest in memory and in the merged index: the first (Fortran) or the last (C).

        Raises
        ------
        DescriptorError
            The dimensions are not adjacent, this is a sub-array, or a process's elements would not be blocks of one size.
        """
        if self._parent is not None:
            raise DescriptorError(
                "a sub-array's dimensions cannot be merged: its local arrays hold more than the sub-array"
            )
        return Descriptor._of(*merge_dimensions(self._whole, self._axes, self._grid, dims, order))

    def empty(self, dtype: DTypeLike = np.float64, order: str = "F") -> NDArray[Any]:
        """A new local array of this rank, uninitialized; without elements outside the grid. Not collective."""
        return new_array(self._allocated(), dtype, order)[: self._local_shape[0]]

    def zeros(self, dtype: DTypeLike = np.float64, order: str = "F") -> NDArray[Any]:
        """A new local array of this rank, of zeros; without elements outside the grid. Not collective."""
        return new_array(self._allocated(), dtype, order, zeroed=True)[: self._local_shape[0]]

    def from_function(self, f: Callable[..., Any], dtype: DTypeLike | None = None, order: str = "F") -> NDArray[Any]:
        """A new local array of this rank with elements f(i, j, ...) of the global indices. Not collective.

        Parameters
        ----------
        f : callable
            Called once with one int64 array for each dimension, shaped to broadcast against each other (an open mesh). For a
            sub-array, indices count from its first element, and the rest of the whole array is zero. On a rank without
            elements the arrays are empty.
        dtype : dtype, optional
            Dtype of the array; by default that of the result of `f`.
        order : {"F", "C"}
            Of its elements.

        Raises
        ------
        ArrayError
            The result of `f` does not broadcast to this rank's elements. Exceptions of `f` get a note on its arguments.
        """
        if dtype is not None and self._coords is None:
            return self.empty(dtype, order)
        values = of_indices(f, [self.global_indices(k) for k in range(self.ndim)])
        local = (self.empty if self._parent is None else self.zeros)(values.dtype if dtype is None else dtype, order)
        if self._coords is not None:
            local[local_part(self._distributions, self._coords)] = values
        return local

    def own_arrays(self, local: Any, name: str = "local") -> list[NDArray[Any] | None]:
        """This rank's local array, of the local shape, as a list of one; None if it is empty. Not collective.

        Parameters
        ----------
        local : ndarray or None
            The local array, of its shape or (LLD, columns); None or empty if this rank holds nothing.
        name : str
            Name of the argument in errors.

        Raises
        ------
        ArrayError
            The array does not fit.
        """
        return [fit_local_array(name, local, self)]

    def _array_name(self, name: str, k: int) -> str:
        """How a user writes the k-th of `own_arrays` of an argument."""
        return name

    def _is_stored_as(self, other: object) -> bool:
        """Whether the local arrays of another layout have the same elements in the same order."""
        return self == other

    def to_array(self) -> NDArray[np.intc]:
        """[DTYPE, CTXT, M, N, MB, NB, RSRC, CSRC, LLD], of the whole array for a sub-array. Not collective.

        Raises
        ------
        DescriptorError
            The array or the grid is not two-dimensional, blocks are irregular, the grid has no BLACS context yet, or a number
            does not fit ScaLAPACK's 32-bit integers.
        """
        if self.ndim != 2 or self._grid.ndim != 2 or self._axes != (0, 1):
            remedy = ", without replicas; redistribute to such a layout" if self.copies > 1 else ""
            if self._axes == (1, 0):
                remedy = (
                    ", and this is of a transposed view: a.redistribute(block=64) has the elements in such a layout"
                )
            raise DescriptorError(
                f"{self!r} has no ScaLAPACK descriptor: it needs two dimensions over a two-dimensional grid, in order{remedy}"
            )
        check_one_size(self._whole)
        shape = (self._parent or self).shape
        return NineIntegers(self._grid, shape, self.block, self.source, self.lld).to_array()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a Descriptor has no array of its nine integers: copy=False is not possible")
        return self.to_array() if dtype is None else self.to_array().astype(dtype)

    def _layout(self) -> tuple[Any, ...]:
        """Values that are equal for equal layouts."""
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
        """This layout with its processes as ranks of another communicator. Not collective.

        On its own communicator returns this descriptor. On another communicator, even a duplicate, the result has a new grid
        without a BLACS context (see `ProcessGrid.on`).

        Raises
        ------
        DescriptorError
            A process of the grid is not in `comm`.
        """
        grid = self._grid.on(comm)
        return self if grid is self._grid else self._with_grid(grid)

    def _with_grid(self, grid: ProcessGrid) -> Descriptor:
        """This layout on another grid of the same processes; for a sub-array, its whole array too."""
        view = self._copy()
        view._grid, view._places = grid, Places(self._whole, self._axes, grid)
        view._parent = None if self._parent is None else self._parent._with_grid(grid)
        return view

    def __eq__(self, other: object) -> bool:
        return self._layout() == other._layout() if isinstance(other, Descriptor) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._layout())

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("shape", _by(self.shape)), ("blocks", _by(self.block)), ("grid", repr(self._grid))]
        if any(self.source):
            rows.append(("source", f"{self.source}"))
        if self._axes != tuple(range(self.ndim)) or self.copies > 1:
            rows.append(("axes", f"{self._axes}" + (f", {self.copies} replicas" if self.copies > 1 else "")))
        if self._parent is not None:
            rows.append(("at", f"{self.offset} of {_by(self._parent.shape)}"))
        return rows

    def __repr__(self) -> str:
        unnamed = ("shape", "grid")
        parts = (value if name in unnamed else f"{name} {value}" for name, value in self._rows())
        return f"Descriptor({', '.join(parts)})"

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise AttributeError(f"{name} of a Descriptor cannot be set: layouts are immutable; make a new one")
        object.__setattr__(self, name, value)

    def _copy(self) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update({k: v for k, v in self.__dict__.items() if k != "T"}, _digest=None)
        return copy

    def _maker(self, order: str, zeroed: bool) -> Callable[[np.dtype[Any]], NDArray[Any]]:
        """What makes new local arrays, as `empty` or `zeros`."""
        shape, rows = self._allocated(), self._local_shape[0]
        return lambda dtype: new_array(shape, dtype, order, zeroed=zeroed)[:rows]

    def _allocated(self) -> tuple[int, ...]:
        self._check_here("a local array", "an array of shape local_shape_of(coords) is that of any process")
        rows, *rest = self._local_shape
        return (max(rows, self.lld) if rows else 0, *rest)


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def fit_local_array(name: str, array: object, desc: Descriptor) -> NDArray[Any] | None:
    """Check a local array of `desc`, and cut it to the local shape; None if it is empty.

    Raises
    ------
    ArrayError
        The array does not fit.
    """
    if isinstance(array, np.ndarray) and desc.coords is not None and array.shape == desc.local_shape:
        return array
    shape = desc.local_shape
    if 0 in shape and (array is None or (isinstance(array, np.ndarray) and array.size == 0)):
        return None
    if array is None:
        raise ArrayError(f"{name} is None, but this rank holds a local array of shape {shape}: pass it")
    if not isinstance(array, np.ndarray):
        raise ArrayError(f"{name} is a {type(array).__name__}: it must be a NumPy array of shape {shape}")
    if desc.coords is None:
        raise ArrayError(f"{name} has shape {array.shape}, but this rank is outside the grid: pass None")
    if array.shape == (desc.lld, *shape[1:]):
        return array[: shape[0]]
    if array.shape != shape:
        if desc.parent is not None:
            raise ArrayError(
                f"{name} has shape {array.shape}, but the local arrays of a sub-array are those of the whole "
                f"{desc.parent!r}: pass this rank's, of shape {shape}"
            )
        raise ArrayError(
            f"{name} has shape {array.shape}, but this rank's local array of {desc!r} has shape {shape}"
            + (f", or {(desc.lld, *shape[1:])} with its leading dimension" if desc.lld > max(1, shape[0]) else "")
            + _remedy(name, array.shape, desc)
        )
    return array


def _remedy(name: str, shape: tuple[int, ...], desc: Descriptor) -> str:
    """A remedy for a local array of the wrong shape, guessed from the shape; empty if there is no guess."""
    if shape == desc.shape:
        return (
            f"; {shape} is the shape of the whole array: distribute and scatter take a whole array, "
            f"and desc.from_function(lambda *index: {name}[index]) takes this rank's part of an array that all ranks have"
        )
    if shape == desc.local_shape[::-1]:
        return f"; {name}.T fits"
    everyone = desc.grid._place_in_communicator
    if len(shape) != desc.ndim or everyone is None:
        return ""
    for k, n in enumerate(desc.shape):
        for processes, number in (everyone, _processes_along(desc, k)):
            split = n // processes + (number < n % processes)
            if processes > 1 and shape == (*desc.shape[:k], split, *desc.shape[k + 1 :]):
                blocks = tuple("balanced" if j == k else None for j in range(desc.ndim))
                grid = tuple(processes if j == k else 1 for j in range(desc.ndim))
                return (
                    "; numpy.array_split gives such a part, and 'balanced' has these sizes: "
                    f"Descriptor({desc.shape}, {blocks}, ProcessGrid({grid}, comm))"
                )
    return ""


def _processes_along(desc: Descriptor, k: int) -> tuple[int, int]:
    """The number of processes along a dimension, and this rank's coordinate there."""
    return (1, 0) if desc.coords is None else (desc.distributions[k].processes, desc.coords[k])
