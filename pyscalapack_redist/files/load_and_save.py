"""load(), save(), shape_of() and dtype_of(): distributed arrays in files. Many in one file are saved by `checkpoint`."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._lazy import load_above
from ..arguments import slabs_of, takes_arrays
from ..comm.agreement import agreement
from ..comm.groups import MPIGroup, group_of
from ..comm.guard import holding_interrupts
from ..comm.mpi import MPI
from ..engine.local_arrays import check_dtype, make_out
from ..engine.spec import group_of_all
from ..errors import ArrayError, DescriptorError, FileError, shown
from ..layout.array_arithmetic import Distributed
from ..layout.arrays import host_array
from ..layout.descriptor import Descriptor, fit_local_array
from ..layout.dtypes import dtype_digest, foreign_dtypes
from ..layout.tiles import LAYOUTS, LayoutArgument, Tiles, layout_on
from ..redistribution import plan_between
from ..tracebacks import brief
from .binary_file import BinaryFile
from .contents import (
    NOT_READ,
    NOT_WRITTEN,
    Chunking,
    FileArray,
    FilePart,
    Lengths,
    Window,
    check_format,
    check_ordinary,
    checked_path,
    is_folder_name,
    is_hdf5,
    is_npy,
    is_raw,
    is_safetensors,
    is_zarr,
    read_npy_header,
    shape_of_region,
)
from .hdf5 import Hdf5, library, read_dataset
from .replacement import check_regular, replace_file
from .safetensors import Safetensors, find_tensor, read_tensor
from .slabs import ArrayFile, StoredArray, as_file_error, on_all, on_first, one_file
from .sources import Sliceable, Source, check_apart, describe, is_source, name_of
from .zarr_store import ZarrStore, check_array_store, read_array
from .zarr_store import library as zarr_library

D = TypeVar("D", bound=Distributed)
DATASET = "data"


@overload
def load(
    array: D,
    path: str | os.PathLike[str] | Sliceable,
    /,
    *,
    order: str | None = None,
    offset: int | None = None,
    dataset: str | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    progress: bool = False,
) -> D: ...


@overload
def load(
    path: str | os.PathLike[str] | Sliceable,
    comm: MPI.Intracomm,
    /,
    *,
    layout: str = "rows",
    dtype: DTypeLike | None = None,
    dataset: str | None = None,
    names: Sequence[str] | None = None,
    layouts: Mapping[str, Any] | None = None,
    window: Window = None,
    progress: bool = False,
) -> Any: ...


@overload
def load(
    desc: LayoutArgument,
    path: str | os.PathLike[str] | Sliceable,
    out: NDArray[Any] | None = None,
    *,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    offset: int | None = None,
    dataset: str | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    progress: bool = False,
    comm: MPI.Intracomm | None = None,
) -> NDArray[Any] | None: ...


@brief
@holding_interrupts
def load(
    desc: LayoutArgument | Distributed | str | os.PathLike[str] | Sliceable,
    path: Any = None,
    out: NDArray[Any] | None = None,
    *,
    layout: str | None = None,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    offset: int | None = None,
    dataset: str | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    layouts: Mapping[str, Any] | None = None,
    progress: bool = False,
    comm: MPI.Intracomm | None = None,
) -> Any:
    """Read an array from a file, each rank its own part. Collective over the communicator of the descriptor's grid.

    Instead of `desc` and `out` it takes a `DistributedArray`, reads into it, and returns it. `load("a.npy", comm)` reads the
    shape from the file too, and returns a `DistributedArray` in balanced rows on all ranks of `comm`, or as `layout` says.

    `load("run.h5", comm)` of a file of several arrays, as `save` of a dict makes it, returns a dict of all that is in it: each
    value as it was, and arrays in balanced rows, or in `layouts`, on any number of ranks. So does a file that other programs
    have made, if it is HDF5 without a data set "data", a Zarr group, or a safetensors file or model; numbers and text come as
    values. `open` shows what is in such a file.

    In place of a file it takes an object that can be sliced and has `shape` and `dtype` (or `get_shape()` and `get_dtype()`): a
    data set of h5py or netCDF4, an array of zarr or tensorstore, a memory map, a slice object of safetensors. Each rank slices
    its own object, whole chunks if it has `chunks`, and all of these must have the same elements.

    The suffix of the name selects the format: .npy (NumPy's), .h5 or .hdf5 (HDF5, by h5py), .nc (netCDF-4, which is HDF5),
    .zarr (a Zarr store in a directory, of version 3 or 2, by zarr), .safetensors (also .safetensors.index.json, the index of a
    sharded model), others raw binary. Suffixes of other formats, such as .npz or .csv, are an error, unless `offset` has the
    byte where elements begin. Of chunks, in HDF5 and Zarr, each rank reads whole ones. HDF5's virtual and external data sets,
    and numbers of types that NumPy has not, are read by the first rank for all, with a RuntimeWarning.

    Parameters
    ----------
    desc : Descriptor, or nine integers
        Layout of the result. The array in the file, or its window, must have its shape; for a sub-array, the sub-array's.
    path : str, path or object with slices
        The file, equal on all ranks; all must have access to it. Or an object with slices, of one shape and dtype on all ranks.
    out : ndarray, optional
        This rank's local array to read into. Required if `desc` is a sub-array; only the sub-array is written.
    layout : str, optional
        Of `load(path, comm)`: "rows", the default, "columns", or a text such as "2x2:64x64", as for `zeros`.
    dtype : dtype, optional
        Dtype of the result; by default that of `out`, or of the file in the machine's byte order. The file's dtype must be safe
        to convert to it (`numpy.can_cast`). Required for a raw file, as its dtype, here or by `out`.
    order : {"C", "F"}, optional
        Index that runs fastest in a raw file: the last ("C", the default) or the first. A .npy file has it in its header.
    offset : int, optional
        Byte of a raw file where the array begins; the file may be longer. By default the array is the whole file.
    dataset : str, optional
        Name of the data set in an HDF5 file, "data" by default; or of the array in a Zarr group, by default the store's own; or
        of the tensor in a safetensors file or a sharded model, by default the only one. Fill values and scale factors of netCDF
        are not applied.
    window : slice or tuple of slice, optional
        Part of the file's array to read, such as `np.s_[10:50, :]`. As in `desc[10:50, :]`, negative bounds count from the end,
        `...` stands for all remaining dimensions, and a step must be 1.
    shape : sequence of int, optional
        With `window`: shape of the array in a raw file.
    names : sequence of str, optional
        Of `load(path, comm)`: the entries to load of a file of several arrays; by default all. `dataset` is one alone.
    layouts : dict, optional
        Of `load(path, comm)`: layouts of some of these arrays by name, as for `FileContents.load`.
    progress : bool
        Report on the communicator's rank 0 how far the call is: by a bar, if rich is installed and standard output is a
        terminal, else by lines of the logger "pyscalapack_redist", at level INFO, the last with the most memory of that rank.
    comm : MPI.Intracomm, optional
        Communicator that contains the grid; all of its ranks take part then. Required if `desc` is nine integers, as for
        `redistribute`, or None on some ranks.

    Returns
    -------
    ndarray, DistributedArray, dict or None
        `out`, or this rank's new local array: a matrix in Fortran order, of other dimensions in the order of the file, "C" for
        HDF5 and Zarr. For another order make `out` by `desc.empty(dtype, order)`. None on a rank outside the grid.

    Raises
    ------
    FileError
        The file does not exist, is too short, has another shape or dtype, or holds Python objects; or ranks see different files
        of that name; or HDF5 finds it open for writing; or it was replaced or changed while it was read, and `out` has parts of
        it. On all ranks. Or a slice of an object failed on this rank, or has another shape or dtype than the object says, or
        masked elements.
    ArrayError, DescriptorError, LibraryError
        An argument is invalid on this rank, or h5py, zarr or ml_dtypes is missing.
    CollectiveError
        An argument is invalid on another rank, or a rank could not read.
    """
    if isinstance(desc, str | os.PathLike) or (
        isinstance(path, MPI.Comm) and not isinstance(desc, (Distributed, *LAYOUTS))
    ):
        if comm is not None and path is not None:
            raise ArrayError(
                f"load(path, comm) takes a file and a communicator, which is given twice: {shown(path)}, {comm!r}"
            )
        options: dict[str, Any] = {"dtype": dtype, "order": order, "offset": offset, "dataset": dataset, "out": out}
        options |= {"window": window, "shape": shape, "progress": progress, "layout": layout}
        comm = path if comm is None else comm
        checkpoint = load_above("files.checkpoint")
        desc = checkpoint.name_to_load(desc, comm)
        if names is not None or layouts is not None or (dataset is None and checkpoint.holds_several(desc, comm)):
            return checkpoint.load_entries(desc, comm, names, layouts, options)
        if dataset is not None and is_folder_name(desc):
            return checkpoint.load_entries(desc, comm, (dataset,), None, options | {"dataset": None})[dataset]
        kind = load_above("distributed_array").DistributedArray
        return kind.load(desc, comm=comm, **options)
    if isinstance(desc, Distributed):
        if out is not None:
            raise TypeError("load(array, path) reads into the array: use out= with a Descriptor only")
        options = {"order": order, "offset": offset, "window": window, "shape": shape}
        options |= {"dataset": dataset, "progress": progress}
        options |= {"layout": layout, "names": names, "layouts": layouts}
        if isinstance(desc.desc, Tiles):
            slabs = slabs_of(desc.desc)
            local = load(slabs, path, dtype=dtype or desc.dtype, **options)
            plan_between(slabs, desc.desc)(local, desc.local)
        else:
            load(desc.desc, path, desc.local, dtype=dtype, **options)
        return desc
    layout_of_result: Any = desc
    desc = layout_on(layout_of_result, comm)
    group, part = group_of_all(desc), FilePart(window, shape, order, offset)

    def check() -> tuple[str, FileArray | None, np.dtype[Any] | None, NDArray[Any] | None]:
        if layout is not None:
            raise DescriptorError(f"layout = {shown(layout)} is for load(path, comm); here {desc!r} is the layout")
        if names is not None or layouts is not None:
            raise FileError(f"names= and layouts= are for load(path, comm); {desc!r} is one layout, and dataset= the name")
        name, sliced = _read_source(path, dataset) if is_source(path) else (checked_path(path, dataset), None)
        if sliced is None and offset is None:
            check_format(name, NOT_READ)
        wanted = _wanted_dtype(out, dtype)
        bool(progress)  # which an array of several numbers refuses: here, where all ranks hear of it
        part.check(name, sliced is None and is_raw(name))
        local = None if out is None else local_array("out", out, desc)
        check_apart(path, local)
        return name, sliced, wanted, local

    with agreement(group, "load", learn=True, confirm=True) as agreed:
        name, sliced, wanted, local = as_file_error(check)
        what = name if sliced is None else f"an array of shape {sliced.shape} and dtype {sliced.dtype}"
        _same(agreed, desc, ("load", what, *part.key, dataset), wanted)
    wanted = agreed.result
    with contextlib.ExitStack() as unchanged:
        file: StoredArray
        if sliced is not None:
            file = Source(group, path, sliced)
        else:
            file = array_file(group, name, name, dataset)
            unchanged.enter_context(one_file(group, file.identity()))
        array = file.locate(part, desc, wanted)
        result = array.dtype.newbyteorder("=") if wanted is None else wanted
        if not np.can_cast(array.dtype, result, "safe"):
            raise FileError(f"{name} has elements of {array.dtype}, which dtype = {result} cannot hold without loss")
        order = array.order if desc.ndim != 2 else "F"
        target = on_all(group, lambda: local if local is not None or desc.coords is None else make_out(desc, result, order))
        file.read(array, desc, target, result, progress)
    return target if local is None else out


def _takes_entries(function: Callable[..., None]) -> Callable[..., None]:
    """Let `save` take a dict of entries in place of an array."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> None:
        if arguments and isinstance(arguments[0], Mapping):
            load_above("files.checkpoint").save_entries(*arguments, **keywords)
        else:
            function(*arguments, **keywords)

    return call


@overload
def save(
    entries: Mapping[str, Any],
    path: str | os.PathLike[str],
    /,
    *,
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    append: bool = False,
    progress: bool = False,
    comm: MPI.Intracomm | None = None,
) -> None: ...


@overload
def save(
    array: Distributed,
    path: str | os.PathLike[str],
    /,
    *,
    order: str | None = None,
    dataset: str | None = None,
    chunks: Lengths = None,
    shards: Lengths = None,
    zarr: Mapping[str, Any] | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    offset: int | None = None,
    append: bool = False,
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    progress: bool = False,
) -> None: ...


@overload
def save(
    desc: LayoutArgument,
    local: NDArray[Any] | None,
    path: str | os.PathLike[str],
    *,
    order: str | None = None,
    dataset: str | None = None,
    chunks: Lengths = None,
    shards: Lengths = None,
    zarr: Mapping[str, Any] | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    offset: int | None = None,
    append: bool = False,
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    progress: bool = False,
    comm: MPI.Intracomm | None = None,
) -> None: ...


@brief
@holding_interrupts
@_takes_entries
@takes_arrays("desc", "local")
def save(
    desc: LayoutArgument,
    local: NDArray[Any] | None,
    path: str | os.PathLike[str],
    *,
    order: str | None = None,
    dataset: str | None = None,
    chunks: Lengths = None,
    shards: Lengths = None,
    zarr: Mapping[str, Any] | None = None,
    window: Window = None,
    shape: Sequence[int] | None = None,
    offset: int | None = None,
    append: bool = False,
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    progress: bool = False,
    comm: MPI.Intracomm | None = None,
) -> None:
    """Write an array into a file, each rank its own part. Collective over the communicator of the descriptor's grid.

    Instead of `desc` and `local` it takes a `DistributedArray`, or an array as for `as_distributed`.

    `save({"u": u, "h": h, "step": 17}, "run.h5")` makes a file of these entries alone, a checkpoint, in one transaction: a name
    in .h5 or .hdf5, in .zarr, or without an ending for a folder of .npy files. Names with "/" are groups. Entries are arrays of
    all ranks (a `DistributedArray`, a pair (layout, local array), or an array as for `as_distributed`) in any layouts on one
    communicator; and NumPy arrays and numbers, int, float, complex, bool, str and lists of str, equal on all ranks. `load`
    gives them back as they were. `attributes={"h": {"units": "eV"}}` are attributes of entries: text, numbers, lists of
    these, and NumPy arrays of numbers; lists of numbers come back as NumPy arrays. Until everything is on the disk, an old file
    stays as it was, whatever fails or is killed, and the next `save` removes what was left. Where a file system cannot exchange
    two names (NFS), a program killed at the end of the `save` of a Zarr group may leave the old store under a temporary name
    (.NAME. ... .part): rename it before the next `save`, which removes it.
    With entries but no array of all ranks, `comm` is required. Without `comm` the communicator is that of the first array by
    name; a rank that finds none in its entries raises an error which the others do not hear: they wait. So give `comm` if the
    entries may be something else on a rank.

    With `window` it writes into an existing file in place. Elements outside the window do not change, and nothing is written
    unless all arguments are valid on all ranks. A program that is killed during the call, or cannot write on, leaves some
    elements of the window new and others old; an HDF5 file with compressed chunks may then be unreadable.

    The suffix of the name selects the format, as for `load`; other formats, such as .npz or .csv, are an error. A Zarr
    store has version 3; one rank writes each shard, or each chunk if there are no shards. In HDF5 all ranks write and
    compress. Without `window` the file, or store, is written in the same directory under a temporary name
    (.NAME.MACHINE.PID.START.TOKEN.part), brought to the disk, and renamed by the first rank; if anything fails before, an
    old file of that name stays unchanged. The next call for the same file removes the temporary file of a killed program if
    a rank runs on the machine that wrote it; else a RuntimeWarning names the file.

    Parameters
    ----------
    desc : Descriptor, or nine integers
        Layout of the array. For a sub-array, only the sub-array is written. Replicas are assumed to be equal; each element is
        written once.
    local : ndarray or None
        This rank's local array, of any strides; None on a rank outside the grid.
    path : str or path
        The file, equal on all ranks; all must have access to it. Its dtype is that of `local`, including the byte order,
        except in Zarr.
    order : {"C", "F"}, optional
        Index that runs fastest in a .npy or raw file: the last ("C", the default) or the first. In HDF5 and Zarr, the last.
        With `window`, the order of the existing raw file.
    dataset : str, optional
        Name of the data set in an HDF5 file, "data" by default; other contents of the file stay, and of an old data set of that
        name its attributes and properties, as far as the array allows. With `window`, of the array in
        a Zarr group.
    chunks, shards : sequence of int, or one for all dimensions, optional
        Shapes of the chunks and shards of a new Zarr array. By default chunks as zarr chooses them, and no shards; with
        `shards`, chunks of up to 1 MiB. A shard is one file of whole chunks.
    zarr : dict, optional
        More arguments of `zarr.create_array` for a new Zarr array, such as {"compressors": None} or {"fill_value": 1.0}. Names
        must be equal on all ranks; the first rank's values are used.
    window : slice or tuple of slice, optional
        Part of the file's array to write, of the shape of `desc`, as for `load`.
    shape : sequence of int, optional
        With `window`: shape of the array in a raw file.
    offset : int, optional
        With `window`: byte of a raw file where the array begins; the file may be longer.
    append : bool
        Add new entries, or the array as a new `dataset` (in HDF5 "data" by default), to an HDF5 file, a Zarr group or a folder,
        without a copy of it; of other arguments only `attributes`, `progress` and `comm` are taken then. In a folder that is
        one step. In HDF5 and Zarr each entry is complete when it gets its name; a program that is killed during the call may
        leave the whole HDF5 file unreadable, or a Zarr group with some of the entries. A file that is not there is made; one of
        another program stays one of that.
    attributes : dict, optional
        Of entries, or of an array that is appended, by their names: {"h": {"units": "eV"}}.
    progress : bool
        As for `load`.
    comm : MPI.Intracomm, optional
        As for `load`.

    Raises
    ------
    FileError
        The file cannot be created or written: no directory, permission or space; or it has another dtype than `local`, or no
        such window; or ranks see different files of that name; or it was replaced during the call. On all ranks, or a
        CollectiveError on ranks that could write.
    ArrayError, DescriptorError, LibraryError
        An argument is invalid on this rank, or h5py or zarr is missing.
    CollectiveError
        An argument is invalid on another rank, or a rank could not write.
    """
    if append is not False:
        options = {"order": order, "chunks": chunks, "shards": shards, "zarr": zarr, "window": window, "shape": shape}
        options |= {"offset": offset, "dataset": dataset, "append": append, "progress": progress, "attributes": attributes}
        load_above("files.checkpoint").append_array(desc, local, path, comm, options)
        return
    desc = layout_on(desc, comm)
    group, part, chunking = group_of_all(desc), FilePart(window, shape, order, offset), Chunking(chunks, shards, zarr)

    def check() -> tuple[str, NDArray[Any] | None, Chunking]:
        name = checked_path(path, dataset)
        check_format(name, NOT_WRITTEN)
        if attributes is not None:
            raise FileError(f"attributes = {shown(attributes)} is for a dict of entries, as {{'u': u}}, or append=True")
        bool(progress)  # which an array of several numbers refuses: here, where all ranks hear of it
        if window is None:
            part.check_new(name, dataset)
        else:
            part.check(name, is_raw(name))
            check_not_mapped(name, local)
        checked_chunking = chunking.checked(name, desc.shape, window is None)
        own = local_array("local", local, desc)
        if own is not None:
            check_named(name, own.dtype)
        return name, own, checked_chunking

    with agreement(group, "save", learn=True, confirm=True) as agreed:
        name, local, chunking = as_file_error(check)
        dtype = None if local is None else local.dtype
        _same(agreed, desc, ("save", name, *part.key, dataset, *chunking.key), dtype)
    dtype = agreed.result
    if dtype is None:
        raise ArrayError(
            "local is None on every rank, so the dtype is unknown: pass an empty array of that dtype on one rank"
        )
    if window is not None:
        file = array_file(group, name, name, dataset)
        with one_file(group, file.identity(), writes=True):
            array = file.locate(part, desc, dtype)
            if array.dtype != dtype:
                raise FileError(
                    f"local has dtype {_spelled(dtype)}, but {name} has elements of {_spelled(array.dtype)}: to write into a "
                    "window, convert local by astype"
                )
            file.write(array, desc, local, progress)
        return
    new = FileArray(dtype, desc.shape, order or "C", 0)

    def write(temporary: str, target: str) -> None:
        file = array_file(group, temporary, name, dataset, chunking)
        array = file.create(target, new)
        with one_file(group, file.identity(), writes=True, elsewhere=("size",)):  # its name is random
            file.write(array, desc, local, progress)
        on_first(group, lambda: file.check_target(target))

    replace_file(group, name, write, check_array_store if is_zarr(name) else check_regular)


def check_not_mapped(name: str, local: object) -> None:
    """Refuse memory that is a map of the file: it would change while it is written."""
    part: object = local
    while part is not None:
        path = part.filename if isinstance(part, np.memmap) else None  # nor has an empty part of a map one
        if path is not None and os.path.exists(name) and os.path.samefile(path, name):
            raise FileError(f"local is a map of {name}, which is written: save a copy, local.copy()")
        part = getattr(part, "base", None)


def _same(agreed: agreement, desc: Descriptor, call: tuple[object, ...], dtype: np.dtype[Any] | None) -> None:
    """Say what all ranks must have alike: the layout, the arguments for the file, and the dtype, as far as it is known."""
    agreed.same("desc", desc.layout_digest, desc)
    agreed.same("the arguments for the file", repr(call), call)
    agreed.same("the dtype", None if dtype is None else dtype_digest(dtype), dtype, field="dtype")
    agreed.learn(dtype)


@brief
def shape_of(
    path: str | os.PathLike[str], *, dataset: str | None = None, comm: MPI.Intracomm | None = None
) -> tuple[int, ...]:
    """Shape of the array in a file or a Zarr store. Not collective, but with `comm`, then collective over it.

    Only the header is read. `Descriptor(shape_of(path, comm=comm), block, grid)` is a layout to load the file.

    Parameters
    ----------
    path : str or path
        The file. Its name must end in .npy, .h5, .hdf5, .nc, .zarr, .safetensors or .safetensors.index.json; raw files have no
        header.
    dataset : str, optional
        As for `load`.
    comm : MPI.Intracomm, optional
        Only its first rank reads the file, by its `path`; all ranks get the same result or error. Without `comm`, this rank
        reads.

    Returns
    -------
    tuple of int
        The shape.

    Raises
    ------
    FileError
        The file does not exist, is too short, has another format or no such data set, or holds Python objects; or `comm` is no
        intra-communicator.
    LibraryError
        h5py, zarr or ml_dtypes is missing.
    """
    return _described(path, dataset, comm).shape


@brief
def dtype_of(
    path: str | os.PathLike[str], *, dataset: str | None = None, comm: MPI.Intracomm | None = None
) -> np.dtype[Any]:
    """Dtype of the array in a file or a Zarr store. Not collective, but with `comm`, then collective over it.

    Parameters
    ----------
    path, dataset, comm
        As for `shape_of`.

    Returns
    -------
    dtype
        Dtype of the elements, in the file's byte order; `load` returns the machine's byte order.

    Raises
    ------
    FileError, LibraryError
        As for `shape_of`.
    """
    return _described(path, dataset, comm).dtype


def shape_to_load(path: object, dataset: object, window: Window, group: MPIGroup) -> tuple[int, ...]:
    """Shape of what `load` reads: of the array, or of its window, on the first rank. Collective."""
    part = FilePart(window, None, None, None)

    def read() -> tuple[int, ...]:
        if is_source(path):
            name, array = _read_source(path, dataset)
            if not array.shape:
                raise FileError(f"{name} holds one number, and no array: source[()] is that number")
        else:
            name, array = checked_path(path, dataset), _read_description(path, dataset)
        part.check(name, False)
        if not array.shape and dataset is not None:
            raise FileError(
                f"{name}: {dataset!r} is one number, no array: load(path, comm, names=({dataset!r},)) has it in a dict"
            )
        return shape_of_region(part.region(array.shape, name))

    return on_first(group, read)


def _read_source(source: object, dataset: object) -> tuple[str, FileArray]:
    """Name and array of an object that can be sliced."""
    if dataset is not None:
        raise FileError(f"dataset = {shown(dataset)} is for names of files; here {shown(source)} is the array")
    return name_of(source), describe(source)


def _described(path: object, dataset: object, comm: object) -> FileArray:
    if comm is None:
        return _read_description(path, dataset)
    if not hasattr(comm, "Create_group"):
        raise FileError(f"comm = {shown(comm)} must be an mpi4py Intracomm, or be omitted")
    return _described_on_all(path, dataset, group_of(comm))  # type: ignore[arg-type]


@holding_interrupts
def _described_on_all(path: object, dataset: object, group: MPIGroup) -> FileArray:
    """What the first rank reads. Collective: a vote, and the exchange."""
    return on_first(group, lambda: _read_description(path, dataset))


def _read_description(path: object, dataset: object) -> FileArray:
    name = checked_path(path, dataset)
    try:
        check_ordinary(name)
        if is_hdf5(name):
            return read_dataset(library(name), name, str(dataset or DATASET), name)
        if is_zarr(name):
            return read_array(zarr_library(name), name, str(dataset or ""), name)
        if is_npy(name):
            return read_npy_header(name)
        if is_safetensors(name):
            return read_tensor(*find_tensor(name, None if dataset is None else str(dataset)))
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(str(error)) from error
    check_format(name, NOT_READ)
    raise FileError(
        f"{name} is read as raw binary, which has no header with shape and dtype: give them yourself, or use a .npy, "
        ".h5 or .zarr file"
    )


def array_file(
    group: MPIGroup, path: str, name: str, dataset: str | None, chunking: Chunking | None = None
) -> ArrayFile:
    """The file at `path`, in the format of `name`. Collective."""
    if is_zarr(name):
        return ZarrStore(group, path, name, dataset or "", chunking)
    if is_safetensors(name):
        return Safetensors(group, path, dataset)
    return Hdf5(group, path, name, dataset or DATASET) if is_hdf5(name) else BinaryFile(group, path, name)


def local_array(name: str, array: object, desc: Descriptor) -> NDArray[Any] | None:
    """Check a local array of `desc`; None if this rank has no elements."""
    local = fit_local_array(name, host_array(name, array), desc)
    if local is not None:
        check_dtype(local.dtype)
        if name == "out" and not local.flags.writeable:
            raise ArrayError("out is read-only: give an array that can be written")
    return local


def check_named(name: str, dtype: np.dtype[Any]) -> None:
    """Raise an ArrayError for elements, such as bfloat16, that a file with a header has no name for."""
    foreign = foreign_dtypes(dtype)
    if foreign and not is_raw(name):
        n = dtype.itemsize
        plain = f"numpy.int{8 * n}" if n in (1, 2, 4, 8) and dtype in foreign else f"'V{n}'"
        raise ArrayError(
            f"local has dtype {dtype}, and {name} cannot name {foreign[0]}: save local.view({plain}), and view what is loaded"
        )


def _wanted_dtype(out: object, dtype: DTypeLike | None) -> np.dtype[Any] | None:
    """The requested dtype; None for the file's own."""
    requested = None if dtype is None else np.dtype(dtype)
    if isinstance(out, np.ndarray):
        if requested is not None and requested != out.dtype:
            raise FileError(f"dtype = {requested}, but out has dtype {out.dtype}: omit dtype, or make them equal")
        requested = out.dtype
    if requested is not None and (requested.hasobject or not requested.itemsize or requested.subdtype is not None):
        raise FileError(f"dtype = {requested}: only elements of a fixed size, without Python objects, can be read")
    return requested


def _spelled(dtype: np.dtype[Any]) -> str:
    """A dtype with its byte order."""
    return str(dtype) if dtype.names else dtype.str
