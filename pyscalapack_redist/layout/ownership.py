"""Who owns which element of an array: ranks of elements and of blocks, and the pictures of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..comm.mpi import MPI
from ..comm.vote import digest
from ..drawing.html import beside, picture, table
from ..drawing.panels import Panel
from ..drawing.svg import panels_as_svg
from ..errors import DescriptorError
from .dimensions import Distribution, Places, in_numbers
from .grid import ProcessGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Ownership", "common_region", "held_at"]

LARGEST_MAP = 10**8  # entries of a map: 800 MB
MOST_BLOCKS, MOST_PANELS = 1600, 12  # of a picture of matplotlib
FEW_BLOCKS = 32  # along a dimension that are drawn in any case, else those of two rounds of all processes
MOST_IN_HTML, PANELS_IN_HTML = 600, 6


class Ownership(ABC):
    """Who owns which element: what a `Descriptor` says of any process, on a grid on paper too. Not collective."""

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
        """Distribution of each dimension; one of irregular blocks has the methods of a `BlockCyclic`."""
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
    def _held(self) -> bool:
        """Whether this rank has a local array."""
        return self._coords is not None

    @property
    def _storage(self) -> int | None:
        """What may differ from rank to rank for a layout: the leading dimension."""
        return self._lld

    @property
    def layout_digest(self) -> int:
        """A number equal on all ranks for equal layouts."""
        found = self._digest
        if found is None:
            every = self._whole if self._parent is None else (*self._whole, *self._distributions)
            found = digest(self._grid._in_bytes + repr((self._axes, in_numbers(every))).encode())
            vars(self)["_digest"] = found
        return found

    @property
    @abstractmethod
    def placement(self) -> NDArray[np.int64]:
        """Rank at each process coordinate: the owner."""

    def local_shape_of(self, coords: Sequence[int]) -> tuple[int, ...]:
        """Shape of the local array at grid coordinates. Not collective.

        Raises
        ------
        DescriptorError
            The coordinates are outside the grid.
        """
        self._grid.rank_of(coords)
        return held_at(self._whole, self._places.at(coords)[: len(self._whole)])

    def global_indices(self, dim: int, coords: Sequence[int] | None = None) -> NDArray[np.int64]:
        """Global indices along `dim` that this rank holds, or the process at some coordinates, ascending. Not collective.

        For a sub-array they count from its first element; local index `distributions[dim].local_start(p)` holds the first.

        Parameters
        ----------
        dim : int
            Dimension of the array.
        coords : sequence of int, optional
            Grid coordinates of the process; by default this rank's, and on a rank outside the grid there are no indices.

        Raises
        ------
        DescriptorError
            There is no such dimension; the coordinates are outside the grid, or are left out for a grid on paper.
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
        """The same layout, to be changed."""

    @abstractmethod
    def _rows(self) -> list[tuple[str, str]]:
        """What a table says of the layout."""

    @overload
    def owner(self, *indices: int) -> int: ...
    @overload
    def owner(self, *indices: ArrayLike) -> NDArray[np.int64]: ...
    def owner(self, *indices: Any) -> Any:
        """Rank that owns the element at the given global indices; where there are copies, the first. Not collective.

        Parameters
        ----------
        *indices : int or array_like of int
            One for each dimension; of a sub-array they count from its first element. Arrays are broadcast against each
            other, so `desc.owner(*np.ogrid[:m, :n])` is the map of all elements.

        Returns
        -------
        int or ndarray of int64
            Rank of the grid's communicator; an array where any index is one.

        Raises
        ------
        DescriptorError
            There is not one index for each dimension, or one is no integer or outside the array.
        """
        d = len(self._distributions)
        if len(indices) != d:
            raise DescriptorError(
                f"owner() got {len(indices)} indices: the array has {d} dimensions; give one for each"
            )
        given = [np.asarray(index) for index in indices]
        coords = []
        for k, (axis, index) in enumerate(zip(self._distributions, given, strict=True)):
            if index.size and index.dtype.kind not in "iu":
                raise DescriptorError(f"index {k} = {indices[k]!r} must be an integer, or an array of integers")
            try:
                coords.append(axis.owner(index.astype(np.int64, copy=False)))
            except IndexError:
                raise DescriptorError(
                    f"index {k} = {indices[k]!r} is outside the array: along dimension {k} indices are 0 to {axis.n - 1}"
                ) from None
        ranks = self.placement[tuple(coords)]
        return int(ranks) if all(index.ndim == 0 for index in given) else ranks

    def owner_map(self, *, blocks: bool = False) -> NDArray[np.int64]:
        """Rank of every element, or of every block; where there are copies, the first. Not collective.

        Parameters
        ----------
        blocks : bool
            One entry for each block instead of each element; `block_edges(dim)` says where the blocks are.

        Returns
        -------
        ndarray of int64
            Ranks of the grid's communicator: of the array's shape, or of as many entries along each dimension as it has
            blocks there.

        Raises
        ------
        DescriptorError
            The map would have more than 10^8 entries.
        """
        axes = self._distributions
        sizes = [axis.number_of_blocks if blocks else axis.n for axis in axes]
        if math.prod(sizes) > LARGEST_MAP:
            remedy = "take a sub-array, desc[i0:i1, j0:j1], or owner(i, j) of the elements that you need"
            raise DescriptorError(
                f"a map of {' x '.join(map(str, sizes))} {'blocks' if blocks else 'elements'} has more than {LARGEST_MAP:,} "
                f"entries: {remedy if blocks else 'take owner_map(blocks=True), ' + remedy}"
            )
        coords = [axis.owner(axis.block_edges()[:-1] if blocks else np.arange(axis.n)) for axis in axes]
        return self.placement[np.ix_(*coords)]

    def block_edges(self, dim: int) -> NDArray[np.int64]:
        """Where the blocks along `dim` begin, ascending from 0, and behind them the size of the dimension. Not collective.

        Of a sub-array, its own: the first and the last block may be parts of blocks. Where the dimension is empty, [0].
        """
        return self._distributions[self._dimension(dim)].block_edges()

    def _dimension(self, dim: int) -> int:
        """The number of a dimension, which may count from the end."""
        d = len(self._distributions)
        if not isinstance(dim, int | np.integer) or not -d <= dim < d:
            raise DescriptorError(
                f"dim = {dim!r} must be a dimension of the array, 0 to {d - 1}, or negative from the end"
            )
        return range(d)[dim]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the blocks in the colours of their processes, with the ranks' numbers where there is room. Not collective.

        A matrix is drawn with its rows from top to bottom, an array of more dimensions as a panel of its first two for
        each block of the others. Of an array of many blocks only the first ones are drawn, which the title says.

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
        return beside(table(type(self).__name__, self._rows()), self._svg(region))

    def _svg(self, region: Sequence[int], title: str = "") -> str:
        return picture(panels_as_svg(self._panels(region, PANELS_IN_HTML)), title, self._left_out(region))

    def _title(self) -> str:
        """The layout in a line, without the ranks."""
        values = {**dict(self._rows()), "grid": " x ".join(map(str, self._grid.shape))}
        return ", ".join(value if name == "shape" else f"{name} {value}" for name, value in values.items())

    def _left_out(self, region: Sequence[int]) -> str:
        """What a picture of that region does not show, in words."""
        shape = [axis.n for axis in self._distributions]
        if tuple(region) == tuple(shape):
            return ""
        return f"the first {' x '.join(map(str, region))} of {' x '.join(map(str, shape))} elements"

    def _region(self, most: int, along: int | None = None) -> tuple[int, ...]:
        """The first elements of a part that can be drawn: so many blocks in all, and `along` along each dimension."""
        edges = [axis.block_edges(along or max(FEW_BLOCKS, 2 * axis.processes)) for axis in self._distributions]
        counts = [max(1, len(some) - 1) for some in edges]
        while math.prod(counts) > most:
            k = counts.index(max(counts))
            counts[k] = max(1, counts[k] * 3 // 4)
        return tuple(int(some[min(count, len(some) - 1)]) for some, count in zip(edges, counts, strict=True))

    def _panels(self, region: Sequence[int], most: int) -> list[Panel]:
        """The region as matrices of blocks."""
        axes = [replace(axis, n=n) for axis, n in zip(self._distributions, region, strict=True)]
        edges = [axis.block_edges() for axis in axes]
        coords = [axis.owner(some[:-1]) for axis, some in zip(axes, edges, strict=True)]
        if len(axes) == 1:
            return [Panel("", np.array([0, 1]), edges[0], self.placement[coords[0]][None])]
        ranks = self.placement[np.ix_(*coords)]
        panels: list[Panel] = []
        for at in np.ndindex(ranks.shape[2:]):
            if len(panels) == most:
                panels[-1] = panels[-1]._replace(left_out=math.prod(ranks.shape[2:]) - most)
                break
            where = [f"{some[k]}:{some[k + 1]}" for some, k in zip(edges[2:], at, strict=True)]
            panels.append(Panel(f"[:, :, {', '.join(where)}]" if where else "", edges[0], edges[1], ranks[(..., *at)]))
        return panels or [Panel("", edges[0], edges[1], np.zeros((0, 0), np.int64))]

    def _check_here(self, what: str, instead: str) -> None:
        """Raise for a grid on paper, where no rank is this one."""
        if self._paper:
            raise DescriptorError(
                f"{self!r} is on paper, where no rank has {what}: {instead}; or give its grid a communicator"
            )

    def _seen_by(self, rank: int) -> Self:
        """This layout as it is on a rank: its coordinates and local shape, for a grid on paper too."""
        place = self._grid.coords_of(rank)
        view = self._copy()
        view._place = None if place is None else self._places.at(place)
        view._coords = None if view._place is None else view._place[: len(self._whole)]
        view._local_shape = (0,) * len(self._whole) if view._coords is None else held_at(self._whole, view._coords)
        view._lld, view._paper = max(1, view._local_shape[0]), False
        return view


def held_at(distributions: Sequence[Distribution], coords: Sequence[int]) -> tuple[int, ...]:
    """Elements that a process holds along each dimension. Not collective."""
    return tuple(axis.local_size(p) for axis, p in zip(distributions, coords, strict=True))


def common_region(layouts: Sequence[Ownership], html: bool = False) -> tuple[int, ...]:
    """The first elements of several layouts of one array that pictures of all of them can show. Not collective."""
    return tuple(map(min, *(layout._region(MOST_IN_HTML if html else MOST_BLOCKS) for layout in layouts)))
