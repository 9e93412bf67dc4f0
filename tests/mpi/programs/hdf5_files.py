"""HDF5 files that h5py wrote in every way that it has, loaded by all ranks and written in part. Arguments: folder, cases, seed.

What is loaded is compared with h5py's own reading, and what is saved is read by h5py.
"""

from __future__ import annotations

import errno
import importlib.util
import math
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import numpy as np
import pytest
from layouts import descriptor
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import random_axes, random_layout, random_shape

import pyscalapack_redist as psr
from pyscalapack_redist.files import hdf5, hdf5_storage, slabs

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
DTYPES = [np.dtype(t) for t in ("?", "u1", ">i2", "q", "e", "f", ">d", "F", "D", ">D", "S5")]
DTYPES.append(np.dtype([("key", ">i2"), ("value", "f8", (2,)), ("tag", "S3")]))
CHUNKED = ("raw", "raw sparse", "gzip", "lzf", "fletcher32", "scale-offset")
WAYS = (*CHUNKED, "contiguous", "unwritten", "compact", "external", "virtual", "soft link", "outer link", "narrow")
THROUGH_FIRST = ("external", "virtual", "outer link", "narrow")
FLAGS: dict[str, dict[str, Any]] = {
    "gzip": {"compression": "gzip", "shuffle": True},
    "lzf": {"compression": "lzf"},
    "fletcher32": {"fletcher32": True},
    "scale-offset": {"scaleoffset": 0},
}


def on_first(action: Callable[[], Any]) -> None:
    WORLD.Barrier()
    if RANK == 0:
        action()
    WORLD.Barrier()


def numbers_of(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.names:
        records = np.zeros(shape, dtype)
        for name in dtype.names:
            records[name] = numbers_of(rng, records[name].shape, records[name].dtype)
        return records
    numbers = rng.integers(0, 2 if dtype.kind == "b" else 100, shape)
    return np.asarray(numbers + 1j * numbers[..., ::-1] if dtype.kind == "c" and shape else numbers).astype(dtype)


def write(path: Path, way: str, whole: NDArray[Any], rng: np.random.Generator) -> None:
    """A file with a data set "data" that is stored in a way."""
    path.unlink(missing_ok=True)
    shape, dtype = whole.shape, whole.dtype
    options: dict[str, Any] = {
        "libver": ("earliest", "latest")[rng.integers(2)],
        "userblock_size": int(rng.choice([0, 512, 2048])),
    }
    fill = None if dtype.names or rng.integers(2) else whole.flat[0] if whole.size else None
    with h5py.File(path, "w", **options) as file:
        if way in CHUNKED:
            chunks = tuple(int(rng.integers((n + 3) // 4, n + 1)) for n in shape)
            limits = tuple(None if rng.integers(2) else n + int(rng.integers(3)) for n in shape)
            data = file.create_dataset(
                "data", shape, dtype, chunks=chunks, maxshape=limits, fillvalue=fill, **FLAGS.get(way, {})
            )
            if way != "raw sparse" and rng.integers(4):
                data[...] = whole
            else:  # some chunks do not exist
                data[: shape[0] // 2] = whole[: shape[0] // 2]
        elif way == "compact":
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_layout(h5py.h5d.COMPACT)
            kind = h5py.h5t.py_create(dtype, logical=True)
            h5py.h5d.create(file.id, b"data", kind, h5py.h5s.create_simple(shape), properties)
            file["data"][...] = whole
        elif way == "external":
            external = [(f"{path}.raw", 0, h5py.h5f.UNLIMITED)]
            file.create_dataset("data", data=whole, external=external)
        elif way == "virtual":
            file["source"] = whole
            layout = h5py.VirtualLayout(shape, dtype)
            layout[...] = h5py.VirtualSource(file["source"])
            file.create_virtual_dataset("data", layout, fillvalue=fill)
        elif way == "soft link":
            file["far/away"], file["data"] = whole, h5py.SoftLink("/far/away")
        elif way == "outer link":
            outer = path.with_suffix(".outer.h5")
            with h5py.File(outer, "w") as other:
                other["data"] = whole
            file["data"] = h5py.ExternalLink(outer.name, "/data")
        elif way == "narrow":
            kind = h5py.h5t.STD_I16BE.copy()
            kind.set_precision(12)
            h5py.h5d.create(file.id, b"data", kind, h5py.h5s.create_simple(shape))
            file["data"][...] = whole
        elif way == "unwritten":
            file.create_dataset("data", shape, dtype, fillvalue=fill)
        else:
            file["data"] = whole


def read(path: Path) -> NDArray[Any]:
    with h5py.File(path, "r") as file:
        return np.asarray(file["data"][...])


def check_case(folder: Path, rng: np.random.Generator, number: int) -> None:
    """A file is loaded, whole and in part; a window is saved; and the whole is saved over it."""
    way = WAYS[number % len(WAYS)]
    layout = random_layout(rng, random_shape(rng, int(rng.integers(1, 5)), 800), SIZE, copies=True)
    ranks, axes = random_axes(rng, layout)
    layout = replace(layout, grid_ranks=ranks, grid_axes=axes)
    desc = descriptor(layout, WORLD)
    low = tuple(int(rng.integers(0, 4)) for _ in desc.shape)
    shape = tuple(first + n + int(rng.integers(0, 4)) for first, n in zip(low, desc.shape, strict=True))
    if 0 in shape or (way == "compact" and math.prod(shape) * 32 > 64000):  # an HDF5 header has 64 KiB
        way = "contiguous"
    window = tuple(slice(first, first + n) for first, n in zip(low, desc.shape, strict=True))
    possible = {"scale-offset": ["i4"], "narrow": [">i2"]}.get(way, DTYPES)
    dtype = np.dtype(possible[rng.integers(len(possible))])
    few_slabs = math.prod(shape) * dtype.itemsize // 20
    slabs.SLAB_BYTES = max(few_slabs, int(rng.choice([100, 3000, 10**7])))
    hdf5_storage.UNIT_BYTES = int(rng.choice([1, 10**7]))
    path, content, own = folder / "case.h5", numbers_of(rng, shape, dtype), numbers_of(rng, layout.shape, dtype)
    what = f"{way} of {dtype} {shape}, {layout}, window {window}"
    on_first(lambda: write(path, way, content, rng))
    expected = read(path)
    held = layout.local(np.zeros(layout.shape, dtype), RANK)
    out = None if held is None else np.asfortranarray(held)
    hdf5.Hdf5._has_warned = False
    through_first = way in THROUGH_FIRST or WORLD.bcast(RANK == 0 and is_confused(path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        psr.load(desc, path, out, window=window)
    assert [str(each.message) for each in caught if "first rank reads for all" not in str(each.message)] == [], what
    assert bool(caught) == (way in THROUGH_FIRST and RANK == 0), what
    background = np.zeros(layout.shape, dtype)
    background[layout.window()] = expected[window]
    wanted = layout.local(background, RANK)
    assert (out is None) == (wanted is None), what
    assert out is None or np.array_equal(out, wanted), what
    WORLD.Barrier()

    if way == "narrow":
        with pytest.raises((psr.FileError, psr.CollectiveError), match="have fewer bits than NumPy's"):
            psr.save(desc, layout.local(own, RANK), path, window=window)
        return
    before = facts(path)
    psr.save(desc, layout.local(own, RANK), path, window=window)
    expected[window] = own[layout.window()]
    WORLD.Barrier()
    assert facts(path) == before, what
    assert np.array_equal(read(path), expected), what
    WORLD.Barrier()
    rows = psr.Descriptor(shape, None, psr.ProcessGrid((SIZE,) + (1,) * (len(shape) - 1), WORLD))
    psr.save(rows, np.asfortranarray(content[rows.global_indices(0)]), path)
    WORLD.Barrier()
    assert np.array_equal(read(path), content), what
    assert facts(path)[1:] == before[1:] or through_first, what
    WORLD.Barrier()


def is_confused(path: Path) -> bool:
    with h5py.File(path, "r") as file:
        return hdf5_storage.may_be_confused(h5py, file["data"])


def facts(path: Path) -> tuple[Any, ...]:
    """The properties of the data set."""
    with h5py.File(path, "r") as file:
        data = file["data"]
        return (
            sorted(file),
            data.shape,
            data.dtype,
            data.chunks,
            data.maxshape,
            data.compression,
            data.shuffle,
            data.fletcher32,
        )


def small_ones(folder: Path) -> None:
    """Scalars, and data sets without elements: through the first rank, or by all, without a warning."""
    path = folder / "small.h5"

    def make() -> None:
        with h5py.File(path, "w") as file:
            file["scalar"], file["empty"] = np.float32(3.5), np.zeros((0, 4))
            file.create_dataset("grows", (0, 4), "f8", maxshape=(None, 4), compression="gzip")
            file.create_dataset("packed", (60, 40), "f8", compression="gzip")

    on_first(make)
    grid = psr.ProcessGrid((SIZE, 1), WORLD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("empty", "grows"):
            desc = psr.Descriptor((0, 4), 2, grid)
            assert psr.load(desc, path, dataset=name).size == 0
            psr.save(desc, desc.zeros(), path, dataset=name)
        array = psr.load(path, WORLD, dataset="empty")
        assert array.shape == (0, 4)
        assert psr.shape_of(path, dataset="scalar", comm=WORLD) == ()


def made_anew(folder: Path) -> None:
    """What refers to a data set that cannot hold the new array: kept right, or the save is refused and the file stays."""
    path, desc = folder / "anew.h5", psr.Descriptor((6, 4), 2, psr.ProcessGrid((SIZE, 1), WORLD))
    longer, numbers = psr.Descriptor((7, 4), 2, desc.grid), np.arange(24.0).reshape(6, 4)
    text = h5py.string_dtype("ascii")

    def make() -> None:
        with h5py.File(path, "w") as file:
            file["data"], file["scale"], file["named"] = numbers, np.ones((6, 4)), numbers
            file["other"], file["soft"] = file["named"], h5py.SoftLink("/named")
            file["scale"].make_scale("x")
            for name in ("data", "named"):
                file[name].dims[0].attach_scale(file["scale"])
            attributes = file["data"].attrs
            attributes.create("latin", b"caf\xe9", dtype=text)
            attributes.create("latins", [b"\xe9", b"e"], dtype=text)
            attributes.create("array", np.arange(3.0), dtype=np.dtype("(3,)f8"))
            attributes["empty"], attributes["refers"] = h5py.Empty("f4"), file["scale"].ref

    def told(file: Any) -> list[Any]:
        numbers = [h5py.h5a.open(file["data"].id, name) for name in (b"latin", b"latins", b"array", b"empty", b"refers")]
        texts = [np.empty(number.shape, object) for number in numbers[:2]]
        for number, elements in zip(numbers, texts, strict=False):
            number.read(elements, h5py.h5t.py_create(text))
        return [each.get_type().encode() for each in numbers] + [each.tolist() for each in texts]

    on_first(make)
    content = path.read_bytes()
    for name, message in (("named", "has 2 names"), ("scale", "is a dimension scale of /(data|named|other): give another")):
        with pytest.raises(psr.FileError, match=rf"anew\.h5: /{name} cannot hold the new array in its place, and {message}"):
            psr.save(longer, longer.zeros(), path, dataset=name)
        WORLD.Barrier()
        assert path.read_bytes() == content
        psr.save(desc, desc.zeros() + 5, path, dataset=name)  # in its place
        on_first(lambda: path.write_bytes(content))
    with h5py.File(path, "r") as file:
        before = told(file)
    WORLD.Barrier()
    outer = folder / "outer.h5"

    def link() -> None:
        with h5py.File(outer, "w") as file:
            file["data"] = h5py.ExternalLink(path.name, "/data")
            file["named"] = h5py.ExternalLink(path.name, "/named")

    on_first(link)
    with pytest.raises(psr.FileError, match=r"its attribute 'refers' cannot be copied: .* give another dataset=: it refers to"):
        psr.save(longer, longer.zeros(), outer)
    WORLD.Barrier()
    psr.save(longer, longer.zeros(), outer, dataset="named")
    with h5py.File(outer, "r") as file:
        assert (file["named"].shape, len(file["named"].dims[0])) == ((7, 4), 0)
    WORLD.Barrier()
    assert path.read_bytes() == content
    for name in ("data", "soft"):
        psr.save(longer, longer.zeros() + 3, path, dataset=name)
        WORLD.Barrier()
    with h5py.File(path, "r") as file:
        data, scale = file["data"], file["scale"]
        assert told(file) == before
        assert np.array_equal(data.attrs["array"], np.arange(3.0))
        assert file[data.attrs["refers"]] == scale
        assert (data.dims[0][0], file["soft"].dims[0][0]) == (scale, scale)
        assert sorted(file[each].name for each, _ in scale.attrs["REFERENCE_LIST"]) == ["/data", "/named", "/soft"]
        assert np.array_equal(file["named"], numbers)
    WORLD.Barrier()


def small_chunks(folder: Path) -> None:
    """Chunks with filters that are larger than the data set, which may grow."""
    path, desc = folder / "grows.h5", psr.Descriptor((2, 4), 2, psr.ProcessGrid((SIZE, 1), WORLD))

    def make() -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset("data", data=np.ones((6, 4)), chunks=(4, 4), maxshape=(None, 4), compression="gzip")

    on_first(make)
    psr.save(desc, desc.zeros() + 7, path)
    psr.save(desc[:1, :], desc.zeros() + 8, path, window=np.s_[1:, :])
    assert np.array_equal(psr.load(path, WORLD).gather(None), [[7] * 4, [8] * 4])  # type: ignore[arg-type]
    assert facts(path)[1:6] == ((2, 4), np.dtype("d"), (4, 4), (None, 4), "gzip")
    WORLD.Barrier()


def user_blocks_of_old_versions(folder: Path) -> None:
    """Where HDF5 tells offsets of chunks without the user block, it is counted in."""
    path, desc = folder / "block.h5", psr.Descriptor((6, 4), 2, psr.ProcessGrid((SIZE, 1), WORLD))
    content = np.arange(24.0).reshape(6, 4)

    def make() -> None:
        with h5py.File(path, "w", userblock_size=1024) as file:
            file.create_dataset("data", data=content, chunks=(2, 2))

    on_first(make)
    find = hdf5_storage.find_storage
    if RANK == 0:
        with h5py.File(path, "r") as file:
            places = find(h5py, file["data"]).places["offset"]
            with mock.patch.object(
                hdf5_storage, "counts_user_block", return_value=not hdf5_storage.counts_user_block(h5py)
            ):
                others = find(h5py, file["data"]).places["offset"]
        assert (np.abs(others - places) == 1024).all()
    assert np.array_equal(psr.load(desc, path), desc.from_function(lambda i, j: content[i, j]))


def full_disk(folder: Path) -> None:
    """No room: found before anything is written, and the old file stays."""
    path, desc = folder / "small.h5", psr.Descriptor((60, 40), 2, psr.ProcessGrid((SIZE, 1), WORLD))
    before = path.read_bytes()
    with (
        mock.patch.object(os, "posix_fallocate", side_effect=OSError(errno.ENOSPC, "No space left on device")),
        mock.patch.object(os, "pwrite", None),
        pytest.raises(psr.FileError, match=r"small\.h5: no space for \d{5} bytes: .*No space left"),
    ):
        psr.save(desc, desc.zeros(), path)
    WORLD.Barrier()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 1000, hard))
    for name, numbers in (("new", desc.zeros()), ("packed", desc.from_function(lambda i, j: np.sin(i + 60.0 * j)))):
        with pytest.raises((psr.FileError, psr.CollectiveError), match=r"(?s)small\.h5: .*File too large"):
            psr.save(desc, numbers, path, dataset=name)
        WORLD.Barrier()
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]
    WORLD.Barrier()


def opened_elsewhere(folder: Path) -> None:
    """A file that another program, or this one, has open for writing: what to do, on all ranks."""
    path, desc = folder / "locked.h5", psr.Descriptor((6, 4), 2, psr.ProcessGrid((SIZE, 1), WORLD))
    calls: list[Callable[[], Any]] = [
        lambda: psr.load(desc, path),
        lambda: psr.save(desc, desc.zeros(), path),
        lambda: psr.save(desc, desc.zeros(), path, window=...),
        lambda: psr.shape_of(path, comm=WORLD),
    ]
    for mode, texts in (
        ("", ("is open in another program", "HDF5_USE_FILE_LOCKING=FALSE")),
        ("swmr", ("perhaps for SWMR", "h5clear")),
    ):
        code = f"""
import h5py, sys
file = h5py.File(sys.argv[1], "w", libver="latest")
file.create_dataset("data", (6, 4), "f8", chunks=(2, 2), maxshape=(None, 4))
file.flush()
if {bool(mode)}:
    file.swmr_mode = True
print("open", flush=True)
sys.stdin.read()
"""
        other = None
        if RANK == 0:
            command = [sys.executable, "-c", code, str(path)]
            other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert other.stdout is not None
            assert other.stdout.readline() == "open\n"
        WORLD.Barrier()
        content = path.read_bytes()
        for call in calls:
            with pytest.raises(psr.FileError) as caught:
                call()
            assert all(text in str(caught.value) for text in texts), caught.value
            WORLD.Barrier()
        assert path.read_bytes() == content
        WORLD.Barrier()  # the other program writes as it ends
        if other is not None:
            other.communicate("")
        WORLD.Barrier()
    if RANK == 0:
        file = h5py.File(path, "r+")
        file["data"][...] = 7  # in HDF5's memory
    WORLD.Barrier()
    for call in calls[:3]:
        with pytest.raises(psr.FileError, match="is open in this program, and HDF5 may have elements of it in memory"):
            call()
        WORLD.Barrier()
    assert psr.shape_of(path, comm=WORLD) == (6, 4)
    if RANK == 0:
        file.close()
    WORLD.Barrier()
    assert np.array_equal(psr.load(desc, path), desc.zeros() + 7)
    if RANK == 0:
        file = h5py.File(path, "r")
    WORLD.Barrier()
    with pytest.raises(psr.FileError, match=r"locked\.h5 is open in this program to be read .*: close it first"):
        psr.save(desc, desc.zeros(), path, window=...)
    if RANK == 0:
        file.close()
    WORLD.Barrier()
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]


# By another process, as netCDF4 brings an HDF5 of its own.
WRITE_NETCDF = """
import sys
import netCDF4, numpy
with netCDF4.Dataset(sys.argv[1], "w") as file:
    sizes = {"time": None, "y": 20, "x": 15}
    for name, size in sizes.items():
        file.createDimension(name, size)
    numbers = numpy.arange(7 * 20 * 15).reshape(7, 20, 15) % 251
    packed = file.createVariable("group/packed", "i2", tuple(sizes), zlib=True, fill_value=-1, chunksizes=(3, 20, 4))
    packed.scale_factor = 0.5
    packed.set_auto_maskandscale(False)
    packed[...] = numbers
    file.createVariable("plain", ">f4", ("y", "x"), endian="big")[...] = numbers[0]
    file.createVariable("missing", "f8", ("y", "x"), zlib=True)
    file.createVariable("turned", "f8", ("y", "time"), chunksizes=(7, 3))[...] = numbers[:, :, 0].T
"""


def netcdf(folder: Path) -> None:
    """netCDF-4 is read; netCDF-3 is refused by name, and so is writing."""
    if importlib.util.find_spec("netCDF4") is not None:
        path, numbers = folder / "theirs.NC", np.arange(7 * 20 * 15).reshape(7, 20, 15) % 251
        on_first(lambda: subprocess.run([sys.executable, "-c", WRITE_NETCDF, str(path)], check=True, timeout=60))
        box, part = (psr.Descriptor(n, 2, psr.ProcessGrid((1, SIZE, 1), WORLD)) for n in ((7, 20, 15), (2, 9, 3)))
        packed = psr.load(box, path, dataset="group/packed")
        assert packed is not None
        assert packed.dtype == np.int16
        assert np.array_equal(packed, box.from_function(lambda *k: numbers[k]))
        window = psr.load(part, path, dataset="group/packed", window=np.s_[4:6, 10:19, -3:])
        assert np.array_equal(window, part.from_function(lambda i, j, k: numbers[i + 4, j + 10, k + 12]))
        for name, whole in (
            ("plain", numbers[0]),
            ("missing", np.full((20, 15), 9.969209968386869e36)),
            ("turned", numbers[..., 0].T),
        ):
            array = psr.load(path, WORLD, dataset=name)
            assert np.array_equal(array.local, whole[array.desc.global_indices(0)]), name
            assert psr.shape_of(path, dataset=name, comm=WORLD) == whole.shape
        assert psr.dtype_of(path, dataset="plain") == np.dtype(">f4")
        with pytest.raises(psr.FileError, match="has no data set 'data'; it has group, "):
            psr.load(box, path)
        WORLD.Barrier()
        contents = psr.load(path, WORLD)  # of all variables
        assert np.array_equal(contents["plain"].gather(None), numbers[0])
        assert np.array_equal(contents["group/packed"].gather(None), numbers)
    desc, old = psr.Descriptor((6, 4), 2, psr.ProcessGrid((SIZE, 1), WORLD)), folder / "old.nc"
    on_first(lambda: old.write_bytes(b"CDF\2" + bytes(100)))
    for call in (lambda: psr.load(desc, old), lambda: psr.load(old, WORLD), lambda: psr.shape_of(old, comm=WORLD)):
        with pytest.raises(psr.FileError, match=r"old\.nc is netCDF-3, and only netCDF-4 can be read: .*nccopy -k nc4"):
            call()
        WORLD.Barrier()
    for options in ({}, {"window": ...}):
        with pytest.raises(psr.FileError, match=r"netCDF, .* cannot be written: use a name in"):
            psr.save(desc, desc.zeros(), folder / "new.nc", **options)  # type: ignore[call-overload]
        WORLD.Barrier()


def main() -> None:
    folder, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for case in range(cases):
        try:
            check_case(folder, np.random.default_rng([seed, case]), case)
        except BaseException as error:
            error.add_note(f"case {case} of seed {seed}")
            raise
    slabs.SLAB_BYTES, hdf5_storage.UNIT_BYTES = 10**7, 10**6
    small_ones(folder)
    made_anew(folder)
    small_chunks(folder)
    full_disk(folder)
    user_blocks_of_old_versions(folder)
    opened_elsewhere(folder)
    netcdf(folder)
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
