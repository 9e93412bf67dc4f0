"""The routines of `psr.scalapack` that `linalg` calls: on a grid of one process LAPACK's, through SciPy, else ScaLAPACK's.

Both take the same arguments and raise the same errors. LAPACK's need no BLACS context, and take whole, Fortran-ordered local
arrays on the process of the grid, which alone calls them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from .. import scalapack
from ..layout.array_arithmetic import Distributed
from ..scalapack.calls import ConvergenceError, SingularError, require_finite
from ..scalapack.matrix_operands import LIMIT, is_finite
from ..scalapack.table import NOT_POSITIVE, SINGULAR, Eigenpairs, SingularTriplets, Tridiagonal
from ..scalapack.workspace import checked_lapack_sizes, lapack_sizes
from .lapack_functions import lapack_function
from .solver_rules import FAMILY

R = TypeVar("R")
LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
TRANSPOSES = "NTC"
COMPLEX_NAMES = {
    "orgqr": "ungqr",
    "ormqr": "unmqr",
    "ormtr": "unmtr",
    "syevd": "heevd",
    "syevr": "heevr",
    "sygst": "hegst",
    "sytrd": "hetrd",
}


def fits_one_process(routine: str, shapes: Sequence[tuple[int, ...]], options: Mapping[str, Any]) -> bool:
    """Whether LAPACK, which counts in 32 bits, can count the elements of matrices, and its workspaces for the first of them."""
    elements = max(map(math.prod, shapes))
    if elements < LIMIT // 16:
        return True
    by_values = FAMILY[routine] == "svd" or options.get("method") == "svd"
    name = "gesdd" if by_values else "syevd" if FAMILY[routine] == "eigh" else ""
    sizes = [size for kind in "dz" for size in lapack_sizes(name, (*shapes[0], 1)[:2], kind).values()] if name else []
    return max([elements, *sizes]) < LIMIT


def on_one_process(function: Callable[..., R]) -> Callable[..., R]:
    """Decorate LAPACK's form of a routine: on larger grids the one of `psr.scalapack` of that name is called."""
    of_many = getattr(scalapack, function.__name__)

    @functools.wraps(function)
    def call(a: Distributed, *arguments: Any, **keywords: Any) -> R:
        if a.desc.grid.size > 1:
            result: R = of_many(a, *arguments, **keywords)
            return result
        return function(a, *arguments, **keywords)

    return call


def _local(matrix: Distributed) -> NDArray[Any]:
    local: NDArray[Any] | None = matrix.local
    assert local is not None, "LAPACK is called on the process of the grid alone"
    return local


@functools.cache
def _routine(name: str, letter: str) -> Callable[..., Any]:
    """A routine of `scipy.linalg.lapack` or `scipy.linalg.blas` by its name without the letter of the dtype."""
    from scipy.linalg import blas, lapack

    whole_name = _whole_name(name, letter)
    return getattr(lapack, whole_name, None) or getattr(blas, whole_name)  # type: ignore[no-any-return]


def _whole_name(name: str, letter: str) -> str:
    """A routine's name with the letter of the dtype."""
    root, *suffix = name.split("_")
    return "_".join([letter + (COMPLEX_NAMES.get(root, root) if letter in "cz" else root), *suffix])


def _call(name: str, array: NDArray[Any], *arguments: Any, **keywords: Any) -> tuple[Any, ...]:
    """Call a routine; its results but `info`, which is not negative, and `info`."""
    *results, info = _routine(name, LETTERS[array.dtype.char])(*arguments, **keywords)
    if info < 0:
        raise ValueError(f"{name} of LAPACK refuses its argument {-info}: please report it")
    return *results, info


def _name(name: str, array: NDArray[Any]) -> str:
    """The routine's name in errors."""
    return _whole_name(name, LETTERS[array.dtype.char])


def _work_size(name: str, array: NDArray[Any], *sizes: Any, least: int = 1, **keywords: Any) -> int:
    """The elements of workspace with which a routine is fast; the least with which it works, where the answer has wrapped."""
    size, *_ = _call(f"{name}_lwork", array, *sizes, **keywords)
    return max(least, int(np.nextafter(np.real(size), np.inf)) + 1)


def _store(result: NDArray[Any], into: NDArray[Any]) -> None:
    """Write a result into an array, unless the routine has worked there."""
    if result.ctypes.data != into.ctypes.data:
        into[...] = result


@on_one_process
def pxgetrf(a: Distributed) -> NDArray[np.intc]:
    """?getrf; the exchanges are counted from 1."""
    matrix = _local(a)
    if not matrix.size:
        return np.zeros(0, np.intc)
    factors, pivots, info = _call("getrf", matrix, matrix, overwrite_a=1)
    _store(factors, matrix)
    if info:
        if not np.isfinite(factors[info - 1, info - 1]):
            raise LinAlgError(f"{_name('getrf', matrix)}: pivot {info} (counted from 1) is not finite")
        raise SingularError(f"{_name('getrf', matrix)}: {SINGULAR.format(info=info)}")
    return np.asarray(pivots, np.intc) + np.intc(1)


@on_one_process
def pxgetrs(a: Distributed, pivots: NDArray[np.intc], b: Distributed, trans: str = "N") -> None:
    """?getrs."""
    matrix, sides = _local(a), _local(b)
    if sides.size:
        rows = pivots[: matrix.shape[0]] - 1
        result, _ = _call("getrs", matrix, matrix, rows, sides, trans=TRANSPOSES.index(trans), overwrite_b=1)
        _store(result, sides)


@on_one_process
def pxgetri(a: Distributed, pivots: NDArray[np.intc]) -> None:
    """?getri."""
    matrix = _local(a)
    if not matrix.size:
        return
    work = _work_size("getri", matrix, matrix.shape[0])
    result, info = _call("getri", matrix, matrix, pivots[: matrix.shape[0]] - 1, lwork=work, overwrite_lu=1)
    if info:
        raise SingularError(f"{_name('getri', matrix)}: {SINGULAR.format(info=info)}")
    _store(result, matrix)


@on_one_process
def pxpotrf(a: Distributed, uplo: str = "L") -> None:
    """?potrf."""
    matrix = _local(a)
    if not matrix.size:
        return
    factor, info = _call("potrf", matrix, matrix, lower=uplo == "L", clean=0, overwrite_a=1)
    if info:
        raise LinAlgError(f"{_name('potrf', matrix)}: {NOT_POSITIVE.format(info=info)}")
    _store(factor, matrix)


@on_one_process
def pxpotrs(a: Distributed, b: Distributed, uplo: str = "L") -> None:
    """?potrs."""
    matrix, sides = _local(a), _local(b)
    if sides.size:
        result, _ = _call("potrs", matrix, matrix, sides, lower=uplo == "L", overwrite_b=1)
        _store(result, sides)


def _by_triangle(name: str, a: Distributed, b: Distributed, uplo: str, trans: str) -> None:
    matrix, sides = _local(a), _local(b)
    if sides.size:
        multiply = _routine(name, LETTERS[matrix.dtype.char])
        options = {"lower": uplo == "L", "trans_a": TRANSPOSES.index(trans), "overwrite_b": 1}
        _store(multiply(1, matrix, sides, **options), sides)


@on_one_process
def pxtrsm(a: Distributed, b: Distributed, uplo: str = "L", trans: str = "N") -> None:
    """?trsm."""
    _by_triangle("trsm", a, b, uplo, trans)


@on_one_process
def pxtrmm(a: Distributed, b: Distributed, uplo: str = "L", trans: str = "N") -> None:
    """?trmm."""
    _by_triangle("trmm", a, b, uplo, trans)


@on_one_process
def pxgemm(
    a: Distributed,
    b: Distributed,
    c: Distributed,
    *,
    trans_a: str = "N",
    trans_b: str = "N",
    alpha: complex = 1,
    beta: complex = 0,
) -> None:
    """?gemm."""
    left, right, product = _local(a), _local(b), _local(c)
    if not product.size:
        return
    if not left.size:  # an empty sum
        product *= product.dtype.type(beta)
        return
    letters = {"trans_a": TRANSPOSES.index(trans_a), "trans_b": TRANSPOSES.index(trans_b)}
    multiply = _routine("gemm", LETTERS[product.dtype.char])
    if beta == 0:
        _store(multiply(alpha, left, right, **letters), product)
    else:
        _store(multiply(alpha, left, right, beta, product, overwrite_c=1, **letters), product)


@on_one_process
def pxgeqrf(a: Distributed) -> NDArray[Any]:
    """?geqrf."""
    matrix = _local(a)
    if not matrix.size:
        return np.zeros(0, matrix.dtype)
    work = _work_size("geqrf", matrix, *matrix.shape, least=matrix.shape[1])
    factors, tau, _, _ = _call("geqrf", matrix, matrix, lwork=work, overwrite_a=1)
    _store(factors, matrix)
    return np.asarray(tau)


@on_one_process
def pxorgqr(a: Distributed, tau: NDArray[Any], columns: int, reflectors: int) -> None:
    """?orgqr or ?ungqr."""
    matrix = _local(a)[:, :columns]
    if not matrix.size:
        return
    if not reflectors:
        matrix[...] = np.eye(*matrix.shape, dtype=matrix.dtype)
        return
    query = _call("orgqr", matrix, matrix, tau[:reflectors], lwork=-1)[1]
    result, _, _ = _call("orgqr", matrix, matrix, tau[:reflectors], lwork=int(query[0].real) + 1, overwrite_a=1)
    _store(result, matrix)


@on_one_process
def pxgesvd(a: Distributed, vectors: bool = True, *, complete: bool = False, driver: str = "gesdd") -> SingularTriplets:
    """?gesdd or ?gesvd; with `complete` U and V^H are square."""
    matrix = _local(a)
    m, n = matrix.shape
    if not min(m, n):
        values, square = np.zeros(0, matrix.dtype).real, [np.eye(k, k if complete else 0, dtype=matrix.dtype) for k in (m, n)]
        return SingularTriplets(square[0], values, square[1].T) if vectors else SingularTriplets(None, values, None)
    require_finite(_name(driver, matrix), is_finite(a.desc, matrix))
    options = {"compute_uv": int(vectors), "full_matrices": int(complete)}
    least = checked_lapack_sizes(driver, (m, n), LETTERS[matrix.dtype.char], vectors)["work"]
    work = _work_size(driver, matrix, m, n, least=least, **options)
    left, values, right, info = _call(driver, matrix, matrix, lwork=work, overwrite_a=1, **options)
    if info:
        raise ConvergenceError(f"{_name(driver, matrix)}: singular values did not converge (INFO = {info})")
    return SingularTriplets(left, values, right) if vectors else SingularTriplets(None, values, None)


@on_one_process
def pxgels(a: Distributed, b: Distributed) -> None:
    """?gels. A matrix that is not of full rank has a zero on the diagonal of its factor, which the caller finds."""
    matrix, sides = _local(a), _local(b)
    if not matrix.size or not sides.size:
        sides[: matrix.shape[1]] = 0  # the solution; the rest is the residual
        return
    few = min(matrix.shape)
    work = _work_size("gels", matrix, *matrix.shape, sides.shape[1], least=few + max(few, sides.shape[1]))
    factors, solution, _ = _call("gels", matrix, matrix, sides, lwork=work, overwrite_a=1, overwrite_b=1)
    _store(factors, matrix)
    _store(solution, sides)


def _eigenpairs(a: Distributed, uplo: str, vectors: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    matrix = _local(a)
    if not matrix.size:
        return np.zeros(0, matrix.dtype).real, matrix
    require_finite(_name("syevd", matrix), is_finite(a.desc, matrix, uplo))
    least = checked_lapack_sizes("syevd", matrix.shape, LETTERS[matrix.dtype.char], vectors)
    sizes = _call("syevd_lwork", matrix, matrix.shape[0], compute_v=int(vectors), lower=uplo == "L")[:-1]
    lengths = {
        f"l{work}": max(least[work], int(np.real(size)))
        for work, size in zip(("work", "iwork", "rwork"), sizes, strict=False)
    }
    options = {"compute_v": int(vectors), "lower": uplo == "L", "overwrite_a": 1}
    values, found, info = _call("syevd", matrix, matrix, **options, **lengths)
    if info:
        raise ConvergenceError(f"{_name('syevd', matrix)}: an eigenvalue did not converge (INFO = {info})")
    return values, found


@on_one_process
def pxsyev(a: Distributed, uplo: str = "L") -> NDArray[Any]:
    """?syevd or ?heevd for values alone."""
    return _eigenpairs(a, uplo, False)[0]


@on_one_process
def pxsyevd(a: Distributed, uplo: str = "L") -> Eigenpairs:
    """?syevd or ?heevd."""
    return Eigenpairs(*_eigenpairs(a, uplo, True))


@on_one_process
def pxsytrd(a: Distributed, uplo: str = "L") -> Tridiagonal:
    """?sytrd or ?hetrd."""
    matrix = _local(a)
    n = matrix.shape[0]
    if not n:
        nothing = np.zeros(0, matrix.dtype)
        return Tridiagonal(nothing.real, nothing.real, nothing, matrix, uplo)
    options = {"lower": uplo == "L", "lwork": _work_size("sytrd", matrix, n, lower=uplo == "L"), "overwrite_a": 1}
    reflectors, diagonal, beside, tau, _ = _call("sytrd", matrix, matrix, **options)
    off_diagonal = np.zeros_like(diagonal)
    off_diagonal[slice(0, n - 1) if uplo == "L" else slice(1, n)] = beside
    return Tridiagonal(diagonal, off_diagonal, tau, reflectors, uplo)


@on_one_process
def pxormtr(a: Distributed, tau: NDArray[Any], b: Distributed, uplo: str = "L", trans: str = "N") -> None:
    """?ormtr or ?unmtr."""
    reflectors, matrix = _local(a), _local(b)
    n, count = matrix.shape
    if n < 2 or not count:
        return
    work, info = np.zeros(1, matrix.dtype), np.zeros(1, np.intc)
    multiply = lapack_function(_name("ormtr", matrix))
    arguments = ("L", uplo, trans, n, count, reflectors, n, tau, matrix, n)
    multiply(*arguments, work, -1, info)
    work = np.zeros(max(1, int(np.nextafter(work[0].real, np.inf)) + 1), matrix.dtype)
    multiply(*arguments, work, work.size, info)


@on_one_process
def pxstedc(a: Distributed, diagonal: NDArray[Any], off_diagonal: NDArray[Any]) -> NDArray[Any]:
    """?stedc for the eigenvectors of a tridiagonal matrix, with its values; `a` is overwritten by the vectors."""
    matrix = _local(a)
    n = diagonal.size
    if not n:
        return diagonal
    require_finite(_name("stedc", matrix), *(bool(np.isfinite(part).all()) for part in (diagonal, off_diagonal)))
    least = checked_lapack_sizes("stedc", matrix.shape, LETTERS[matrix.dtype.char])
    values, beside, info = diagonal.copy(), np.append(off_diagonal, matrix.dtype.type(0)), np.zeros(1, np.intc)
    work, integers = np.zeros(1, matrix.dtype), np.zeros(1, np.intc)
    solve = lapack_function(_name("stedc", matrix))
    solve("I", n, values, beside, matrix, n, work, -1, integers, -1, info)
    work = np.zeros(max(least["work"], int(work[0]) + 1), matrix.dtype)
    integers = np.zeros(max(least["iwork"], integers[0]), np.intc)
    solve("I", n, values, beside, matrix, n, work, work.size, integers, integers.size, info)
    if info[0]:
        raise ConvergenceError(f"{_name('stedc', matrix)}: an eigenvalue did not converge (INFO = {info[0]})")
    return values


@on_one_process
def pxsygst(a: Distributed, b: Distributed, uplo: str = "L", *, problem: int = 1) -> float:
    """?sygst or ?hegst."""
    matrix, factor = _local(a), _local(b)
    if matrix.size:
        result, _ = _call("sygst", matrix, matrix, factor, itype=problem, lower=uplo == "L", overwrite_a=1)
        _store(result, matrix)
    return 1.0
