"""Every example on small sizes: what it prints is right, and what is wrong is told once, by an exit with status 2."""

from __future__ import annotations

import importlib.util
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import launch
import numpy as np
import pytest
import scipy.io
import scipy.sparse

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
long = pytest.mark.long

# Ranks, arguments, and what is then printed.
RUNS: dict[str, list[tuple[int, str, list[str]]]] = {
    "lu_phase_change": [
        (4, "--panels 10 --grid 2x2 --block 4", ["capacitance    0.36355 x 4 pi eps0 a", "are identical"]),
        (7, "--panels 8 --grid 2x3 --block 100 --plot charge.png", ["are identical"]),
    ],
    "fft3d": [
        (4, "--shape 13 9 6 --grid 2x2 --repeat 1", ["slabs, 4:", "pencils, 2x2:"]),
        (3, "--shape 2 5 1 --grid 1x3 --repeat 1 --plot fft.png", ["pencils, 1x3:"]),
    ],
    "eigen_phase_change": [
        (4, "--side 6 --disorder 0 --blocks 2 64", ["pdsyevd", "times as fast"]),
        (3, "--side 6 --disorder 0 --flux 0.25 --grid 1x2 --blocks 4", ["pzheevd"]),
    ],
    "row_slabs": [
        (4, "--rows 9 9 0 0 --grid 2x2", []),
        (1, "--order 21", []),
        (3, "--rows 1 50 4 --grid 1x2 --block 4", []),
        (4, "--order 50 --chunk 13 --grid 2x2 --block 8", ["16 chunks"]),
    ],
    "malleable_solver": [
        (
            4,
            "--points 100 --phases 0-1 2-3 --iterations 3",
            [": 0.08 MB sent (0.08 without relabelling), 0.00 MB stay"],
        ),
        (6, "--points 300 --iterations 9 --phases 0-3 0-5 3-5", []),
        (5, "--points 300 --iterations 9 --phases 0,2,4 1-3 4 --block 7 --no-relabel", []),
    ],
    "overlap": [(2, "--order 70 --columns 16 --points 2", [])],
    "restart": [(2, "--points 20 --steps 4", ["step 4: at most "])],
    "producer_consumer": [(4, "--producers 2 --points 31 --frames 40 --steps 2 --block 4", [])],
}
PROGRAMS = {path.stem for path in EXAMPLES.glob("*.py") if '__name__ == "__main__"' in path.read_text()}


def test_every_example_is_run() -> None:
    in_clients = {"your_library"}  # tests/clients/test_clients.py
    assert {*RUNS} == PROGRAMS - in_clients, "give each example its ranks and small sizes in this file"


@pytest.mark.parametrize(
    ("name", "ranks", "words", "printed"),
    [
        pytest.param(name, *run, id=f"{name}{k or ''}", marks=long if k else ())
        for name, runs in RUNS.items()
        for k, run in enumerate(runs)
    ],
)
def test_example(
    name: str, ranks: int, words: str, printed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--chunk" in words and find_spec("dask") is None:
        pytest.skip("dask is not installed: ci/setup --all gets it")
    monkeypatch.chdir(tmp_path)
    text = launch.run(EXAMPLES / f"{name}.py", ranks, *words.split()).stdout
    assert [part for part in printed if part not in text] == []
    assert "WRONG" not in text
    assert "\x1b" not in text
    assert all(Path(word).stat().st_size > 1000 for word in words.split() if word.endswith(".png"))
    check = CHECKS.get(name)
    if check is not None:
        check(text, words)


def transforms(text: str, words: str) -> None:
    differences = [float(number) for number in re.findall(r"fftn (\S+),", text)]
    assert len(differences) == 2
    assert max(differences) < 1e-12


def energies(text: str) -> tuple[float, float]:
    (found,) = re.findall(r"lowest energy  (\S+), highest (\S+);", text)
    return float(found[0]), float(found[1])


def symmetric_spectrum(text: str, words: str) -> None:
    """Without disorder and field the energies are sums of two cosines. With a field the spectrum is symmetric."""
    low, high = energies(text)
    assert low == pytest.approx(-high, abs=2e-6)
    assert "--flux" in words or high == pytest.approx(4 * np.cos(np.pi / 7), abs=2e-6)


def solved(text: str, words: str) -> None:
    (residual,) = re.findall(r"^residual (?:by dask )?(\S+) = ", text, re.MULTILINE)
    assert float(residual) < 1e-12
    if "--chunk" not in words:
        moved = re.findall(r"^solve +redistribute (a|b|result) .*irregular", text, re.MULTILINE)
        assert words.startswith("--order") or moved == ["a", "b", "result"]


def went_on(text: str, words: str) -> None:
    (ended,) = re.findall(r"^(\d+) iterations, .*; the matrix is what it was, .* by (\S+)$", text, re.MULTILINE)
    assert float(ended[1]) < 1e-9
    rounds = [int(number) for number in re.findall(r"^ranks \S+ +(\d+) iterations", text, re.MULTILINE)]
    assert sum(rounds) == int(ended[0])
    costs = re.findall(r": (\S+) MB sent \((\S+) without relabelling\), (\S+) MB stay", text)
    n = int(words.split()[1])
    assert len(costs) == len(rounds) - 1
    for sent, plain, kept in costs:
        assert float(sent) <= float(plain)
        assert float(sent) + float(kept) == pytest.approx(n * (n + 3) * 8 / 1e6, abs=0.02)


CHECKS = {
    "fft3d": transforms,
    "eigen_phase_change": symmetric_spectrum,
    "row_slabs": solved,
    "malleable_solver": went_on,
}


@pytest.mark.parametrize("ranks", [(2, 1, 2), pytest.param((4, 3, 1), marks=long)])
def test_a_restart_goes_on_to_the_same_bits(ranks: tuple[int, int, int], tmp_path: Path) -> None:
    words, killed, whole = ("--points", 31, "--steps", 12, "--every", 5, "--file"), tmp_path / "killed", tmp_path / "whole"
    ended = launch.run(EXAMPLES / "restart.py", ranks[0], *words, killed, "--kill-at", 8, check=False, alone=True)
    assert ended.returncode
    text = launch.run(EXAMPLES / "restart.py", ranks[1], *words, killed).stdout
    assert text.startswith(f"goes on at step 5 on {ranks[1]} ranks\nstep 12: ")
    launch.run(EXAMPLES / "restart.py", ranks[2], *words, whole)
    fields = [next(path.glob("data.*.saved/field.npy")).read_bytes() for path in (killed, whole)]
    assert fields[0] == fields[1]
    assert np.load(next(killed.glob("data.*.saved/warmest.npy"))).shape == (12,)


def test_no_more_is_hidden_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    hidden_text = importlib.import_module("overlap").hidden_text
    assert hidden_text(0.04, 0.2, 0.24, 0.21) == "hidden: 30.0 ms, 75% of the redistribution's time"
    assert hidden_text(0.027, 1.0, 1.9, 1.47).startswith(
        "hidden: unknown; 430.0 ms gained are more than overlap can hide"
    )
    assert hidden_text(0.04, 0.2, 0.24, 0.25).startswith("hidden: nothing")


# -- what is wrong

WRONG: dict[str, list[tuple[str, str]]] = {
    "lu_phase_change": [
        ("--grid 3x3", "needs 9 processes"),
        ("--plot charge.txt", ".png"),
        ("--matrix zero.npy", "singular"),
        ("--matrix inf.npy", "infinite"),
    ],
    "eigen_phase_change": [
        ("--matrix skew.npy --blocks 2", "the matrix is not Hermitian"),
        ("--side 3 --blocks 9", "p?syevd needs blocks smaller than that"),
    ],
    "malleable_solver": [
        ("--phases 0-2", "0-2 must be ascending and below 2, the number of ranks"),
        ("--tolerance 2", "--tolerance 2.0: it must be at least 1e-14 and below 1"),
    ],
    "restart": [("--every 0", "argument --every: '0' must be a whole number of at least 1")],
    "fft3d": [
        ("--grid 3x2", "--grid 3x2: it must be PxQ with P Q = 2"),
        ("--shape 4 0 4", "all must be at least 1"),
    ],
    "row_slabs": [
        ("--rows 3", "--rows 3: give 2 numbers, one for each rank"),
        ("--rows 0 0", "not all 0"),
    ],
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "words", "message"), [(name, *case) for name, cases in WRONG.items() for case in cases]
)
def test_what_is_wrong_is_told_once(
    name: str, words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = np.random.default_rng(3).standard_normal((9, 9))
    matrices = {"zero": matrix * 0, "inf": matrix * np.inf, "skew": matrix - matrix.T}
    for stem, array in matrices.items():
        np.save(tmp_path / f"{stem}.npy", array)
    monkeypatch.chdir(tmp_path)
    done = launch.run(EXAMPLES / f"{name}.py", 2, *words.split(), check=False)
    assert (done.returncode, done.stderr.count(f"{name}.py: error: ")) == (2, 1), launch.told(done)
    assert message in done.stderr, launch.told(done)
    assert "Traceback" not in done.stderr, launch.told(done)


@pytest.mark.long
def test_without_scalapack() -> None:
    nowhere = {"PYSCALAPACK_REDIST_LIBRARY": "/no/such/library.so"}
    done = launch.run(EXAMPLES / "lu_phase_change.py", 3, env=nowhere, check=False)
    assert done.returncode == 2
    assert "/no/such/library.so" in done.stderr


# -- matrices in files


@pytest.mark.parametrize("dtype", ["f8", pytest.param("c8", marks=long)])
def test_a_matrix_in_a_file(dtype: str, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    matrix = random.standard_normal((30, 30)) + (1j * random.standard_normal((30, 30)) if dtype == "c8" else 0)
    matrix = (matrix + matrix.conj().T + 9 * np.eye(30)).astype(dtype)
    np.save(tmp_path / "a.npy", matrix)
    words = ("--matrix", tmp_path / "a.npy", "--grid", "1x3")
    text = launch.run(EXAMPLES / "lu_phase_change.py", 4, *words, "--block", "4").stdout
    (norm,) = re.findall(r"^norm of x .*?(\S+)$", text, re.MULTILINE)
    assert float(norm) == pytest.approx(np.linalg.norm(np.linalg.solve(matrix, np.ones(30))), rel=1e-4)
    text = launch.run(EXAMPLES / "eigen_phase_change.py", 4, *words, "--blocks", "8", "--no-comparison").stdout
    assert energies(text) == pytest.approx(tuple(np.linalg.eigvalsh(matrix)[[0, -1]]), rel=1e-4)


SPEC: Any = importlib.util.spec_from_file_location("matrix_files", EXAMPLES / "matrix_files.py")
matrix_files = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(matrix_files)


def every_other_row(path: Path) -> tuple[np.ndarray, np.ndarray]:
    matrix = matrix_files.open_matrix(path)
    rows = np.arange(1, matrix.unknowns, 2)
    local = np.full((len(rows), matrix.unknowns), 99, matrix.dtype, order="F")
    assert list(matrix.fill(rows, local))[-1] == 1
    return rows, local


@pytest.mark.parametrize(
    ("form", "symmetry"),
    [("dense", "general"), ("dense", "hermitian"), ("sparse", "skew-symmetric"), ("sparse", "general")],
)
def test_matrix_market(form: str, symmetry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_files, "LINES_AT_ONCE", 5)
    random = np.random.default_rng(7)
    matrix = random.standard_normal((37, 37)) + (1j * random.standard_normal((37, 37)) if form == "dense" else 0)
    matrix = {"general": matrix, "hermitian": matrix + matrix.conj().T, "skew-symmetric": matrix - matrix.T}[symmetry]
    stored = matrix if form == "dense" else scipy.sparse.coo_array(np.where(abs(matrix) < 1.5, matrix, 0))
    scipy.io.mmwrite(tmp_path / "a.mtx", stored, comment="of\na test", symmetry=symmetry)
    expected = scipy.io.mmread(tmp_path / "a.mtx")
    rows, local = every_other_row(tmp_path / "a.mtx")
    np.testing.assert_array_equal(local, (expected if form == "dense" else expected.toarray())[rows])


def test_what_is_wrong_with_a_matrix_market_file(tmp_path: Path) -> None:
    file = tmp_path / "a.mtx"
    for lines, message in (
        ("2 3 1\n1 1 1\n", r"square.*\(2, 3\)"),
        ("2 2 2\n1 1 1\n", "ends after 1 of 2"),
        ("2 2 1\n1 1 1\n2 2 2\n", "more than the 1 entries"),
        ("2 2 1\n3 1 1\n", "outside of the 2 x 2"),
        ("2 2 1\n1 1\n", "2 numbers where 3"),
        ("2 2 1\n1 1 one\n", "'one'"),
    ):
        file.write_text(f"%%MatrixMarket matrix coordinate real general\n{lines}")
        with pytest.raises(ValueError, match=rf"a\.mtx: .*{message}"):
            every_other_row(file)


@pytest.mark.parametrize("stored", [">f8", "c8", "?"])
def test_npy_files_of_any_dtype(stored: str, tmp_path: Path) -> None:
    matrix = (3 * np.random.default_rng(7).random((37, 37))).astype(stored)
    np.save(tmp_path / "a.npy", np.asfortranarray(matrix))
    rows, local = every_other_row(tmp_path / "a.npy")
    assert local.dtype == {"c8": "c8"}.get(stored, "f8")
    np.testing.assert_array_equal(local, matrix[rows])
    for wrong, message in ((matrix[:30], r"square.*\(30, 37\)"), (matrix.real.astype("f2"), "float16")):
        np.save(tmp_path / "a.npy", wrong)
        with pytest.raises(ValueError, match=rf"a\.npy: .*({message})"):
            matrix_files.open_matrix(tmp_path / "a.npy")
