"""The dimensions of a layout, and the owners of its elements.

Functions check a layout's arguments, and make a distribution for each dimension or sub-array. `Ownership`, the base class of
`Descriptor`, has the owners of elements and blocks, and pictures of them.
"""

from __future__ import annotations

import functools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..comm.mpi import MPI
from ..comm.vote import digest
from ..errors import DescriptorError
from .axis import BlockCyclic, Blocks, Irregular, balanced, check_dimensions, whole_number
from .grid import ProcessGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..drawing.svg import DrawnPanel

Distribution = BlockCyclic | Irregular
BALANCED = "balanced"
BlockSizes = int | Blocks | str | None


def _checked_axes(axes: Sequence[int | None] | None, dimensions: int, grid: ProcessGrid) -> tuple[int | None, ...]:
    """The grid dimension of each array dimension; by default in order, and all grid dimensions must then be used."""
    if axes is None:
        grid_axes: tuple[int | None, ...] = tuple(k if k < grid.ndim else None for k in range(dimensions))
    else:
        grid_axes = _each("axes", axes, dimensions)
    used_axes = []
    for k, axis in enumerate(grid_axes):
        if axis is None:
            continue
        if whole_number(f"axes[{k}]", axis, 0) >= grid.ndim:
            raise DescriptorError(
                f"axes[{k}] = {axis} is not a dimension of the grid, which has {grid.ndim}: 0 to {grid.ndim - 1}, or None"
            )
        if axis in used_axes:
            raise DescriptorError(
                f"axes = {grid_axes} uses grid dimension {axis} twice: use it for one array dimension"
            )
        used_axes.append(axis)
    unused = _unused(grid_axes, grid)
    if axes is None and unused:
        axis = unused[0]
        raise DescriptorError(
            f"grid dimension {axis} has {grid.shape[axis]} processes, but no array dimension is distributed over it: "
            f"name it in axes, use a grid of size 1 there, or give axes = {grid_axes} for a replica of the array on each"
        )
    return grid_axes


def _unused(axes: Sequence[int | None], grid: ProcessGrid) -> list[int]:
    """Grid dimensions of several processes without an array dimension: these hold replicas."""
    return [axis for axis, n in enumerate(grid.shape) if n > 1 and axis not in axes]


def distributions_of(
    shape: Sequence[int],
    block: Sequence[BlockSizes] | BlockSizes,
    grid: ProcessGrid,
    source: Sequence[int] | int,
    axes: Sequence[int | None] | None,
) -> tuple[tuple[Distribution, ...], tuple[int | None, ...]]:
    """The distribution of each dimension of an array, and its grid dimension."""
    plain = type(shape) is type(block) is tuple and len(shape) == len(block) == grid.ndim
    if plain and axes is None and type(source) is int and source == 0:  # the usual case
        try:
            return tuple(map(BlockCyclic, shape, block, grid.shape)), tuple(range(grid.ndim))  # type: ignore[arg-type]
        except DescriptorError:
            pass  # the checks below name the argument
    sizes = [whole_number(f"shape[{k}]", n, 0) for k, n in enumerate(_each("shape", shape, None))]
    check_dimensions(sizes)
    grid_axes = _checked_axes(axes, len(sizes), grid)
    processes = [1 if axis is None else grid.shape[axis] for axis in grid_axes]
    one_for_all = isinstance(block, Blocks) or (isinstance(block, str) and block == BALANCED)
    block_sizes = _each("block", (block,) * len(sizes) if one_for_all else block, len(sizes))
    blocks = [_checked_block(k, n, p, b) for k, (n, p, b) in enumerate(zip(sizes, processes, block_sizes, strict=True))]
    sources = [whole_number(f"source[{k}]", s, 0) for k, s in enumerate(_each("source", source, len(sizes)))]
    for k, (s, p) in enumerate(zip(sources, processes, strict=True)):
        if s >= p:
            raise DescriptorError(
                f"source[{k}] = {s} is outside the grid: its dimension has {p} processes, so it must be 0 to {p - 1}"
            )
    parts = enumerate(zip(sizes, blocks, processes, sources, strict=True))
    return tuple(_distribution(k, *part) for k, part in parts), grid_axes


def _checked_block(k: int, n: int, processes: int, block: object) -> int | Blocks:
    if block is None:
        return max(1, -(-n // processes))
    if isinstance(block, Blocks):
        return block
    if isinstance(block, str):
        if block != BALANCED:
            raise DescriptorError(
                f"block[{k}] = {block!r} must be an integer of at least 1, None (one block per process), 'balanced' (one block "
                "per process, of sizes that differ by at most one), or Blocks(sizes, owners)"
            )
        return balanced(n, processes)
    return whole_number(f"block[{k}]", block, 1, ": elements in a block; None is one per process")


def _distribution(k: int, n: int, block: int | Blocks, processes: int, source: int) -> Distribution:
    if not isinstance(block, Blocks):
        return BlockCyclic(n, block, processes, source)
    if block.total != n:
        raise DescriptorError(
            f"block[{k}] = {block!r}: the sizes sum to {block.total}, but shape[{k}] = {n}: they must sum to that"
        )
    if source:
        raise DescriptorError(
            f"source[{k}] = {source} is for blocks of one size: with block[{k}] = {block!r} it must be 0; give processes by "
            "Blocks(sizes, owners)"
        )
    try:
        return Irregular(n, block, processes)
    except DescriptorError as error:
        raise DescriptorError(f"block[{k}] = {block!r}: {error}") from None


def _each(name: str, value: Any, dimensions: int | None) -> tuple[Any, ...]:
    """One value for each dimension; a single value is repeated."""
    if value is None or isinstance(value, int | np.integer | str):
        return (value,) * (1 if dimensions is None else dimensions)
    try:
        values = tuple(value)
    except TypeError:
        raise DescriptorError(
            f"{name} = {value!r} must be an integer or a sequence of them, one for each dimension"
        ) from None
    if dimensions is not None and len(values) != dimensions:
        raise DescriptorError(
            f"{name} = {values} has {len(values)} entries, but the array has {dimensions} dimensions: give one for each"
        )
    return values


def sub_array(distributions: Sequence[Distribution], key: object) -> tuple[Distribution, ...]:
    """The distributions of a sub-array: slices of the first dimensions, and after `...` of the last ones."""
    slices = key if isinstance(key, tuple) else (key,)
    dimensions = len(distributions)
    gaps = [k for k, part in enumerate(slices) if part is Ellipsis]
    if len(gaps) > 1:
        raise DescriptorError(f"a sub-array needs at most one ellipsis (...), got {len(gaps)}")
    if len(slices) - len(gaps) > dimensions:
        raise DescriptorError(
            f"a sub-array of {dimensions} dimensions needs at most {dimensions} slices, got {len(slices) - len(gaps)}"
        )
    before, after = (slices[: gaps[0]], slices[gaps[0] + 1 :]) if gaps else (slices, ())
    slices = (*before, *(slice(None),) * (dimensions - len(before) - len(after)), *after)
    return tuple(_part(k, *both) for k, both in enumerate(zip(distributions, slices, strict=True)))


def _part(k: int, axis: Distribution, part: object) -> Distribution:
    if not isinstance(part, slice):
        raise DescriptorError(f"dimension {k}: a sub-array needs slices, not {part!r}; for one index i write i:i+1")
    if part.step not in (None, 1):
        raise DescriptorError(f"dimension {k}: the step of a sub-array must be 1, not {part.step}")
    try:
        low, high, _ = part.indices(axis.n)
    except TypeError:
        raise DescriptorError(f"dimension {k}: the bounds of {part!r} must be integers") from None
    return replace(axis, n=max(0, high - low), offset=axis.offset + low)


def as_whole(axis: Distribution) -> Distribution:
    """The distribution of a part of a dimension as that of a whole one: the same elements on the same processes."""
    if isinstance(axis, Irregular):
        return Irregular(axis.n, axis.block, axis.processes)
    blocks, skipped = divmod(axis.offset, axis.block)
    if skipped + axis.n <= axis.block or not skipped or axis.processes == 1:
        return BlockCyclic(axis.n, axis.block, axis.processes, (axis.source + blocks) % axis.processes)
    edges = axis.block_edges()
    return Irregular(axis.n, Blocks(np.diff(edges), axis.owner(edges[:-1])), axis.processes)


def check_one_size(distributions: Sequence[Distribution]) -> None:
    """Raise a DescriptorError for irregular blocks, which a ScaLAPACK descriptor cannot express."""
    for k, axis in enumerate(distributions):
        if isinstance(axis, Irregular):
            raise DescriptorError(
                f"dimension {k} has irregular blocks, {axis.blocks!r}, but a ScaLAPACK descriptor has one block size: "
                "redistribute to a Descriptor with a block size first"
            )


class Places:
    """The ranks by process coordinates along the array dimensions, and by replica.

    Attributes
    ----------
    copies : int
        Number of replicas. They are numbered row by row along the grid dimensions that the array does not use.
    """

    def __init__(self, distributions: Sequence[Distribution], axes: tuple[int | None, ...], grid: ProcessGrid) -> None:
        self._axes, self._rest, self._grid = axes, _unused(axes, grid), grid
        self._processes = [axis.processes for axis in distributions]
        self.copies = math.prod(grid.shape[axis] for axis in self._rest)

    def of_replica(self, number: int) -> NDArray[np.int64]:
        """The grid's table of ranks with those of one replica: of size 1 along the dimensions that the array does not use."""
        index = [slice(None)] * self._grid.ndim
        rest = np.unravel_index(number, [self._grid.shape[axis] for axis in self._rest]) if self._rest else ()
        for axis, coordinate in zip(self._rest, rest, strict=True):
            index[axis] = slice(int(coordinate), int(coordinate) + 1)
        return self._grid.ranks[tuple(index)]

    def ranks(self) -> NDArray[np.int64]:
        """Rank at each process coordinate, read-only. A last dimension numbers replicas, if there are several."""
        cached = self._grid._rank_tables.get(self._axes)
        if cached is not None:
            return cached
        used = [axis for axis in self._axes if axis is not None]
        order = used + [axis for axis in range(self._grid.ndim) if axis not in used]
        shape = [*self._processes, self.copies] if self._rest else self._processes
        ranks = self._grid.ranks.transpose(order).reshape(shape)
        ranks.setflags(write=False)
        self._grid._rank_tables[self._axes] = ranks
        return ranks

    def at(self, coords: Sequence[int]) -> tuple[int, ...]:
        """The index into `ranks` for grid coordinates: one number for each dimension, then the replica's, if several."""
        place = [0 if axis is None else operator.index(coords[axis]) for axis in self._axes]
        if self._rest:
            copy = 0
            for axis in self._rest:
                copy = copy * self._grid.shape[axis] + operator.index(coords[axis])
            place.append(copy)
        return tuple(place)


_numbers = operator.attrgetter("n", "block", "processes", "source", "offset")


def in_numbers(distributions: Sequence[Distribution]) -> list[tuple[Any, ...]]:
    """Numbers of each distribution that are equal for equal distributions."""
    return list(map(_numbers, distributions))


@functools.lru_cache(maxsize=256)
def local_part(distributions: tuple[Distribution, ...], coords: tuple[int, ...]) -> tuple[slice, ...]:
    """Slices of the local array that hold a process's elements of the sub-array."""
    return tuple(
        slice(start := axis.local_start(p), start + axis.local_size(p))
        for axis, p in zip(distributions, coords, strict=True)
    )


LARGEST_MAP = 10**8  # entries of a map: 800 MB
MOST_BLOCKS, MOST_PANELS = 1600, 12  # in a picture by matplotlib
FEW_BLOCKS = 32  # blocks drawn along a dimension at least; more for two rounds of all processes
MOST_IN_HTML, PANELS_IN_HTML = 600, 6  # blocks and panels in HTML


class Ownership(ABC):
    """Owners of elements: methods of `Descriptor` for any process, also on a grid on paper. Not collective."""

    _grid: ProcessGrid
    _places: Places
    _whole: tuple[Distribution, ...]
    _distributions: tuple[Distribution, ...]
    _coords: tuple[int, ...] | None
    _place: tuple[int, ...] | None
    _shape: tuple[int, ...]
    _local_shape: tuple[int, ...]
    _lld: int | None
    _paper: bool
    _axes: tuple[int | None, ...]
    _parent: Self | None
    _digest: int | None

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """Distribution of each dimension: a `BlockCyclic`, or an `Irregular` with the same methods."""
        return self._distributions

    @property
    def comm(self) -> MPI.Intracomm | None:
        """The grid's communicator; None on paper."""
        return self._grid.comm

    @property
    def ranks(self) -> tuple[int, ...]:
        """The grid's ranks, ascending."""
        return self._grid._ascending

    @property
    def _has_local(self) -> bool:
        """Whether this rank has a local array."""
        return self._coords is not None

    @property
    def _storage(self) -> int | None:
        """The part of a layout that may differ between ranks: the leading dimension."""
        return self._lld

    @property
    def layout_digest(self) -> int:
        """A hash of the layout, equal on all ranks."""
        cached = self._digest
        if cached is None:
            distributions = self._whole if self._parent is None else (*self._whole, *self._distributions)
            cached = digest(self._grid._in_bytes + repr((self._axes, in_numbers(distributions))).encode())
            vars(self)["_digest"] = cached
        return cached

    @property
    @abstractmethod
    def placement(self) -> NDArray[np.int64]:
        """Rank of the owner at each process coordinate."""

    def local_shape_of(self, coords: Sequence[int]) -> tuple[int, ...]:
        """Shape of the local array at grid coordinates. Not collective.

        Raises
        ------
        DescriptorError
            The coordinates are outside the grid.
        """
        self._grid.rank_of(coords)
        return local_shape_at(self._whole, self._places.at(coords)[: len(self._whole)])

    def global_indices(self, dim: int, coords: Sequence[int] | None = None) -> NDArray[np.int64]:
        """Ascending global indices along `dim` on this rank, or on the process at `coords`. Not collective.

        For a sub-array they count from its first element; the local index of the first is `distributions[dim].local_start(p)`.

        Parameters
        ----------
        dim : int
            Dimension of the array.
        coords : sequence of int, optional
            Grid coordinates of the process; by default this rank's. A rank outside the grid has no indices.

        Raises
        ------
        DescriptorError
            There is no such dimension; `coords` are outside the grid, or missing for a grid on paper.
        """
        dim = self._dimension(dim)
        if coords is None:
            self._check_here("global indices", "global_indices(dim, coords) has those of any process")
            if self._coords is None:
                return np.empty(0, np.int64)
            place = self._coords
        else:
            self._grid.rank_of(coords)
            place = self._places.at(coords)[: len(self._whole)]
        return self._distributions[dim].global_indices(place[dim])

    @abstractmethod
    def _copy(self) -> Self:
        """A copy of the layout that may be changed."""

    @abstractmethod
    def _rows(self) -> list[tuple[str, str]]:
        """Names and values for a table of the layout."""

    @overload
    def owner(self, *indices: int) -> int: ...
    @overload
    def owner(self, *indices: ArrayLike) -> NDArray[np.int64]: ...
    def owner(self, *indices: Any) -> Any:
        """Rank that owns the element at global indices; with replicas, the first. Not collective.

        Parameters
        ----------
        *indices : int or array_like of int
            One for each dimension; for a sub-array they count from its first element. Arrays are broadcast against each
            other, so `desc.owner(*np.ogrid[:m, :n])` is the map of all elements.

        Returns
        -------
        int or ndarray of int64
            Rank of the grid's communicator; an array if any index is an array.

        Raises
        ------
        DescriptorError
            There is not one index for each dimension, or an index is no integer or is outside the array.
        """
        d = len(self._distributions)
        if len(indices) != d:
            raise DescriptorError(
                f"owner() got {len(indices)} indices: the array has {d} dimensions; give one for each"
            )
        arrays = [np.asarray(index) for index in indices]
        coords = []
        for k, (axis, index) in enumerate(zip(self._distributions, arrays, strict=True)):
            if index.size and index.dtype.kind not in "iu":
                raise DescriptorError(f"index {k} = {indices[k]!r} must be an integer, or an array of integers")
            try:
                coords.append(axis.owner(index.astype(np.int64, copy=False)))
            except IndexError:
                raise DescriptorError(
                    f"index {k} = {indices[k]!r} is outside the array: along dimension {k} indices are 0 to {axis.n - 1}"
                ) from None
        ranks = self.placement[tuple(coords)]
        return int(ranks) if all(index.ndim == 0 for index in arrays) else ranks

    def owner_map(self, *, blocks: bool = False) -> NDArray[np.int64]:
        """Rank of every element, or of every block; with replicas, the first. Not collective.

        Parameters
        ----------
        blocks : bool
            One entry for each block instead of each element; `block_edges(dim)` has the edges of the blocks.

        Returns
        -------
        ndarray of int64
            Ranks of the grid's communicator: one for each element, or one for each block.

        Raises
        ------
        DescriptorError
            The map would have more than 10^8 entries.
        """
        axes = self._distributions
        sizes = [axis.number_of_blocks if blocks else axis.n for axis in axes]
        if math.prod(sizes) > LARGEST_MAP:
            remedy = "take a sub-array, desc[i0:i1, j0:j1], or ask owner(i, j) for single elements"
            raise DescriptorError(
                f"a map of {' x '.join(map(str, sizes))} {'blocks' if blocks else 'elements'} has more than {LARGEST_MAP:,} "
                f"entries: {remedy if blocks else 'take owner_map(blocks=True), ' + remedy}"
            )
        coords = [axis.owner(axis.block_edges()[:-1] if blocks else np.arange(axis.n)) for axis in axes]
        return self.placement[np.ix_(*coords)]

    def block_edges(self, dim: int) -> NDArray[np.int64]:
        """First index of each block along `dim`, ascending from 0, then the size of the dimension. Not collective.

        For a sub-array the first and the last block may be cut. For an empty dimension, [0].
        """
        return self._distributions[self._dimension(dim)].block_edges()

    def _dimension(self, dim: int) -> int:
        """The number of a dimension; negative numbers count from the end."""
        d = len(self._distributions)
        if not isinstance(dim, int | np.integer) or not -d <= dim < d:
            raise DescriptorError(
                f"dim = {dim!r} must be a dimension of the array, 0 to {d - 1}, or negative from the end"
            )
        return range(d)[dim]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the blocks in the colours of their ranks, with the rank's number if there is room. Not collective.

        The rows of a matrix go from top to bottom. An array of more dimensions is drawn as panels of its first two, one for
        each block of the others. If there are too many blocks, the first ones are drawn, and the title says so.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure of `matplotlib.pyplot`.

        Returns
        -------
        matplotlib.axes.Axes
            `ax`, or the new one; its `figure` can be saved and shown.

        Raises
        ------
        LibraryError
            Matplotlib is not installed.
        """
        return self._draw(ax, self._region(MOST_BLOCKS))

    def _draw(self, ax: Axes | None, region: Sequence[int]) -> Axes:
        from ..drawing.figures import draw_panels

        return draw_panels(ax, self._panels(region, MOST_PANELS), f"{self._title()}\n{self._left_out(region)}")

    def _repr_html_(self) -> str:
        region = self._region(MOST_IN_HTML)
        from ..drawing.svg import beside, table

        return beside(table(type(self).__name__, self._rows()), self._svg(region))

    def _svg(self, region: Sequence[int], title: str = "") -> str:
        from ..drawing.svg import panels_as_svg, picture

        return picture(panels_as_svg(self._panels(region, PANELS_IN_HTML)), title, self._left_out(region))

    def _title(self) -> str:
        """The layout in a line, without the ranks."""
        values = {**dict(self._rows()), "grid": " x ".join(map(str, self._grid.shape))}
        return ", ".join(value if name == "shape" else f"{name} {value}" for name, value in values.items())

    def _left_out(self, region: Sequence[int]) -> str:
        """A note that a picture shows only this region; empty for the whole array."""
        shape = [axis.n for axis in self._distributions]
        if tuple(region) == tuple(shape):
            return ""
        return f"the first {' x '.join(map(str, region))} of {' x '.join(map(str, shape))} elements"

    def _region(self, most: int, along: int | None = None) -> tuple[int, ...]:
        """Shape of the part to draw: at most `most` blocks in all, and `along` blocks along each dimension."""
        edges = [axis.block_edges(along or max(FEW_BLOCKS, 2 * axis.processes)) for axis in self._distributions]
        counts = [max(1, len(axis_edges) - 1) for axis_edges in edges]
        while math.prod(counts) > most:
            k = counts.index(max(counts))
            counts[k] = max(1, counts[k] * 3 // 4)
        return tuple(
            int(axis_edges[min(count, len(axis_edges) - 1)]) for axis_edges, count in zip(edges, counts, strict=True)
        )

    def _panels(self, region: Sequence[int], most: int) -> list[DrawnPanel]:
        """The region as matrices of blocks."""
        from ..drawing.svg import DrawnPanel

        axes = [replace(axis, n=n) for axis, n in zip(self._distributions, region, strict=True)]
        edges = [axis.block_edges() for axis in axes]
        coords = [axis.owner(axis_edges[:-1]) for axis, axis_edges in zip(axes, edges, strict=True)]
        if len(axes) == 1:
            return [DrawnPanel("", np.array([0, 1]), edges[0], self.placement[coords[0]][None])]
        ranks = self.placement[np.ix_(*coords)]
        panels: list[DrawnPanel] = []
        for index in np.ndindex(ranks.shape[2:]):
            if len(panels) == most:
                panels[-1] = panels[-1]._replace(left_out=math.prod(ranks.shape[2:]) - most)
                break
            slices = [f"{axis_edges[k]}:{axis_edges[k + 1]}" for axis_edges, k in zip(edges[2:], index, strict=True)]
            panels.append(
                DrawnPanel(f"[:, :, {', '.join(slices)}]" if slices else "", edges[0], edges[1], ranks[(..., *index)])
            )
        return panels or [DrawnPanel("", edges[0], edges[1], np.zeros((0, 0), np.int64))]

    def _check_here(self, result: str, instead: str) -> None:
        """Raise a DescriptorError for a grid on paper, which has no current rank."""
        if self._paper:
            raise DescriptorError(
                f"{self!r} is on paper, where no rank has {result}: {instead}; or give its grid a communicator"
            )

    def _for_rank(self, rank: int) -> Self:
        """This layout with the coordinates and the local shape of another rank, also on paper."""
        place = self._grid.coords_of(rank)
        view = self._copy()
        view._place = None if place is None else self._places.at(place)
        view._coords = None if view._place is None else view._place[: len(self._whole)]
        view._local_shape = (
            (0,) * len(self._whole) if view._coords is None else local_shape_at(self._whole, view._coords)
        )
        view._lld, view._paper = max(1, view._local_shape[0]), False
        return view


def local_shape_at(distributions: Sequence[Distribution], coords: Sequence[int]) -> tuple[int, ...]:
    """Number of elements along each dimension on a process."""
    return tuple(axis.local_size(p) for axis, p in zip(distributions, coords, strict=True))


def common_region(layouts: Sequence[Ownership], html: bool = False) -> tuple[int, ...]:
    """Shape of the part of an array that pictures of all these layouts can show."""
    return tuple(map(min, *(layout._region(MOST_IN_HTML if html else MOST_BLOCKS) for layout in layouts)))
