"""Files that are short, wrong or cannot be written, arguments that are wrong on one rank: an error on every rank, no hang.

What a failed save() would have replaced stays as it was, and no temporary file is left. Argument: folder.
"""

from __future__ import annotations

import os
import resource
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.files import slabs, writing

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
SHAPE = (30, 20)


def fails(message: str, call: Callable[[], Any], only: int | None = None, kind: type = psr.FileError) -> None:
    """Every rank gets an error of the kind with the message; with `only`, that one does, and the others are told by it."""
    expected = kind if only in (None, RANK) else psr.CollectiveError
    with pytest.raises(expected) as caught:
        call()
    assert caught.type is expected
    assert message in str(caught.value), str(caught.value)
    if expected is psr.CollectiveError:
        assert f"rank {only} could not take part: {kind.__name__}" in str(caught.value), str(caught.value)
    WORLD.Barrier()


def on_first(action: Callable[[], Any]) -> None:
    if RANK == 0:
        action()
    WORLD.Barrier()


def reading(desc: psr.Descriptor, folder: Path) -> None:
    whole = np.arange(600.0).reshape(SHAPE)
    good, bad = folder / "good.npy", folder / "bad.npy"
    on_first(lambda: np.save(good, whole))
    content = good.read_bytes()
    fails("No such file", lambda: psr.load(desc, folder / "missing.npy"))
    fails("Is a directory", lambda: psr.load(desc, folder / "folder.npy"))
    for through in ("slabs", "view"):
        for length, text in (
            (len(content) - 1, "is cut short: it has 4927 bytes"),
            (100, "is not a .npy file"),
            (9, "is not a .npy file"),
            (3, "is not a .npy file"),
            (0, "is not a .npy file"),
        ):
            on_first(lambda length=length: bad.write_bytes(content[:length]))
            fails(text, lambda through=through: psr.load(desc, bad, through=through))
    for text, changed in (
        ("the magic string is not correct", b"x" + content[1:]),
        ("version (9, 0)", content[:6] + bytes((9, 0)) + content[8:]),
        ("is not a .npy file", content[:8] + struct.pack("<H", 60000) + content[10:]),
        ("is not a .npy file", content.replace(b"'descr'", b"'desc!'")),
        ("is not a .npy file", content.replace(b"'<f8'", b"'what'")),
        ("holds elements of dtype object", content.replace(b"'<f8'", b"'|O' ")),
        ("shape (20, 30), but desc has shape (30, 20)", content.replace(b"(30, 20)", b"(20, 30)")),
        ("shape (600,), but desc has shape (30, 20)", content.replace(b"(30, 20)", b"(600,)  ")),
    ):
        on_first(lambda changed=changed: bad.write_bytes(changed))
        fails(text, lambda: psr.load(desc, bad))
    fails("cannot hold without loss", lambda: psr.load(desc, good, dtype="f4"))
    fails("order = 'F' is for raw files", lambda: psr.load(desc, good, order="F"))
    fails("dataset = 'x' is for HDF5", lambda: psr.load(desc, good, dataset="x"))
    fails("through = 'pipe' must be", lambda: psr.load(desc, good, through="pipe"))
    raw = folder / "raw.bin"
    on_first(lambda: whole.tofile(raw))
    fails("does not tell its dtype", lambda: psr.load(desc, raw))
    fails(
        "has 4800 bytes, but an array of shape (30, 20) of float32 ends at byte 2400",
        lambda: psr.load(desc, raw, dtype="f4"),
    )
    fails("ends at byte 9600", lambda: psr.load(desc, raw, dtype="D"))
    fails("ends at byte 4801", lambda: psr.load(desc, raw, dtype="d", offset=1))
    fails("order = 'A' must be", lambda: psr.load(desc, raw, dtype="d", order="A"))
    fails("dtype = object", lambda: psr.load(desc, raw, dtype=object))
    archive = folder / "archive.npz"
    on_first(lambda: archive.write_bytes(bytes(8) + whole.tobytes()))
    for dtype in None, "d":
        fails(
            "archive of several arrays is not read here: keep", lambda dtype=dtype: psr.load(desc, archive, dtype=dtype)
        )
    fails("archive of several arrays is not read here: keep", lambda: psr.shape_of(archive))
    found = psr.load(desc, archive, dtype="d", offset=8)  # who says where elements begin may read them
    assert np.array_equal(found, desc.from_function(lambda i, j: whole[i, j]))
    assert (psr.shape_of(good), psr.dtype_of(good)) == (SHAPE, np.float64)
    assert (psr.shape_of(good, comm=WORLD), psr.dtype_of(good, comm=WORLD)) == (SHAPE, np.float64)
    for comm in (None, WORLD):
        fails("No such file", lambda comm=comm: psr.shape_of(folder / "missing.npy", comm=comm))
        fails("has no header that tells", lambda comm=comm: psr.shape_of(raw, comm=comm))
        fails("path = 3 must be", lambda comm=comm: psr.shape_of(3, comm=comm))
    fails("comm = 7 must be an mpi4py Intracomm", lambda: psr.shape_of(good, comm=7))  # type: ignore[arg-type]
    if SIZE == 1:
        return
    last = SIZE - 1
    # The first rank reads for all, wherever the others would look.
    assert psr.shape_of(good if RANK == 0 else folder / "missing.npy", comm=WORLD) == SHAPE
    fails("No such file", lambda: psr.shape_of(good if RANK else folder / "missing.npy", comm=WORLD))
    out = desc.zeros("d") if last != RANK else np.zeros((1, 1))
    fails("out has shape (1, 1)", lambda: psr.load(desc, good, out), only=last, kind=psr.ArrayError)
    fails("path = 3 must be", lambda: psr.load(desc, 3 if last == RANK else good), only=last)  # type: ignore[arg-type]
    with pytest.raises(psr.CollectiveError, match="what is asked of the file must be the same on every rank"):
        psr.load(desc, folder / f"{RANK}.npy")
    kept, slabs._read = slabs._read, broken if last == RANK else slabs._read
    fails("Input/output error", lambda: psr.load(desc, good), only=last)
    slabs._read = kept
    assert np.array_equal(psr.load(desc, good), desc.from_function(lambda i, j: whole[i, j]))


def broken(*_: object) -> None:
    raise OSError(5, "Input/output error")


def saving(desc: psr.Descriptor, folder: Path) -> None:
    local, target = desc.zeros("d"), folder / "kept.npy"
    on_first(lambda: target.write_bytes(b"what was there"))
    fails(
        "x.npy cannot be written: there is no directory nowhere/here;",
        lambda: psr.save(desc, local, "nowhere/here/x.npy"),
    )
    fails(f"there is no directory {target};", lambda: psr.save(desc, local, target / "x.npy"))
    for name, text in (
        (
            "a.npz",
            "NumPy's archive of several arrays is not written here: give a name in .npy, .h5 or .hdf5, or another",
        ),
        ("a.CSV", "text separated by commas is not written here"),
        ("a.mat", "MATLAB's format is not written here"),
        ("a.zarr", "Zarr is not written here"),
    ):
        fails(text, lambda name=name: psr.save(desc, local, folder / name))
        assert not (folder / name).exists()
    psr.save(desc, local, folder / "CAPITAL.NPY")
    assert np.array_equal(np.load(folder / "CAPITAL.NPY"), np.zeros(SHAPE))
    loaded = psr.load(desc, folder / "CAPITAL.NPY")
    assert loaded is not None
    assert not loaded.any()
    if MPI.get_vendor()[0] == "Open MPI":  # which would end the program
        long = folder / ("d" * 240) / "x.npy"
        on_first(long.parent.mkdir)
        fails("use a shorter one", lambda: psr.save(desc, local, long))
        assert not os.listdir(long.parent)
        WORLD.Barrier()  # all have looked
        on_first(lambda: np.save(long, np.zeros(SHAPE)))
        fails("use a shorter one", lambda: psr.load(desc, long))
    private = folder / "private.npy"
    on_first(lambda: (private.write_bytes(b""), private.chmod(0o600)))
    begun, modes = writing._begin, []

    def looked_at(temporary: str, *rest: Any) -> Any:
        made = begun(temporary, *rest)
        modes.append(os.stat(temporary).st_mode & 0o777)
        return made

    writing._begin = looked_at
    psr.save(desc, local, private)
    writing._begin = begun
    assert modes == ([0o600] if RANK == 0 else [])
    assert private.stat().st_mode & 0o777 == 0o600
    WORLD.Barrier()  # all have looked
    on_first(lambda: [(folder / name).unlink() for name in ("CAPITAL.NPY", "private.npy")])
    fails("is not an ordinary file", lambda: psr.save(desc, local, folder / "folder.npy"))
    fails("is not an ordinary file", lambda: psr.save(desc, local, "/dev/full"))
    fails("order = 'K' must be", lambda: psr.save(desc, local, target, order="K"))
    if os.geteuid():
        on_first(lambda: (folder / "closed").mkdir(0o500))
        fails("Permission denied", lambda: psr.save(desc, local, folder / "closed" / "x.npy"))
    kept = slabs._write
    last = SIZE - 1
    slabs._write = broken if last == RANK else kept
    fails("Input/output error", lambda: psr.save(desc, local, target), only=last)
    slabs._write = kept
    if SIZE > 1:
        mine = local if last != RANK else np.zeros((1, 1))
        fails("local has shape (1, 1)", lambda: psr.save(desc, mine, target), only=last, kind=psr.ArrayError)
        with pytest.raises(psr.CollectiveError, match="the dtype must be the same on every rank"):
            psr.save(desc, local.astype("f" if last == RANK else "d"), target)
    # A full disk: found when room is made; where that is not offered, when ranks write.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    for through in ("slabs", "view"):
        fails("there is no room for 4928 bytes", lambda through=through: psr.save(desc, local, target, through=through))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    begin = writing._begin
    writing._begin = lambda *arguments: limited(begin(*arguments), hard)
    WORLD.Barrier()
    ones = desc.from_function(lambda i, j: 1.0 + 0 * i * j)
    for through in ("slabs", "view"):  # some MPIs write nothing in a collective call and say that all is well
        with pytest.raises(
            (psr.FileError, psr.CollectiveError), match=r"FileError|File too large|could be written|I/O error|not what"
        ):
            psr.save(desc, ones, target, through=through)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        WORLD.Barrier()
    writing._begin = begin
    WORLD.Barrier()
    assert target.read_bytes() == b"what was there"
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]

    WORLD.Barrier()
    on_first(lambda: (os.chmod(target, 0o640), os.symlink(target, folder / "link.npy")))
    psr.save(desc, local, folder / "link.npy")
    assert (folder / "link.npy").is_symlink()
    assert np.array_equal(np.load(target), np.zeros(SHAPE))
    assert target.stat().st_mode & 0o777 == 0o640


def limited(made: Any, hard: int) -> Any:
    """The first rank can write no more of the file than its beginning."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    return made


def main() -> None:
    folder = Path(sys.argv[1])
    on_first(lambda: (folder / "folder.npy").mkdir())
    rows = next(n for n in (2, 1) if SIZE % n == 0)
    desc = psr.Descriptor(SHAPE, (4, 3), psr.ProcessGrid((rows, SIZE // rows), WORLD))
    reading(desc, folder)
    saving(desc, folder)
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
