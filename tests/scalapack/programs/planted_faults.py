"""Faults in results of the library that the checks of linalg find, and right results that they accept.

Arguments: cases, seed, and optionally a file of counts, to which this run's are added.

A fault is planted behind the function that calls ScaLAPACK, so the check sees what it would see of a wrong library. How wrong
the result then is comes from the same claims with all unit vectors in place of the random ones: that is the residual's exact
norm. A fault of 100 bounds or more must be found; every second result is a right one, and must be accepted.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from linalg_cases import RANK, SIZE, SQUARE, WORLD, put
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist import linalg
from pyscalapack_redist.linalg import (
    bidiagonal,
    check,
    conditioning,
    decompositions,
    eigenpairs,
    least_squares,
    matrix_functions,
    polar_factors,
    products,
    systems,
    tall,
    tridiagonal,
)

Matrix = NDArray[Any]
FAULTS = ("element", "columns", "sign", "nan", "block")
KINDS = ("random", "positive", "graded", "clustered", "scaled rows", "scaled columns", "orthogonal")
EDGES = (1, 3, 10, 30, 100)


def third(a: psr.DistributedArray) -> tuple[int, int]:
    """The indices of a third of the eigenvalues, from within."""
    n = a.shape[0]
    return n // 3, max(n // 3, 2 * n // 3 - 1)


# The call; the module and the function behind which it is spoiled; the argument, its result or a part of it; the shape of a.
ROUTINES: dict[str, tuple[Callable[[Any, Any, Any], Any], Any, str, int | str | None, str]] = {
    "solve": (lambda a, b, p: linalg.solve(a, b), systems, "pxgetrs", 2, "n n"),
    "inv": (lambda a, b, p: linalg.inv(a), systems, "pxgetri", 0, "n n"),
    "solve, pos": (lambda a, b, p: linalg.solve(p, b, assume_a="pos"), systems, "pxpotrs", 1, "n n"),
    "solve, sym": (lambda a, b, p: linalg.solve(a, b, assume_a="sym"), systems, "pxgetrs", 2, "n n"),
    "inv, pos": (lambda a, b, p: linalg.inv(p, assume_a="pos"), systems, "pxpotri", 0, "n n"),
    "inv, triangle": (lambda a, b, p: linalg.inv(p, assume_a="lower triangular"), systems, "pxtrsm", 1, "n n"),
    "lu_factor": (lambda a, b, p: linalg.lu_factor(a), systems, "pxgetrf", 0, "n n"),
    "lu_solve": (lambda a, b, p: linalg.lu_solve(linalg.lu_factor(a, check=False), b, 2), systems, "pxgetrs", 2, "n n"),
    "cholesky": (lambda a, b, p: linalg.cholesky(p, True), systems, "pxpotrf", 0, "n n"),
    "cho_solve": (lambda a, b, p: linalg.cho_solve(linalg.cho_factor(p, check=False), b), systems, "pxpotrs", 1, "n n"),
    "solve_triangular": (
        lambda a, b, p: linalg.solve_triangular(linalg.cholesky(p, False, check=False), b, 1),
        systems,
        "pxtrsm",
        1,
        "n n",
    ),
    "qr with pivoting": (lambda a, b, p: linalg.qr(a, pivoting=True), decompositions, "pxgeqpf", 0, "m n"),
    "eigh": (lambda a, b, p: linalg.eigh(a), eigenpairs, "pxsyevd", "vectors", "hermitian"),
    "eigh, values": (lambda a, b, p: linalg.eigh(a), eigenpairs, "pxsyevd", "values", "hermitian"),
    "eigh, some": (lambda a, b, p: linalg.eigh(a, subset_by_index=third(a)), tridiagonal, "pxormtr", 2, "hermitian"),
    "eigh, some of type 1": (
        lambda a, b, p: linalg.eigh(a, p, subset_by_index=third(a)),
        eigenpairs,
        "_transform_back",
        0,
        "hermitian",
    ),
    "eigh, some of type 2": (
        lambda a, b, p: linalg.eigh(a, p, subset_by_index=third(a), type=2),
        tridiagonal,
        "pxormtr",
        2,
        "hermitian",
    ),
    "eigh, some of type 3": (
        lambda a, b, p: linalg.eigh(a, p, subset_by_index=third(a), type=3),
        eigenpairs,
        "_transform_back",
        0,
        "hermitian",
    ),
    "eigh, type 1": (lambda a, b, p: linalg.eigh(a, p), eigenpairs, "_transform_back", 0, "hermitian"),
    "eigh, type 2": (lambda a, b, p: linalg.eigh(a, p, type=2), eigenpairs, "_transform_back", 0, "hermitian"),
    "eigh, type 3": (lambda a, b, p: linalg.eigh(a, p, type=3), eigenpairs, "_transform_back", 0, "hermitian"),
    "eig": (lambda a, b, p: linalg.eig(a), matrix_functions, "_placed", "local", "n n"),
    "eigvals": (lambda a, b, p: linalg.eigvals(a), matrix_functions, "_real_if_all_are", "real", "n n"),
    "schur": (lambda a, b, p: linalg.schur(a), matrix_functions, "_placed", "local", "n n"),
    "sqrtm": (lambda a, b, p: linalg.sqrtm(p), matrix_functions, "_placed", "local", "n n"),
    "sqrtm of Hermitian": (
        lambda a, b, p: linalg.sqrtm(p, assume_a="her"), matrix_functions, "pxgemm", 2, "hermitian",
    ),
    "svd, left": (lambda a, b, p: linalg.svd(a), bidiagonal, "decompose_bidiagonal", "left", "m n"),
    "svd, s": (lambda a, b, p: linalg.svd(a), bidiagonal, "decompose_bidiagonal", "values", "m n"),
    "svd, right": (lambda a, b, p: linalg.svd(a, False), bidiagonal, "decompose_bidiagonal", "right", "m n"),
    "svd, reduced": (lambda a, b, p: linalg.svd(a), bidiagonal, "pxgebrd", 0, "m n"),
    "svd, U and Vh": (lambda a, b, p: linalg.svd(a), bidiagonal, "pxormbr", 2, "m n"),
    "svd, slender": (lambda a, b, p: linalg.svd(a), bidiagonal, "pxormqr", 2, "slender"),
    "gesvd, U": (lambda a, b, p: linalg.svd(a, driver="gesvd"), bidiagonal, "pxgesvd", "left", "m n"),
    "gesvd, s": (lambda a, b, p: linalg.svd(a, driver="gesvd"), bidiagonal, "pxgesvd", "values", "m n"),
    "gesvd, Vh": (lambda a, b, p: linalg.svd(a, False, driver="gesvd"), bidiagonal, "pxgesvd", "right", "m n"),
    "pinv": (lambda a, b, p: linalg.pinv(a), conditioning, "pxgemm", 2, "m n"),
    "pinv, U": (lambda a, b, p: linalg.pinv(a), bidiagonal, "decompose_bidiagonal", "left", "m n"),
    "qr": (lambda a, b, p: linalg.qr(a), decompositions, "pxorgqr", 0, "m n"),
    "qr, r": (lambda a, b, p: linalg.qr(a, "r"), decompositions, "pxgeqrf", 0, "m n"),
    "matmul": (lambda a, b, p: linalg.matmul(a, b), products, "multiply", "local", "n n"),
    "lstsq": (lambda a, b, p: linalg.lstsq(a, b), least_squares, "pxgels", 1, "tall"),
    "polar": (lambda a, b, p: linalg.polar(a), polar_factors, "pxgemm", 2, "m n"),
    "polar, left": (lambda a, b, p: linalg.polar(a, "left"), polar_factors, "pxgemm", 2, "m n"),
    "polar, vectors": (lambda a, b, p: linalg.polar(a), bidiagonal, "decompose_bidiagonal", "right", "m n"),
    # of rates with which tall matrices are in slabs
    "slabs, rows": (lambda a, b, p: linalg.qr(a), tall, "own_geqrf", 0, "slabs"),
    "slabs, r": (lambda a, b, p: linalg.qr(a, "r"), tall, "own_geqrf", 0, "slabs"),
    "slabs, tree": (lambda a, b, p: linalg.qr(a), tall, "own_tpqrt", 0, "slabs"),
    "slabs, back": (lambda a, b, p: linalg.qr(a), tall, "own_tpgqrt", 2, "slabs"),
    "slabs, Q_k": (lambda a, b, p: linalg.qr(a), tall, "own_orgqr", 0, "slabs"),
    "slabs, q": (lambda a, b, p: linalg.qr(a), tall, "own_trmm", 1, "slabs"),
    "slabs, s": (lambda a, b, p: linalg.svd(a, False), tall, "pxgesvd", "values", "slabs"),
    "slabs, Vh": (lambda a, b, p: linalg.svd(a, False), tall, "pxgesvd", "right", "slabs"),
    "slabs, U": (lambda a, b, p: linalg.svd(a, False), tall, "multiply_rows", 0, "slabs"),
    "slabs, U of R": (lambda a, b, p: linalg.svd(a, False), tall, "own_tpgqrt", 2, "slabs"),
    "slabs, values": (lambda a, b, p: linalg.svdvals(a), tall, "pxgesvd", "values", "slabs"),
    "slabs, lstsq": (lambda a, b, p: linalg.lstsq(a, b), tall, "own_ormqr", 2, "slabs"),
    "slabs, lstsq, tree": (lambda a, b, p: linalg.lstsq(a, b), tall, "own_tpmqrt", 2, "slabs"),
    "slabs, lstsq, x": (lambda a, b, p: linalg.lstsq(a, b), tall, "pxtrsm", 1, "slabs"),
    "slabs, lstsq by svd": (lambda a, b, p: linalg.lstsq(a, b, method="svd"), tall, "multiply_rows", 0, "slabs"),
    "slabs, lstsq by svd, U^H b": (lambda a, b, p: linalg.lstsq(a, b, method="svd"), least_squares, "project", None, "slabs"),
    "slabs, pinv": (lambda a, b, p: linalg.pinv(a), conditioning, "times_adjoint", "local", "slabs"),
    "slabs, polar": (lambda a, b, p: linalg.polar(a), tall, "multiply_rows", 0, "slabs"),
    "slabs, polar, values": (lambda a, b, p: linalg.polar(a), tall, "pxgesvd", "values", "slabs"),
}


class Claims:
    """Replaces the comparison of claims: records their excess, and refuses nothing."""

    def __init__(self) -> None:
        self.excess = 0.0

    def __call__(self, claims: Iterable[check.Claim]) -> None:
        self.excess = max(self.excess, *(float(claim.excess) for claim in claims))


def matrix_of(kind: str, m: int, n: int, dtype: str, rng: np.random.Generator) -> Matrix:
    def gaussian(*shape: int) -> Matrix:
        return rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype in "FD" else 0)

    few = min(m, n)
    if kind == "random":
        return gaussian(m, n).astype(dtype)
    if kind == "positive":
        return np.abs(gaussian(m, n)).astype(dtype)
    if kind.startswith("scaled"):
        return (gaussian(m, n) * 10.0 ** rng.uniform(-5, 5, (m, 1) if kind == "scaled rows" else (1, n))).astype(dtype)
    values = {
        "graded": np.logspace(0, -5 if dtype in "fF" else -13, few),
        "clustered": np.where(np.arange(few) < few // 2, 1, 1e-3) * (1 + 1e-6 * rng.standard_normal(few)),
        "orthogonal": np.ones(few),
    }[kind]
    left, right = (np.linalg.qr(gaussian(size, size))[0] for size in (m, n))
    return ((left[:, :few] * values) @ right[:few]).astype(dtype)


def operands_of(shape: str, rng: np.random.Generator) -> tuple[str, list[psr.DistributedArray]]:
    """a, right-hand sides, and a positive definite matrix, in blocks of one size; and their description."""
    n, dtype, kind = int(rng.integers(2, 25)), "fdFD"[rng.integers(4)], KINDS[rng.integers(len(KINDS))]
    some = int(rng.integers(2, 25))
    m = {"m n": some, "tall": n + some // 3, "slender": 2 * n + some, "slabs": 4 * n + some}.get(shape, n)
    a = matrix_of(kind, m, n, dtype, rng).astype(np.result_type(dtype, float))
    b = matrix_of("random", m, int(rng.integers(1, 4)), dtype, rng)
    gram = a.conj().T @ a
    p = n * gram / np.trace(gram).real + np.eye(n) * (1e-3 if dtype in "fF" else 1e-8)
    if shape == "hermitian":
        a = (a + a.conj().T) / 2
    block = int(rng.integers(1, max(2, min(m, n) // 2)))
    whole = [matrix.astype(dtype) for matrix in (a, b, p)]
    return f"{kind} {m} x {n} {dtype}", [put(matrix, psr.Descriptor(matrix.shape, block, SQUARE)) for matrix in whole]


def spoil(array: Matrix, fault: str, seed: list[int]) -> None:
    """Change a local array in place."""
    rng, matrix = np.random.default_rng(seed), array.reshape(array.shape[0], -1)
    if array.size == 0:
        return
    (m, n), (i, j) = matrix.shape, (int(rng.integers(size)) for size in matrix.shape)
    digits = 8 if array.dtype.name in ("float32", "complex64") else 16
    if fault == "element":
        matrix[i, j] += matrix.dtype.type(np.abs(matrix).max() * 10.0 ** rng.uniform(-digits, 1))
    elif fault == "columns":
        matrix[:, [j, (j + 1) % n]] = matrix[:, [(j + 1) % n, j]]
    elif fault == "sign":
        matrix[i, j] *= -1
    elif fault == "nan":
        matrix[i, j] = np.nan
    else:
        matrix[i : i + max(1, m // 3), j : j + max(1, n // 3)] = 0


def excess_of(name: str, operands: list[psr.DistributedArray], fault: str, seed: list[int]) -> float:
    """By how many bounds the claims do not hold that the check makes; 0 if all hold."""
    call, module, function, place, _ = ROUTINES[name]
    original = getattr(module, function)

    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        result = original(*arguments, **keywords)
        of = result if place is None else getattr(result, place) if isinstance(place, str) else arguments[place]
        spoiled = getattr(of, "local", of)
        if fault and spoiled is not None and seed[-1] % SIZE == RANK:
            spoil(spoiled, fault, seed)
        return result

    claims = Claims()
    with (
        mock.patch.object(check, "_worst", claims),
        mock.patch.object(module, function, wrapped),
        np.errstate(all="ignore"),
    ):
        call(*operands)
    return WORLD.bcast(claims.excess)  # type: ignore[no-any-return]


def exactly() -> Any:
    """A context in which the vectors are all unit vectors, and errors norms over them."""

    def whole(difference: Matrix) -> Any:
        return np.sqrt((np.abs(difference) ** 2).sum())

    def rows(difference: Matrix) -> Any:
        return np.sqrt((np.abs(difference) ** 2).sum(axis=1))

    return mock.patch.multiple(check, gaussian=lambda size, *_: np.eye(size), length=whole, lengths=rows)


def main(cases: int, seed: int, file: Path | None) -> None:
    counts: Counter[str] = Counter()
    for number in range(cases):
        rng = np.random.default_rng([seed, number])
        name = list(ROUTINES)[number % len(ROUTINES)]
        fault = FAULTS[rng.integers(len(FAULTS))] if number // len(ROUTINES) % 2 else ""
        description, operands = operands_of(ROUTINES[name][-1], rng)
        drawn = [seed, number, int(rng.integers(SIZE))]
        try:
            excess = excess_of(name, operands, fault, drawn)
        except np.linalg.LinAlgError as error:
            told = "full rank" in str(error) or (fault == "nan" and "infs or NaNs" in str(error))
            assert told, f"{name} of {description}, case {seed} {number}: {error}"  # noqa: PT017
            continue
        if not fault:
            counts[f"{name}: right"] += 1
            assert excess == 0, f"{name} of {description}, case {seed} {number}, is refused: {excess} bounds"
            continue
        with exactly():
            bounds = excess_of(name, operands, fault, drawn)
        edge = next((f"below {edge}" for edge in EDGES if bounds < edge), "100 and more")
        counts[f"{name}: {edge}{', found' if excess else ''}"] += 1
        assert excess or bounds < 100, (
            f"{name} of {description}, case {seed} {number}, {fault}: {bounds} bounds are not found"
        )
    if RANK == 0:
        if file is not None:
            before = json.loads(file.read_text()) if file.exists() else {}
            file.write_text(json.dumps(dict(sorted((Counter(before) + counts).items())), indent=1) + "\n")
        print("OK", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if sys.argv[3:] else None)
