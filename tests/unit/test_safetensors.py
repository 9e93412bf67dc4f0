"""Headers of safetensors files and indices of sharded models: what is read of them, and what is refused by name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyscalapack_redist as psr
from pyscalapack_redist.files.safetensors import DTYPES, OF_ML_DTYPES, numpy_dtype, read_header, tensors


def content(header: Any, data: int = 0) -> bytes:
    """A file with a header and so many bytes after it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


def entry(kind: Any = "F32", shape: Any = (2, 3), offsets: Any = (0, 24)) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


def test_tensors_lie_behind_the_header_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    header = {
        "b": entry("U8", [0], [24, 24]),
        "__metadata__": {"a": "b"},
        "c": entry("I64", [], [24, 32]),
        "a": entry(),
    }
    path.write_bytes(content(header, 32))
    first = len(path.read_bytes()) - 32
    found = read_header(str(path))
    assert {name: (array.dtype.str, array.shape, array.offset - first) for name, array in found.items()} == {
        "a": ("<f4", (2, 3), 0),
        "b": ("|u1", (0,), 24),
        "c": ("<i8", (), 24),
    }
    assert tensors(str(path)) == {name: (str(path), array) for name, array in found.items()}


WRONG = [
    (b"", r"\(0 bytes\) is no safetensors file: the format begins with 8 bytes"),
    ((2**62).to_bytes(8, "little"), "its header would have 4611686018427387904 bytes"),
    (content({"a": entry()}, 24)[:30], "is cut short: it has 30 bytes, but its header ends at byte"),
    (content({"a": entry()}, 23), "is cut short: it has .* bytes, but tensor 'a' ends at byte"),
    (content(b"{"), "its JSON is wrong"),
    (content(b"\xff\xfe\xfd"), "its JSON is wrong"),
    (content(b"[" * 100_000), "its JSON is wrong"),
    (content([]), "its JSON is wrong: it is not an object"),
    (content(b'{"a": 1, "a": 2}'), "its JSON is wrong: it has a name twice"),
    (content({"a": 3}), "tensor 'a' is described by 3"),
    (content({"a": {"dtype": "F32"}}), "tensor 'a' is described by {'dtype': 'F32'}"),
    (content({"a": entry(3)}, 24), "tensor 'a' is described by"),
    (content({"a": entry(shape=6)}, 24), "tensor 'a' is described by"),
    (content({"a": entry(shape=[-2, -3])}, 24), "tensor 'a' is described by"),
    (content({"a": entry(shape=[2.0, 3])}, 24), "tensor 'a' is described by"),
    (content({"a": entry(offsets=[24, 0])}, 24), "tensor 'a' is described by"),
    (content({"a": entry(offsets=[0, 24, 48])}, 48), "tensor 'a' is described by"),
    (content({"a": entry(shape=[2, 4])}, 24), r"tensor 'a' of shape \(2, 4\) of F32 has 32 bytes, not 24"),
    (content({"a": entry(), "b": entry(offsets=[20, 44])}, 44), "tensors 'a' and 'b' share bytes"),
    (content({"a": entry(offsets=[8, 32])}, 32), r"no safetensors file: bytes \d+ to \d+ are of no tensor"),
    (content({"a": entry(), "b": entry(offsets=[28, 52])}, 52), r"no safetensors file: bytes \d+ to \d+ are of no tensor"),
    (content({"a": entry()}, 25), r"no safetensors file: bytes \d+ to \d+ are of no tensor"),
    (content({"__metadata__": "x", "a": entry()}, 24), "its __metadata__ is 'x', not texts by name"),
    (content({"__metadata__": {"x": 5}, "a": entry()}, 24), "its __metadata__ is {'x': 5}, not texts by name"),
    (content(json.dumps({"a": entry()}).encode("utf-16"), 24), "its JSON is wrong: 'utf-8' codec"),
    (content(json.dumps({"a": entry()}).encode("utf-8-sig"), 24), "its JSON is wrong: Unexpected UTF-8 BOM"),
    (content({"a": entry("F4")}, 24), "x.safetensors: a has elements of F4, which NumPy does not have: only BOOL, "),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_wrong_headers(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(text)
    with pytest.raises(psr.FileError, match=message):
        read_header(str(path))
    with pytest.raises(psr.FileError, match=message):
        psr.shape_of(path, dataset="a")


@given(st.data())
def test_any_other_byte_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    text = bytearray(content({"a": entry(), "b": entry("BF16", [4], [24, 32])}, 32))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 33))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    path.write_bytes(text[: data.draw(st.one_of(st.just(len(text)), st.integers(0, len(text))))])
    try:
        found = read_header(str(path))
    except (psr.FileError, psr.LibraryError):
        return
    assert all(0 <= array.offset <= array.end <= len(text) for array in found.values())


def test_sharded_models(tmp_path: Path) -> None:
    index, shard = tmp_path / "x.safetensors.index.json", tmp_path / "x-1.safetensors"
    shard.write_bytes(content({"a": entry()}, 24))
    index.write_text(json.dumps({"weight_map": {"a": shard.name}}))
    assert tensors(str(index)) == {"a": (str(shard), read_header(str(shard))["a"])}
    assert psr.shape_of(index, dataset="a") == psr.shape_of(index) == psr.shape_of(shard) == (2, 3)
    index.write_text(json.dumps({"weight_map": {"a": shard.name, "b": shard.name}}))
    with pytest.raises(psr.FileError, match=r"says that 'b' is in .*x-1\.safetensors, which has no such tensor"):
        tensors(str(index))
    for name in ("../x-1.safetensors", "/etc/passwd", "..", "", "a\0b", "\ud800", 3, "sub/x.safetensors"):
        index.write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(psr.FileError, match="must be the name of a file beside the index"):
            psr.shape_of(index, dataset="a")
    for text in ("{}", '{"weight_map": []}'):
        index.write_text(text)
        with pytest.raises(psr.FileError, match="it has no dict 'weight_map'"):
            psr.shape_of(index, dataset="a")


def test_dtypes_of_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert numpy_dtype("BF16", "x") == ml_dtypes.bfloat16
    assert all(numpy_dtype(kind, "x").itemsize == 1 for kind in OF_ML_DTYPES if kind != "BF16")
    assert len({numpy_dtype(kind, "x") for kind in (*DTYPES, *OF_ML_DTYPES)}) == len(DTYPES) + len(OF_ML_DTYPES)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert numpy_dtype("F16", "x") == np.float16
    with pytest.raises(
        psr.LibraryError, match=r"x has elements of BF16, which needs ml_dtypes .*: pip install ml_dtypes"
    ):
        numpy_dtype("BF16", "x")
