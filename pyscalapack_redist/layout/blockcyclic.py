"""One dimension dealt out in blocks to processes in turn: who owns an index, and where it lies there.

Every piece of block-cyclic index arithmetic of the package is here. ScaLAPACK's names for the same things: `local_size` is
NUMROC, `owner` INDXG2P, `local_index` INDXG2L, `global_index` INDXL2G, `source` RSRC or CSRC. Indices start at 0.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import DescriptorError

__all__ = ["Axis", "BlockCyclic"]

LARGEST = 2**62  # sums of two such numbers still fit in 64 bits
MOST_DIMENSIONS: int = getattr(np, "MAXDIMS", 64)  # of a NumPy array: 32 before NumPy 2, which told so itself


def whole_number(name: str, value: object, least: int, hint: str = "") -> int:
    """Return `value` as an int of at least `least`, or raise a DescriptorError that names it. Not collective."""
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
    """Raise a DescriptorError for no dimensions, and for more than an array can have. Not collective."""
    if not len(shape):
        raise DescriptorError("shape = () must have at least one dimension")
    if len(shape) > MOST_DIMENSIONS:
        raise DescriptorError(f"shape has {len(shape)} dimensions: NumPy's arrays have at most {MOST_DIMENSIONS}")


class Axis(ABC):
    """How one dimension is dealt out: `BlockCyclic`, or `Irregular` for blocks of any sizes. Not collective.

    Attributes
    ----------
    n : int
        Number of elements.
    processes : int
        Number of processes along this dimension.
    offset : int
        Index of element 0 in a larger array of the same distribution, whose local indices count.
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
        """Blocks that have an element of this array. Not collective."""

    @abstractmethod
    def block_edges(self, most: int | None = None) -> NDArray[np.int64]:
        """Index of the first element of each block, ascending, then `n`; of the first `most` blocks alone, their end.

        Not collective.
        """

    @abstractmethod
    def _held_before(self, bound: int, p: int) -> int:
        """How many of the larger array's first `bound` elements process `p` holds."""

    def local_start(self, p: int) -> int:
        """Local index of the first element on process `p`: 0 unless `offset` skips some. Not collective."""
        return self._held_before(self.offset, self._process(p))

    def local_size(self, p: int) -> int:
        """Number of elements on process `p` (NUMROC when offset is 0). Not collective."""
        held = self._held_before(self.offset + self.n, self._process(p))
        return held - self._held_before(self.offset, p) if self.offset else held

    def global_indices(self, p: int) -> NDArray[np.int64]:
        """All elements on process `p`, ascending: one for each local index from `local_start`. Not collective."""
        first = self.local_start(p)
        found: NDArray[np.int64] = self.global_index(p, np.arange(first, first + self.local_size(p), dtype=np.int64))
        return found

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
        Index of element 0 in a larger array of the same distribution (a sub-array may start in mid-block). The
        `source` is then the larger array's, and so are all local indices.

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
            return  # each of them once more, by name, takes longer than all else that making an axis does
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
        """Elements from one block of a process to its next one: block * processes. Not collective."""
        return self.block * self.processes

    @property
    def number_of_blocks(self) -> int:
        """Blocks that have an element of this array. Not collective."""
        return -(-(self.offset % self.block + self.n) // self.block) if self.n else 0

    def block_edges(self, most: int | None = None) -> NDArray[np.int64]:
        """Index of the first element of each block, ascending, then `n`; of the first `most` blocks alone, their end.

        Not collective.
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
        return (round_ * self.processes + self._turn(p)) * self.block + within - self.offset

    def _turn(self, p: int) -> int:
        return (p - self.source) % self.processes

    def _held_before(self, bound: int, p: int) -> int:
        """How many of the larger array's first `bound` elements process `p` holds."""
        rounds, rest = divmod(bound, self.stride)
        return rounds * self.block + min(max(rest - self._turn(p) * self.block, 0), self.block)


def within(i: Any, low: int, high: int, name: str, where: str = "") -> Any:
    """An int or an array of them, all of which must be low <= i < high. Not collective."""
    if not isinstance(i, np.ndarray):
        i = operator.index(i)
        inside = low <= i < high
    else:
        i = i.astype(np.int64, copy=False)
        inside = not i.size or (int(i.min()) >= low and int(i.max()) < high)
    if not inside:
        raise IndexError(f"{name} {i}{where} is outside {low} <= index < {high}")
    return i
