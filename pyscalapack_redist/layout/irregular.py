"""One dimension dealt out in blocks of any sizes to any processes: who owns an index, and where it lies there.

A process's blocks lie in its local array in the order of their indices, so local indices ascend with the global ones, as
those of a block-cyclic dimension do.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import DescriptorError
from .blockcyclic import LARGEST, Axis, whole_number

__all__ = ["Blocks", "Intervals", "Irregular", "balanced", "integers"]

Ints = NDArray[np.int64]
SHOWN = 8  # blocks in a repr


class Intervals(NamedTuple):
    """Intervals begin <= i < end of an axis, ascending; for each, its process and the local index of its first element."""

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
        Process coordinate, along the dimension, that owns each block: any number of blocks for each process, in any
        order, or none. By default block k is process k's.

    Attributes
    ----------
    sizes, owners : ndarray of int64
        The same layout in the fewest blocks, read-only: empty ones are left out, and neighbours of one process are one.
        Two `Blocks` are equal if these are.

    Raises
    ------
    DescriptorError
        Names the size or owner that is not an integer of at least 0; or there are not as many owners as sizes.
    """

    def __init__(self, sizes: ArrayLike, owners: ArrayLike | None = None) -> None:
        given = integers("sizes", sizes, ": elements in a block")
        to = np.arange(len(given)) if owners is None else integers("owners", owners, ": a process coordinate")
        if len(to) != len(given):
            raise DescriptorError(
                f"owners has {len(to)} entries and sizes {len(given)}: give the process of each block"
            )
        if given.sum(dtype=np.float64) > LARGEST:
            raise DescriptorError("sizes must sum to at most 2**62, the largest index of this package")
        self._processes = int(to.max(initial=-1)) + 1  # those of empty blocks included
        given, to = given[given > 0], to[given > 0]
        starts = np.flatnonzero(np.concatenate([to[:1] >= 0, to[1:] != to[:-1]]))
        self.sizes: Ints = np.add.reduceat(given, starts) if len(starts) else given
        self.owners: Ints = to[starts]
        for array in (self.sizes, self.owners):
            array.setflags(write=False)

    @property
    def total(self) -> int:
        """Elements in all blocks. Not collective."""
        return int(self._edges[-1])

    @functools.cached_property
    def _edges(self) -> Ints:
        """Where the blocks begin, and the end of the last."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @functools.cached_property
    def _by_owner(self) -> tuple[Ints, Ints]:
        """The blocks sorted by process, and their processes."""
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
        """Number of the block that an element is in."""
        return np.searchsorted(self._edges, index, "right") - 1

    @functools.cached_property
    def _key(self) -> str:
        """All sizes and owners in a few letters."""
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
    """One block for each process, of sizes that differ by one at most: those of `numpy.array_split`. Not collective."""
    size, longer = divmod(n, processes)
    return Blocks(size + (np.arange(processes) < longer))


@dataclass(frozen=True, slots=True)
class Irregular(Axis):
    """The distribution of `n` elements in blocks of any sizes; the methods are those of `BlockCyclic`. Not collective.

    It is compared by its blocks: a block-cyclic axis that deals elements out alike is another axis. What is asked of one
    process costs as much as it has blocks; who owns an element, a binary search among all.

    Parameters
    ----------
    n : int
        Number of elements, 0 or more.
    blocks : Blocks
        Sizes and owners: of the larger array where this is a part of one.
    processes : int
        Number of processes along this dimension, 1 or more.
    offset : int
        Index of element 0 in the larger array, whose local indices count.

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
                f"owners has {self.blocks._processes - 1}, but its dimension has {self.processes} processes: each must be 0 "
                f"to {self.processes - 1}; by default there is one block for each process"
            )
        if not 0 <= self.offset <= self.offset + self.n <= self.blocks.total:
            raise DescriptorError(
                f"sizes sum to {self.blocks.total}, but {self.n} elements from {self.offset} on are asked for"
            )

    @property
    def block(self) -> Blocks:
        """The blocks of these elements alone. Not collective."""
        if self.n == self.blocks.total:
            return self.blocks
        edges = np.clip(self.blocks._edges, self.offset, self.offset + self.n)
        return Blocks(np.diff(edges), self.blocks.owners)

    @property
    def source(self) -> int:
        """0: the owners are named. Not collective."""
        return 0

    @property
    def stride(self) -> int:
        """Elements of all blocks, at least 1: nothing repeats before. Not collective."""
        return max(1, self.blocks.total)

    @property
    def number_of_blocks(self) -> int:
        """Blocks that have an element of this array. Not collective."""
        return len(self.block_edges()) - 1

    def block_edges(self, most: int | None = None) -> NDArray[np.int64]:
        """Index of the first element of each block, ascending, then `n`; of the first `most` blocks alone, their end.

        Not collective.
        """
        found = np.unique(np.clip(self.blocks._edges - self.offset, 0, self.n))
        return found if most is None else found[: most + 1]

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

    def intervals(self, p: int) -> Intervals:
        """The elements of process `p` as intervals that are not empty. Not collective."""
        own = self.blocks._of(self._process(p))
        begin, end = self.blocks._edges[own] - self.offset, self.blocks._edges[own + 1] - self.offset
        low, high = np.maximum(begin, 0), np.minimum(end, self.n)
        some = low < high
        local = self.blocks._local[own] + low - begin
        return Intervals(low[some], high[some], local[some], self.blocks.owners[own][some])

    def cut(self, begin: Ints, end: Ints) -> tuple[Ints, Intervals]:
        """Intervals of elements, none of them empty, cut where blocks end. Not collective.

        Returns
        -------
        ndarray of int64
            Which of the intervals each piece is of.
        Intervals
            The pieces.
        """
        edges, first, last = self.blocks._edges, begin + self.offset, end + self.offset
        low = self.blocks._number_of(first)
        pieces = np.searchsorted(edges, last) - low
        of = np.repeat(np.arange(len(pieces)), pieces)
        number = np.arange(len(of)) + np.repeat(low - np.cumsum(pieces) + pieces, pieces)
        start, stop = np.maximum(first[of], edges[number]), np.minimum(last[of], edges[number + 1])
        local = self.blocks._local[number] + start - edges[number]
        return of, Intervals(start - self.offset, stop - self.offset, local, self.blocks.owners[number])

    def _held_before(self, bound: int, p: int) -> int:
        own = self.blocks._of(p)
        begun = int(np.searchsorted(self.blocks._edges[own], bound))
        if not begun:
            return 0
        last = own[begun - 1]
        within = min(bound - int(self.blocks._edges[last]), int(self.blocks.sizes[last]))
        return int(self.blocks._local[last]) + within


def _like(given: Any, found: Any) -> Any:
    """An array for an array, an int for an integer."""
    return found if isinstance(given, np.ndarray) else int(found)


def integers(name: str, values: Any, hint: str) -> Ints:
    """A copy as an array of integers of at least 0; a DescriptorError where they are not. Not collective."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        smallest, largest = values.min(initial=0), values.max(initial=0)
        if smallest >= 0 and largest <= LARGEST:
            return values.astype(np.int64)
    try:
        listed = list(values)
    except TypeError:
        raise DescriptorError(f"{name} = {values!r} must be a sequence of integers of at least 0{hint}") from None
    return np.array([whole_number(f"{name}[{k}]", value, 0, hint) for k, value in enumerate(listed)], np.int64)
