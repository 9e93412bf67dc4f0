"""Files of many arrays. Arguments: "save", "load", "append", "errors", "foreign", "left" or "killed"; folder, name, and a seed.

What "save" writes "load" compares, on any number of ranks. "killed" looks at the file, which must be that of a save that was
complete, saves on, and is killed at a moment that depends on the seed; "left" looks at it alone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.files import checkpoint, containers, replacement

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
LAST = SIZE - 1
FOLDER, NAME = Path(sys.argv[2]), sys.argv[3]
PATH = FOLDER / NAME
ROWS = psr.ProcessGrid((SIZE, 1), WORLD)
FIRST = psr.ProcessGrid((1, 1), WORLD, ranks=[[LAST]])
U, H = np.add.outer(100.0 * np.arange(53), np.arange(40)), np.exp(1j * np.arange(21.0)).astype("c8").reshape(3, 7)
RECORDS = np.array([(1, 2.5), (-3, 0.0)], [("number", "<i4"), ("weight", "<f8")])
VALUES: dict[str, Any] = {
    "step": 17, "huge": -(3**100), "negative zero": -0.0, "nothing": float("nan"), "phase": 1 - 2j, "done": True,
    "text": "hé \U0001f600\n", "names": ["x", "", "ÿ"], "no names": [], "empty": np.zeros((0, 3)), "records": RECORDS,
    "grid/edges": np.arange(6, dtype=">i2").reshape(2, 3), "grid/scale": np.float32(2.5), "grid/flag": np.bool_(False),
    "cube": np.arange(8.0).reshape(2, 2, 2).T, "point": np.array(3), "bytes": np.array([b"ab", b"c"]), "word": np.bytes_(b"ab"),
    "100% 'odd'.npy/~": 1,
}  # fmt: skip
ATTRIBUTES: dict[str, Any] = {
    "u": {"units": "eV", "count": 3, "mask": np.array([[True, False]]), "axes": ["x", "y"], "shift": 1j, "on": False},
    "step": {"window": [1, 2], "z": np.array([1j, 2]), "scale": np.float32(0.5)},
}


def of(whole: np.ndarray[Any, Any], desc: psr.Descriptor) -> psr.DistributedArray:
    return psr.DistributedArray.from_function(desc, lambda *indices: whole[indices])


def arrays() -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Entries of all kinds and layouts, and the elements that they must have."""
    u = of(U, psr.Descriptor(U.shape, (8, 8), ROWS))
    h = of(H, psr.Descriptor(H.shape, 2, FIRST))
    copies = of(U, psr.Descriptor(U.shape, (4, None), psr.ProcessGrid((1, SIZE), WORLD), axes=[0, None]))
    tiles = psr.Tiles([0, 20, 53], [0, 40], [[LAST], [0]], WORLD)
    reals = np.arange(30.0).reshape(5, 6).astype(">f8")
    part = np.asfortranarray(u.local)[::-1][::-1]
    entries = {
        "u": u,
        "fields/h": h,
        "fields/copies": copies,
        "pair": (u.desc, u.local),
        "gaps": (u.desc, part),
        "part": u[3:50, 2:30],
        "tiles": u.redistribute(tiles),
        "big-endian": of(reals, psr.Descriptor(reals.shape, 1, ROWS)),
        "none": psr.zeros((0, 5), WORLD, dtype="i2"),
        "line": of(np.arange(9) % 2 == 0, psr.Descriptor((9,), 2, psr.ProcessGrid((SIZE,), WORLD))),
    }
    wholes = dict.fromkeys(("u", "fields/copies", "pair", "gaps", "tiles"), U) | {"fields/h": H, "part": U[3:50, 2:30]}
    return entries, wholes | {"big-endian": reals, "none": np.zeros((0, 5), "i2"), "line": np.arange(9) % 2 == 0}


def save() -> None:
    entries, _ = arrays()
    old = {"old": 1, "u": psr.zeros((3, 4), WORLD)}
    before = entries["u"].local.copy()
    for saved in (old, VALUES | entries):
        psr.save(saved, PATH, attributes={key: ATTRIBUTES[key] for key in ATTRIBUTES if key in saved})
    assert np.array_equal(entries["u"].local, before)
    assert beside() == [NAME]
    if PATH.is_dir() and not PATH.suffix:  # the arrays of the old one are gone
        assert len(os.listdir(PATH)) == 2, os.listdir(PATH)


def beside() -> list[str]:
    """What is in the folder, when all have come here. Collective."""
    WORLD.Barrier()
    names = sorted(os.listdir(FOLDER))
    WORLD.Barrier()
    return names


def same(value: Any, expected: Any) -> bool:
    if isinstance(expected, np.ndarray | np.generic):
        return (
            type(value) is type(expected)
            and value.dtype == expected.dtype
            and value.shape == expected.shape
            and value.tobytes() == expected.tobytes()
        )
    return type(value) is type(expected) and repr(value) == repr(expected)


def load() -> None:
    _, wholes = arrays()
    loaded = psr.load(PATH, WORLD)
    assert set(loaded) == {*VALUES, *wholes}
    for name, expected in VALUES.items():
        assert same(loaded[name], expected), (name, loaded[name])
    for name, whole in wholes.items():
        array = loaded[name]
        assert array.desc == psr.zeros(whole.shape, WORLD).desc, name
        assert same(array.gather(None), np.asfortranarray(whole.astype(whole.dtype.newbyteorder("=")))), name

    # parts of it, in other layouts
    columns = psr.Descriptor(U.shape, (5, 3), psr.ProcessGrid((1, SIZE), WORLD))
    tiles = psr.Tiles([0, 1, 53], [0, 40], [[0], [LAST]], WORLD)
    cube = psr.Descriptor((2, 2, 2), 1, psr.ProcessGrid((1, 1, SIZE), WORLD))
    layouts = {"u": columns, "tiles": tiles, "cube": cube, "pair": psr.zeros(U.shape, WORLD, layout="columns")}
    some = psr.load(PATH, WORLD, names=("step", *layouts, "gaps"), layouts=layouts, layout="columns")
    assert list(some) == ["step", *layouts, "gaps"]
    for name, desc in layouts.items():
        assert some[name].desc == getattr(desc, "desc", desc), name
        assert np.array_equal(some[name].gather(None), wholes.get(name, VALUES.get(name))), name
    assert some["gaps"].desc == layouts["pair"].desc
    assert psr.load(PATH, WORLD, names=("u",), layouts={"u": f"1x{SIZE}:5x3"})["u"].desc == columns
    assert np.array_equal(psr.load(PATH, WORLD, dataset="fields/h").gather(None), H)

    file = psr.open(PATH, WORLD)
    assert list(file) == sorted(loaded)
    assert len(file) == len(loaded)
    assert "u" in file
    assert "v" not in file
    assert file.get("v") is None
    assert file.shapes["u"] == U.shape
    assert file.dtypes["fields/h"] == "c8"
    assert file.shapes["names"] == (3,)
    assert "fields/h" in repr(file)
    assert "3x7" in repr(file)
    for name, own in ATTRIBUTES.items():
        kept = file.attributes[name]
        assert set(kept) == set(own)
        for key, value in own.items():
            expected = np.array(value) if key == "window" else value.item() if key == "scale" else value
            assert same(kept[key], expected), (name, key, kept[key])
    assert file.attributes["pair"] == {}
    assert file["step"] == 17
    assert np.array_equal(file["u"].gather(None), U)
    assert file.load(("step",)) == {"step": 17}


def append() -> None:
    """New entries beside old ones; the names that are there are refused, and nothing has changed then."""
    u = of(U, psr.Descriptor(U.shape, 8, ROWS))
    psr.save({"u": u, "step": 1}, PATH, append=True)
    psr.save({"v": u, "g/t": "text", "w": np.arange(3)}, PATH, append=True, attributes={"v": {"units": "m"}})
    psr.save(u[:5, :], PATH, dataset="g/one", append=True, attributes={"g/one": {"units": "s"}})
    assert psr.open(PATH, WORLD).attributes["g/one"] == {"units": "s"}
    names = ["g/one", "g/t", "step", "u", "v", "w"]
    for entry, text in (
        ({"new": 1, "u": u}, "has an entry 'u', and append=True adds new ones"),
        ({"u/x": 1}, "the name 'u' is an entry, and a group in 'u/x'"),
        ({"g": 1}, "the name 'g' is an entry, and a group in"),
    ):
        fails(text, lambda entry=entry: psr.save(entry, PATH, append=True, comm=WORLD))
    with pytest.MonkeyPatch.context() as patch:
        if RANK == LAST:
            patch.setattr(checkpoint, "local_array", broken_later(1))
        fails("Input/output error", lambda: psr.save({"k/bad": u, "worse": 2}, PATH, append=True), LAST)
    file = psr.open(PATH, WORLD)
    assert list(file) == names
    assert file.attributes["v"] == {"units": "m"}
    assert np.array_equal(file["v"].gather(None), U)
    assert np.array_equal(file["g/one"].gather(None), U[:5])
    assert file["g/t"] == "text"
    psr.save({"k": 1, "bad": u}, PATH, append=True)
    assert "k" not in file
    assert len(psr.open(PATH, WORLD)) == len(names) + 2
    psr.save({"step": 2}, PATH, comm=WORLD)
    assert psr.load(PATH, WORLD) == {"step": 2}
    fails("was replaced or changed since it was opened: open it again", lambda: file["step"])

    failed_append(u)
    one_array(u)
    if PATH.suffix == ".zarr":
        of_zarr(u)
    if PATH.suffix == ".h5":
        full_disk_in_append()


def failed_append(u: psr.DistributedArray) -> None:
    """What a failed append leaves, where it cannot be removed, no reader sees; the next one removes it."""
    psr.save({"old": 1}, PATH, comm=WORLD)
    for kind in (containers.Hdf5File, containers.ZarrGroup, containers.Folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, "discard", lambda self: None)
            if RANK == LAST:
                patch.setattr(checkpoint, "local_array", broken_later(1))
            fails("Input/output error", lambda: psr.save({"g/bad": u, "worse": 2}, PATH, append=True), LAST)
    assert psr.load(PATH, WORLD) == {"old": 1}
    psr.save({"g/bad": u}, PATH, append=True)
    assert list(psr.load(PATH, WORLD)) == ["g/bad", "old"]
    assert beside() == [NAME]
    if not PATH.suffix:
        assert len(os.listdir(PATH)) == 2, os.listdir(PATH)
    if PATH.suffix == ".h5" and RANK == 0:
        import h5py

        with h5py.File(PATH) as file:
            assert list(file) == ["g", "old"]
    WORLD.Barrier()


def one_array(u: psr.DistributedArray) -> None:
    """A file of one array, or of another program, stays one after an append, and is not replaced as one of save()."""
    path = FOLDER / f"one{PATH.suffix}"
    if PATH.suffix == ".h5":
        psr.save(u, path)
        with pytest.MonkeyPatch.context() as patch:
            if RANK == LAST:
                patch.setattr(checkpoint, "local_array", broken_later(1))
            fails("Input/output error", lambda: psr.save({"bad": u}, path, append=True), LAST)
        assert np.array_equal(psr.load(path, WORLD).gather(None), U)
        psr.save({"v": 1}, path, comm=WORLD, append=True)
        assert np.array_equal(psr.load(path, WORLD).gather(None), U)


def of_zarr(u: psr.DistributedArray) -> None:
    import zarr

    def on_first(action: Callable[[], Any]) -> None:
        if RANK == 0:
            action()
        WORLD.Barrier()

    psr.save({"u": u}, PATH)
    on_first(lambda: zarr.consolidate_metadata(PATH))
    psr.save({"v": 1}, PATH, append=True, comm=WORLD)
    assert psr.load(PATH, WORLD, names=("v",)) == {"v": 1}
    assert "v" in zarr.open_group(PATH, mode="r")
    (PATH / "notes").mkdir(exist_ok=True)
    WORLD.Barrier()
    fails(
        "has 'notes', a group or another file", lambda: psr.save({"a/b": 1, "notes": 1}, PATH, append=True, comm=WORLD)
    )
    assert (PATH / "notes").is_dir()
    assert not (PATH / "a").exists()
    fails("notes, which save() has not made", lambda: psr.save({"v": 1}, PATH, comm=WORLD))
    on_first((PATH / "notes").rmdir)
    foreign = FOLDER / "foreign.zarr"
    on_first(lambda: zarr.create_group(foreign).create_array("a", data=np.arange(3)))
    psr.save({"v": 1}, foreign, append=True, comm=WORLD)
    fails("is a Zarr group, and would be replaced", lambda: psr.save({"v": 1}, foreign, comm=WORLD))
    assert set(psr.load(foreign, WORLD)) == {"a", "v"}


def full_disk_in_append() -> None:
    """The old file stays whole: HDF5 has the space before it writes, for text, attributes and groups too."""
    psr.save({"old": 1}, PATH, comm=WORLD)
    before = PATH.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    groups = {"/".join(f"g{k}" for k in range(i, i + 40)): 1 for i in range(20)}
    for entries, own in (({"t": "\U0001f600" * 100000}, {}), ({"t": 1}, {"a": "x" * 300000}), (groups, {})):
        WORLD.Barrier()
        resource.setrlimit(resource.RLIMIT_FSIZE, (before + 200000, hard))
        try:
            attributes = {"t": own} if own else None
            fails(
                "no space for", lambda e=entries, a=attributes: psr.save(e, PATH, append=True, comm=WORLD, attributes=a)
            )
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert psr.load(PATH, WORLD) == {"old": 1}
        assert PATH.stat().st_size == before


def broken(*_: object) -> None:
    raise OSError(5, "Input/output error")


def broken_later(calls: int) -> Callable[..., Any]:
    """`local_array`, which fails after so many calls: the file is there then, and the array is not written."""
    left, check = iter(range(calls)), checkpoint.local_array
    return lambda *arguments: broken() if next(left, None) is None else check(*arguments)


def fails(message: str, call: Callable[[], Any], only: int | None = None, kind: type = psr.FileError) -> None:
    """Every rank gets an error of the kind with the message; with `only`, that one does, and the others are told by it."""
    expected = kind if only in (None, RANK) else psr.CollectiveError
    with pytest.raises(expected) as caught:
        call()
    assert message in str(caught.value), str(caught.value)
    WORLD.Barrier()


def errors() -> None:
    u = of(U, psr.Descriptor(U.shape, 8, ROWS))
    good = {"u": u, "step": 17, "fields/h": of(H, psr.Descriptor(H.shape, 2, FIRST))}
    psr.save(good, PATH)
    listing = contents()

    def save(entries: Any, **options: Any) -> Callable[[], None]:
        return lambda: psr.save(entries, PATH, **options)

    array_error, layout_error = {"kind": psr.ArrayError}, {"kind": psr.DescriptorError}
    for name in ("", "/a", "a/", "a//b", "a/../b", "."):
        fails(f"the name of an entry = {name!r} must have nonempty parts", save(good | {name: 1}))
    refusals: list[tuple[str, Callable[[], Any], dict[str, Any]]] = [
        ("has a NUL or a surrogate", save(good | {"a\0": 1}), {}),
        ("has a backslash", save(good | {"a\\b": 1}), {}),
        ("has 'zarr.json', which files need", save(good | {"a/zarr.json": 1}), {}),
        ("has '...', which files need", save(good | {"...": 1}), {}),
        ("which attributes cannot have", save(good, attributes={"u": {"k": np.datetime64("2020-01-01", "ns")}}), array_error),
        ("which attributes cannot have", save(good, attributes={"u": {"k": np.void(b"abc")}}), array_error),
        ("the mask would be lost", save(good, attributes={"u": {"k": np.ma.array([1, 2], mask=[0, 1])}}), array_error),
        ("must be text, a number", save(good, attributes={"u": {"k": [2**63 + 1, 1]}}), array_error),
        ("must be text, a number", save(good, attributes={"u": {"k": [2**53 + 1, 0.5]}}), array_error),
        ("is no UTF-8", save(good, attributes={"u": {"k": b"\xff"}}), array_error),
        ("append = <ndarray of shape (2,) and dtype float64> must be", save(good, append=np.zeros(2)), {}),
        ("is for a dict of entries, as", lambda: psr.save(u, PATH, attributes={"u": {"k": 1}}), {}),
        ("['u'] in names must be a str", lambda: psr.load(PATH, WORLD, names=[["u"]]), {}),
        ("the name of an entry = 3 must be a str", save(good | {3: 1}), {}),
        ("the name 'u' is an entry, and a group in 'u/v'", save(good | {"u/v": 1}), {}),
        ("entry 't' = 'a\\x00' has a NUL or a surrogate", save(good | {"t": "a\0"}), {}),
        ("entry 't'[1] = 'a\\ud800' has a NUL or a surrogate", save(good | {"t": ["", "a\ud800"]}), {}),
        ("entry 'x' is None: leave it out", save(good | {"x": None}), array_error),
        ("entry 'x' is a dict: names with '/' make groups", save(good | {"x": {"a": 1}}), array_error),
        ("entry 'x' = [1, 2] must be a list of str, a pair", save(good | {"x": [1, 2]}), array_error),
        ("entry 'x' is a masked array", save(good | {"x": np.ma.zeros(3)}), array_error),
        ("entry 'x' has dtype object", save(good | {"x": np.array([None])}), array_error),
        ("entry 'x' is a set", save(good | {"x": {1}}), array_error),
        ("bits: at most", save(good | {"x": 1 << 10000}), array_error),
        ("attributes has 'v', which is no entry", save(good, attributes={"v": {}}), array_error),
        ("attributes = 3 must be a dict", save(good, attributes=3), array_error),
        ("attributes['u'] = 3 must be a dict", save(good, attributes={"u": 3}), array_error),
        ("attributes['u'] has the name ''", save(good, attributes={"u": {"": 1}}), {}),
        ("attributes['u']['k']: {1} must be text, a number", save(good, attributes={"u": {"k": {1}}}), array_error),
        ("attributes['u']['k']: ", save(good, attributes={"u": {"k": [1, [2, 3]]}}), array_error),
        ("has more than 64 bits", save(good, attributes={"u": {"k": 2**70}}), array_error),
        ("chunks = 3 is for the save of one array in a file: omit it", save(good, chunks=3), {}),
        ("no entry is a distributed array", save({"step": 1}), layout_error),
        ("go into HDF5 (a name in .h5", lambda: psr.save(good, FOLDER / "run.npz"), {}),
        ("there is no directory", lambda: psr.save(good, FOLDER / "absent" / "run.h5"), {}),
        ("has no entry 'v'; it has 'fields/h', 'step', 'u'", lambda: psr.load(PATH, WORLD, names=("v",)), {}),
        ("names = 'u' must be a sequence", lambda: psr.load(PATH, WORLD, names="u"), {}),
        ("layouts has 'step', which is no array", lambda: psr.load(PATH, WORLD, layouts={"step": u.desc}), layout_error),
        ("must be a layout of shape (3, 7)", lambda: psr.load(PATH, WORLD, layouts={"fields/h": u.desc}), layout_error),
        ("layouts['u'] = '2x' must be 'rows', 'columns', or", lambda: psr.load(PATH, WORLD, layouts={"u": "2x"}), layout_error),
        ("layouts = 3 must be a dict", lambda: psr.load(PATH, WORLD, layouts=3), layout_error),
        ("layout = 'x' must be 'rows', 'columns', or", lambda: psr.load(PATH, WORLD, layout="x"), layout_error),
        ("dtype = 'f4' is for one array", lambda: psr.load(PATH, WORLD, dtype="f4"), {}),
        ("names= and layouts= are for load(path, comm)", lambda: psr.load(u.desc, PATH, names=("u",)), {}),
        ("has no entry 'v'", lambda: psr.open(PATH, WORLD)["v"], {"kind": KeyError}),
        ("No such file", lambda: psr.open(FOLDER / f"absent{PATH.suffix}", WORLD), {}),
        ("comm = None", lambda: psr.open(PATH, None), layout_error),
    ]  # fmt: skip
    for text, call, options in refusals:
        fails(text, call, **options)
    if SIZE > 1:
        differ = {"kind": psr.CollectiveError}
        fails("entry 'step' must be the same on every rank", save(good | {"step": RANK}), **differ)
        fails("entry 'w' must be the same", save(good | {"w": np.full(3, RANK)}), **differ)
        fails("entry 'step' must be the same", save(good | {"step": 0.0 if RANK == LAST else 0}), **differ)
        fails("the names must be the same", save(good | {f"x{RANK}": 1}), **differ)
        fails("path must be the same", lambda: psr.save(good, FOLDER / f"{RANK}{PATH.suffix}"), **differ)
        fails("append must be the same", save(good, append=RANK == LAST), **differ)
        fails("attributes['u'] must be the same", save(good, attributes={"u": {"k": RANK}}), **differ)
        blocks = psr.Descriptor(U.shape, 8 + RANK % 2, ROWS)
        fails(
            "the layout of entry 'u' must be the same",
            save({"u": psr.DistributedArray(blocks, blocks.zeros())}),
            **differ,
        )
        other = psr.DistributedArray(u.desc, u.local.astype("f4" if RANK == LAST else "f8"))
        fails(f"and float32 on rank {LAST}", save({"u": other}), 0, psr.ArrayError)
        fails("entry 'x' is None", save(good | {"x": None if RANK == LAST else 1}), LAST, psr.ArrayError)
        fails("names must be the same", lambda: psr.load(PATH, WORLD, names=("u",) if RANK else ("step",)), **differ)
        fails("the layout of 'u' must be", lambda: psr.load(PATH, WORLD, layouts={"u": blocks}), **differ)
        fails(
            "ranks ask for different things",
            lambda: psr.load(PATH, WORLD, **({"names": ("u",)} if RANK else {})),
            **differ,
        )
        found = psr.open(PATH, WORLD)
        fails(
            "whether there is an entry of the name must be", lambda: found.get("v" if RANK == LAST else "u"), **differ
        )
        fails("has no name", lambda: psr.load(Unnamed(), WORLD), LAST)
        fails("has no name", lambda: psr.save(u, Unnamed(), append=True, dataset="x"), LAST)
    assert contents() == listing

    # A rank that cannot write, and a rename that fails.
    for module, attribute, action, only in (
        (replacement, "_finish", broken, None),
        (checkpoint, "local_array", broken_later(2), LAST),
    ):
        with pytest.MonkeyPatch.context() as patch:
            if only in (None, RANK):
                patch.setattr(module, attribute, action)
            fails("Input/output error", save({"u": u, "v": u, "step": 18}), only)
        assert contents() == listing, (attribute, contents(), listing)
    other_folder(u)
    disk_full(u, listing)
    if PATH.suffix == ".zarr":
        left_aside()
    if not PATH.suffix:
        of_another_machine()
    assert psr.load(PATH, WORLD, names=("step",)) == {"step": 17}
    pipes(u)
    of_equal_values()


class Unnamed(os.PathLike[str]):
    """A path whose name one rank does not know."""

    def __fspath__(self) -> str:
        if RANK == LAST:
            raise RuntimeError("no name")
        return str(PATH)

    __repr__ = __fspath__


def pipes(u: psr.DistributedArray) -> None:
    """A pipe in place of the file, or of the index: it is not opened, which would wait."""
    folder = FOLDER / f"pipe{PATH.suffix}"
    pipe = {".h5": folder, ".zarr": folder / "zarr.json"}.get(PATH.suffix, folder / "index.json")
    if RANK == 0:
        pipe.parent.mkdir(exist_ok=True)
        os.mkfifo(pipe)
    WORLD.Barrier()
    for call in (
        lambda: psr.load(folder, WORLD),
        lambda: psr.open(folder, WORLD),
        lambda: psr.save({"u": u}, folder, append=True),
        lambda: psr.save({"u": u}, folder),
    ):
        fails("is not an ordinary file", call)


class Mode(str):
    """Text of a class of its own, as enumerations have it."""

    __slots__ = ()

    def __str__(self) -> str:
        return "Mode.FAST"


def of_equal_values() -> None:
    """Text of subclasses of str is their own; numbers are equal whatever the bytes between them are."""
    psr.save({"mode": Mode("fast")}, PATH, comm=WORLD, attributes={"mode": {"k": Mode("fast")}})
    assert psr.load(PATH, WORLD) == {"mode": "fast"}
    assert psr.open(PATH, WORLD).attributes == {"mode": {"k": "fast"}}
    padded = np.zeros(2, np.dtype("i1, f8", align=True))
    padded.view(np.uint8)[1] = RANK
    psr.save({"padded": padded}, PATH, comm=WORLD)
    if not PATH.suffix:  # files of arrays are as private as the index
        WORLD.Barrier()
        if RANK == 0:
            (PATH / "index.json").chmod(0o600)
        WORLD.Barrier()
        psr.save({"w": np.arange(3)}, PATH, comm=WORLD)
        assert {path.stat().st_mode & 0o777 for path in PATH.rglob("*.npy")} == {0o600}


def contents() -> list[str]:
    """All files under the folder, with their times of change, when all have come here. Collective."""
    WORLD.Barrier()
    files = sorted(f"{path} {path.stat().st_mtime_ns}" for path in FOLDER.rglob("*") if path.is_file())
    WORLD.Barrier()
    return files


def other_folder(u: psr.DistributedArray) -> None:
    """What is not ours is not replaced."""
    foreign, texts = FOLDER / f"foreign{PATH.suffix}", {".h5": "is not an ordinary file", ".zarr": "is no Zarr store"}
    if RANK == 0:
        foreign.mkdir()
        (foreign / "notes.txt").write_text("mine")
    WORLD.Barrier()
    fails(texts.get(PATH.suffix, "is a folder with notes.txt"), lambda: psr.save({"u": u}, foreign))
    assert os.listdir(foreign) == ["notes.txt"]
    WORLD.Barrier()
    if RANK == 0:
        (foreign / "notes.txt").unlink()
        foreign.rmdir()
        if not PATH.suffix:
            foreign.write_text("mine")
    WORLD.Barrier()
    if not PATH.suffix:
        fails("is a file, and would be a folder", lambda: psr.save({"u": u}, foreign))
        WORLD.Barrier()
        if RANK == 0:
            foreign.unlink()
        WORLD.Barrier()


def disk_full(u: psr.DistributedArray, listing: list[str]) -> None:
    """No file may be larger than 2 KiB: an error on all ranks, and all is as it was."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))
    try:
        with pytest.raises((psr.FileError, psr.CollectiveError)):
            psr.save({"u": u, "w": np.random.default_rng(1).random(1000)}, PATH)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents() == listing


def left_aside() -> None:
    """A store under a temporary name, as where names cannot be exchanged."""
    aside = Path(WORLD.bcast(replacement.temporary_name(str(PATH))))
    for name in (aside, PATH):
        WORLD.Barrier()
        if RANK == 0:
            (PATH if name is aside else aside).rename(name)
        WORLD.Barrier()
        if name is aside:
            for call in (lambda: psr.load(PATH, WORLD), lambda: psr.open(PATH, WORLD)):
                fails(f"is not there, but {aside}: a save was killed between two renames", call)


def of_another_machine() -> None:
    """A subfolder that a save on another machine may still be writing stays, with a warning."""
    other = PATH / "data.0123456789ab.1.1.0123456789ab.saved"
    if RANK == 0:
        other.mkdir()
    WORLD.Barrier()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        psr.save({"step": 17}, PATH, comm=WORLD)
    assert [warning.category for warning in caught] == [RuntimeWarning] * (RANK == 0)
    assert all(str(other) in str(warning.message) for warning in caught)
    WORLD.Barrier()
    assert other.name in os.listdir(PATH)


UNREADABLE = ("objects", "table", "dangling")


def foreign() -> None:
    """A file of h5py or zarr alone."""
    file = psr.open(PATH, WORLD)
    expected: dict[str, Any] = {"temperature": U, "mesh/points": np.arange(6).reshape(3, 2)}
    assert file.attributes["temperature"]["units"] == "K"
    loaded = file.load([name for name in file if name not in UNREADABLE])
    for name, whole in expected.items():
        assert np.array_equal(loaded[name].gather(None), whole)
    assert loaded["steps"] == 5
    assert loaded["title"] == "a title"
    assert loaded["names"] == ["x", "y"]
    if "objects" in file:
        assert {*UNREADABLE} <= {*file}
        assert np.array_equal(loaded["soft"].gather(None), U)
        assert np.array_equal(loaded["second"].gather(None), U)
        assert loaded["data/marked"].shape == (2,)
        assert loaded["number"] == 3
        fails(
            "only numbers of fixed sizes and text can be read; give the others by names=", lambda: psr.load(PATH, WORLD)
        )
    else:
        assert set(psr.load(PATH, WORLD)) == set(loaded)


# -- programs that are killed


def generation(number: int) -> dict[str, Any]:
    u = psr.DistributedArray.from_function(psr.Descriptor((64, 50), 8, ROWS), lambda i, j: number + i * 50.0 + j)
    v = psr.DistributedArray.from_function(
        psr.Descriptor((40,), 3, psr.ProcessGrid((SIZE,), WORLD)), lambda i: number - i
    )
    return {"u": u, "fields/v": v, "step": number, "text": f"generation {number}", "w": np.full(100, number)}


def generation_saved() -> int:
    """The number of the generation in the file, which must be whole; 0 if there is none. Collective."""
    if not WORLD.bcast(PATH.exists() and (PATH.suffix != "" or (PATH / "index.json").exists())):
        return 0
    loaded = psr.load(PATH, WORLD)
    number: int = loaded["step"]
    expected = generation(number)
    assert set(loaded) == set(expected)
    for name, value in expected.items():
        if isinstance(value, psr.DistributedArray):
            assert np.array_equal(loaded[name].gather(None), value.gather(None)), (number, name)
        else:
            assert same(loaded[name], value), (number, name)
    return number


def left() -> None:
    number = generation_saved()
    psr.save(generation(number + 1), PATH)
    assert beside() == [NAME], beside()  # what killed saves have left is gone
    if not PATH.suffix:
        assert len(os.listdir(PATH)) == 2, os.listdir(PATH)
    assert generation_saved() == number + 1


def killed() -> None:
    left()
    if RANK == 0:
        print("whole", flush=True)
    number = generation_saved()
    began = time.perf_counter()
    psr.save(generation(number + 1), PATH)
    duration = WORLD.bcast(time.perf_counter() - began)
    pids = WORLD.gather(os.getpid())
    if pids is not None:
        delay = 2 * duration * random.Random(int(sys.argv[4])).random()
        subprocess.Popen(["sh", "-c", f"sleep {delay:.6f}; kill -9 {' '.join(map(str, pids))}"])
    for later in itertools.count(number + 2):
        psr.save(generation(later), PATH)


def main() -> None:
    with contextlib.suppress(ImportError):
        import h5py

        if not h5py.get_config().mpi:
            warnings.filterwarnings("ignore", message=".*built without MPI")
    {
        "save": save,
        "load": load,
        "append": append,
        "errors": errors,
        "foreign": foreign,
        "left": left,
        "killed": killed,
    }[sys.argv[1]]()
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
