"""Headers of .npy files, the pieces in which arrays are moved, and dtypes that count as equal. No MPI."""

from __future__ import annotations

import io
import math
import os
import pickle
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyscalapack_redist as psr
from pyscalapack_redist.comm.node import machine
from pyscalapack_redist.files import binary_file, progress_bar, replacement
from pyscalapack_redist.files import slabs as slabs_module
from pyscalapack_redist.files.contents import FileArray, first_element, npy_header, read_npy_header
from pyscalapack_redist.files.replacement import temporary_name
from pyscalapack_redist.files.slabs import SLAB_BYTES, Slab, slabs
from pyscalapack_redist.layout.dtypes import dtype_digest

MANY = settings(max_examples=4 * settings.default.max_examples)
UNICODE = np.dtype([("α", "<f8"), ("名前", ">i2", (3,))])
LONG = np.dtype([(f"field number {k:05}", "i1") for k in range(3000)])


@pytest.mark.parametrize(
    "dtype", [np.dtype(">c16"), np.dtype("S3"), UNICODE, LONG], ids=["numbers", "bytes", "unicode", "long"]
)
@pytest.mark.parametrize("shape", [(), (2, 0, 4), (3, 4, 5)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.filterwarnings("ignore:Stored array in format:UserWarning")
def test_headers_are_those_of_numpy(dtype: np.dtype, shape: tuple[int, ...], order: str, tmp_path: Path) -> None:
    array = np.zeros(shape, dtype, order=order)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    content, path = buffer.getvalue(), tmp_path / "x.npy"
    path.write_bytes(content)
    stored = read_npy_header(str(path))
    assert (stored.dtype, stored.shape, stored.end) == (dtype, shape, len(content))
    assert stored.offset + array.nbytes == len(content)
    if array.flags.c_contiguous == array.flags.f_contiguous:  # then NumPy says C
        assert stored.order == "C"
        order = "C"
    assert stored.order == order
    header = npy_header(dtype, shape, order)
    assert len(header) % 64 == 0
    if dtype is not UNICODE:  # NumPy leaves room there for the shape to grow
        assert header == content[: stored.offset]
    path.write_bytes(header + content[stored.offset :])
    loaded = np.load(path, max_header_size=10**6)
    assert (loaded.dtype, loaded.shape) == (dtype, shape)


@pytest.mark.parametrize(
    "header",
    [
        "'fortran_order': 3, 'shape': (2,)",
        "'fortran_order': False, 'shape': [2]",
        "'fortran_order': False, 'shape': (-2,)",
        "'fortran_order': False, 'shape': (2.0,)",
        "'fortran_order': False, 'shape': (True,)",
        "'fortran_order': False, 'shape': '''(2,)",
        pytest.param("'fortran_order': False, 'shape': " + "-" * 5000 + "2", id="deep"),
        "'fortran_order': False, 'shape': (2,), 'descr': ('<f8',)",
        "'fortran_order': False, 'shape': (2,), 'descr': ('<f8', (2,))",
    ],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_headers_that_name_no_array(header: str, version: int, tmp_path: Path) -> None:
    text = f"{{'descr': '<f8', {header}, }}\n".encode()
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    path = tmp_path / "x.npy"
    path.write_bytes(np.lib.format.magic(version, 0) + length + text + bytes(16))
    with pytest.raises(
        psr.FileError, match=r"x.npy .*is not a \.npy file that can be read|elements of dtype .* fixed size"
    ):
        psr.shape_of(path)


def test_files_that_are_no_npy_files(tmp_path: Path) -> None:
    path, text = tmp_path / "x.npy", "is not a .npy file that can be read"
    np.save(path, np.zeros((3, 4)))
    content = path.read_bytes()
    for words, changed in (
        *((text, content[:length]) for length in (100, 9, 3, 0)),
        ("the magic string is not correct", b"x" + content[1:]),
        ("version (9, 0)", content[:6] + bytes((9, 0)) + content[8:]),
        (text, content[:8] + (60000).to_bytes(2, "little") + content[10:]),
        (text, content.replace(b"'descr'", b"'desc!'")),
        (text, content.replace(b"'<f8'", b"'what'")),
        ("holds elements of dtype object", content.replace(b"'<f8'", b"'|O' ")),
        ("is cut short: it has 223 bytes", content[:-1]),
    ):
        path.write_bytes(changed)
        with pytest.raises(psr.FileError, match=re.escape(words)):
            psr.shape_of(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (3, "path = 3 must be a str"),
        ("none.npy", "No such file"),
        ("folder.npy", "Is a directory"),
        ("a.bin", "is read as raw binary, which has no header with shape and dtype"),
    ],
)
def test_what_tells_no_shape(name: Any, words: str, tmp_path: Path) -> None:
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "a.bin").write_bytes(bytes(8))
    with pytest.raises(psr.FileError, match=words):
        psr.shape_of(name if name == 3 else tmp_path / name)


@pytest.mark.parametrize("name", ["pipe.npy", "pipe.h5"])
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    for read in psr.shape_of, psr.dtype_of:
        with pytest.raises(psr.FileError, match=f"{name} is not an ordinary file"):
            read(tmp_path / name)


@MANY
@given(st.data(), st.sampled_from("CF"), st.sampled_from([0, 1, 3, 20, 1000]), st.sampled_from([1, 5, 40, 1000]))
def test_spans_are_all_of_a_window_in_order(data: st.DataObject, order: str, gap: int, limit: int) -> None:
    shape = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple))
    bounds = [sorted(data.draw(st.sets(st.integers(0, n), min_size=2, max_size=2))) for n in shape]
    window = tuple(slice(*both) for both in bounds)
    stored = FileArray(np.dtype("i4"), shape, order, 12, window)
    flat = np.arange(math.prod(shape), dtype="i4")
    wanted = flat.reshape(shape, order=order)[window]
    gathered, end = np.full(wanted.shape, -1, "i4"), 0
    turned = gathered if order == "C" else gathered.T
    for span in stored.spans(tuple(slice(0, n) for n in wanted.shape), gap, limit):
        first, others = divmod(span.start - 12, 4)[0], span.length - turned[span.part].size
        assert end <= first
        end = first + span.length
        among, box = flat[first:end], turned[span.part]
        box[...] = np.lib.stride_tricks.as_strided(among, box.shape, span.strides)
        assert others == 0 or (gap and span.length <= max(limit, 1))
        own = np.sort(box.ravel())
        assert (own[0], own[-1]) == (first, end - 1)
        assert np.diff(own).max(initial=1) <= gap + 1
    assert np.array_equal(gathered, wanted)


SHAPES_OF_SLABS = st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple)


def parts_of(slab: Slab) -> list[tuple[slice, ...]]:
    """What each process of a slab has, in the slab; those that have something."""
    axes, places = slab.layout.distributions, slab.layout.placement
    parts = {}
    for coords in np.ndindex(places.shape):
        counts = [axis.local_size(p) for axis, p in zip(axes, coords, strict=True)]
        if all(counts):
            lows = [axis.global_index(p, 0) for axis, p in zip(axes, coords, strict=True)]
            lasts = [axis.global_index(p, n - 1) for axis, p, n in zip(axes, coords, counts, strict=True)]
            assert [last - low + 1 for low, last in zip(lows, lasts, strict=True)] == counts
            parts[int(places[coords])] = tuple(slice(low, last + 1) for low, last in zip(lows, lasts, strict=True))
    return [parts[rank] for rank in sorted(parts)]


def check_slabs(shape: tuple[int, ...], item: int, order: str, ranks: int, most: int) -> int:
    """Each rank has one stretch of each slab, and these follow one another without gap; the bytes of the largest."""
    desc = psr.Descriptor(shape, None, psr.ProcessGrid((1,)))
    end = largest = count = 0
    for slab in slabs(desc, FileArray(np.dtype((np.void, item)), shape, order, 0), None, ranks):
        size = slab.layout.shape
        assert size == tuple(axis.stop - axis.start for axis in slab.part)
        assert first_element(slab.part, shape, order) == end
        held = 0
        for part in parts_of(slab):
            lengths = [axis.stop - axis.start for axis in part]
            assert first_element(part, size, order) == held
            last = tuple(slice(axis.stop - 1, axis.stop) for axis in part)
            assert first_element(last, size, order) == held + math.prod(lengths) - 1
            held += math.prod(lengths)
            assert math.prod(lengths) == 1 or math.prod(lengths) * ranks < 2 * math.prod(size)
            largest = max(largest, math.prod(lengths) * item)
        assert held == math.prod(size)
        end += held
        count += 1
    assert end == math.prod(shape)
    assert largest < 2 * max(most, item)
    assert count <= 1 + 8 * end * item // (most * ranks)
    return largest


@given(SHAPES_OF_SLABS, st.sampled_from([1, 8, 24]), st.sampled_from("CF"), st.integers(1, 12), st.integers(8, 2000))
def test_slabs_are_shared_by_all(shape: tuple[int, ...], item: int, order: str, ranks: int, most: int) -> None:
    with mock.patch.object(slabs_module, "SLAB_BYTES", most):
        check_slabs(shape, item, order, ranks, most)


@MANY
@given(st.data(), st.integers(1, 12), st.integers(8, 2000))
def test_units_have_one_rank(data: st.DataObject, ranks: int, most: int) -> None:
    """Of a window: all of it once, each unit of the whole array by one rank, and no rank with much more than its share."""
    shape = data.draw(SHAPES_OF_SLABS)
    unit = data.draw(st.tuples(*(st.integers(1, n + 2) for n in shape)))
    bounds = [sorted(data.draw(st.sets(st.integers(0, n), min_size=2, max_size=2))) for n in shape]
    window = tuple(slice(*both) for both in bounds)
    desc = psr.Descriptor([high - low for low, high in bounds], None, psr.ProcessGrid((1,)))
    array = FileArray(np.dtype("f8"), shape, "C", 0, window)
    times, writers = np.zeros(shape, int), np.full([-(-n // u) for n, u in zip(shape, unit, strict=True)], -1)
    with mock.patch.object(slabs_module, "SLAB_BYTES", most):
        pieces = [(slab.part, parts_of(slab)) for slab in slabs(desc, array, unit, ranks)]
    for number, (whole, parts) in enumerate(pieces):
        assert len(parts) <= ranks
        for rank, part in enumerate(parts):
            box = array.within(
                tuple(slice(w.start + p.start, w.start + p.stop) for w, p in zip(whole, part, strict=True))
            )
            times[box] += 1
            units = tuple(slice(b.start // u, -(-b.stop // u)) for b, u in zip(box, unit, strict=True))
            assert (writers[units] == -1).all()
            writers[units] = number * ranks + rank
            assert writers[units].size == 1 or writers[units].size * 8 * math.prod(unit) < 2 * most
    assert (times[window] == 1).all()
    assert times.sum() == times[window].sum()


@pytest.mark.parametrize("ranks", [1, 3, 64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "shape",
    [(2, 2**26), (1, 2**27), (2**26, 2), (3, 5, 7, 2**20), (63, 2**21), (2**14, 2**13 + 3)],
)
def test_slabs_of_few_rows(shape: tuple[int, ...], order: str, ranks: int) -> None:
    """A gigabyte is shared by all, however long its rows."""
    largest = check_slabs(shape, 8, order, ranks, SLAB_BYTES)
    assert largest < 2 * math.prod(shape) * 8 / ranks


def test_who_writes_a_temporary_file(tmp_path: Path) -> None:
    """A living process, one that has ended, one that has ended but is still listed, and another of the same number."""
    target = str(tmp_path / ("a+file (1).npy" * 5))
    own = temporary_name(target)
    assert Path(own).parent == tmp_path
    assert len(Path(temporary_name(str(tmp_path / ("\N{GRINNING FACE}" * 60)))).name.encode()) <= 255
    assert replacement.has_ended(own) is False
    machine, pid, start, token = Path(own).name.split(".")[-5:-1]
    with subprocess.Popen(["sleep", "60"]) as other:
        status = replacement._process(other.pid)
        assert status is not None
        named = own.replace(f".{pid}.{start}.", f".{other.pid:x}.{status.start:x}.")
        assert replacement.has_ended(named) is False
        assert replacement.has_ended(named.replace(f".{status.start:x}.", f".{status.start - 1:x}."))
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert replacement.has_ended(named)
    assert replacement.has_ended(named)
    for unknown in ("0" * 12, "0123456789ab"):
        assert replacement.has_ended(named.replace(machine, unknown)) is None
    for name in (own, named, own.replace(token, "x"), target, f"{own}.npy", str(tmp_path / f"other{token}.part")):
        Path(name).write_bytes(b"")
    os.symlink(own, named.replace(token, "123456789abc"))
    assert replacement.temporary_files_of(target) == sorted([own, named])
    assert replacement.temporary_files_of(str(tmp_path / "nowhere" / "x.npy")) == []


@pytest.mark.parametrize("name", ["node1", "node\udcff", "n\N{GREEK SMALL LETTER ALPHA}"])
def test_names_of_hosts_may_be_any_bytes(name: str, tmp_path: Path) -> None:
    """The system's function has a byte that is no UTF-8 as half of a pair of surrogates, which cannot be encoded."""
    target = str(tmp_path / "x.npy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: name)
        assert "\n".join(machine()).encode()
        replacement._machine.cache_clear()
        assert replacement.has_ended(temporary_name(target)) is False
        own = replacement._machine()
    replacement._machine.cache_clear()
    assert own != replacement._machine()


@pytest.mark.parametrize("name", ["[red]x.npy", "[bold]x.npy", "\udcff.npy"])
def test_a_bar_has_names_of_any_kind(name: str) -> None:
    pytest.importorskip("rich")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with (
        mock.patch.object(progress_bar, "on_terminal", return_value=True),
        mock.patch.object(sys, "stdout", terminal),
        progress_bar.progress_bar("save", f"folder/{name}", 100, True) as advance,
    ):
        advance(100)
    terminal.flush()
    assert f"save {name}".replace("\udcff", "\\xff") in terminal.buffer.getvalue().decode()


@pytest.mark.parametrize("with_exchange", [True, False])
def test_a_directory_is_replaced_by_another(with_exchange: bool, tmp_path: Path) -> None:
    """In one step where the system can; else an error between the renames leaves the old one, and a killed program both."""
    target, temporary = tmp_path / "m.zarr", Path(temporary_name(str(tmp_path / "m.zarr")))
    for folder, content in ((target, "old"), (temporary, "new")):
        folder.mkdir()
        (folder / "zarr.json").write_text(content)
    target.chmod(0o700)
    renames: list[str] = []

    def rename(old: str, new: str) -> None:
        renames.append(new)
        if len(renames) in errors:
            raise errors[len(renames)]
        os.replace(old, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rename", rename)
        if not with_exchange:
            patch.setattr(replacement.ctypes, "CDLL", lambda _: None)
            errors: dict[int, BaseException] = {2: OSError("no space")}
            with pytest.raises(OSError, match="no space"):
                replacement._finish(str(temporary), str(target), lambda _: None)
            assert (target / "zarr.json").read_text() == "old"
            errors = {len(renames) + 2: KeyboardInterrupt(), len(renames) + 3: KeyboardInterrupt()}
            with pytest.raises(KeyboardInterrupt):
                replacement._finish(str(temporary), str(target), lambda _: None)
            left = replacement.temporary_files_of(str(target))
            assert sorted((Path(path) / "zarr.json").read_text() for path in left) == ["new", "old"]
            assert not target.exists()
            os.replace(next(path for path in left if path != str(temporary)), target)
        errors = {}
        replacement._finish(str(temporary), str(target), lambda _: None)
        if with_exchange and renames:
            pytest.skip("this file system cannot exchange two names")
    assert (target / "zarr.json").read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o700
    assert (temporary / "zarr.json").read_text() == "old"


def test_a_directory_that_is_made_meanwhile_is_replaced(tmp_path: Path) -> None:
    target, temporary = tmp_path / "m.zarr", Path(temporary_name(str(tmp_path / "m.zarr")))
    temporary.mkdir()
    (temporary / "zarr.json").write_text("new")
    replace, checked = os.replace, []

    def make_first(old: str, new: str) -> None:
        target.mkdir()
        (target / "zarr.json").write_text("of another call")
        replace(old, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", make_first)
        replacement._finish(str(temporary), str(target), checked.append)
    assert (target / "zarr.json").read_text() == "new"
    assert (temporary / "zarr.json").read_text() == "of another call"
    assert checked == [str(target)]


@pytest.mark.parametrize(
    ("line", "is_nfs"),
    [
        ("36 35 {} / /work rw,noatime shared:2 master:1 - nfs4 server:/export rw,vers=4.2", True),
        ("36 35 {} /a /a\\040place rw - nfs server:/export rw", True),
        ("36 35 {} / /work rw - ext4 /dev/sda1 rw", False),
        ("36 35 0:0 / /work rw - nfs4 server:/export rw", False),
        ("36 35", False),
        (None, False),
    ],
)
def test_which_file_system_is_nfs(line: str | None, is_nfs: bool, tmp_path: Path) -> None:
    mounts, device = tmp_path / "mountinfo", os.stat(tmp_path).st_dev
    if line is not None:
        mounts.write_text(line.format(f"{os.major(device)}:{os.minor(device)}") + "\n")
    file = os.open(tmp_path, os.O_RDONLY)
    with mock.patch.object(binary_file, "MOUNTS", str(mounts)):
        assert binary_file.is_on_nfs(file) == is_nfs
    os.close(file)


def test_equal_dtypes_have_equal_digests() -> None:
    """Asked to be aligned or not, with metadata or not: NumPy says they are equal."""
    aligned = np.dtype([("key", "i1"), ("value", [("x", "f8", (2,))])], align=True)
    same = np.dtype({"names": ["key", "value"], "formats": ["i1", [("x", "f8", (2,))]], "offsets": [0, 8]})
    assert aligned == same
    for equal in ((aligned, same), (np.dtype("f4", metadata={"unit": "m"}), np.dtype("f4"))):
        digests = []
        for dtype in equal:
            dtype_digest.cache_clear()  # which would not tell them apart
            digests.append(dtype_digest(dtype))
        assert digests[0] == digests[1]
    differing = [aligned, np.dtype([("key", "i1"), ("value", [("x", "f8", (2,))])]), np.dtype("<f8"), np.dtype(">f8")]
    assert len({dtype_digest(dtype) for dtype in (*differing, np.dtype("M8[s]"), np.dtype("M8[ms]"))}) == 6


def foreign_types() -> list[np.dtype[Any]]:
    """The types that ml_dtypes adds to NumPy, of which NumPy writes many alike."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    members = (getattr(ml_dtypes, name) for name in dir(ml_dtypes))
    return [np.dtype(kind) for kind in members if isinstance(kind, type) and issubclass(kind, np.generic)]


def with_foreign_parts(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    record = np.dtype([("a", "i2"), ("b", dtype)])
    return [dtype, record, np.dtype([("c", dtype, (3,))]), np.dtype([("d", record), ("e", "f4")])]


def test_types_that_numpy_writes_alike_have_digests_of_their_own() -> None:
    plain = [np.dtype(text) for text in ("V1", "V2", "V4", "i1", "u1", "f2", "c8", "f4")]
    dtypes = [each for dtype in (*foreign_types(), *plain) for each in with_foreign_parts(dtype)]
    assert len({dtype_digest(dtype) for dtype in dtypes}) == len(dtypes) >= 4 * (15 + len(plain))
    for dtype in dtypes:
        assert dtype_digest(pickle.loads(pickle.dumps(dtype))) == dtype_digest(dtype)
