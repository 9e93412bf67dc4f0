"""Safetensors: tensors one after another behind a header in JSON, in one file or, by an index, in several. Only to read.

The format is https://github.com/huggingface/safetensors: eight bytes of length and the header, with the dtype, shape and bytes
of each tensor. So a tensor is a raw array at an offset, and its ranks read it as `BinaryFile` does.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..comm.groups import MPIGroup
from ..errors import FileError, LibraryError, shown
from ..layout.descriptor import Descriptor
from .binary_file import BinaryFile
from .contents import FileArray, FilePart, check_ordinary
from .slabs import on_first

LONGEST = 100_000_000  # bytes of a header, as in the format's library
INDEX = ".index.json"
DTYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "U32": "<u4", "I32": "<i4"}
DTYPES |= {"F32": "<f4", "U64": "<u8", "I64": "<i8", "F64": "<f8", "C64": "<c8"}
OF_ML_DTYPES = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu"}
OF_ML_DTYPES |= {"F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"}


class Safetensors(BinaryFile):
    """A tensor of a file or of a sharded model, whose index is `path`. The constructor is collective."""

    def __init__(self, group: MPIGroup, path: str, tensor: str | None) -> None:
        file, self._tensor = on_first(group, lambda: find_tensor(path, tensor))
        super().__init__(group, file, file)

    def locate(self, part: FilePart, desc: Descriptor, dtype: np.dtype[Any] | None) -> FileArray:
        def read() -> FileArray:
            return part.of(read_tensor(self.path, self._tensor), f"{self.name}: {self._tensor}", desc)

        return on_first(self.group, read)


class Tensor(NamedTuple):
    """A tensor as the header describes it.

    Attributes
    ----------
    kind : str
        Its dtype in the format's words, as "F32".
    shape : tuple of int
        Its shape; the last index runs fastest.
    start, end : int
        Its first byte in the file, and the one after its last.
    """

    kind: str
    shape: tuple[int, ...]
    start: int
    end: int


# -- what is in a file or a sharded model


def tensors(path: str) -> dict[str, tuple[str, FileArray]]:
    """The file of each tensor, and the array there, by the tensors' names. Not collective.

    Parameters
    ----------
    path : str
        A file, or the index of a sharded model, NAME.safetensors.index.json.

    Raises
    ------
    FileError
        The file, the index or a file that it names is not as the format says; or a tensor has a dtype that NumPy does not.
    LibraryError
        A tensor has a dtype of ml_dtypes, which is missing.
    OSError
        A file cannot be read.
    """
    if not is_index(path):
        return {name: (path, array) for name, array in read_header(path).items()}
    files = read_index(path)
    headers = {file: read_header(file) for file in sorted(set(files.values()))}
    for name, file in files.items():
        if name not in headers[file]:
            raise FileError(f"{path} says that {name!r} is in {file}, which has no such tensor")
    return {name: (file, headers[file][name]) for name, file in files.items()}


def find_tensor(path: str, tensor: str | None) -> tuple[str, str]:
    """The file with a tensor, and its name; of None the only tensor."""
    files = read_index(path) if is_index(path) else dict.fromkeys(_read_tensors(path), path)
    if tensor is None and len(files) == 1:
        (tensor,) = files
    if tensor in files:
        return files[tensor], tensor
    problem = "holds several tensors" if tensor is None and files else f"has no tensor {tensor!r}"
    names = ", ".join(map(repr, itertools.islice(files, 10))) or "nothing"
    raise FileError(f"{path} {problem}; it has {names}{', ...' if len(files) > 10 else ''}: give dataset=")


def read_tensor(path: str, tensor: str) -> FileArray:
    """Read shape, dtype and place of a tensor in a file."""
    found = _read_tensors(path)
    if tensor not in found:
        raise FileError(f"{path} has no tensor {tensor!r}, which the index of the model says is there")
    return _array_of(path, tensor, found[tensor])


def read_header(path: str) -> dict[str, FileArray]:
    """Read shapes, dtypes and places of all tensors in a file; errors as for `tensors`."""
    return {name: _array_of(path, name, tensor) for name, tensor in _read_tensors(path).items()}


def is_index(path: str) -> bool:
    """Whether a file of this name is the index of a sharded model."""
    return path.lower().endswith(INDEX)


def read_index(path: str) -> dict[str, str]:
    """Read which file has each tensor of a sharded model; all are beside the index."""
    check_ordinary(path)
    with open(path, "rb") as file:
        index = _parsed(path, file.read(LONGEST + 1))
    files = index.get("weight_map")
    if not isinstance(files, Mapping):
        raise FileError(f"{path} is not the index of a sharded model: it has no dict 'weight_map'")
    for tensor, name in files.items():
        if (
            not isinstance(name, str)
            or name in ("", os.curdir, os.pardir)
            or os.path.basename(name) != name
            or any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in name)
        ):
            raise FileError(
                f"{path} says that {tensor!r} is in {name!r}: it must be the name of a file beside the index"
            )
    folder = os.path.dirname(path)
    return {tensor: os.path.join(folder, name) for tensor, name in files.items()}


# -- the header


def _read_tensors(path: str) -> dict[str, Tensor]:
    """Read and check the header of a file."""
    check_ordinary(path)
    with open(path, "rb") as file:
        size, length = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
        if size < 8:
            raise FileError(f"{path} ({size} bytes) is no safetensors file: the format begins with 8 bytes of length")
        if length > LONGEST:
            raise FileError(f"{path} ({size} bytes) is no safetensors file: its header would have {length} bytes")
        if size < 8 + length:
            raise FileError(f"{path} is cut short: it has {size} bytes, but its header ends at byte {8 + length}")
        header = _parsed(path, file.read(length))
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise FileError(f"{path} is no safetensors file: its __metadata__ is {shown(metadata)}, not texts by name")
    found = {name: _tensor_of(path, name, entry, 8 + length, size) for name, entry in header.items()}
    in_order = sorted(found, key=lambda name: (found[name].start, found[name].end))
    for before, name in itertools.pairwise(in_order):
        if found[name].start < found[before].end:
            raise FileError(f"{path} is no safetensors file: tensors {before!r} and {name!r} share bytes")
    # The format has no other bytes, in which other content could hide.
    ends = [8 + length, *(found[name].end for name in in_order)]
    for end, start in zip(ends, [*(found[name].start for name in in_order), size], strict=True):
        if start != end:
            raise FileError(f"{path} is no safetensors file: bytes {end} to {start} are of no tensor")
    return found


def _parsed(path: str, text: bytes) -> dict[str, Any]:
    """A JSON object without a name that is there twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("it has a name twice")
        return dict(pairs)

    try:
        parsed = json.loads(text.decode(), object_pairs_hook=once)  # of bytes Python takes other encodings too
        if not isinstance(parsed, dict):
            raise ValueError("it is not an object")
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} cannot be read: its JSON is wrong: {error}") from error
    return parsed


def _tensor_of(path: str, name: str, entry: object, first: int, size: int) -> Tensor:
    """A tensor of the header, whose bytes count from the `first` after the header, in a file of `size` bytes."""
    try:
        kind, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        raise FileError(f"{path} is no safetensors file: tensor {name!r} is described by {shown(entry)}") from None
    is_whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in (*shape, start, end))
    if not isinstance(kind, str) or not is_whole or start > end:
        raise FileError(f"{path} is no safetensors file: tensor {name!r} is described by {shown(entry)}")
    tensor = Tensor(kind, tuple(shape), first + start, first + end)
    if tensor.end > size:
        raise FileError(f"{path} is cut short: it has {size} bytes, but tensor {name!r} ends at byte {tensor.end}")
    return tensor


def _array_of(path: str, name: str, tensor: Tensor) -> FileArray:
    array = FileArray(numpy_dtype(tensor.kind, f"{path}: {name}"), tensor.shape, "C", tensor.start)
    if array.end != tensor.end:
        raise FileError(
            f"{path} is no safetensors file: tensor {name!r} of shape {array.shape} of {tensor.kind} has "
            f"{array.dtype.itemsize * math.prod(array.shape)} bytes, not {tensor.end - tensor.start}"
        )
    return array


def numpy_dtype(kind: str, name: str) -> np.dtype[Any]:
    """The dtype that the format calls `kind`, of the array `name` in errors."""
    if kind in DTYPES:
        return np.dtype(DTYPES[kind])
    if kind not in OF_ML_DTYPES:
        known = ", ".join((*DTYPES, *OF_ML_DTYPES))
        raise FileError(f"{name} has elements of {kind}, which NumPy does not have: only {known} can be read")
    try:
        import ml_dtypes
    except ImportError as error:
        raise LibraryError(
            f"{name} has elements of {kind}, which needs ml_dtypes ({error}): pip install ml_dtypes"
        ) from error
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, OF_ML_DTYPES[kind]))
    return dtype
