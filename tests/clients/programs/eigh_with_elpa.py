"""eigh by ELPA, beside NumPy and SciPy. With "missing": no rank, or one, has an ELPA."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from launch import SEED
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist import linalg
from pyscalapack_redist.blacs import library
from pyscalapack_redist.linalg import elpa
from pyscalapack_redist.linalg.place import Place

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
ROWS = psr.ProcessGrid((SIZE, 1), WORLD)
RNG = np.random.default_rng(SEED)


def hermitian(n: int, dtype: str) -> NDArray[Any]:
    half = RNG.standard_normal((n, n)) + (1j * RNG.standard_normal((n, n)) if dtype == "D" else 0)
    return (half + half.conj().T).astype(dtype)


def put(whole: NDArray[Any], desc: psr.Descriptor) -> psr.DistributedArray:
    return psr.DistributedArray(desc, desc.from_function(lambda i, j: whole[i, j], whole.dtype))


def phases_of(a: psr.DistributedArray, *others: psr.DistributedArray, **options: Any) -> tuple[list[str], Any]:
    """The names of the phases on any rank, and the result."""
    with psr.timings() as phases:
        result = linalg.eigh(a, *others, **options)
    return sorted({name for names in WORLD.allgather([phase.name for phase in phases]) for name in names}), result


def compare(n: int, dtype: str, lower: bool, kind: int, **subset: Any) -> None:
    """The triangle that is not read has NaNs."""
    matrix, positive = hermitian(n, dtype), np.eye(n, dtype=dtype)
    if kind:
        positive = hermitian(n, dtype)
        positive = positive @ positive / n + np.eye(n)
    nonsense = np.full((n, n), np.nan, dtype)
    read = (lambda m: np.tril(m) + np.triu(nonsense, 1)) if lower else (lambda m: np.triu(m) + np.tril(nonsense, -1))
    desc = psr.Descriptor((n, n), "balanced", ROWS)
    operands = [put(read(whole), desc) for whole in ([matrix, positive] if kind else [matrix])]
    expected = scipy.linalg.eigvalsh(matrix, positive, type=kind or 1)
    if "subset_by_index" in subset:
        first, last = subset["subset_by_index"]
        expected = expected[first : last + 1]
    elif subset:
        low, high = subset["subset_by_value"]
        expected = expected[(expected > low) & (expected <= high)]
    more = {"type": kind} if kind else {}
    names, (values, vectors) = phases_of(*operands, lower=lower, driver="elpa", **more, **subset)
    assert any(name.startswith("elpa_eigenvectors_double") for name in names), names
    assert not any("evd" in name or "trd" in name for name in names), names
    x = vectors.gather(None)
    close = 1e-10 * n * max(1.0, np.abs(expected).max(initial=0))
    assert np.allclose(values, expected, rtol=0, atol=close)
    left = {2: matrix @ positive @ x, 3: positive @ matrix @ x}.get(kind, matrix @ x)
    assert np.allclose(left, (positive @ x if kind < 2 else x) * values, rtol=0, atol=close)
    unit = np.linalg.inv(positive) if kind == 3 else positive
    assert np.allclose(x.conj().T @ unit @ x, np.eye(values.size), rtol=0, atol=1e-9)


def right_pairs() -> None:
    subsets: list[dict[str, Any]] = [
        {},
        {"subset_by_index": (0, 3)},
        {"subset_by_index": (9, 11)},
        {"subset_by_value": (-3.0, 2.5)},
        {"subset_by_value": (1e6, np.inf)},
    ]
    for number, (n, subset) in enumerate(itertools.product((20, 70), subsets)):
        compare(n, "dD"[number % 2], number % 3 == 0, 0, **subset)
    for kind, subset in itertools.product((1, 2, 3), subsets[:3]):
        compare(40, "dD"[kind % 2], kind == 2, kind, **subset)
    for n in (1, 2, 0):
        a = put(np.eye(n), psr.Descriptor((n, n), 1, ROWS))
        assert np.array_equal(linalg.eigh(a, driver="elpa").eigenvalues, np.ones(n))


def choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the default takes, and what is refused."""
    n = 96
    matrix = hermitian(n, "d")
    a = put(matrix, psr.Descriptor((n, n), 16, ROWS))
    is_elpa = "elpa_eigenvectors_double"
    assert is_elpa not in phases_of(a)[0], "of a small matrix"
    monkeypatch.setattr(elpa, "LEAST_ORDER", n)
    on_grid = SIZE > 1  # one process takes LAPACK
    assert on_grid == (is_elpa in phases_of(a)[0])
    assert is_elpa not in phases_of(a, driver="scalapack")[0]
    assert on_grid == (is_elpa in phases_of(a, subset_by_index=(0, 9))[0])
    assert is_elpa not in phases_of(a, subset_by_index=(50, 59))[0]
    assert is_elpa not in phases_of(a, subset_by_value=(0, 1))[0]
    assert is_elpa not in phases_of(a, eigvals_only=True)[0]
    assert is_elpa not in phases_of(a.astype(np.float32))[0]
    with pytest.raises(psr.ArrayError, match="a has dtype float32, and ELPA is used in double precision only"):
        linalg.eigh(a.astype(np.float32), driver="elpa")
    with pytest.raises(ValueError, match="driver = 'evr' must be one of auto, scalapack, elpa"):
        linalg.eigh(a, driver="evr")
    if SIZE > 1:
        narrow = psr.Descriptor((n, n), n - 1, psr.ProcessGrid((1, SIZE), WORLD))
        assert is_elpa in phases_of(put(matrix, narrow), driver="elpa")[0], "in another layout than the operand's"
        wide = psr.Descriptor((n, n), n, psr.ProcessGrid((1, SIZE), WORLD))
        with pytest.raises(psr.DescriptorError):
            linalg.eigh(a, driver="elpa", layout=wide)


def of_another_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    path, running = elpa.load().path, library._running_mpi()
    monkeypatch.setattr(library, "_running_mpi", lambda: dataclasses.replace(running, path="/other/libmpi.so.12"))
    with pytest.raises(psr.LibraryError, match=r"libelpa.* is built for another MPI, .*libmpi.*, than mpi4py runs on"):
        library.open_beside(path)


def refused_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong result of ELPA is computed once more, by ScaLAPACK."""
    n = 50
    matrix = hermitian(n, "d")
    a, original, expected = put(matrix, psr.Descriptor((n, n), 8, ROWS)), elpa.eigenpairs, np.linalg.eigvalsh(matrix)

    def spoiled(matrix: Any, count: int) -> Any:
        pairs = original(matrix, count)
        if pairs.vectors is not None and pairs.vectors.size:
            pairs.vectors[0] *= 1.01
        return pairs

    def shifted(matrix: Any, count: int) -> Any:
        pairs = original(matrix, count)
        return pairs if pairs.values is None else pairs._replace(values=np.sort(np.roll(pairs.values, 1) + 1e-3))

    def without_triangle(*_: object) -> None:
        pass

    faults = (elpa, "eigenpairs", spoiled), (elpa, "eigenpairs", shifted), (Place, "complete", without_triangle)
    for owner, name, wrong in faults:
        for subset in ({}, {"subset_by_index": (0, 4)}):
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, wrong)
                with warnings.catch_warnings(record=True, action="always") as warned:
                    values, vectors = linalg.eigh(a, driver="elpa", **subset)  # type: ignore[call-overload]
            assert np.allclose(values, expected[: values.size])
            x = vectors.gather(None)
            assert np.allclose(matrix @ x, x * values)
            assert len(warned) == 1
            assert "elpa_eigenvectors_double of ELPA, /" in str(warned[0].message)


def missing() -> None:
    """First on all ranks, then on one."""
    matrix = hermitian(40, "d")
    a = put(matrix, psr.Descriptor((40, 40), 8, ROWS))
    elpa.LEAST_ORDER = 40
    with pytest.raises(
        psr.LibraryError, match=r"driver = 'elpa': rank 0: no ELPA can be used. Tried:\n .*libelpa.so: "
    ):
        linalg.eigh(a, driver="elpa")
    assert "pdsyevd" in phases_of(a)[0]
    comm = WORLD.Dup()
    grid = psr.ProcessGrid((SIZE, 1), comm)
    a = put(matrix, psr.Descriptor((40, 40), 8, grid))
    found = elpa.Elpa(None, f"/lib/libelpa.so.{RANK}")  # type: ignore[arg-type]
    elpa.load = lambda: found
    with pytest.raises(
        psr.LibraryError, match=r"rank 0 has libelpa\.so\.0, and rank 1 has libelpa\.so\.1: they must be the same"
    ):
        linalg.eigh(a, driver="elpa")
    assert "pdsyevd" in phases_of(a)[0]
    comm.Free()


def main() -> None:
    if sys.argv[1:]:
        missing()
    else:
        warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
        right_pairs()
        with pytest.MonkeyPatch.context() as monkeypatch:
            choice(monkeypatch)
        with pytest.MonkeyPatch.context() as monkeypatch:
            refused_results(monkeypatch)
        with pytest.MonkeyPatch.context() as monkeypatch:
            of_another_mpi(monkeypatch)
    WORLD.Barrier()
    if RANK == 0:
        sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
