"""Types that ml_dtypes adds to NumPy, which writes many of them alike: votes, files, byte order, op="C". Argument: folder."""

from __future__ import annotations

import itertools
import sys
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
TYPES = [
    np.dtype(kind)
    for kind in (getattr(ml_dtypes, name) for name in dir(ml_dtypes))
    if isinstance(kind, type) and issubclass(kind, np.generic)
]
COMPLEX = [dtype for dtype in TYPES if dtype.name in ("complex32", "bcomplex32")]
ROWS, COLUMNS = (psr.Descriptor((6, 2), 1, psr.ProcessGrid(shape, WORLD)) for shape in ((SIZE, 1), (1, SIZE)))


def with_foreign_parts(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    record = np.dtype([("a", "i2"), ("b", dtype)])
    return [dtype, record, np.dtype([("c", dtype, (3,))]), np.dtype([("d", record), ("e", "f4")])]


def local_of(desc: psr.Descriptor, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """This rank's local array, its bytes all 1."""
    return np.frombuffer(b"\1" * (int(np.prod(desc.local_shape)) * dtype.itemsize), dtype).reshape(desc.local_shape)


def differ_in_votes() -> None:
    """Two ranks with types of one size: all calls that vote on a dtype, or exchange it, are refused."""
    move = psr.redistribute(ROWS, COLUMNS)
    both = psr.batch(move, psr.redistribute(ROWS, COLUMNS))
    words = "the dtype.* must be the same on every rank"
    by_size: dict[int, list[np.dtype[Any]]] = {}
    for dtype in (*TYPES, np.dtype("V1"), np.dtype("V2"), np.dtype("V4")):
        by_size.setdefault(dtype.itemsize, []).append(dtype)
    for one, other in (pair for types in by_size.values() for pair in itertools.pairwise((*types, types[0]))):
        for dtype in zip(with_foreign_parts(one), with_foreign_parts(other), strict=True):
            local = local_of(ROWS, dtype[RANK % 2])
            out = np.zeros(COLUMNS.local_shape, local.dtype)
            for call in (
                lambda local=local, out=out: move(local, out),
                lambda local=local, out=out: both([local, local], [out, out.copy()]),
                lambda local=local: psr.redistribute(psr.DistributedArray(ROWS, local), COLUMNS),
                lambda local=local: psr.save(ROWS, local, "nothing.bin"),
                lambda local=local: psr.load(ROWS, "nothing.bin", dtype=local.dtype),
            ):
                with pytest.raises(psr.CollectiveError, match=words):
                    call()
            assert not out.view(np.uint8).any()
    for dtype in TYPES:
        for part in with_foreign_parts(dtype):
            assert move(local_of(ROWS, part)).tobytes() == local_of(COLUMNS, part).tobytes()


def in_files(folder: Path) -> None:
    """No file with a header names them; raw files hold them."""
    plain, raw = folder / "plain.npy", folder / "raw.bin"
    for dtype in (part for foreign in TYPES for part in with_foreign_parts(foreign)[:2]):
        local = local_of(ROWS, dtype)
        for name in ("x.npy", "x.h5", "x.zarr"):
            with pytest.raises(psr.ArrayError, match=rf"{name} cannot name .*: save local\.view\("):
                psr.save(ROWS, local, folder / name)
        assert not list(folder.glob("x.*"))
        psr.save(ROWS, local, raw)
        assert psr.load(ROWS, raw, dtype=dtype).tobytes() == local.tobytes()
        if RANK == 0:
            np.save(plain, np.zeros(ROWS.shape, dtype))
        WORLD.Barrier()
        for wanted in (dtype, TYPES[-1]):
            with pytest.raises(psr.FileError, match=r"cannot hold without loss|is not a \.npy file that can be read"):
                psr.load(ROWS, plain, dtype=wanted)


def in_the_other_byte_order() -> None:
    move = psr.redistribute(ROWS, COLUMNS)
    for dtype in TYPES:
        for swapped in with_foreign_parts(dtype.newbyteorder(">")):
            with pytest.raises(psr.ArrayError, match="in the other byte order"):
                move(local_of(ROWS, swapped))


def conjugated() -> None:
    """Complex ones are conjugated or refused, but not moved as they are."""
    move = psr.redistribute(ROWS, COLUMNS.T, op="C")
    for dtype in TYPES:
        numbers = ROWS.from_function(lambda i, j: i + 1j * j)
        local = (numbers if dtype in COMPLEX else numbers.real).astype("c8" if dtype in COMPLEX else "f4").astype(dtype)
        adjoint = psr.DistributedArray(ROWS, local).H.local.astype("c8")
        assert np.array_equal(adjoint, local.astype("c8").conj().T, equal_nan=True)
        if dtype in COMPLEX:
            with pytest.raises(psr.ArrayError, match=f"conjugated, with dtype {dtype}: only float32"):
                move(local)
        else:
            assert move(local).shape == COLUMNS.T.local_shape


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)  # by which NumPy says that it loses a type
    if SIZE > 1:
        differ_in_votes()
    in_files(Path(sys.argv[1]))
    in_the_other_byte_order()
    conjugated()
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
