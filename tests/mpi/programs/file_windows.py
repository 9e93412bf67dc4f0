"""Windows of files, read and written, beside NumPy's own slices. Arguments: folder, cases, seed.

Files of both orders, .npy and raw, with spans of all sizes; HDF5 where h5py is there; then what must be refused on every rank.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layouts import block_sizes
from mpi4py import MPI
from oracle import random_axes, random_layout, random_shape

import pyscalapack_redist as psr
from pyscalapack_redist.files import slabs

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
GAPS = np.dtype([("key", "i1"), ("value", "f8")], align=True)
DTYPES = [*map(np.dtype, ("b", "d", ">f4", "D", "S3")), GAPS]
SUFFIXES = [".npy", ".bin", *([".h5"] if importlib.util.find_spec("h5py") else [])]


def numbered(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """An array of whole numbers below 100."""
    made = np.zeros(shape, dtype)
    if not dtype.names:
        return rng.integers(0, 100, shape).astype(dtype)
    for name in dtype.names:
        made[name] = rng.integers(0, 100, shape)
    return made


def window_of(
    rng: np.random.Generator, first: tuple[int, ...], size: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[Any, ...]:
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
    return tuple(made)


def put(path: Path, whole: np.ndarray[Any, Any], order: Any, skipped: int) -> None:
    if path.suffix == ".npy":
        np.save(path, np.asarray(whole, order=order))
    elif path.suffix == ".bin":
        path.write_bytes(bytes(skipped) + whole.tobytes(order) + bytes(skipped))
    else:
        import h5py

        with h5py.File(path, "w") as file:
            file["data"] = whole


def got(path: Path, whole: np.ndarray[Any, Any], order: Any, skipped: int) -> np.ndarray[Any, Any]:
    if path.suffix == ".npy":
        return np.asarray(np.load(path))
    if path.suffix == ".bin":
        content = path.read_bytes()
        assert content[:skipped] == content[len(content) - skipped :] == bytes(skipped)
        flat = np.frombuffer(content, whole.dtype, whole.size, skipped)
        return flat.reshape(whole.shape, order=order)
    import h5py

    with h5py.File(path, "r") as file:
        return np.asarray(file["data"][()])


def check_case(folder: Path, rng: np.random.Generator) -> str:
    size = random_shape(rng, int(rng.integers(1, 5)), 600)
    layout = random_layout(rng, size, SIZE, copies=True)
    ranks, axes = random_axes(rng, layout)
    grid = psr.ProcessGrid(ranks.shape, WORLD, ranks=ranks)
    desc = psr.Descriptor(layout.shape, block_sizes(layout), grid, source=layout.source, axes=axes)[layout.window()]
    first = tuple(int(rng.integers(0, 4)) for _ in desc.shape)
    shape = tuple(low + n + int(rng.integers(0, 4)) for low, n in zip(first, desc.shape, strict=True))
    window = window_of(rng, first, desc.shape, shape)
    exact = tuple(slice(low, low + n) for low, n in zip(first, desc.shape, strict=True))
    dtype = DTYPES[rng.integers(len(DTYPES))]
    slabs.SLAB_BYTES = int(rng.choice([100, 500, 10**7]))
    slabs.SPAN_BYTES, slabs.GAP_BYTES = int(rng.choice([1, 200, 10**6])), int(rng.choice([0, 1, 60, 10**5]))
    path = folder / f"file{SUFFIXES[rng.integers(len(SUFFIXES))]}"
    order = "C" if path.suffix == ".h5" else "CF"[rng.integers(2)]
    skipped = int(rng.integers(0, 9)) if path.suffix == ".bin" else 0
    keywords: dict[str, Any] = {"window": window[0] if len(window) == 1 else window}
    if path.suffix == ".bin":
        keywords |= {"order": order, "shape": list(shape), **({"offset": skipped} if skipped else {})}
    whole, mine, background = (numbered(n, dtype, rng) for n in (shape, layout.shape, layout.shape))
    what = f"{layout}, {dtype}, {order}, {path.suffix}, {window} of {shape}"
    if RANK == 0:
        put(path, whole, order, skipped)
    WORLD.Barrier()
    out = layout.local(background, RANK)
    psr.load(desc, path, out, dtype=dtype, **keywords)
    wanted = background.copy()
    wanted[layout.window()] = whole[exact]
    held = layout.local(wanted, RANK)
    if held is not None and out is not None:
        assert np.array_equal(out, held), what
    psr.save(desc, layout.local(mine, RANK), path, **keywords)
    whole = whole.copy()
    whole[exact] = mine[layout.window()]
    WORLD.Barrier()
    if RANK == 0:
        found = got(path, whole, order, skipped)
        assert found.dtype == dtype, what
        assert np.array_equal(found, whole), what
    WORLD.Barrier()
    return path.suffix


def fails(message: str, call: Callable[[], Any], only: int | None = None, kind: type = psr.FileError) -> None:
    """Every rank gets an error of the kind with the message; with `only`, that one does, and the others are told by it."""
    expected = kind if only in (None, RANK) else psr.CollectiveError
    with pytest.raises(expected) as caught:
        call()
    assert message in str(caught.value), str(caught.value)
    WORLD.Barrier()


def errors(folder: Path) -> None:
    whole, path, raw = np.arange(600.0).reshape(30, 20), folder / "kept.npy", folder / "kept.bin"
    if RANK == 0:
        np.save(path, whole)
        whole.tofile(raw)
    WORLD.Barrier()
    before = path.read_bytes(), raw.read_bytes()
    desc = psr.Descriptor((10, 5), (2, 2), psr.ProcessGrid((1, SIZE), WORLD))
    local, last = desc.zeros(), SIZE - 1
    good = np.s_[3:13, -5:]
    wrong: list[tuple[str, Any]] = [
        ("[3:13, 16:21] of", np.s_[3:13, 16:21]),
        ("dimension 1: 16:21 is not inside 0:20", np.s_[3:13, 16:21]),
        ("dimension 0: the step of a sub-array must be 1, not 2", np.s_[0:20:2, :5]),
        ("takes at most 2 slices, got 3", np.s_[:10, :5, :1]),
        ("at most one ellipsis", np.s_[..., :5, ...]),
        ("has shape (10, 20), but desc has shape (10, 5)", np.s_[3:13]),
        ("window = 3 must be slices, such as numpy.s_[10:50, :]", 3),
        ("must be slices", (slice(0, 10), None)),
        ("must be integers", np.s_[0.5:10.5, :5]),
        ("must be slices", np.zeros(600, bool)),
    ]
    for text, window in wrong:
        fails(text, lambda window=window: psr.load(desc, path, window=window))
        fails(text, lambda window=window: psr.save(desc, local, path, window=window))
    fails("through = 'view' is for whole files", lambda: psr.load(desc, path, window=good, through="view"))
    fails("through = 'view' is for whole files", lambda: psr.save(desc, local, path, window=good, through="view"))
    fails("shape = (30, 20) is for raw files", lambda: psr.load(desc, path, window=good, shape=(30, 20)))
    fails("order = 'F' is for raw files", lambda: psr.save(desc, local, path, window=good, order="F"))
    fails("give shape=", lambda: psr.load(desc, raw, dtype="d", window=good))
    fails("shape = (10, 5) is for window=", lambda: psr.load(desc, raw, dtype="d", shape=(10, 5)))
    fails("offset = 8 is for window=", lambda: psr.save(desc, local, raw, offset=8))
    fails("ends at byte 4960", lambda: psr.load(desc, raw, dtype="d", window=good, shape=(31, 20)))
    fails("ends at byte 4801", lambda: psr.save(desc, local, raw, window=good, shape=(30, 20), offset=1))
    fails("shape = 600 must be a sequence", lambda: psr.save(desc, local, raw, window=good, shape=600))  # type: ignore[call-overload]
    fails("No such file", lambda: psr.save(desc, local, folder / "missing.npy", window=good))
    fails("is not an ordinary file", lambda: psr.save(desc, local, "/dev/full", window=good, shape=(30, 20)))
    fails("local has dtype <f4, but", lambda: psr.save(desc, local.astype("f4"), path, window=good))
    fails(
        "has elements of <f8: to write into a window pass local.astype of that dtype",
        lambda: psr.save(desc, local.astype(">f8"), path, window=good),
    )
    fails("they must be equal, or window= say which part", lambda: psr.load(desc, path))
    if os.geteuid():
        if RANK == 0:
            path.chmod(0o400)
        WORLD.Barrier()
        fails("Permission denied", lambda: psr.save(desc, local, path, window=good))
    if SIZE > 1:
        with pytest.raises(psr.CollectiveError, match=r"what is asked of the file must be the same on every rank"):
            psr.load(desc, path, window=np.s_[RANK : RANK + 10, :5])
        bad = local if last != RANK else np.zeros((1, 1))
        fails("local has shape (1, 1)", lambda: psr.save(desc, bad, path, window=good), last, psr.ArrayError)
        text = "window = 7 must be slices"
        fails(text, lambda: psr.save(desc, local, path, window=7 if last == RANK else good), last)  # type: ignore[call-overload]
    assert (path.read_bytes(), raw.read_bytes()) == before
    cannot_write_on(desc, path, good, last)


def cannot_write_on(desc: psr.Descriptor, path: Path, window: Any, last: int) -> None:
    """A rank that may not write beyond some byte: every rank is told, and the elements outside are as they were."""
    kept = np.load(path)
    WORLD.Barrier()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if last == RANK:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    ones = desc.from_function(lambda i, j: 1.0 + 0 * i * j)
    with pytest.raises((psr.FileError, psr.CollectiveError), match=r"File too large|could be written|I/O error"):
        psr.save(desc, ones, path, window=window)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    WORLD.Barrier()
    found = np.load(path)
    assert found.shape == kept.shape
    found[window] = kept[window]
    assert np.array_equal(found, kept)
    WORLD.Barrier()
    psr.save(desc, ones, path, window=window)
    WORLD.Barrier()
    kept[window] = 1
    assert np.array_equal(np.load(path), kept)


def what_lies_between_fields(folder: Path) -> None:
    """Bytes that belong to no field are read and written as well."""
    path, rng = folder / "gaps.bin", np.random.default_rng(3)
    whole = np.frombuffer(rng.bytes(30 * 20 * 16), "V16").reshape(30, 20).copy()
    if RANK == 0:
        whole.tofile(path)
    WORLD.Barrier()
    desc, keywords = psr.Descriptor((10, 5), (2, 2), psr.ProcessGrid((1, SIZE), WORLD)), {"shape": (30, 20)}
    local: Any = psr.load(desc, path, dtype=GAPS, window=np.s_[3:13, -5:], **keywords)  # type: ignore[call-overload]
    wanted: Any = psr.scatter(desc, whole[3:13, -5:].copy())
    assert local.tobytes("F") == wanted.tobytes("F")
    psr.save(desc, local, path, window=np.s_[:10, :5], **keywords)  # type: ignore[call-overload]
    whole[:10, :5] = whole[3:13, -5:]
    WORLD.Barrier()
    assert path.read_bytes() == whole.tobytes()


def with_distributed_arrays(folder: Path) -> None:
    whole, path = np.arange(600.0).reshape(30, 20), folder / "array.npy"
    if RANK == 0:
        np.save(path, whole)
    WORLD.Barrier()
    desc = psr.Descriptor((10, 5), (2, 2), psr.ProcessGrid((1, SIZE), WORLD))
    array = psr.DistributedArray.load(desc, path, window=np.s_[20:, 5:10])
    gathered = array.gather()
    assert gathered is None or np.array_equal(gathered, whole[20:, 5:10])
    array.save(path, window=np.s_[:10, :5])
    psr.load(array, path, window=np.s_[1:11, :5])
    gathered = array.gather()
    whole[:10, :5] = whole[20:, 5:10]
    assert gathered is None or np.array_equal(gathered, whole[1:11, :5])


def main() -> None:
    folder, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore", RuntimeWarning)  # h5py without MPI
    seen = {check_case(folder, np.random.default_rng([seed, case])) for case in range(cases)}
    assert seen == set(SUFFIXES)
    slabs.SLAB_BYTES = 10**7
    errors(folder)
    with_distributed_arrays(folder)
    what_lies_between_fields(folder)
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
