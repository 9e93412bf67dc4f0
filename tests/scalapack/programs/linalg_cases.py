"""Common parts of the programs of linalg: grids, layouts of all kinds, arrays in them, and comparison with right results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
BACKWARDS = list(range(SIZE))[::-1]
ROWS = psr.ProcessGrid((SIZE, 1), WORLD)
COLUMNS = psr.ProcessGrid((1, SIZE), WORLD, ranks=[BACKWARDS])
SQUARE = psr.ProcessGrid((2, SIZE // 2), WORLD) if SIZE > 1 else ROWS
LAST = psr.ProcessGrid((1, 1), WORLD, ranks=[[SIZE - 1]])
LINE = psr.ProcessGrid((SIZE,), WORLD, ranks=BACKWARDS)
RNG = np.random.default_rng(7)


def slabs(shape: tuple[int, ...]) -> psr.Descriptor:
    return psr.Descriptor(shape, None, ROWS if len(shape) == 2 else LINE)


def copied(shape: tuple[int, ...]) -> psr.Descriptor:
    """Several processes hold each element."""
    return psr.Descriptor(shape, 3, SQUARE, axes=(1, None)[: len(shape)])


def layouts(shape: tuple[int, ...]) -> list[psr.Descriptor]:
    """Of a matrix or a vector: one that fits ScaLAPACK's routines, and others that do not."""
    last = [side - 1 for side in SQUARE.shape]
    if len(shape) == 1:
        part = psr.Descriptor((shape[0] + 3,), 2, LINE, source=SIZE - 1)[2 : shape[0] + 2]
        return [psr.Descriptor(shape, 3, LINE), part, copied(shape)]
    m, n = shape
    return [
        psr.Descriptor(shape, 3, SQUARE),
        psr.Descriptor(shape, (2, 5), ROWS, source=(SIZE - 1, 0)),
        psr.Descriptor((m + 4, n + 2), None, COLUMNS)[1 : m + 1, 2 : n + 2],
        psr.Descriptor((n, m), 2, SQUARE, source=last).T,
        psr.Descriptor(shape, 7, LAST),
        psr.Descriptor((m + 3, n), "balanced", ROWS)[:m],
        psr.Descriptor(shape, "balanced", COLUMNS),
        copied(shape),
    ]


def random(shape: tuple[int, ...], dtype: str, rng: np.random.Generator = RNG) -> NDArray[Any]:
    numbers = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype in "FD" else 0)
    return numbers.astype(dtype)


def put(whole: NDArray[Any], desc: psr.Descriptor, order: str = "F") -> psr.DistributedArray:
    local = desc.from_function(lambda *mesh: whole[mesh], whole.dtype)
    return psr.DistributedArray(desc, np.array(local, order=order))  # type: ignore[call-overload]


def whole_of(array: psr.DistributedArray) -> NDArray[Any]:
    """On every rank, without the package's own gather; all copies are equal."""
    whole, place = np.zeros(array.shape, array.dtype), array.desc.place
    mesh = np.ix_(*(array.desc.global_indices(k) for k in range(array.ndim)))
    if place is not None and not any(place[array.ndim :]):
        whole[mesh] = array.local
    WORLD.Allreduce(MPI.IN_PLACE, whole)
    assert place is None or np.array_equal(whole[mesh], array.local, equal_nan=True)  # type: ignore[arg-type]
    return whole


def near(result: Any, expected: Any, name: str = "") -> None:
    """Equal but for rounding, in size and in dtype."""
    assert result.dtype == expected.dtype, f"{name}: {result.dtype}, not {expected.dtype}"
    assert result.shape == expected.shape, f"{name}: {result.shape}, not {expected.shape}"
    difference = np.abs(result - expected).max(initial=0) / max(1, np.abs(expected).max(initial=0))
    assert difference < 3e3 * np.finfo(expected.dtype).eps, f"{name}: {difference}"


@contextlib.contextmanager
def untouched(*arrays: psr.DistributedArray) -> Iterator[None]:
    before = [np.array(array.local) for array in arrays]  # of a part, with what is around it
    yield
    for copy, array in zip(before, arrays, strict=True):
        assert array.local is None or np.array_equal(copy, array.local)
