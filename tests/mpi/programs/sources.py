"""Random arrays by objects that can be sliced, of the libraries whose names are given. Arguments: folder, cases, seed, names.

Each element is sliced once, and each chunk by one rank. Then safetensors, and what is refused: on every rank, no hang.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from layouts import descriptor, made_for
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import random_layout, random_shape, random_tiles

import pyscalapack_redist as psr
from pyscalapack_redist.files import binary_file, slabs

Whole = NDArray[Any]

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
LAST = SIZE - 1
DTYPES = [np.dtype(name) for name in ("u1", "i2", "f4", "i8", "f8")]  # that all of these libraries have
SHAPE = (30, 20)
WHOLE = np.arange(600.0).reshape(SHAPE)
DESC = psr.Descriptor(SHAPE, (4, 3), psr.ProcessGrid((1, SIZE), WORLD))


class Recorded:
    """An object with the elements of another one, which records its slices.

    Attributes
    ----------
    regions : list of tuple of slice
        What has been sliced.
    """

    def __init__(self, source: Any, **attributes: Any) -> None:
        self.shape, self.dtype, self.regions = source.shape, source.dtype, list[Any]()
        self._source = source
        vars(self).update(attributes)

    def __getitem__(self, key: Any) -> Any:
        self.regions.append(key)
        return self._source[key]


# -- the libraries


def write_npy(path: Path, whole: Whole, chunks: tuple[int, ...]) -> None:
    np.save(path, whole)


def write_hdf5(path: Path, whole: Whole, chunks: tuple[int, ...]) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=whole, chunks=chunks if whole.size else None)


def write_zarr(path: Path, whole: Whole, chunks: tuple[int, ...]) -> None:
    import zarr

    shutil.rmtree(path, ignore_errors=True)
    dtype = np.dtype(whole.dtype.str)
    zarr.create_array(path, shape=whole.shape, dtype=dtype, chunks=chunks, zarr_format=2)[...] = whole


def write_safetensors(path: Path, whole: Whole, chunks: tuple[int, ...]) -> None:
    from safetensors.numpy import save_file

    save_file({"first": np.arange(3.0), "x": whole}, path)


def write_netcdf(path: Path, whole: Whole, chunks: tuple[int, ...]) -> None:
    import netCDF4

    with netCDF4.Dataset(path, "w") as file:
        for k, n in enumerate(whole.shape):
            file.createDimension(f"d{k}", n)
        names = tuple(f"d{k}" for k in range(whole.ndim))
        variable = file.createVariable("x", whole.dtype, names, fill_value=False, chunksizes=chunks)
        variable[...] = whole


@contextlib.contextmanager
def opened(library: str, path: Path) -> Iterator[Any]:
    """The array in a file as an object of a library."""
    if library == "numpy":
        yield np.load(path, mmap_mode="r")
    elif library == "torch":
        yield importlib.import_module("torch").from_numpy(np.load(path))
    elif library == "h5py":
        with importlib.import_module("h5py").File(path) as file:
            yield file["x"]
    elif library == "zarr":
        yield importlib.import_module("zarr").open_array(path, mode="r")
    elif library == "tensorstore":
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(path)}}
        array = importlib.import_module("tensorstore").open(spec).result()
        yield array.translate_by[5] if array.shape[0] % 2 else array
    elif library == "safetensors":
        with importlib.import_module("safetensors").safe_open(path, "np") as file:
            yield file.get_slice("x")
    else:
        with importlib.import_module("netCDF4").Dataset(path) as file:
            yield file["x"]


WRITERS: dict[str, tuple[str, Callable[[Path, Whole, tuple[int, ...]], None]]] = {
    "numpy": (".npy", write_npy),
    "torch": (".npy", write_npy),
    "h5py": (".h5", write_hdf5),
    "zarr": (".zarr", write_zarr),
    "tensorstore": (".zarr", write_zarr),
    "safetensors": (".safetensors", write_safetensors),
    "netCDF4": (".nc", write_netcdf),
}


def on_first(action: Callable[[], Any]) -> None:
    if RANK == 0:
        action()
    WORLD.Barrier()


def check_case(library: str, folder: Path, rng: np.random.Generator) -> None:
    """An array, or a window of it, into a layout of any kind, by each way to say which."""
    ndim, margin = int(rng.integers(1, 5)), int(rng.integers(2))
    layout = random_layout(rng, random_shape(rng, ndim, 800), SIZE, copies=True)
    desc = descriptor(layout, WORLD)
    first = tuple(int(rng.integers(0, 4)) * margin for _ in desc.shape)
    shape = tuple(low + n + int(rng.integers(0, 4)) * margin for low, n in zip(first, desc.shape, strict=True))
    window = tuple(slice(low, low + n) for low, n in zip(first, desc.shape, strict=True))
    chunks = tuple(int(rng.integers(1, n + 1)) if n else 1 for n in shape)
    dtype = DTYPES[rng.integers(len(DTYPES))]
    whole = rng.integers(0, 100, shape).astype(dtype)
    suffix, write = WRITERS[library]
    path = folder / f"x{suffix}"
    on_first(lambda: write(path, whole, chunks))
    slabs.SLAB_BYTES = int(rng.choice([100, 3000, 10**7])) if whole.nbytes < 20000 else 10**7
    options: dict[str, Any] = {"window": window} if margin else {}
    what = f"{library}: {layout}, {dtype}, {options} of {shape} in chunks {chunks}"
    with opened(library, path) as source:
        background = np.zeros(layout.shape, dtype)
        background[layout.window()] = whole[window]
        expected = layout.local(background, RANK)
        is_part = layout.size != layout.shape
        out = desc.zeros(dtype) if is_part else None
        local = psr.load(desc, source, out, **options)
        assert (local is None) == (expected is None), what
        assert local is None or (local.dtype == dtype and np.array_equal(local, expected)), what
        array = psr.load(source, WORLD, **options)
        assert array.dtype == dtype, what
        assert np.array_equal(array.gather(None), whole[window]), what  # type: ignore[arg-type]
        if desc.ndim == 2 and 0 not in desc.shape:
            tiles = made_for(random_tiles(rng, desc.shape, SIZE), WORLD, RANK)
            into = psr.zeros(tiles, dtype=np.complex128)
            assert psr.load(into, source, **options) is into
            assert np.array_equal(into.gather(None), whole[window]), what  # type: ignore[arg-type]
    WORLD.Barrier()


def each_element_once() -> None:
    """Of a window: each element is sliced once, by one rank; with chunks each chunk by one, however they are given."""
    window, n = np.s_[3:29, 2:], 0
    desc = psr.Descriptor((26, 18), (5, 4), DESC.grid)
    for chunks in (None, (7, 6), (7, None), (0, 6), ((7,) * 4 + (2,), (6, 6, 6, 2)), "auto", (1, 2, 3), (None, None)):
        with mock.patch.object(slabs, "SLAB_BYTES", 800):
            source = Recorded(WHOLE, chunks=chunks)
            local = psr.load(desc, source, window=window)
        assert np.array_equal(local, desc.from_function(lambda i, j: 20.0 * (i + 3) + j + 2))  # type: ignore[arg-type]
        times, owner = np.zeros(SHAPE, int), np.full(SHAPE, -1)
        for rank, regions in enumerate(WORLD.allgather(source.regions)):
            for region in regions:
                times[region] += 1
                owner[region] = rank
        assert (times[window] == 1).all()
        assert times.sum() == times[window].sum()
        rows, columns = {(7, 6): (7, 6), (7, None): (7, 20), (0, 6): (30, 6)}.get(chunks, (7, 6))  # type: ignore[call-overload]
        if chunks is not None and chunks not in ("auto", (1, 2, 3), (None, None)):
            n += 1
            for i in range(0, 30, rows):
                for j in range(0, 20, columns):
                    owners = owner[i : i + rows, j : j + columns]
                    assert len(set(owners[owners >= 0].tolist())) <= 1, (chunks, owner)
    assert n == 4


# -- safetensors


def models(folder: Path) -> None:
    """Tensors of a file and of a sharded model in any layout; no byte is read twice."""
    import ml_dtypes
    from safetensors.numpy import save_file

    parts = {
        "x-1.safetensors": {
            "layers.0.weight": WHOLE,
            "half": WHOLE.astype(ml_dtypes.bfloat16),
            "three": WHOLE.reshape(5, 6, 20),
        },
        "x-2.safetensors": {"layers/1": -WHOLE, "none": np.zeros((0, 3), "i2"), "flags": WHOLE[0] > 5},
    }
    kinds = {
        np.dtype(name).name: WHOLE.astype(name)
        for name in ("u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "c8")
    }
    parts["x-2.safetensors"] |= kinds
    weights = {name: file for file, tensors in parts.items() for name in tensors}
    index = folder / "x.safetensors.index.json"

    def write() -> None:
        for file, tensors in parts.items():
            save_file(tensors, folder / file, metadata={"format": "np"})
        index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weights}))

    on_first(write)
    for file, tensors in parts.items():
        for (name, whole), path in ((each, path) for each in tensors.items() for path in (folder / file, index)):
            assert psr.shape_of(path, dataset=name, comm=WORLD) == whole.shape
            assert psr.dtype_of(path, dataset=name) == whole.dtype
            array = psr.load(path, WORLD, dataset=name)
            assert array.dtype == whole.dtype
            assert np.array_equal(array.gather(None), whole), name  # type: ignore[arg-type]
    local = psr.load(DESC, index, dataset="layers/1")
    assert np.array_equal(local, DESC.from_function(lambda i, j: -WHOLE[i, j]))  # type: ignore[arg-type]
    part = psr.Descriptor((10, 5), (2, 2), DESC.grid)
    local = psr.load(part, index, dataset="half", window=np.s_[3:13, -5:], dtype="f4")
    assert np.array_equal(local, part.from_function(lambda i, j: WHOLE.astype(ml_dtypes.bfloat16)[i + 3, j + 15]))  # type: ignore[arg-type]
    only = folder / "only.safetensors"
    on_first(lambda: save_file({"x": WHOLE}, only))
    assert np.array_equal(psr.load(DESC, only), psr.load(DESC, only, dataset="x"))  # it has one tensor: no dataset=
    assert list(psr.load(only, WORLD)) == ["x"]
    on_first(lambda: save_file({"x": WHOLE, "number": np.array(1.5)}, folder / "number.safetensors"))
    contents = psr.open(folder / "number.safetensors", WORLD)
    assert (contents.shapes, contents["number"]) == ({"number": (), "x": SHAPE}, 1.5)
    model = psr.load(index, WORLD, layouts={"layers/1": DESC})
    assert sorted(model) == sorted(weights)
    assert model["layers/1"].desc == DESC
    for name, whole in (each for tensors in parts.values() for each in tensors.items()):
        assert np.array_equal(model[name].gather(None), whole), name  # type: ignore[arg-type]
    fails("several arrays go into HDF5", lambda: psr.save({"x": contents["x"]}, folder / "new.safetensors"))
    contents, first = psr.open(index, WORLD), parts["x-1.safetensors"]
    on_first(lambda: save_file({**first, "three": -first["three"]}, folder / "x-1.safetensors"))
    fails("was replaced or changed since it was opened", lambda: contents.load(names=("layers/1",)))
    on_first(lambda: save_file(first, folder / "x-1.safetensors"))

    spans: list[range] = []
    read = binary_file.read_bytes

    def recorded(file: int, target: memoryview, start: int) -> None:
        spans.append(range(start, start + target.nbytes))
        read(file, target, start)

    with mock.patch.object(binary_file, "read_bytes", recorded), mock.patch.object(slabs, "SLAB_BYTES", 1000):
        psr.load(DESC, index, dataset="layers.0.weight")
    everywhere = sorted((span for own in WORLD.allgather(spans) for span in own), key=lambda span: span.start)
    assert sum(map(len, everywhere)) == WHOLE.nbytes
    assert all(a.stop == b.start for a, b in itertools.pairwise(everywhere))
    local = DESC.zeros()
    for path in (only, index):
        fails("cannot be written: use a name in .npy", lambda path=path: psr.save(DESC, local, path))
    fails("order = 'F' is for raw files", lambda: psr.load(DESC, only, order="F"))
    fails("offset = 8 is for raw files", lambda: psr.load(DESC, only, dtype="d", offset=8))
    on_first(lambda: save_file({"/": WHOLE, "x": WHOLE}, folder / "named.safetensors"))
    fails("has a tensor named '/', which dataset= cannot be", lambda: psr.load(folder / "named.safetensors", WORLD))
    fails("has no tensor 'y'; it has 'x': give dataset=", lambda: psr.load(DESC, only, dataset="y"))
    fails(
        "x.safetensors.index.json holds several tensors; it has 'layers.0.weight', 'half'",
        lambda: psr.load(DESC, index),
    )
    fails("shape (20,), but desc has shape (30, 20)", lambda: psr.load(DESC, index, dataset="flags"))
    weights["gone"] = "x-1.safetensors"
    on_first(lambda: index.write_text(json.dumps({"weight_map": weights})))
    fails("has no tensor 'gone', which the index of the model says", lambda: psr.load(DESC, index, dataset="gone"))
    on_first(lambda: (folder / "x-1.safetensors").unlink())
    fails("No such file", lambda: psr.load(DESC, index, dataset="half"))


# -- what is refused


def fails(message: str, call: Callable[[], Any], only: int | None = None) -> None:
    """Every rank gets a FileError with the message; with `only`, that one does, and the others are told by it."""
    expected = psr.FileError if only in (None, RANK) else psr.CollectiveError
    with pytest.raises(expected) as caught:
        call()
    assert caught.type is expected
    assert message in str(caught.value), str(caught.value)
    WORLD.Barrier()


class Broken(Recorded):
    def __getitem__(self, key: Any) -> Any:
        raise self.error


def refused() -> None:
    masked = np.ma.array(WHOLE, mask=WHOLE == 77)
    objects = np.empty(SHAPE, object)
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("path = [[1.0]] must be a str or a pathlib.Path", [[1.0]], {}),
        ("path = 3 must be a str or a pathlib.Path", 3, {}),
        ("must be a str or a pathlib.Path", np.ndarray, {}),
        ("source (ndarray) holds an array of shape (20, 30), but desc has shape (30, 20)", WHOLE.T, {}),
        ("source (ndarray) holds object: only fixed sizes can be read", objects, {}),
        ("cannot hold without loss", WHOLE, {"dtype": "f4"}),
        ("order = 'F' is for raw files: source (ndarray) has its own; omit it", WHOLE, {"order": "F"}),
        ("dataset = 'x' is for names of files", WHOLE, {"dataset": "x"}),
        ("source (ndarray) holds an array of shape (), but desc has shape", np.array(3.0), {}),
        ("source (Recorded) has no elements: its shape is None", Recorded(WHOLE, shape=None), {}),
        ("source (Recorded): 'float' object cannot be interpreted", Recorded(WHOLE, shape=(30, float("nan"))), {}),
        (
            "source (DistributedArray) is of a kind that is distributed over the ranks: use redistribute",
            psr.zeros(DESC),
            {},
        ),
        ("window = [3:40] of source (ndarray), which holds an array of shape (30, 20)", WHOLE, {"window": np.s_[3:40]}),
        ("source (Recorded) has chunks = (-5, 4): their lengths must be", Recorded(WHOLE, chunks=(-5, 4)), {}),
        ("source (Recorded) has chunks = ((-3, 33), (20,))", Recorded(WHOLE, chunks=((-3, 33), (20,))), {}),
        ("source (Recorded) has elements of F4, which NumPy does not have", Recorded(WHOLE, dtype="F4"), {}),
    ]
    for text, source, options in cases:
        fails(text, lambda source=source, options=options: psr.load(DESC, source, **options))
    slow = {
        "variable.set_auto_maskandscale(False) gives the numbers": masked,
        "source (Recorded) has dtype int16, but a slice of shape": Recorded(WHOLE, dtype=np.dtype("i2")),
        "it must have what it says": Recorded(WHOLE[:, :3], shape=SHAPE),
        "source (Broken): no such chunk": Broken(WHOLE, error=ValueError("no such chunk")),
    }
    for text, source in slow.items():
        out = DESC.zeros()
        with pytest.raises((psr.FileError, psr.CollectiveError)) as caught:
            psr.load(DESC, source, out)
        assert text in str(caught.value), str(caught.value)
    filled = np.ma.array(WHOLE, mask=False)
    assert np.array_equal(psr.load(DESC, filled), DESC.from_function(lambda i, j: WHOLE[i, j]))  # type: ignore[arg-type]
    one_process = psr.Descriptor(SHAPE, None, psr.ProcessGrid((1, 1), MPI.COMM_SELF))
    buffer = np.zeros(SHAPE, order="F")
    with pytest.raises(psr.FileError, match="out is in the memory of the source"):
        psr.load(one_process, buffer, buffer)
    with pytest.raises(psr.FileError, match="path = None must be a str"):
        psr.load(one_process, None)
    with pytest.raises(psr.FileError, match=r"path = 3 must be a str or a pathlib\.Path"):
        psr.load(3, MPI.COMM_SELF)  # type: ignore[call-overload]
    with pytest.raises(psr.FileError, match=r"source \(ndarray\) holds one number, and no array"):
        psr.load(np.array(3.0), WORLD)
    with pytest.raises(psr.FileError, match=r"^source \(Recorded\), which holds an array of shape \(-1, 9\): n = -1"):
        psr.load(Recorded(WHOLE, shape=(-1, 9)), WORLD)
    WORLD.Barrier()
    if SIZE == 1:
        return
    fails("path = None must be a str", lambda: psr.load(DESC, None if RANK == LAST else WHOLE), LAST)
    broken = Broken(WHOLE, error=OSError(5, "Input/output error"))
    fails("Input/output error", lambda: psr.load(DESC, broken if RANK == LAST else WHOLE), LAST)
    with pytest.raises((psr.FileError, psr.CollectiveError), match="path = None must be a str"):
        psr.load(None if RANK == LAST else WHOLE, WORLD)  # type: ignore[call-overload]
    for own in (WHOLE.astype("f4"), WHOLE[:-1], "x.npy"):
        with pytest.raises(psr.CollectiveError, match="the arguments for the file must be the same on every rank"):
            psr.load(DESC, own if RANK == LAST else WHOLE)
    with pytest.raises(psr.CollectiveError, match=r"desc must be the same|the arguments for the file must be the same"):
        psr.load(WHOLE if RANK else WHOLE.T, WORLD)
    assert np.array_equal(psr.load(WHOLE, WORLD).gather(None), WHOLE)  # type: ignore[arg-type]


def tensors_of_torch(folder: Path) -> None:
    """Elements that NumPy does not take from PyTorch: read, or an error that says what to do."""
    import ml_dtypes
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    path, whole = folder / "torch.safetensors", torch.from_numpy(WHOLE % 7)
    on_first(lambda: save_file({"x": whole.to(torch.bfloat16)}, path))
    imaginary = torch.complex(whole, whole).conj()
    for tensor in (whole.to(torch.bfloat16), whole.to(torch.float8_e4m3fn), imaginary.imag, imaginary):
        local = psr.load(DESC, tensor)
        assert local.dtype.name == str(tensor.dtype).removeprefix("torch.")
        values = tensor.resolve_conj().to(torch.complex128).numpy()
        assert np.array_equal(local.astype(values.dtype), DESC.from_function(lambda i, j, v=values: v[i, j], values.dtype))
    with safe_open(path, "pt") as file:
        assert psr.load(DESC, file.get_slice("x")).dtype == ml_dtypes.bfloat16
    with pytest.raises((psr.ArrayError, psr.CollectiveError), match=r"source \(Tensor\) requires a gradient.*detach"):
        psr.load(DESC, whole.clone().requires_grad_())
    WORLD.Barrier()


def scaled_in_netcdf(folder: Path) -> None:
    """A variable that scales, or masks what is its fill value, is refused; the numbers as they are stored are read."""
    import netCDF4

    path, stored = folder / "scaled.nc", np.arange(600, dtype="i2").reshape(SHAPE)

    def write() -> None:
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("i", 30)
            file.createDimension("j", 20)
            for name, attributes in (("scaled", {"scale_factor": 0.5}), ("masked", {})):
                variable = file.createVariable(name, "i2", ("i", "j"), fill_value=77)
                variable.set_auto_maskandscale(False)
                variable[...] = stored
                variable.setncatts(attributes)

    on_first(write)
    with netCDF4.Dataset(path) as file:
        for variable in (file["scaled"], file["masked"]):
            with pytest.raises((psr.FileError, psr.CollectiveError), match=r"set_auto_maskandscale\(False\)"):
                psr.load(DESC, variable)
            variable.set_auto_maskandscale(False)
            local = psr.load(DESC, variable)
            assert np.array_equal(local, DESC.from_function(lambda i, j: stored[i, j], "i2"))  # type: ignore[arg-type]
    WORLD.Barrier()


def main() -> None:
    folder, cases, seed, names = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(",")
    for library in names:
        for case in range(cases):
            rng = np.random.default_rng([seed, case])
            try:
                check_case(library, folder, rng)
            except BaseException as error:
                error.add_note(f"case {case} of {library}, seed {seed}")
                raise
    slabs.SLAB_BYTES = 10**7
    if "numpy" in names:
        each_element_once()
        refused()
    if "safetensors" in names:
        models(folder)
    if "torch" in names:
        tensors_of_torch(folder)
    if "netCDF4" in names:
        scaled_in_netcdf(folder)
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
