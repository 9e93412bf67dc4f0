"""Many arrays in one file: saved on some ranks, loaded on others, read by h5py, zarr and NumPy; killed at any moment."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import SEED, run, told

PROGRAM = Path(__file__).parent / "programs" / "checkpoints.py"
NEEDED = {".h5": "h5py", ".zarr": "zarr"}
FORMATS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            importlib.util.find_spec(NEEDED.get(Path(name).suffix, "numpy")) is None,
            reason="a library is not installed",
        ),
    )
    for name in ("run.h5", "run.zarr", "run")
]
pytestmark = pytest.mark.parametrize("name", FORMATS)


@pytest.mark.parametrize(
    ("ranks", "later"), [(2, 1), pytest.param(4, 3, marks=pytest.mark.long), pytest.param(1, 4, marks=pytest.mark.long)]
)
def test_saved_on_some_ranks_and_loaded_on_others(ranks: int, later: int, name: str, tmp_path: Path) -> None:
    assert run(PROGRAM, ranks, "save", tmp_path, name).stdout == "OK\n"
    assert run(PROGRAM, later, "load", tmp_path, name).stdout == "OK\n"
    read = {".h5": by_h5py, ".zarr": by_zarr}.get(Path(name).suffix, by_numpy)(tmp_path / name)
    u = np.add.outer(100.0 * np.arange(53), np.arange(40))
    assert np.array_equal(read["u"], u)
    assert np.array_equal(read["part"], u[3:50, 2:30])
    assert np.array_equal(read["grid/edges"], np.arange(6).reshape(2, 3))
    assert read["step"] == 17
    assert read["text"] == "hé \U0001f600\n"
    assert list(read["names"]) == ["x", "", "ÿ"]
    assert read["units"] == "eV"


def by_h5py(path: Path) -> dict[str, Any]:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "r") as file:
        arrays = {key: file[key][()] for key in ("u", "part", "grid/edges", "step")}
        return arrays | {key: file[key].asstr()[()] for key in ("text", "names")} | {"units": file["u"].attrs["units"]}


def by_zarr(path: Path) -> dict[str, Any]:
    root = pytest.importorskip("zarr").open_group(path, mode="r")
    keys = ("u", "part", "grid/edges", "step", "text", "names")
    return {key: root[key][...] for key in keys} | {"units": root["u"].attrs["units"]}


def by_numpy(path: Path) -> dict[str, Any]:
    entries = json.loads((path / "index.json").read_text())["entries"]
    read = {key: np.load(path / entry["file"]) if "file" in entry else entry["value"] for key, entry in entries.items()}
    return read | {"units": entries["u"]["attributes"]["units"]}


@pytest.mark.parametrize("ranks", [2, pytest.param(1, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("what", ["append", "errors"])
def test_on_every_rank(ranks: int, what: str, name: str, tmp_path: Path) -> None:
    assert run(PROGRAM, ranks, what, tmp_path, name).stdout == "OK\n"


def test_files_of_other_programs(name: str, tmp_path: Path) -> None:
    if name == "run":
        pytest.skip("a folder of .npy files has an index of ours")
    write = {".h5": write_by_h5py, ".zarr": write_by_zarr}[Path(name).suffix]
    write(tmp_path / name, np.add.outer(100.0 * np.arange(53), np.arange(40)))
    assert run(PROGRAM, 2, "foreign", tmp_path, name).stdout == "OK\n"


def write_by_h5py(path: Path, u: np.ndarray[Any, Any]) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("temperature", data=u, chunks=(7, 9), compression="gzip").attrs["units"] = b"K"
        file.create_dataset("mesh/points", data=np.arange(6).reshape(3, 2))
        file["temperature"].attrs["link"] = file["mesh"].ref
        file["steps"], file["title"], file["names"] = 5, "a title", np.array([b"x", b"y"])
        file["objects"] = np.array([file["mesh"].ref], h5py.ref_dtype)
        file["table"] = h5py.Empty("f8")
        file["soft"], file["dangling"] = h5py.SoftLink("/temperature"), h5py.SoftLink("/absent")
        file["second"], file["mesh/loop"] = file["temperature"], file["/"]
        file["data/marked"], file["number"] = np.arange(2.0), 3
        file["data/marked"].attrs["pyscalapack_redist"] = "int"  # of another program, as this
        file["number"].attrs["pyscalapack_redist"] = np.array([1, 2])


def write_by_zarr(path: Path, u: np.ndarray[Any, Any]) -> None:
    root = pytest.importorskip("zarr").create_group(path)
    root.create_array("temperature", data=u, chunks=(7, 9), attributes={"units": "K", "nested": {"a": [1]}})
    root.create_array("mesh/points", data=np.arange(6).reshape(3, 2))
    root.create_array("steps", data=np.array(5))
    root.create_array("title", shape=(), dtype=str)[...] = "a title"
    root.create_array("names", data=np.array(["x", "y"], np.dtypes.StringDType()))


@pytest.mark.parametrize("kills", [2, pytest.param(67, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_killed_at_any_moment(kills: int, name: str, tmp_path: Path) -> None:
    """The file is the one before or the new one, whole; and the next save removes what is left beside it."""
    for k in range(kills):
        ended = run(PROGRAM, 2, "killed", tmp_path, name, SEED + k, timeout=60, check=False, alone=True)
        assert ended.stdout.splitlines()[:1] == ["whole"], told(ended)  # and what a launcher says of the killed process
        assert ended.returncode
    assert run(PROGRAM, 2, "left", tmp_path, name, timeout=60).stdout == "OK\n"
