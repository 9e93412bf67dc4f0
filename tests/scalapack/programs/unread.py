"""Garbage in what routines of linalg do not read changes no result. Arguments: first case, cases.

Garbage is outside the window of a sub-array, in the other triangle, in imaginary parts of a Hermitian matrix's diagonal, and
in rows of padding; it is huge, denormal, infinite or NaN. The results are beside those of NumPy and SciPy for the clean matrix,
whose elements are of size 1 or far smaller.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.linalg
from linalg_cases import COLUMNS, LAST, LINE, RANK, SIZE, SQUARE, WORLD, copied, put, random, slabs, whole_of
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist import linalg
from pyscalapack_redist.linalg import attempt, eigenpairs, matrix_parts, operands, place, systems

Matrix = NDArray[Any]
N = 11
HUGE = {"f": 1e36, "F": 1e36, "d": 1e300, "D": 1e300}
SCALES = {"f": (1, 1e-6, 1e-10), "F": (1, 1e-6, 1e-10), "d": (1, 1e-9, 1e-24), "D": (1, 1e-9, 1e-24)}
GARBAGE = ("huge", "fill value", "denormal", "nan", "inf", "mixed")


class Case:
    """Random choices of a case, equal on all ranks, and its operands."""

    def __init__(self, number: int) -> None:
        self.rng = np.random.default_rng([20260, number])
        self.routine = list(ROUTINES)[number % len(ROUTINES)]
        self.dtype = "fdFD"[number // len(ROUTINES) % 4]
        self.garbage = GARBAGE[self.rng.integers(len(GARBAGE))]
        self.scale = SCALES[self.dtype][self.rng.integers(3)]
        self.lower = bool(self.rng.integers(2))
        self.overwrite = bool(self.rng.integers(2))
        self.arrays: list[
            tuple[Matrix, Any, bytes]
        ] = []  # local arrays with their padding, and what is written of them
        self.layouts: list[str] = []

    def random(self, *shape: int) -> Matrix:
        return (self.scale * random(shape, self.dtype, self.rng)).astype(self.dtype)

    def regular(self) -> Matrix:
        matrix = self.random(N, N) + 8 * self.scale * np.eye(N)
        return matrix.astype(self.dtype)

    def hermitian(self, shift: float = 0) -> Matrix:
        half = random((N, N), self.dtype, self.rng)
        return (self.scale * ((half + half.conj().T) / 2 + shift * np.eye(N))).astype(self.dtype)

    def fill(self, array: Matrix, where: Any = ...) -> None:
        """Write garbage, of real and of imaginary parts."""
        real = np.finfo(array.dtype)
        values = {
            "huge": [HUGE[self.dtype], -HUGE[self.dtype]],
            "fill value": [9.96921e36],
            "denormal": [real.smallest_subnormal],
            "nan": [np.nan],
            "inf": [np.inf, -np.inf],
        }
        possible = values.get(self.garbage) or [number for numbers in values.values() for number in numbers]
        garbage = np.resize(np.array(possible, real.dtype), array.shape)
        array.real[where] = garbage[where]
        if array.dtype.kind == "c":
            array.imag[where] = garbage[where]

    def stored(self, whole: Matrix, part: str) -> Matrix:
        """A matrix with garbage outside a part of it."""
        stored = whole.copy()
        if part:
            self.fill(
                stored, ~np.tri(*whole.shape, dtype=bool) if part[-1] == "L" else np.tri(*whole.shape, k=-1, dtype=bool)
            )
        if part[:1] == "H" and whole.dtype.kind == "c":
            imaginary = np.empty(len(whole), whole.real.dtype)
            self.fill(imaginary)
            stored.imag[np.diag_indices(len(whole))] = imaginary
        return stored

    def put(self, whole: Matrix, part: str = "", overwrite: bool = False) -> psr.DistributedArray:
        """A distributed array in a layout that is drawn, with garbage in all that is not read."""
        stored, (m, n) = self.stored(whole, part), (*whole.shape, 1)[:2]
        if whole.ndim == 1:
            possible = [slabs((m,)), psr.Descriptor((m + 5,), 2, LINE)[3 : m + 3]]
        else:
            fits = psr.Descriptor((m, n), 3, SQUARE)
            possible = [
                fits,
                psr.Descriptor((m, n), 3, SQUARE, lld=fits.local_shape[0] + 3),
                psr.Descriptor((m + 5, n + 4), 3, SQUARE)[3 : m + 3, 3 : n + 3],
                psr.Descriptor((m + 4, n + 2), None, COLUMNS)[1 : m + 1, 2 : n + 2],
                psr.Descriptor((n + 3, m + 1), 2, SQUARE)[2 : n + 2, 1 : m + 1].T,
                psr.Descriptor((m + 1, n + 1), "balanced", LAST)[1:, 1:],
                copied((m, n)),
            ]
        desc = possible[self.rng.integers(len(possible))]
        self.layouts.append(f"{desc!r}")
        shape = desc.local_shape
        if 0 not in shape:
            shape = (max(desc.lld, shape[0]) if desc.parent is None else shape[0], *shape[1:])
        local = np.empty(shape, self.dtype, order="FC"[self.rng.integers(2)])  # type: ignore[call-overload]
        self.fill(local)
        window: Any = ...
        if desc.coords is not None:
            mesh = np.ix_(*(desc.global_indices(k) for k in range(desc.ndim)))
            starts = [axis.local_start(p) for axis, p in zip(desc.distributions, desc.coords, strict=True)]
            window = tuple(slice(i, i + indices.size) for i, indices in zip(starts, mesh, strict=True))
            local[window] = stored[mesh]
        self.arrays.append((local, window if overwrite and self.overwrite else None, local.tobytes()))
        return psr.DistributedArray(desc, local if desc.coords is not None else None)

    @contextlib.contextmanager
    def untouched(self) -> Iterator[None]:
        """All bytes of the operands stay, but for those in the window of an operand that may be overwritten."""
        yield
        for local, written, before in self.arrays:
            old = np.frombuffer(before, local.dtype).reshape(local.shape)
            new = local.copy()
            if written is not None:
                new[written] = old[written]
            assert new.tobytes() == before, "an element that is not read has changed"


def options_of(case: Case) -> dict[str, Any]:
    return {"overwrite_a": case.overwrite}


def solve(case: Case) -> Any:
    a, b = case.regular(), case.random(N, *[3, 2][: case.rng.integers(2)])
    x = linalg.solve(case.put(a, overwrite=True), case.put(b), **options_of(case))
    yield whole_of(x), np.linalg.solve(a, b)
    a, name = case.hermitian(9), ["pos", "her"][case.rng.integers(2)]
    part = "HL" if case.lower else "HU"
    x = linalg.solve(case.put(a, part, overwrite=True), case.put(b), assume_a=name, lower=case.lower, **options_of(case))
    yield whole_of(x), np.linalg.solve(a, b)
    x = linalg.inv(case.put(a, part, overwrite=True), assume_a=name, lower=case.lower, **options_of(case))
    yield whole_of(x), np.linalg.inv(a)


def lu_solve(case: Case) -> Any:
    a, b, trans = case.regular(), case.random(N, 3), int(case.rng.integers(3))
    factors, pivots = linalg.lu_factor(case.put(a, overwrite=True), **options_of(case))
    yield whole_of(factors), scipy.linalg.lu_factor(a)[0]
    x = linalg.lu_solve((case.put(whole_of(factors)), pivots), case.put(b), trans)
    yield whole_of(x), np.linalg.solve((a, a.T, a.conj().T)[trans], b)


def inv(case: Case) -> Any:
    a = case.regular()
    yield whole_of(linalg.inv(case.put(a, overwrite=True), **options_of(case))), np.linalg.inv(a)


def determinants(case: Case) -> Any:
    a = case.regular()
    yield from zip(linalg.slogdet(case.put(a)), np.linalg.slogdet(a), strict=True)
    case.scale = 1
    a = case.regular()
    yield linalg.det(case.put(a)), np.linalg.det(a)


def cholesky(case: Case) -> Any:
    a, part = case.hermitian(9), "HL" if case.lower else "HU"
    factor = linalg.cholesky(case.put(a, part, overwrite=True), case.lower, **options_of(case))
    expected = scipy.linalg.cholesky(a, case.lower)
    yield whole_of(factor), expected
    c, lower = linalg.cho_factor(case.put(a, part, overwrite=True), case.lower, **options_of(case))
    yield (np.tril if lower else np.triu)(whole_of(c)), expected
    b = case.random(N, 3)
    x = linalg.cho_solve((case.put(whole_of(factor), part[1]), lower), case.put(b))
    yield whole_of(x), np.linalg.solve(a, b)
    x = linalg.solve_triangular(case.put(whole_of(factor), part[1]), case.put(b), lower=lower)
    yield whole_of(x), np.linalg.solve(expected, b)


def eigenvalues(case: Case) -> Any:
    a, part = case.hermitian(), "HL" if case.lower else "HU"
    expected = np.linalg.eigvalsh(a)
    yield linalg.eigvalsh(case.put(a, part, overwrite=True), "UL"[case.lower], **options_of(case)), expected
    result = linalg.eigh(case.put(a, part), lower=case.lower, eigvals_only=True)
    yield result, expected


def eigh(case: Case) -> Any:
    a, part = case.hermitian(), "HL" if case.lower else "HU"
    w, v = linalg.eigh(case.put(a, part, overwrite=True), lower=case.lower, **options_of(case))
    v = whole_of(v)
    yield w, np.linalg.eigvalsh(a)
    yield (v * w) @ v.conj().T, a
    yield v.conj().T @ v, np.eye(N, dtype=a.dtype)


def generalized(case: Case) -> Any:
    a, b, part = case.hermitian(), case.hermitian(9), "HL" if case.lower else "HU"
    kind, values = int(case.rng.integers(1, 4)), bool(case.rng.integers(2))
    operands = case.put(a, part, overwrite=True), case.put(b, part)
    result = linalg.eigh(*operands, lower=case.lower, type=kind, eigvals_only=values, **options_of(case))
    w = result if values else result.eigenvalues
    if case.scale == 1:
        yield w, scipy.linalg.eigvalsh(a, b, type=kind)
    if not values:
        x = whole_of(result.eigenvectors)
        left = {1: a @ x, 2: a @ (b @ x), 3: b @ (a @ x)}[kind]
        yield left, ((b @ x if kind == 1 else x) * w)


def general(case: Case) -> Any:
    """Of a sub-array, in what is not read of it."""
    a = case.regular()
    w, v = linalg.eig(case.put(a, overwrite=True), **options_of(case))
    yield a @ whole_of(v), whole_of(v) * w
    t, z = (whole_of(factor) for factor in linalg.schur(case.put(a, overwrite=True), "complex", **options_of(case)))
    yield z @ t @ z.conj().T, a
    x = whole_of(linalg.sqrtm(case.put(a, overwrite=True), **options_of(case)))
    yield x @ x, a


def functions(case: Case) -> Any:
    a, part = case.hermitian(9), "HL" if case.lower else "HU"
    options: dict[str, Any] = {"assume_a": "her", "lower": case.lower, **options_of(case)}
    x = whole_of(linalg.sqrtm(case.put(a, part, overwrite=True), **options))
    yield x @ x, a
    yield whole_of(linalg.funm(case.put(a, part, overwrite=True), lambda w: 2 * w, **options)), 2 * a


def qr(case: Case) -> Any:
    a = case.random(N, 7) if case.lower else case.random(7, N)
    q, r = linalg.qr(case.put(a, overwrite=True), **options_of(case))
    yield whole_of(q) @ whole_of(r), a
    r = whole_of(linalg.qr(case.put(a), "r"))
    yield np.abs(r), np.abs(np.linalg.qr(a, "r"))


def svd(case: Case) -> Any:
    a = case.random(N, 7) if case.lower else case.random(7, N)
    u, s, vh = linalg.svd(case.put(a, overwrite=True), False, **options_of(case))
    yield s, np.linalg.svd(a, compute_uv=False)
    yield (whole_of(u) * s) @ whole_of(vh), a


def by_values(case: Case) -> Any:
    a = case.random(N, 7) if case.lower else case.random(7, N)
    expected = np.linalg.svd(a, compute_uv=False)
    yield linalg.svd(case.put(a), compute_uv=False), expected
    assert linalg.matrix_rank(case.put(a)) == 7
    yield linalg.cond(case.put(a)), expected[0] / expected[-1]
    yield whole_of(linalg.pinv(case.put(a, overwrite=True), **options_of(case))), np.linalg.pinv(a)


def norm(case: Case) -> Any:
    a = case.random(N, 7)
    for order in (None, "fro", 1, np.inf, 2, -2, "nuc"):
        yield linalg.norm(case.put(a), order), np.linalg.norm(a, order)
    for axis in (0, 1):
        yield linalg.norm(case.put(a), axis=axis), np.linalg.norm(a, axis=axis)
    vector = case.random(N)
    yield linalg.norm(case.put(vector)), np.linalg.norm(vector)
    a = case.regular()
    for order in ("fro", 1, np.inf):
        yield linalg.cond(case.put(a), order), np.linalg.cond(a, order)


def lstsq(case: Case) -> Any:
    a, b = case.random(N, 5) if case.lower else case.random(5, N), case.random(N if case.lower else 5, 3)
    method = ("qr", "svd")[case.rng.integers(2)]
    x = linalg.lstsq(case.put(a, overwrite=True), case.put(b), method=method, **options_of(case)).x
    yield whole_of(x), np.linalg.lstsq(a, b, rcond=None)[0]


def matmul(case: Case) -> Any:
    a, b = case.random(N, 7), case.random(7, *[3, 2][: case.rng.integers(2)])
    yield whole_of(case.put(a) @ case.put(b)), a @ b


ROUTINES: dict[str, Callable[[Case], Iterator[tuple[Any, Any]]]] = {
    function.__name__: function
    for function in (
        *(solve, lu_solve, inv, determinants, cholesky, eigenvalues, eigh, generalized),
        *(qr, svd, by_values, norm, lstsq, matmul, general, functions),
    )
}


def run(first: int, count: int) -> None:
    for number in range(first, first + count):
        case = Case(number)
        try:
            with case.untouched():
                for result, expected in ROUTINES[case.routine](case):
                    size = np.abs(expected).max()
                    error = np.abs(np.asarray(result) - expected).max() / size
                    assert error < 1e3 * np.finfo(case.dtype).eps, f"{error:.2g} wrong"
        except BaseException as error:
            error.add_note(
                f"case {number}: {case.routine}, {case.dtype}, {case.garbage} beside {case.scale}, {case.layouts}"
            )
            raise


@contextlib.contextmanager
def wrong_once(module: Any, function: str, place: int | str) -> Iterator[None]:
    """The result of a routine is wrong in the first attempt; it is given zeros for what is not read."""
    original, once, attempts = getattr(module, function), attempt.Problem._once, []

    def wrapped(*arguments: Any) -> Any:
        rows, columns, local = matrix_parts.local_elements(arguments[0])
        unread = np.less if arguments[1] == "L" else np.greater
        assert not local[unread(rows[:, None], columns)].any()
        result = original(*arguments)
        spoiled = getattr(result, place) if isinstance(place, str) else arguments[place].local
        if len(attempts) == 1 and spoiled is not None:
            spoiled[...] *= 2
        return result

    def counted(self: Any, work: Callable[[], Any]) -> Any:
        attempts.append(None)
        return once(self, work)

    with (
        mock.patch.object(module, function, wrapped),
        mock.patch.object(attempt.Problem, "_once", counted),
        warnings.catch_warnings(record=True, action="always") as caught,
    ):
        yield
    assert len(attempts) == 2
    assert [str(warning.message).partition(" is off by")[1] for warning in caught] == [" is off by"]


def second_attempts() -> None:
    """The second attempt starts from the operand as the user gave it."""
    for number in range(4):
        case = Case(number)
        case.dtype, case.garbage, case.scale = "fdFD"[number % 4], GARBAGE[number % 5], 1
        a, part = case.hermitian(9), "HL" if case.lower else "HU"
        with case.untouched(), wrong_once(systems, "pxpotrf", 0):
            factor = linalg.cholesky(case.put(a, part), case.lower)
        expected = scipy.linalg.cholesky(a, case.lower)
        assert np.abs(whole_of(factor) - expected).max() < 1e3 * np.finfo(case.dtype).eps
        with case.untouched(), wrong_once(eigenpairs, "pxsyevd", "vectors"):
            w = linalg.eigh(case.put(a, part), lower=case.lower).eigenvalues
        assert np.abs(w - np.linalg.eigvalsh(a)).max() < 1e4 * np.finfo(case.dtype).eps


def planted() -> None:
    """The checks see a scale that is not the operand's, and an operand that is moved wrongly."""
    desc, a = psr.Descriptor((N, N), 3, SQUARE), random((N, N), "d")
    elsewhere = psr.Descriptor((N, N), (2, 5), SQUARE)
    a = a + a.T + 9 * np.eye(N)
    sides = put(random((N, 2), "d"), slabs((N, 2)))
    calls: list[Callable[[Any], Any]] = [
        *(linalg.svd, linalg.eigh, linalg.eigvalsh, linalg.pinv, linalg.matrix_rank, linalg.cond),
        lambda a: linalg.svd(a, compute_uv=False),
        lambda a: linalg.norm(a, 2),
        lambda a: linalg.lstsq(a, sides),
        lambda a: linalg.lstsq(a, sides, method="svd"),
    ]
    scales = (
        (1e-24, 1e300),
        (1, 1e60),
        (1e60, 1),
        (1e-60, 1),
        (1e-60, 1e-300),
    )  # of the matrix, and what it is taken for
    for k, call in enumerate(calls):
        for size, wrong in (scales[k % 5], scales[(k + 2) % 5]):
            refused = pytest.raises(
                np.linalg.LinAlgError, match=r"the scale of a is that of its norm|full rank|is off by|has infs or NaNs"
            )
            with mock.patch.object(operands, "magnitude", lambda *_, wrong=wrong: wrong), refused:
                call(put(size * a, desc))
    calls += [
        *(linalg.inv, linalg.lu_factor, linalg.cholesky, linalg.cho_factor, linalg.qr, linalg.slogdet, linalg.det),
        *(lambda a: linalg.solve(a, sides), lambda a: linalg.qr(a, "r")),
        lambda a: linalg.eigh(a, a),
        lambda a: linalg.cho_solve((a, True), sides),
        lambda a: linalg.lu_solve((a, np.arange(N)), sides),
    ]
    original = place.redistribute

    def spoiled(call: Any, name: str, *arguments: Any, **options: Any) -> Any:
        local = original(call, name, *arguments, **options)
        if name in ("a", "c", "lu") and local is not None and local.size and arguments[1].coords == (0, 0):
            local[0, 0] *= 1.5
        return local

    for call in calls if SIZE > 1 else ():  # else nothing is moved
        refused = pytest.raises(np.linalg.LinAlgError, match=r"is off by .* times what rounding comes to")
        with mock.patch.object(place, "redistribute", spoiled), refused:
            call(put(a, elsewhere))


def raising(dtype: str, scale: float) -> None:
    """NumPy's errors, where the user has asked for them, are not those of routines."""
    desc, matrix = psr.Descriptor((N, N), 3, SQUARE), random((N, N), dtype) + 9 * np.eye(N, dtype=dtype)
    a, sides = put((matrix * scale).astype(dtype), desc), put(random((N, 2), dtype), slabs((N, 2)))
    singular, nan = put(np.diag(np.arange(N)).astype(dtype), desc), put(np.full((N, N), np.nan, dtype), desc)
    calls: list[Callable[[], Any]] = [
        *(functools.partial(linalg.norm, a, order) for order in (None, 1, np.inf, 2, -2, "nuc")),
        *(functools.partial(linalg.norm, a, axis=axis) for axis in (0, 1)),
        *(functools.partial(routine, a) for routine in (linalg.det, linalg.slogdet, linalg.cond)),
        lambda: linalg.lstsq(a, sides).x.local,
        *(functools.partial(linalg.cond, singular, order) for order in (2, 1)),
        *(functools.partial(routine, singular) for routine in (linalg.det, linalg.slogdet)),
        *(functools.partial(routine, nan) for routine in (linalg.det, linalg.slogdet, linalg.norm)),
        lambda: linalg.norm(nan, 1),
    ]
    for number, call in enumerate(calls):
        expected = call()
        with np.errstate(all="raise"):
            result = call()
        assert np.array_equal(result, expected, equal_nan=True), (dtype, scale, number)


def main() -> None:
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ResourceWarning)
    run(*map(int, sys.argv[1:]))
    second_attempts()
    planted()
    for dtype, scale in (("f", 1e30), ("d", 1e-300), ("F", 1e-30), ("D", 1e300)):
        raising(dtype, scale)
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
