"""New local arrays, arrays from functions of the indices, and arrays of other libraries as NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import ArrayError

LINE_BYTES = 64  # bytes of a cache line
LARGE = 2**16  # bytes from which an array is aligned to cache lines
MOST = int(np.iinfo(np.intp).max)  # bytes of an array of NumPy, also of one without elements whose other lengths are so long


def new_array(shape: tuple[int, ...], dtype: DTypeLike, order: str, zeroed: bool = False) -> NDArray[Any]:
    """A new array, uninitialized or zeroed.

    Large arrays are aligned to cache lines, so that non-temporal stores write whole lines. NumPy's arrays begin 16 bytes after
    the beginning of a line; transposing into them takes twice as long.

    Parameters
    ----------
    shape : tuple of int
        Elements along each dimension.
    dtype : dtype
        Any dtype.
    order : {"F", "C"}
        Which dimension runs fastest in memory.
    zeroed : bool
        Whether all elements are 0.

    Raises
    ------
    MemoryError
        There is not so much, or NumPy has no such lengths, which for it is a ValueError.
    """
    kind, make = np.dtype(dtype), np.zeros if zeroed else np.empty
    nbytes = math.prod(shape) * kind.itemsize
    if nbytes + LINE_BYTES > MOST or (not nbytes and math.prod(n or 1 for n in shape) * kind.itemsize > MOST):
        raise MemoryError(f"an array of shape {shape} of {kind} is larger than NumPy's arrays can be")
    if nbytes < LARGE or kind.hasobject or kind.subdtype is not None:
        return make(shape, kind, order=order)  # type: ignore[call-overload,no-any-return]
    memory = make(nbytes + LINE_BYTES - 1, np.uint8)
    return np.ndarray(shape, kind, memory, -memory.ctypes.data % LINE_BYTES, order=cast(Literal["F", "C"], order))


def of_indices(f: Callable[..., Any], indices: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
    """The values of a function for all combinations of indices; `indices` has an array for each dimension.

    Raises
    ------
    ArrayError
        The result of `f` does not broadcast to one element for each combination.
    """
    mesh, shape = np.ix_(*indices), tuple(map(len, indices))
    try:
        values = np.asarray(f(*mesh))
    except (TypeError, ValueError) as error:
        shapes = ", ".join(str(part.shape) for part in mesh)
        error.add_note(
            f"f is called once with arrays of indices, of shapes {shapes}: use NumPy's functions, and numpy.where for if"
        )
        raise
    missing = (1,) * (len(shape) - values.ndim)
    target = (1,) * (values.ndim - len(shape)) + shape
    if any(n not in (1, m) for n, m in zip(missing + values.shape, target, strict=True)):
        raise ArrayError(
            f"f returned an array of shape {values.shape}, which does not broadcast to this rank's elements, {shape}: f gets "
            "an array of indices for each dimension, and must return one element for each combination of them"
        )
    return values


# DLDeviceType of dlpack.h: memory that the processor can address, and names of other devices.
HOST = (1, 3, 11, 13)
CUDA = 2
DEVICES = {
    CUDA: "CUDA",
    4: "OpenCL",
    7: "Vulkan",
    8: "Metal",
    10: "ROCm",
    12: "external device",
    14: "oneAPI",
    15: "WebGPU",
}


def host_array(name: str, array: Any) -> Any:
    """An array of another library as a NumPy array of the same memory; other objects unchanged.

    The other library must support DLPack or NumPy's array interface, and the memory must be the host's. Nothing is copied.

    Raises
    ------
    ArrayError
        The array is masked, is in the memory of a device, or cannot be used without a copy.
    """
    if type(array) is np.ndarray or array is None:
        return array
    if isinstance(array, np.ma.MaskedArray):
        raise ArrayError(f"{name} is a masked array; the mask would be lost: pass {name}.filled(value)")
    if isinstance(array, np.ndarray):  # of a derived class, in which operators and methods may mean something else
        return array.view(np.ndarray)
    _check_resolved(name, array)
    device = _attribute(array, "__dlpack_device__")
    try:
        kind = HOST[0] if device is None else int(device()[0])
        if kind in HOST and _attribute(array, "__cuda_array_interface__") is not None:
            kind = CUDA
        if kind in HOST and _attribute(array, "__array_interface__") is not None:
            return np.asarray(array)
        if kind in HOST:
            return array if device is None else _from_dlpack(array)
    except MemoryError:
        raise
    except Exception as caught:
        raise ArrayError(
            f"{name} is a {type(array).__name__}, whose memory NumPy cannot use without a copy: {str(caught).rstrip('.')}"
            + (
                "; elements that NumPy has no dtype for move as integers of their size"
                if "dtype" in str(caught)
                else ""
            )
        ) from caught
    raise ArrayError(
        f"{name} is a {type(array).__name__} in the memory of a device ({DEVICES.get(kind, f'number {kind} of DLPack')}), and "
        f"only the host's memory is moved: copy it there first, by {name}.cpu() of PyTorch, cupy.asnumpy({name}), "
        f"jax.device_get({name}), ..."
    )


def _check_resolved(name: str, array: Any) -> None:
    """Raise an ArrayError for PyTorch's lazily conjugated or negated views: DLPack would give the memory without that."""
    for bit in ("conj", "neg"):
        is_set = _attribute(array, f"is_{bit}")
        if callable(is_set) and callable(_attribute(array, f"resolve_{bit}")) and is_set():
            raise ArrayError(
                f"{name} is a {type(array).__name__} with its {bit} bit set, which memory does not show: pass "
                f"{name}.resolve_{bit}()"
            )


def _from_dlpack(array: Any) -> Any:
    """Convert by DLPack. Some versions of NumPy return a read-only array; then try the object's own conversion as well."""
    result = np.from_dlpack(array)
    if result.flags.owndata and result.size:  # in place of the address 0 NumPy has taken new memory
        raise BufferError("it has no memory of its own")
    if not result.flags.writeable and _attribute(array, "__array__") is not None:
        converted = np.asarray(array)
        if _memory_of(converted) == _memory_of(result):
            return converted
    return result


def _memory_of(array: Any) -> tuple[Any, ...]:
    """Address, shape, strides and dtype, to compare two arrays."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _attribute(array: object, name: str) -> Any:
    """An attribute, or None. Some objects raise exceptions of other types for a missing attribute."""
    try:
        return getattr(array, name, None)
    except Exception:
        return None
