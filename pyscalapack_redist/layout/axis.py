"""The distribution of one dimension over processes, in blocks of one size (`BlockCyclic`) or of any sizes (`Irregular`).

An axis gives the owner and the local index of each global index. All block-cyclic index arithmetic of the package is here.
Indices start at 0.
"""

from __future__ import annotations

import functools
import hashlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import DescriptorError

Ints = NDArray[np.int64]
SHOWN = 8  # blocks in a repr
LARGEST = 2**62  # the sum of two such numbers fits in 64 bits
MOST_DIMENSIONS: int = getattr(np, "MAXDIMS", 64)  # of a NumPy array: NumPy 1 has MAXDIMS = 32


def whole_number(name: str, value: object, least: int, hint: str = "") -> int:
    """Return `value` as an int of at least `least`, or raise a DescriptorError that names it."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise DescriptorError(f"{name} = {value!r} must be an integer of at least {least}{hint}") from None
    if number < least:
        raise DescriptorError(f"{name} = {number} must be at least {least}{hint}")
    if number > LARGEST:
        raise DescriptorError(f"{name} = {number} must be at most 2**62, the largest index of this package")
    return number


def check_dimensions(shape: Sized) -> None:
    """Raise a DescriptorError for no dimensions, or for more than a NumPy array can have."""
    if not len(shape):
        raise DescriptorError("shape = () must have at least one dimension")
    if len(shape) > MOST_DIMENSIONS:
        raise DescriptorError(f"shape has {len(shape)} dimensions: NumPy's arrays have at most {MOST_DIMENSIONS}")


class Axis(ABC):
    """The distribution of one dimension: `BlockCyclic`, or `Irregular` for blocks of any sizes. Not collective.

    Attributes
    ----------
    n : int
        Number of elements.
    processes : int
        Number of processes along this dimension.
    offset : int
        Index of element 0 in a larger array of the same distribution; local indices are those of the larger array.
    """

    __slots__ = ()
    n: int
    processes: int
    offset: int

    @abstractmethod
    def owner(self, i: Any) -> Any:
        """Process that owns element `i` (an int or an array of them). Not collective."""

    @abstractmethod
    def local_index(self, i: Any) -> Any:
        """Index of element `i` in its owner's local array. Not collective."""

    @abstractmethod
    def global_index(self, p: int, local: Any) -> Any:
        """Element that process `p` holds at `local` (an int or an array of them). Not collective."""

    @property
    @abstractmethod
    def number_of_blocks(self) -> int:
        """Number of blocks with elements of this array."""

    @abstractmethod
    def block_edges(self, most: int | None = None) -> NDArray[np.int64]:
        """Index of the first element of each block, ascending, then `n`. Not collective.

        With `most`, of the first `most` blocks, then their end.
        """

    @abstractmethod
    def _held_before(self, bound: int, p: int) -> int:
        """Number of the larger array's first `bound` elements that process `p` holds."""

    def local_start(self, p: int) -> int:
        """Local index of the first element on process `p`: 0 unless `offset` skips some. Not collective."""
        return self._held_before(self.offset, self._process(p))

    def local_size(self, p: int) -> int:
        """Number of elements on process `p` (NUMROC when offset is 0). Not collective."""
        end = self._held_before(self.offset + self.n, self._process(p))
        return end - self._held_before(self.offset, p) if self.offset else end

    def global_indices(self, p: int) -> NDArray[np.int64]:
        """All elements on process `p`, ascending: one for each local index from `local_start`. Not collective."""
        first = self.local_start(p)
        indices: NDArray[np.int64] = self.global_index(p, np.arange(first, first + self.local_size(p), dtype=np.int64))
        return indices

    def _process(self, p: int) -> int:
        if not 0 <= p < self.processes:
            raise IndexError(f"process {p} is outside 0 <= p < {self.processes}")
        return p

    def _checked(self, i: Any) -> Any:
        return within(i, 0, self.n, "index")

    def _checked_local(self, p: int, local: Any) -> Any:
        first = self.local_start(p)
        return within(local, first, first + self.local_size(p), "local index", f" on process {p}")


@dataclass(frozen=True, slots=True)
class BlockCyclic(Axis):
    """The cyclic distribution of `n` elements in blocks of `block` over `processes` processes. Not collective.

    ScaLAPACK's names for the same things: `local_size` is NUMROC, `owner` INDXG2P, `local_index` INDXG2L, `global_index`
    INDXL2G, `source` RSRC or CSRC.

    Parameters
    ----------
    n : int
        Number of elements, 0 or more.
    block : int
        Elements in a block, 1 or more; it may exceed `n`.
    processes : int
        Number of processes along this dimension, 1 or more.
    source : int
        Process that owns the first block (RSRC, CSRC).
    offset : int
        Index of element 0 in a larger array of the same distribution (a sub-array may start in mid-block). `source` and all
        local indices are then the larger array's.

    Raises
    ------
    DescriptorError
        A parameter is not an integer or out of range; the message names it.
    """

    n: int
    block: int
    processes: int
    source: int = 0
    offset: int = 0

    def __post_init__(self) -> None:
        n, block, processes, source, offset = self.n, self.block, self.processes, self.source, self.offset
        if (
            type(n) is type(block) is type(processes) is type(source) is type(offset) is int
            and 0 <= n <= LARGEST
            and 0 < block <= LARGEST
            and 0 <= source < processes <= LARGEST
            and 0 <= offset <= LARGEST
        ):
            return  # a check of each by name would take longer than the rest
        for name, least, hint in (
            ("n", 0, ""),
            ("block", 1, ": it is the number of elements in a block"),
            ("processes", 1, ""),
            ("source", 0, ""),
            ("offset", 0, ""),
        ):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least, hint))
        if self.source >= self.processes:
            raise DescriptorError(
                f"source = {self.source} is outside the grid: along a dimension of {self.processes} processes it must "
                f"be 0 to {self.processes - 1}"
            )

    @property
    def stride(self) -> int:
        """Elements from one block of a process to its next block: block * processes."""
        return self.block * self.processes

    @property
    def number_of_blocks(self) -> int:
        """Number of blocks with elements of this array."""
        return -(-(self.offset % self.block + self.n) // self.block) if self.n else 0

    def block_edges(self, most: int | None = None) -> NDArray[np.int64]:
        """Index of the first element of each block, ascending, then `n`. Not collective.

        With `most`, of the first `most` blocks, then their end.
        """
        count = self.number_of_blocks if most is None else min(most, self.number_of_blocks)
        return np.clip(np.arange(count + 1) * self.block - self.offset % self.block, 0, self.n)

    @overload
    def owner(self, i: int | np.integer[Any]) -> int: ...
    @overload
    def owner(self, i: NDArray[Any]) -> NDArray[np.int64]: ...
    def owner(self, i: Any) -> Any:
        """Process that owns element `i` (an int or an array of them). Not collective.

        Raises
        ------
        IndexError
            An index is outside 0 <= i < n.
        """
        return (self.source + (self._checked(i) + self.offset) // self.block) % self.processes

    @overload
    def local_index(self, i: int | np.integer[Any]) -> int: ...
    @overload
    def local_index(self, i: NDArray[Any]) -> NDArray[np.int64]: ...
    def local_index(self, i: Any) -> Any:
        """Index of element `i` in its owner's local array. Not collective.

        Raises
        ------
        IndexError
            An index is outside 0 <= i < n.
        """
        whole = self._checked(i) + self.offset
        return whole // self.stride * self.block + whole % self.block

    @overload
    def global_index(self, p: int, local: int | np.integer[Any]) -> int: ...
    @overload
    def global_index(self, p: int, local: NDArray[Any]) -> NDArray[np.int64]: ...
    def global_index(self, p: int, local: Any) -> Any:
        """Element that process `p` holds at `local` (an int or an array of them). Not collective.

        Raises
        ------
        IndexError
            A local index is not one of an element of this array on `p`.
        """
        index = self._checked_local(p, local)
        round_, within = index // self.block, index % self.block
        return (round_ * self.processes + self._distance(p)) * self.block + within - self.offset

    def _distance(self, p: int) -> int:
        """Distance of process `p` from the source."""
        return (p - self.source) % self.processes

    def _held_before(self, bound: int, p: int) -> int:
        """Number of the larger array's first `bound` elements that process `p` holds."""
        rounds, rest = divmod(bound, self.stride)
        return rounds * self.block + min(max(rest - self._distance(p) * self.block, 0), self.block)


def within(i: Any, low: int, high: int, name: str, place: str = "") -> Any:
    """Return an int or an array of ints; an IndexError unless low <= i < high."""
    if not isinstance(i, np.ndarray):
        i = operator.index(i)
        inside = low <= i < high
    else:
        i = i.astype(np.int64, copy=False)
        inside = not i.size or (int(i.min()) >= low and int(i.max()) < high)
    if not inside:
        raise IndexError(f"{name} {i}{place} is outside {low} <= index < {high}")
    return i


class AxisIntervals(NamedTuple):
    """Ascending intervals begin <= i < end of an axis, each with its process and the local index of its first element."""

    begin: Ints
    end: Ints
    local: Ints
    owner: Ints


class Blocks:
    """Blocks of any sizes, in place of a block size of a `Descriptor`. Not collective.

    Parameters
    ----------
    sizes : sequence of int
        Elements in each block, in the order of their indices; 0 is allowed. The sum is the size of the dimension.
    owners : sequence of int, optional
        Process coordinate, along the dimension, that owns each block: any number of blocks for each process, in any order.
        By default process k owns block k.

    Attributes
    ----------
    sizes, owners : ndarray of int64
        The layout in the fewest blocks, read-only: without empty blocks, and with adjacent blocks of one process merged. Two
        `Blocks` are equal if these are.

    Raises
    ------
    DescriptorError
        A size or an owner is not an integer of at least 0, or there are not as many owners as sizes.
    """

    def __init__(self, sizes: ArrayLike, owners: ArrayLike | None = None) -> None:
        counts = integers("sizes", sizes, ": elements in a block")
        processes = np.arange(len(counts)) if owners is None else integers("owners", owners, ": a process coordinate")
        if len(processes) != len(counts):
            raise DescriptorError(
                f"owners has {len(processes)} entries and sizes {len(counts)}: give the process of each block"
            )
        if counts.sum(dtype=np.float64) > LARGEST:
            raise DescriptorError("sizes must sum to at most 2**62, the largest index of this package")
        self._processes = int(processes.max(initial=-1)) + 1  # including those of empty blocks
        counts, processes = counts[counts > 0], processes[counts > 0]
        starts = np.flatnonzero(np.concatenate([processes[:1] >= 0, processes[1:] != processes[:-1]]))
        self.sizes: Ints = np.add.reduceat(counts, starts) if len(starts) else counts
        self.owners: Ints = processes[starts]
        for array in (self.sizes, self.owners):
            array.setflags(write=False)

    @property
    def total(self) -> int:
        """Number of elements in all blocks."""
        return int(self._edges[-1])

    @functools.cached_property
    def _edges(self) -> Ints:
        """First index of each block, and the end of the last block."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @functools.cached_property
    def _by_owner(self) -> tuple[Ints, Ints]:
        """Numbers of the blocks sorted by process, and their processes."""
        order = np.argsort(self.owners, kind="stable")
        return order, self.owners[order]

    @functools.cached_property
    def _local(self) -> Ints:
        """Local index of the first element of each block."""
        order, owners = self._by_owner
        ends = np.cumsum(self.sizes[order])
        before = ends - self.sizes[order]
        local = np.empty_like(before)
        local[order] = before - before[np.searchsorted(owners, owners)]
        return local

    def _of(self, p: int) -> Ints:
        """Numbers of the blocks of a process, ascending."""
        order, owners = self._by_owner
        return order[np.searchsorted(owners, p) : np.searchsorted(owners, p, "right")]

    def _number_of(self, index: Any) -> Any:
        """Number of the block of an element."""
        return np.searchsorted(self._edges, index, "right") - 1

    @functools.cached_property
    def _key(self) -> str:
        """A short hash of all sizes and owners."""
        return hashlib.blake2b(self.sizes.tobytes() + self.owners.tobytes(), digest_size=8).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Blocks):
            return NotImplemented
        return np.array_equal(self.sizes, other.sizes) and np.array_equal(self.owners, other.owners)

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[type[Blocks], tuple[Ints, Ints]]:
        return Blocks, (self.sizes, self.owners)

    def __repr__(self) -> str:
        if len(self.sizes) > SHOWN:
            return f"Blocks({len(self.sizes)} blocks of {self.total} elements in all, {self._key})"
        in_order = np.array_equal(self.owners, np.arange(len(self.owners)))
        return f"Blocks({self.sizes.tolist()}{'' if in_order else f', {self.owners.tolist()}'})"


def balanced(n: int, processes: int) -> Blocks:
    """One block for each process, with sizes that differ by at most one, as of `numpy.array_split`."""
    size, longer = divmod(n, processes)
    return Blocks(size + (np.arange(processes) < longer))


@dataclass(frozen=True, slots=True)
class Irregular(Axis):
    """The distribution of `n` elements in blocks of any sizes, with the methods of `BlockCyclic`. Not collective.

    The blocks of a process are in its local array in the order of their indices, so local indices ascend with global indices,
    as in a block-cyclic dimension. Axes are equal if their blocks are; an equivalent block-cyclic axis is not equal. Methods
    for one process cost time proportional to its blocks; the owner of an element, a binary search among all blocks.

    Parameters
    ----------
    n : int
        Number of elements, 0 or more.
    blocks : Blocks
        Sizes and owners; of the larger array if this is a part of one.
    processes : int
        Number of processes along this dimension, 1 or more.
    offset : int
        Index of element 0 in the larger array; local indices are those of the larger array.

    Raises
    ------
    DescriptorError
        The blocks have fewer elements, or an owner is not a process.
    """

    n: int
    blocks: Blocks
    processes: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.blocks._processes > self.processes:
            raise DescriptorError(
                f"owners has process {self.blocks._processes - 1}, but its dimension has {self.processes} processes: each must "
                f"be 0 to {self.processes - 1}; by default there is one block for each process"
            )
        if not 0 <= self.offset <= self.offset + self.n <= self.blocks.total:
            raise DescriptorError(
                f"sizes sum to {self.blocks.total}, which is less than {self.n} elements from index {self.offset} on"
            )

    @property
    def block(self) -> Blocks:
        """The blocks, cut to these elements."""
        if self.n == self.blocks.total:
            return self.blocks
        edges = np.clip(self.blocks._edges, self.offset, self.offset + self.n)
        return Blocks(np.diff(edges), self.blocks.owners)

    @property
    def source(self) -> int:
        """0, because the owners are explicit."""
        return 0

    @property
    def stride(self) -> int:
        """Number of elements of all blocks, at least 1; the distribution does not repeat."""
        return max(1, self.blocks.total)

    @property
    def number_of_blocks(self) -> int:
        """Number of blocks with elements of this array."""
        return len(self.block_edges()) - 1

    def block_edges(self, most: int | None = None) -> NDArray[np.int64]:
        """Index of the first element of each block, ascending, then `n`. Not collective.

        With `most`, of the first `most` blocks, then their end.
        """
        edges = np.unique(np.clip(self.blocks._edges - self.offset, 0, self.n))
        return edges if most is None else edges[: most + 1]

    @overload
    def owner(self, i: int | np.integer[Any]) -> int: ...
    @overload
    def owner(self, i: NDArray[Any]) -> Ints: ...
    def owner(self, i: Any) -> Any:
        """Process that owns element `i` (an int or an array of them). Not collective.

        Raises
        ------
        IndexError
            An index is outside 0 <= i < n.
        """
        return _like(i, self.blocks.owners[self.blocks._number_of(self._checked(i) + self.offset)])

    @overload
    def local_index(self, i: int | np.integer[Any]) -> int: ...
    @overload
    def local_index(self, i: NDArray[Any]) -> Ints: ...
    def local_index(self, i: Any) -> Any:
        """Index of element `i` in its owner's local array. Not collective.

        Raises
        ------
        IndexError
            An index is outside 0 <= i < n.
        """
        whole = self._checked(i) + self.offset
        number = self.blocks._number_of(whole)
        return _like(i, self.blocks._local[number] + whole - self.blocks._edges[number])

    @overload
    def global_index(self, p: int, local: int | np.integer[Any]) -> int: ...
    @overload
    def global_index(self, p: int, local: NDArray[Any]) -> Ints: ...
    def global_index(self, p: int, local: Any) -> Any:
        """Element that process `p` holds at `local` (an int or an array of them). Not collective.

        Raises
        ------
        IndexError
            A local index is not one of an element of this array on `p`.
        """
        index = self._checked_local(p, local)
        own = self.blocks._of(p)
        starts = self.blocks._local[own]
        place = np.searchsorted(starts, index, "right") - 1
        return _like(local, self.blocks._edges[own[place]] + index - starts[place] - self.offset)

    def intervals(self, p: int) -> AxisIntervals:
        """The elements of process `p` as nonempty intervals. Not collective."""
        own = self.blocks._of(self._process(p))
        begin, end = self.blocks._edges[own] - self.offset, self.blocks._edges[own + 1] - self.offset
        low, high = np.maximum(begin, 0), np.minimum(end, self.n)
        nonempty = low < high
        local = self.blocks._local[own] + low - begin
        return AxisIntervals(low[nonempty], high[nonempty], local[nonempty], self.blocks.owners[own][nonempty])

    def cut(self, begin: Ints, end: Ints) -> tuple[Ints, AxisIntervals]:
        """Cut nonempty intervals at the ends of blocks. Not collective.

        Returns
        -------
        ndarray of int64
            Number of the interval of each part.
        AxisIntervals
            The parts.
        """
        edges, first, last = self.blocks._edges, begin + self.offset, end + self.offset
        low = self.blocks._number_of(first)
        parts = np.searchsorted(edges, last) - low
        interval = np.repeat(np.arange(len(parts)), parts)
        number = np.arange(len(interval)) + np.repeat(low - np.cumsum(parts) + parts, parts)
        start, stop = np.maximum(first[interval], edges[number]), np.minimum(last[interval], edges[number + 1])
        local = self.blocks._local[number] + start - edges[number]
        return interval, AxisIntervals(start - self.offset, stop - self.offset, local, self.blocks.owners[number])

    def _held_before(self, bound: int, p: int) -> int:
        own = self.blocks._of(p)
        count = int(np.searchsorted(self.blocks._edges[own], bound))
        if not count:
            return 0
        last = own[count - 1]
        within = min(bound - int(self.blocks._edges[last]), int(self.blocks.sizes[last]))
        return int(self.blocks._local[last]) + within


def _like(argument: Any, result: Any) -> Any:
    """The result as an array if the argument is one, else as an int."""
    return result if isinstance(argument, np.ndarray) else int(result)


def integers(name: str, values: Any, hint: str) -> Ints:
    """Copy values into an array of integers; a DescriptorError unless they are integers of at least 0."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        smallest, largest = values.min(initial=0), values.max(initial=0)
        if smallest >= 0 and largest <= LARGEST:
            return values.astype(np.int64)
    try:
        numbers = list(values)
    except TypeError:
        raise DescriptorError(f"{name} = {values!r} must be a sequence of integers of at least 0{hint}") from None
    return np.array([whole_number(f"{name}[{k}]", value, 0, hint) for k, value in enumerate(numbers)], np.int64)
