"""PyTorch's tensors as NumPy arrays of the same memory, and NumPy arrays as tensors of the same memory."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArrayError
from ..layout.arrays import host_array
from ..layout.dtypes import foreign_dtypes


def array_of(name: str, tensor: Any) -> NDArray[Any]:
    """A tensor as a NumPy array of the same memory. Elements that NumPy does not have are those of ml_dtypes.

    Parameters
    ----------
    name : str
        How the user would write the tensor, for errors.
    tensor : torch.Tensor
        The tensor.

    Raises
    ------
    ArrayError
        The tensor requires a gradient, is not in the host's memory, or has elements that neither NumPy nor ml_dtypes has.
    """
    check_gradient(name, tensor)
    if tensor.device.type != "cpu":
        raise ArrayError(
            f"{name} is on the device {tensor.device}, and only the host's memory is moved: copy it there first, by cpu()"
        )
    dtype = _numpy_dtype(name, tensor.dtype)
    if foreign_dtypes(dtype):
        array = host_array(name, tensor.view(_integers(dtype.itemsize)))
        return array.view(dtype)  # type: ignore[no-any-return]
    array = host_array(name, tensor)
    if not isinstance(array, np.ndarray):
        raise ArrayError(f"{name} is a {type(tensor).__name__} of layout {tensor.layout}: only dense tensors are taken")
    return array


def check_gradient(name: str, tensor: Any) -> None:
    """Raise an ArrayError for a tensor that requires a gradient."""
    if tensor.requires_grad:
        raise ArrayError(
            f"{name} requires a gradient, which would not flow through this call: pass what {name}.detach() returns"
        )


def tensor_of(array: NDArray[Any]) -> Any:
    """A NumPy array, of elements that PyTorch has too, as a tensor of the same memory.

    Raises
    ------
    ArrayError
        PyTorch does not have the elements.
    """
    torch, dtype = import_module("torch"), array.dtype
    kind = getattr(torch, dtype.name, None)
    if not isinstance(kind, torch.dtype) or kind.itemsize != dtype.itemsize or not dtype.isnative:
        raise ArrayError(f"PyTorch has no elements of dtype {dtype!r}: convert the array with astype before")
    if foreign_dtypes(dtype):
        return torch.from_numpy(array.view(f"u{dtype.itemsize}")).view(kind)
    return torch.from_numpy(array)


def _numpy_dtype(name: str, kind: Any) -> np.dtype[Any]:
    """The dtype that a dtype of PyTorch is called in NumPy, or in ml_dtypes."""
    text = str(kind).removeprefix("torch.")
    try:
        return np.dtype(text)
    except TypeError:
        pass
    try:
        dtype: np.dtype[Any] | None = np.dtype(getattr(import_module("ml_dtypes"), text))
    except ImportError:
        raise ArrayError(
            f"{name} has elements of {kind}, which NumPy has only with the package ml_dtypes: pip install ml_dtypes"
        ) from None
    except AttributeError:
        dtype = None
    if dtype is None or dtype.itemsize != kind.itemsize:
        raise ArrayError(
            f"{name} has elements of {kind}, which neither NumPy nor ml_dtypes has: pass x.view(torch.uint8)"
        )
    return dtype


def _integers(size: int) -> Any:
    """The unsigned integers of a size in bytes."""
    return getattr(import_module("torch"), f"uint{8 * size}")
