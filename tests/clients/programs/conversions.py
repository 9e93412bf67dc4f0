"""Checks of an array of any library: into it and out of it, new ones like it, its memory, linalg, and what is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
Local = Callable[[Any], NDArray[Any]]
Indices = Callable[[Any], Sequence[Any]]


def value(*indices: Any) -> Any:
    """The element at a place, exact in single precision."""
    return sum(50.0**k * (index + 1) for k, index in enumerate(indices))


def blocks_of(shape: tuple[int, ...], comm: MPI.Intracomm) -> psr.Descriptor:
    grid = psr.ProcessGrid((1,) * (len(shape) - 1) + (comm.Get_size(),), comm)
    return psr.Descriptor(shape, 2, grid)


def check_conversions(x: Any, local_of: Local, indices_of: Indices, dtype: Any, comm: MPI.Intracomm = WORLD) -> None:
    """`local_of` and `indices_of` have the local array of an object, and its global indices, by the library's own means."""
    layout = psr.layout_of(x, comm)
    blocks = blocks_of(layout.shape, comm)
    source = psr.DistributedArray.from_function(blocks, value, dtype)

    def is_right(y: Any) -> bool:
        return np.array_equal(local_of(y), value(*np.ix_(*indices_of(y))).astype(dtype))

    psr.copy_to(source, x)
    assert is_right(x)
    y = psr.redistribute(source, like=x)
    assert type(y) is type(x)
    assert psr.layout_of(y, comm) == layout
    assert is_right(y)
    assert np.array_equal(psr.redistribute(x, blocks).local, source.local)
    view = psr.as_distributed(y, comm)
    assert view.dtype == np.dtype(dtype)
    view.local[...] *= 2
    assert np.array_equal(local_of(y), 2 * local_of(x)), "a copy"
    psr.copy_to(y, x, comm=comm)
    assert np.array_equal(local_of(y), local_of(x))
    if layout.ndim == 2:
        upper = psr.redistribute(source, like=x, uplo="U")
        i, j = np.ix_(*indices_of(upper))
        is_upper = i <= j + max(0, layout.shape[0] - layout.shape[1])
        assert np.array_equal(local_of(upper), np.where(is_upper, value(i, j).astype(dtype), 0))
        transpose = psr.redistribute(y, blocks_of(layout.shape[::-1], comm), op="T")
        assert np.array_equal(transpose.local, 2 * transpose.desc.from_function(lambda i, j: value(j, i)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(comm.bcast(folder)) / "x.npy"
        psr.save(y, path, comm=comm)
        assert np.array_equal(psr.load(blocks, path), 2 * source.local)
        comm.Barrier()


def check_linalg(x: Any, numpy_of: Callable[[Any], Any] = np.asarray, comm: MPI.Intracomm = WORLD) -> None:
    """Results for a square array: of its kind, in its layout, and right. `numpy_of` has those that each rank has whole."""
    layout = psr.layout_of(x, comm)
    n = layout.shape[0]
    blocks = blocks_of((n, n), comm)
    whole = np.fromfunction(lambda i, j: np.cos(i * j) + np.cos(i + j) + 2 * n * (i == j), (n, n))
    psr.copy_to(psr.DistributedArray(blocks, blocks.from_function(lambda i, j: whole[i, j])), x)

    def whole_of(y: Any) -> Any:
        assert type(y) is type(x)
        assert psr.layout_of(y, comm) == layout
        return psr.redistribute(y, blocks).gather(None)

    w, v = psr.linalg.eigh(x)
    vectors = whole_of(v)
    w = numpy_of(w)
    assert np.allclose(w, np.linalg.eigvalsh(whole), rtol=0, atol=1e-11)
    assert np.allclose(whole @ vectors, vectors * w, rtol=0, atol=1e-10)
    lower = whole_of(psr.linalg.cholesky(x, lower=True))
    assert np.allclose(lower @ lower.T, whole, rtol=0, atol=1e-10)
    assert np.allclose(whole @ whole_of(psr.linalg.solve(x, x)), whole, rtol=0, atol=1e-9)
    u, s, vh = psr.linalg.svd(x)
    assert np.allclose(whole_of(u) * numpy_of(s) @ whole_of(vh), whole, rtol=0, atol=1e-10)
    assert np.array_equal(whole_of(x), whole)


def check_refused(call: Callable[[], Any], words: str, comm: MPI.Intracomm = WORLD) -> None:
    """All ranks raise an error, and at least one has these words."""
    text = None
    try:
        call()
    except psr.RedistributionError as error:
        text = str(error)
    texts = comm.allgather(text)
    assert all(texts), texts
    assert any(words in each for each in texts if each), texts
