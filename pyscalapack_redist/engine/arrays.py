"""The user's local arrays: do they fit their descriptors, and what the kernels need to know of them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from .._kernels.bundle import address_of
from ..comm.vote import digest
from ..errors import ArrayError
from ..layout.descriptor import Descriptor
from ..layout.distributed import fitted
from .layouts import Layout

__all__ = [
    "Arrays",
    "LocalArray",
    "by_columns",
    "check_dtype",
    "check_target",
    "checked_arrays",
    "dtype_digest",
    "local_array",
    "made_for",
]


class LocalArray(NamedTuple):
    """A local array as the kernels see it: address of element (0, 0, ...) and strides in bytes."""

    address: int
    strides: tuple[int, ...]


NOTHING = LocalArray(0, ())


class Arrays(NamedTuple):
    """The arrays of one run on this rank; `dtype` is None where it has none and was told none.

    Messages are numbered along the lines of A (`by_columns`): a strided array is read fast only along its lines, while what
    is written across them can go past the cache, and comes out of a chunk that is in the cache.
    """

    source: LocalArray
    target: LocalArray
    out: NDArray[Any] | None
    dtype: np.dtype[Any] | None
    by_columns: bool
    in_place: bool


@functools.lru_cache(maxsize=256)
def dtype_digest(dtype: np.dtype[Any]) -> int:
    """A number equal on all ranks for equal dtypes."""
    return digest((dtype.itemsize, _plain(dtype)))


def _plain(dtype: np.dtype[Any]) -> object:
    """The dtype without what equal ones may differ in: whether they were asked to be aligned, and metadata."""
    if dtype.subdtype is not None:
        return (_plain(dtype.subdtype[0]), dtype.subdtype[1])
    if dtype.names is None or dtype.fields is None:
        return dtype.str
    return (dtype.itemsize, [(name, _plain(dtype.fields[name][0]), dtype.fields[name][1]) for name in dtype.names])


def checked_arrays(
    a: object,
    out: object,
    desc_a: Descriptor,
    desc_b: Descriptor,
    dtype: np.dtype[Any] | None,
    transposed: bool = False,
    adds: bool = False,
    zeroed: bool = False,
) -> Arrays:
    """Check both arrays, and make `out` where it was left out. Not collective.

    Parameters
    ----------
    a, out : ndarray or None
        What the user passed.
    desc_a, desc_b : Descriptor
        Their layouts.
    dtype : dtype or None
        The dtype that was agreed on when the plan was made.
    transposed, adds : bool
        Whether A is transposed on the way, and whether it is added to what `out` holds.
    zeroed : bool
        Whether a new array is to be 0, since not all of it is written.

    Raises
    ------
    ArrayError
        Names the array, what it is and what it should be.
    """
    source = fitted("a", a, desc_a)
    if source is not None:
        if dtype is not None and source.dtype != dtype:
            raise ArrayError(
                f"a has dtype {source.dtype}, but redistribute was told dtype = {dtype}: convert it, or plan for its dtype"
            )
        dtype = source.dtype
    target: NDArray[Any] | None
    if out is None and desc_b.coords is not None:
        if adds:
            raise ArrayError("out is missing: with beta it is added to, so it must be given; or leave beta out")
        target = made_for(desc_b, dtype, zeroed)
    else:
        target = fitted("out", out, desc_b)
        if target is not None:
            check_target(target, dtype)
            dtype = target.dtype
    if dtype is not None:
        check_dtype(dtype)
    in_place = out is a and source is not None
    if in_place and (transposed or desc_a != desc_b):
        raise ArrayError(
            "out is a: a redistribution in place is possible for identical layouts only, not transposed; omit out, "
            "or give another array"
        )
    if not in_place and source is not None and target is not None and _overlap(source, target):
        raise ArrayError(
            "out shares memory with a: give an array of its own (in place, out is a, works for identical layouts only)"
        )
    if transposed and source is not None:
        source = source.T
    return Arrays(_view(source), _view(target), target, dtype, source is not None and by_columns(source), in_place)


def made_for(desc: Layout, dtype: np.dtype[Any] | None, zeroed: bool = False) -> Any:
    """A new local array of B, or with tiles what their `empty` gives. Not collective.

    Raises
    ------
    ArrayError
        B is a sub-array, or the dtype is not known or not of a fixed size.
    """
    if isinstance(desc, Descriptor) and desc.parent is not None:
        raise ArrayError(
            f"out is missing: B is a sub-array ({desc!r}); give the whole local array, of shape {desc.local_shape}"
        )
    if dtype is None:
        raise ArrayError(
            "out is missing and its dtype is not known on this rank, which holds nothing of A: "
            "pass out, or redistribute(..., dtype=)"
        )
    check_dtype(dtype)
    return desc.zeros(dtype) if zeroed else desc.empty(dtype)


def check_target(target: NDArray[Any], dtype: np.dtype[Any] | None, name: str = "out") -> None:
    """Raise an ArrayError for an array that cannot be written, or is not of the dtype. Not collective."""
    if dtype is not None and target.dtype != dtype:
        raise ArrayError(
            f"{name} has dtype {target.dtype}, but a has dtype {dtype}: they must be the same; no conversion is made"
        )
    if not target.flags.writeable:
        raise ArrayError(f"{name} is read-only: give an array that can be written")
    if target.size and not target.flags.forc and _overlaps_itself(target.shape, target.strides, target.itemsize):
        raise ArrayError(
            f"{name} has strides {target.strides}: several of its elements share memory; give an ordinary array"
        )


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Raise an ArrayError for elements that cannot be moved as so many bytes. Not collective."""
    if dtype.hasobject or not dtype.itemsize:
        raise ArrayError(
            f"dtype {dtype} cannot be redistributed: elements must be of a fixed size, "
            "of at least a byte, without Python objects"
        )


def _overlap(a: NDArray[Any], b: NDArray[Any]) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Whether two elements of an array share memory; True also where that would take too long to find out.

    A dimension whose stride passes all that those of smaller strides reach keeps its lines apart, and does not count. In
    an array of whatever order and steps, or a window of one, that leaves none. What is left is halved: two elements that
    share memory are in different halves, or there are two such in the first half, for the second is like it.
    """
    rest = sorted((abs(stride), n) for n, stride in zip(shape, strides, strict=True) if n > 1)
    while rest and rest[-1][0] >= item + sum(stride * (n - 1) for stride, n in rest[:-1]):
        rest.pop()
    if not rest:
        return False
    part = as_strided(np.empty(1, f"V{item}"), [n for _, n in rest], [stride for stride, _ in rest])
    while part.size > 1:
        part = np.moveaxis(part, int(np.argmax(part.shape)), 0)
        middle = (len(part) + 1) // 2
        if _overlap(part[:middle], part[middle:]):
            return True
        part = part[:middle]
    return False


def by_columns(array: NDArray[Any]) -> bool:
    """Whether the first dimension runs faster in memory than the last, as in Fortran. Not collective."""
    shape = array.shape
    if len(shape) < 2 or shape[0] < 2 or shape[-1] < 2:
        return False
    strides = array.strides
    return abs(strides[0]) <= abs(strides[-1])


def local_array(array: NDArray[Any]) -> LocalArray:
    """Where an array starts, and its strides. Not collective."""
    return LocalArray(address_of(array), array.strides)


def _view(array: NDArray[Any] | None) -> LocalArray:
    return NOTHING if array is None else local_array(array)
