"""Hostile operands: what may be odd about an array, one table for each respect, and the making of an array that is odd in some.

An array is made by index arithmetic of the tests' own (`oracle`), in memory that is watched: `Operand.memory` knows which bytes
are elements, so that it can be said afterwards what a call has changed.
"""

from __future__ import annotations

import ctypes
import itertools
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from layouts import grid_of, made_for
from mpi4py import MPI
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from oracle import AnyLayout, Layout, TileLayout, balanced

import pyscalapack_redist as psr

Shape = tuple[int, ...]


# -- layouts


def spread(shape: Shape, block: Any, processes: Shape, ranks: Any = None, **more: Any) -> Layout:
    """A layout over a grid; `block` is one size for all dimensions, None for one block for each process."""
    places = np.arange(int(np.prod(processes))) if ranks is None else np.asarray(ranks)
    blocks = [max(1, -(-n // p)) if block is None else block for n, p in zip(shape, processes, strict=False)]
    given = {"source": (0,) * len(shape), "start": (0,) * len(shape), "size": shape, **more}
    return Layout(shape, tuple(blocks), places.reshape(processes), **given)


def along(dim: int, shape: Shape, number: int) -> Shape:
    """A grid along one dimension."""
    return tuple(number if k == dim % len(shape) else 1 for k in range(len(shape)))


def square(shape: Shape, size: int) -> Shape:
    """A grid of two dimensions where the number of ranks and that of dimensions allow it."""
    return along(0, shape, size) if len(shape) < 2 or size % 2 else (2, size // 2, *[1] * (len(shape) - 2))


def part(shape: Shape, size: int) -> Layout:
    """A window that begins in the middle of a block."""
    start = tuple(3 if k % 2 == 0 else 1 for k in range(len(shape)))
    whole = tuple(n + o + 2 for n, o in zip(shape, start, strict=True))
    return spread(whole, 2, square(shape, size), start=start, size=shape)


def irregular(shape: Shape, size: int) -> Layout:
    """Blocks of other sizes along the first dimension, one of them empty, the last rank first."""
    n = shape[0]
    sizes = (min(n, 1), 0, max(0, n - 3), max(0, min(n, 3) - 1))
    owners = tuple((size - 1 - k) % size for k in range(4))
    layout = spread(shape, 2, along(0, shape, size))
    layout.block = ((sizes, owners), *layout.block[1:])
    return layout


def evenly(shape: Shape, size: int) -> Layout:
    """Blocks as numpy.array_split cuts them: those of zeros() and from_local()."""
    layout = spread(shape, 2, along(0, shape, size))
    layout.block = (balanced(shape[0], size), *layout.block[1:])
    return layout


def replicas(shape: Shape, size: int) -> Layout:
    """All ranks hold all elements."""
    return spread(shape, 2, (*[1] * len(shape), size))


def turned_grid(shape: Shape, size: int) -> Layout:
    """As of a transpose: the dimensions of the grid in another order."""
    layout = spread(shape, 2, square(shape, size))
    layout.grid_ranks, layout.grid_axes = layout.ranks.T, layout.axes[::-1]
    return layout


def tiles(shape: Shape, size: int, *, stored: bool = False) -> TileLayout:
    """Tiles of any ranks; the last one is empty."""
    edges = tuple(np.array([*sorted({0, min(n, 2), n // 2, n}), n]) for n in shape)
    counts = [len(edge) - 1 for edge in edges]
    owners = (np.arange(int(np.prod(counts))).reshape(counts) * 7) % size
    return TileLayout(edges, owners, stored)


LAYOUTS: dict[str, Callable[[Shape, int], AnyLayout]] = {
    "rows": lambda shape, size: spread(shape, None, along(0, shape, size)),
    "columns": lambda shape, size: spread(shape, None, along(-1, shape, size)),
    "blocks": lambda shape, size: spread(shape, 2, square(shape, size)),
    "single elements": lambda shape, size: spread(shape, 1, square(shape, size)),
    "a block larger than the array": lambda shape, size: spread(shape, 1000, along(0, shape, size)),
    "another source": lambda shape, size: spread(
        shape, 2, along(0, shape, size), source=(size - 1, *[0] * (len(shape) - 1))
    ),
    "a part": part,
    "irregular blocks": irregular,
    "balanced blocks": evenly,
    "the first process": lambda shape, size: spread(shape, 4, (1,) * len(shape)),
    "the last process": lambda shape, size: spread(shape, 4, (1,) * len(shape), [size - 1]),
    "fewer ranks": lambda shape, size: spread(
        shape, 2, along(0, shape, max(1, size - 1)), np.arange(min(1, size - 1), size)
    ),
    "ranks in another order": lambda shape, size: spread(shape, 2, along(0, shape, size), np.arange(size)[::-1]),
    "replicas": replicas,
    "replicas of parts": lambda shape, size: spread(
        shape, 2, (*along(0, shape, 2 - size % 2), size // (2 - size % 2))
    ),
    "a turned grid": turned_grid,
    "a larger leading dimension": lambda shape, size: spread(shape, 2, square(shape, size), extra=2),
    "tiles": tiles,
    "tiles at offsets": lambda shape, size: tiles(shape, size, stored=True),
    "tiles at other offsets": lambda shape, size: tiles(shape, size, stored=True),
}
# What other operands have then: the same layout, stored otherwise
COMPANIONS = {"tiles at offsets": "tiles", "tiles at other offsets": "tiles at offsets", "tiles": "tiles at offsets"}


# -- memory: each makes room for a local array, and returns the view that is the array, and what it lies in


def window(shape: Shape, dtype: Any, order: str, at_end: bool) -> tuple[Any, Any]:
    base = np.zeros(tuple(n + 3 for n in shape), dtype, order=order)  # type: ignore[call-overload]
    return base[tuple(slice(3, None) if at_end else slice(n) for n in shape)], base


def steps(shape: Shape, dtype: Any) -> tuple[Any, Any]:
    base = np.zeros(tuple(2 * n + 1 for n in shape), dtype)
    return base[tuple(slice(1, 2 * n + 1, 2) for n in shape)], base


def reversed_along(shape: Shape, dtype: Any, dims: tuple[int, ...], order: str = "F") -> tuple[Any, Any]:
    base = np.zeros(shape, dtype, order=order)  # type: ignore[call-overload]
    return base[tuple(slice(None, None, -1 if k in dims else 1) for k in range(len(shape)))], base


def turned(shape: Shape, dtype: Any, cut: int) -> tuple[Any, Any]:
    """Dimensions in another order, of an array that has `cut` more along its last one: the last stride may still fit."""
    order = [*range(1, len(shape)), 0]
    base = np.zeros([shape[k] + (cut if k == 0 else 0) for k in order], dtype)
    return base[..., : shape[0]].transpose(np.argsort(order)), base


def gap_behind(shape: Shape, dtype: Any) -> tuple[Any, Any]:
    """Gaps, and the stride of the last dimension is that of an array without: columns of half the room, two at a time."""
    if len(shape) < 2 or shape[0] % 2 or 0 in shape:
        return window(shape, dtype, "F", False)
    base = np.zeros((shape[0], *shape[1:-1], 2 * shape[-1]), dtype, order="F")
    return base[..., ::2], base


def unaligned(shape: Shape, dtype: Any) -> tuple[Any, Any]:
    dtype = np.dtype(dtype)
    base = np.zeros(int(np.prod(shape)) * dtype.itemsize + 2, np.uint8)
    return base[1:-1].view(dtype).reshape(shape, order="F"), base


def of_bytearray(shape: Shape, dtype: Any) -> tuple[Any, Any]:
    dtype = np.dtype(dtype)
    memory = bytearray(max(1, int(np.prod(shape))) * dtype.itemsize)
    base = np.frombuffer(memory, np.uint8)
    return base[: int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape, order="F"), base


def as_matrix(shape: Shape, dtype: Any) -> tuple[Any, Any]:
    base = np.zeros(shape, dtype, order="F")
    return (base.view(np.matrix) if len(shape) == 2 else base), base


FOLDER, NUMBERS = tempfile.TemporaryDirectory(), itertools.count()


def mapped(shape: Shape, dtype: Any) -> tuple[Any, Any]:
    base = np.memmap(
        Path(FOLDER.name) / f"{next(NUMBERS)}", np.uint8, "w+", 0, int(np.prod(shape)) * np.dtype(dtype).itemsize + 8
    )
    return base[8:].view(dtype).reshape(shape, order="F"), base


MEMORY: dict[str, Callable[[Shape, Any], tuple[Any, Any]]] = {
    "Fortran order": lambda shape, dtype: (np.zeros(shape, dtype, order="F"),) * 2,
    "C order": lambda shape, dtype: (np.zeros(shape, dtype),) * 2,
    "C order on odd ranks": lambda shape, dtype: (np.zeros(shape, dtype, order="FC"[MPI.COMM_WORLD.rank % 2]),) * 2,  # type: ignore[call-overload]
    "steps": steps,
    "a window": lambda shape, dtype: window(shape, dtype, "F", False),
    "a window in C order": lambda shape, dtype: window(shape, dtype, "C", True),
    "rows reversed": lambda shape, dtype: reversed_along(shape, dtype, (0,)),
    "columns reversed": lambda shape, dtype: reversed_along(shape, dtype, (len(shape) - 1,)),
    "all reversed, in C order": lambda shape, dtype: reversed_along(shape, dtype, tuple(range(len(shape))), "C"),
    "dimensions in another order": lambda shape, dtype: turned(shape, dtype, 0),
    "a window, its dimensions in another order": lambda shape, dtype: turned(shape, dtype, 2),
    "gaps behind each line": gap_behind,
    "read-only": lambda shape, dtype: (np.zeros(shape, dtype, order="F"),) * 2,
    "read-only on one rank": lambda shape, dtype: (np.zeros(shape, dtype, order="F"),) * 2,
    "unaligned": unaligned,
    "of another owner": of_bytearray,
    "a mapped file": mapped,
    "a numpy.matrix": as_matrix,
}
OF_BYTES = ("unaligned", "of another owner", "a mapped file")  # where no reference can be
OF_ONE_DIMENSION = ("Fortran order", "steps", "rows reversed", "read-only", "read-only on one rank", "unaligned")


# -- values


def numbers(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Small whole numbers, whose sums are exact, as far as the dtype has them."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "u":
        return rng.integers(1, 9, shape).astype(dtype)
    if dtype.kind in "SUmM":
        return rng.integers(1, 99, shape).astype("M8[s]" if dtype.kind == "M" else "i8").astype(dtype)
    if dtype.kind == "O":
        return rng.integers(-9, 9, shape).astype(dtype)
    if dtype.names is not None:
        records = np.zeros(shape, dtype)
        for name in dtype.names:
            field = dtype[name]
            records[name] = numbers(rng, (*shape, *field.shape), field.base)
        return records
    if dtype.kind == "V" and not is_number(dtype):
        return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), np.uint8).view(dtype).reshape(shape)
    small = 3 if dtype.itemsize == 1 else 9
    values = rng.integers(-small, small, shape)
    return (
        (values + 1j * rng.integers(-small, small, shape)).astype(dtype) if dtype.kind == "c" else values.astype(dtype)
    )


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether it is one of ml_dtypes'."""
    return dtype.type.__module__.startswith("ml_dtypes")


def put_at(values: NDArray[Any], rng: np.random.Generator, *what: Any) -> NDArray[Any]:
    """Some elements replaced."""
    values = values.copy()
    for each in what:
        if values.size:
            values.flat[int(rng.integers(values.size))] = each
    return values


def times(values: NDArray[Any], exponent: float) -> NDArray[Any]:
    """The largest one is that power of the largest number of the dtype."""
    limits, size = np.finfo(values.dtype), np.abs(values).max(initial=0)
    wide = np.result_type(values.dtype, np.float64)
    factor = float(min(limits.max, np.finfo(np.float64).max)) ** exponent / (float(size) or 1)
    return (values.astype(wide) * factor).astype(values.dtype)


def extremes(values: NDArray[Any]) -> NDArray[Any]:
    info = np.iinfo(values.dtype)
    values = values.copy()
    values.flat[: values.size // 2] = info.max
    values.flat[values.size // 2 :] = info.min
    return values


def unread(values: NDArray[Any], what: float) -> NDArray[Any]:
    """Something in the upper triangle of a matrix, for operations that read the lower one."""
    return np.where(np.triu(np.ones(values.shape, bool), 1), values.dtype.type(what), values)


# What is done to ordinary values, and the kinds of dtype that have them.
VALUES: dict[str, tuple[Callable[[NDArray[Any], np.random.Generator], NDArray[Any]], str]] = {
    "ordinary": (lambda values, rng: values, "bufciSUMVO"),
    "a NaN": (lambda values, rng: put_at(values, rng, np.nan), "fc"),
    "NaNs of each part": (lambda values, rng: put_at(values, rng, complex(np.nan, 1), complex(2, np.nan)), "c"),
    "an inf": (lambda values, rng: put_at(values, rng, np.inf), "fc"),
    "inf and -inf": (lambda values, rng: put_at(values, rng, np.inf, -np.inf), "fc"),
    "-0.0": (lambda values, rng: put_at(values * 0, rng, -0.0, -0.0), "fc"),
    "subnormal": (lambda values, rng: (values * np.finfo(values.dtype).tiny / 8).astype(values.dtype), "fc"),
    "a subnormal imaginary part": (lambda values, rng: put_at(values, rng, 1 + 5e-324j), "c"),
    "huge": (lambda values, rng: times(values, 0.97), "fc"),
    "tiny": (lambda values, rng: times(values, -0.97), "fc"),
    "large squares": (lambda values, rng: times(values, 0.6), "fc"),
    "NaN in what is not read": (lambda values, rng: unread(values, np.nan), "fc"),
    "inf in what is not read": (lambda values, rng: unread(values, np.inf), "fc"),
    "zeros": (lambda values, rng: np.zeros_like(values), "bufci"),
    "all equal": (lambda values, rng: np.ones_like(values), "bufci"),
    "extreme integers": (lambda values, rng: extremes(values), "ui"),
}

OUT_OF_ORDER = np.dtype({"names": ["b", "a"], "formats": ["f8", "i4"], "offsets": [8, 0], "itemsize": 16})
DTYPES: dict[str, Any] = {
    **{str(np.dtype(code)): np.dtype(code) for code in "dfDFgGe?bBhiqQ"},
    ">f8": np.dtype(">f8"),
    ">i4": np.dtype(">i4"),
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "int4")},
    "fields": np.dtype([("key", "<i4"), ("value", "<f8", (2,)), ("tag", "S3")]),
    "fields out of order": OUT_OF_ORDER,
    "bytes": np.dtype("S5"),
    "text": np.dtype("U3"),
    "times": np.dtype("M8[s]"),
    "void": np.dtype("V7"),
    "objects": np.dtype(object),
}

# By the number of dimensions that an operation wants
SHAPES: dict[str, dict[int, Shape]] = {
    "usual": {1: (13,), 2: (13, 11), 3: (5, 6, 4)},
    "one element": {1: (1,), 2: (1, 1), 3: (1, 1, 1)},
    "no rows": {1: (0,), 2: (0, 5), 3: (0, 3, 2)},
    "no columns": {2: (5, 0), 3: (3, 4, 0)},
    "one row": {2: (1, 9), 3: (1, 5, 3)},
    "one column": {2: (9, 1), 3: (5, 3, 1)},
    "long": {1: (700,), 2: (301, 3), 3: (300, 2, 2)},
    "many pages": {1: (30_000,), 2: (180, 170), 3: (40, 30, 25)},
}

# What the last rank has otherwise
DIFFERENCES = ("", "another dtype", "another layout", "another shape", "None")


class DistributedArray:
    """A class of another library that has our name."""

    shape, ndim, dtype = (13, 11), 2, np.dtype(np.float64)


# As what an operand is passed
KINDS = ("", "a pair", "a class of our name", "a NumPy array", "a pair with None")


class Setting(NamedTuple):
    """What an array is like in each respect."""

    layout: str = "blocks"
    memory: str = "Fortran order"
    values: str = "ordinary"
    dtype: str = "float64"
    shape: str = "usual"
    ndim: int = 2
    difference: str = ""
    kind: str = ""

    def __str__(self) -> str:
        usual = Setting()
        odd = [f"{name}={value}" for name, value in self._asdict().items() if value != getattr(usual, name)]
        return ", ".join(odd) or "ordinary"


ROWS: dict[str, tuple[Any, ...]] = {
    "layout": tuple(LAYOUTS),
    "memory": tuple(MEMORY),
    "values": tuple(VALUES),
    "dtype": tuple(DTYPES),
    "shape": tuple(SHAPES),
    "ndim": (1, 2, 3),
    "difference": DIFFERENCES,
    "kind": KINDS,
}


UNKNOWN = ("the last process", "tiles")  # of which some ranks have nothing, and do not know the dtype


def hostile_settings() -> Iterator[Setting]:
    """All arrays that are odd in one respect, and the ordinary one first. A value may need a dtype that has it."""
    yield Setting()
    for respect, rows in ROWS.items():
        for row in rows:
            setting = Setting()._replace(**{respect: row})
            if setting != Setting():
                yield setting
    yield from (
        Setting(values=values, dtype=dtype)
        for values, (_, kinds) in VALUES.items()
        for dtype in ("float32", "complex128", "complex64")
        if np.dtype(dtype).kind in kinds and values != "ordinary"
    )
    for shape in ("many pages",):  # memory that is given back goes by pages
        for memory in MEMORY:
            yield from (Setting(memory=memory, shape=shape, ndim=ndim) for ndim in (2, 3))
        yield from (Setting(layout=layout, shape=shape) for layout in LAYOUTS)
    yield from (Setting(layout, dtype=dtype) for layout in UNKNOWN for dtype in ("float32", "complex64", "int16"))
    yield from (Setting(UNKNOWN[0], dtype="float32", shape="no rows"), Setting("a turned grid", "C order"))
    yield from (Setting(layout=layout, shape="long") for layout in ("balanced blocks", "irregular blocks"))  # of Blocks
    yield from (Setting(values="extreme integers", dtype=dtype) for dtype in ("int64", "uint8"))
    yield from (Setting(values="zeros", dtype="bool"), Setting(values="-0.0", dtype=str(np.dtype(np.longdouble))))


def drawn_setting(rng: np.random.Generator) -> Setting:
    """One that may be odd in several respects."""
    odd = {respect: rows[int(rng.integers(len(rows)))] for respect, rows in ROWS.items() if rng.random() < 0.45}
    for respect in ("difference", "kind"):
        if rng.random() < 0.8:
            odd.pop(respect, None)
    return Setting()._replace(**odd)


# -- values of an operand of a kind


def drawn(kind: str, shape: tuple[int, ...], setting: Setting, rng: np.random.Generator) -> NDArray[Any]:
    """Values for an operand of a kind."""
    m, n = shape if len(shape) == 2 else (shape[0], 3)
    shapes = {
        "square": (m, m), "symmetric": (m, m), "positive": (m, m), "triangle": (m, m), "sides": (m, 3), "vector": (m,),
        "right": (n, 4), "right-vector": (n,), "tall": (m + 2, min(m, n)), "tall-sides": (m + 2, 3),
        "slender": (4 * m + 1, min(m, n)), "slender-sides": (4 * m + 1, 3),
        "every-other": ((m + 1) // 2, *shape[1:]), "stack": (3, m, n), "square-stack": (3, m, m), "positive-stack": (3, m, m),
        "sides-stack": (3, m, 3), "right-stack": (3, n, 4),
    }  # fmt: skip
    dtype = np.dtype(DTYPES[setting.dtype])
    whole = numbers(rng, shapes.get(kind, shape), dtype)
    if kind in ("square", "symmetric", "positive", "triangle", "tall"):
        if dtype.kind not in "fciu" and not is_number(dtype):
            return whole
        if dtype.kind in "fc" and whole.shape[0] == whole.shape[1]:
            if kind in ("symmetric", "positive"):
                whole = np.tril(whole) + np.tril(whole, -1).conj().T
                np.fill_diagonal(whole, whole.diagonal().real)
            shift = 10 * len(whole) if kind == "positive" else 0 if kind == "symmetric" else 20 * len(whole)
            whole = (whole + shift * np.eye(len(whole))).astype(dtype)
    if kind in ("square-stack", "positive-stack") and dtype.kind in "fc":
        if kind == "positive-stack":
            whole = np.tril(whole) + np.tril(whole, -1).conj().swapaxes(-1, -2)
            whole[..., range(m), range(m)] = whole[..., range(m), range(m)].real
        whole = (whole + 20 * m * np.eye(m)).astype(dtype)
    if kind == "mask":
        return rng.integers(0, 2, whole.shape).astype(bool)
    return whole


def drawn_key(whole: NDArray[Any]) -> Any:
    """An index for an array, which hangs on it: integers, slices with and without steps, an ellipsis."""
    rng = random.Random(str(whole))
    parts: list[Any] = []
    for n in whole.shape:
        if rng.random() < 0.4 and n:
            parts.append(rng.choice([int, np.int64])(rng.randrange(-n, n)))
        else:
            ends = [rng.choice([None, rng.randint(-n - 2, n + 2)]) for _ in range(2)]
            parts.append(slice(*ends, rng.choice([None, 1, 2, 3, -1, -2])))
    if rng.random() < 0.3:
        low, high = sorted(rng.randint(0, len(parts)) for _ in range(2))
        parts[low:high] = [...]
    else:
        parts = parts[: rng.randint(1, len(parts))]
    return parts[0] if len(parts) == 1 and rng.random() < 0.5 else tuple(parts)


# -- arrays


class ImpossibleError(Exception):
    """There is no such array. Raised on all ranks alike."""


class Memory(NamedTuple):
    """A piece of memory: its bytes, those it had, and which of them are elements."""

    base: Any
    data: NDArray[np.uint8]
    before: NDArray[np.uint8]
    is_element: NDArray[np.bool_]
    is_read_only: bool = False

    @classmethod
    def of(cls, base: NDArray[Any], views: list[NDArray[Any]]) -> Memory:
        """The memory of an array and the views that are elements."""
        start = base.__array_interface__["data"][0]
        data = np.frombuffer((ctypes.c_ubyte * base.nbytes).from_address(start), np.uint8)
        is_element = np.zeros(data.size, bool)
        for view in views:
            if view.size:
                first = view.__array_interface__["data"][0] - start
                offsets = np.array(first)
                for n, stride in zip(view.shape, view.strides, strict=True):
                    offsets = np.add.outer(offsets, stride * np.arange(n))
                is_element[np.add.outer(offsets, np.arange(view.itemsize)).ravel()] = True
        return cls(base, data, data.copy(), is_element)

    def changed(self) -> tuple[bool, bool]:
        """Whether elements have changed, and other bytes."""
        differs = self.data != self.before
        return bool(differs[self.is_element].any()), bool(differs[~self.is_element].any())


class Operand(NamedTuple):
    """An array of a case.

    Attributes
    ----------
    array : DistributedArray
        This rank's part.
    whole : ndarray
        All of it, on each rank.
    memory : list of Memory
        What this rank's part lies in.
    desc, local : layout, local array
        What the array consists of.
    """

    array: Any
    whole: NDArray[Any]
    memory: list[Memory]
    desc: Any
    local: Any


def made(setting: Setting, whole: NDArray[Any], comm: MPI.Intracomm) -> Operand:
    """The array of these elements that is odd in those respects.

    Raises
    ------
    ImpossibleError
        There is none.
    """
    is_last = comm.rank == comm.size - 1
    name = setting.layout
    if is_last and setting.difference == "another layout":
        name = "columns" if name != "columns" and whole.ndim > 1 else "single elements"
    if is_last and setting.difference == "another shape":
        whole = (
            np.concatenate([whole, whole[-1:]]) if whole.size else np.ones([n + 1 for n in whole.shape], whole.dtype)
        )
    if setting.difference == "another dtype" and whole.dtype.kind not in "bufciO" and not is_number(whole.dtype):
        raise ImpossibleError
    if is_last and setting.difference == "another dtype":
        whole = whole.astype(np.float32 if whole.dtype != np.float32 else np.float64)
    if whole.dtype.hasobject and setting.memory in ("unaligned", "of another owner", "a mapped file"):
        raise ImpossibleError
    if name.startswith("tiles") and "offsets" in name and whole.ndim != 2:
        raise ImpossibleError
    if whole.dtype.hasobject and setting.memory in OF_BYTES:
        raise ImpossibleError
    layout = LAYOUTS[name](whole.shape, comm.size)
    desc: Any = made_for(layout, comm, comm.rank, kept_grid)
    if name == "tiles at other offsets":
        offsets, leading = [k + 4 for k in desc.offsets], [n + 2 for n in desc.leading_dimensions]
        gap = 2 * sum(width for _, width in desc.local_shapes)
        desc = psr.Tiles(
            *desc.edges, desc.owners, comm, offsets=[k * 2 + gap for k in offsets], leading_dimensions=leading
        )
    pieces = layout.pieces(comm.rank)
    around = np.zeros(layout.shape, whole.dtype)
    around[layout.window()] = whole
    is_stored = isinstance(layout, TileLayout) and layout.stored
    memory, views = [], []
    local: Any
    if is_stored:
        if setting.memory not in OF_ONE_DIMENSION:
            raise ImpossibleError
        places = list(zip(desc.offsets, desc.leading_dimensions, pieces, strict=True))
        room = max([offset + step * len(j) for offset, step, (_, j) in places], default=0)
        local, base = MEMORY[setting.memory]((room + 2,), whole.dtype)
        item = local.strides[0]
        views = [as_strided(local[offset:], (len(i), len(j)), (item, step * item)) for offset, step, (i, j) in places]
        for view, piece in zip(views, pieces, strict=True):
            view[...] = around[np.ix_(*piece)]
        memory.append(Memory.of(base, views))
    else:
        locals_: list[Any] = []
        for piece in pieces:
            shape = tuple(map(len, piece))
            view, base = MEMORY[setting.memory](shape, whole.dtype)
            view[...] = around[np.ix_(*piece)]
            locals_.append(view)
            inside = view
            if isinstance(layout, Layout):
                spans = zip(piece, layout.start, layout.size, strict=True)
                inside = view[tuple(own_slice(indices, start, size) for indices, start, size in spans)]
            memory.append(Memory.of(base, [inside]))
        local = locals_ if isinstance(layout, TileLayout) else (locals_ or [None])[0]
    for each in local if isinstance(local, list) else [local]:
        if each is not None and (
            setting.memory == "read-only" or (setting.memory == "read-only on one rank" and is_last)
        ):
            each.flags.writeable = False
            memory = [piece._replace(is_read_only=True) for piece in memory]
    if setting.difference == "None" and is_last:
        return Operand(None, whole, memory, desc, None)
    passed: dict[str, Any] = {
        "": lambda: psr.DistributedArray(desc, local),
        "a pair": lambda: (desc, local),
        "a pair with None": lambda: (desc, None),
        "a class of our name": DistributedArray,
        "a NumPy array": lambda: whole,
    }
    return Operand(passed[setting.kind](), whole, memory, desc, local)


GRIDS: dict[Any, psr.ProcessGrid] = {}


def kept_grid(layout: Layout, comm: MPI.Intracomm) -> psr.ProcessGrid:
    """Equal grids are one, so that operands of ScaLAPACK have one context."""
    ranks = layout.ranks if layout.grid_ranks is None else layout.grid_ranks
    key = MPI._handleof(comm), ranks.shape, ranks.tobytes()
    if key not in GRIDS:
        GRIDS[key] = grid_of(layout, comm)
    return GRIDS[key]


def own_slice(indices: NDArray[np.int64], start: int, size: int) -> slice:
    """Which of ascending global indices lie in a window."""
    return slice(*np.searchsorted(indices, [start, start + size]).tolist())


def have_same_bits(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether elements are the same, bit by bit where they have no padding."""
    if first.dtype.names is not None or first.dtype.char in "gGO":
        return bool(np.all((first == second) | ((first != first) & (second != second))))
    return np.ascontiguousarray(first).tobytes() == np.ascontiguousarray(second).tobytes()


def whole_of(array: Any, comm: MPI.Intracomm) -> NDArray[Any]:
    """All of a distributed array, on every rank, by index arithmetic and mpi4py's allgather; replicas must be equal."""
    desc, mine = array.desc, []
    if isinstance(desc, psr.Tiles):
        for k, span in enumerate(desc.windows):
            shape = tuple(each.stop - each.start for each in span)
            if 0 in shape:
                continue
            if desc.offsets is None:
                mine.append((span, np.ascontiguousarray(array.local[k])))
            else:
                i, j = np.ogrid[: shape[0], : shape[1]]
                mine.append((span, array.local[desc.offsets[k] + i + j * desc.leading_dimensions[k]]))
        mine = [(tuple(np.arange(s.start, s.stop) for s in span), values) for span, values in mine]
    elif desc.coords is not None and array.local is not None:
        mine.append((tuple(desc.global_indices(k) for k in range(desc.ndim)), np.ascontiguousarray(array.own)))
    everything = comm.allgather((array.dtype, mine))
    parts = [part for _, each in everything for part in each]
    known = next((dtype for dtype, _ in everything if dtype is not None), None)  # a rank without tiles does not know it
    dtype = next((values.dtype for _, values in parts), known)
    whole, seen = np.zeros(desc.shape, dtype), np.zeros(desc.shape, bool)
    for indices, values in parts:
        place = np.ix_(*indices)
        assert values.dtype == dtype, f"ranks have results of dtype {dtype} and {values.dtype}"
        both = seen[place]
        assert have_same_bits(whole[place][both], values[both]), "replicas differ"
        whole[place], seen[place] = values, True
    assert seen.all(), "elements are missing"
    return whole
