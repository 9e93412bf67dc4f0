"""The matrix files of the LU example: every format against SciPy's reader, and what is told about files that are wrong."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from numpy.typing import NDArray

N = 37
RANDOM = np.random.default_rng(7)
DENSE = RANDOM.standard_normal((N, N))
COMPLEX = DENSE + 1j * RANDOM.standard_normal((N, N))
SPARSE = np.where(RANDOM.random((N, N)) < 0.2, DENSE, 0)


def example(name: str) -> Any:
    path = Path(__file__).resolve().parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


matrix_files = example("matrix_files")


def every_other_row(path: Path) -> tuple[NDArray[np.int64], NDArray[Any]]:
    matrix = matrix_files.open_matrix(path)
    rows = np.arange(1, matrix.unknowns, 2)
    local = np.full((len(rows), matrix.unknowns), 99, matrix.dtype, order="F")
    assert list(matrix.fill(rows, local))[-1] == 1
    return rows, local


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("stored", "factored"),
    [("f8", "f8"), ("f4", "f4"), ("c16", "c16"), ("c8", "c8"), (">f8", "f8"), ("i4", "f8"), ("u1", "f8"), ("?", "f8")],
)
def test_npy(stored: str, factored: str, order: Any, tmp_path: Path) -> None:
    matrix = np.asarray((COMPLEX if "c" in stored else 100 * DENSE.clip(0)).astype(stored), order=order)
    np.save(tmp_path / "a.npy", matrix)
    rows, local = every_other_row(tmp_path / "a.npy")
    assert local.dtype == np.dtype(factored)
    assert local.dtype.isnative
    np.testing.assert_array_equal(local, matrix[rows])


MATRICES = {
    "general": DENSE,
    "symmetric": DENSE + DENSE.T,
    "skew-symmetric": DENSE - DENSE.T,
    "hermitian": COMPLEX + COMPLEX.conj().T,
    "complex": COMPLEX,
    "integer": (10 * DENSE).astype(np.int64),
}


@pytest.mark.parametrize("lines_at_once", [5, 100_000])
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("name", MATRICES)
def test_matrix_market(
    name: str, form: str, lines_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix_files, "LINES_AT_ONCE", lines_at_once)
    matrix = MATRICES[name]
    symmetry = name if name in ("symmetric", "skew-symmetric", "hermitian") else "general"
    stored = matrix if form == "dense" else scipy.sparse.coo_array(np.where(abs(matrix) < 1.5, matrix, 0))
    scipy.io.mmwrite(tmp_path / "a.mtx", stored, comment="of\na test", symmetry=symmetry)
    expected = scipy.io.mmread(tmp_path / "a.mtx")
    if form == "sparse":
        expected = expected.toarray()
    rows, local = every_other_row(tmp_path / "a.mtx")
    np.testing.assert_array_equal(local, expected[rows])


def test_matrix_market_pattern_and_repeated_entries(tmp_path: Path) -> None:
    file = tmp_path / "a.mtx"
    scipy.io.mmwrite(file, scipy.sparse.coo_array(SPARSE), field="pattern")
    rows, local = every_other_row(file)
    np.testing.assert_array_equal(local, (SPARSE != 0)[rows])
    file.write_text("%%MatrixMarket matrix coordinate real general\n% twice\n2 2 3\n\n2 1 3.5\n1 1 1\n2 1 1.5\n")
    np.testing.assert_array_equal(every_other_row(file)[1], [[5, 0]])


HEADER = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "Not a Matrix Market file"),
        (HEADER + "2 3 1\n1 1 1\n", r"square.*\(2, 3\)"),
        (HEADER + "0 0 0\n", r"square.*\(0, 0\)"),
        (HEADER + "2 2 2\n1 1 1\n", "ends after 1 of 2"),
        (HEADER + "2 2 1\n1 1 1\n2 2 2\n", "more than the 1 entries"),
        (HEADER + "2 2 1\n3 1 1\n", "outside of the 2 x 2"),
        (HEADER + "2 2 1\n1 0 1\n", "outside of the 2 x 2"),
        (HEADER + "2 2 1\n1 1\n", "2 numbers where 3"),
        (HEADER + "2 2 1\n1 1 one\n", "'one'"),
    ],
)
def test_what_is_wrong_with_a_matrix_market_file(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.mtx"
    file.write_text(text)
    with pytest.raises(ValueError, match=rf"a\.mtx: .*{message}"):
        every_other_row(file)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (DENSE[:30], r"square.*\(30, 37\)"),
        (DENSE[0], r"square.*\(37,\)"),
        (np.empty((0, 0)), "square"),
        (DENSE.astype("f2"), "float16"),
        (DENSE.astype("g"), "longdouble|float128"),
        (DENSE.astype("S4"), "S4"),
    ],
)
def test_what_is_wrong_with_a_npy_file(array: NDArray[Any], message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=rf"a\.npy: .*({message})"):
        matrix_files.open_matrix(tmp_path / "a.npy")


def test_files_that_are_not_there_or_of_no_known_kind(tmp_path: Path) -> None:
    for name in ("none.npy", "none.mtx"):
        with pytest.raises(FileNotFoundError, match=name):
            matrix_files.open_matrix(tmp_path / name)
    with pytest.raises(ValueError, match=r"a\.txt.*\.npy or in \.mtx"):
        matrix_files.open_matrix(tmp_path / "a.txt")
    np.save(tmp_path / "cut.npy", DENSE)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"cut\.npy: "):
        matrix_files.open_matrix(tmp_path / "cut.npy")
