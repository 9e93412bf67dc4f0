"""Arrays of zeros, ones and the like, of the rows of each rank, and files without a layout. Argument: a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
BOTH = psr.ArrayError, psr.DescriptorError, psr.CollectiveError


def made() -> None:
    for shape, layout in ((7, "rows"), ((5, 9), "rows"), ((5, 9), "columns"), ((3, 4, 6), "columns"), ((0, 3), "rows")):
        for dtype in ("f8", "c8", "i2"):
            for name in ("zeros", "ones"):
                array = getattr(psr, name)(shape, WORLD, dtype=dtype, layout=layout)
                whole = getattr(np, name)(shape, dtype)
                assert array.dtype == whole.dtype
                assert np.array_equal(array.gather(None), whole)
                axis = array.desc.distributions[0 if layout == "rows" else -1]
                assert axis.local_size(RANK) == len(np.array_split(range(axis.n), SIZE)[RANK])
    for value, dtype in ((3, None), (2.5j, None), (1, "f4"), (np.int8(4), None)):
        array = psr.full((4, 5), value, WORLD, dtype=dtype)
        whole = np.full((4, 5), value, dtype)
        assert array.dtype == whole.dtype
        assert np.array_equal(array.gather(None), whole)  # type: ignore[arg-type]
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            psr.full((4, 5), -1, WORLD, dtype="u1")
    desc = psr.Descriptor((6, 6), 2, psr.ProcessGrid((1, SIZE), WORLD))
    some = psr.DistributedArray.from_function(desc, lambda i, j: i * 10.0 + j)
    for like in (desc, some, some[1:5], some.T):
        for array, whole in ((psr.eye(like), np.eye(*like.shape)), (psr.ones(like), np.ones(like.shape))):
            assert np.array_equal(array.gather(None), whole)  # type: ignore[arg-type]
    assert np.array_equal((some + psr.eye(some)).gather(None), some.gather(None) + np.eye(6))  # type: ignore[operator]
    assert np.array_equal(psr.eye(5, WORLD, dtype="f4").gather(None), np.eye(5))  # type: ignore[arg-type]
    assert np.array_equal(psr.eye((3, 7), WORLD, layout="columns").gather(None), np.eye(3, 7))  # type: ignore[arg-type]
    tiles = psr.Tiles([0, 2, 5], [0, 3, 4], [[0, SIZE - 1], [SIZE - 1, 0]], WORLD)
    assert psr.ones(tiles).sum() == 20
    assert psr.eye(tiles).sum() == 4


def of_rows() -> None:
    heights = [(3 * rank * rank + 2) % 5 for rank in range(SIZE)]
    parts = [np.arange(4.0 * n).reshape(n, 4) + 100 * rank for rank, n in enumerate(heights)]
    for axis in (0, -1):
        whole = np.concatenate([part if axis == 0 else part.T for part in parts], axis)
        own = parts[RANK] if axis == 0 else parts[RANK].T
        array = psr.from_local(own if own.size or not sum(heights) else None, WORLD, axis=axis)
        assert array.desc.parent is None
        assert array.local is own or not own.size
        assert array.dtype == whole.dtype
        assert np.array_equal(array.gather(None), whole)  # type: ignore[arg-type]
    cube = psr.from_local(np.full((RANK, 2, 3), RANK, "i4"), WORLD)
    assert cube.shape == (SIZE * (SIZE - 1) // 2, 2, 3)
    assert cube.sum() == sum(6 * rank * rank for rank in range(SIZE))
    vector = psr.from_local(np.ones(RANK + 1), WORLD)
    assert vector.sum() == SIZE * (SIZE + 1) // 2
    bad = SIZE - 1
    wrong: list[tuple[Any, int, str]] = [
        ([[1.0]], 0, "must be a NumPy array"),
        (np.float64(3), 0, "must be a NumPy array"),
        (np.ones((2, 4)), 2, "axis = 2 must be a dimension of an array with 2"),
        (np.ones((2, 4)), True, "axis = True"),
    ]
    for array, axis, words in wrong:
        with pytest.raises(BOTH, match=words):
            psr.from_local(array if bad == RANK else np.ones((2, 4)), WORLD, axis=axis if bad == RANK else 0)
    with pytest.raises(psr.ArrayError, match="array is None on all ranks"):
        psr.from_local(None, WORLD)
    with pytest.raises(psr.DescriptorError, match="comm = None"):
        psr.from_local(np.ones(3), None)  # type: ignore[arg-type]
    if SIZE > 1:
        for other in (np.ones((2, 5)), np.ones((2, 4), "f4"), np.ones(4)):
            with pytest.raises(psr.ArrayError, match=f"rank 0 has an array of shape .* and rank {bad} one of"):
                psr.from_local(other if bad == RANK else np.ones((2, 4)), WORLD)
        with pytest.raises(psr.ArrayError, match=r"rank 0 has .* axis=0, .* axis=1: all but"):
            psr.from_local(np.ones((4, 4)), WORLD, axis=int(bad == RANK))


def of_files(folder: Path) -> None:
    path, whole = folder / "a.npy", np.arange(35.0).reshape(5, 7)
    psr.distribute(whole, psr.Descriptor((5, 7), 2, psr.ProcessGrid((SIZE, 1), WORLD))).save(path)
    for array, layout in (
        (psr.load(path, WORLD), "rows"),
        (psr.load(str(path), comm=WORLD), "rows"),
        (psr.load(path, WORLD, layout="columns"), "columns"),
        (psr.DistributedArray.load(path, comm=WORLD), "rows"),
        (psr.DistributedArray.load(path, comm=WORLD, layout="columns", progress=True), "columns"),
    ):
        assert type(array) is psr.DistributedArray
        assert np.array_equal(array.gather(None), whole)  # type: ignore[arg-type]
        assert array.desc == psr.zeros((5, 7), WORLD, layout=layout).desc
    assert psr.load(path, WORLD, dtype="c16").dtype == np.complex128
    for window in (np.s_[1:4], np.s_[..., -3:], np.s_[2:2]):
        for layout in ("rows", "columns"):
            array = psr.load(path, WORLD, window=window, layout=layout)
            assert np.array_equal(array.gather(None), whole[window])  # type: ignore[arg-type]
            assert array.desc == psr.zeros(whole[window].shape, WORLD, layout=layout).desc
    bad, raw = SIZE - 1, folder / "a.bin"
    psr.distribute(whole, psr.zeros((5, 7), WORLD).desc).save(raw)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"layout": "blocks"}, "layout = 'blocks' must be 'rows' or 'columns'"),
        ({"out": np.ones(3)}, "out= needs a Descriptor"),
    ]
    for options, words in wrong:
        for own in (options, options if bad == RANK else {}):
            with pytest.raises(BOTH, match=words):
                psr.load(path, WORLD, **own)
    wrong_windows = (3, "window = 3 must be slices"), (np.s_[:, :, :], r"\[:, :, :\] of .*, which holds an array of shape")
    for window, words in wrong_windows:
        with pytest.raises(psr.FileError, match=words):
            psr.load(path, WORLD, window=window)
    with pytest.raises((psr.FileError, psr.CollectiveError), match=r"window = 3 must|the arguments for the file must be the"):
        psr.load(path, WORLD, window=3 if bad == RANK else np.s_[1:4])
    if SIZE > 1:
        with pytest.raises(psr.CollectiveError, match=r"load\('columns'\).*load\('rows'\)|load\('rows'\).*load\('columns'\)"):
            psr.load(path, WORLD, layout="columns" if RANK else "rows")
    with pytest.raises((psr.FileError, psr.CollectiveError), match="no header with shape and dtype"):
        psr.load(raw, WORLD)
    with pytest.raises(psr.DescriptorError, match=r"comm = None: .* load\(path, comm\)"):
        psr.load(path)  # type: ignore[call-overload]
    with pytest.raises(psr.ArrayError, match="given twice"):
        psr.load(path, WORLD, comm=WORLD)  # type: ignore[call-overload]
    desc = psr.zeros((5, 7), WORLD).desc
    for own in (desc, psr.zeros(desc)):
        with pytest.raises(BOTH, match=r"layout = 'rows' is for load\(path, comm\)"):
            psr.load(own, path, **({"layout": "rows"} if bad == RANK else {}))
        with pytest.raises((psr.FileError, psr.CollectiveError), match="path = "):
            psr.load(own, WORLD if bad == RANK else path)  # type: ignore[call-overload]


def refused() -> None:
    for call, words in (
        (lambda: psr.zeros((3, 4)), "comm = None: give the communicator"),
        (lambda: psr.zeros("a", WORLD), "shape = 'a' must be a shape"),
        (lambda: psr.ones((), WORLD), r"shape = \(\)"),
        (lambda: psr.ones((3, -1), WORLD), r"shape\[1\] = -1"),
        (lambda: psr.ones((3, 1), WORLD, layout="row"), "layout = 'row' must be 'rows' or 'columns'"),
        (lambda: psr.ones(psr.zeros(3, WORLD), WORLD), "comm is for a shape"),
        (lambda: psr.full((3, 1), [1, 2], WORLD), r"value = \[1, 2\] must be a number"),
        (lambda: psr.eye((3, 3, 3), WORLD), r"shape = \(3, 3, 3\) must be of two dimensions"),
    ):
        with pytest.raises((psr.DescriptorError, psr.ArrayError), match=words):
            call()


if __name__ == "__main__":
    made()
    of_rows()
    of_files(Path(sys.argv[1]))
    refused()
    if RANK == 0:
        print("OK", flush=True)
