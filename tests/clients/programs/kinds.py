"""Kinds of arrays: how each library makes one, and where it has this process's elements, by its own interface.

No kind asks this package for a layout of another library, so that it can judge conversions.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES="2")

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import deal

import pyscalapack_redist as psr
from pyscalapack_redist import blacs

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
ROWS = max(n for n in range(1, SIZE + 1) if SIZE % n == 0 and n * n <= SIZE)
COLUMNS = SIZE // ROWS
SLICE = 2**19  # most elements that are written or compared at a time

Shape = tuple[int, int]
Part = tuple[NDArray[Any], Sequence[int], Sequence[int]]  # elements, and their rows and columns in the matrix
Value = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]


class Kind:
    """Arrays of one library, in a layout that is natural there."""

    name: str
    is_writable, is_file = True, False
    divisor = 1  # of the number of rows

    def empty(self, shape: Shape) -> Any:
        """A new array of zeros, in memory that has not been touched if possible."""
        raise NotImplementedError

    def filled(self, shape: Shape, value: Value) -> Any:
        """A new array with these elements."""
        x = self.empty(shape)
        for part in self.parts(x):
            for elements, i, j in slices(part):
                elements[...] = value(i, j)
        return x

    def parts(self, x: Any) -> Iterator[Part]:
        """The elements of an array on this process."""
        raise NotImplementedError


def slices(part: Part) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """A part in pieces that are contiguous in memory: elements, rows and columns."""
    elements, rows, columns = part[0], np.asarray(part[1])[:, None], np.asarray(part[2])[None, :]
    assert elements.shape == (len(rows), columns.size), (elements.shape, rows.shape, columns.shape)
    along = int(elements.flags.f_contiguous)
    step = max(1, SLICE // max(1, elements.shape[1 - along]))
    for k in range(0, elements.shape[along], step):
        piece = slice(k, k + step)
        if along:
            yield elements[:, piece], rows, columns[:, piece]
        else:
            yield elements[piece], rows[piece], columns


def split(n: int, parts: int) -> list[range]:
    """As numpy.array_split: sizes that differ by one at most."""
    edges = np.cumsum([0, *(n // parts + (k < n % parts) for k in range(parts))]).tolist()
    return [range(*edges[k : k + 2]) for k in range(parts)]


def block_size(n: int, small: int) -> int:
    return 64 if n > 1000 else small


# -- this package


class Descriptors(Kind):
    """Block-cyclic, in Fortran order."""

    name = "Descriptor"

    def __init__(self) -> None:
        self.grid = psr.ProcessGrid((ROWS, COLUMNS), WORLD)

    def empty(self, shape: Shape) -> Any:
        desc = psr.Descriptor(shape, (block_size(shape[0], 3), block_size(shape[1], 2)), self.grid)
        return desc, desc.zeros(np.float64)

    def parts(self, x: Any) -> Iterator[Part]:
        (m, n), (mb, nb) = x[0].shape, x[0].block
        yield x[1], deal(m, mb, ROWS)[RANK // COLUMNS], deal(n, nb, COLUMNS)[RANK % COLUMNS]


class NineIntegers(Kind):
    """Blocks of columns from the last process on, with a context of BLACS."""

    name = "nine integers"

    def __init__(self) -> None:
        self.grid = psr.ProcessGrid((1, SIZE), WORLD)
        self.grid.make_context()

    def empty(self, shape: Shape) -> Any:
        blocks = block_size(shape[0], 4), block_size(shape[1], 5)
        desc = psr.Descriptor(shape, blocks, self.grid, source=(0, SIZE - 1))
        return np.asarray(desc), desc.zeros(np.float64)

    def parts(self, x: Any) -> Iterator[Part]:
        m, n, nb, source = (int(x[0][k]) for k in (2, 3, 5, 7))
        yield x[1], range(m), deal(n, nb, SIZE, source)[RANK]


class TileLists(Kind):
    """Uneven tiles, dealt out to processes, one array for each."""

    name = "Tiles"

    def empty(self, shape: Shape) -> Any:
        edges = [[0, n // 7, n // 7 + n // 3, n - n // 5, n] for n in shape]
        owners = (np.arange(16).reshape(4, 4) * 3 + 1) % SIZE
        tiles = psr.Tiles.from_edges(edges, owners, WORLD)
        return tiles, [np.zeros(shape) for shape in tiles.local_shapes]

    def parts(self, x: Any) -> Iterator[Part]:
        places = np.argwhere(x[0].owners == RANK)
        for tile, (i, j) in zip(x[1], places, strict=True):
            yield tile, range(*x[0].edges[0][i : i + 2]), range(*x[0].edges[1][j : j + 2])


# -- files


class Files(Kind):
    """A file, which the first process writes by its library, and of which each process reads some rows."""

    is_writable, is_file = False, True
    suffix: str

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        self.options: dict[str, Any] = {}  # of `save`

    def empty(self, shape: Shape) -> Path:
        """The name of a new file."""
        self.number += 1
        return self.folder / f"{self.number}{self.suffix}"

    def filled(self, shape: Shape, value: Value) -> Path:
        path = self.empty(shape)
        if RANK == 0:
            array = self.create(path, shape)
            for k in range(0, shape[0], max(1, SLICE // shape[1])):
                i = np.arange(k, min(shape[0], k + max(1, SLICE // shape[1])))
                array[k : k + len(i)] = value(i[:, None], np.arange(shape[1]))
            self.close(array)
        WORLD.Barrier()
        return path

    def parts(self, x: Path) -> Iterator[Part]:
        array = self.open(x)
        rows = split(array.shape[0], SIZE)[RANK]
        step = max(1, SLICE // array.shape[1])
        for k in range(rows.start, rows.stop, step):
            piece = range(k, min(k + step, rows.stop))
            yield np.array(array[piece.start : piece.stop]), piece, range(array.shape[1])
        self.close(array)

    def create(self, path: Path, shape: Shape) -> Any:
        raise NotImplementedError

    def open(self, path: Path) -> Any:
        raise NotImplementedError

    def close(self, array: Any) -> None:
        """Close the file."""

    def remove(self, path: Path) -> None:
        """Remove the file. Collective."""
        WORLD.Barrier()
        if RANK == 0:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


class NpyFiles(Files):
    name, suffix = ".npy", ".npy"

    def create(self, path: Path, shape: Shape) -> Any:
        return np.lib.format.open_memmap(path, "w+", np.float64, shape)

    def open(self, path: Path) -> Any:
        return np.load(path, mmap_mode="r")


class Hdf5Files(Files):
    name, suffix = "HDF5", ".h5"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import h5py

        self.h5py = h5py

    def create(self, path: Path, shape: Shape) -> Any:
        return self.h5py.File(path, "w").create_dataset("data", shape, np.float64)

    def open(self, path: Path) -> Any:
        return self.h5py.File(path)["data"]

    def close(self, array: Any) -> None:
        array.file.close()


class ZarrStores(Files):
    """Whole rows in each chunk, without compression, which takes long."""

    name, suffix = "Zarr", ".zarr"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.options = {"zarr": {"compressors": None}}
        import zarr

        self.zarr = zarr

    def create(self, path: Path, shape: Shape) -> Any:
        chunks = max(1, SLICE // shape[1]), shape[1]
        return self.zarr.create_array(path, shape=shape, chunks=chunks, dtype=np.float64, **self.options["zarr"])

    def open(self, path: Path) -> Any:
        return self.zarr.open_array(path, mode="r")


# -- other libraries


class JaxArrays(Kind):
    """Whole rows on one device of each process."""

    name, is_writable, divisor = "JAX", False, SIZE

    def __init__(self) -> None:
        import jax

        if SIZE > 1 and not jax.distributed.is_initialized():
            jax.distributed.initialize(cluster_detection_method="mpi4py")
        jax.config.update("jax_enable_x64", True)
        self.jax = jax
        self.sharding = self.sharded(np.array(jax.devices()).reshape(SIZE, -1))

    def sharded(self, devices: NDArray[Any]) -> Any:
        mesh = self.jax.sharding.Mesh(devices[:, 0], ("processes",))
        return self.jax.sharding.NamedSharding(mesh, self.jax.sharding.PartitionSpec("processes"))

    def empty(self, shape: Shape) -> Any:
        return self.jax.make_array_from_callback(
            shape, self.sharding, lambda index: np.zeros([len(range(n)[s]) for n, s in zip(shape, index, strict=True)])
        )

    def filled(self, shape: Shape, value: Value) -> Any:
        def shard(index: tuple[slice, slice]) -> NDArray[Any]:
            rows, columns = (range(n)[s] for n, s in zip(shape, index, strict=True))
            elements = np.empty((len(rows), len(columns)))
            for piece, i, j in slices((elements, rows, columns)):
                piece[...] = value(i, j)
            return elements

        return self.jax.make_array_from_callback(shape, self.sharding, shard)

    def parts(self, x: Any) -> Iterator[Part]:
        assert isinstance(x, self.jax.Array)
        assert x.sharding == self.sharding
        for shard in x.addressable_shards:
            rows, columns = (range(n)[s] for n, s in zip(x.shape, shard.index, strict=True))
            yield np.asarray(shard.data), rows, columns


class JaxArraysOnDevices(JaxArrays):
    """Rows on all devices, those of a process not in a row."""

    name, divisor = "JAX, 2 devices a process", 2 * SIZE

    def sharded(self, devices: NDArray[Any]) -> Any:
        mesh = self.jax.sharding.Mesh(devices, ("processes", "devices"))
        return self.jax.sharding.NamedSharding(mesh, self.jax.sharding.PartitionSpec(("devices", "processes")))


class DaskArrays(Kind):
    """Chunks with chosen owners."""

    name, is_writable = "dask", False

    def __init__(self) -> None:
        import dask.array

        self.dask = dask.array

    def filled(self, shape: Shape, value: Value) -> Any:
        def block(block_info: Any = None) -> NDArray[Any]:
            rows, columns = (range(*bounds) for bounds in block_info[None]["array-location"])
            elements = np.empty((len(rows), len(columns)))
            for piece, i, j in slices((elements, rows, columns)):
                piece[...] = value(i, j)
            return elements

        chunks = tuple(tuple(map(len, split(n, parts))) for n, parts in zip(shape, (5, 3), strict=True))
        x = self.dask.map_blocks(block, chunks=chunks, dtype=np.float64, meta=np.empty((0, 0)))
        return x, (np.arange(15).reshape(5, 3) * 2 + 1) % SIZE

    def empty(self, shape: Shape) -> Any:
        return self.filled(shape, lambda i, j: np.zeros(1))

    def parts(self, x: Any) -> Iterator[Part]:
        array, owners = x
        edges = [np.cumsum([0, *sizes]) for sizes in array.chunks]
        for i, j in np.argwhere(owners == RANK):
            block = array.blocks[i, j].compute(scheduler="synchronous")
            yield block, range(*edges[0][i : i + 2]), range(*edges[1][j : j + 2])


class DTensors(Kind):
    """A block for each process of a grid, each of them of one size, as `torch.chunk` has them."""

    name = "PyTorch"

    def __init__(self) -> None:
        import process_group
        import torch.distributed.tensor

        self.torch, self.tensor = torch, torch.distributed.tensor
        process_group.start()
        self.mesh = self.tensor.DeviceMesh("cpu", np.arange(SIZE).reshape(ROWS, COLUMNS))
        self.empty((1, 1)).to_local().numpy()  # loads modules

    def spans(self, shape: Shape) -> list[range]:
        chunks = [-(-n // parts) for n, parts in zip(shape, (ROWS, COLUMNS), strict=True)]
        begins = [place * chunk for place, chunk in zip(divmod(RANK, COLUMNS), chunks, strict=True)]
        return [range(n)[begin : begin + chunk] for n, begin, chunk in zip(shape, begins, chunks, strict=True)]

    def empty(self, shape: Shape) -> Any:
        local = self.torch.from_numpy(np.zeros([len(span) for span in self.spans(shape)]))
        cut = [self.tensor.Shard(0), self.tensor.Shard(1)]
        return self.tensor.DTensor.from_local(local, self.mesh, cut, shape=shape, stride=(shape[1], 1))

    def parts(self, x: Any) -> Iterator[Part]:
        assert isinstance(x, self.tensor.DTensor)
        yield x.to_local().numpy(), *self.spans(x.shape)


class HeatArrays(Kind):
    """Split along the columns, of which the first process has most."""

    name = "Heat"

    def __init__(self) -> None:
        import heat

        self.heat = heat
        self.empty((1, 1)).larray.numpy()  # loads modules

    def empty(self, shape: Shape) -> Any:
        rest = split(shape[1] // 3, SIZE)[RANK]
        columns = len(rest) + (shape[1] - shape[1] // 3 if RANK == 0 else 0)
        local = self.heat.torch.from_numpy(np.zeros((shape[0], columns)))
        return self.heat.array(local, is_split=1, copy=False)

    def parts(self, x: Any) -> Iterator[Part]:
        assert isinstance(x, self.heat.DNDarray)
        local = x.larray.numpy()
        end = WORLD.scan(local.shape[1])
        yield local, range(x.shape[0]), range(end - local.shape[1], end)


class PylopsArrays(Kind):
    """Scattered along the columns, of which the last process has most, in C order."""

    name = "pylops-mpi"

    def __init__(self) -> None:
        from pylops_mpi import DistributedArray

        self.kind = DistributedArray

    def empty(self, shape: Shape) -> Any:
        counts = [len(part) for part in split(shape[1] // 3, SIZE)]
        counts[-1] += shape[1] - sum(counts)
        local_shapes = [(shape[0], count) for count in counts]
        return self.kind(shape, axis=1, local_shapes=local_shapes, local_array=np.zeros(local_shapes[RANK]))

    def parts(self, x: Any) -> Iterator[Part]:
        assert isinstance(x, self.kind)
        counts = [columns for _, columns in x.local_shapes]
        first = sum(counts[:RANK])
        yield x.local_array, range(x.global_shape[0]), range(first, first + counts[RANK])


class NPScalArrays(Kind):
    name = "scalapack4py"

    def __init__(self) -> None:
        import scalapack4py
        from scalapack4py import npscal

        self.npscal, loaded = npscal, blacs.load()
        file = ctypes.CDLL(None if loaded.vendor == "MKL" else loaded.path, mode=ctypes.RTLD_GLOBAL)
        self.grid = npscal.init(scalapack4py.ScaLAPACK4py(file))

    def empty(self, shape: Shape) -> Any:
        blocks = {"dmb": block_size(shape[0], 2), "dnb": block_size(shape[1], 5)}
        return self.npscal.zeros(shape, dtype=np.float64, **blocks)

    def parts(self, x: Any) -> Iterator[Part]:
        d = x.descr
        rows, columns = deal(d.m, d.mb, d.nprow, d.rsrc)[d.myrow], deal(d.n, d.nb, d.npcol, d.csrc)[d.mycol]
        yield x.loc_array, rows, columns


class PyScalapackArrays(Kind):
    name = "PyScalapack"

    def __init__(self) -> None:
        import PyScalapack

        loaded = blacs.load()
        library = PyScalapack(loaded.path, loader=lambda file: ctypes.CDLL(None if loaded.vendor == "MKL" else file))
        self.context = library(b"C", COLUMNS, ROWS)
        self.context.__enter__()

    def empty(self, shape: Shape) -> Any:
        return self.context.array(*shape, block_size(shape[0], 4), block_size(shape[1], 3), dtype=np.float64)

    def parts(self, x: Any) -> Iterator[Part]:
        c = x.context
        rows = deal(x.m, x.mb, c.nprow.value)[c.myrow.value]
        yield x.data, rows, deal(x.n, x.nb, c.npcol.value)[c.mycol.value]


class PetscMatrices(Kind):
    """Whole rows, in Fortran order."""

    name = "PETSc"

    def __init__(self) -> None:
        from petsc4py import PETSc

        self.petsc = PETSc

    def empty(self, shape: Shape) -> Any:
        matrix = self.petsc.Mat().createDense(shape, comm=WORLD)
        matrix.setUp()
        return matrix

    def parts(self, x: Any) -> Iterator[Part]:
        yield x.getDenseArray(), range(*x.getOwnershipRange()), range(x.getSize()[1])


class PencilArrays(Kind):
    """Whole columns, in C order."""

    name = "mpi4py-fft"

    def __init__(self) -> None:
        from mpi4py_fft import DistArray

        self.kind = DistArray

    def empty(self, shape: Shape) -> Any:
        return self.kind(shape, [1, 0], dtype=np.float64, val=0)

    def parts(self, x: Any) -> Iterator[Part]:
        rows, columns = (range(part.start, part.stop) for part in x.local_slice())
        yield np.asarray(x), rows, columns


class GPAWMatrices(Kind):
    """Block-cyclic, in C order."""

    name = "GPAW"

    def __init__(self) -> None:
        from gpaw.blacs import BlacsGrid
        from gpaw.mpi import world

        self.grid = BlacsGrid(world, COLUMNS, ROWS)

    def empty(self, shape: Shape) -> Any:
        layout = self.grid.new_descriptor(*shape, block_size(shape[0], 5), block_size(shape[1], 2))
        return layout, layout.zeros()

    def parts(self, x: Any) -> Iterator[Part]:
        d, g = x[0], x[0].blacsgrid
        rows = deal(d.gshape[0], d.mb, g.nprow, d.rsrc)[g.myrow]
        yield x[1], rows, deal(d.gshape[1], d.nb, g.npcol, d.csrc)[g.mycol]


KINDS: list[Any] = [
    Descriptors, NineIntegers, TileLists, NpyFiles, Hdf5Files, ZarrStores, JaxArrays, JaxArraysOnDevices, PetscMatrices,
    PencilArrays, GPAWMatrices, NPScalArrays, PyScalapackArrays, DaskArrays,
    DTensors, HeatArrays, PylopsArrays
]  # fmt: skip


def available(folder: Path, names: set[str]) -> tuple[list[Kind], dict[str, str]]:
    """The kinds of these names, or all, of which the libraries can be imported, and why others cannot, by their names."""
    kinds, missing = [], {}
    for kind in KINDS:
        if names and kind.name not in names:
            continue
        try:
            kinds.append(kind(folder) if issubclass(kind, Files) else kind())
        except (ImportError, AttributeError) as error:  # an AttributeError: an old NumPy has no such name
            missing[kind.name] = f"{type(error).__name__}: {error}"
    return kinds, missing
