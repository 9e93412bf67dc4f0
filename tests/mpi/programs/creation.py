"""Arrays of zeros, ones and the like, of the rows of each rank, of files, and in layouts as texts. Argument: a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
        ({"layout": "blocks"}, "layout = 'blocks' must be 'rows', 'columns', or PRxPC:MBxNB"),
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


def of_texts(folder: Path) -> None:
    whole = np.arange(60.0).reshape(6, 10)
    rows, path = psr.zeros((6, 10), WORLD).desc, folder / "texts.npy"
    texts = {
        "rows": rows,
        "columns": psr.zeros((6, 10), WORLD, layout="columns").desc,
        f"{SIZE}x1:2x3": psr.Descriptor((6, 10), (2, 3), psr.ProcessGrid((SIZE, 1), WORLD)),
        f"1x{SIZE}:4xbalanced": psr.Descriptor((6, 10), (4, "balanced"), psr.ProcessGrid((1, SIZE), WORLD)),
        f"1x1:2x2+{SIZE - 1}": psr.Descriptor((6, 10), 2, psr.ProcessGrid((1, 1), WORLD, ranks=[[SIZE - 1]])),
        f"1x1x{SIZE}c:5x4": psr.Descriptor((6, 10), (5, 4), psr.ProcessGrid((1, 1, SIZE), WORLD), axes=(0, 1)),
        "1x1:3p0,3p0x10": psr.Descriptor((6, 10), (psr.Blocks([3, 3], [0, 0]), 10), psr.ProcessGrid((1, 1), WORLD)),
    }
    source = psr.distribute(whole, rows)
    source.save(path)
    for text, desc in texts.items():
        for array in (
            psr.distribute(whole if RANK == SIZE - 1 else None, WORLD, SIZE - 1, layout=text),
            psr.distribute(whole, text, comm=WORLD),
            psr.distribute(whole, comm=WORLD, layout=text),
            psr.redistribute(source, text),
            source.redistribute(text),
            psr.plan(source.desc, text)(source),
            psr.load(path, WORLD, layout=text),
            psr.DistributedArray.load(path, comm=WORLD, layout=text),
            psr.ones((6, 10), WORLD, layout=text) * 0 + source.redistribute(text),
        ):
            assert array.desc == desc, (text, array.desc)
            assert np.array_equal(array.gather(None), whole)
        assert psr.redistribute(text, source.desc).desc_a == desc
        if "p" not in text:  # the sizes of all blocks
            for part, values in ((source, whole), (source[1:4], whole[1:4])):
                turned = psr.redistribute(part, text, op="T")
                assert np.array_equal(turned.gather(None), values.T)  # type: ignore[arg-type]
    assert psr.plan(psr.Descriptor((6, 10), 2, psr.ProcessGrid((2, 2))), "3x4:1x1").desc_b.grid.size == 12  # on paper
    nothing = "an array" if RANK else np.ones((2, 3, 4))
    for array, shape in ((psr.distribute(whole, WORLD), (6, 10)), (psr.distribute(nothing, WORLD), (2, 3, 4))):
        assert array.desc == psr.zeros(shape, WORLD).desc
    assert np.array_equal(psr.distribute([[1, 2]] if RANK == 0 else None, WORLD).gather(None), [[1, 2]])  # type: ignore[arg-type]
    assert psr.distribute(np.ones((0, 3)), WORLD).shape == (0, 3)

    bad, before = SIZE - 1, source.local.copy()
    wrong = [
        ("2x2", "= '2x2' must be 'rows', 'columns', or PRxPC:MBxNB"),
        ("2xa:1x1", "the grid '2xa' must be whole numbers .* The notation is PRxPC:MBxNB"),
        ("1x1:2x2@1,0", "= '1x1:2x2@1,0': the source process '1,0' is outside the grid .* must be 'rows', 'columns', or"),
        ("1:3", "the layout 1:3 has 1 dimensions and the shape"),
        ("1x1:7p0x3", "has blocks of 7 elements along dimension 0, which has 6"),
        ("3x99999999999:1x1", f"is on ranks 0 to 299999999996, but the communicator has {SIZE} rank"),
        ("1x1:2x2/C", "the block size '2x2/C' must be"),
        ("2:tiles=3x3", "is of tiles"),
    ]
    for text, words in wrong:
        for own in (text, text if bad == RANK else f"1x{SIZE}:2x2"):
            for call in (
                lambda own: psr.redistribute(source, own),
                lambda own: source.redistribute(own),
                lambda own: psr.plan(source.desc, own),
                lambda own: psr.distribute(whole, WORLD, layout=own),
                lambda own: psr.load(path, WORLD, layout=own),
            ):
                with pytest.raises(BOTH, match=rf"{words}|load\(.*load\(|layout must be the same"):
                    call(own)
        with pytest.raises(psr.DescriptorError, match=words):
            psr.zeros((6, 10), WORLD, layout=text)
    lacking = "gets its shape and its communicator from"
    refused_texts: list[tuple[Callable[[Any], Any], Any, Any, str]] = [
        (lambda own: psr.distribute(whole, WORLD, **own), {"layout": 3}, {}, "layout = 3 must be 'rows'"),
        (lambda own: psr.distribute(whole, rows, **own), {"comm": WORLD}, {}, "comm = .* is given beside desc"),
        (lambda own: psr.distribute(whole, WORLD, own), SIZE, 0, f"root = {SIZE} is not a rank"),
        (lambda own: psr.distribute(own, WORLD, bad), np.ma.masked_array([1.0]), whole, "masked array"),
        (lambda own: psr.distribute(own, WORLD, bad), np.float64(1), whole, r"shape = \(\) must have at least one dimension"),
        (lambda own: psr.distribute(own, WORLD, bad), None, whole, f"the array is None on rank {bad}"),
        (lambda own: psr.distribute(whole, rows, **own), {"layout": "rows"}, {}, "layout = 'rows' is given beside desc"),
        (lambda own: psr.plan(own, "1x1:2x2", comm=WORLD), None, rows, f"{lacking} desc_a, and desc_a = None"),
        (lambda own: psr.redistribute(own, "rows"), None, source, f"{lacking} desc_a, and desc_a = None"),
        (lambda own: psr.redistribute(own, "rows"), whole, source, f"{lacking} desc_a, and desc_a = <ndarray"),
        (lambda own: psr.plan(own, "rows", comm=WORLD), "columns", rows, f"desc_a = 'columns' {lacking} desc_b"),
        (lambda own: psr.scatter(own, whole, comm=WORLD), "rows", rows, "desc = 'rows' is a text"),
        (lambda own: psr.gather(own, source.local, comm=WORLD), "1x1:2x2", rows, "desc = '1x1:2x2' is a text"),
    ]
    for call, argument, right, words in refused_texts:
        for own in (argument, argument if bad == RANK else right):
            with pytest.raises(BOTH, match=words):
                call(own)
    for alone, words in (
        (lambda: psr.plan("1x1:2x2", "rows"), f"{lacking} desc_b, and desc_b = 'rows'"),
        (lambda: psr.distribute(whole, "rows"), r"distribute\(array, comm, layout='rows'\)"),  # type: ignore[arg-type]
        (lambda: psr.scatter("rows", whole), "desc = 'rows' is a text"),  # type: ignore[call-overload]
        (lambda: psr.Descriptor((6, 10), 2, WORLD), r"wrap the communicator, ProcessGrid\(\(\d, \d\), comm\)"),  # type: ignore[arg-type]
        (lambda: psr.Descriptor((6,), 2, WORLD), rf"ProcessGrid\(\({SIZE},\), comm\)"),  # type: ignore[arg-type]
        (lambda: psr.Descriptor(6, 2, MPI.COMM_NULL), "must be a ProcessGrid$"),  # type: ignore[arg-type]
        (lambda: psr.ProcessGrid(WORLD), "is a communicator, the second argument"),  # type: ignore[arg-type]
    ):
        with pytest.raises(psr.DescriptorError, match=words):
            alone()
    if SIZE > 1:
        with pytest.raises(psr.CollectiveError, match="the ranks ask for different things: layout"):
            psr.distribute(whole, WORLD, layout="columns" if RANK else "rows")
        with pytest.raises(psr.CollectiveError, match="the layout to reach"):
            source.redistribute("columns" if RANK else "rows")
        with pytest.raises(psr.CollectiveError, match="desc_b must be the same"):
            psr.redistribute(source, "columns" if RANK else "rows")
        with pytest.raises(psr.CollectiveError, match="root must be the same"):
            psr.distribute(whole, WORLD, RANK)
    assert np.array_equal(source.local, before)
    assert np.array_equal(source.redistribute("columns").gather(None), whole)  # type: ignore[arg-type]


def refused() -> None:
    for call, words in (
        (lambda: psr.zeros((3, 4)), "comm = None: give the communicator"),
        (lambda: psr.zeros("a", WORLD), "shape = 'a' must be a shape"),
        (lambda: psr.ones((), WORLD), r"shape = \(\)"),
        (lambda: psr.ones((3, -1), WORLD), r"shape\[1\] = -1"),
        (lambda: psr.ones((3, 1), WORLD, layout="row"), "layout = 'row' must be 'rows', 'columns', or PRxPC:MBxNB"),
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
    of_texts(Path(sys.argv[1]))
    refused()
    if RANK == 0:
        print("OK", flush=True)
