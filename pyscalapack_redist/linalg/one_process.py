"""What passes between the process that computes alone and the ranks that wait for it, and whole arrays on that process."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..layout.descriptor import Descriptor


class WholeArray(NamedTuple):
    """Stands for an array on one process, for ranks that have none of its elements."""

    shape: tuple[int, ...]


class Answer(NamedTuple):
    """How the work ended on one process."""

    result: Any
    warnings: list[str]
    error: BaseException | None

    def for_others(self) -> Answer:
        """The same without the elements of arrays."""
        return self._replace(result=_without_elements(self.result))


def _without_elements(result: Any) -> Any:
    if isinstance(result, DistributedArray):
        return WholeArray(result.shape)
    if isinstance(result, tuple):
        items = map(_without_elements, result)
        return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
    return result


def is_whole_on(desc: Descriptor, rank: int) -> bool:
    """Whether the local array of a rank is the array, and other ranks have none."""
    return bool(desc.parent is None and desc.grid.size == 1 and desc.grid.ranks.flat[0] == rank)


def copy_whole(array: NDArray[Any], out: NDArray[Any] | None = None, op: str = "N") -> NDArray[Any]:
    """A copy of a whole array, or of its conjugate transpose."""
    moved = array.conj().T if op == "C" else array
    if out is None:
        return np.array(moved, order="F")
    out[...] = moved
    return out
