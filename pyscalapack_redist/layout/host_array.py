"""Arrays of other libraries as NumPy's, without a copy: what speaks DLPack or NumPy's array interface, in the host's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArrayError

__all__ = ["host_array"]

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
