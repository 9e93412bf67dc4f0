"""HDF5 files, which h5py itself reads and writes on one rank to compare. Arguments: folder, cases, seed."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from layouts import block_sizes
from mpi4py import MPI
from oracle import random_layout, random_shape

import pyscalapack_redist as psr
from pyscalapack_redist.files import slabs

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
PARALLEL = h5py.get_config().mpi
DTYPES = [
    np.dtype(dtype) for dtype in ("?", "i2", ">i4", "f4", "d", ">d", "D", "S3", [("key", "<i4"), ("value", ">f8")])
]


def check_case(folder: Path, rng: np.random.Generator) -> None:
    size = random_shape(rng, int(rng.integers(1, 5)), 900)
    layout = random_layout(rng, size, WORLD.Get_size(), copies=True)
    grid = psr.ProcessGrid(layout.ranks.shape, WORLD, ranks=layout.ranks)
    everything = psr.Descriptor(layout.shape, block_sizes(layout), grid, source=layout.source, axes=layout.axes)
    desc = everything[layout.window()]
    dtype = DTYPES[rng.integers(len(DTYPES))]
    slabs.SLAB_BYTES = int(rng.choice([100, 1000, 10**7]))
    whole = np.zeros(layout.shape, dtype)
    if dtype.names:
        whole["key"], whole["value"] = rng.integers(0, 99, layout.shape), rng.random(layout.shape)
    else:
        whole[...] = rng.integers(0, 2 if dtype == "?" else 99, layout.shape)
    part = whole[layout.window()]
    read, written = folder / "read.h5", folder / "written.hdf5"
    if RANK == 0:
        with h5py.File(read, "w") as file:
            file["group/some"] = part
    WORLD.Barrier()
    assert psr.shape_of(read, dataset="group/some", comm=WORLD) == part.shape
    assert psr.dtype_of(read, dataset="group/some") == dtype
    out = layout.local(np.zeros_like(whole), RANK)
    psr.load(desc, read, out, dataset="group/some")
    wanted = np.zeros_like(whole)
    wanted[layout.window()] = part
    held = layout.local(wanted, RANK)
    assert held is None or np.array_equal(out, held), (layout, dtype)

    psr.save(desc, layout.local(whole, RANK), written, dataset="a/b")
    psr.save(desc, layout.local(whole, RANK), written)
    if RANK == 0:
        with h5py.File(written, "r") as file:
            for name in ("a/b", "data"):
                assert file[name].dtype == dtype
                assert np.array_equal(file[name][()], part), (layout, dtype)
        written.unlink()
    WORLD.Barrier()


def errors(folder: Path) -> None:
    desc = psr.Descriptor((6, 5), (2, 2), psr.ProcessGrid((1, WORLD.Get_size()), WORLD))
    path = folder / "errors.h5"
    if RANK == 0:
        with h5py.File(path, "w") as file:
            file["other"] = np.zeros((5, 6))
            file["text"] = np.full((6, 5), "text", dtype=h5py.string_dtype())
            file["group/one"] = 1
            file["null"] = h5py.Empty("f8")
    WORLD.Barrier()
    before = path.read_bytes()
    for dataset, text in (
        (None, "has no data set 'data'; it has group, null, other, text: give dataset="),
        ("group", "has no data set 'group'"),
        ("other", "shape (5, 6), but desc has shape (6, 5)"),
        ("text", "holds object: only fixed sizes"),
        ("null", "holds nothing (H5S_NULL): only fixed sizes"),
    ):
        with pytest.raises(psr.FileError) as caught:
            psr.load(desc, path, dataset=dataset)
        assert text in str(caught.value), str(caught.value)
        if dataset != "other":
            with pytest.raises(psr.FileError) as caught:
                psr.shape_of(path, dataset=dataset, comm=WORLD)
            assert text in str(caught.value), str(caught.value)
    with pytest.raises(psr.FileError, match="is a group"):
        psr.save(desc, desc.zeros(), path, dataset="group")
    with pytest.raises(psr.FileError, match="M8"):
        psr.save(desc, desc.zeros("M8[s]"), path)
    with pytest.raises(psr.FileError, match="order = 'F'"):
        psr.save(desc, desc.zeros(), path, order="F")
    assert path.read_bytes() == before
    bad = folder / "bad.h5"
    WORLD.Barrier()
    if RANK == 0:
        bad.write_bytes(before[: len(before) // 2])
    WORLD.Barrier()
    with pytest.raises(psr.FileError, match=r"bad\.h5"):
        psr.load(desc, bad, dataset="other")
    with pytest.raises(psr.FileError, match=r"bad\.h5"):
        psr.save(desc, desc.zeros(), bad)
    with pytest.raises(psr.FileError, match="No such file"):
        psr.load(desc, folder / "missing.h5")
    WORLD.Barrier()
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]


def main() -> None:
    folder, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    desc = psr.Descriptor((4, 4), (2, 2), psr.ProcessGrid((1, 1), WORLD))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        psr.save(desc, desc.zeros() if desc.coords else None, folder / "warned.h5")
    mine = [str(warning.message) for warning in told if warning.category is RuntimeWarning]
    assert len(mine) == (RANK == 0 and not PARALLEL)
    assert not mine or "warned.h5: h5py was built without MPI, so the first rank reads and writes for all" in mine[0]
    assert not mine or told[0].filename == __file__
    warnings.simplefilter("ignore", RuntimeWarning)
    for case in range(cases):
        check_case(folder, np.random.default_rng([seed, case]))
    errors(folder)
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
