"""Files that are short, wrong or cannot be written, arguments that are wrong on one rank: an error on every rank, no hang.

What a failed save() would have replaced stays as it was, and no temporary file is left. Argument: folder.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import resource
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.files import slabs
from pyscalapack_redist.files.binary_file import BinaryFile
from pyscalapack_redist.files.hdf5 import Hdf5

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
LAST = SIZE - 1
SHAPE, PART = (30, 20), (10, 5)
WHOLE = np.arange(600.0).reshape(SHAPE)
WINDOW = np.s_[3:13, -5:]
ROWS = next(n for n in (2, 1) if SIZE % n == 0)
DESC = psr.Descriptor(SHAPE, (4, 3), psr.ProcessGrid((ROWS, SIZE // ROWS), WORLD))
PIECE = psr.Descriptor(PART, (2, 2), psr.ProcessGrid((1, SIZE), WORLD))


def fails(message: str, call: Callable[[], Any], only: int | None = None, kind: type = psr.FileError) -> None:
    """Every rank gets an error of the kind with the message; with `only`, that one does, and the others are told by it."""
    expected = kind if only in (None, RANK) else psr.CollectiveError
    with pytest.raises(expected) as caught:
        call()
    assert caught.type is expected
    assert message in str(caught.value), str(caught.value)
    if expected is psr.CollectiveError and only is not None:
        assert f"rank {only} could not take part: {kind.__name__}" in str(caught.value), str(caught.value)
    WORLD.Barrier()


def on_first(action: Callable[[], Any]) -> None:
    if RANK == 0:
        action()
    WORLD.Barrier()


def load(path: Any, desc: psr.Descriptor = DESC, **options: Any) -> Callable[[], Any]:
    return lambda: psr.load(desc, path, **options)


def save(path: Any, local: Any, desc: psr.Descriptor = DESC, **options: Any) -> Callable[[], Any]:
    return lambda: psr.save(desc, local, path, **options)


def reading(folder: Path) -> None:
    good, raw, archive = folder / "good.npy", folder / "raw.bin", folder / "archive.npz"
    short, turned = folder / "short.npy", folder / "turned.npy"
    on_first(lambda: (np.save(good, WHOLE), WHOLE.tofile(raw), archive.write_bytes(bytes(8) + WHOLE.tobytes())))
    on_first(lambda: (short.write_bytes(good.read_bytes()[:-1]), np.save(turned, WHOLE.T)))
    size = "has 4800 bytes, but an array of shape (30, 20) of float32 ends at byte 2400"
    of_arrays = "archive of several arrays cannot be read: use a .npy"
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("No such file", load(folder / "missing.npy")),
        ("Is a directory", load(folder / "folder.npy")),
        ("is cut short: it has 4927 bytes", load(short)),
        ("shape (20, 30), but desc has shape (30, 20)", load(turned)),
        ("cannot hold without loss", load(good, dtype="f4")),
        ("cannot hold without loss", lambda: psr.load(psr.DistributedArray(DESC, DESC.zeros("f4")), good)),
        ("order = 'F' is for raw files", load(good, order="F")),
        ("dataset = 'x' is for HDF5, Zarr and safetensors", load(good, dataset="x")),
        ("dataset = '/' must be the name of a data set", load(folder / "x.h5", dataset="/")),
        *((f"path = {name!r} must name a file, without NUL", load(name)) for name in ("", "a\0b.npy")),
        ("dtype = float32, but out has dtype float64: omit dtype", load(good, out=DESC.zeros(), dtype="f")),
        ("has no dtype: give dtype=", load(raw)),
        (size, load(raw, dtype="f4")),
        ("ends at byte 9600", load(raw, dtype="D")),
        ("ends at byte 4801", load(raw, dtype="d", offset=1)),
        ("order = 'A' must be", load(raw, dtype="d", order="A")),
        ("dtype = object", load(raw, dtype=object)),
        ("dtype = ('<f4', (2,)): only elements of a fixed size", load(raw, dtype=("f4", (2,)))),
        *((of_arrays, load(archive, dtype=dtype)) for dtype in (None, "d")),
        (of_arrays, lambda: psr.shape_of(archive)),
        ("No such file", lambda: psr.shape_of(folder / "missing.npy", comm=WORLD)),
        ("path = 3 must be", lambda: psr.shape_of(3, comm=WORLD)),
        ("comm = 7 must be an mpi4py Intracomm", lambda: psr.shape_of(good, comm=7)),
        ("shape = (30, 20) is for raw files", load(good, PIECE, window=WINDOW, shape=SHAPE)),
        ("give shape=", load(raw, PIECE, dtype="d", window=WINDOW)),
        ("shape = (10, 5) is for window=", load(raw, PIECE, dtype="d", shape=PART)),
        ("ends at byte 4960", load(raw, PIECE, dtype="d", window=WINDOW, shape=(31, 20))),
        ("they must be equal, or window= must select a part", load(good, PIECE)),
    ]
    for text, call in cases:
        fails(text, call)
    expected = DESC.from_function(lambda i, j: WHOLE[i, j])
    assert np.array_equal(
        psr.load(DESC, archive, dtype="d", offset=8), expected
    )  # who says where elements are may read
    if SIZE > 1:
        # The first rank reads for all, wherever the others would look.
        assert psr.shape_of(good if RANK == 0 else folder / "missing.npy", comm=WORLD) == SHAPE
        fails("No such file", lambda: psr.shape_of(good if RANK else folder / "missing.npy", comm=WORLD))
        out = DESC.zeros("d") if LAST != RANK else np.zeros((1, 1))
        fails("out has shape (1, 1)", load(good, out=out), LAST, psr.ArrayError)
        fails("path = 3 must be", load(3 if LAST == RANK else good), LAST)
        asked = "the arguments for the file must be the same on every rank"
        fails(asked, load(folder / f"{RANK}.npy"), kind=psr.CollectiveError)
        fails(asked, load(good, PIECE, window=np.s_[RANK : RANK + 10, :5]), kind=psr.CollectiveError)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BinaryFile, "read_part", broken if LAST == RANK else BinaryFile.read_part)
        fails("Input/output error", load(good), LAST)
    assert np.array_equal(psr.load(DESC, good), expected)


def broken(*_: object) -> None:
    raise OSError(5, "Input/output error")


def not_seen_by_all(folder: Path) -> None:
    """The last rank looks elsewhere, where there is no file of the name, a shorter one, or one with the same bytes."""
    if SIZE == 1:
        return
    before, elsewhere = os.getcwd(), folder / "elsewhere"
    on_first(lambda: (elsewhere.mkdir(), (folder / "seen.bin").write_bytes(WHOLE.tobytes())))
    os.chdir(elsewhere if LAST == RANK else folder)
    ways: dict[str, Any] = {"window": WINDOW, "shape": SHAPE}
    its = f"seen.bin on rank {LAST} "
    another = "is not the file of the first rank: "
    absent = "cannot be opened as on the first rank ([Errno 2] No such file or directory: 'seen.bin'): all ranks must"
    for content, hosts, text in (
        (None, 1, absent),
        (bytes(8), 1, another + "inode"),
        (bytes(8), SIZE, another + "size 8, not 4800: all ranks must see the same file (use an absolute path"),
        (WHOLE.tobytes(), 1, another + "inode"),
        (WHOLE.tobytes(), SIZE, another + "modified"),
    ):
        if LAST == RANK and content is not None:
            Path("seen.bin").write_bytes(content)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slabs, "machine", lambda hosts=hosts: (str(RANK % hosts),))
            fails(its + text, load("seen.bin", dtype="d"))
            fails(its + text, save("seen.bin", PIECE.zeros(), PIECE, **ways))
    assert Path("seen.bin").read_bytes() == WHOLE.tobytes()
    os.chdir(before)


def replaced_meanwhile(folder: Path) -> None:
    """The last rank replaces or changes the file after all have looked at it."""
    path, other, text = (
        folder / "replaced.npy",
        folder / "other.npy",
        "and no program may replace or change it during the call",
    )

    def replace(file: BinaryFile, move: Any, *arguments: Any) -> None:
        WORLD.Barrier()
        if RANK == LAST:
            np.save(other, -WHOLE)
            os.replace(other, path)
        WORLD.Barrier()
        move(file, *arguments)

    def touch(file: BinaryFile, move: Any, *arguments: Any) -> None:
        move(file, *arguments)
        WORLD.Barrier()
        if RANK == LAST:
            os.utime(path, ns=(0, 0))

    for change, name, call in (
        (replace, "read", load(path)),
        (replace, "write", save(path, PIECE.zeros(), PIECE, window=WINDOW)),
        (touch, "read", load(path)),
    ):
        on_first(lambda: np.save(path, WHOLE))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BinaryFile, name, functools.partialmethod(change, getattr(BinaryFile, name)))
            fails(text, call)


def few_descriptors(folder: Path) -> None:
    """The last rank has so few files left that it may not open one."""
    path = folder / "good.npy"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 50, hard))
    for call in load(path), save(path, PIECE.zeros(), PIECE, window=WINDOW):
        files: list[int] = []
        with contextlib.suppress(OSError):
            while LAST == RANK:
                files.append(os.open(os.devnull, os.O_RDONLY))
        fails("[Errno 24] Too many open files", call)
        for file in files:
            os.close(file)
    before, opened = len(os.listdir("/proc/self/fd")), os.open

    def refused(name: Any, *arguments: Any, **options: Any) -> int:
        if str(name) == str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(name, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:  # what the others have opened they close
        if LAST == RANK:
            patch.setattr(os, "open", refused)
        for call in load(path), save(path, PIECE.zeros(), PIECE, window=WINDOW):
            fails("Permission denied", call, LAST)
    assert len(os.listdir("/proc/self/fd")) == before
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def windows(folder: Path) -> None:
    """Both ways; the file stays as it was."""
    path, raw, local = folder / "good.npy", folder / "raw.bin", PIECE.zeros()
    before = path.read_bytes(), raw.read_bytes()
    wrong: list[tuple[str, Any]] = [
        ("[3:13, 16:21] of", np.s_[3:13, 16:21]),
        ("has shape (10, 4), but desc has shape (10, 5)", np.s_[3:13, 16:21]),
        ("has shape (10, 20), but desc has shape (10, 5)", np.s_[3:13]),
        ("window = 3 must be slices, such as numpy.s_[10:50, :]", 3),
        ("must be slices", (slice(0, 10), None)),
        ("must be slices", np.zeros(600, bool)),
    ]
    for text, window in wrong:
        fails(text, load(path, PIECE, window=window))
        fails(text, save(path, local, PIECE, window=window))
    its: dict[str, Any] = {"window": WINDOW}
    for text, call in (
        ("offset = 8 is for window=", save(raw, local, PIECE, offset=8)),
        ("ends at byte 4801", save(raw, local, PIECE, shape=SHAPE, offset=1, **its)),
        ("shape = 600 must be a sequence", save(raw, local, PIECE, shape=600, **its)),
        ("No such file", save(folder / "missing.npy", local, PIECE, **its)),
        ("is not an ordinary file", save("/dev/full", local, PIECE, shape=SHAPE, **its)),
        ("local has dtype >f8, but", save(path, local.astype(">f8"), PIECE, **its)),
        ("local is a map of", save(path, np.load(path, mmap_mode="r")[: local.shape[0], : local.shape[1]], PIECE, **its)),
        ("of <f8: to write into a window, convert local by astype", save(path, local.astype("f4"), PIECE, **its)),
    ):
        fails(text, call)
    if SIZE > 1:
        bad = local if LAST != RANK else np.zeros((1, 1))
        fails("local has shape (1, 1)", save(path, bad, PIECE, **its), LAST, psr.ArrayError)
        fails("window = 7 must be slices", save(path, local, PIECE, window=7 if LAST == RANK else WINDOW), LAST)
    assert (path.read_bytes(), raw.read_bytes()) == before
    WORLD.Barrier()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if LAST == RANK:  # it may not write beyond some byte: the elements outside the window are as they were
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    ones, kept = PIECE.from_function(lambda i, j: 1.0 + 0 * i * j), WHOLE.copy()
    with pytest.raises((psr.FileError, psr.CollectiveError), match=r"File too large|could be written|I/O error"):
        psr.save(PIECE, ones, path, window=WINDOW)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    WORLD.Barrier()
    found = np.load(path)
    found[WINDOW] = kept[WINDOW]
    assert np.array_equal(found, kept)
    WORLD.Barrier()
    psr.save(PIECE, ones, path, window=WINDOW)
    WORLD.Barrier()
    kept[WINDOW] = 1
    assert np.array_equal(np.load(path), kept)


def saving(folder: Path) -> None:
    local, target = DESC.zeros("d"), folder / "kept.npy"
    on_first(lambda: target.write_bytes(b"what was there"))
    known = "NumPy's archive of several arrays cannot be written: use a name in .npy, .h5, .hdf5 or .zarr, or another"
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("x.npy cannot be written: there is no directory nowhere/here;", save("nowhere/here/x.npy", local)),
        (f"there is no directory {target};", save(target / "x.npy", local)),
        (known, save(folder / "a.npz", local)),
        ("text separated by commas cannot be written: ", save(folder / "a.CSV", local)),
        ("is not an ordinary file", save(folder / "folder.npy", local)),
        ("is not an ordinary file", save("/dev/full", local)),
        ("order = 'K' must be", save(target, local, order="K")),
        ("shape = (30, 20) is for window=", save(target, local, shape=SHAPE)),
    ]
    far = folder / "far.npy"
    on_first(lambda: far.symlink_to("nowhere/here.npy"))
    cases.append(
        (f"far.npy is a link to {folder / 'nowhere' / 'here.npy'}, and there is no such directory", save(far, local))
    )
    if os.geteuid():
        on_first(lambda: (folder / "closed").mkdir(0o500))
        cases.append(("Permission denied", save(folder / "closed" / "x.npy", local)))
    for text, call in cases:
        fails(text, call)
    assert not list(folder.glob("a.*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BinaryFile, "write_part", broken if LAST == RANK else BinaryFile.write_part)
        fails("Input/output error", save(target, local), LAST)
    if SIZE > 1:
        own, other = local if LAST != RANK else np.zeros((1, 1)), local.astype("f" if LAST == RANK else "d")
        fails("local has shape (1, 1)", save(target, own), LAST, psr.ArrayError)
        fails("the dtype must be the same on every rank", save(target, other), kind=psr.CollectiveError)
    no_room(local, target)
    assert target.read_bytes() == b"what was there"
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]
    WORLD.Barrier()


def no_room(local: Any, target: Path) -> None:
    """A full disk: found when room is made; where that is not offered, when ranks write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    fails("no space for 4928 bytes", save(target, local))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    begin = BinaryFile._begin

    def limited(*arguments: Any) -> Any:
        """The first rank can write no more of the file than its beginning."""
        made = begin(*arguments)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
        return made

    ones = DESC.from_function(lambda i, j: 1.0 + 0 * i * j)
    texts = r"FileError|File too large|could be written|I/O error"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BinaryFile, "_begin", limited)
        with pytest.raises((psr.FileError, psr.CollectiveError), match=texts):
            psr.save(DESC, ones, target)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    WORLD.Barrier()


def what_is_replaced(folder: Path) -> None:
    """Permissions are kept, links followed, names in capitals understood; what a save writes is never open to others."""
    local, zeros = DESC.zeros("d"), np.zeros(SHAPE)
    private, capital, target, link = (folder / name for name in ("private.npy", "CAPITAL.NPY", "kept.npy", "link.npy"))
    on_first(lambda: (private.write_bytes(b""), private.chmod(0o600), target.chmod(0o640), link.symlink_to(target)))
    begin, modes = BinaryFile._begin, []

    def looked_at(file: BinaryFile, *arguments: Any) -> Any:
        array = begin(file, *arguments)
        modes.append(os.stat(file.path).st_mode & 0o777)
        return array

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BinaryFile, "_begin", looked_at)
        psr.save(DESC, local, private)
    assert modes == ([0o600] if RANK == 0 else [])
    for path, mode in ((private, 0o600), (link, 0o640), (capital, None)):
        psr.save(DESC, local, path)
        assert np.array_equal(np.load(path), zeros)
        assert mode is None or path.stat().st_mode & 0o777 == mode
        WORLD.Barrier()
    assert link.is_symlink()
    assert not psr.load(DESC, capital).any()


def write_protected() -> None:
    """A file that its user has protected is not replaced, though the directory would allow that."""
    local, folder = DESC.zeros("d"), Path(WORLD.bcast(tempfile.mkdtemp() if RANK == 0 else None))
    names, umask, user = ["a.npy", "a.bin", "a.h5", "a.zarr"], os.umask(0), os.geteuid()
    for name, library in (("a.h5", "h5py"), ("a.zarr", "zarr")):
        if importlib.util.find_spec(library) is None:
            names.remove(name)
    for name in names:
        psr.save(DESC, local, folder / name)
    on_first(lambda: folder.chmod(0o777))
    on_first(lambda: [(folder / name).chmod(0o555 if (folder / name).is_dir() else 0o444) for name in names])
    link = folder / "link.npy"
    on_first(lambda: link.symlink_to("a.npy"))
    before = [os.stat(folder / name) for name in names]
    try:
        if user == 0:  # who may write everything
            os.seteuid(65534)
        for name in (*names, "link.npy"):
            fails(f"{folder / name.replace('link', 'a')} is write-protected (mode 0", save(folder / name, local))
            if not name.endswith(".zarr"):
                with pytest.raises((psr.FileError, psr.CollectiveError), match="Permission denied"):
                    psr.save(DESC, local, folder / name, window=..., **({"shape": SHAPE} if name == "a.bin" else {}))
        assert [path for path in os.listdir(folder) if path.endswith(".part")] == []
        psr.save(DESC, local, folder / "new.npy")
    finally:
        os.seteuid(user)
        os.umask(umask)
    assert [os.stat(folder / name) for name in names] == before
    WORLD.Barrier()
    on_first(lambda: shutil.rmtree(folder))


def make_external(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=np.zeros((6, 5)), external=[(f"{path}.raw", 0, h5py.h5f.UNLIMITED)])


def hdf5(folder: Path) -> None:
    import h5py

    desc, path, bad = psr.Descriptor((6, 5), (2, 2), PIECE.grid), folder / "errors.h5", folder / "bad.h5"
    links = folder / "links.h5"
    warned = folder / "warned.h5"
    on_first(lambda: make_external(warned))
    Hdf5._has_warned = False  # whatever programs this process has run before
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            psr.load(desc, warned)
            psr.save(desc, desc.zeros(), warned, window=...)
    assert [warning.category for warning in caught] == [RuntimeWarning] * (RANK == 0)  # once in a process
    for warning in caught:
        words = "warned.h5: data has its elements in external files, so the first rank reads for all ranks: store it as"
        assert words in str(warning.message)
        assert warning.filename == __file__

    def write() -> None:
        with h5py.File(path, "w") as file:
            file["other"], file["group/one"], file["null"] = np.zeros((5, 6)), 1, h5py.Empty("f8")
            file["text"] = np.full((6, 5), "text", dtype=h5py.string_dtype())
        with h5py.File(links, "w") as file:
            file["soft"], file["a/b"] = h5py.SoftLink("/nowhere"), h5py.SoftLink("c")
            file["outer"] = h5py.ExternalLink("nofile.h5", "/d")
            pairs = h5py.h5t.array_create(h5py.h5t.NATIVE_DOUBLE, (2,))
            h5py.h5d.create(file.id, b"pairs", pairs, h5py.h5s.create_simple((6, 5)))

    on_first(write)
    before = path.read_bytes(), links.read_bytes()
    on_first(lambda: bad.write_bytes(before[0][: len(before[0]) // 2]))
    for dataset, text in (
        (None, "has no data set 'data'; it has group, null, other, text: give dataset="),
        ("group", "errors.h5: 'group' is a group, which has one: give dataset='group/NAME'"),
        ("text", "holds object: only fixed sizes"),
        ("null", "holds nothing (H5S_NULL): only fixed sizes"),
    ):
        fails(text, load(path, desc, dataset=dataset))
        fails(text, lambda dataset=dataset: psr.shape_of(path, dataset=dataset, comm=WORLD))
    for text, call in (
        ("shape (5, 6), but desc has shape (6, 5)", load(path, desc, dataset="other")),
        ("is a group", save(path, desc.zeros(), desc, dataset="group")),
        ("M8", save(path, desc.zeros("M8[s]"), desc)),
        ("order = 'F'", save(path, desc.zeros(), desc, order="F")),
        ("bad.h5", load(bad, desc, dataset="other")),
        ("bad.h5", save(bad, desc.zeros(), desc)),
        ("No such file", load(folder / "missing.h5", desc)),
        ("pairs holds ('<f8', (2,)): only fixed sizes", load(links, desc, dataset="pairs")),
    ):
        fails(text, call)
    for dataset, text in (
        ("soft", "links.h5: 'soft' is a link to /nowhere, which is not there or cannot be read: make that"),
        ("a/b", "links.h5: 'a/b' is a link to c, which"),
        ("a/b/c", "links.h5: 'a/b' is a link to c, which"),
        ("outer", "links.h5: 'outer' is a link to /d of the file nofile.h5, which"),
        ("a/c", "links.h5 has no data set 'a/c'"),
    ):
        fails(text, load(links, desc, dataset=dataset))
        if dataset != "a/c":
            fails(text, save(links, desc.zeros(), desc, dataset=dataset))
    assert (path.read_bytes(), links.read_bytes()) == before
    psr.save(desc, desc.zeros(), path)
    WORLD.Barrier()
    with h5py.File(path, "r") as file:
        assert "other" in file, "other data sets stay"
    WORLD.Barrier()

    def beside(file: slabs.ArrayFile, move: Any, *arguments: Any) -> None:
        """Another program adds a data set to the file, or makes it."""
        move(file, *arguments)
        if RANK == 0:
            with h5py.File(file.name, "a") as target:
                target["beside"] = 1.0

    new = folder / "new.h5"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slabs.ArrayFile, "write", functools.partialmethod(beside, slabs.ArrayFile.write))
        for name in (path, new):
            fails(f"{name} was changed by another program during the call", save(name, desc.zeros() + 1, desc))
    with h5py.File(path, "r") as file, h5py.File(new, "r") as other:
        assert "beside" in file
        assert not file["data"][()].any()
        assert list(other) == ["beside"]
    WORLD.Barrier()


def zarr_stores(folder: Path) -> None:
    import zarr
    from zarr.storage import LocalStore

    names = "errors", "group", "old", "file", "plain", "text"
    path, group, old, file, plain, text = (folder / f"{name}.zarr" for name in names)
    local, part = DESC.zeros(), PIECE.zeros()

    def write() -> None:
        array = zarr.create_array(path, shape=SHAPE, chunks=(10, 20), dtype="d", fill_value=1.0)
        array[...] = WHOLE
        zarr.create_array(group, name="other/inner", data=WHOLE)
        zarr.create_array(text, shape=SHAPE, dtype=str)
        zarr.create_group(old, zarr_format=2)
        file.write_bytes(b"")
        plain.mkdir()
        (plain / "mine").write_bytes(b"")

    on_first(write)
    numbers = "chunks[0] = 0 must be at least 1"
    its: dict[str, Any] = {"window": WINDOW}
    new = folder / "new.zarr"
    for message, call in (
        ("No such file", load(folder / "missing.zarr")),
        ("Not a directory", load(file)),
        ("No such file", load(plain)),
        ("the root is a group, which has other: give dataset='NAME'", load(group)),
        ("other is a group, which has inner: give dataset='other/NAME'", load(group, dataset="other")),
        ("No such file", load(group, dataset="nothing")),
        ("the root is a group, which has nothing", load(old)),
        ("old.zarr is a Zarr group, and would be replaced", save(old, local)),
        ("holds StringDType(): only fixed sizes", load(text)),
        ("shape (30, 20), but desc has shape (10, 5)", load(path, PIECE)),
        ("order = 'C' is for raw files", load(path, order="C")),
        ("is in the Zarr store", load(group / "other")),
        ("is in the Zarr store", save(group / "other.npy", local)),
        ("cannot hold without loss", load(path, dtype="f4")),
        ("order = 'F'", save(path, local, order="F")),
        ("is no Zarr store ([Errno 20]", save(file, local)),
        ("is no Zarr store ([Errno 2]", save(plain, local)),
        ("group.zarr is a Zarr group, and would be replaced with all its arrays", save(group, local)),
        (
            "dataset = 'other' is for window=: without window= the array is the whole store",
            save(group, local, dataset="other"),
        ),
        ("shards = (2,) must have 2 entries", save(new, local, shards=(2,))),
        ("new.zarr cannot be made: The array's `chunk_shape`", save(new, local, chunks=4, shards=6)),
        ("unexpected keyword argument 'nonsense'", save(new, local, zarr={"nonsense": 1})),
        ("multiple values for keyword argument 'shape'", save(new, local, zarr={"shape": 1})),
        ("zarr = 3 must be a dict of arguments", save(new, local, zarr=3)),
        ("new.zarr cannot be made: No Zarr data type", save(new, DESC.zeros("g"))),
        ("chunks = 3 is for new Zarr stores, but ", save(folder / "x.npy", local, chunks=3)),
        ("zarr = {} is for new Zarr stores, but ", save(path, part, PIECE, zarr={}, **its)),
        ("local has dtype <f4, but", save(path, part.astype("f4"), PIECE, **its)),
        ("there is no directory", save(folder / "nowhere" / "x.zarr", local)),
    ):
        fails(message, call)
    for chunks in ((0, 5), 0):
        fails(numbers, save(new, local, chunks=chunks), kind=psr.DescriptorError)
    assert not new.exists()
    if SIZE > 1:
        fails(numbers, save(new, local, chunks=0 if LAST == RANK else 5), LAST, psr.DescriptorError)
        asked = "the arguments for the file must be the same on every rank"
        fails(asked, save(new, local, chunks=RANK + 1), kind=psr.CollectiveError)
    slabs.SLAB_BYTES = 1600
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if LAST == RANK:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
    with pytest.raises((psr.FileError, psr.CollectiveError), match="File too large"):
        psr.save(DESC, DESC.from_function(lambda i, j: np.sin(i + 20.0 * j)), path, chunks=(5, 20))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    WORLD.Barrier()
    assert np.array_equal(psr.load(DESC, path), DESC.from_function(lambda i, j: WHOLE[i, j]))
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]
    WORLD.Barrier()

    def replace(store: slabs.ArrayFile, move: Any, *arguments: Any) -> None:
        move(store, *arguments)
        if RANK == 0:
            psr.save(psr.Descriptor(SHAPE, None, psr.ProcessGrid((1,), MPI.COMM_SELF)), WHOLE, path, chunks=(10, 20))
        WORLD.Barrier()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slabs.ArrayFile, "read", functools.partialmethod(replace, slabs.ArrayFile.read))
        fails("no program may replace or change it during the call", load(path))
    on_first(lambda: (path / "c" / "1" / "0").write_bytes(b"no chunk"))
    with pytest.raises((psr.FileError, psr.CollectiveError), match=r"errors\.zarr: "):
        psr.load(DESC, path)
    WORLD.Barrier()
    private, modes = folder / "private.zarr", []
    on_first(lambda: (zarr.create_array(private, shape=SHAPE, dtype="d"), private.chmod(0o700)))
    store_set = LocalStore.set

    async def look(store: Any, *arguments: Any) -> None:
        modes.append(os.stat(store.root).st_mode & 0o777)
        await store_set(store, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStore, "set", look)
        psr.save(DESC, DESC.from_function(lambda i, j: i + 1.0 + j), private)
    assert set(modes) <= {0o700}
    assert 0o700 in WORLD.bcast(modes)
    assert private.stat().st_mode & 0o777 == 0o700
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zarr, "__version__", "2.18.3")
        fails("which needs zarr 3, not 2.18.3: pip install 'zarr>=3'", load(path), kind=psr.LibraryError)


def main() -> None:
    folder = Path(sys.argv[1])
    on_first(lambda: (folder / "folder.npy").mkdir())
    reading(folder)
    not_seen_by_all(folder)
    replaced_meanwhile(folder)
    few_descriptors(folder)
    windows(folder)
    saving(folder)
    what_is_replaced(folder)
    write_protected()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "h5py", None)
        patch.setitem(sys.modules, "zarr", None)
        for call in (load(folder / "x.h5"), save(folder / "x.h5", DESC.zeros())):
            fails("x.h5 is HDF5, which needs h5py", call, kind=psr.LibraryError)
        for call in (load(folder / "x.zarr"), save(folder / "x.zarr", DESC.zeros())):
            fails("x.zarr is a Zarr store, which needs zarr", call, kind=psr.LibraryError)
    for library, check in (("h5py", hdf5), ("zarr", zarr_stores)):
        try:
            check(folder)
        except ModuleNotFoundError:
            assert library not in sys.modules
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
