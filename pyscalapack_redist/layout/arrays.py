"""Local arrays: new ones and their elements, and arrays of other libraries as NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import ArrayError

LINE_BYTES = 64  # of a cache line
LARGE = 2**16  # bytes of an array, from which on it matters where it begins


def new_array(shape: tuple[int, ...], dtype: DTypeLike, order: str, zeroed: bool = False) -> NDArray[Any]:
    """An array of its own, contents arbitrary or 0. Not collective.

    Large ones begin with a cache line, so that whole lines of them can be written by non-temporal stores. NumPy's own begin
    16 bytes after one, where lines of a matrix that are written across the lines of another take twice as long.

    Parameters
    ----------
    shape : tuple of int
        Elements along each dimension.
    dtype : dtype
        Of any kind.
    order : {"F", "C"}
        Which dimension runs fastest in memory.
    zeroed : bool
        Whether all elements are 0.
    """
    kind, make = np.dtype(dtype), np.zeros if zeroed else np.empty
    nbytes = math.prod(shape) * kind.itemsize
    if nbytes < LARGE or kind.hasobject or kind.subdtype is not None:
        return make(shape, kind, order=order)  # type: ignore[call-overload,no-any-return]
    memory = make(nbytes + LINE_BYTES - 1, np.uint8)
    return np.ndarray(shape, kind, memory, -memory.ctypes.data % LINE_BYTES, order=cast(Literal["F", "C"], order))


def of_indices(f: Callable[..., Any], indices: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
    """What a function gives for all combinations of indices, an array of them for each dimension. Not collective.

    Raises
    ------
    ArrayError
        It does not broadcast to one element for each.
    """
    mesh, shape = np.ix_(*indices), tuple(map(len, indices))
    try:
        given = np.asarray(f(*mesh))
    except (TypeError, ValueError) as error:
        shapes = ", ".join(str(part.shape) for part in mesh)
        error.add_note(
            f"f is called once with arrays of indices, of shapes {shapes}: use NumPy's functions, and numpy.where for if"
        )
        raise
    missing = (1,) * (len(shape) - given.ndim)
    wanted = (1,) * (given.ndim - len(shape)) + shape
    if any(n not in (1, m) for n, m in zip(missing + given.shape, wanted, strict=True)):
        raise ArrayError(
            f"f gave an array of shape {given.shape}, which does not broadcast to this rank's elements, {shape}: it gets an "
            "array of indices for each dimension, and gives one element for each combination of them"
        )
    return given


# DLDeviceType of dlpack.h: memory that the processor can address, and names for the rest.
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


def host_array(name: str, given: Any) -> Any:
    """An array of another library as a NumPy array of the same memory; anything else as it is. Not collective.

    The other library speaks DLPack or NumPy's array interface, and the memory is the host's. Nothing is copied.

    Raises
    ------
    ArrayError
        It is masked, its memory is a device's, or it cannot be had without a copy.
    """
    if type(given) is np.ndarray or given is None:
        return given
    if isinstance(given, np.ma.MaskedArray):
        raise ArrayError(f"{name} is a masked array, whose mask would not move with it: pass {name}.filled(value)")
    if isinstance(given, np.ndarray):
        return given
    _check_resolved(name, given)
    device = _attribute(given, "__dlpack_device__")
    try:
        kind = HOST[0] if device is None else int(device()[0])
        if kind in HOST and _attribute(given, "__cuda_array_interface__") is not None:
            kind = CUDA
        if kind in HOST and _attribute(given, "__array_interface__") is not None:
            return np.asarray(given)
        if kind in HOST:
            return given if device is None else _from_dlpack(given)
    except Exception as caught:
        raise ArrayError(
            f"{name} is a {type(given).__name__}, whose memory NumPy cannot use without a copy: {str(caught).rstrip('.')}"
            + (
                "; elements that NumPy has no dtype for move as integers of their size"
                if "dtype" in str(caught)
                else ""
            )
        ) from caught
    raise ArrayError(
        f"{name} is a {type(given).__name__} in the memory of a device ({DEVICES.get(kind, f'number {kind} of DLPack')}), and "
        f"only the host's memory is moved: copy it there first, by {name}.cpu() of PyTorch, cupy.asnumpy({name}), "
        f"jax.device_get({name}), ..."
    )


def _check_resolved(name: str, given: Any) -> None:
    """Refuse PyTorch's views that conjugate or negate when they are read: DLPack gives the memory of a negated one as it is."""
    for bit in ("conj", "neg"):
        is_set = _attribute(given, f"is_{bit}")
        if callable(is_set) and callable(_attribute(given, f"resolve_{bit}")) and is_set():
            raise ArrayError(
                f"{name} is a {type(given).__name__} whose {bit} bit is set, which is not in its memory: pass "
                f"{name}.resolve_{bit}()"
            )


def _from_dlpack(given: Any) -> Any:
    """By DLPack; NumPy takes that to be read-only where its version cannot tell, so the object's own view is tried as well."""
    made = np.from_dlpack(given)
    if not made.flags.writeable and _attribute(given, "__array__") is not None:
        other = np.asarray(given)
        if _described(other) == _described(made):
            return other
    return made


def _described(array: Any) -> tuple[Any, ...]:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _attribute(given: object, name: str) -> Any:
    """Some objects raise anything when they are asked for what they do not have."""
    try:
        return getattr(given, name, None)
    except Exception:
        return None
