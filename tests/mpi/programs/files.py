"""Random arrays in files: what NumPy, h5py or zarr wrote is loaded, what was saved they load. Arguments: folder, cases, seed.

Cases are of .npy, raw and HDF5 files and Zarr stores, where h5py and zarr are there, of both orders, whole files and windows of
them, in slabs of all sizes, of arrays of one to five dimensions in layouts of any kind. Files of a store have one writer each.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import io
import itertools
import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from layouts import descriptor, placed
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import random_axes, random_layout, random_shape

import pyscalapack_redist as psr
from pyscalapack_redist.files import binary_file, hdf5, progress_bar, slabs

Whole = NDArray[Any]

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
ALIGNED = np.dtype([("key", "i1"), ("value", "f8")], align=True)  # with bytes that belong to no field
PADDED = (ALIGNED, np.dtype("g"))  # what lies between numbers is anybody's
RECORD = np.dtype([("key", ">i4"), ("value", "<f8", (2,)), ("tag", "S3")])
PLAIN = [np.dtype(t) for t in ("?", "H", ">i2", "q", "f", "d", ">d", "D", "S5")]
DTYPES = [*PLAIN, *map(np.dtype, ("e", "g", ">D", "U3", ">U2", "M8[s]", "V7")), RECORD, ALIGNED]
IN_HDF5 = [*PLAIN, np.dtype([("key", "<i4"), ("value", ">f8")])]
IN_ZARR = [*PLAIN, *map(np.dtype, ("e", ">D", "U3", ">U2", "M8[s]"))]
METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup")
KINDS = [
    *itertools.product((".npy", ".bin"), (False, True)),
    *itertools.product([".h5"] * (importlib.util.find_spec("h5py") is not None), (False, True)),
    *itertools.product([".zarr"] * (importlib.util.find_spec("zarr") is not None), (False, True)),
]


def numbered(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Whole:
    """An array of the dtype whose elements differ."""
    if dtype.names:
        made = np.zeros(shape, dtype)
        for name in dtype.names:
            made[name] = numbered(made[name].shape, made[name].dtype, rng)
        return made
    if dtype.kind == "V":
        return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()
    return rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)


def window_of(rng: np.random.Generator, first: tuple[int, ...], size: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """Slices of `size` from `first` on, of an array of `shape`, written in one of the ways that NumPy has."""
    made: list[Any] = []
    for low, n, whole in zip(first, size, shape, strict=True):
        start: int | None = low - whole if rng.integers(2) and low < whole else low
        stop: int | None = low + n - whole if rng.integers(2) and low + n < whole else low + n
        if low == 0 and rng.integers(2):
            start = None
        if low + n == whole and rng.integers(2):
            stop = None
        made.append(slice(start, stop, (None, 1)[rng.integers(2)]))
    if made[-1] in (slice(None), slice(0, shape[-1])):
        made[-1:] = [[...], [], [slice(None), ...]][rng.integers(3)]
    return made[0] if len(made) == 1 else tuple(made)


def random_store(rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any]:
    """Arguments of `zarr.create_array`: chunks and shards, compressors and fill values of both versions of the format."""
    import numcodecs
    import zarr

    few = int(np.prod(shape)) > 2000  # chunks, which are files
    chunks = tuple(int(rng.integers((n + 1) // 2 if few and n else 1, n + 3)) for n in shape)
    options: dict[str, Any] = {"chunks": chunks, "zarr_format": int(rng.integers(2, 4))}
    compressors: list[Any] = ["auto", None]
    if options["zarr_format"] == 2:
        compressors.append(numcodecs.GZip())
        options["order"] = "CF"[rng.integers(2)]
    else:
        compressors += [zarr.codecs.GzipCodec(), (zarr.codecs.BloscCodec(), zarr.codecs.Crc32cCodec())]
        if rng.integers(2):
            options["shards"] = tuple(n * int(rng.integers(1, 4)) for n in chunks)
    return {**options, "compressors": compressors[rng.integers(len(compressors))]}


def write(path: Path, whole: Whole, order: Any, skipped: int, options: dict[str, Any]) -> None:
    if path.suffix == ".zarr":
        import zarr

        shutil.rmtree(path, ignore_errors=True)
        dtype = np.dtype(whole.dtype.str)  # "q" is unknown to zarr
        fill = whole.flat[0] if whole.size else None  # chunks of it alone are not written
        zarr.create_array(path, name="group/data", shape=whole.shape, dtype=dtype, fill_value=fill, **options)[...] = (
            whole
        )
    elif path.suffix == ".npy":
        np.save(path, np.asarray(whole, order=order))
    elif path.suffix == ".bin":
        path.write_bytes(bytes(skipped) + whole.tobytes(order) + bytes(skipped))
    else:
        import h5py

        with h5py.File(path, "w") as file:
            file["group/data"] = whole


def read(path: Path, shape: tuple[int, ...], dtype: Any, order: Any, skipped: int) -> Whole:
    """The array in a file, of which NumPy or h5py has told the dtype where the file tells it."""
    if path.suffix == ".npy":
        return np.asarray(np.load(path))
    if path.suffix == ".bin":
        content = path.read_bytes()
        assert content[:skipped] == content[len(content) - skipped :] == bytes(skipped)
        flat = np.frombuffer(content, dtype, (len(content) - 2 * skipped) // dtype.itemsize, skipped)
        return flat.reshape(shape, order=order)
    if path.suffix == ".zarr":
        import zarr

        group = zarr.open(path, mode="r")
        return np.asarray((group if isinstance(group, zarr.Array) else group["group/data"])[...])
    import h5py

    with h5py.File(path, "r") as file:
        return np.asarray(file["group/data"][()])


@contextlib.contextmanager
def one_writer(comm: MPI.Intracomm, path: Path) -> Iterator[None]:
    """See that the files of a Zarr store that change in the block are each written once, and read by no other rank."""
    from zarr.storage import LocalStore

    keys: dict[str, list[str]] = {"set": [], "delete": [], "get": []}

    def record(name: str) -> Any:
        original = getattr(LocalStore, name)

        async def call(store: LocalStore, key: str, *arguments: Any, **options: Any) -> Any:
            if not key.endswith(METADATA):
                keys[name].append(key)
            return await original(store, key, *arguments, **options)

        return mock.patch.object(LocalStore, name, call)

    before = files_of(path)
    comm.Barrier()
    with record("set"), record("delete"), record("get"):
        yield
    written = keys["set"] + keys["delete"]
    assert set(keys["get"]) <= set(written)
    everywhere = [key for of_rank in comm.allgather(written) for key in of_rank]
    assert len(everywhere) == len(set(everywhere)), sorted(everywhere)
    assert {key for key, _ in files_of(path) - before} <= set(everywhere)


def files_of(path: Path) -> Any:
    """Files of a Zarr store but for its metadata, with what changes when they are written, as dictionary items."""
    names = (name for name in path.rglob("*") if name.is_file() and not name.name.endswith(METADATA))
    return {str(name.relative_to(path)): name.stat().st_ino for name in names}.items()


def on_first(action: Any) -> None:
    """Rank 0 does it while the others wait."""
    WORLD.Barrier()
    if RANK == 0:
        action()
    WORLD.Barrier()


def check_case(comm: MPI.Intracomm, folder: Path, rng: np.random.Generator, number: int) -> None:
    suffix, windowed = KINDS[number % len(KINDS)]
    rank = comm.Get_rank()
    layout = random_layout(rng, random_shape(rng, int(rng.integers(1, 6)), 800), comm.Get_size(), copies=True)
    ranks, axes = random_axes(rng, layout)
    layout = replace(layout, grid_ranks=ranks, grid_axes=axes)
    desc = descriptor(layout, comm)
    first = tuple(int(rng.integers(0, 4)) * windowed for _ in desc.shape)
    shape = tuple(low + n + int(rng.integers(0, 4)) * windowed for low, n in zip(first, desc.shape, strict=True))
    exact = tuple(slice(low, low + n) for low, n in zip(first, desc.shape, strict=True))
    possible = {".h5": IN_HDF5, ".zarr": IN_ZARR}.get(suffix, DTYPES)
    dtype = possible[rng.integers(len(possible))]
    order = "C" if suffix in (".h5", ".zarr") else "CF"[rng.integers(2)]
    few_slabs = int(np.prod(desc.shape)) * dtype.itemsize // 100
    slabs.SLAB_BYTES = max(few_slabs, int(rng.choice([100, 500, 3000, 10**7])))
    binary_file.SPAN_BYTES, binary_file.GAP_BYTES = int(rng.choice([1, 200, 10**6])), int(rng.choice([0, 1, 60, 10**5]))
    binary_file.CALL_BYTES = int(rng.choice([1, 7, 300, 2**30]))
    skipped = int(rng.integers(0, 9)) if suffix == ".bin" else 0
    of_file: dict[str, Any] = {"dataset": "group/data"} if suffix in (".h5", ".zarr") else {}
    its = of_file.copy()
    if windowed:
        its["window"] = window_of(rng, first, desc.shape, shape)
    if suffix == ".bin":
        its |= {
            "order": order,
            **({"shape": list(shape)} if windowed else {}),
            **({"offset": skipped} if skipped else {}),
        }
    whole, mine, background = (numbered(n, dtype, rng) for n in (shape, layout.shape, layout.shape))
    options = random_store(rng, shape) if suffix == ".zarr" else {}
    what = f"{layout}, {dtype}, {order}, {suffix}, {its} of {shape}, pieces of {slabs.SLAB_BYTES}, {options}"

    path = folder / f"file{suffix}"
    on_first(lambda: write(path, whole, order, skipped, options))
    in_file = dtype.newbyteorder("=") if options.get("zarr_format") == 3 else dtype
    if suffix != ".bin":
        assert psr.shape_of(path, comm=comm, **of_file) == shape, what
        assert psr.dtype_of(path, **of_file) == in_file, what
    held, give_out = layout.local(background, rank), layout.size != layout.shape or bool(rng.integers(2))
    out = None
    if held is not None and give_out:
        out = placed(np.random.default_rng(rank), held.shape, dtype)
        out[...] = held
    background[layout.window()] = whole[exact]
    wanted = layout.local(background, rank)
    loaded = psr.load(desc, path, out, **({"dtype": dtype} if suffix == ".bin" or give_out else {}), **its)
    assert (loaded is None) == (wanted is None), what
    if loaded is not None:
        assert loaded is out or not give_out, what
        assert loaded.dtype == (dtype if give_out or suffix == ".bin" else dtype.newbyteorder("=")), what
        assert np.array_equal(loaded, wanted), what

    if windowed and suffix == ".zarr":
        dtype = in_file
        mine = mine.astype(dtype)
    local = layout.local(mine, rank)
    if local is not None:
        copy = placed(np.random.default_rng(rank), local.shape, dtype)
        copy[...] = local
        local = copy
    if not windowed:
        its, skipped = {**its, **({} if suffix in (".h5", ".zarr") else {"order": order})}, 0
        its.pop("offset", None)
        on_first(lambda: shutil.rmtree(path) if suffix == ".zarr" else path.unlink())
        if suffix == ".zarr":
            its = {"chunks": options.pop("chunks"), "shards": options.pop("shards", None), "zarr": options}
    with one_writer(comm, path) if suffix == ".zarr" else contextlib.nullcontext():
        psr.save(desc, local, path, **its)
    whole = whole.copy()
    whole[exact] = mine[layout.window()]
    WORLD.Barrier()
    if RANK == 0:
        found = read(path, shape, dtype, order, skipped)
        assert found.dtype == in_file, what
        assert np.array_equal(found, whole), what
        both = order == "F" and np.asarray(whole, order="F").flags.c_contiguous  # then NumPy says "C"
        if suffix == ".npy" and not both and dtype not in PADDED:
            np.save(folder / "theirs.npy", np.asarray(whole, order=order))  # type: ignore[call-overload]
            assert path.read_bytes() == (folder / "theirs.npy").read_bytes(), what
    WORLD.Barrier()


def far_in_a_file(comm: MPI.Intracomm, folder: Path) -> None:
    """Places beyond 2^31 and 2^32 bytes; the file has holes and takes no room."""
    path, offset, whole = folder / "far.bin", 5 * 2**30 + 3, np.arange(700.0).reshape(20, 35)

    def hole() -> None:
        with open(path, "wb") as file:
            file.seek(offset)
            file.write(whole.tobytes())

    on_first(hole)
    desc = psr.Descriptor(whole.shape, (3, 4), psr.ProcessGrid((1, SIZE), comm))
    local = psr.load(desc, path, dtype="d", offset=offset)
    assert np.array_equal(local, desc.from_function(lambda i, j: whole[i, j]))


def what_lies_between_fields(folder: Path) -> None:
    """Bytes that belong to no field are read and written as well: what is in the file is compared byte by byte."""
    path, whole = folder / "gaps.bin", np.frombuffer(np.random.default_rng(3).bytes(600 * 16), "V16").reshape(30, 20)
    desc, part = (psr.Descriptor(shape, (2, 2), psr.ProcessGrid((1, SIZE), WORLD)) for shape in ((30, 20), (10, 5)))
    on_first(lambda: whole.tofile(path))
    local = psr.load(desc, path, dtype=ALIGNED)
    psr.save(desc, local, folder / "again.bin", order="C")
    WORLD.Barrier()
    assert (folder / "again.bin").read_bytes() == whole.tobytes()
    WORLD.Barrier()
    local = psr.load(part, path, dtype=ALIGNED, window=np.s_[3:13, -5:], shape=(30, 20))
    psr.save(part, local, path, window=np.s_[:10, :5], shape=(30, 20))
    expected = whole.copy()
    expected[:10, :5] = whole[3:13, -5:]
    WORLD.Barrier()
    assert path.read_bytes() == expected.tobytes()


def names_of_any_kind(folder: Path) -> None:
    """Names are for the system alone: no part of one selects another file, and none is too long."""
    desc = psr.Descriptor((30, 20), (4, 3), psr.ProcessGrid((1, SIZE), WORLD))
    part, window = psr.Descriptor((10, 5), (2, 2), desc.grid), np.s_[3:13, -5:]
    whole, other = np.arange(600.0).reshape(30, 20), np.full((30, 20), -1.0)
    local = desc.from_function(lambda i, j: whole[i, j])
    inside, deep = folder / "names", folder / "names" / ("d" * 250) / ("e" * 250)
    on_first(lambda: deep.mkdir(parents=True))
    texts = (
        "nfs:x.npy",
        "ufs:x.npy",
        "run-15:00.npy",
        "a\nb.npy",
        " .npy",
        "-x.npy",
        "%s.npy",
        "~x.npy",
        "\udcff\udcfe.npy",
    )
    bystanders = [inside / name for name in ("x.npy", "00.npy")]
    on_first(lambda: [np.save(path, other) for path in bystanders])
    before = os.getcwd()
    os.chdir(inside)
    for path in (*texts, *(inside / name for name in texts), deep / "x.npy", os.fsencode("nfs:y.npy")):
        psr.save(desc, local, path)
        psr.save(part, -psr.load(part, path, window=window), path, window=window)
        changed = np.load(os.fsdecode(path))
        assert np.array_equal(changed[window], -whole[window])
        changed[window] *= -1
        assert np.array_equal(changed, whole)
        assert np.array_equal(
            psr.load(part, path, window=window), part.from_function(lambda i, j: -whole[3 + i, 15 + j])
        )
        WORLD.Barrier()
    os.chdir(before)
    assert all(np.array_equal(np.load(path), other) for path in bystanders)
    left = {name for name in os.listdir(inside) if name not in (*texts, "nfs:y.npy", "x.npy", "00.npy", "d" * 250)}
    assert not left, left
    WORLD.Barrier()


def on_shared_disks(folder: Path) -> None:
    """On NFS, ranks of several hosts write what they have locked and nothing else, and wait for nobody who waits for them."""
    path, locked, written = folder / "shared.npy", [], 0
    desc, part = (psr.Descriptor(shape, (2, 2), psr.ProcessGrid((1, SIZE), WORLD)) for shape in ((30, 20), (10, 5)))
    lockf, pwrite = fcntl.lockf, os.pwrite

    def lock(file: int, kind: int, length: int, start: int) -> None:
        lockf(file, kind, length, start)
        locked[:] = [(file, start, start + length)] if kind == fcntl.LOCK_EX else []

    def write(file: int, content: Any, start: int) -> int:
        nonlocal written
        written += 1
        (holder, low, high) = locked[0]
        assert holder == file
        assert low <= start
        assert start + content.nbytes <= high
        return pwrite(file, content, start)

    for hosts, on_nfs in ((SIZE, True), (1, True), (SIZE, False)):
        with (
            mock.patch.object(slabs, "SLAB_BYTES", 300),
            mock.patch.object(binary_file, "machine", lambda hosts=hosts: (str(RANK % hosts),)),
            mock.patch.object(binary_file, "is_on_nfs", lambda _, on_nfs=on_nfs: on_nfs),
            mock.patch.object(fcntl, "lockf", lock if hosts > 1 and on_nfs else None),
            mock.patch.object(os, "pwrite", write if hosts > 1 and on_nfs else pwrite),
        ):
            psr.save(desc, desc.from_function(lambda i, j: 20.0 * i + j), path)
            psr.save(part, part.from_function(lambda i, j: -1.0 - i * j), path, window=np.s_[3:13, -5:])
        assert not locked
        WORLD.Barrier()
        wanted = np.arange(600.0).reshape(30, 20)
        wanted[3:13, -5:] = -1 - np.outer(np.arange(10.0), np.arange(5.0))
        assert np.array_equal(np.load(path), wanted)
        WORLD.Barrier()
    assert (written > 0) == (SIZE > 1)
    if SIZE > 1:
        refused = OSError(37, "No locks available")
        with (
            mock.patch.object(binary_file, "machine", return_value=(str(RANK),)),
            mock.patch.object(binary_file, "is_on_nfs", return_value=True),
            mock.patch.object(fcntl, "lockf", mock.Mock(side_effect=refused)),
            pytest.raises(
                (psr.FileError, psr.CollectiveError), match=r"shared.npy: bytes cannot be locked on this NFS"
            ),
        ):
            psr.save(part, part.zeros(), path, window=np.s_[3:13, -5:])
        WORLD.Barrier()
        assert np.array_equal(np.load(path), wanted)


def hdf5_data_sets(folder: Path) -> None:
    """A data set that is saved again keeps its place in the file, its attributes, its compression and what it may grow to."""
    import h5py

    path, grid = folder / "kept.h5", psr.ProcessGrid((SIZE, 1), WORLD)
    desc, longer, wide = (psr.Descriptor(shape, 16, grid) for shape in ((256, 128), (300, 128), (256, 130)))
    box = psr.Descriptor((8, 8, 8), 2, grid)
    numbers = desc.from_function(lambda i, j: i + 0.001 * j)
    sizes = []
    for _ in range(4):
        for dataset in ("data", "group/other"):
            psr.save(desc, numbers, path, dataset=dataset)
        sizes.append(path.stat().st_size)
        WORLD.Barrier()
    assert len(set(sizes)) == 1, sizes
    assert sizes[0] < 2 * 256 * 128 * 8 + 10000
    for k in range(8):  # the space of one dtype is free for the next one
        psr.save(desc, numbers.astype(("f4", "f8")[k % 2]), path)
    assert path.stat().st_size < 4 * 256 * 128 * 8
    WORLD.Barrier()

    def write() -> None:
        with h5py.File(path, "w") as file:
            options = {"chunks": (32, 64), "maxshape": (None, 129), "compression": "gzip", "compression_opts": 7}
            data = file.create_dataset("data", (256, 128), "f8", shuffle=True, fillvalue=3.0, **options)
            data.attrs["unit"], data.attrs["none"], data.attrs["words"] = "eV", h5py.Empty("f4"), ["a", "bcd"]
            data.attrs["numbers"] = np.arange(3, dtype=">i2")
            file["x"] = np.arange(256.0)
            file["x"].make_scale("x")
            data.dims[0].attach_scale(file["x"])
            data.dims[0].label = "rows"
            file["link"] = h5py.SoftLink("/data")
            file.create_dataset("rounded", (256, 128), "f8", scaleoffset=1, chunks=(32, 64))
            narrow = h5py.h5t.STD_I32LE.copy()
            narrow.set_precision(24)
            h5py.h5d.create(file.id, b"narrow", narrow, h5py.h5s.create_simple((256, 128)))

    on_first(write)
    shown, most = ("data", "x", "link"), 129
    for layout, dtype, dataset, has_chunks in (
        (desc, "f8", "data", True),
        (longer, "f8", "data", True),
        (desc, "f8", "link", True),
        (desc, ">f4", "data", True),
        (wide, "f4", "data", True),
        (desc, "i4", "data", True),
        (box, "f8", "data", False),
        (desc, "f8", "data", False),
    ):
        local = layout.from_function(lambda *index: 100.0 * index[0] + index[-1]).astype(dtype)
        psr.save(layout, local, path, dataset=dataset)
        assert np.array_equal(psr.load(layout, path, dataset=dataset), local)
        WORLD.Barrier()
        with h5py.File(path, "r") as file:
            data = file["data"]
            assert (data.shape, data.dtype) == (layout.shape, np.dtype(dtype))
            assert all(name in file for name in shown)
            assert data.attrs["unit"] == "eV"
            assert data.attrs["none"] == h5py.Empty("f4")
            assert list(data.attrs["words"]) == ["a", "bcd"]
            assert data.attrs["numbers"].dtype == ">i2"
            assert list(data.attrs["numbers"]) == [0, 1, 2]
            assert list(data.dims[0].keys()) == ["x"]
            assert data.dims[0].label == "rows"
            if has_chunks:
                assert data.chunks == (32, 64)
                most = max(most, layout.shape[1])
                assert data.maxshape == (None, most)
                assert data.compression == "gzip"
                assert data.fillvalue == 3
        WORLD.Barrier()
    whole = desc.from_function(lambda i, j: 100000 * i + j, "i4")
    for dataset in ("rounded", "narrow"):  # other numbers are not rounded as the old ones were, nor cut to fewer bits
        psr.save(desc, whole, path, dataset=dataset)
        assert np.array_equal(psr.load(desc, path, dataset=dataset), whole)
    on_first(write)
    with pytest.raises(
        (psr.FileError, psr.CollectiveError), match="the numbers of narrow have fewer bits than NumPy's"
    ):
        psr.save(desc, whole, path, dataset="narrow", window=...)
    WORLD.Barrier()


def chunks_that_do_not_exist(folder: Path) -> None:
    """Ranks write into a data set of which some chunks do not exist, whole and in part. Other chunks are not made."""
    import h5py

    path, options = folder / "sparse.h5", {"chunks": (2, 5), "maxshape": (None, 8), "fillvalue": 7.0}
    whole = psr.Descriptor((12, 8), 1, psr.ProcessGrid((SIZE, 1), WORLD))
    window = psr.Descriptor((5, 2), 1, psr.ProcessGrid((SIZE, 1), WORLD))
    for of_whole, rows in itertools.product((True, False), (0, 2, 12)):

        def write(rows: int = rows) -> None:
            with h5py.File(path, "w") as file:
                data = file.create_dataset("data", (12, 8), "f8", **options)
                data[:rows] = 1
                if rows == 12:
                    data.resize((8, 8))
                    data.resize((12, 8))

        on_first(write)
        expected = np.full((12, 8), 7.0)
        expected[: min(rows, 8)] = 1
        if of_whole:
            psr.save(whole, whole.from_function(lambda i, j: 10.0 * i + j), path)
            expected[...] = np.fromfunction(lambda i, j: 10 * i + j, (12, 8))
        else:
            psr.save(window, window.from_function(lambda i, j: 10.0 * i + j), path, window=np.s_[5:10, 3:5])
            expected[5:10, 3:5] = np.fromfunction(lambda i, j: 10 * i + j, (5, 2))
        WORLD.Barrier()
        with h5py.File(path, "r") as file:
            assert np.array_equal(file["data"], expected)
        WORLD.Barrier()
    if RANK == 0:
        with h5py.File(path, "w") as file:
            data = file.create_dataset("data", (12, 8), "f8", **options)
            for region, count in (
                (np.s_[4:7, 5:8], 2),
                (np.s_[8:8, 0:1], 3),
                (np.s_[0:12, 3:8], 12),
            ):
                hdf5.allocate_chunks(h5py, data, region)
                assert data.id.get_num_chunks() == count
                data[0, 0] = 7
            assert np.array_equal(data, np.full((12, 8), 7))
    WORLD.Barrier()


def bits_in_zarr(folder: Path) -> None:
    """Chunks of -0.0, and of a NaN that is not the fill value's, are stored with these bits, and stay beside a window."""
    path, special = (
        folder / "bits.zarr",
        np.array([0, 1 << 63, 0x7FF8DEAD00000001, 0x7FF8000000000000], "u8").view("f8"),
    )
    desc, part = (psr.Descriptor(shape, 2, psr.ProcessGrid((1, SIZE), WORLD)) for shape in ((4, 4), (2, 3)))
    for fill, value, dtype in itertools.product((0.0, np.nan), special, ("f8", "c16")):
        local = np.full(desc.local_shape, value, dtype)
        psr.save(desc, local, path, chunks=4, zarr={"fill_value": fill})
        assert psr.load(desc, path).tobytes() == local.tobytes(), (fill, value, dtype)
        psr.save(part, np.full(part.local_shape, fill, dtype), path, window=np.s_[:2, :3])
        whole = np.full((4, 4), value, dtype)
        whole[:2, :3] = fill
        loaded = psr.load(psr.Descriptor((4, 4), 4, psr.ProcessGrid((1, 1), MPI.COMM_SELF)), path)
        assert loaded.tobytes() == whole.tobytes(), (fill, value, dtype)
        WORLD.Barrier()


def with_distributed_arrays(folder: Path) -> None:
    whole, path = np.arange(600.0).reshape(30, 20), folder / "array.npy"
    on_first(lambda: np.save(path, whole))
    desc = psr.Descriptor((10, 5), (2, 2), psr.ProcessGrid((1, SIZE), WORLD))
    array = psr.DistributedArray.load(desc, path, window=np.s_[20:, 5:10])
    gathered = array.gather()
    assert gathered is None or np.array_equal(gathered, whole[20:, 5:10])
    array.save(path, window=np.s_[:10, :5])
    psr.load(array, path, window=np.s_[1:11, :5])
    gathered = array.gather()
    whole[:10, :5] = whole[20:, 5:10]
    assert gathered is None or np.array_equal(gathered, whole[1:11, :5])


def progress(folder: Path) -> None:
    """Rank 0 reports how far a call is, by lines of a log or by a bar; the others say nothing. A log has the plans."""
    desc, path = psr.Descriptor((40, 30), 3, psr.ProcessGrid((1, SIZE), WORLD)), folder / "progress.npy"
    local = desc.from_function(lambda i, j: i + 0.5 * j)
    logger, stream = logging.getLogger("pyscalapack_redist"), io.StringIO()
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    with mock.patch.object(slabs, "SLAB_BYTES", 1000), mock.patch.object(progress_bar, "LOG_SECONDS", 0):
        psr.save(desc, local, path, progress=True)
        assert np.array_equal(psr.load(desc, path, progress=True), local)
        lines = stream.getvalue().splitlines()
        psr.load(desc, path)
        assert stream.getvalue().splitlines() == lines
        for call in ("save", "load"):
            own = [line for line in lines if line.startswith(f"{call} {path}: ")]
            assert (len(own) > 1) == (RANK == 0), lines
            assert not own or re.search(
                r": 9600 of 9600 bytes \(100 %\); at most \d{8,} bytes of memory on this rank", own[-1]
            )
            assert not any("memory" in line for line in own[:-1])
        terminal = io.StringIO()
        with (
            mock.patch.object(sys, "stdout", terminal),
            mock.patch.object(progress_bar, "on_terminal", return_value=True),
        ):
            psr.DistributedArray(desc, local).save(path, progress=True)
        if RANK == 0 and importlib.util.find_spec("rich") is not None:
            assert f"save {Path(path).name} " in terminal.getvalue()
            assert stream.getvalue().splitlines() == lines
        with mock.patch.object(progress_bar, "_log_lines", side_effect=OSError("no terminal")):
            psr.save(desc, local, path, progress=True)
    logger.setLevel(logging.DEBUG)
    psr.redistribute(desc, psr.Descriptor((40, 30), 7, desc.grid))
    assert "planned in " in stream.getvalue()
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def main() -> None:
    folder, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    warnings.filterwarnings("ignore", "The data type .* does not have a Zarr V3 specification")
    reordered = WORLD.Split(0, -RANK)
    for case in range(cases):
        rng = np.random.default_rng([seed, case])
        try:
            check_case((WORLD, reordered)[rng.integers(2)], folder, rng, case)
        except BaseException as error:
            error.add_note(f"case {case} of seed {seed}")
            raise
    slabs.SLAB_BYTES = 10**7
    far_in_a_file(reordered, folder)
    what_lies_between_fields(folder)
    names_of_any_kind(folder)
    on_shared_disks(folder)
    if importlib.util.find_spec("h5py") is not None:
        hdf5_data_sets(folder)
        chunks_that_do_not_exist(folder)
    if importlib.util.find_spec("zarr") is not None:
        bits_in_zarr(folder)
    with_distributed_arrays(folder)
    progress(folder)
    reordered.Free()
    left = [name for name in os.listdir(folder) if name.endswith(".part")]
    assert not left, left
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
